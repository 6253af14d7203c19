//! A pool, and where objects are mapped by one entry: the same for the leader and for the parts on other cores.

use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering::SeqCst};
use core::time::Duration;
use libos::abi::slots::{MEMD, VSPACE};
use libos::captypes::invocations::MapFlags;
use libos::cores;
use libos::interface::OwnedCap;
use libos::local::Local;
use libos::morsel::{Persistence, PoolCap};
use libos::vspace::{entry_of, RW, RWX};
use libos::{domain, memd, thread, Cap, CapAddr, CapType, RamAttrs, Status, PAGE};

pub const MIB2: u64 = 2 << 20;
/// Bytes of a pool.
pub const POOL_BYTES: u64 = 8 << 20;
/// An address below an upper-level entry that nothing else uses.
const VA: u64 = 4 << 39;

/// A pool that this domain has made.
pub struct OwnPool {
    pub cap: OwnedCap,
    _ram: OwnedCap,
}

impl OwnPool {
    pub fn new() -> Result<OwnPool, Status> {
        let (ram, pool) = domain::with(|domain| Ok((domain.slot()?, domain.slot()?)))?;
        memd::alloc(MEMD, POOL_BYTES, MIB2, RamAttrs(0), ram)?;
        let ram = OwnedCap::own(ram);
        ram.cap().retype(CapType::Pool, 0, POOL_BYTES, 1, pool)?;
        let cap = OwnedCap::own(pool);
        pool.format_pool(Persistence::Caches)?;
        // The directory gets its page.
        let first = create(&cap, 1)?;
        libos::morsel::MorselCap::destroy(first.cap())?;
        Ok(OwnPool { cap, _ram: ram })
    }

    pub fn free(&self) -> Result<u64, Status> {
        self.cap.cap().pool_info().map(|facts| facts.free)
    }
}

/// A new object.
pub fn create(pool: &OwnedCap, order: u32) -> Result<OwnedCap, Status> {
    let slot = domain::with(|domain| domain.slot())?;
    pool.cap().create_morsel(order, slot)?;
    Ok(OwnedCap::own(slot))
}

/// Tables at [`VA`], of which entries show objects.
pub struct Tables {
    pdpt: CapAddr,
    pd: CapAddr,
    pt: CapAddr,
}

/// An object at an address.
pub struct Shown {
    mapping: OwnedCap,
    pub va: u64,
}

impl Tables {
    pub fn new() -> Result<Tables, Status> {
        domain::with(|domain| {
            let mut make = |ty| domain.make(ty, PAGE);
            let (pdpt, pd, pt) = (make(CapType::Pdpt)?, make(CapType::Pd)?, make(CapType::Pt)?);
            VSPACE.map(entry_of(4, VA), 1, pdpt, 0, RWX, domain.slot()?)?;
            pdpt.map(0, 1, pd, 0, RWX, domain.slot()?)?;
            pd.map(0, 1, pt, 0, RWX, domain.slot()?)?;
            Ok(Tables { pdpt, pd, pt })
        })
    }

    /// Shows an object of this order by entry `n`.
    pub fn show(
        &self,
        object: CapAddr,
        order: u32,
        n: u32,
        flags: MapFlags,
    ) -> Result<Shown, Status> {
        let (table, va) = match order {
            0 => (self.pt, VA + u64::from(n) * PAGE),
            1 => (self.pd, VA + u64::from(n) * MIB2),
            _ => (self.pdpt, VA + (u64::from(n) << 30)),
        };
        let slot = domain::with(|domain| domain.slot())?;
        let mapping = OwnedCap::own(slot);
        table.map(n, 1, object, 0, flags, slot)?;
        Ok(Shown { mapping, va })
    }
}

impl Tables {
    /// Shows a single page by entry `n`.
    pub fn show_page(&self, object: CapAddr, page: u64, n: u32) -> Result<Shown, Status> {
        let slot = domain::with(|domain| domain.slot())?;
        let mapping = OwnedCap::own(slot);
        self.pt.map(n, 1, object, page * PAGE, RW, slot)?;
        Ok(Shown { mapping, va: VA + u64::from(n) * PAGE })
    }
}

impl Shown {
    /// Is it still shown? What takes the page away takes the Mapping, too.
    pub fn is_there(&self) -> bool {
        self.mapping.cap().identify().is_ok()
    }

