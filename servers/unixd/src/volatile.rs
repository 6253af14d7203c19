//! Where contents of files are that do not survive: a Pool of memory of the machine.

use crate::caps::{errno, Slots};
use crate::morsels::{errno_of, Morsel};
use crate::server::RAM;
use abi::layout::PAGE;
use abi::slots::MEMD;
use libos::morsel::{Persistence, PoolCap};
use libos::{memd, Cap, CapAddr, CapType, RamAttrs, Status};
use unixproto::Errno;

/// A chunk of a pool.
const CHUNK: u64 = 2 << 20;

/// The pool.
pub struct VolatilePool {
    pool: Slots,
}

impl VolatilePool {
    /// A pool of so many bytes, a multiple of a chunk.
    pub fn new(bytes: u64) -> Result<VolatilePool, Status> {
        let pool = Slots::new(1).map_err(|_| Status::NoSlot)?;
        memd::alloc(MEMD, bytes, CHUNK, RamAttrs(0), RAM)?;
        let made = RAM.retype(CapType::Pool, 0, bytes, 1, pool.first());
        RAM.discard();
        made?;
        pool.first().format_pool(Persistence::Nothing)?;
        Ok(VolatilePool { pool })
    }

    fn cap(&self) -> CapAddr {
        self.pool.first()
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
