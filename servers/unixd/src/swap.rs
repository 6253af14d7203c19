//! Pages that leave memory: to a disk, when there is too little, and back when somebody wants them.
//!
//! All large memory of processes and all contents of files are objects of one pool ([`volatile`](crate::volatile)), so whatever of
//! them is not used for a while can leave. Where each page is the kernel writes down, in the entry that led to it; here is
//! only a disk, and a hand that goes round over all objects.
//!
//! ```text
//!   no memory for a page ─► the hand goes on: a page that was used is left alone once more,
//!                           one that was not leaves (second chance) ─► runs of them are written
//!   fault on a page that left ─► read, with those behind it that lie behind it on the disk
//! ```
//!
//! A page leaves memory before it is on the disk; until then its contents are in a buffer here. If the disk
//! fails to take them, they go back to where they were.

use crate::morsels::Morsel;
use crate::procs::Pid;
use abi::layout::PAGE;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::hint::spin_loop;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use drivers::block::{Block, Error, MOST_BYTES, SECTOR};
use drivers::dma::Buffers;
use drivers::Slots;
use libos::local::Local;
use libos::morsel::{MorselCap, PoolCap};
use libos::{CapAddr, Status};
use unixproto::Errno;

/// Slots that are asked for together.
const TREE: u64 = 4096;
/// Sectors of a page.
const SECTORS: usize = PAGE as usize / SECTOR;
/// Pages that are kept for what takes one to free many.
const BALLAST: u64 = 16;
/// Pages that leave together.
const BATCH: usize = 32;
/// Pages that come in together, at most.
const AHEAD: usize = MOST_BYTES / PAGE as usize;
/// Pages of a row that are looked over.
const ROW: u64 = 64;
/// How often the hand goes round before it takes what was used.
const ROUNDS: u32 = 2;
/// Rows that it looks over for one who wants memory, at most.
const ROWS: u32 = 1 << 16;
/// Ranges of pages of an object that stay for a process, at most.
const WIRED: usize = 4096;

/// How much there is, in bytes, and what has happened, in pages.
#[derive(Clone, Copy, Default)]
pub struct Facts {
    pub total: u64,
    pub free: u64,
    pub ins: u64,
    pub outs: u64,
}

/// A disk, what it has, and where to look next.
struct Store {
    device: Block,
    pool: CapAddr,
    /// The first slot, and how many there are.
    first: u64,
    slots: u64,
    /// Where a slot is looked for.
    tree: u64,
    /// Object and page that are looked at next.
    hand: (u32, u64),
    batch: Buffers,
    /// Pages that are given up when there are none: to divide a large page, or to copy a table, takes one.
    ballast: Option<Morsel>,
    /// Pages that stay, by object and by who says so.
    wired: BTreeMap<(u32, Pid), Vec<(u64, u64)>>,
    /// The disk has failed to take something: it gets nothing more.
    is_broken: bool,
    /// It was said that it is full.
    is_told: bool,
    ins: u64,
    outs: u64,
}

static STORE: Local<Option<Store>> = Local::new(None);
/// There is a disk, which stays.
static IS_THERE: AtomicBool = AtomicBool::new(false);

/// A disk that nothing is on yet.
pub struct Disk(Block);

impl Disk {
    /// The disk that this server was given, if the machine has one.
    pub fn find(words: [u64; 4]) -> Option<Disk> {
        let device = drivers::Device::of(drivers::DeviceType::Block, Slots::SWAP, words);
        let block = match device {
            Ok(Some(device)) => Block::start(device),
            Ok(None) => return None,
            Err(error) => Err(error.into()),
        };
        let block = block.inspect_err(|error| {
            libos::log!("unixd: the disk of --swap does not work: {error:?}");
        });
        block.ok().filter(|block| !block.is_read_only()).map(Disk)
    }

    /// Pages that it has room for: whole runs of 2 MiB.
    pub fn slots(&self) -> u64 {
        (self.0.sectors() / SECTORS as u64) & !511
    }

    /// Pages of objects of a pool leave for it from now on. `first`: the number of the first of its frames that are no memory.
    pub fn begin(self, pool: CapAddr, first: u64) -> Result<(), Status> {
        let slots = self.slots();
        for tree in first / TREE..(first + slots).div_ceil(TREE) {
            pool.add_slots(tree)?;
        }
        let batch = Buffers::new(BATCH * PAGE as usize)?;
        let store = Store {
            device: self.0,
            pool,
            first,
            slots,
            tree: first / TREE,
            hand: (0, 0),
            batch,
            ballast: None,
            wired: BTreeMap::new(),
            is_broken: false,
            is_told: false,
            ins: 0,
            outs: 0,
        };
        STORE.try_with(|place| *place = Some(store));
        IS_THERE.store(true, Relaxed);
        Ok(())
    }
}

