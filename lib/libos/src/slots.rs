//! Which slots of the own CSpace are free: the allocators of the crate `slotalloc`, growing by
//! invocations.

use crate::ram::{Arena, Ram};
use crate::Cap;
use abi::slots::ROOT;
use captypes::place::{L2_BYTES, SLOT_BYTES};
use captypes::{CapAddr, CapType, Place, Status};
pub use slotalloc::{Grow, NodeSlots, TwoLevel};

/// Most L2CNodes of a program: 262,144 slots.
pub const MAX_NODES: usize = 1024;

/// All free slots of the own CSpace.
pub type SlotAllocator = TwoLevel<MAX_NODES>;

/// Grows the own CSpace with RAM of an arena.
pub(crate) struct Growth<'a> {
    pub arena: &'a mut Arena,
    /// Bytes of the root, if it was made here.
    pub own_root: &'a mut u64,
}

impl Grow for Growth<'_> {
    fn make_node(&mut self, l1: u32) -> Result<(), Status> {
        self.arena.make(CapType::L2CNode, L2_BYTES, 1, Place::l1(CapAddr::NULL, l1))
    }

    fn drop_node(&mut self, l1: u32) -> Result<(), Status> {
        Place::l1(CapAddr::NULL, l1).delete()
    }

    fn root_slots(&mut self) -> Result<u32, Status> {
        Ok((ROOT.identify()?.bytes / SLOT_BYTES) as u32)
    }

    fn grow_root(&mut self, spare: CapAddr) -> Result<(), Status> {
        let bytes = ROOT.identify()?.bytes * 2;
        self.arena.make(CapType::L1CNode, bytes, 1, spare.into())?;
        let resized = ROOT.resize(spare);
        // The old root, or the new one if it was not taken.
        spare.delete()?;
        resized?;
        *self.own_root = bytes;
        Ok(())
    }
}
