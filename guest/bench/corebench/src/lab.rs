//! What measurements work with.

use crate::board::{key, Board, Work, MOST};
use crate::PAGE;
use alloc::vec::Vec;
use core::time::Duration;
use libos::abi::slots::{DISPATCHER, MEMD};
use libos::cores::{self, Part};
use libos::interface::OwnedCap;
use libos::runtime::Boot;
use libos::{cmdline, domain, invoke, log, memd, op, thread, CapType, RamAttrs, Status};
use testkit::crowd::Crowd;

/// Repetitions of each measurement.
const ROUNDS: usize = 7;

/// The machine, with a part on every other core.
pub struct Lab {
    /// How many cores there are.
    pub cores: u32,
    board: &'static Board,
    board_frame: OwnedCap,
    /// Orders that each core has got.
    orders: [u64; MOST],
    parts: Vec<Part>,
}

/// What an operation cost, or several in a row.
#[derive(Clone, Copy)]
pub struct Cost {
    /// When it began.
    start: u64,
    /// Instructions of all cores until it has returned.
    ticks: u64,
    /// Messages between monitors, also those that follow.
    messages: u64,
    /// How often it was done.
    count: u64,
}

impl Cost {
    /// Of each of so many things that were done.
    pub fn divided_by(self, count: u64) -> Cost {
        Cost { count, ..self }
    }
}

/// A new object of the domain's RAM, in a slot of its own.
pub fn make(ty: CapType, bytes: u64) -> Result<OwnedCap, Status> {
    Ok(OwnedCap::own(domain::with(|domain| domain.make(ty, bytes))?))
}

/// RAM of which nobody else has a capability but the memory server its home.
pub fn ram(bytes: u64) -> Result<OwnedCap, Status> {
    let slot = domain::with(|domain| domain.slot())?;
    memd::alloc(MEMD, bytes, bytes.next_power_of_two().min(2 << 20), RamAttrs(0), slot)?;
    Ok(OwnedCap::own(slot))
}

/// Copies of a capability.
pub fn copies(of: &OwnedCap, count: usize) -> Result<Vec<OwnedCap>, Status> {
    (0..count).map(|_| OwnedCap::copy_of(of.cap())).collect()
}

/// The cost of `work` alone, begun when all cores are at rest.
pub fn time(work: impl FnOnce() -> Result<(), Status>) -> Result<Cost, Status> {
    rest();
    let traffic = || cores::traffic().map(|(sent, received)| sent + received);
    let before = traffic()?;
    let start = ticks();
    work()?;
    let ticks = ticks() - start;
    rest();
    Ok(Cost { start, ticks, messages: traffic()? - before, count: 1 })
}

/// The time-stamp counter.
fn ticks() -> u64 {
    // SAFETY: reads a counter.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// What a dispatcher pays that runs elsewhere is another question.
pub fn stay_at_home() -> Result<(), Status> {
    invoke(DISPATCHER, op::SetAffinity { mask: 1 << cores::machine().this })
}

/// Until everybody sleeps.
fn rest() {
    thread::sleep(Duration::from_millis(5));
}

impl Lab {
    /// Starts the parts, and makes the crowd that the command line asks for.
    pub fn new(boot: &Boot) -> Result<Lab, Status> {
        stay_at_home()?;
        let cores = boot.info.cores;
        let board_frame = make(CapType::Frame, PAGE)?;
        let board = Board::map(&board_frame)?;
        let mut lab = Lab { cores, board, board_frame, orders: [0; MOST], parts: Vec::new() };
        for core in 1..cores {
            lab.parts.push(cores::spawn_on(core, &["corebench"])?);
        }
        lab.send_all(cores - 1, None)?;
        let crowd = cmdline::number(boot.cmdline(), "crowd").unwrap_or(0) as u32;
        if crowd > 0 {
            let field = ram(Crowd::BYTES)?;
            Crowd::new(field.into_cap())?.grow_to(crowd)?;
        }
        Ok(lab)
    }

    /// Sends copies of `cap` (or of the board) to cores 1 to `count`, and waits until each has done its
    /// work.
    fn send_all(&mut self, count: u32, cap: Option<&OwnedCap>) -> Result<(), Status> {
        let cap = cap.unwrap_or(&self.board_frame);
        for core in 1..=count {
            cores::send(core, key(core), OwnedCap::copy_of(cap.cap())?)?;
            self.orders[core as usize] += 1;
        }
        for core in 1..=count {
            while self.board.done(core)? < self.orders[core as usize] {
                thread::sleep(Duration::from_millis(1));
            }
        }
        Ok(())
    }

    /// Has cores 1 to `count` do something with copies of `cap`.
    pub fn order(&mut self, count: u32, work: Work, cap: &OwnedCap) -> Result<(), Status> {
        self.board.order(work);
        self.send_all(count, Some(cap))
    }

    /// The same with nothing.
    pub fn order_plain(&mut self, count: u32, work: Work) -> Result<(), Status> {
        self.board.order(work);
        self.send_all(count, None)
    }

    /// RAM that core 1 has made: a foreign copy.
    pub fn foreign_ram(&mut self) -> Result<OwnedCap, Status> {
        self.order_plain(1, Work::Make)?;
        cores::receive(key(0))
    }

    /// Ends the parts.
    pub fn end(mut self) -> Result<(), Status> {
        self.order_plain(self.cores - 1, Work::End)?;
        for part in self.parts {
            if part.wait()? != 0 {
                return Err(Status::WrongState);
            }
        }
        Ok(())
    }

    /// Writes the medians of what `work` returns for the rounds, and when the median one was; it concerns
    /// so many other cores.
    pub fn report(
        &mut self,
        case: &str,
        concerned: u32,
        mut work: impl FnMut(&mut Lab, u64) -> Result<Cost, Status>,
    ) -> Result<(), Status> {
        let mut costs = Vec::with_capacity(ROUNDS);
        for round in 0..ROUNDS as u64 {
            costs.push(work(self, round)?);
        }
        costs.sort_unstable_by_key(|cost| cost.ticks);
        let Cost { start, ticks, messages, count } = costs[ROUNDS / 2];
        let end = start + ticks;
        log!("@bench {case} {} at={concerned}:others", ticks / count);
        log!("@bench {case} {} at={concerned}:others unit=messages", messages / count);
        log!("@window {case} {concerned} {start} {end} {count}");
        Ok(())
    }
}
