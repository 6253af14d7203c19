//! The channels between the first domains, as a board of pages on which each core writes.

use super::checks::{ms, now, sleep};
use core::sync::atomic::{AtomicU64, Ordering};
use libos::abi::slots::CHANNELS;
use libos::runtime::Boot;
use libos::vspace::RW;
use libos::{domain, Cap, Status, PAGE};
use testkit::{check, good, Machine, Outcome};

/// How often something is sent round.
const ROUNDS: u64 = 3;
/// Seconds that all cores together have for one thing.
const PATIENCE: u64 = 60;

/// One core's page for another.
struct Sheet {
    state: AtomicU64,
    ram_base: AtomicU64,
    ram_bytes: AtomicU64,
    node: AtomicU64,
    id: AtomicU64,
    /// Counts up; the answer is the same number.
    round: AtomicU64,
    /// Lines written to the log.
    lines: AtomicU64,
}

/// Values of [`Sheet::state`].
const WELL: u64 = 1;
const FAILED: u64 = 2;

/// All pages.
pub struct Board {
    base: u64,
    cores: u64,
    me: u64,
}

impl Board {
    /// Maps the channels.
    pub fn map(boot: &Boot) -> Result<Board, Status> {
        let bytes = boot.info.channel_bytes;
        let cores = u64::from(boot.info.cores);
        if bytes != cores * cores * PAGE || CHANNELS.identify()?.bytes != bytes {
            return Err(Status::OutOfRange);
        }
        let base = domain::with(|domain| domain.map(CHANNELS.into(), 0, bytes, RW))?;
        Ok(Board { base, cores, me: u64::from(boot.info.core) })
    }

    fn sheet(&self, from: u64, to: u64) -> &Sheet {
        let page = self.base + (from * self.cores + to) * PAGE;
        // SAFETY: mapped by `map`, for good; all parts are atomic, and zero at first.
        unsafe { &*(page as *const Sheet) }
    }

    /// Says that all is well with this core.
    pub fn report(&self, machine: &Machine, id: u64) {
        let sheet = self.sheet(self.me, 0);
        let node = machine.ram.identify().map_or(u64::MAX, |what| u64::from(what.attrs.node()));
        sheet.ram_base.store(machine.ram_base, Ordering::Relaxed);
        sheet.ram_bytes.store(machine.ram_bytes, Ordering::Relaxed);
        sheet.node.store(node, Ordering::Relaxed);
        sheet.id.store(id, Ordering::Relaxed);
        sheet.state.store(WELL, Ordering::Release);
    }

    /// Says how many lines this core has written to the log.
    pub fn count_line(&self, lines: u64) {
        self.sheet(self.me, 0).lines.store(lines, Ordering::Relaxed);
    }

    /// Has every core written so many?
    pub fn all_have_written(&self, lines: u64) -> bool {
        (0..self.cores).all(|core| self.sheet(core, 0).lines.load(Ordering::Relaxed) >= lines)
    }

    /// Says that something is wrong with it.
    pub fn report_failure(&self) {
        self.sheet(self.me, 0).state.store(FAILED, Ordering::Release);
    }

    /// Answers what core 0 sends round.
    pub fn echo(&self) {
        let (from, to) = (self.sheet(0, self.me), self.sheet(self.me, 0));
        for round in 1..=ROUNDS {
            while from.round.load(Ordering::Acquire) < round {
                if sleep(ms()).is_err() {
                    return;
                }
            }
            to.round.store(round, Ordering::Release);
        }
    }

    fn others(&self, boot: &Boot) -> impl Iterator<Item = u64> {
        let set = boot.info.first_domains;
        (1..self.cores).filter(move |core| set >> core & 1 != 0)
    }

    /// Waits until `done`, for all other cores.
    fn wait_for_all(&self, boot: &Boot, done: impl Fn(&Sheet) -> bool) -> Outcome {
        let end = now() + PATIENCE * 1000 * ms();
        while !self.others(boot).all(|core| done(self.sheet(core, 0))) {
            check!(now() < end);
            good!(sleep(ms()));
        }
        Ok(())
    }

    /// Every core comes, and all is well with it.
    pub fn all_well(&self, boot: &Boot) -> Outcome {
        check!(boot.info.first_domains.count_ones() == boot.info.cores);
        self.wait_for_all(boot, |sheet| sheet.state.load(Ordering::Acquire) != 0)?;
        let well = |core| self.sheet(core, 0).state.load(Ordering::Acquire) == WELL;
        check!(self.others(boot).all(well));
        Ok(())
    }

    fn memory(&self, core: u64) -> core::ops::Range<u64> {
        let sheet = self.sheet(core, 0);
        let base = sheet.ram_base.load(Ordering::Relaxed);
        base..base + sheet.ram_bytes.load(Ordering::Relaxed)
    }

    /// No two cores have the same memory.
    pub fn memory_is_apart(&self, machine: &Machine) -> Outcome {
        let apart = |a: &core::ops::Range<u64>, b: &core::ops::Range<u64>| {
            !a.is_empty() && !b.is_empty() && (a.end <= b.start || b.end <= a.start)
        };
        for a in self.others(&machine.boot) {
            let of_a = self.memory(a);
            let mut lower = self.others(&machine.boot).take_while(|&b| b < a);
            check!(lower.all(|b| apart(&of_a, &self.memory(b))));
            let homes = (0..machine.boot.info.ram_caps)
                .map(|n| libos::CapAddr::new(libos::abi::slots::BOOT_RAM_L1, n).identify());
            for home in homes {
                let home = good!(home);
                check!(apart(&of_a, &(home.base..home.base + home.bytes)));
            }
        }
        Ok(())
    }

    /// Every core has memory of its own node.
    pub fn memory_is_near(&self, boot: &Boot) -> Outcome {
        let near = |core: u64| {
            let node = self.sheet(core, 0).node.load(Ordering::Relaxed);
            boot.info.nodes.get(core as usize).is_some_and(|&own| u64::from(own) == node)
        };
        check!(self.others(boot).all(near));
        Ok(())
    }

    /// No two cores give the same number to an Id.
    pub fn ids_differ(&self, boot: &Boot) -> Outcome {
        let id = |core| self.sheet(core, 0).id.load(Ordering::Relaxed);
        for a in self.others(boot) {
            check!(id(a) != 0);
            check!(self.others(boot).take_while(|&b| b < a).all(|b| id(a) != id(b)));
        }
        Ok(())
    }

    /// Something goes to all cores and comes back, some times.
    pub fn rounds(&self, boot: &Boot) -> Outcome {
        for round in 1..=ROUNDS {
            for core in self.others(boot) {
                self.sheet(0, core).round.store(round, Ordering::Release);
            }
            self.wait_for_all(boot, |sheet| sheet.round.load(Ordering::Acquire) == round)?;
        }
        Ok(())
    }
}
