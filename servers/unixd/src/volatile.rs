//! Where contents of files are that do not survive: a Pool whose memory comes from the memory server and goes back there, 2 MiB
//! at a time. So files and processes share the memory of the machine: what is free in the pool counts as free.

use crate::caps::{errno, Slots};
use crate::morsels::{errno_of, Morsel};
use crate::server::RAM;
use crate::stock::left_by;
use crate::swap::{self, Disk, Wanted};
use abi::layout::PAGE;
use abi::slots::MEMD;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use libos::morsel::{MorselCap, PoolCap};
use libos::{memd, Cap, CapAddr, CapType, Status};
use unixproto::Errno;

/// What comes and goes.
const CHUNK: u64 = 2 << 20;
/// How many chunks come at a time, where there is plenty of memory: first, and at most.
const FIRST: u32 = 4;
const MOST: u32 = 16;
/// So much memory of the machine is described by a chunk of the pool's own.
const DESCRIBED: u64 = 1000 << 20;
/// Memory at low addresses is the kernel's, so that it need not be described.
const LOW: u64 = 16 << 20;
/// From so much memory on, the machine has what is more than [`BELOW`] from [`ABOVE`] on.
const SPLIT: u64 = 0xb000_0000;
const BELOW: u64 = 2 << 30;
const ABOVE: u64 = 4 << 30;
/// Below so many free bytes there may be none for who has found none.
const FEW: u64 = 64 * PAGE;
/// How often memory is asked for that lies where the pool can have some.
const TRIES: u32 = 16;

/// Slots begin at a multiple of this, counted from the first page that is described.
const SLOTS_AT: u64 = 16 << 20;
/// Where pages can leave, this part of the memory is left to what cannot.
const LEFT_TO_FRAMES: u64 = 16;
/// Where pages can leave, so many chunks stay.
const FEWEST: usize = 2;
/// Bytes that are kept free for tables of what is shown.
const KEPT: u64 = 16 * PAGE;
/// Pages that leave when there is no memory.
const LEAVE: u64 = 256;

/// The pool, for who asks how much is free in it.
static POOL: AtomicU32 = AtomicU32::new(0);
/// Bytes of objects that went, or became smaller, since chunks were last given back.
static FREED: AtomicU64 = AtomicU64::new(0);

/// Memory of an object has gone, at most so much.
pub fn freed(bytes: u64) {
    FREED.fetch_add(bytes, Relaxed);
}

/// How much memory may be given back by now.
pub fn to_give_back() -> u64 {
    FREED.load(Relaxed)
}

/// Bytes that are free in the pool.
pub fn free() -> u64 {
    let pool = CapAddr(POOL.load(Relaxed));
    pool.pool_info().map_or(0, |facts| facts.free * PAGE)
}

/// The pool.
pub struct VolatilePool {
    pool: Slots,
    /// What it has been given, by address.
    chunks: BTreeMap<u64, Slots>,
    /// Memory that it cannot use, while more is looked for.
    unusable: Vec<Slots>,
    /// How many chunks it is given the next time: more and more, as long as nothing goes back.
    next: u32,
    /// Memory that is left to small pages by those who did not ask for large ones, in bytes.
    left_to_small: u64,
    /// Memory that is left to what cannot leave, where pages can, in bytes.
    left_to_frames: u64,
}

/// So many times [`CHUNK`] of RAM. Slots one by one: a row of them might need a new node.
fn ram(count: u32) -> Result<Vec<Slots>, Errno> {
    let (bytes, near) = (u64::from(count) * CHUNK, memd::near(libos::upcall::own_frame()));
    memd::alloc(MEMD, bytes, CHUNK, near, RAM).map_err(|_| Errno::ENOSPC)?;
    let piece = |n| {
        let slot = Slots::new(1)?;
        let made = RAM.retype(CapType::Ram, u64::from(n) * CHUNK, CHUNK, 1, slot.first());
        made.map(|()| slot).map_err(errno)
    };
    let pieces = (0..count).map(piece).collect();
    RAM.discard();
    pieces
}

