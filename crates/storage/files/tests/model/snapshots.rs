//! Random changes of names and contents, with snapshots in between: what is in a snapshot stays as it was, in each part of the tree.

use super::{Bytes, World, NOW, PLENTY};
use files::{Files, Refusal, Writer};
use memfs::{Attr, Cred, Ino, Node, SNAPSHOTS};
use paging::PAGE;
use proptest::prelude::*;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use unixproto::Errno;

/// All files by their paths: directories, or the bytes and the names of a file.
type Tree = BTreeMap<String, Option<(Vec<u8>, u32)>>;

#[derive(Clone, Debug)]
enum Op {
    Create(u8, u8),
    Mkdir(u8, u8),
    Link(u8, u8, u8),
    Remove(u8),
    Rename(u8, u8, u8),
    Write(u8, u64, u64, u8),
    Resize(u8, u64),
    Snapshot(u8),
    /// The same, with so much memory.
    Starved(u8, u64),
    RemoveSnapshot(u8),
    /// Has a file of a snapshot open, until the next time.
    Hold(u8, u8),
}

fn op() -> impl Strategy<Value = Op> {
    let (any, name) = (any::<u8>, || 0..6u8);
    prop_oneof![
        4 => (any(), name()).prop_map(|(d, n)| Op::Create(d, n)),
        3 => (any(), name()).prop_map(|(d, n)| Op::Mkdir(d, n)),
        2 => (any(), any(), name()).prop_map(|(f, d, n)| Op::Link(f, d, n)),
        2 => any().prop_map(Op::Remove),
        2 => (any(), any(), name()).prop_map(|(f, d, n)| Op::Rename(f, d, n)),
        6 => (any(), 0..3 * PAGE, 1..2 * PAGE, 1..=255u8).prop_map(|(f, o, n, v)| Op::Write(f, o, n, v)),
        2 => (any(), 0..3 * PAGE).prop_map(|(f, n)| Op::Resize(f, n)),
        2 => (0..4u8).prop_map(Op::Snapshot),
        1 => (0..4u8, 0..6u64).prop_map(|(n, pages)| Op::Starved(n, pages)),
        1 => (0..4u8).prop_map(Op::RemoveSnapshot),
        1 => (0..4u8, any()).prop_map(|(n, f)| Op::Hold(n, f)),
    ]
}

/// One part of a tree.
struct Part {
    files: Files<Bytes>,
    free: Rc<Cell<u64>>,
    root: Ino,
    snapshots: Ino,
    /// Where the other part begins, if it is below this one.
    other: Option<Ino>,
    expected: BTreeMap<u8, Tree>,
    held: Option<(Ino, Vec<u8>)>,
}

fn attr() -> Attr {
    Attr { mode: 0o755, cred: Cred::ROOT, now: NOW }
}

impl Part {
    fn new(is_kept: bool) -> Part {
        let World { mut files, free, kept, .. } = World::new(u64::MAX);
        let other = (!is_kept).then_some(kept);
        let root = if is_kept { kept } else { files.names().root() };
        let snapshots = files.names_mut().mkdir(root, SNAPSHOTS, attr()).unwrap();
        Part { files, free, root, snapshots, other, expected: BTreeMap::new(), held: None }
    }

    /// Everything below a directory, but for another.
    fn tree(&mut self, root: Ino) -> Tree {
        let (mut tree, mut todo) = (Tree::new(), vec![(root, String::new())]);
        while let Some((dir, path)) = todo.pop() {
            let names = self.files.names();
            let entries = names.get(dir).unwrap().dir().unwrap().entries(0);
            let own = entries.filter(|entry| entry.ino != self.snapshots);
            let entries: Vec<_> = own.map(|entry| (entry.name.to_vec(), entry.ino)).collect();
            for (name, ino) in entries {
                let path = format!("{path}/{}", String::from_utf8(name).unwrap());
                let inode = self.files.names().get(ino).unwrap();
                let links = inode.nlink;
                match inode.node {
                    Node::Dir(_) => {
                        tree.insert(path.clone(), None);
                        if Some(ino) != self.other {
                            todo.push((ino, path));
                        }
                    }
                    _ => {
                        let bytes = self.bytes(ino);
                        tree.insert(path, Some((bytes, links)));
                    }
                }
            }
        }
        tree
    }
    fn bytes(&mut self, ino: Ino) -> Vec<u8> {
        let mut bytes = vec![0; self.files.names().get(ino).unwrap().size() as usize];
        self.files.load(ino, 0, &mut bytes).unwrap();
        bytes
    }

