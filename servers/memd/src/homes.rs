//! The home capabilities and the bitmaps about them.

use libos::abi::slots::KERNEL;
use libos::captypes::place::SLOT_BYTES;
use libos::domain;
use libos::local::Local;
use libos::ram::Arena;
use libos::vspace::RW;
use libos::{abi, invoke, op, Cap, CapAddr, CapType, RamAttrs, Status};
use ramalloc::pool::MAX_RANGES;
use ramalloc::{AllocError, Buddy, Grant, Pool, Request, PAGE};

/// Where a new capability waits until the answer has carried it away.
pub const TRANSFER: CapAddr = CapAddr(libos::domain::ARENA_SLOT.0 + 1);
/// What the server needs besides the bitmaps: tables and L2CNodes for its own address space, and slots of units.
const OVERHEAD: u64 = (256 << 10) + MOST_UNITS as u64 * SLOT_BYTES;

/// Too large for a stack.
static POOL: Local<Pool<'static>> = Local::new(Pool::new());

/// All homes, by the numbers that the pool gives them: number `n` is in slot `n` of the L2CNode at
/// root index [`abi::slots::BOOT_RAM_L1`].
pub struct Homes {
    /// Which pages of them are free.
    pub pool: &'static mut Pool<'static>,
    /// Page colours that are told apart, a power of two up to 64.
    pub colours: u64,
    /// Ranges of the pool that were this server's from the start; behind them come those that are others'.
    own: usize,
    /// What of the machine's memory can be borrowed and lent; none where there is nobody to do it with.
    pub units: Option<Units>,
}

/// The machine's memory in pieces of one size, which can have their home at any core.
pub struct Units {
    /// Bytes of each, a power of two.
    pub bytes: u64,
    /// How many there are, from address 0 on.
    count: u64,
    /// The slots of the first 256 of them, and so on: home RAM of what was adopted, and marks of what was ceded.
    slots: [CapAddr; MOST_UNITS / NODE_SLOTS],
}

/// Slots that are taken at once.
const NODE_SLOTS: usize = 256;
/// Most units; they are larger where there is more memory.
const MOST_UNITS: usize = 4 * NODE_SLOTS;
/// Least bytes of a unit: what one entry of a table maps.
const LEAST_UNIT: u64 = 2 << 20;

impl Units {
    /// Those of memory that ends at `end`, without slots.
    fn new(end: u64) -> Self {
        let bytes = end.div_ceil(MOST_UNITS as u64).next_power_of_two().max(LEAST_UNIT);
        Units { bytes, count: end.div_ceil(bytes), slots: [CapAddr::NULL; _] }
    }

    /// Blocks of this order have as many pages as a unit.
    fn order(&self) -> u32 {
        (self.bytes / PAGE).ilog2()
    }

    fn take_slots(&mut self) -> Result<(), Status> {
        let mut left = self.count as usize;
        for first in &mut self.slots {
            if left == 0 {
                break;
            }
            *first = domain::with(|domain| domain.slot_range(left.min(NODE_SLOTS) as u32))?;
            left = left.saturating_sub(NODE_SLOTS);
        }
        Ok(())
    }

    /// The slot of the unit around an address.
    fn slot(&self, address: u64) -> Result<CapAddr, Status> {
        let number = (address / self.bytes) as usize;
        let first = self.slots.get(number / NODE_SLOTS).ok_or(Status::OutOfRange)?;
        Ok(first.plus((number % NODE_SLOTS) as u32))
    }
}

#[derive(Clone, Copy)]
struct Home {
    slot: CapAddr,
    base: u64,
    bytes: u64,
    attrs: RamAttrs,
}

fn own_home(number: usize) -> CapAddr {
    CapAddr::new(abi::slots::BOOT_RAM_L1, number as u32)
}

fn home(number: usize) -> Result<Home, Status> {
    let slot = own_home(number);
    let what = slot.identify()?;
    if what.ty != CapType::Ram {
        return Err(Status::WrongType);
    }
    Ok(Home { slot, base: what.base, bytes: what.bytes, attrs: what.attrs })
}

