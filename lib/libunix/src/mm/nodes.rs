//! Names of CNodes and page tables: which slots of the CSpace they are in.
//!
//! CNodes for chunks and Mappings are at root indexes from `NODES_L1` on, and, when those are used
//! up, in further CSpaces whose roots are capabilities in the process's own ("extensions"). Whatever
//! there may be very many of (page tables, Frames of mapped files) is in such CNodes, too, many in
//! each ([`Spread`]). None of these tables has an end that a process meets before its memory's.

use super::arena::Arena;
use crate::server::{self, op, Caps};
use alloc::vec::Vec;
use captypes::place::L2_BYTES;
use captypes::{CapAddr, CapType, Place, Status};
use libos::ram::Ram;
use libos::Cap;
use linuxdomain::{
    own, EXTENSIONS_END_L1, EXTENSIONS_L1, FIRST_ROOT_SLOTS, MAPPINGS, NEAR_EXTENSIONS,
    NEAR_TABLES, NODES_L1, ROOT_BYTES, ROOT_SLOTS,
};
use tables::{Numbers, Sparse};
use uvm::{CNode, Table};

/// Slots of a CNode.
const SLOTS: u32 = 256;

/// CNodes and tables in use.
pub struct Nodes {
    nodes: Numbers,
    /// Slots of the process's own root.
    root_slots: u32,
    /// Extensions made.
    extensions: u32,
    /// Tables in the CNode at root index 0.
    near_tables: Numbers,
    /// The others.
    far_tables: Spread,
}

/// CNodes in the process's own root.
const OWN: u32 = ROOT_SLOTS - NODES_L1;
/// First root index used in an extension: slot 0 of CNode 0 would be the null address.
const FIRST: u32 = 1;
/// CNodes in an extension.
const EACH: u32 = ROOT_SLOTS - FIRST;
/// Most extensions: with them there are more CNodes (14 GiB of them) than anybody has memory for.
const EXTENSIONS: u32 = NEAR_EXTENSIONS + (EXTENSIONS_END_L1 - EXTENSIONS_L1) * SLOTS;

/// The slot of the capability to the root of an extension.
fn extension_slot(extension: u32) -> CapAddr {
    match extension.checked_sub(NEAR_EXTENSIONS) {
        None => own::EXTENSIONS.plus(extension),
        Some(far) => CapAddr::new(EXTENSIONS_L1 + far / SLOTS, far % SLOTS),
    }
}