    /// Inodes below a directory.
    fn inodes(&self, root: Ino, dirs: bool) -> Vec<Ino> {
        let (mut all, mut todo) = (BTreeSet::new(), vec![root]);
        while let Some(dir) = todo.pop() {
            for ino in self.below(dir).into_iter().map(|(_, ino)| ino) {
                let is_dir = self.files.names().get(ino).unwrap().is_dir();
                if is_dir {
                    todo.push(ino);
                }
                if is_dir == dirs {
                    all.insert(ino);
                }
            }
        }
        all.into_iter().collect()
    }
    /// What is in a directory, but for that with the snapshots and the other part.
    fn below(&self, dir: Ino) -> Vec<(Vec<u8>, Ino)> {
        let entries = self.files.names().get(dir).unwrap().dir().unwrap().entries(0);
        let own =
            entries.filter(|entry| entry.ino != self.snapshots && Some(entry.ino) != self.other);
        own.map(|entry| (entry.name.to_vec(), entry.ino)).collect()
    }
    fn dir(&self, n: u8) -> Ino {
        let mut dirs = self.inodes(self.root, true);
        dirs.push(self.root);
        dirs[n as usize % dirs.len()]
    }
    fn file(&self, n: u8) -> Option<Ino> {
        let files = self.inodes(self.root, false);
        (!files.is_empty()).then(|| files[n as usize % files.len()])
    }
    /// A name by which something is found, and its directory.
    fn place(&self, n: u8) -> Option<(Ino, Vec<u8>)> {
        let mut dirs = self.inodes(self.root, true);
        dirs.push(self.root);
        let mut all = Vec::new();
        for dir in dirs {
            all.extend(self.below(dir).into_iter().map(|(name, _)| (dir, name)));
        }
        (!all.is_empty()).then(|| all.swap_remove(n as usize % all.len()))
    }

    fn release(&mut self) {
        if let Some((ino, bytes)) = self.held.take() {
            assert_eq!(self.bytes(ino), bytes);
            self.files.release(ino);
        }
    }

    fn run(&mut self, op: &Op) {
        let (cred, writer) = (Cred::ROOT, Writer { cred: Cred::ROOT, limit: u64::MAX, now: NOW });
        let name = |n: u8| vec![b'a' + n];
        // What is refused is refused.
        match *op {
            Op::Create(dir, n) => {
                let _ = self.files.create(self.dir(dir), &name(n), attr());
            }
            Op::Mkdir(dir, n) => {
                let dir = self.dir(dir);
                let _ = self.files.names_mut().mkdir(dir, &name(n), attr());
            }
            Op::Link(file, dir, n) => {
                let (Some(file), dir) = (self.file(file), self.dir(dir)) else { return };
                let _ = self.files.names_mut().link(file, dir, &name(n), &cred, NOW);
            }
            Op::Remove(n) => {
                let Some((dir, name)) = self.place(n) else { return };
                let names = self.files.names_mut();
                if names.unlink(dir, &name, &cred, NOW) == Err(Errno::EISDIR) {
                    let _ = names.rmdir(dir, &name, &cred, NOW);
                }
            }
            Op::Rename(n, dir, to) => {
                let (Some((from, old)), dir) = (self.place(n), self.dir(dir)) else { return };
                let _ = self.files.names_mut().rename(from, &old, dir, &name(to), 0, &cred, NOW);
            }
            Op::Write(file, offset, bytes, value) => {
                let Some(file) = self.file(file) else { return };
                let part = self.files.begin_write(file, offset, bytes, writer).unwrap();
                self.files.store(file, offset, &vec![value; part.bytes as usize]).unwrap();
            }
            Op::Resize(file, size) => {
                let Some(file) = self.file(file) else { return };
                assert_eq!(self.files.resize(file, size, writer), Ok::<(), Refusal>(()));
            }
            Op::Snapshot(n) => self.snapshot(n, None),
            Op::Starved(n, pages) => self.snapshot(n, Some(pages * PAGE)),
            Op::RemoveSnapshot(n) => {
                let removed =
                    self.files.names_mut().remove_snapshot(self.snapshots, &name(n), &cred, NOW);
                let was_there = self.expected.remove(&n).is_some();
                assert_eq!(removed, if was_there { Ok(()) } else { Err(Errno::ENOENT) });
            }
            Op::Hold(n, file) => {
                self.release();
                let found = self.files.names().lookup(self.snapshots, &name(n)).unwrap();
                let files = found.map_or(Vec::new(), |top| self.inodes(top, false));
                if let Some(&file) = files.get(file as usize % files.len().max(1)) {
                    self.files.names_mut().hold(file);
                    self.held = Some((file, self.bytes(file)));
                }
            }
        }
    }