fn with<R>(work: impl FnOnce(&mut Store) -> R) -> Option<R> {
    STORE.try_with(|store| store.as_mut().map(work)).flatten()
}

/// Is there a disk for pages?
pub fn is_there() -> bool {
    IS_THERE.load(Relaxed)
}

/// How much there is.
pub fn facts() -> Facts {
    let facts = with(|store| {
        let free = store.pool.pool_info().map_or(0, |facts| facts.slots);
        let (ins, outs) = (store.ins, store.outs);
        Facts { total: store.slots * PAGE, free: free * PAGE, ins, outs }
    });
    facts.unwrap_or_default()
}

/// Has about so many pages leave. How many did.
pub fn reclaim(pages: u64) -> u64 {
    with(|store| {
        store.give_ballast();
        let left = store.reclaim(pages);
        store.take_ballast();
        left
    })
    .unwrap_or(0)
}

/// The pool has got memory: some of it is kept.
pub fn has_grown() {
    with(Store::take_ballast);
}

/// Brings in a page of an object, if it has left, and unless `alone` those behind it that are behind it on the disk. `false`: it has not. There
/// must be memory for it (`ENOSPC`).
pub fn bring_in(object: CapAddr, page: u64, alone: bool) -> Result<bool, Errno> {
    let brought = with(|store| {
        let facts = object.morsel_info().map_err(|_| Errno::EIO)?;
        store.bring_in(facts.record, page, if alone { 1 } else { AHEAD })
    });
    brought.unwrap_or(Ok(false))
}

/// The same for who has no other way to more memory.
pub fn fetch(object: CapAddr, page: u64) -> Result<bool, Errno> {
    loop {
        match bring_in(object, page, false) {
            Err(Errno::ENOSPC) if reclaim(BATCH as u64) > 0 => {}
            done => return done,
        }
    }
}

/// Has pages of an object leave, as many as can.
pub fn page_out(object: CapAddr, first: u64, pages: u64) {
    with(|store| {
        let Ok(facts) = object.morsel_info() else { return };
        let end = first.saturating_add(pages).min(facts.limit.div_ceil(PAGE));
        // To give it, and to fill it again, is more work than to have one page leave.
        let is_short = store.pool.pool_info().map_or(0, |facts| facts.free) < BALLAST;
        if is_short {
            store.give_ballast();
        }
        let mut page = first;
        while page < end && !store.is_broken {
            let Ok(seen) = store.pool.look_over(facts.record, page, true) else { break };
            let row = page & !(ROW - 1);
            let from = u64::MAX << (page - row);
            let to = if end - row < ROW { !(u64::MAX << (end - row)) } else { u64::MAX };
            if store.evict(facts.record, page, seen.there & from & to).is_none() {
                break;
            }
            page = seen.next;
        }
        if is_short {
            store.take_ballast();
        }
    });
}

/// Pages of an object stay from now on, or may leave again as far as a process is concerned.
///
/// # Errors
/// `ENOMEM`: they are in too many pieces.
pub fn wire(object: CapAddr, whose: Pid, pages: (u64, u64), stays: bool) -> Result<(), Errno> {
    if pages.0 >= pages.1 {
        return Ok(());
    }
    let record = object.morsel_info().map_err(|_| Errno::EIO)?.record;
    with(|store| store.wire((record, whose), pages, stays)).unwrap_or(Ok(()))
}

/// A process has ended.
pub fn ended(whose: Pid) {
    if is_there() {
        with(|store| store.wired.retain(|&(_, pid), _| pid != whose));
    }
}

/// An object will be no more.
pub fn gone(object: CapAddr) {
    let has_wired = || with(|store| !store.wired.is_empty()) == Some(true);
    if is_there() && has_wired() {
        if let Ok(facts) = object.morsel_info() {
            with(|store| store.wired.retain(|&(record, _), _| record != facts.record));
        }
    }
}

