//! Names of CNodes and page tables: which slots of the CSpace they are in.
//!
//! CNodes for chunks and Mappings are at root indexes from `NODES_L1` on, and, when those are used
//! up, in further CSpaces whose roots are capabilities in the process's own ("extensions").

use super::arena::Arena;
use alloc::vec::Vec;
use captypes::place::L2_BYTES;
use captypes::{CapAddr, CapType, Place, Status};
use libos::ram::Ram;
use libos::Cap;
use linuxdomain::{
    own, EXTENSIONS, MAPPINGS, NEAR_TABLES, NODES_L1, ROOT_BYTES, ROOT_SLOTS, TABLES_END_L1,
    TABLES_L1,
};
use uvm::{CNode, Table};

/// Most tables.
const TABLES: u32 = NEAR_TABLES + (TABLES_END_L1 - TABLES_L1) * MAPPINGS;

/// A set of numbers, the lowest free first.
struct Numbers {
    used: Vec<u64>,
    /// No word before this one has a free number.
    hint: usize,
}

impl Numbers {
    const fn new() -> Self {
        Numbers { used: Vec::new(), hint: 0 }
    }
    fn take(&mut self, limit: u32) -> Option<u32> {
        while self.used.get(self.hint) == Some(&u64::MAX) {
            self.hint += 1;
        }
        if self.hint as u32 * 64 >= limit {
            return None;
        }
        if self.hint == self.used.len() {
            self.used.push(0);
        }
        let bit = self.used[self.hint].trailing_ones();
        self.used[self.hint] |= 1 << bit;
        let number = self.hint as u32 * 64 + bit;
        (number < limit).then_some(number)
    }
    fn free(&mut self, number: u32) {
        let word = number as usize / 64;
        if let Some(used) = self.used.get_mut(word) {
            *used &= !(1 << (number % 64));
            self.hint = self.hint.min(word);
        }
    }
    /// The number behind the highest used one.
    fn end(&self) -> u32 {
        let last = self.used.iter().rposition(|&word| word != 0);
        last.map_or(0, |word| (word as u32 + 1) * 64 - self.used[word].leading_zeros())
    }
}

/// CNodes and tables in use.
pub struct Nodes {
    nodes: Numbers,
    /// Extensions made.
    extensions: u32,
    tables: Numbers,
    /// CNodes for tables made, beyond the first that is always there.
    table_nodes: u32,
}

/// CNodes in the process's own root.
const OWN: u32 = ROOT_SLOTS - NODES_L1;
/// First root index used in an extension: slot 0 of CNode 0 would be the null address.
const FIRST: u32 = 1;
/// CNodes in an extension.
const EACH: u32 = ROOT_SLOTS - FIRST;

/// The capability to the root of the extension that holds a CNode, and the index there.
fn extension(node: CNode) -> (CapAddr, u32) {
    let number = node.0 - OWN;
    (own::EXTENSIONS.plus(number / EACH), FIRST + number % EACH)
}

/// Slot `slot` of a CNode.
#[inline(always)]
pub fn slot(node: CNode, slot: u32) -> Place {
    if node.0 < OWN {
        Place::own(CapAddr::new(NODES_L1 + node.0, slot))
    } else {
        extended(node, slot)
    }
}

#[cold]
fn extended(node: CNode, slot: u32) -> Place {
    let (root, index) = extension(node);
    Place::within(root, CapAddr::new(index, slot))
}

/// The CNode capability itself.
pub fn node_place(node: CNode) -> Place {
    if node.0 < OWN {
        return Place::l1(CapAddr::NULL, NODES_L1 + node.0);
    }
    let (root, index) = extension(node);
    Place::l1(root, index)
}

/// Slot of a table.
#[inline(always)]
pub fn table_slot(table: Table) -> CapAddr {
    match table.0.checked_sub(NEAR_TABLES) {
        None => own::TABLES.plus(table.0),
        Some(far) => CapAddr::new(TABLES_L1 + far / MAPPINGS, far % MAPPINGS),
    }
}

/// Slot of its Mapping in the table above.
#[inline(always)]
pub fn table_mapping(table: Table) -> CapAddr {
    match table.0 < NEAR_TABLES {
        true => own::TABLES_MAPPINGS.plus(table.0),
        false => table_slot(table).plus(MAPPINGS),
    }
}

impl Nodes {
    /// None.
    pub const fn new() -> Self {
        Nodes { nodes: Numbers::new(), extensions: 0, tables: Numbers::new(), table_nodes: 0 }
    }