    fn snapshot(&mut self, n: u8, memory: Option<u64>) {
        let before = self.tree(self.root);
        let (free, name) = (self.free.get(), [b'a' + n]);
        if let Some(memory) = memory {
            self.free.set(memory);
        }
        let made = self.files.snapshot(self.snapshots, &name, &Cred::ROOT, NOW);
        if let Some(memory) = memory {
            // What it took is taken; if it was refused, that is nothing.
            assert!(made.is_ok() || self.free.get() == memory, "{made:?}");
            self.free.set(free - (memory - self.free.get()));
        }
        match made {
            Ok(()) => assert!(self.expected.insert(n, before).is_none()),
            Err(Errno::EEXIST) => assert!(self.expected.contains_key(&n)),
            Err(error) => assert!(error == Errno::ENOSPC && memory.is_some(), "{error:?}"),
        }
    }

    fn check(&mut self) {
        self.files.names_mut().settle().unwrap();
        self.files.names().validate().unwrap();
        let entries = self.files.names().get(self.snapshots).unwrap().dir().unwrap().len();
        assert_eq!(entries, self.expected.len());
        for (n, expected) in self.expected.clone() {
            let top = self.files.names().lookup(self.snapshots, &[b'a' + n]).unwrap().unwrap();
            assert_eq!(self.tree(top), expected, "snapshot {n}");
            for ino in self.inodes(top, true).into_iter().chain(self.inodes(top, false)) {
                let inode = self.files.names().get(ino).unwrap();
                assert_eq!(inode.permits(&Cred::ROOT, memfs::WRITE), Err(Errno::EROFS));
                assert_eq!(
                    inode.kept().is_some(),
                    self.files.names().get(top).unwrap().kept().is_some()
                );
            }
        }
    }

    /// Removes everything: then all memory is back.
    fn end(mut self) {
        self.release();
        for n in self.expected.clone().into_keys() {
            self.run(&Op::RemoveSnapshot(n));
        }
        self.empty(self.root);
        self.check();
        if let Some(other) = self.other {
            self.other = None;
            self.empty(other);
        }
        assert_eq!(self.free.get(), PLENTY, "memory is lost");
    }

    fn empty(&mut self, dir: Ino) {
        for (name, ino) in self.below(dir) {
            if self.files.names_mut().unlink(dir, &name, &Cred::ROOT, NOW) == Err(Errno::EISDIR) {
                self.empty(ino);
                self.files.names_mut().rmdir(dir, &name, &Cred::ROOT, NOW).unwrap();
            }
        }
    }
}

fn run(is_kept: bool, ops: &[Op]) {
    let mut part = Part::new(is_kept);
    for op in ops {
        part.run(op);
        part.check();
    }
    part.end();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn snapshots_stay_as_they_were(ops in prop::collection::vec(op(), 1..60), is_kept in any::<bool>()) {
        run(is_kept, &ops);
    }
}