impl Store {
    /// Ranges do not overlap, nor touch.
    fn wire(&mut self, key: (u32, Pid), (from, to): (u64, u64), stays: bool) -> Result<(), Errno> {
        let ranges = self.wired.entry(key).or_default();
        ranges.try_reserve(2).map_err(|_| Errno::ENOMEM)?;
        let one_more = stays || ranges.iter().any(|&(first, end)| first < from && to < end);
        if one_more && ranges.len() >= WIRED {
            return Err(Errno::ENOMEM);
        }
        let (mut from, mut to) = (from, to);
        let mut cut = [None; 2];
        ranges.retain(|&(first, end)| {
            let meets = if stays { first <= to && from <= end } else { first < to && from < end };
            if meets && stays {
                (from, to) = (from.min(first), to.max(end));
            } else if meets {
                if first < from {
                    cut[0] = Some((first, from));
                }
                if to < end {
                    cut[1] = Some((to, end));
                }
            }
            !meets
        });
        if stays {
            ranges.push((from, to));
        }
        ranges.extend(cut.into_iter().flatten());
        if ranges.is_empty() {
            self.wired.remove(&key);
        }
        Ok(())
    }

    /// Of a row of pages those that may leave.
    fn may_leave(&self, record: u32, row: u64) -> u64 {
        let ranges =
            self.wired.range((record, 0)..=(record, Pid::MAX)).flat_map(|(_, ranges)| ranges);
        let mut may = u64::MAX;
        for &(first, end) in ranges.filter(|&&(first, end)| first < row + ROW && row < end) {
            let below = |page: u64| match page.saturating_sub(row) {
                ROW.. => u64::MAX,
                pages => (1 << pages) - 1,
            };
            may &= !(below(end) & !below(first));
        }
        may
    }

    fn give_ballast(&mut self) {
        if let Some(ballast) = &mut self.ballast {
            // It has them.
            let _ = ballast.discard(0, BALLAST * PAGE);
        }
    }

    /// Keeps pages for the next time, as far as there are any.
    fn take_ballast(&mut self) {
        let taken = match &mut self.ballast {
            Some(ballast) => ballast.populate(0, BALLAST * PAGE).map(drop),
            None => {
                let bytes = BALLAST * PAGE;
                Morsel::volatile(self.pool, bytes, bytes).map(|made| self.ballast = Some(made))
            }
        };
        // Else there is less to give then.
        let _ = taken;
    }

    fn is_ballast(&self, record: u32) -> bool {
        let facts = self.ballast.as_ref().map(|ballast| ballast.cap().morsel_info());
        facts.is_some_and(|facts| facts.is_ok_and(|facts| facts.record == record))
    }

    fn reclaim(&mut self, wanted: u64) -> u64 {
        if self.is_broken {
            return 0;
        }
        let (mut left, mut rounds) = (0, 0);
        for _ in 0..ROWS {
            if left >= wanted || rounds > ROUNDS || self.is_broken {
                break;
            }
            let (record, page) = self.hand;
            let Ok(Some(object)) = self.pool.next_morsel(record) else {
                (self.hand, rounds) = ((0, 0), rounds + 1);
                continue;
            };
            if object.record != record {
                self.hand = (object.record, 0);
                continue;
            }
            // The first has all others.
            if record == 0 || page * PAGE >= object.limit || page == 0 && self.is_ballast(record) {
                self.hand = (record + 1, 0);
                continue;
            }
            match self.pool.look_over(record, page, rounds < ROUNDS) {
                Ok(seen) => {
                    self.hand.1 = seen.next;
                    let used = if rounds < ROUNDS { seen.used } else { 0 };
                    match self.evict(record, page, seen.there & !used) {
                        Some(count) => left += count,
                        None => break,
                    }
                }
                Err(_) => self.hand = (record + 1, 0),
            }
        }
        left
    }

    /// Has pages of a row leave. How many did; `None`: no more can.
    fn evict(&mut self, record: u32, page: u64, pages: u64) -> Option<u64> {
        let first = page & !(ROW - 1);
        let (mut pages, mut left) = (pages & self.may_leave(record, first), 0);
        while pages != 0 {
            let mut slots = [(0, 0); BATCH];
            let (mut count, mut goes_on) = (0, true);
            while count < BATCH && pages != 0 {
                let page = first + u64::from(pages.trailing_zeros());
                match self.page_out(record, page, count) {
                    Ok(slot) => {
                        slots[count] = (slot, page);
                        count += 1;
                    }
                    Err(Status::Occupied | Status::NoMemory) => {
                        goes_on = false;
                        break;
                    }
                    Err(_) => {}
                }
                pages &= pages - 1;
            }
            left += self.write(record, &slots[..count]);
            if !goes_on {
                return (left > 0).then_some(left);
            }
        }
        Some(left)
    }

