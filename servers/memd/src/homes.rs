//! The home capabilities and the bitmaps about them.

use libos::domain;
use libos::local::Local;
use libos::ram::Arena;
use libos::vspace::RW;
use libos::{abi, Cap, CapAddr, CapType, RamAttrs, Status};
use ramalloc::{AllocError, Buddy, Grant, Pool, Request, PAGE};

/// Where a new capability waits until the answer has carried it away.
pub const TRANSFER: CapAddr = CapAddr(libos::domain::ARENA_SLOT.0 + 1);
/// What the server needs besides the bitmaps: tables and L2CNodes for its own address space.
const OVERHEAD: u64 = 256 << 10;

/// Too large for a stack.
static POOL: Local<Pool<'static>> = Local::new(Pool::new());

/// All homes, by the numbers that the pool gives them: number `n` is in slot `n` of the L2CNode at
/// root index [`abi::slots::BOOT_RAM_L1`].
pub struct Homes {
    /// Which pages of them are free.
    pub pool: &'static mut Pool<'static>,
    /// Page colours that are told apart, a power of two up to 64.
    pub colours: u64,
}

#[derive(Clone, Copy)]
struct Home {
    slot: CapAddr,
    base: u64,
    bytes: u64,
    attrs: RamAttrs,
}

fn home(number: usize) -> Result<Home, Status> {
    let slot = CapAddr::new(abi::slots::BOOT_RAM_L1, number as u32);
    let what = slot.identify()?;
    if what.ty != CapType::Ram {
        return Err(Status::WrongType);
    }
    Ok(Home { slot, base: what.base, bytes: what.bytes, attrs: what.attrs })
}

impl Homes {
    /// Takes `count` homes over. In use already is `[used_base, used_base + used_bytes)`, and the
    /// bitmaps go right behind.
    pub fn take(count: u32, used_base: u64, used_bytes: u64, colours: u64) -> Result<Self, Status> {
        let mut words = 0;
        let mut first = None;
        for number in 0..count as usize {
            let home = home(number)?;
            words += Buddy::words_needed(home.base, home.bytes);
            if (home.base..home.base + home.bytes).contains(&used_base) {
                first = Some(home);
            }
        }
        let first = first.ok_or(Status::OutOfRange)?;
        let bitmaps = make_bitmaps(first, used_base + used_bytes - first.base, words)?;
        let own_end = own_end();
        let pool = POOL.try_with(|pool| pool as *mut Pool<'static>).ok_or(Status::WrongState)?;
        // SAFETY: the pool is static, and nobody else takes it out of `POOL`.
        let pool = unsafe { &mut *pool };
        add_all(pool, count, bitmaps, used_base, first.base + own_end)?;
        Ok(Homes { pool, colours })
    }

    /// Puts new RAM in the transfer slot: as many bytes as are asked for, or as there are in one piece,
    /// but not less than `least`. How many.
    pub fn alloc_between(&mut self, least: u64, mut request: Request) -> Result<u64, Status> {
        loop {
            match self.pool.alloc(request) {
                Ok(grant) => return self.hand_out(grant, request.bytes).map(|()| request.bytes),
                Err(AllocError::NoMemory) if request.bytes > least => {
                    request.bytes = least.max((request.bytes / 2) & !(PAGE - 1));
                }
                Err(error) => return Err(status(error)),
            }
        }
    }

    /// The same for a page of one of the colours in the set `wanted`.
    pub fn alloc_coloured(&mut self, request: Request, wanted: u64) -> Result<(), Status> {
        let grant = self.pool.alloc_coloured(request, self.colours, wanted).map_err(status)?;
        self.hand_out(grant, request.bytes)
    }

    fn hand_out(&mut self, grant: Grant, bytes: u64) -> Result<(), Status> {
        let home = CapAddr::new(abi::slots::BOOT_RAM_L1, grant.range as u32);
        let make = || home.retype(CapType::Ram, grant.offset, bytes, 1, TRANSFER);
        let mut result = make();
        if result == Err(Status::Occupied) {
            self.empty_transfer();
            result = make();
        }
        if result.is_err() {
            let base = home.identify()?.base;
            // Just taken from there.
            let _ = self.pool.free(base + grant.offset, bytes);
        }
        result
    }
}

fn status(error: AllocError) -> Status {
    match error {
        AllocError::Invalid => Status::OutOfRange,
        AllocError::NoMemory => Status::NoMemory,
    }
}

impl Homes {
    /// Drops a capability that its caller had no place for; its memory comes back.
    pub fn empty_transfer(&mut self) {
        // An empty slot is what is wanted.
        TRANSFER.discard();
    }
}

/// Makes and maps memory for `words` words from `offset` of the home on.
fn make_bitmaps(home: Home, offset: u64, words: usize) -> Result<&'static mut [u64], Status> {
    let bytes = (words as u64 * 8).next_multiple_of(PAGE);
    // Tables for the bitmaps: one page for 512.
    let end = offset + bytes + bytes / 512 + OVERHEAD;
    let va = domain::with(|domain| {
        domain.arena = Arena::over(home.slot, offset, end.next_multiple_of(PAGE).min(home.bytes));
        let frame = domain.make(CapType::Frame, bytes)?;
        domain.map(frame.into(), 0, bytes, RW)
    })?;
    // SAFETY: just mapped, zeroed by the kernel, for this slice only and never unmapped.
    Ok(unsafe { core::slice::from_raw_parts_mut(va as *mut u64, words) })
}

/// Where what the server has taken for itself ends in its home; it takes nothing after this.
fn own_end() -> u64 {
    let end = domain::with(|domain| {
        let end = domain.arena.next();
        domain.arena = Arena::over(CapAddr::NULL, 0, 0);
        Ok(end)
    });
    end.unwrap_or(u64::MAX)
}

/// Adds all homes to the pool, free but for `[used, used_end)`.
fn add_all(
    pool: &mut Pool<'static>,
    count: u32,
    mut bitmaps: &'static mut [u64],
    used: u64,
    used_end: u64,
) -> Result<(), Status> {
    for number in 0..count as usize {
        let home = home(number)?;
        let (words, rest) = bitmaps.split_at_mut(Buddy::words_needed(home.base, home.bytes));
        bitmaps = rest;
        pool.add(home.base, home.bytes, home.attrs.0, words).ok_or(Status::OutOfRange)?;
        let end = home.base + home.bytes;
        let parts =
            [(home.base, used.clamp(home.base, end)), (used_end.clamp(home.base, end), end)];
        for (low, high) in parts {
            pool.free(low, high - low).map_err(|_| Status::OutOfRange)?;
        }
    }
    Ok(())
}