    /// Makes a CNode.
    pub fn make_node(&mut self, ram: &mut Arena) -> Result<CNode, Status> {
        let number = self.nodes.take(OWN + EXTENSIONS * EACH).ok_or(Status::NoSlot)?;
        let made = self.extend(ram, number).and_then(|()| {
            ram.make(CapType::L2CNode.alone(), L2_BYTES, 1, node_place(CNode(number)))
        });
        if made.is_err() {
            self.nodes.free(number);
        }
        made.map(|()| CNode(number))
    }

    fn extend(&mut self, ram: &mut Arena, number: u32) -> Result<(), Status> {
        if number >= OWN + self.extensions * EACH {
            let root = own::EXTENSIONS.plus(self.extensions);
            ram.make(CapType::L1CNode, ROOT_BYTES, 1, root.into())?;
            self.extensions += 1;
        }
        Ok(())
    }

    /// Gives up a CNode.
    pub fn drop_node(&mut self, node: CNode) {
        let _ = node_place(node).delete();
        self.nodes.free(node.0);
    }

    /// A free place for a table and its Mapping.
    pub fn take_table(&mut self, ram: &mut Arena) -> Result<Table, Status> {
        let number = self.tables.take(TABLES).ok_or(Status::NoSlot)?;
        let far = number.checked_sub(NEAR_TABLES);
        if far.is_some_and(|far| far / MAPPINGS >= self.table_nodes) {
            let node = Place::l1(CapAddr::NULL, TABLES_L1 + self.table_nodes);
            if let Err(error) = ram.make(CapType::L2CNode, L2_BYTES, 1, node) {
                self.tables.free(number);
                return Err(error);
            }
            self.table_nodes += 1;
        }
        Ok(Table(number))
    }

    /// Gives the place of a table back, now empty.
    pub fn free_table(&mut self, table: Table) {
        self.tables.free(table.0);
    }

    /// Gives up numbers that a child has not got anything for.
    pub fn forget(&mut self, table: Table, nodes: [Option<CNode>; 2]) {
        self.tables.free(table.0);
        nodes.into_iter().flatten().for_each(|node| self.nodes.free(node.0));
    }

    /// Makes the CNodes of a child that hold others, and more tables than fit in its first.
    pub fn prepare_child(&self, ram: &mut Arena) -> Result<(), Status> {
        for extension in 0..self.extensions {
            let root = own::EXTENSIONS.plus(extension);
            ram.make(CapType::L1CNode, ROOT_BYTES, 1, Place::within(own::CHILD_ROOT, root))?;
        }
        for node in 0..self.table_nodes {
            let place = Place::l1(own::CHILD_ROOT, TABLES_L1 + node);
            ram.make(CapType::L2CNode, L2_BYTES, 1, place)?;
        }
        Ok(())
    }

    /// Makes a CNode for the child under the number of one of the process.
    pub fn make_child_node(&self, ram: &mut Arena, node: CNode) -> Result<(), Status> {
        in_child(node, |root, index| {
            ram.make(CapType::L2CNode.alone(), L2_BYTES, 1, Place::l1(root, index))
        })
    }

    /// Gives the child these CNodes under the same numbers. `shared` has a bit for each.
    pub fn share(&self, shared: &[u64]) -> Result<(), Status> {
        /// Most slots in one invocation.
        const RUN: usize = 256;
        let is_shared =
            |n: u32| shared.get(n as usize / 64).is_some_and(|w| w >> (n % 64) & 1 != 0);
        let end = self.nodes.end();
        let mut at = 0;
        while let Some(first) = (at..end).find(|&n| is_shared(n)) {
            // Up to a gap or the end of the root.
            let root = node_root(CNode(first));
            let joins = |&n: &u32| is_shared(n) && node_root(CNode(n)) == root;
            let count = (first..end).take_while(joins).take(RUN).count() as u32;
            let from = node_place(CNode(first));
            in_child(CNode(first), |root, index| {
                from.copy_range(Place::l1(root, index), count, CapType::Null).map(|_| ())
            })?;
            at = first + count;
        }
        Ok(())
    }
}

/// The root through which a CNode is reached.
fn node_root(node: CNode) -> CapAddr {
    if node.0 < OWN {
        CapAddr::NULL
    } else {
        extension(node).0
    }
}

/// Calls `f` with the root in the child through which a CNode is reached, and the index there.
pub fn in_child<R>(
    node: CNode,
    f: impl FnOnce(CapAddr, u32) -> Result<R, Status>,
) -> Result<R, Status> {
    if node.0 < OWN {
        return f(own::CHILD_ROOT, NODES_L1 + node.0);
    }
    // The child's extension is named through a passing copy in the own CSpace.
    let (root, index) = extension(node);
    Place::within(own::CHILD_ROOT, root).copy_to(own::SCRATCH)?;
    let result = f(own::SCRATCH, index);
    own::SCRATCH.delete()?;
    result
}
