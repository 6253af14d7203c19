//! Capabilities that are only there: RAM of one page each, in a CSpace of their own.

use abi::layout::PAGE;
use captypes::place::{L2_BYTES, L2_SLOTS};
use captypes::{CapAddr, CapType, Place, Status};
use libos::{domain, Cap};

/// L2CNodes in the CSpace.
const NODES: u32 = 256;
/// Root index of the first of them; address 0 is none.
const FIRST_L1: u32 = 1;
/// Bytes of its root.
const ROOT_BYTES: u64 = 2 * NODES as u64 * 64;

/// The CSpace and what is in it.
pub struct Crowd {
    root: CapAddr,
    /// What they are made of.
    field: CapAddr,
    count: u32,
}

impl Crowd {
    /// Bytes of RAM for the largest crowd, its CNodes first.
    pub const BYTES: u64 = Self::FIRST + NODES as u64 * L2_SLOTS as u64 * PAGE;
    const FIRST: u64 = ROOT_BYTES + NODES as u64 * L2_BYTES;

    /// An empty one in `field`.
    pub fn new(field: CapAddr) -> Result<Self, Status> {
        let root = domain::with(|domain| domain.slot())?;
        field.retype(CapType::L1CNode, 0, ROOT_BYTES, 1, root)?;
        field.retype(CapType::L2CNode, ROOT_BYTES, L2_BYTES, NODES, Place::l1(root, FIRST_L1))?;
        Ok(Self { root, field, count: 0 })
    }

    /// Adds capabilities until there are `count`, a multiple of those in a CNode.
    pub fn grow_to(&mut self, count: u32) -> Result<(), Status> {
        while self.count < count {
            let offset = Self::FIRST + u64::from(self.count) * PAGE;
            let node = Place::within(self.root, CapAddr::new(FIRST_L1 + self.count / L2_SLOTS, 0));
            self.field.retype(CapType::Ram, offset, PAGE, L2_SLOTS, node)?;
            self.count += L2_SLOTS;
        }
        Ok(())
    }
}
