//! The anons of one MiB, and where they are.

use crate::backend::CNode;
use crate::bits::Bits;
use crate::pairs::{mapping_of, Pair, Pairs};

/// Where the anons of a chunk are.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Store {
    /// In a CNode, each in the slot of its page.
    Dense {
        node: CNode,
        /// Slots whose contents this process has given up while it could not change the CNode.
        stale: Bits<4>,
        /// Perhaps another process holds the CNode: it must not be changed.
        shared: bool,
    },
    /// In pairs.
    Sparse(Pairs),
}

impl Store {
    pub(crate) fn dense(node: CNode) -> Store {
        Store::Dense { node, stale: Bits::EMPTY, shared: false }
    }
}

/// The anons of 256 consecutive pages.
#[derive(Clone, Copy, Debug)]
pub struct Chunk {
    /// Pages that have an anon.
    pub filled: Bits<4>,
    /// Anons that perhaps belong to another process too. Meaningful unless the chunk is shared.
    pub aliased: Bits<4>,
    pub(crate) store: Store,
}

/// Slots of one or more consecutive pages with anons.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// The CNode that the Frames are in.
    pub node: CNode,
    /// The first one's slot.
    pub slot: u32,
    /// The first one's pair.
    pub(crate) pair: Option<Pair>,
}

impl Place {
    /// The slot of the first page's Mapping, if it is beside its Frame.
    #[inline(always)]
    pub fn mapping(&self) -> Option<(CNode, u32)> {
        self.pair.map(|_| (self.node, mapping_of(self.slot)))
    }
}

impl Chunk {
    pub(crate) fn new(store: Store) -> Self {
        Chunk { filled: Bits::EMPTY, aliased: Bits::EMPTY, store }
    }
    /// Does perhaps another process hold the CNode?
    #[inline]
    pub fn is_shared(&self) -> bool {
        matches!(self.store, Store::Dense { shared: true, .. })
    }
    /// The CNode, if perhaps another process holds it.
    pub fn shared_node(&self) -> Option<CNode> {
        match self.store {
            Store::Dense { node, shared: true, .. } => Some(node),
            _ => None,
        }
    }
    /// Are its anons in pairs?
    #[inline]
    pub fn is_sparse(&self) -> bool {
        matches!(self.store, Store::Sparse(_))
    }
    /// Anons that are this process's alone, for certain.
    #[inline]
    pub fn own(&self) -> Bits<4> {
        if self.is_shared() {
            Bits::EMPTY
        } else {
            self.filled.minus(&self.aliased)
        }
    }
    /// Is the anon in `slot` this process's alone, for certain?
    #[inline]
    pub fn owns(&self, slot: u32) -> bool {
        !self.is_shared() && self.filled.get(slot) && !self.aliased.get(slot)
    }
    /// Notes whether perhaps another process holds the CNode of a dense one.
    pub(crate) fn set_shared(&mut self, now: bool) {
        if let Store::Dense { shared, .. } = &mut self.store {
            *shared = now;
        }
    }
}
