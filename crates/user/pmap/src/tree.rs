//! The tree of nodes, and looking things up in it.

use crate::{entry_bytes, entry_of, Backend, Error, OutOfMemory, PageSize, Run, Runs, Shadow};
use crate::{Values, ENTRIES};
use alloc::vec::Vec;

/// What entries of a table hold.
pub(crate) enum Item<B: Backend> {
    /// A table of this map: its node.
    Table { node: u32, mapping: B::Mapping },
    /// A table of somebody else.
    Foreign { table: B::Table, mapping: B::Mapping },
    /// Pages: the byte of the frame at which the first one begins.
    Pages { mapping: B::Mapping, frame: B::Frame, offset: u64 },
}

impl<B: Backend> Clone for Item<B> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<B: Backend> Copy for Item<B> {}

pub(crate) type ItemRun<B> = Run<Item<B>>;

/// A table.
pub(crate) struct Node<B: Backend, S: Shadow> {
    pub table: B::Table,
    pub level: u8,
    /// First address that it covers.
    pub va: u64,
    /// The node above; the root is its own.
    pub parent: u32,
    pub items: S::Runs<Item<B>>,
    /// Rights of pages and foreign tables.
    pub rights: S::Values<B::Rights>,
}

impl<B: Backend, S: Shadow> Node<B, S> {
    fn new(table: B::Table, level: u8, va: u64, parent: u32) -> Self {
        Node { table, level, va, parent, items: Runs::new(), rights: Values::new() }
    }
    /// First address of entry `at`, which may be the one behind the last.
    pub fn address(&self, at: u32) -> u64 {
        self.va + u64::from(at) * entry_bytes(self.level)
    }
    /// The entries that a range of addresses touches.
    pub fn entries(&self, low: u64, high: u64) -> (u32, u32) {
        let bytes = entry_bytes(self.level);
        let first = low.saturating_sub(self.va) / bytes;
        let end = high.saturating_sub(self.va).div_ceil(bytes);
        (first.min(ENTRIES as u64) as u32, end.min(ENTRIES as u64) as u32)
    }
}

/// Number of the root's node.
pub(crate) const ROOT: u32 = 0;

/// What an address is translated to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Translation<F, R> {
    /// First address of the page.
    pub va: u64,
    /// Its size.
    pub size: PageSize,
    /// What is mapped.
    pub frame: F,
    /// Where in it the page begins.
    pub offset: u64,
    /// With which rights.
    pub rights: R,
}

/// The shadow of the page tables below one root.
pub struct Pmap<B: Backend, S: Shadow> {
    nodes: Vec<Option<Node<B, S>>>,
    free: Vec<u32>,
}

impl<B: Backend, S: Shadow> Pmap<B, S> {
    /// The map of the empty table `root` of `level`.
    pub fn new(root: B::Table, level: u8) -> Result<Self, OutOfMemory> {
        let mut map = Pmap { nodes: Vec::new(), free: Vec::new() };
        map.nodes.try_reserve(1)?;
        map.nodes.push(Some(Node::new(root, level, 0, ROOT)));
        Ok(map)
    }

    /// First address behind all.
    pub fn end(&self) -> u64 {
        let root = self.node(ROOT);
        root.address(ENTRIES)
    }

    /// Nothing is mapped.
    pub fn is_empty(&self) -> bool {
        self.node(ROOT).items.is_empty()
    }

    /// Tables with the root.
    pub fn tables(&self) -> usize {
        self.nodes.len() - self.free.len()
    }

    /// Bytes of the shadow on the heap (what G18 figure 3.1 compares).
    pub fn heap_bytes(&self) -> usize {
        let own =
            self.nodes.capacity() * size_of::<Option<Node<B, S>>>() + 4 * self.free.capacity();
        let of_node = |node: &Node<B, S>| node.items.heap_bytes() + node.rights.heap_bytes();
        own + self.nodes.iter().flatten().map(of_node).sum::<usize>()
    }

    /// What is mapped at `va`, unless that is nothing or another's table.
    pub fn lookup(&self, va: u64) -> Option<Translation<B::Frame, B::Rights>> {
        let (node, at) = self.find(va)?;
        let run = node.items.get(at)?;
        let Item::Pages { frame, offset, .. } = run.value else { return None };
        let size = PageSize::of_level(node.level)?;
        let offset = offset + u64::from(at - run.first) * size.bytes();
        let rights = node.rights.get(at)?;
        Some(Translation { va: node.address(at), size, frame, offset, rights })
    }

    /// The table, its level and the entry that decide about `va`: the last ones on the way down.
    pub fn entry(&self, va: u64) -> Option<(B::Table, u8, u32)> {
        let (node, at) = self.find(va)?;
        Some((node.table, node.level, at))
    }

    /// The table of `level` that covers `va`, another's too.
    pub fn table(&self, va: u64, level: u8) -> Option<B::Table> {
        let mut node = self.node(ROOT);
        while node.level > level {
            match node.items.get(entry_of(node.level, va))?.value {
                Item::Table { node: child, .. } => node = self.node(child),
                Item::Foreign { table, .. } if node.level == level + 1 => return Some(table),
                _ => return None,
            }
        }
        (node.level == level && va < self.end()).then_some(node.table)
    }

    /// First address at or behind `va` where something is mapped.
    pub fn next_mapped(&self, va: u64) -> Option<u64> {
        let (number, run) = self.next_leaf(ROOT, va, u64::MAX)?;
        Some(self.node(number).address(run.first).max(va))
    }

