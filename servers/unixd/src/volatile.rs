//! Where contents of files are that do not survive: a Pool whose memory comes from the memory server and goes back there, 2 MiB
//! at a time. So files and processes share the memory of the machine: what is free in the pool counts as free.

use crate::caps::Slots;
use crate::morsels::{errno_of, Morsel};
use crate::server::RAM;
use crate::stock::left_by;
use abi::layout::PAGE;
use abi::slots::MEMD;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use libos::morsel::PoolCap;
use libos::{memd, Cap, CapAddr, CapType, Status};
use unixproto::Errno;

/// What comes and goes at a time, at least; and at most.
const CHUNK: u64 = 2 << 20;
const LARGEST: u64 = 16 << 20;
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
/// How many chunks that cannot be used are held while another is asked for.
const UNUSABLE: usize = 16;

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
    /// Bytes that it is given the next time: more and more, as long as nothing goes back.
    next: u64,
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
    pub fn new(ram: u64) -> Result<VolatilePool, Status> {
        let slots = || Slots::new(1).map_err(|_| Status::NoSlot);
        let pool = slots()?;
        let end = end_of(ram).next_multiple_of(CHUNK);
        let own = end.saturating_sub(LOW).div_ceil(DESCRIBED).max(1);
        let pages = end.min(own * DESCRIBED) / PAGE;
        memd::alloc(MEMD, own * CHUNK, CHUNK, memd::near(libos::upcall::own_frame()), RAM)?;
        let made = RAM.retype(CapType::Pool, 0, own * CHUNK, 1, pool.first());
        RAM.discard();
        made?;
        pool.first().format_volatile(end - pages * PAGE, pages)?;
        POOL.store(pool.first().0, Relaxed);
        let mut new = VolatilePool { pool, chunks: BTreeMap::new(), next: CHUNK };
        new.add_chunk(CHUNK).map_err(|_| Status::NoMemory)?;
        Ok(new)
    }

    fn cap(&self) -> CapAddr {
        self.pool.first()
    }

    /// More memory, whoever it is for.
    fn add_chunk(&mut self, bytes: u64) -> Result<(), Errno> {
        let mut unusable = Vec::new();
        while unusable.len() < UNUSABLE {
            let chunk = Slots::new(1)?;
            let near = memd::near(libos::upcall::own_frame());
            memd::alloc(MEMD, bytes, CHUNK, near, chunk.first()).map_err(|_| Errno::ENOSPC)?;
            match self.cap().add_chunk(chunk.first()) {
                Ok(address) => {
                    self.chunks.insert(address, chunk);
                    return Ok(());
                }
                Err(Status::OutOfRange) => unusable.push(chunk),
                Err(status) => return Err(errno_of(status)),
            }
        }
        Err(Errno::ENOSPC)
    }

    /// More memory for a user, who leaves some to others.
    #[cold]
    fn grow(&mut self, user: u32) -> Result<(), Errno> {
        let has = |bytes| memd::has(MEMD, bytes + left_by(user)).unwrap_or(false);
        let next = self.next;
        self.next = LARGEST.min(2 * next);
        // Much only where there is plenty.
        if next > CHUNK && has(4 * next) && self.add_chunk(next).is_ok() {
            return Ok(());
        }
        match has(CHUNK) {
            true => self.add_chunk(CHUNK),
            false => Err(Errno::ENOSPC),
        }
    }

    /// Gives memory back of which nothing is used, but for a little.
    pub fn give_back(&mut self) {
        FREED.store(0, Relaxed);
        self.next = CHUNK;
        while self.space().is_ok_and(|(free, _)| free >= 2 * CHUNK) {
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
            if at >= to || self.grow(user).is_err() {
                return Ok(at);
            }
        }
    }

    /// Bytes that are free in it, and that are used.
    pub fn space(&self) -> Result<(u64, u64), Errno> {
        let facts = self.cap().pool_info().map_err(errno_of)?;
        Ok((facts.free * PAGE, (facts.pages - facts.own - facts.free) * PAGE))
    }
}
