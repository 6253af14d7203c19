//! A domain that works with other cores in every way, until it is killed, crashes or ends. Whatever it
//! meets is fine, for others like it work on the same; what matters is what it leaves.

use crate::victims;
use alloc::format;
use alloc::vec::Vec;
use libos::captypes::place::L2_BYTES;
use libos::cores::{self, Mailbox, Part};
use libos::ephemeral::Window;
use libos::interface::OwnedCap;
use libos::ram::Ram;
use libos::vspace::R;
use libos::worker::{self, Worker};
use libos::{domain, Cap, CapAddr, CapType, Place, Rights, Status, PAGE};
use testkit::Rng;

/// The word that makes the program this.
pub const NAME: &str = "doomed";
/// Added to a status word: the exit status of one that met what it should not.
pub const WRONG: u64 = 3000;

/// Slots that operations choose from.
const SLOTS: u32 = 24;
/// Slots of a worker, and bytes of the memory that it operates on.
const OWN_SLOTS: u32 = 4;
const OWN_BYTES: u64 = 8 * PAGE;
/// Below this: the binary logarithm of the steps of one that ends by itself.
const MOST_STEPS: u64 = 12;
/// Keys of what they send to one another on each core, and one that nobody asks for.
const KEY: u64 = 0x646f_6f6d_6564 << 8;
const KEYS: u64 = 4;
const NOBODY: u64 = KEY + KEYS;
/// Root index of a CNode for copies, and how many.
const PACKED_L1: u32 = 250;
const PACKED: u32 = 6;
/// Parts that one has at a time.
const MOST_PARTS: usize = 2;

/// Starts one on a core, of which `depth` generations may follow.
pub fn start(core: u32, seed: u64, depth: u64) -> Result<Part, Status> {
    cores::spawn_on(core, &["prototest", NAME, &format!("{seed}"), &format!("{depth}")])
}

/// What it knows.
struct Doomed {
    random: Rng,
    depth: u64,
    first: CapAddr,
    window: Window,
    parts: Vec<Part>,
    workers: Vec<Worker<()>>,
}

/// Lives. Answers the exit status.
pub fn run(seed: u64, depth: u64) -> u64 {
    let lived = Doomed::new(seed, depth).and_then(Doomed::live);
    lived.map_or_else(|status| WRONG + status.to_word(), |()| 0)
}

