//! Writing an image: where everything lies, and the bytes that are no contents of files.

use crate::record::{Kind, Record, BYTES};
use crate::{aligned, MAGIC, PAGE, SUPERBLOCK, UNIT, VERSION};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// What is added to an image.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum What {
    /// A regular file of so many bytes.
    File(u64),
    /// A directory.
    Dir,
    /// A symbolic link with its text.
    Symlink(Vec<u8>),
    /// A device, fifo or socket, with the number of a device.
    Other(u64),
}

/// A file to be copied to the image, and where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Placed<T> {
    /// What the caller knows it by.
    pub file: T,
    /// First byte.
    pub place: u64,
    /// Bytes.
    pub size: u64,
}

/// What an image is to be. Everything that is not named here is zero.
#[derive(Debug)]
pub struct Plan<T> {
    /// The files to be copied, in the order of their places.
    pub files: Vec<Placed<T>>,
    /// What else there is to be written, and where.
    pub rest: Vec<(u64, Vec<u8>)>,
    /// Bytes of all.
    pub size: u64,
}

struct Node<T> {
    record: Record,
    text: Vec<u8>,
    names: BTreeMap<Vec<u8>, usize>,
    file: Option<T>,
}

/// An image that is put together. `T`: what the caller knows a file by.
pub struct Builder<T> {
    /// The root is the first.
    nodes: Vec<Node<T>>,
    links: u32,
}

impl<T> Builder<T> {
    /// An empty root with these attributes.
    pub fn new(root: Record) -> Builder<T> {
        let root = Node { record: root, text: Vec::new(), names: BTreeMap::new(), file: None };
        Builder { nodes: Vec::from([root]), links: 0 }
    }

    /// The root.
    pub fn root(&self) -> usize {
        0
    }

    /// What has a name in a directory.
    pub fn get(&self, dir: usize, name: &[u8]) -> Option<usize> {
        self.nodes[dir].names.get(name).copied()
    }

    /// The kind of something, and the text of a link.
    pub fn look(&self, node: usize) -> (Option<Kind>, &[u8]) {
        let node = &self.nodes[node];
        (node.record.kind(), &node.text)
    }

    /// Gives something other permissions and another owner and group.
    pub fn change(&mut self, node: usize, permissions: u32, uid: u32, gid: u32) {
        let record = &mut self.nodes[node].record;
        record.mode = record.mode & !0o7777 | permissions & 0o7777;
        (record.uid, record.gid) = (uid, gid);
    }

    /// Adds something with a name in a directory, in place of what has that name. Mode, owner, group and time are those of
    /// `record`.
    pub fn add(
        &mut self,
        dir: usize,
        name: &[u8],
        what: What,
        record: Record,
        file: Option<T>,
    ) -> usize {
        let (size, device, text) = match what {
            What::File(size) => (size, 0, Vec::new()),
            What::Dir => (0, 0, Vec::new()),
            What::Symlink(text) => (text.len() as u64, 0, text),
            What::Other(device) => (0, device, Vec::new()),
        };
        let record = Record { size, device, links: 0, link: 0, place: 0, ..record };
        self.nodes.push(Node { record, text, names: BTreeMap::new(), file });
        let node = self.nodes.len() - 1;
        self.nodes[dir].names.insert(name.into(), node);
        node
    }

    /// Gives a file that is no directory another name.
    pub fn link(&mut self, dir: usize, name: &[u8], node: usize) {
        self.nodes[dir].names.insert(name.into(), node);
        if self.nodes[node].record.link == 0 {
            self.links += 1;
            self.nodes[node].record.link = self.links;
        }
    }

    /// Everything that is reached, each directory before what is in it.
    fn reached(&self) -> Vec<usize> {
        let (mut order, mut seen) = (Vec::from([0]), BTreeMap::from([(0, ())]));
        let mut next = 0;
        while let Some(&node) = order.get(next) {
            for &below in self.nodes[node].names.values() {
                if seen.insert(below, ()).is_none() {
                    order.push(below);
                }
            }
            next += 1;
        }
        order
    }

    fn count_links(&mut self, order: &[usize]) {
        let is_dir = |nodes: &[Node<T>], node: usize| nodes[node].record.kind() == Some(Kind::Dir);
        for &node in order {
            let names: Vec<usize> = self.nodes[node].names.values().copied().collect();
            for below in names {
                self.nodes[below].record.links += 1;
                if is_dir(&self.nodes, below) {
                    self.nodes[below].record.links += 1;
                    self.nodes[node].record.links += 1;
                }
            }
        }
        self.nodes[0].record.links += 2;
    }

    /// Bytes of the rows of a directory.
    fn rows(&self, node: usize) -> u64 {
        let row = |(name, &below): (&Vec<u8>, &usize)| {
            aligned(BYTES + name.len() + self.nodes[below].text.len()) as u64
        };
        self.nodes[node].names.iter().map(row).sum()
    }

    /// Decides where everything lies.
    pub fn finish(mut self) -> Plan<T> {
        let order = self.reached();
        self.count_links(&order);
        let mut at = PAGE;
        let mut placed = Vec::new();
        for &node in &order {
            if self.nodes[node].record.kind() == Some(Kind::File) {
                let node = &mut self.nodes[node];
                node.record.place = at;
                let size = node.record.size;
                placed.extend(node.file.take().map(|file| Placed { file, place: at, size }));
                at = (at + size).next_multiple_of(PAGE);
            }
        }
        let start = at;
        for &node in &order {
            if self.nodes[node].record.kind() == Some(Kind::Dir) {
                let size = self.rows(node);
                let record = &mut self.nodes[node].record;
                (record.place, record.size) = (at, size);
                at += size;
            }
        }
        let mut rows = Vec::with_capacity((at - start) as usize);
        for &node in &order {
            for (name, &below) in &self.nodes[node].names {
                let node = &self.nodes[below];
                let end = rows.len();
                rows.extend(node.record.encode(name.len()));
                rows.extend_from_slice(name);
                rows.extend_from_slice(&node.text);
                rows.resize(end + aligned(rows.len() - end), 0);
            }
        }
        let size = at.next_multiple_of(UNIT);
        let mut block = Vec::with_capacity(SUPERBLOCK);
        block.extend(MAGIC);
        block.extend(VERSION.to_le_bytes());
        block.extend(size.to_le_bytes());
        block.extend(self.nodes[0].record.encode(0));
        Plan { files: placed, rest: Vec::from([(0, block), (start, rows)]), size }
    }
}