impl Homes {
    /// Takes `count` homes over. In use already is `[used_base, used_base + used_bytes)`, and the
    /// bitmaps go right behind.
    pub fn take(
        count: u32,
        used_base: u64,
        used_bytes: u64,
        colours: u64,
        end: u64,
    ) -> Result<Self, Status> {
        // Memory in too many parts is neither lent nor borrowed.
        let is_told_apart = || count as usize + gaps(count, end).count() <= MAX_RANGES;
        let mut units = (end > 0 && is_told_apart()).then(|| Units::new(end));
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
        if let Some(units) = &units {
            let order = units.order();
            let needed = |gap: Gap| Buddy::words_needed_within(gap.0, gap.1 - gap.0, order);
            words += gaps(count, end).map(needed).sum::<usize>();
        }
        let bitmaps = make_bitmaps(first, used_base + used_bytes - first.base, words)?;
        if let Some(units) = &mut units {
            units.take_slots()?;
        }
        let own_end = own_end();
        let pool = POOL.try_with(|pool| pool as *mut Pool<'static>).ok_or(Status::WrongState)?;
        // SAFETY: the pool is static, and nobody else takes it out of `POOL`.
        let pool = unsafe { &mut *pool };
        let mut bitmaps = add_all(pool, count, bitmaps, used_base, first.base + own_end)?;
        if let Some(units) = &units {
            for (base, end) in gaps(count, end) {
                let needed = Buddy::words_needed_within(base, end - base, units.order());
                let (words, rest) = bitmaps.split_at_mut(needed);
                bitmaps = rest;
                pool.add_away(base, end - base, units.order(), words).ok_or(Status::OutOfRange)?;
            }
        }
        Ok(Homes { pool, colours, own: count as usize, units })
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
        let (home, offset) = self.home_of(grant)?;
        let make = || home.retype(CapType::Ram, offset, bytes, 1, TRANSFER);
        let mut result = make();
        if result == Err(Status::Occupied) {
            self.empty_transfer();
            result = make();
        }
        if result.is_err() {
            let base = home.identify()?.base;
            // Just taken from there.
            let _ = self.pool.free(base + offset, bytes);
        }
        result
    }

    /// The home around what was granted, and where that begins in it.
    fn home_of(&self, grant: Grant) -> Result<(CapAddr, u64), Status> {
        if grant.range < self.own {
            return Ok((own_home(grant.range), grant.offset));
        }
        let units = self.units.as_ref().ok_or(Status::OutOfRange)?;
        let address = self.pool.address(grant).ok_or(Status::OutOfRange)?;
        Ok((units.slot(address)?, address % units.bytes))
    }

    /// Bytes that this server's own clients could have, and need not.
    pub fn to_spare(&self) -> u64 {
        self.pool.free_bytes().saturating_sub(self.pool.reserve())
    }

    /// Cedes up to `wished` bytes that are free: address, bytes, attributes.
    pub fn cede(&mut self, wished: u64) -> Result<(u64, u64, RamAttrs), Status> {
        let unit = self.units.as_ref().ok_or(Status::NoMemory)?.bytes;
        let most = self.to_spare();
        if most < unit {
            return Err(Status::NoMemory);
        }
        // Not more than half, if that is a unit: others may wish some, too.
        let most = wished.div_ceil(unit).min((most / 2 / unit).max(1));
        let mut count = 1 << most.max(1).ilog2();
        let grant = loop {
            match self.pool.cede(count * unit, unit) {
                Some(grant) => break grant,
                None if count > 1 => count /= 2,
                None => return Err(Status::NoMemory),
            }
        };
        let base = self.pool.address(grant).ok_or(Status::OutOfRange)?;
        let attrs = self.home_of(grant)?.0.identify()?.attrs;
        for done in 0..count {
            if let Err(error) = self.cede_unit(grant, done * unit) {
                self.pool.adopt(base + done * unit, (count - done) * unit).map_err(|_| error)?;
                return match done {
                    0 => Err(error),
                    _ => Ok((base, done * unit, attrs)),
                };
            }
        }
        Ok((base, count * unit, attrs))
    }

    /// The unit that begins so far behind a grant goes.
    fn cede_unit(&self, grant: Grant, at: u64) -> Result<(), Status> {
        let units = self.units.as_ref().ok_or(Status::NoMemory)?;
        let grant = Grant { offset: grant.offset + at, ..grant };
        let (home, offset) = self.home_of(grant)?;
        let address = self.pool.address(grant).ok_or(Status::OutOfRange)?;
        // One that was adopted goes itself, and leaves no mark.
        let dst = if grant.range >= self.own {
            self.empty_transfer();
            TRANSFER
        } else {
            units.slot(address)?
        };
        let (home, dst) = (home.into(), dst.into());
        invoke(KERNEL, op::CedeHome { home, offset, bytes: units.bytes, dst })
    }

    /// What another core has ceded is this server's from now on.
    pub fn adopt(&mut self, base: u64, bytes: u64, attrs: RamAttrs) -> Result<(), Status> {
        let unit = self.units.as_ref().ok_or(Status::OutOfRange)?.bytes;
        let mut at = base;
        while at < base + bytes {
            let dst = self.units.as_ref().ok_or(Status::OutOfRange)?.slot(at)?.into();
            invoke(KERNEL, op::AdoptHome { base: at, bytes: unit, attrs, dst })?;
            self.pool.adopt(at, unit).map_err(|_| Status::OutOfRange)?;
            at += unit;
        }
        Ok(())
    }
}

/// Between two homes, or before or behind them all.
type Gap = (u64, u64);

/// What of the memory up to `end` is in none of the homes.
fn gaps(count: u32, end: u64) -> impl Iterator<Item = Gap> {
    let mut at = 0;
    // The next home, in the order of addresses, until there is none behind the last.
    let next = move || {
        (at < end).then(|| {
            let homes = (0..count as usize).filter_map(|number| home(number).ok());
            let behind = homes.filter(|home| home.base + home.bytes > at);
            let home = behind.min_by_key(|home| home.base);
            let gap = (at, home.map_or(end, |home| home.base.min(end)));
            at = home.map_or(end, |home| home.base + home.bytes);
            gap
        })
    };
    core::iter::from_fn(next).filter(|gap| gap.0 < gap.1)
}

fn status(error: AllocError) -> Status {
    match error {
        AllocError::Invalid => Status::OutOfRange,
        AllocError::NoMemory => Status::NoMemory,
    }
}

impl Homes {
    /// Drops a capability that its caller had no place for; its memory comes back.
    pub fn empty_transfer(&self) {
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
) -> Result<&'static mut [u64], Status> {
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
    Ok(bitmaps)
}