impl Doomed {
    fn new(seed: u64, depth: u64) -> Result<Doomed, Status> {
        let mut random = Rng::with_seed(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        // The first numbers of similar seeds are similar.
        for _ in 0..8 {
            random.u64(..);
        }
        let (first, window) =
            domain::with(|domain| Ok((domain.slot_range(SLOTS)?, domain.window()?)))?;
        Ok(Doomed { random, depth, first, window, parts: Vec::new(), workers: Vec::new() })
    }

    fn live(mut self) -> Result<(), Status> {
        let bits = self.random.u64(..MOST_STEPS);
        for _ in 0..self.random.u64(..1 << bits) {
            self.step()?;
        }
        if self.random.u64(..4) == 0 {
            // SAFETY: ends this domain, which owes nobody anything.
            unsafe { core::arch::asm!("ud2") };
        }
        Ok(())
    }

    fn slot(&mut self) -> CapAddr {
        self.first.plus(self.random.u32(..SLOTS))
    }

    fn core(&mut self) -> u32 {
        self.random.u32(..cores::count())
    }

    fn key(&mut self) -> u64 {
        KEY + self.random.u64(..KEYS)
    }

    fn step(&mut self) -> Result<(), Status> {
        let result = match self.random.u64(..100) {
            0..10 => self.make(),
            10..22 => self.retype(),
            22..32 => self.copy(),
            32..52 => self.send(),
            52..66 => self.take(),
            66..72 => self.map(),
            72..81 => self.slot().delete(),
            81..84 => self.slot().revoke(),
            84..87 => self.pack(),
            87..90 => self.ping(),
            90..94 => self.start_part(),
            94..97 => self.kill_part(),
            97 => self.wait_for_mail(),
            _ => self.start_worker(),
        };
        match result {
            // Of these there is enough, unless somebody keeps them.
            Err(status @ (Status::NoMemory | Status::NoSlot)) => Err(status),
            // The slot is in use, or empty; it has been revoked; somebody else has gone.
            _ => Ok(()),
        }
    }

    /// An empty slot, or one that is emptied.
    fn empty_slot(&mut self) -> Result<CapAddr, Status> {
        let slot = self.slot();
        match slot.delete() {
            Ok(()) | Err(Status::Empty) => Ok(slot),
            Err(status) => Err(status),
        }
    }

    fn make(&mut self) -> Result<(), Status> {
        let slot = self.empty_slot()?;
        let (ty, bytes) = match self.random.u64(..4) {
            0 => (CapType::L2CNode, 4 * PAGE),
            1 => (CapType::Frame, 4 * PAGE),
            _ => (CapType::Ram, 8 * PAGE),
        };
        domain::with(|domain| domain.arena.make(ty, bytes, 1, slot.into()))
    }

    fn retype(&mut self) -> Result<(), Status> {
        let (from, to) = (self.slot(), self.empty_slot()?);
        let types = [CapType::Ram, CapType::Frame, CapType::Frame, CapType::Endpoint];
        let ty = types[self.random.usize(..4)];
        from.retype(ty, self.random.u64(..8) * PAGE, PAGE, 1, to)
    }

    fn copy(&mut self) -> Result<(), Status> {
        let (from, to) = (self.slot(), self.empty_slot()?);
        match self.random.u64(..4) {
            0 => from.mint(to, Rights::READ.or(Rights::REVOKE)),
            _ => from.copy_to(to),
        }
    }

    fn send(&mut self) -> Result<(), Status> {
        let (cap, core) = (OwnedCap::copy_of(self.slot())?, self.core());
        let key = if self.random.u64(..4) == 0 { NOBODY } else { self.key() };
        cores::send(core, key, cap)
    }

    /// Copies in a CNode, which is sent: what dies with its last copy then is more than that.
    fn pack(&mut self) -> Result<(), Status> {
        let node = Place::l1(CapAddr::NULL, PACKED_L1);
        match node.delete() {
            Ok(()) | Err(Status::Empty) => {}
            Err(status) => return Err(status),
        }
        domain::with(|domain| domain.arena.make(CapType::L2CNode, L2_BYTES, 1, node))?;
        for n in 0..PACKED {
            // Whatever is there.
            let _ = self.slot().copy_to(CapAddr::new(PACKED_L1, n));
        }
        let slot = self.empty_slot()?;
        node.copy_to(slot)?;
        self.send()
    }

    fn take(&mut self) -> Result<(), Status> {
        let (slot, key) = (self.empty_slot()?, self.key());
        cores::try_receive(key)?.cap().move_to(slot)
    }

    /// Most often nothing comes any more, and this is where the domain dies.
    fn wait_for_mail(&mut self) -> Result<(), Status> {
        let key = if self.random.u64(..2) == 0 { NOBODY } else { self.key() };
        Mailbox::open(key)?.receive().map(drop)
    }

    fn map(&mut self) -> Result<(), Status> {
        let slot = self.slot();
        self.window.open(slot, 0, PAGE, R).map(drop)
    }

    fn ping(&mut self) -> Result<(), Status> {
        let core = self.core();
        cores::ping(core, 1 + self.random.u32(..20)).map(drop)
    }

    fn start_part(&mut self) -> Result<(), Status> {
        if self.depth > 0 && self.parts.len() < MOST_PARTS {
            let (core, seed) = (self.core(), self.random.u64(..));
            self.parts.push(start(core, seed, self.depth - 1)?);
        }
        Ok(())
    }

    fn kill_part(&mut self) -> Result<(), Status> {
        match self.parts.pop() {
            Some(part) => part.kill().map(drop),
            None => Ok(()),
        }
    }

    /// A second dispatcher, on some core, with memory of its own and copies of it elsewhere.
    fn start_worker(&mut self) -> Result<(), Status> {
        if !self.workers.is_empty() {
            return Ok(());
        }
        let (core, order) = (self.core(), self.random.u64(..));
        let own = domain::with(|domain| {
            let own = domain.slot_range(OWN_SLOTS)?;
            domain.arena.make(CapType::Ram, OWN_BYTES, 1, own.into())?;
            Ok(own)
        })?;
        self.workers.push(worker::spawn(Some(core), move || victims::operate(own, order))?);
        let to = self.core();
        cores::send(to, self.key(), OwnedCap::copy_of(own)?)
    }
}