    /// Is nothing mapped in `[va, va + bytes)`?
    pub fn is_free(&self, va: u64, bytes: u64) -> bool {
        self.next_leaf(ROOT, va, va.saturating_add(bytes)).is_none()
    }

    pub(crate) fn node(&self, number: u32) -> &Node<B, S> {
        self.nodes[number as usize].as_ref().expect("nodes are linked while they exist")
    }

    pub(crate) fn node_mut(&mut self, number: u32) -> &mut Node<B, S> {
        self.nodes[number as usize].as_mut().expect("nodes are linked while they exist")
    }

    /// The node and the entry where the way down to `va` ends.
    fn find(&self, va: u64) -> Option<(&Node<B, S>, u32)> {
        if va >= self.end() {
            return None;
        }
        let mut node = self.node(ROOT);
        loop {
            let at = entry_of(node.level, va);
            match node.items.get(at).map(|run| run.value) {
                Some(Item::Table { node: child, .. }) => node = self.node(child),
                _ => return Some((node, at)),
            }
        }
    }

    /// The first run of pages, or foreign table, below node `number` that reaches into
    /// `low..high`.
    pub(crate) fn next_leaf(&self, number: u32, low: u64, high: u64) -> Option<(u32, ItemRun<B>)> {
        let node = self.node(number);
        let (mut at, end) = node.entries(low, high);
        while at < end {
            let run = node.items.next(at).filter(|run| run.first < end)?;
            let Item::Table { node: child, .. } = run.value else { return Some((number, run)) };
            if let Some(found) = self.next_leaf(child, low, high) {
                return Some(found);
            }
            at = run.end();
        }
        None
    }

    /// The node of the table of `level` that covers `va`, with all tables above it made as needed.
    /// After an error, tables that were made for this may be left empty: see [`Pmap::prune`].
    pub(crate) fn make_node(
        &mut self,
        b: &mut B,
        va: u64,
        level: u8,
    ) -> Result<u32, Error<B::Error>> {
        let mut number = ROOT;
        loop {
            let node = self.node(number);
            if node.level == level {
                return Ok(number);
            }
            let at = entry_of(node.level, va);
            number = match node.items.get(at).map(|run| run.value) {
                Some(Item::Table { node, .. }) => node,
                Some(_) => return Err(Error::Occupied),
                None => self.make_child(b, number, at)?,
            };
        }
    }

    fn make_child(&mut self, b: &mut B, parent: u32, at: u32) -> Result<u32, Error<B::Error>> {
        self.reserve_node()?;
        let node = self.node_mut(parent);
        node.items.reserve(1)?;
        let (level, va, upper) = (node.level - 1, node.address(at), node.table);
        let table = b.make_table(level).map_err(Error::Backend)?;
        let mapping = b.map_table(upper, at, table, None).map_err(|error| {
            b.delete_table(table);
            Error::Backend(error)
        })?;
        Ok(self.attach(parent, at, mapping, Node::new(table, level, va, parent)))
    }

    /// Room for a node.
    pub(crate) fn reserve_node(&mut self) -> Result<(), OutOfMemory> {
        if self.free.is_empty() {
            self.nodes.try_reserve(1)?;
            self.free.try_reserve(self.nodes.len() + 1)?;
        }
        Ok(())
    }

    /// Makes `node` the child at an entry of `parent`. There must be room for both.
    fn attach(&mut self, parent: u32, at: u32, mapping: B::Mapping, node: Node<B, S>) -> u32 {
        let number = self.free.pop().unwrap_or(self.nodes.len() as u32);
        if number as usize == self.nodes.len() {
            self.nodes.push(Some(node));
        } else {
            self.nodes[number as usize] = Some(node);
        }
        let value = Item::Table { node: number, mapping };
        self.node_mut(parent).items.insert(Run { first: at, count: 1, value });
        number
    }

    /// Makes a child of a table that is mapped already, and full.
    pub(crate) fn attach_full(
        &mut self,
        (parent, at): (u32, u32),
        (table, mapping): (B::Table, B::Mapping),
        fill: impl FnOnce(&mut Node<B, S>),
    ) {
        let (level, va) = (self.node(parent).level - 1, self.node(parent).address(at));
        let mut node = Node::new(table, level, va, parent);
        fill(&mut node);
        self.attach(parent, at, mapping, node);
    }

    /// Frees the table of node `number` if it is empty, and then those above.
    pub(crate) fn prune(&mut self, b: &mut B, mut number: u32) {
        while number != ROOT && self.node(number).items.is_empty() {
            let Some(node) = self.nodes[number as usize].take() else { return };
            self.free.push(number);
            let parent = self.node_mut(node.parent);
            let at = entry_of(node.level + 1, node.va);
            if let Some(Run { value: Item::Table { mapping, .. }, .. }) = parent.items.get(at) {
                b.delete(&[mapping]);
            }
            parent.items.remove(at);
            b.delete_table(node.table);
            number = node.parent;
        }
    }

    /// Frees the empty tables on the way down to `va`.
    pub(crate) fn prune_at(&mut self, b: &mut B, va: u64) {
        let mut number = ROOT;
        loop {
            let node = self.node(number);
            match node.items.get(entry_of(node.level, va)).map(|run| run.value) {
                Some(Item::Table { node, .. }) => number = node,
                _ => return self.prune(b, number),
            }
        }
    }
}
