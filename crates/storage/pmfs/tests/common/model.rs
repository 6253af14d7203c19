//! The naive model: inodes in a map, link counts by looking everywhere.

use super::{attr, bytes, how, name, set_how, Found, New, Op, Outcome, Ref, Tree, World, COPY};
use pmfs::{Attr, Error, How, SetXattr};
use std::collections::BTreeMap;
use std::rc::Rc;

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Node {
    kind: u8,
    attr: Attr,
    content: Option<u32>,
    device: u64,
    text: Rc<[u8]>,
    xattrs: BTreeMap<u8, Rc<[u8]>>,
    names: BTreeMap<u8, u32>,
}

const DIR: u8 = 4;
const FILE: u8 = 8;
const ROOT: u32 = 0;

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Model {
    nodes: BTreeMap<u32, Node>,
    handles: BTreeMap<u8, u32>,
    next: u32,
    /// Lines there are for all.
    lines: u64,
}

/// Lines of a head with so many bytes behind it: 48 fit in its own.
fn head_lines(bytes: usize) -> u64 {
    match bytes {
        0..=48 => 1,
        _ => 1 + (bytes as u64 - 48).div_ceil(56),
    }
}

impl Node {
    fn lines(&self) -> u64 {
        let xattrs = self.xattrs.iter();
        1 + (self.text.len() as u64).div_ceil(56)
            + self.names.keys().map(|&n| head_lines(name(n).len())).sum::<u64>()
            + xattrs.map(|(&n, value)| head_lines(name(n).len() + value.len())).sum::<u64>()
    }
}

impl Model {
    /// An empty file system in so many pages.
    pub fn new(pages: usize) -> Model {
        let root = node(New::Dir, attr(1));
        let lines = pages as u64 * 64 - 64;
        Model { nodes: [(ROOT, root)].into(), handles: BTreeMap::new(), next: 1, lines }
    }

    fn used(&self) -> u64 {
        self.nodes.values().map(Node::lines).sum()
    }
    pub fn free(&self) -> u64 {
        self.lines - self.used()
    }
    pub fn inodes(&self) -> usize {
        self.nodes.len()
    }
    /// In order; copies of the same are alike.
    pub fn contents(&self) -> Vec<u32> {
        let mut all: Vec<u32> = self.nodes.values().filter_map(|node| node.content).collect();
        all.sort_unstable();
        all
    }
    /// Names in a directory.
    pub fn names(&self, path: &[u8]) -> Vec<u8> {
        let node = self.resolve(&Ref::Path(path.to_vec())).map(|id| &self.nodes[&id]);
        node.map_or(Vec::new(), |node| node.names.keys().copied().collect())
    }
    pub fn is_dir(&self, path: &[u8]) -> bool {
        self.resolve(&Ref::Path(path.to_vec())).is_ok_and(|id| self.nodes[&id].kind == DIR)
    }

    /// After a restart: what has no name is gone.
    pub fn settled(&self) -> Model {
        let mut settled = self.clone();
        settled.handles.clear();
        let all: Vec<u32> = settled.nodes.keys().copied().collect();
        all.into_iter().for_each(|id| {
            settled.reap(id);
        });
        settled
    }

    fn links(&self, id: u32) -> u32 {
        let named = self.nodes.values().flat_map(|node| node.names.values());
        named.filter(|&&other| other == id).count() as u32 + (id == ROOT) as u32
    }
    fn parent(&self, id: u32) -> Option<u32> {
        self.nodes.iter().find(|(_, node)| node.names.values().any(|&n| n == id)).map(|(&at, _)| at)
    }

    pub fn resolve(&self, file: &Ref) -> Result<u32, Error> {
        match file {
            Ref::Handle(handle) => self.handles.get(handle).copied().ok_or(Error::NotFound),
            Ref::Path(path) => path.iter().try_fold(ROOT, |at, number| {
                self.dir(at)?.names.get(number).copied().ok_or(Error::NotFound)
            }),
        }
    }
    fn dir(&self, id: u32) -> Result<&Node, Error> {
        let node = &self.nodes[&id];
        (node.kind == DIR).then_some(node).ok_or(Error::NotDirectory)
    }
    fn node(&mut self, id: u32) -> &mut Node {
        self.nodes.get_mut(&id).expect("there")
    }

