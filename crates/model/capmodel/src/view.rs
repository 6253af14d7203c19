//! What an executor can name: CNodes through its own root, the others' roots, and roots among its own
//! capabilities.

use crate::{Cap, Model, SlotKey};
use captypes::place::L2_SLOTS;
use captypes::{CapAddr, CapType, Place};
use lockstep::{slot, EXECUTORS};

/// Root indices that random operations use; 0 has what the executor lives on.
pub(crate) const NODES: core::ops::Range<u32> = 1..6;

/// A CSpace that can be named, and the capability by which.
#[derive(Clone, Copy)]
pub(crate) struct Root {
    pub cap: CapAddr,
    pub base: u64,
}

/// An L2CNode that can be named.
#[derive(Clone, Copy)]
pub(crate) struct Node {
    pub root: Root,
    pub index: u32,
    pub base: u64,
}

impl Node {
    /// The place of one of its slots.
    pub fn place(&self, slot: u32) -> Place {
        Place::within(self.root.cap, CapAddr::new(self.index, slot))
    }
}

/// A capability that can be named.
#[derive(Clone, Copy)]
pub(crate) struct Named {
    pub place: Place,
    pub key: SlotKey,
    pub cap: Cap,
}

/// Everything that one executor can name.
pub(crate) struct View {
    pub roots: Vec<Root>,
    pub nodes: Vec<Node>,
    pub caps: Vec<Named>,
}

impl View {
    pub fn of(model: &Model, who: usize) -> View {
        let mut view = View { roots: Vec::new(), nodes: Vec::new(), caps: Vec::new() };
        view.add_root(model, Root { cap: CapAddr::NULL, base: model.executors()[who].root });
        let own_nodes = view.nodes.len();
        let nested: Vec<Root> = view.caps.iter().filter_map(nested_root).collect();
        debug_assert!(own_nodes == view.nodes.len());
        for other in (0..EXECUTORS).filter(|&other| other != who) {
            let cap = CapAddr(slot::ROOTS + other as u32);
            view.add_root(model, Root { cap, base: model.executors()[other].root });
        }
        for root in nested {
            view.add_root(model, root);
        }
        view
    }

    fn add_root(&mut self, model: &Model, root: Root) {
        self.roots.push(root);
        for index in NODES {
            let key = (root.base, index);
            let Some(&cap) = model.cap(key) else { continue };
            self.caps.push(Named { place: Place::l1(root.cap, index), key, cap });
            if cap.ty != CapType::L2CNode {
                continue;
            }
            let node = Node { root, index, base: cap.base };
            self.nodes.push(node);
            for (key, cap) in model.in_container(cap.base, L2_SLOTS) {
                self.caps.push(Named { place: node.place(key.1), key, cap });
            }
        }
    }

    /// The place of a slot, if it can be named.
    pub fn place_of(&self, key: SlotKey) -> Option<Place> {
        if let Some(node) = self.nodes.iter().find(|node| node.base == key.0) {
            return Some(node.place(key.1));
        }
        let root = self.roots.iter().find(|root| root.base == key.0);
        root.map(|root| Place::l1(root.cap, key.1))
    }
}

/// A root CNode among an executor's own capabilities.
fn nested_root(named: &Named) -> Option<Root> {
    let own = named.place.0 >> 32 == 0;
    let is_root = own && named.cap.ty == CapType::L1CNode;
    is_root.then(|| Root { cap: named.place.addr(), base: named.cap.base })
}