    /// Has a page leave for a place in the batch. Its slot.
    fn page_out(&mut self, record: u32, page: u64, place: usize) -> Result<u64, Status> {
        // SAFETY: the device never has this memory.
        let to = unsafe { self.batch.get(place, PAGE as usize) }.as_ptr() as u64;
        let end = (self.first + self.slots).div_ceil(TREE);
        for _ in self.first / TREE..end {
            match self.pool.page_out(record, page, self.tree, to) {
                Err(Status::Occupied) => {
                    self.tree = if self.tree + 1 < end { self.tree + 1 } else { self.first / TREE };
                }
                done => return done,
            }
        }
        if !self.is_told {
            libos::log!("unixd: the disk for pages is full");
            self.is_told = true;
        }
        Err(Status::Occupied)
    }

    /// Writes what is in the batch, and waits for it. How many pages are on the disk.
    fn write(&mut self, record: u32, slots: &[(u64, u64)]) -> u64 {
        let (mut done, mut written) = (0, 0);
        while done < slots.len() {
            let rest = &slots[done..];
            let run = (1..rest.len()).find(|&n| rest[n].0 != rest[0].0 + n as u64);
            let run = run.unwrap_or(rest.len()).min(AHEAD);
            match self.write_run(rest[0].0, done, run) {
                Ok(()) => written += run as u64,
                Err(error) => {
                    libos::log!("unixd: the disk for pages does not take them: {error:?}");
                    self.is_broken = true;
                    self.take_back(record, &rest[..run], done);
                }
            }
            done += run;
        }
        self.outs += written;
        written
    }

    fn write_run(&mut self, slot: u64, place: usize, count: usize) -> Result<(), Error> {
        let sector = (slot - self.first) * SECTORS as u64;
        let (batch, bytes) = (&self.batch, PAGE as usize);
        let sent = self.device.write(sector, count * SECTORS, |to| {
            for (n, page) in to.chunks_mut(bytes).enumerate() {
                // SAFETY: the device never has this memory, and nobody else looks at it now.
                page.copy_from_slice(unsafe { batch.get(place + n, bytes) });
            }
        });
        sent.map_err(|_| Error::Device)?;
        answer(&mut self.device, |_| ())
    }

    /// Pages that the disk has not taken go back to where they were.
    fn take_back(&mut self, record: u32, slots: &[(u64, u64)], place: usize) {
        for (n, &(slot, page)) in slots.iter().enumerate() {
            // SAFETY: as in `page_out`.
            let from = unsafe { self.batch.get(place + n, PAGE as usize) }.as_ptr() as u64;
            if let Err(status) = self.pool.page_in(record, page, slot, from) {
                libos::log!("unixd: page {page} of object {record} is lost: {status:?}");
            }
        }
    }

    fn bring_in(&mut self, record: u32, page: u64, most: usize) -> Result<bool, Errno> {
        let slot = match self.pool.slot_of(record, page) {
            Ok(slot) => slot,
            Err(_) => return Ok(false),
        };
        if self.pool.pool_info().map_or(0, |facts| facts.free) < AHEAD as u64 {
            return Err(Errno::ENOSPC);
        }
        let in_row =
            |n: &usize| self.pool.slot_of(record, page + *n as u64) == Ok(slot + *n as u64);
        let count = 1 + (1..most).take_while(in_row).count();
        let sector = (slot - self.first) * SECTORS as u64;
        self.device.read(sector, count * SECTORS).map_err(|_| Errno::EIO)?;
        // SAFETY: the device never has this memory, and nobody else looks at it now.
        let to = unsafe { self.batch.get(0, count * PAGE as usize) };
        let from = to.as_ptr() as u64;
        answer(&mut self.device, |bytes| to.copy_from_slice(bytes)).map_err(|error| {
            libos::log!("unixd: the disk for pages does not give one back: {error:?}");
            Errno::EIO
        })?;
        for n in 0..count as u64 {
            match self.pool.page_in(record, page + n, slot + n, from + n * PAGE) {
                Ok(()) => self.ins += 1,
                Err(Status::NoMemory) if n == 0 => return Err(Errno::ENOSPC),
                // Somebody else has discarded it, or there is no memory for more.
                Err(_) => break,
            }
        }
        Ok(true)
    }
}

/// Waits for the answer to the only request.
fn answer(device: &mut Block, look: impl FnOnce(&[u8])) -> Result<(), Error> {
    let (mut result, mut look) = (None, Some(look));
    loop {
        device.answer(|_, answer| {
            result = Some(answer.map(|bytes| {
                if let Some(look) = look.take() {
                    look(bytes);
                }
            }));
        });
        if let Some(result) = result {
            return result;
        }
        spin_loop();
    }
}