    /// Everything that has a name.
    pub fn tree(&self) -> Tree {
        let (mut tree, mut first) = (Tree::new(), BTreeMap::new());
        self.visit(ROOT, Vec::new(), &mut first, &mut tree);
        tree
    }
    fn visit(
        &self,
        id: u32,
        path: Vec<Vec<u8>>,
        first: &mut BTreeMap<u32, Vec<Vec<u8>>>,
        tree: &mut Tree,
    ) {
        let node = &self.nodes[&id];
        let subdirs = node.names.values().filter(|id| self.nodes[id].kind == DIR).count() as u32;
        let found = Found {
            kind: node.kind,
            attr: node.attr,
            links: if node.kind == DIR { 2 + subdirs } else { self.links(id) },
            content: node.content,
            device: node.device,
            text: node.text.to_vec(),
            xattrs: node.xattrs.iter().map(|(&n, value)| (name(n), value.to_vec())).collect(),
            first: first.entry(id).or_insert_with(|| path.clone()).clone(),
        };
        tree.insert(path.clone(), found);
        let mut names: Vec<_> = node.names.iter().map(|(&n, &id)| (name(n), id)).collect();
        names.sort();
        for (name, id) in names {
            let mut below = path.clone();
            below.push(name);
            self.visit(id, below, first, tree);
        }
    }

    fn check_new(&self, dir: u32, number: u8) -> Result<(), Error> {
        let names = &self.dir(dir)?.names;
        check_name(number)?;
        if names.contains_key(&number) {
            return Err(Error::Exists);
        }
        if self.links(dir) == 0 {
            return Err(Error::NotFound);
        }
        Ok(())
    }
    fn check(&self, new: New) -> Result<(), Error> {
        match new {
            New::Symlink(0, _) => Err(Error::Invalid),
            New::Symlink(4096.., _) => Err(Error::TooBig),
            New::File(id) if self.contents().contains(&id) => Err(Error::Exists),
            _ => Ok(()),
        }
    }
    fn add(&mut self, node: Node) -> u32 {
        self.next += 1;
        self.nodes.insert(self.next, node);
        self.next
    }
    fn touch(&mut self, dir: u32, now: i64) {
        let attr = &mut self.node(dir).attr;
        (attr.mtime, attr.ctime) = (now, now);
    }
    /// Is gone if it has no name and nobody holds it.
    fn reap(&mut self, id: u32) -> Outcome {
        if self.links(id) > 0 || self.handles.values().any(|&held| held == id) {
            return (false, None);
        }
        (true, self.nodes.remove(&id).expect("there").content)
    }
    fn keep(&mut self, handle: u8, id: u32) -> Outcome {
        match self.handles.insert(handle, id) {
            Some(old) => self.reap(old),
            None => (false, None),
        }
    }
    /// A copy of a file as it was before; `None` if no more contents can be copied.
    fn copy(
        &mut self,
        before: &Model,
        (of, except): (u32, u32),
        known: &mut BTreeMap<u32, u32>,
        left: &mut usize,
    ) -> Option<u32> {
        if let Some(&copy) = known.get(&of) {
            return Some(copy);
        }
        let mut node = before.nodes[&of].clone();
        if let Some(id) = &mut node.content {
            *left = left.checked_sub(1)?;
            *id = COPY + *id % COPY;
        }
        node.names.retain(|_, below| *below != except);
        let copy = self.add(node.clone());
        known.insert(of, copy);
        for (name, below) in node.names {
            let below = self.copy(before, (below, except), known, left)?;
            self.node(copy).names.insert(name, below);
        }
        Some(copy)
    }
    fn remove_below(&mut self, id: u32) {
        let names = std::mem::take(&mut self.node(id).names);
        names.into_values().for_each(|below| {
            // Of two names in the tree, the first took it.
            if self.nodes.contains_key(&below) {
                self.remove_below(below);
            }
        });
        self.reap(id);
    }
    fn is_below(&self, dir: u32, above: u32) -> bool {
        let mut at = Some(dir);
        while let Some(id) = at {
            if id == above {
                return true;
            }
            at = self.parent(id);
        }
        false
    }
}

fn node(new: New, attr: Attr) -> Node {
    let none = Rc::from([]);
    let (kind, content, device, text) = match new {
        New::File(id) => (FILE, Some(id), 0, none),
        New::Empty => (FILE, None, 0, none),
        New::Dir => (DIR, None, 0, none),
        New::Symlink(length, seed) => (10, None, 0, bytes(length, seed).into()),
        New::Char(number) => (2, None, number, none),
        New::Block(number) => (6, None, number, none),
        New::Fifo => (1, None, 0, none),
        New::Socket => (12, None, 0, none),
    };
    Node { kind, attr, content, device, text, xattrs: BTreeMap::new(), names: BTreeMap::new() }
}

fn check_name(number: u8) -> Result<(), Error> {
    match number {
        255 => Err(Error::NameTooLong),
        250.. => Err(Error::Invalid),
        _ => Ok(()),
    }
}

