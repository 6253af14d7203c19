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

    /// An object of so many zeros.
    pub fn make(&mut self, bytes: u64, _user: u32) -> Result<Morsel, Errno> {
        Morsel::volatile(self.cap(), bytes)
    }

    /// Makes pages of an object, as far as there is memory.
    pub fn populate(
        &mut self,
        object: &mut Morsel,
        (from, to): (u64, u64),
        _user: u32,
    ) -> Result<u64, Errno> {
        object.populate(from, to)
    }

    /// Bytes that are free in it, and that are used.
    pub fn space(&self) -> Result<(u64, u64), Errno> {
        let facts = self.cap().pool_info().map_err(errno_of)?;
        Ok((facts.free * PAGE, (facts.pages - facts.own - facts.free) * PAGE))
    }
}