    pub fn word(&self, at: u64) -> &'static AtomicU64 {
        // SAFETY: mapped for these tests; whoever takes it away expects that who looks at it ends.
        unsafe { &*((self.va + at) as *const AtomicU64) }
    }
}

/// What leader and part tell each other: a page that both have mapped.
pub struct Board {
    frame: Option<OwnedCap>,
    va: u64,
}

/// Boards that nobody uses any more. They stay mapped, and a program has not room for any number of those.
static UNUSED: Local<Vec<Board>> = Local::new(Vec::new());

impl Drop for Board {
    fn drop(&mut self) {
        let board = Board { frame: self.frame.take(), va: self.va };
        if board.frame.is_some() {
            UNUSED.try_with(|unused| unused.push(board));
        }
    }
}

/// The number of the command, the command, and its arguments.
const NUMBER: usize = 0;
const COMMAND: usize = 1;
const ARGUMENTS: usize = 2;
/// The number of the last one that was done, and what it answers.
const DONE: usize = 8;
const ANSWER: usize = 9;
/// What a part counts while it works.
pub const PASSES: usize = 16;
pub const WRONG: usize = 17;

impl Board {
    /// For a part that is to be started. Whoever had it has ended.
    pub fn new() -> Result<Board, Status> {
        if let Some(board) = UNUSED.try_with(Vec::pop).flatten() {
            (0..=WRONG).for_each(|n| board.word(n).store(0, SeqCst));
            return Ok(board);
        }
        Board::of(OwnedCap::own(domain::with(|domain| domain.make(CapType::Frame, PAGE))?))
    }

    pub fn of(frame: OwnedCap) -> Result<Board, Status> {
        let va = domain::with(|domain| domain.map(frame.cap().into(), 0, PAGE, RW))?;
        Ok(Board { frame: Some(frame), va })
    }

    pub fn send(&self, core: u32, key: u64) -> Result<(), Status> {
        let frame = self.frame.as_ref().ok_or(Status::Empty)?;
        cores::send(core, key, OwnedCap::copy_of(frame.cap())?)
    }

    pub fn word(&self, n: usize) -> &AtomicU64 {
        // SAFETY: mapped for good, a page of atomics.
        unsafe { &*((self.va + 8 * n as u64) as *const AtomicU64) }
    }

    /// Tells the part something.
    pub fn tell(&self, command: u64, arguments: [u64; 3]) {
        for (n, argument) in arguments.into_iter().enumerate() {
            self.word(ARGUMENTS + n).store(argument, SeqCst);
        }
        self.word(COMMAND).store(command, SeqCst);
        self.word(NUMBER).fetch_add(1, SeqCst);
    }

    /// What it answers; `None` if it does not within some seconds.
    pub fn answer(&self) -> Option<u64> {
        self.wait(|| self.word(DONE).load(SeqCst) == self.word(NUMBER).load(SeqCst))
            .then(|| self.word(ANSWER).load(SeqCst))
    }

    /// The answer to a command.
    pub fn ask(&self, command: u64, arguments: [u64; 3]) -> Option<u64> {
        self.tell(command, arguments);
        self.answer()
    }

    /// Until something is so, or too long: many cores may have to share few.
    pub fn wait(&self, is_so: impl Fn() -> bool) -> bool {
        (0..1_000_000).any(|_| {
            let so = is_so();
            if !so {
                thread::sleep(Duration::from_micros(100));
            }
            so
        })
    }

    /// Has something new been said since command `last`?
    pub fn is_told(&self, last: u64) -> bool {
        self.word(NUMBER).load(SeqCst) != last
    }

    /// Waits for the command behind `last`.
    pub fn next(&self, last: u64) -> (u64, u64, [u64; 3]) {
        while !self.is_told(last) {
            thread::sleep(Duration::from_micros(100));
        }
        let arguments = [0, 1, 2].map(|n| self.word(ARGUMENTS + n).load(SeqCst));
        (last + 1, self.word(COMMAND).load(SeqCst), arguments)
    }

    pub fn done(&self, number: u64, answer: u64) {
        self.word(ANSWER).store(answer, SeqCst);
        self.word(DONE).store(number, SeqCst);
    }
}