impl Op {
    /// What must come of it. After an error the model is as before.
    pub fn model(&self, model: &mut Model, now: i64) -> Result<Outcome, Error> {
        let mut after = model.clone();
        let outcome = self.change(&mut after, now)?;
        let needs = match self {
            Op::Snapshot { .. } => after.used() - model.used(),
            _ => self.needs(),
        };
        if needs > model.free() {
            return Err(Error::NoSpace);
        }
        *model = after;
        Ok(outcome)
    }

    /// Lines that must be free for it.
    fn needs(&self) -> u64 {
        let name_lines = |number: &u8| head_lines(name(*number).len());
        match self {
            Op::Create { name, new, .. } => node(*new, attr(0)).lines() + name_lines(name),
            Op::Unnamed { new, .. } => node(*new, attr(0)).lines(),
            Op::Link { name, .. } => name_lines(name),
            Op::SetXattr { name: number, length, .. } => head_lines(name(*number).len() + length),
            // Whether a name is made is seen below.
            _ => 0,
        }
    }

    fn change(&self, model: &mut Model, now: i64) -> Result<Outcome, Error> {
        match self {
            Op::Create { dir, name, new, attr: seed } => {
                let dir = model.resolve(dir)?;
                model.check_new(dir, *name)?;
                model.check(*new)?;
                let id = model.add(node(*new, attr(*seed)));
                model.node(dir).names.insert(*name, id);
                model.touch(dir, now);
            }
            Op::Unnamed { handle, new, attr: seed } => {
                if *new == New::Dir {
                    return Err(Error::IsDirectory);
                }
                model.check(*new)?;
                let id = model.add(node(*new, attr(*seed)));
                return Ok(model.keep(*handle, id));
            }
            Op::Link { file, dir, name } => {
                let (file, dir) = (model.resolve(file)?, model.resolve(dir)?);
                model.check_new(dir, *name)?;
                if model.nodes[&file].kind == DIR {
                    return Err(Error::IsDirectory);
                }
                model.node(dir).names.insert(*name, file);
                model.node(file).attr.ctime = now;
                model.touch(dir, now);
            }
            Op::Unlink { dir, name } | Op::Rmdir { dir, name } => {
                let dir = model.resolve(dir)?;
                let id = *model.dir(dir)?.names.get(name).ok_or(Error::NotFound)?;
                match (matches!(self, Op::Rmdir { .. }), model.nodes[&id].kind == DIR) {
                    (false, true) => return Err(Error::IsDirectory),
                    (true, false) => return Err(Error::NotDirectory),
                    (true, true) if !model.nodes[&id].names.is_empty() => {
                        return Err(Error::NotEmpty)
                    }
                    _ => {}
                }
                model.node(dir).names.remove(name);
                model.touch(dir, now);
                model.node(id).attr.ctime = now;
                return Ok(model.reap(id));
            }
            Op::Rename { from, to, how: number } => {
                let (from, to) = ((model.resolve(&from.0)?, from.1), (model.resolve(&to.0)?, to.1));
                return rename(model, from, to, how(*number), now);
            }
            Op::SetAttr { file, attr: seed } => {
                let file = model.resolve(file)?;
                model.node(file).attr = attr(*seed);
            }
            Op::SetXattr { file, name, length, seed, how } => {
                let file = model.resolve(file)?;
                check_xattr(*name)?;
                if *length > 65536 {
                    return Err(Error::TooBig);
                }
                let xattrs = &mut model.node(file).xattrs;
                let is_there = xattrs.contains_key(name);
                match (is_there, set_how(*how)) {
                    (true, SetXattr::Create) => return Err(Error::Exists),
                    (false, SetXattr::Replace) => return Err(Error::NotFound),
                    _ => {}
                }
                if !is_there && xattrs.len() == 128 {
                    return Err(Error::NoSpace);
                }
                xattrs.insert(*name, bytes(*length, *seed).into());
                model.node(file).attr.ctime = now;
            }
            Op::RemoveXattr { file, name } => {
                let file = model.resolve(file)?;
                model.node(file).xattrs.remove(name).ok_or(Error::NotFound)?;
                model.node(file).attr.ctime = now;
            }
            Op::SetContent { file, content } => {
                let file = model.resolve(file)?;
                check_file(&model.nodes[&file])?;
                if content.is_some_and(|id| model.contents().contains(&id)) {
                    return Err(Error::Exists);
                }
                let old = std::mem::replace(&mut model.node(file).content, *content);
                return Ok((false, old));
            }
            Op::Exchange { one, other } => {
                let (one, other) = (model.resolve(one)?, model.resolve(other)?);
                check_file(&model.nodes[&one])?;
                check_file(&model.nodes[&other])?;
                let of_one = model.nodes[&one].content;
                model.node(one).content = model.nodes[&other].content;
                model.node(other).content = of_one;
            }
            Op::Snapshot { of, to: (dir, name), copies } => {
                let (of, dir) = (model.resolve(of)?, model.resolve(dir)?);
                model.check_new(dir, *name)?;
                model.dir(of)?;
                let before = model.clone();
                let (mut known, mut left) = (BTreeMap::new(), *copies);
                let top = model.copy(&before, (of, dir), &mut known, &mut left);
                model.node(dir).names.insert(*name, top.ok_or(Error::NoSpace)?);
                model.touch(dir, now);
            }
            Op::RemoveTree { dir, name } => {
                let dir = model.resolve(dir)?;
                let top = *model.dir(dir)?.names.get(name).ok_or(Error::NotFound)?;
                model.dir(top)?;
                model.node(dir).names.remove(name);
                model.touch(dir, now);
                model.remove_below(top);
            }
            Op::Hold { file, handle } => {
                let file = model.resolve(file)?;
                return Ok(model.keep(*handle, file));
            }
            Op::Release { handle } => {
                let id = model.handles.remove(handle).ok_or(Error::NotFound)?;
                return Ok(model.reap(id));
            }
        }
        Ok((false, None))
    }
}