/// The end of the addresses of so much memory.
fn end_of(ram: u64) -> u64 {
    match ram {
        SPLIT.. => ABOVE + ram - BELOW,
        _ => ram,
    }
}

impl VolatilePool {
    /// A pool for a machine with so much memory.
    pub fn new(ram: u64, disk: Option<Disk>) -> Result<VolatilePool, Status> {
        let slots = || Slots::new(1).map_err(|_| Status::NoSlot);
        let pool = slots()?;
        let end = end_of(ram).next_multiple_of(CHUNK);
        // Slots are described as pages are, behind all memory.
        let slots_of = |disk: &Disk| disk.slots() * PAGE + SLOTS_AT;
        let slot_bytes = disk.as_ref().map_or(0, slots_of);
        let own = (end.saturating_sub(LOW) + slot_bytes).div_ceil(DESCRIBED).max(1);
        let pages = end.min(own * DESCRIBED - slot_bytes) / PAGE;
        let first = end - pages * PAGE;
        let first_slot = (pages * PAGE).next_multiple_of(SLOTS_AT) / PAGE;
        let all = disk.as_ref().map_or(pages, |disk| first_slot + disk.slots());
        memd::alloc(MEMD, own * CHUNK, CHUNK, memd::near(libos::upcall::own_frame()), RAM)?;
        let made = RAM.retype(CapType::Pool, 0, own * CHUNK, 1, pool.first());
        RAM.discard();
        made?;
        pool.first().format_volatile(first, all)?;
        POOL.store(pool.first().0, Relaxed);
        let left_to_frames = if disk.is_some() { ram / LEFT_TO_FRAMES } else { 0 };
        if let Some(disk) = disk {
            disk.begin(pool.first(), first_slot)?;
        }
        let (chunks, unusable) = (BTreeMap::new(), Vec::new());
        // Memory comes with the first file that needs any.
        let left_to_small = ram / 2;
        let mut volatile =
            VolatilePool { pool, chunks, unusable, next: FIRST, left_to_small, left_to_frames };
        if left_to_frames > 0 {
            // When memory is short there may be none of this size.
            volatile.add_chunks(FEWEST as u32).map_err(|_| Status::NoMemory)?;
            volatile.unusable.clear();
        }
        Ok(volatile)
    }

    fn cap(&self) -> CapAddr {
        self.pool.first()
    }

    /// More memory, whoever it is for: so many chunks, of which some may lie where the pool has none.
    fn add_chunks(&mut self, count: u32) -> Result<(), Errno> {
        for _ in 0..TRIES {
            let chunks = ram(count)?;
            let mut unusable = Vec::new();
            for chunk in chunks {
                match self.cap().add_chunk(chunk.first()) {
                    Ok(address) => drop(self.chunks.insert(address, chunk)),
                    // Held, so that the next ones are others.
                    Err(Status::OutOfRange) => unusable.push(chunk),
                    Err(status) => return Err(errno_of(status)),
                }
            }
            if unusable.len() < count as usize {
                return Ok(());
            }
            self.unusable.append(&mut unusable);
        }
        Err(Errno::ENOSPC)
    }

    /// More memory for a user, who leaves some to others.
    #[cold]
    pub fn grow(&mut self, user: u32) -> Result<(), Errno> {
        // A little must be here for pages to leave through.
        let is_little = self.chunks.len() < FEWEST;
        let left = left_by(user).max(if is_little { 0 } else { self.left_to_frames });
        let has = |count| {
            let bytes = u64::from(count) * CHUNK + left;
            memd::has(MEMD, bytes).unwrap_or(false)
        };
        let next = self.next;
        self.next = MOST.min(2 * next);
        // Much only where there is plenty.
        let grown = match next > 1 && has(4 * next) && self.add_chunks(next).is_ok() {
            true => Ok(()),
            // What is free may be in many pieces.
            false if has(1) && self.add_chunks(1).is_ok() => Ok(()),
            false if swap::reclaim(LEAVE) > 0 => Ok(()),
            false => Err(Errno::ENOSPC),
        };
        self.unusable.clear();
        if grown.is_ok() {
            swap::has_grown();
        }
        grown
    }