/// The capability to the root of the extension that holds a CNode, and the index there.
fn extension(node: CNode) -> (CapAddr, u32) {
    let number = node.0 - OWN;
    (extension_slot(number / EACH), FIRST + number % EACH)
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

/// The CNode of a table that is not in the CNode at root index 0, and its slot there.
#[inline(always)]
fn far_table(table: Table) -> Option<(CNode, u32)> {
    let far = table.0.checked_sub(NEAR_TABLES)?;
    Some((CNode(far / MAPPINGS), far % MAPPINGS))
}

/// Slot of a table.
#[inline(always)]
pub fn table_slot(table: Table) -> Place {
    match far_table(table) {
        None => own::TABLES.plus(table.0).into(),
        Some((node, at)) => slot(node, at),
    }
}

/// Slot of its Mapping in the table above.
#[inline(always)]
pub fn table_mapping(table: Table) -> Place {
    match far_table(table) {
        None => own::TABLES_MAPPINGS.plus(table.0).into(),
        Some((node, at)) => slot(node, at + MAPPINGS),
    }
}

impl Nodes {
    /// None.
    pub const fn new() -> Self {
        Nodes {
            nodes: Numbers::new(),
            root_slots: FIRST_ROOT_SLOTS,
            extensions: 0,
            near_tables: Numbers::new(),
            far_tables: Spread::new(MAPPINGS),
        }
    }

    /// Forgets all.
    pub fn abandon(&mut self) {
        self.nodes.clear();
        self.near_tables.clear();
        self.extensions = 0;
        self.far_tables = Spread::new(MAPPINGS);
    }

    /// Makes a CNode.
    pub fn make_node(&mut self, ram: &mut Arena) -> Result<CNode, Status> {
        let most = OWN + EXTENSIONS * EACH;
        let number = self.nodes.take(0, most).map_err(no_memory)?.ok_or(Status::NoSlot)?;
        let made = self.extend(ram, number).and_then(|()| {
            ram.make(CapType::L2CNode.alone(), L2_BYTES, 1, node_place(CNode(number)))
        });
        if made.is_err() {
            self.nodes.free(number);
        }
        made.map(|()| CNode(number))
    }

    /// Slots of the process's own root.
    pub fn root_slots(&self) -> u32 {
        self.root_slots
    }

    /// Makes the own root as large as it gets. Only `unixd` may put it in place.
    #[cold]
    fn grow_root(&mut self, ram: &mut Arena) -> Result<(), Status> {
        ram.make(CapType::L1CNode, ROOT_BYTES, 1, own::NEW_ROOT.into())?;
        let grown = server::call_caps(op::GrowRoot {}, 0, 0, Caps::give(own::NEW_ROOT, 1));
        if grown.is_err() {
            // Maybe it was never sent.
            own::NEW_ROOT.discard();
            return Err(Status::NoMemory);
        }
        self.root_slots = ROOT_SLOTS;
        Ok(())
    }

    /// Makes sure that the root has a slot for a CNode, or that there is an extension for it.
    fn extend(&mut self, ram: &mut Arena, number: u32) -> Result<(), Status> {
        if NODES_L1 + number >= self.root_slots && self.root_slots < ROOT_SLOTS {
            self.grow_root(ram)?;
        }
        while number >= OWN + self.extensions * EACH {
            let root = extension_slot(self.extensions);
            make_extension(ram, CapAddr::NULL, self.extensions, root)?;
            self.extensions += 1;
        }
        Ok(())
    }

    /// Gives up a CNode.
    ///
    /// # Errors
    ///
    /// It is still there: its number is not given out again.
    pub fn drop_node(&mut self, node: CNode) -> Result<(), Status> {
        match node_place(node).delete() {
            Ok(()) | Err(Status::Empty) => {}
            Err(error) => return Err(error),
        }
        self.nodes.free(node.0);
        Ok(())
    }

    /// A CNode's number stands for nothing in this process.
    pub fn forget_node(&mut self, node: CNode) {
        self.nodes.free(node.0);
    }

    /// A free place for a table and its Mapping.
    pub fn take_table(&mut self, ram: &mut Arena) -> Result<Table, Status> {
        if let Some(number) = self.near_tables.take(0, NEAR_TABLES).map_err(no_memory)? {
            return Ok(Table(number));
        }
        let mut far = core::mem::replace(&mut self.far_tables, Spread::new(MAPPINGS));
        let taken = far.take(|| self.make_node(ram));
        self.far_tables = far;
        taken.map(|(node, at)| Table(NEAR_TABLES + node.0 * MAPPINGS + at))
    }

    /// Gives the place of a table back, now empty.
    pub fn free_table(&mut self, table: Table) {
        match far_table(table) {
            None => self.near_tables.free(table.0),
            Some((node, at)) => {
                if let Some(empty) = self.far_tables.free(node, at) {
                    // An empty one: if it stays, it costs its memory.
                    let _ = self.drop_node(empty);
                }
            }
        }
    }

    /// Gives up numbers that a child has not got anything for.
    pub fn forget(&mut self, table: Table, nodes: [Option<CNode>; 2]) {
        self.free_table(table);
        nodes.into_iter().flatten().for_each(|node| self.forget_node(node));
    }

    /// Makes the CNodes of a child that hold others, and more tables than fit in its first.
    pub fn prepare_child(&self, ram: &mut Arena) -> Result<(), Status> {
        for extension in 0..self.extensions {
            let slot = extension_slot(extension);
            make_extension(ram, own::CHILD_ROOT, extension, Place::within(own::CHILD_ROOT, slot))?;
        }
        self.far_tables.nodes().try_for_each(|node| self.make_child_node(ram, node))
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
        const RUN: u32 = 256;
        let end = self.nodes.end();
        let mut at = 0;
        while let Some(first) = next_bit(shared, at, true).filter(|&first| first < end) {
            // Up to a gap or the end of the root.
            let gap = next_bit(shared, first, false).unwrap_or(end);
            let count = gap.min(end).min(root_end(CNode(first))).min(first + RUN) - first;
            let from = node_place(CNode(first));
            in_child(CNode(first), |root, index| {
                from.copy_range(Place::l1(root, index), count, CapType::Null).map(|_| ())
            })?;
            at = first + count;
        }
        Ok(())
    }
}

/// Makes the root of an extension, in `slot`, and, if it is the first of so many, the CNode for their
/// capabilities in the CSpace at `root`.
fn make_extension(
    ram: &mut Arena,
    root: CapAddr,
    extension: u32,
    slot: impl Into<Place>,
) -> Result<(), Status> {
    let far = extension.checked_sub(NEAR_EXTENSIONS);
    if let Some(far) = far.filter(|far| far % SLOTS == 0) {
        let node = Place::l1(root, EXTENSIONS_L1 + far / SLOTS);
        ram.make(CapType::L2CNode, L2_BYTES, 1, node)?;
    }
    ram.make(CapType::L1CNode, ROOT_BYTES, 1, slot.into())
}

fn no_memory(_: tables::NoMemory) -> Status {
    Status::NoMemory
}

/// Slots in CNodes that are made when they are needed, so many in each.
pub struct Spread {
    each: u32,
    nodes: Vec<CNode>,
    /// Which of `nodes` a CNode is.
    indexes: Sparse<u32>,
    /// Slots in use; `each` numbers for each CNode.
    used: Numbers,
    /// A CNode that was made, but for which there was no memory here.
    spare: Option<CNode>,
}

impl Spread {
    /// No slots, `each` in each CNode.
    pub const fn new(each: u32) -> Self {
        Spread {
            each,
            nodes: Vec::new(),
            indexes: Sparse::new(),
            used: Numbers::new(),
            spare: None,
        }
    }

    /// A free slot, in a CNode that `make` makes if need be.
    pub fn take(
        &mut self,
        make: impl FnOnce() -> Result<CNode, Status>,
    ) -> Result<(CNode, u32), Status> {
        let number = self.used.next_free(0);
        self.used.mark(number).map_err(no_memory)?;
        let node = match self.nodes.get((number / self.each) as usize) {
            Some(&node) => Ok(node),
            None => self.add_node(make),
        };
        let node = node.inspect_err(|_| self.used.free(number))?;
        Ok((node, number % self.each))
    }

    fn add_node(&mut self, make: impl FnOnce() -> Result<CNode, Status>) -> Result<CNode, Status> {
        self.nodes.try_reserve(1).map_err(|_| Status::NoMemory)?;
        let node = match self.spare.take() {
            Some(node) => node,
            None => make()?,
        };
        if self.indexes.insert(node.0 as u64, self.nodes.len() as u32).is_err() {
            self.spare = Some(node);
            return Err(Status::NoMemory);
        }
        self.nodes.push(node);
        Ok(node)
    }

    /// Gives a slot back. Answers a CNode that is not needed any more, if there is one.
    pub fn free(&mut self, node: CNode, at: u32) -> Option<CNode> {
        let index = *self.indexes.get(node.0 as u64)?;
        self.used.free(index * self.each + at);
        // One more stays than is needed, so that the next slot need not make it again.
        let needed = self.used.end().div_ceil(self.each) as usize + 1;
        if self.nodes.len() <= needed {
            return None;
        }
        let empty = self.nodes.pop()?;
        self.indexes.remove(empty.0 as u64);
        Some(empty)
    }

    /// The same, given the place of the slot.
    pub fn free_place(&mut self, place: Place) -> Option<CNode> {
        self.free(node_of(place), place.addr().l2())
    }

    /// The CNodes.
    pub fn nodes(&self) -> impl Iterator<Item = CNode> + '_ {
        self.nodes.iter().chain(&self.spare).copied()
    }
}

