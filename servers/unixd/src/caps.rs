//! Capabilities that are deleted when the value that holds them is dropped, and memory.

use crate::server::RAM;
use abi::slots::MEMD;
use libos::domain;
use libos::{invoke, memd, op, Cap, CapAddr, CapType, Place, Rights, Status};
use unixproto::Errno;

/// What an error of the capability system means to a process.
pub fn errno(status: Status) -> Errno {
    match status {
        Status::NoMemory | Status::NoSlot => Errno::ENOMEM,
        _ => Errno::EIO,
    }
}

/// Consecutive slots of the own CSpace; what they hold is deleted with the value.
#[derive(Debug, PartialEq, Eq)]
pub struct Slots {
    first: CapAddr,
    count: u32,
}

impl Slots {
    /// `count` empty slots.
    pub fn new(count: u32) -> Result<Slots, Errno> {
        let first = domain::with(|domain| match count {
            1 => domain.slot(),
            _ => domain.slot_range(count),
        });
        Ok(Slots { first: first.map_err(errno)?, count })
    }
    /// One that is in use already, and goes with this.
    pub fn of(slot: CapAddr) -> Slots {
        Slots { first: slot, count: 1 }
    }
    /// No slot at all.
    pub fn none() -> Slots {
        Slots { first: CapAddr::NULL, count: 0 }
    }
    /// How many they are.
    pub fn count(&self) -> u32 {
        self.count
    }
    /// The slot with this index.
    pub fn at(&self, index: u32) -> CapAddr {
        debug_assert!(index < self.count);
        self.first.plus(index)
    }
    /// The first slot.
    pub fn first(&self) -> CapAddr {
        self.first
    }
    /// Deletes what the slots hold; they stay reserved.
    pub fn clear(&self) {
        (0..self.count).for_each(|index| empty(self.at(index)));
    }
}

impl Slots {
    /// Gives the slots back, which are empty.
    pub fn emptied(mut self) {
        self.release();
        self.count = 0;
    }

    fn release(&self) {
        // Nothing in it fails.
        let _ = domain::with(|domain| {
            for index in 0..self.count {
                domain.slots.free(self.first.plus(index));
            }
            Ok(())
        });
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        if self.count > 0 {
            self.clear();
            self.release();
        }
    }
}

/// Deletes what a slot holds. An empty slot is as good as an emptied one. What is left to do once it is empty is
/// to empty CNodes that nobody can reach, any number of them and of anybody's: whoever deletes something
/// next goes on with it.
fn empty(slot: CapAddr) {
    while invoke(slot, op::Delete {}) == Err(Status::Again) {
        if slot.identify() == Err(Status::Empty) {
            break;
        }
    }
}

/// A Frame of fresh zeroed memory. `ENOMEM`: there is none.
pub fn frame(bytes: u64) -> Result<Slots, Errno> {
    frames(1, bytes)
}

/// So many Frames of fresh zeroed memory, which need not lie in a row. `ENOMEM`: there is none.
pub fn frames(count: u32, bytes: u64) -> Result<Slots, Errno> {
    let frames = Slots::new(count)?;
    for index in 0..count {
        object(CapType::Frame, bytes, frames.at(index))?;
    }
    Ok(frames)
}

/// Makes an object of fresh memory, at an empty slot. `ENOMEM`: there is none.
pub fn object(ty: CapType, bytes: u64, to: CapAddr) -> Result<(), Errno> {
    let near = memd::near(libos::upcall::own_frame());
    memd::alloc(MEMD, bytes, 0, near, RAM).map_err(errno)?;
    let made = RAM.retype(ty, 0, bytes, 1, to);
    empty(RAM);
    made.map_err(errno)
}

/// What the memory server says, with the memory of the others. What this server has taken and not used is free, too.
pub fn memory_stats() -> memd::Stats {
    crate::stock::tidy_all();
    // What is not given back counts as used.
    let _ = domain::with(|domain| domain.arena.release());
    let stats = memd::stats(MEMD).unwrap_or_default();
    let (free, total) = crate::homes::memory();
    let free = stats.free + free + crate::volatile::free();
    memd::Stats { free, total: stats.total + total, ..stats }
}

/// Free bytes, and bytes that there are in all.
pub fn memory() -> (u64, u64) {
    let stats = memory_stats();
    (stats.free, stats.total)
}

/// A Frame for contents of files: leaves what [`crate::stock`] says. `ENOSPC`: there is not enough.
pub fn file_frame(bytes: u64, uid: u32) -> Result<Slots, Errno> {
    let needed = bytes.checked_add(crate::stock::left_by(uid)).ok_or(Errno::ENOSPC)?;
    if !memd::has(MEMD, needed).map_err(|_| Errno::ENOSPC)? {
        return Err(Errno::ENOSPC);
    }
    frame(bytes).map_err(|_| Errno::ENOSPC)
}

/// Copies the capability at `source` with fewer rights to the slot `to`. What was there was meant
/// for somebody who did not take it.
pub fn mint(source: CapAddr, to: CapAddr, rights: Rights) -> Result<(), Errno> {
    let mut minted = source.mint(Place::own(to), rights);
    if minted == Err(Status::Occupied) {
        to.delete().map_err(errno)?;
        minted = source.mint(Place::own(to), rights);
    }
    minted.map_err(errno)
}
