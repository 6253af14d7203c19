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
//! A page leaves memory before it is on the disk; until then its contents are in a buffer of the driver's, and nobody waits for the disk
//! to take them unless all buffers are full. Whoever wants such a page has it from there. If the disk
//! fails to take them, they go back to where they were; if there is no memory for that any more, they stay in the buffer.
//!
//! Whoever wants a page that is on the disk waits, and this server with him: for the disk's interrupt, so that others run meanwhile.

use crate::morsels::Morsel;
use crate::procs::Pid;
use crate::server::note;
use crate::threads::Tid;
use abi::layout::PAGE;
use abi::slots::DISPATCHER;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use drivers::block::{Block, Error, PLACES, SECTOR};
use drivers::Slots;
use libos::local::Local;
use libos::morsel::{MorselCap, PagedOut, PoolCap};
use libos::{invoke, op, Cap, CapAddr, Status};
use readahead::ReadAhead;
use unixproto::Errno;

/// Slots that are asked for together.
const TREE: u64 = 4096;
/// Sectors of a page.
const SECTORS: usize = PAGE as usize / SECTOR;
/// Pages that are kept for what takes one to free many.
const BALLAST: u64 = 16;
/// Pages that leave before it is asked again whether there is memory.
const BATCH: usize = 32;
/// Pages that a request of the disk's is of, at most, as many as leave together.
const RUN: usize = 8;
/// Requests that are left to those who want pages.
const FOR_READING: usize = 2;
/// Pages of a row that are looked over.
const ROW: u64 = 64;
/// How often the hand goes round before it takes what was used.
const ROUNDS: u32 = 2;
/// Rows that it looks over for one who wants memory, at most.
const ROWS: u32 = 1 << 16;
/// Pages that come in before it is asked again whether there is memory for them: others take some, too.
const SURE: u64 = 32;
/// No object has so many.
const MOST_PAGES: u64 = 1 << 36;
/// Ranges of pages of an object that stay for a process, at most.
const WIRED: usize = 4096;
/// Pages that come in at a time while the disk is taken out of use.
const SWEEP: u64 = 64;
/// The priority of a disk that nobody has given one.
pub const PRIORITY: i16 = -2;

/// Is the disk in use?
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    /// Pages leave for it.
    On,
    /// All come back, for a thread that waits for that.
    Leaving(Tid, Sweep),
    /// It has none.
    Off,
}

/// How far a way round over all objects has come on which all comes back.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
struct Sweep {
    /// Object and page that are looked at next.
    at: (u32, u64),
    /// Something was found that can be read.
    found: bool,
}

/// What comes in for who wants a page.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// This page.
    Alone,
    /// And those behind it that are behind it on the disk, as many as were of use lately.
    WithOthers,
    /// The same; the page is in this slot, somebody has said.
    From(u64),
}

/// How far the disk has been emptied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Swept {
    /// There is more, or may be.
    Partly,
    /// What is left belongs to nobody any more, or comes back by itself: it will be less.
    Waits,
    All,
}

/// How much there is, in bytes, and what has happened, in pages.
#[derive(Clone, Copy, Default)]
pub struct Facts {
    /// What pages can leave for.
    pub total: u64,
    pub free: u64,
    /// Size, bytes used and priority, as long as there is anything on it.
    pub listed: Option<(u64, u64, i16)>,
    pub ins: u64,
    pub outs: u64,
    /// Time-stamps that the server has waited for the disk.
    pub waited: u64,
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
    /// What is, or was, to be written, by the driver's places.
    flights: [Option<Flight>; PLACES],
    /// Which of them have any.
    flying: u32,
    ahead: ReadAhead,
    /// Time-stamps that this server has waited for the disk.
    waited: u64,
    /// For so many pages there was memory when that was asked last, less those that have come in since.
    room: u64,
    /// Pages that are given up when there are none: to divide a large page, or to copy a table, takes one.
    ballast: Option<Morsel>,
    /// Pages that stay, by object and by who says so.
    wired: BTreeMap<(u32, Pid), Vec<(u64, u64)>>,
    usage: Use,
    /// What was found lost while all comes back, on this way round.
    lost: Lost,
    priority: i16,
    /// The disk has failed to take something: it gets nothing more.
    is_broken: bool,
    /// It was said that it is full.
    is_told: bool,
    ins: u64,
    outs: u64,
}