/// The CNode that a slot is in.
fn node_of(slot: Place) -> CNode {
    let (root, index) = (slot.root(), slot.addr().l1());
    if root.is_null() {
        return CNode(index - NODES_L1);
    }
    let extension = match root.l1() {
        0 => root.0 - own::EXTENSIONS.0,
        node => NEAR_EXTENSIONS + (node - EXTENSIONS_L1) * SLOTS + root.l2(),
    };
    CNode(OWN + extension * EACH + index - FIRST)
}

/// The first number behind a CNode's that is reached through another root.
fn root_end(node: CNode) -> u32 {
    match node.0.checked_sub(OWN) {
        None => OWN,
        Some(number) => OWN + (number / EACH + 1) * EACH,
    }
}

/// The first number from `at` on whose bit is set, or is not.
fn next_bit(words: &[u64], at: u32, set: bool) -> Option<u32> {
    let flip = if set { 0 } else { u64::MAX };
    let mut word = at as usize / 64;
    let mut found = (words.get(word)? ^ flip) & (u64::MAX << (at % 64));
    while found == 0 {
        word += 1;
        found = words.get(word)? ^ flip;
    }
    Some(word as u32 * 64 + found.trailing_zeros())
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

/// Names slots of the child that have the addresses of slots of the process.
pub struct ChildSlots {
    /// Where an extension of the child has a passing copy in the own CSpace.
    passing: CapAddr,
    /// Which one.
    extension: Option<CapAddr>,
}

impl ChildSlots {
    /// With the second or third of the slots at `own::SCRATCH`; `in_child` uses the first.
    pub fn new(number: u32) -> ChildSlots {
        ChildSlots { passing: own::SCRATCH.plus(number), extension: None }
    }

    /// The child's slot, to be used before the next one is asked for.
    #[inline]
    pub fn place(&mut self, slot: Place) -> Result<Place, Status> {
        let root = slot.root();
        if root.is_null() {
            return Ok(Place::within(own::CHILD_ROOT, slot.addr()));
        }
        if self.extension != Some(root) {
            self.end()?;
            Place::within(own::CHILD_ROOT, root).copy_to(self.passing)?;
            self.extension = Some(root);
        }
        Ok(Place::within(self.passing, slot.addr()))
    }

    /// Drops the passing copy.
    #[inline]
    pub fn end(&mut self) -> Result<(), Status> {
        match self.extension.take() {
            Some(_) => self.passing.delete(),
            None => Ok(()),
        }
    }
}