fn check_xattr(number: u8) -> Result<(), Error> {
    match number {
        255 => Err(Error::NameTooLong),
        250 | 254 => Err(Error::Invalid),
        _ => Ok(()),
    }
}

fn check_file(node: &Node) -> Result<(), Error> {
    match node.kind {
        FILE => Ok(()),
        DIR => Err(Error::IsDirectory),
        _ => Err(Error::Invalid),
    }
}

fn rename(
    model: &mut Model,
    from: (u32, u8),
    to: (u32, u8),
    how: How,
    now: i64,
) -> Result<Outcome, Error> {
    let source = *model.dir(from.0)?.names.get(&from.1).ok_or(Error::NotFound)?;
    let target = model.dir(to.0)?.names.get(&to.1).copied();
    check_name(to.1)?;
    if how == How::NoReplace && target.is_some() {
        return Err(Error::Exists);
    }
    if model.is_below(to.0, source) {
        return Err(Error::Loop);
    }
    match target {
        None if how == How::Exchange => return Err(Error::NotFound),
        None if model.links(to.0) == 0 => return Err(Error::NotFound),
        None if head_lines(name(to.1).len()) > model.free() => return Err(Error::NoSpace),
        Some(target) if target == source => return Ok((false, None)),
        Some(target) if how == How::Exchange => {
            if model.is_below(from.0, target) {
                return Err(Error::Loop);
            }
            model.node(from.0).names.insert(from.1, target);
            model.node(target).attr.ctime = now;
        }
        Some(target) => {
            match (model.nodes[&source].kind == DIR, model.nodes[&target].kind == DIR) {
                (true, false) => return Err(Error::NotDirectory),
                (false, true) => return Err(Error::IsDirectory),
                (true, true) if !model.nodes[&target].names.is_empty() => {
                    return Err(Error::NotEmpty)
                }
                _ => {}
            }
            model.node(from.0).names.remove(&from.1);
            model.node(target).attr.ctime = now;
        }
        None => {
            model.node(from.0).names.remove(&from.1);
        }
    }
    model.node(to.0).names.insert(to.1, source);
    model.touch(from.0, now);
    model.touch(to.0, now);
    // Last: a directory may be moved into its own parent's name.
    model.node(source).attr.ctime = now;
    match target {
        Some(target) if how != How::Exchange => Ok(model.reap(target)),
        _ => Ok((false, None)),
    }
}

/// The file system is as the model says, and no line is lost.
pub fn compare(world: &World, model: &Model) -> Result<(), String> {
    let (found, expected) = (world.tree()?, model.tree());
    if found != expected {
        let first = |a: &Tree, b: &Tree| -> Vec<String> {
            let other = a.iter().filter(|(path, file)| b.get(*path) != Some(file));
            other.map(|(path, file)| format!("{path:?}: {file:?}")).take(3).collect()
        };
        return Err(format!(
            "found {:#?}\nexpected {:#?}",
            first(&found, &expected),
            first(&expected, &found)
        ));
    }
    let space = world.fs.space();
    if (space.free, space.inodes) != (model.free(), model.inodes() as u64) {
        return Err(format!("{space:?}, not {} free, {} inodes", model.free(), model.inodes()));
    }
    if world.contents() != model.contents() {
        return Err(format!("contents {:?}, not {:?}", world.contents(), model.contents()));
    }
    Ok(())
}