/// Pages on their way to the disk, one slot behind the other.
struct Flight {
    record: u32,
    slot: u64,
    /// Their numbers in the object.
    pages: [u64; RUN],
    count: usize,
    /// The disk has not taken them, nor was there memory for all of them: those are in the buffer for good.
    is_stuck: bool,
}

impl Flight {
    fn new(record: u32, row: u64, out: PagedOut) -> Flight {
        let (mut pages, mut count, mut rest) = ([0; RUN], 0, out.pages);
        while rest != 0 && count < RUN {
            pages[count] = row + u64::from(rest.trailing_zeros());
            (rest, count) = (rest & (rest - 1), count + 1);
        }
        Flight { record, slot: out.slot, pages, count, is_stuck: false }
    }

    fn has(&self, slot: u64) -> bool {
        slot.checked_sub(self.slot).is_some_and(|n| n < self.count as u64)
    }

    fn meets(&self, slot: u64, count: usize) -> bool {
        slot < self.slot + self.count as u64 && self.slot < slot + count as u64
    }
}

/// Slots that the disk does not give back.
#[derive(Default)]
struct Lost {
    bits: Vec<u64>,
    count: u64,
}

impl Lost {
    fn clear(&mut self) {
        *self = Lost::default();
    }

    /// One of so many. Copies of an object may have the same.
    fn add(&mut self, slot: u64, of: u64) -> Result<(), Errno> {
        if self.bits.is_empty() {
            let words = of.div_ceil(64) as usize;
            self.bits.try_reserve_exact(words).map_err(|_| Errno::ENOMEM)?;
            self.bits.resize(words, 0);
        }
        let word = self.bits.get_mut(slot as usize / 64).ok_or(Errno::EIO)?;
        let bit = 1 << (slot % 64);
        self.count += u64::from(*word & bit == 0);
        *word |= bit;
        Ok(())
    }
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
            Ok(Some(device)) => Block::with_buffers(device, RUN * PAGE as usize),
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
        let mut device = self.0;
        device.listen(note::SWAP)?;
        device.interrupts(false);
        let store = Store {
            device,
            pool,
            first,
            slots,
            tree: first / TREE,
            hand: (0, 0),
            flights: [const { None }; PLACES],
            flying: 0,
            ahead: ReadAhead::new(RUN as u32),
            waited: 0,
            room: 0,
            ballast: None,
            wired: BTreeMap::new(),
            usage: Use::On,
            lost: Lost::default(),
            priority: PRIORITY,
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

/// Do pages leave for it?
pub fn is_on() -> bool {
    is_there() && with(|store| store.usage == Use::On) == Some(true)
}

/// How much there is.
pub fn facts() -> Facts {
    let facts = with(|store| {
        store.collect();
        let free = store.pool.pool_info().map_or(0, |facts| facts.slots) * PAGE;
        let &mut Store { ins, outs, waited, usage, priority, .. } = store;
        let all = store.slots * PAGE;
        let listed = (usage != Use::Off).then_some((all, all - free, priority));
        let (total, free) = if usage == Use::On { (all, free) } else { (0, 0) };
        Facts { total, free, listed, ins, outs, waited }
    });
    facts.unwrap_or_default()
}

/// Pages leave for it again. `EBUSY`: they do, or what left is coming back still.
pub fn turn_on(priority: i16) -> Result<(), Errno> {
    let turned = with(|store| {
        if store.usage != Use::Off {
            return Err(Errno::EBUSY);
        }
        (store.usage, store.priority) = (Use::On, priority);
        // It has failed before; it may be another one now.
        (store.is_broken, store.is_told) = (false, false);
        Ok(())
    });
    turned.unwrap_or(Err(Errno::ENXIO))
}

/// No page leaves any more, and some of those that have come back; more do if it is asked again. `first`: by who begins. What the disk does not
/// give back stays lost: it is where it was, for whoever wants it.
///
/// # Errors
/// `EINVAL`: it is out of use, or another thread is at it. `ENOSPC`: there is no memory for the next page in the pool.
pub fn turn_off(whose: Tid, first: bool) -> Result<Swept, Errno> {
    let swept = with(|store| {
        match store.usage {
            Use::On if first => {
                store.lost.clear();
                store.usage = Use::Leaving(whose, Sweep::default());
            }
            Use::Leaving(other, ..) if other == whose && !first => {}
            _ => return Err(Errno::EINVAL),
        }
        store.sweep(whose)
    });
    swept.unwrap_or(Err(Errno::EINVAL))
}

/// A thread that was about to take the disk out of use has given up.
pub fn stays_on(whose: Tid) {
    with(|store| {
        if matches!(store.usage, Use::Leaving(by, ..) if by == whose) {
            store.usage = Use::On;
        }
    });
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

/// The disk has interrupted: what it has written is written.
pub fn answered() {
    with(Store::collect);
}

/// The pool has got memory: some of it is kept.
pub fn has_grown() {
    with(Store::take_ballast);
}

/// Brings in a page of an object, if it has left. `false`: it has not. There must be memory for it (`ENOSPC`).
pub fn bring_in(record: u32, page: u64, how: Wanted) -> Result<bool, Errno> {
    with(|store| store.bring_in(record, page, how)).unwrap_or(Ok(false))
}

/// The same for who has no other way to more memory.
pub fn fetch(record: u32, page: u64) -> Result<bool, Errno> {
    loop {
        match bring_in(record, page, Wanted::WithOthers) {
            Err(Errno::ENOSPC) if reclaim(BATCH as u64) > 0 => {}
            done => return done,
        }
    }
}

/// Has pages of an object leave, as many as can.
pub fn page_out(record: u32, first: u64, pages: u64) {
    with(|store| {
        let Ok(Some(facts)) = store.pool.next_morsel(record) else { return };
        if facts.record != record {
            return;
        }
        let end = first.saturating_add(pages).min(facts.limit.div_ceil(PAGE));
        // To give it, and to fill it again, is more work than to have one page leave.
        let is_short = store.pool.pool_info().map_or(0, |facts| facts.free) < BALLAST;
        if is_short {
            store.give_ballast();
        }
        let mut page = first;
        while page < end && store.takes() {
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
pub fn wire(record: u32, whose: Pid, pages: (u64, u64), stays: bool) -> Result<(), Errno> {
    if pages.0 >= pages.1 {
        return Ok(());
    }
    with(|store| store.wire((record, whose), pages, stays)).unwrap_or(Ok(()))
}

/// A process has ended.
pub fn ended(whose: Pid) {
    if is_there() {
        with(|store| store.wired.retain(|&(_, pid), _| pid != whose));
    }
}

/// An object will be no more.
pub fn gone(record: u32) {
    if is_there() {
        with(|store| store.wired.retain(|&(other, _), _| other != record));
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
        if !self.takes() {
            return 0;
        }
        let (mut left, mut rounds) = (0, 0);
        // Of the object in which the hand is: meanwhile nobody here ends or limits one.
        let mut known = None;
        for _ in 0..ROWS {
            if left >= wanted || rounds > ROUNDS || self.is_broken {
                break;
            }
            let (record, page) = self.hand;
            let limit = match known {
                Some((number, limit)) if number == record => limit,
                _ => {
                    let Ok(Some(object)) = self.pool.next_morsel(record) else {
                        (self.hand, rounds) = ((0, 0), rounds + 1);
                        continue;
                    };
                    known = Some((object.record, object.limit));
                    if object.record != record {
                        self.hand = (object.record, 0);
                        continue;
                    }
                    object.limit
                }
            };
            // The first has all others.
            if record == 0 || page * PAGE >= limit || page == 0 && self.is_ballast(record) {
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
        let row = page & !(ROW - 1);
        let (mut pages, mut left) = (pages & self.may_leave(record, row), 0);
        while pages != 0 && !self.is_broken {
            let Some(place) = self.place_to_write() else { break };
            let (out, looked_at) = match self.page_out(record, (row, pages), place) {
                // Those before the last that has left and have not are not there.
                Ok(out) => (out, u64::MAX >> out.pages.leading_zeros()),
                Err(Status::Occupied | Status::NoMemory) => {
                    self.device.release(place);
                    return (left > 0).then_some(left);
                }
                // None of them.
                Err(_) => (PagedOut { slot: 0, pages: 0 }, !without_lowest(pages, RUN)),
            };
            pages &= !looked_at;
            left += u64::from(out.pages.count_ones());
            self.write(place, Flight::new(record, row, out));
        }
        Some(left)
    }

    /// Has pages of a row leave for a place's buffer.
    fn page_out(&mut self, record: u32, pages: (u64, u64), place: u16) -> Result<PagedOut, Status> {
        let to = self.device.buffer(place);
        let end = (self.first + self.slots).div_ceil(TREE);
        for _ in self.first / TREE..end {
            match self.pool.page_out(record, pages, self.tree, to) {
                Err(Status::Occupied) => self.next_tree(end),
                Ok(out) => {
                    // There is no longer run here.
                    let wanted = pages.1.count_ones().min(RUN as u32);
                    if out.pages.count_ones() < wanted {
                        self.next_tree(end);
                    }
                    return Ok(out);
                }
                refused => return refused,
            }
        }
        if !self.is_told {
            libos::log!("unixd: the disk for pages is full");
            self.is_told = true;
        }
        Err(Status::Occupied)
    }

    fn next_tree(&mut self, end: u64) {
        self.tree = if self.tree + 1 < end { self.tree + 1 } else { self.first / TREE };
    }

    /// Where a page of a place's buffer is.
    fn buffer_of(&self, place: u16, page: usize) -> (CapAddr, u64) {
        let (frame, offset) = self.device.buffer(place);
        (frame, offset + page as u64 * PAGE)
    }

    /// A place for a request that writes, held; who wants one waits for the disk if there are few. `None`: the disk takes nothing any more.
    fn place_to_write(&mut self) -> Option<u16> {
        self.collect();
        while !self.is_broken {
            if self.device.room() > FOR_READING {
                return self.device.hold();
            }
            self.wait();
        }
        None
    }

    /// Sends a run of pages to the disk.
    fn write(&mut self, place: u16, flight: Flight) {
        if flight.count == 0 {
            self.device.release(place);
            return;
        }
        // A slot that was freed and is used again: what was to be in it must not come behind.
        while self
            .flights
            .iter()
            .flatten()
            .any(|other| !other.is_stuck && other.meets(flight.slot, flight.count))
        {
            self.wait();
        }
        let sector = (flight.slot - self.first) * SECTORS as u64;
        let sent = self.device.send_held(place, sector, flight.count * SECTORS, true);
        self.outs += flight.count as u64;
        self.flights[usize::from(place)] = Some(flight);
        self.flying |= 1 << place;
        if sent.is_err() {
            self.written(place, Err(Error::Device));
        }
    }

    /// Takes answers that have come.
    fn collect(&mut self) {
        while let Some((place, result)) = self.device.answer_held() {
            self.written(place, result);
        }
    }

    /// Waits for at least one answer.
    fn wait(&mut self) {
        let (place, result) = self.next_answer();
        self.written(place, result);
    }

    fn next_answer(&mut self) -> (u16, Result<(), Error>) {
        let since = ticks();
        let mut others = 0;
        // The interrupt is for who waits: what nobody waits for is looked at when the next request comes.
        self.device.interrupts(true);
        let answer = loop {
            self.device.nudge();
            // It may have come before the device knew.
            if let Some(answer) = self.device.answer_held() {
                break answer;
            }
            // What else has happened the server looks at afterwards.
            others |= invoke(DISPATCHER, op::Wait {}).map_or(0, |bits| bits.value) & !note::SWAP;
        };
        self.device.interrupts(false);
        if others != 0 {
            let _ = DISPATCHER.notify(others);
        }
        self.waited += ticks() - since;
        answer
    }

    /// The disk has written a run, or has not.
    fn written(&mut self, place: u16, result: Result<(), Error>) {
        let Some(flight) = &self.flights[usize::from(place)] else { return };
        if let Err(error) = result {
            libos::log!("unixd: the disk for pages does not take them: {error:?}");
            self.is_broken = true;
            self.outs -= flight.count as u64;
            if !self.take_back(place) {
                return;
            }
        }
        self.flights[usize::from(place)] = None;
        self.flying &= !(1 << place);
        self.device.release(place);
    }

    /// Where a slot is on its way from: a place, and which page of its buffer.
    fn flight(&self, slot: u64) -> Option<(u16, usize)> {
        let mut places = self.flying;
        while places != 0 {
            let place = places.trailing_zeros() as u16;
            places &= places - 1;
            match &self.flights[usize::from(place)] {
                Some(flight) if flight.has(slot) => {
                    return Some((place, (slot - flight.slot) as usize));
                }
                _ => {}
            }
        }
        None
    }

    /// Pages that the disk has not taken go back to where they were. `false`: there was no memory for all.
    fn take_back(&mut self, place: u16) -> bool {
        let Some(flight) = &self.flights[usize::from(place)] else { return true };
        let mut is_stuck = false;
        for (n, &page) in flight.pages[..flight.count].iter().enumerate() {
            let from = self.buffer_of(place, n);
            let back = self.pool.page_in(flight.record, (page, 1), flight.slot + n as u64, from);
            // Else it is there, or nobody wants it any more.
            is_stuck |= back == Err(Status::NoMemory);
        }
        if let Some(flight) = &mut self.flights[usize::from(place)] {
            flight.is_stuck = is_stuck;
        }
        !is_stuck
    }

    fn bring_in(&mut self, record: u32, page: u64, how: Wanted) -> Result<bool, Errno> {
        let alone = how == Wanted::Alone;
        let most = if alone { 1 } else { self.look_ahead(record, page) };
        let slots = self.first..self.first + self.slots;
        let slot = match how {
            // Nothing that is elsewhere comes in from there: who says what is not so waits for the disk, and has nothing of it.
            Wanted::From(slot) if slots.contains(&slot) && page < MOST_PAGES => Ok(slot),
            _ => self.pool.slot_of(record, page),
        };
        let Ok(slot) = slot else { return Ok(false) };
        let count = match self.bring_some_in(record, (page, slot), most) {
            // It may be one of the others that cannot be read.
            Err(Errno::EIO) if most > 1 => self.bring_some_in(record, (page, slot), 1)?,
            brought => brought?,
        };
        if count > 0 && !alone {
            self.ahead.came(record, page, count);
        }
        Ok(count > 0)
    }

    /// Brings in a page from its slot, and those behind it that are behind it on the disk. How many that was to be, at most so many.
    fn bring_some_in(
        &mut self,
        record: u32,
        (page, slot): (u64, u64),
        most: u32,
    ) -> Result<u32, Errno> {
        self.expect_memory()?;
        self.collect();
        let found = self.flight(slot);
        let count = match most {
            ..=1 => 1,
            _ => self.near(record, (page, slot), most, found),
        };
        match found {
            Some((place, at)) => self.give(record, (page, slot), count, self.buffer_of(place, at)),
            None => self.read(record, (page, slot), count),
        }?;
        Ok(count as u32)
    }

    /// How many pages, at most so many, are in neighbouring slots from one on, all of them on the disk or on their way there together.
    fn near(
        &self,
        record: u32,
        (page, slot): (u64, u64),
        most: u32,
        found: Option<(u16, usize)>,
    ) -> usize {
        let in_row = |n: u64| self.pool.slot_of(record, page + n) == Ok(slot + n);
        let together = |n: u64| match found {
            Some((place, at)) => self.flight(slot + n) == Some((place, at + n as usize)),
            None => self.flight(slot + n).is_none(),
        };
        let end = (self.first + self.slots - slot).min(most.into());
        let near = (1..end).take_while(|&n| together(n)).count() as u64 + 1;
        // Where the last of them is in the row the others nearly always are; one that is not does not come in from where it should be.
        match near > 1 && in_row(near - 1) {
            true => near as usize,
            false => (1..near.saturating_sub(1)).take_while(|&n| in_row(n)).count() + 1,
        }
    }

    /// Brings in some of the pages that have left.
    fn sweep(&mut self, whose: Tid) -> Result<Swept, Errno> {
        let Use::Leaving(_, Sweep { mut at, mut found }) = self.usage else {
            return Ok(Swept::All);
        };
        let (mut came, mut rows) = (0, 0);
        let done = loop {
            if came >= SWEEP || rows >= SWEEP {
                break Ok(Swept::Partly);
            }
            rows += 1;
            let (record, page) = at;
            let Ok(Some(object)) = self.pool.next_morsel(record) else {
                // Those that others have copied meanwhile may be behind the hand.
                if !found && self.is_empty() {
                    break Ok(Swept::All);
                }
                let rest = if found { Swept::Partly } else { Swept::Waits };
                (at, found) = ((0, 0), false);
                self.lost.clear();
                break Ok(rest);
            };
            if object.record != record {
                at = (object.record, 0);
                continue;
            }
            // The first has all others.
            if record == 0 || page * PAGE >= object.limit {
                at = (record + 1, 0);
                continue;
            }
            let Ok(seen) = self.pool.look_over(record, page, false) else {
                at = (record + 1, 0);
                continue;
            };
            let mut out = seen.out & u64::MAX << (page & (ROW - 1));
            if out == 0 {
                at.1 = seen.next;
                continue;
            }
            let first = (page & !(ROW - 1)) + u64::from(out.trailing_zeros());
            out >>= out.trailing_zeros();
            at.1 = first;
            let run = out.trailing_ones().min(RUN as u32);
            let Ok(slot) = self.pool.slot_of(record, first) else { continue };
            let brought = match self.bring_some_in(record, (first, slot), run) {
                // It may be one of the others that cannot be read.
                Err(Errno::EIO) if run > 1 => self.bring_some_in(record, (first, slot), 1),
                brought => brought,
            };
            match brought {
                // It is looked at once more, whether it came or not.
                Ok(count) => (came, found) = (came + u64::from(count), true),
                Err(Errno::EIO) => {
                    came += 1;
                    at.1 = first + 1;
                    if let Err(errno) = self.lost.add(slot - self.first, self.slots) {
                        break Err(errno);
                    }
                }
                Err(errno) => break Err(errno),
            }
        };
        self.usage = match done {
            Ok(Swept::All) => Use::Off,
            _ => Use::Leaving(whose, Sweep { at, found }),
        };
        done
    }

    /// Is nothing on the disk, nor on its way there, but for what was found lost on this way round?
    fn is_empty(&mut self) -> bool {
        self.collect();
        let is_all = |free| free + self.lost.count == self.slots;
        self.pool.pool_info().is_ok_and(|facts| is_all(facts.slots))
    }

    /// Can pages leave?
    fn takes(&self) -> bool {
        !self.is_broken && self.usage == Use::On
    }

    /// Reads a run of pages, and waits for it.
    fn read(&mut self, record: u32, (page, slot): (u64, u64), count: usize) -> Result<(), Errno> {
        let place = self.device.hold().ok_or(Errno::EIO)?;
        let sector = (slot - self.first) * SECTORS as u64;
        let mut result =
            self.device.send_held(place, sector, count * SECTORS, false).map_err(|_| Error::Device);
        if result.is_ok() {
            result = loop {
                match self.next_answer() {
                    (answered, result) if answered == place => break result,
                    (other, result) => self.written(other, result),
                }
            };
        }
        let done = match result {
            Ok(()) => self.give(record, (page, slot), count, self.buffer_of(place, 0)),
            Err(error) => {
                libos::log!("unixd: the disk for pages does not give one back: {error:?}");
                Err(Errno::EIO)
            }
        };
        self.device.release(place);
        done
    }

    /// Pages come in from a buffer.
    fn give(
        &mut self,
        record: u32,
        (page, slot): (u64, u64),
        count: usize,
        (frame, offset): (CapAddr, u64),
    ) -> Result<(), Errno> {
        let (mut come, count) = (0, count as u64);
        while come < count {
            let (page, slot, from) = (page + come, slot + come, (frame, offset + come * PAGE));
            match self.pool.page_in(record, (page, count - come), slot, from) {
                // The others are in the next table, or there is no memory for them, or somebody else has discarded one.
                Ok(more) => come += more,
                Err(Status::NoMemory) if come == 0 => {
                    self.room = 0;
                    return Err(Errno::ENOSPC);
                }
                Err(_) => break,
            }
        }
        self.room = self.room.saturating_sub(come);
        self.ins += come;
        Ok(())
    }

    /// There is probably memory for as many pages as come in together, and before anything is read: else it would be read in vain.
    fn expect_memory(&mut self) -> Result<(), Errno> {
        if self.room < RUN as u64 {
            let free = self.pool.pool_info().map_or(0, |facts| facts.free);
            if free < RUN as u64 {
                return Err(Errno::ENOSPC);
            }
            self.room = free.min(SURE);
        }
        Ok(())
    }

    /// How many pages come in with one that is wanted.
    fn look_ahead(&mut self, record: u32, page: u64) -> u32 {
        if let Some(run) = self.ahead.wanted(record) {
            let row = run.page & !(ROW - 1);
            let seen = self.pool.look_over(record, run.page, false);
            let (there, used) = seen.map_or((0, 0), |seen| {
                let behind = u64::MAX.checked_shl((run.page - row) as u32 + 1).unwrap_or(0);
                let end = (run.page - row + u64::from(run.count)).min(ROW);
                let both = behind & u64::MAX >> (ROW - end);
                ((seen.there & both).count_ones(), (seen.there & seen.used & both).count_ones())
            });
            self.ahead.judge(record, there, used);
        }
        self.ahead.pages(record, page)
    }
}

/// A set without the first `count` that are in it.
fn without_lowest(set: u64, count: usize) -> u64 {
    (0..count).fold(set, |rest, _| rest & rest.saturating_sub(1))
}

fn ticks() -> u64 {
    // SAFETY: it has no effect on memory.
    unsafe { core::arch::x86_64::_rdtsc() }
}