    /// Is there so much memory that pages may be large of which perhaps little is used?
    pub fn has_plenty(&self) -> bool {
        memd::has(MEMD, self.left_to_small).unwrap_or(false)
    }

    /// Gives memory back of which nothing is used, but for a little.
    pub fn give_back(&mut self) {
        FREED.store(0, Relaxed);
        self.next = FIRST;
        let least = if swap::is_there() { FEWEST } else { 0 };
        while self.chunks.len() > least && self.space().is_ok_and(|(free, _)| free >= 2 * CHUNK) {
            match self.cap().remove_chunk() {
                // The memory server has it when its capability is gone.
                Ok(Some(address)) => drop(self.chunks.remove(&address)),
                // What is free is in many pieces.
                _ => break,
            }
        }
    }

    /// Does what may need memory of the pool, which grows for a user.
    pub fn with_room<R>(
        &mut self,
        user: u32,
        mut work: impl FnMut(CapAddr) -> Result<R, Errno>,
    ) -> Result<R, Errno> {
        if self.chunks.is_empty() {
            self.grow(user)?;
        }
        loop {
            match work(self.cap()) {
                Err(Errno::ENOSPC) => self.grow(user)?,
                result => return result,
            }
        }
    }

    /// Somebody has found no memory in the pool.
    pub fn make_room(&mut self, user: u32) -> Result<(), Errno> {
        match self.space()? {
            (FEW.., _) => Ok(()),
            _ => self.grow(user),
        }
    }

    /// An object of so many zeros, of which there is to be memory for the first bytes, if possible.
    pub fn make(&mut self, bytes: u64, needed: u64, user: u32) -> Result<Morsel, Errno> {
        self.with_room(user, |pool| Morsel::volatile(pool, bytes, needed))
    }

    /// Brings in a page of an object that has left memory. `false`: it has not.
    pub fn bring_in(
        &mut self,
        (object, page): (u32, u64),
        how: Wanted,
        user: impl Fn() -> u32,
    ) -> Result<bool, Errno> {
        if !swap::is_there() {
            return Ok(false);
        }
        loop {
            match swap::bring_in(object, page, how) {
                Err(Errno::ENOSPC) => self.grow(user())?,
                done => return done,
            }
        }
    }

    /// Has pages leave until there is so much memory for processes of a core, or nothing is left that can. Chunks go back whole, so it may take many.
    pub fn make_memory(&mut self, bytes: u64, core: u32) -> bool {
        let had = |bytes| crate::homes::has_memory(core, bytes);
        let wanted = bytes.saturating_add(CHUNK);
        while swap::is_there() && self.chunks.len() > FEWEST && !had(wanted) {
            let left = swap::reclaim(LEAVE);
            if let Ok(Some(address)) = self.cap().remove_chunk() {
                self.chunks.remove(&address);
            } else if left == 0 {
                break;
            }
        }
        had(bytes)
    }

    /// Has some pages leave if there are few: it is not told whether there are any then.
    pub fn keep_some(&mut self) {
        if !self.chunks.is_empty() && self.space().is_ok_and(|(free, _)| free < KEPT) {
            let _ = self.grow(0);
        }
    }

    /// Makes pages of an object, as far as there is memory for a user.
    pub fn populate(
        &mut self,
        object: &mut Morsel,
        (from, to): (u64, u64),
        user: u32,
    ) -> Result<u64, Errno> {
        let mut at = from;
        loop {
            at = object.populate(at, to)?;
            if at >= to {
                return Ok(at);
            }
            if self.grow(user).is_err() {
                if !object.is_large() {
                    return Ok(at);
                }
                // There may be small pages.
                object.cap().advise(false).map_err(errno_of)?;
            }
        }
    }

    /// Bytes that are free in it, and that are used.
    pub fn space(&self) -> Result<(u64, u64), Errno> {
        if self.chunks.is_empty() {
            return Ok((0, 0));
        }
        let facts = self.cap().pool_info().map_err(errno_of)?;
        Ok((facts.free * PAGE, (facts.pages - facts.own - facts.free) * PAGE))
    }
}
