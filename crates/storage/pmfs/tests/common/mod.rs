//! A machine for tests: memory that may lose power with a file system in it, operations, and what must be found.
#![allow(dead_code)]

pub mod model;

use pmfs::{Area, Attr, Contents, Error, Fs, Gone, How, Ino, Kind, Mount, Refused, SetXattr, What};
use powerfail::{Image, Recorder, Site, LINE, PAGE};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Pages of memory; the last one says which contents exist.
#[derive(Clone)]
pub struct Memory(pub Rc<RefCell<Recorder>>);

impl Memory {
    fn contents_page(&self) -> u64 {
        self.0.borrow().now().pages() as u64 - 1
    }
    /// Contents come and go at once, and for good.
    #[track_caller]
    fn set_content(&self, id: u32, is_there: bool) {
        self.set_content_word(id, is_there as u64);
    }
    #[track_caller]
    fn set_content_word(&self, id: u32, word: u64) {
        let page = self.contents_page();
        let mut recorder = self.0.borrow_mut();
        recorder.store(page, id as usize, word);
        recorder.write_back(page, id as usize / LINE);
        recorder.fence();
    }
    fn content_word(&self, id: u32) -> u64 {
        match (id as usize) < PAGE {
            true => self.0.borrow().load(self.contents_page(), id as usize),
            false => 0,
        }
    }
    pub fn has_content(&self, id: u32) -> bool {
        self.content_word(id) != 0
    }
    /// What contents are, whichever number they have: copies of the same are alike.
    fn nature(&self, id: u32) -> u32 {
        match self.content_word(id) {
            0 | 1 => id,
            copy => COPY + copy as u32 - 2,
        }
    }
}

/// What copies of contents are, and the first number that one has.
pub const COPY: u32 = 1000;
const FIRST_COPY: u32 = 256;

/// Contents of a memory, of which so many may be copied.
struct Copies<'a> {
    memory: &'a Memory,
    left: usize,
}

impl Contents for Copies<'_> {
    fn copy(&mut self, content: u32) -> Result<u32, Error> {
        let mut numbers = FIRST_COPY..PAGE as u32;
        let free = numbers.find(|&id| !self.memory.has_content(id));
        let id = free.filter(|_| self.left > 0).ok_or(Error::NoSpace)?;
        self.left -= 1;
        let nature = self.memory.nature(content);
        let origin = if nature < COPY { nature } else { nature - COPY };
        self.memory.set_content_word(id, 2 + origin as u64);
        Ok(id)
    }
    fn destroy(&mut self, content: u32) {
        assert!(self.memory.has_content(content), "contents {content} go twice");
        self.memory.set_content(content, false);
    }
}

impl Area for Memory {
    fn words(&self) -> u64 {
        self.contents_page() * PAGE as u64
    }
    fn load(&self, word: u64) -> u64 {
        assert!(word < self.words(), "word {word:#x}");
        self.0.borrow().load(word / PAGE as u64, word as usize % PAGE)
    }
    fn store(&self, word: u64, value: u64) {
        assert!(word < self.words(), "word {word:#x}");
        self.0.borrow_mut().store(word / PAGE as u64, word as usize % PAGE, value);
    }
    #[track_caller]
    fn write_back(&self, line: u64) {
        let lines = (PAGE / LINE) as u64;
        self.0.borrow_mut().write_back(line / lines, (line % lines) as usize);
    }
    #[track_caller]
    fn fence(&self) {
        self.0.borrow_mut().fence();
    }
}

/// A name of the tests, by number: of many lengths, and some that no file can have.
pub fn name(number: u8) -> Vec<u8> {
    const LENGTHS: [usize; 12] = [2, 3, 7, 8, 9, 47, 48, 49, 103, 104, 105, 255];
    match number {
        255 => vec![b'l'; 256],
        254 => b"n\0".to_vec(),
        253 => b"a/b".to_vec(),
        252 => b"..".to_vec(),
        251 => b".".to_vec(),
        250 => Vec::new(),
        _ => {
            let mut name = format!("{number:02x}").into_bytes();
            name.resize(LENGTHS[number as usize % 12], b'x');
            name
        }
    }
}

/// So many bytes that depend on where they are.
pub fn bytes(length: usize, seed: u8) -> Vec<u8> {
    (0..length).map(|n| (n as u8).wrapping_mul(7).wrapping_add(seed) | 1).collect()
}

pub fn attr(seed: u8) -> Attr {
    let (n, t) = (seed as u32, seed as i64);
    Attr {
        mode: (n * 37) as u16 & 0o7777,
        uid: n << 24 | 1,
        gid: n << 16 | 2,
        atime: -t,
        mtime: t << 40,
        ctime: t << 20,
        btime: t,
        flags: (n as u64) << 33,
    }
}

/// Which file an operation is about: by names from the root, or one that is held.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Ref {
    Path(Vec<u8>),
    Handle(u8),
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum New {
    File(u32),
    Empty,
    Dir,
    Symlink(usize, u8),
    Char(u64),
    Block(u64),
    Fifo,
    Socket,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Op {
    Create {
        dir: Ref,
        name: u8,
        new: New,
        attr: u8,
    },
    Unnamed {
        handle: u8,
        new: New,
        attr: u8,
    },
    Link {
        file: Ref,
        dir: Ref,
        name: u8,
    },
    Unlink {
        dir: Ref,
        name: u8,
    },
    Rmdir {
        dir: Ref,
        name: u8,
    },
    Rename {
        from: (Ref, u8),
        to: (Ref, u8),
        how: u8,
    },
    SetAttr {
        file: Ref,
        attr: u8,
    },
    SetXattr {
        file: Ref,
        name: u8,
        length: usize,
        seed: u8,
        how: u8,
    },
    RemoveXattr {
        file: Ref,
        name: u8,
    },
    SetContent {
        file: Ref,
        content: Option<u32>,
    },
    Exchange {
        one: Ref,
        other: Ref,
    },
    /// Of contents, so many can be copied.
    Snapshot {
        of: Ref,
        to: (Ref, u8),
        copies: usize,
    },
    RemoveTree {
        dir: Ref,
        name: u8,
    },
    Hold {
        file: Ref,
        handle: u8,
    },
    Release {
        handle: u8,
    },
}

pub fn how(number: u8) -> How {
    [How::Replace, How::NoReplace, How::Exchange][number as usize % 3]
}
pub fn set_how(number: u8) -> SetXattr {
    [SetXattr::Any, SetXattr::Create, SetXattr::Replace][number as usize % 3]
}

/// Whether an inode is gone, and which contents are to be destroyed.
pub type Outcome = (bool, Option<u32>);

/// A machine with a mounted file system.
pub struct World {
    pub memory: Memory,
    pub fs: Fs<Memory>,
    pub handles: BTreeMap<u8, Ino>,
}

/// Everything with a name, by the names from the root.
pub type Tree = BTreeMap<Vec<Vec<u8>>, Found>;

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Found {
    pub kind: u8,
    pub attr: Attr,
    pub links: u32,
    pub content: Option<u32>,
    pub device: u64,
    pub text: Vec<u8>,
    pub xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    /// The first name of the same file.
    pub first: Vec<Vec<u8>>,
}

/// So many pages in which something was, and one that says that there are no contents.
pub fn used(pages: usize) -> Image {
    let mut image = Image::new(pages + 1);
    for place in 1..(pages * PAGE) as u64 {
        // What is no head, and what is one.
        let value = if place % 16 < 8 { 0x5555_5555_5555_5555 } else { 0x42 };
        image.store(place / PAGE as u64, place as usize % PAGE, value);
    }
    image
}

/// An empty file system in so many pages.
pub fn formatted(pages: usize) -> Image {
    let memory = Memory(Rc::new(RefCell::new(Recorder::new(used(pages)))));
    pmfs::format(&memory, attr(1)).expect("large enough");
    let image = memory.0.borrow().now().clone();
    image
}

impl World {
    /// Mounts what is in an image, and destroys contents that nobody names.
    pub fn mount(image: Image, muted: Option<Site>, watch: bool) -> Result<World, Refused> {
        let mut recorder = Recorder::new(image);
        recorder.muted = muted;
        if watch {
            recorder.watch();
        }
        let memory = Memory(Rc::new(RefCell::new(recorder)));
        let before = memory.0.borrow().now().clone();
        let mounted = mount(&memory);
        if mounted.is_err() {
            assert!(*memory.0.borrow().now() == before, "what is refused was written to");
        }
        let fs = mounted?;
        for id in 0..PAGE as u32 {
            if memory.has_content(id) && fs.content_owner(id).is_none() {
                memory.set_content(id, false);
            }
        }
        Ok(World { memory, fs, handles: BTreeMap::new() })
    }

    pub fn image(&self) -> Image {
        self.memory.0.borrow().now().clone()
    }

    pub fn resolve(&self, file: &Ref) -> Result<Ino, Error> {
        match file {
            Ref::Handle(handle) => self.handles.get(handle).copied().ok_or(Error::NotFound),
            Ref::Path(path) => path.iter().try_fold(self.fs.root(), |at, &number| {
                self.fs.lookup(at, &name(number))?.ok_or(Error::NotFound)
            }),
        }
    }

    /// Everything that has a name.
    pub fn tree(&self) -> Result<Tree, String> {
        let mut tree = Tree::new();
        let mut first = BTreeMap::new();
        self.visit(self.fs.root(), Vec::new(), &mut first, &mut tree)?;
        Ok(tree)
    }

    fn visit(
        &self,
        ino: Ino,
        path: Vec<Vec<u8>>,
        first: &mut BTreeMap<Ino, Vec<Vec<u8>>>,
        tree: &mut Tree,
    ) -> Result<(), String> {
        let wrong = |error| format!("{path:?}: {error:?}");
        let stat = self.fs.stat(ino).map_err(wrong)?;
        let text = match stat.kind {
            Kind::Symlink => self.fs.read_link(ino).map_err(wrong)?,
            _ => Vec::new(),
        };
        if text.len() != stat.length {
            return Err(format!("{path:?}: length {} of {text:?}", stat.length));
        }
        let mut xattrs = BTreeMap::new();
        for name in self.fs.xattrs(ino).map_err(wrong)? {
            let value = self.fs.xattr(ino, &name).map_err(wrong)?;
            xattrs.insert(name, value.ok_or(format!("{path:?}: a listed attribute is not there"))?);
        }
        let found = Found {
            kind: stat.kind as u8,
            attr: stat.attr,
            links: stat.links,
            content: stat.content.map(|id| self.memory.nature(id)),
            device: stat.device,
            text,
            xattrs,
            first: first.entry(ino).or_insert_with(|| path.clone()).clone(),
        };
        tree.insert(path.clone(), found);
        if stat.kind != Kind::Dir {
            return Ok(());
        }
        let mut entries: Vec<_> = self.fs.read_dir(ino, 2).map_err(wrong)?.collect();
        if entries.len() != self.fs.entries(ino).map_err(wrong)? as usize {
            return Err(format!("{path:?}: number of entries"));
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        for entry in entries {
            if self.fs.lookup(ino, &entry.name) != Ok(Some(entry.ino)) {
                return Err(format!("{path:?}: {:?} is not found", entry.name));
            }
            if entry.kind == Kind::Dir {
                let back = (self.fs.parent(entry.ino), self.fs.name_of(entry.ino));
                if back != (Ok(ino), Ok(Some(entry.name.clone()))) {
                    return Err(format!("{path:?}: {:?} says {back:?}", entry.name));
                }
            }
            let mut below = path.clone();
            below.push(entry.name);
            if below.len() > 1000 || tree.contains_key(&below) {
                return Err(format!("{path:?}: deep, or a name is there twice"));
            }
            self.visit(entry.ino, below, first, tree)?;
        }
        Ok(())
    }

    /// Contents that exist, by what they are.
    pub fn contents(&self) -> Vec<u32> {
        let there = (0..PAGE as u32).filter(|&id| self.memory.has_content(id));
        let mut all: Vec<u32> = there.map(|id| self.memory.nature(id)).collect();
        all.sort_unstable();
        all
    }
}

/// Mounts, in steps. Until everything was looked at nothing is stored; then the mount goes on from another reference to the memory.
pub fn mount(memory: &Memory) -> Result<Fs<Memory>, Refused> {
    let before = memory.0.borrow().now().clone();
    let mut mount = Mount::new(memory.clone(), 7)?;
    for _ in 0..100_000 {
        if mount.is_checked() {
            break;
        }
        if let Err(refused) = mount.step(|id| memory.has_content(id)) {
            assert_eq!(mount.finish().err(), Some(Refused::Unfinished));
            assert!(*memory.0.borrow().now() == before, "what is refused was changed");
            return Err(refused);
        }
    }
    assert!(*memory.0.borrow().now() == before, "what is looked at was changed");
    let mut mount = mount.detach().attach(memory.clone());
    for _ in 0..100_000 {
        match mount.step(|id| memory.has_content(id)) {
            Ok(false) => {}
            Ok(true) => return mount.finish(),
            Err(refused) => {
                assert_eq!(mount.finish().err(), Some(Refused::Unfinished));
                return Err(refused);
            }
        }
    }
    panic!("a mount does not end");
}

impl Op {
    pub fn run(&self, world: &mut World, now: i64) -> Result<Outcome, Error> {
        let (gone, content) = self.call(world, now)?;
        let nature = content.map(|id| world.memory.nature(id));
        if let Some(content) = content {
            world.memory.set_content(content, false);
        }
        Ok((gone, nature))
    }

    fn call(&self, world: &mut World, now: i64) -> Result<Outcome, Error> {
        let gone = |gone: Option<Gone>| (gone.is_some(), gone.and_then(|gone| gone.content));
        match self {
            Op::Create { dir, name: number, new, attr: seed } => {
                let dir = world.resolve(dir)?;
                let create = |world: &mut World, what: What| {
                    world.fs.create(dir, &name(*number), what, attr(*seed), now)
                };
                new.make(world, create).map(|_| (false, None))
            }
            Op::Unnamed { handle, new, attr: seed } => {
                let create =
                    |world: &mut World, what: What| world.fs.create_unnamed(what, attr(*seed));
                let ino = new.make(world, create)?;
                Ok(gone(world.keep(*handle, ino)))
            }
            Op::Link { file, dir, name: number } => {
                let (file, dir) = (world.resolve(file)?, world.resolve(dir)?);
                world.fs.link(file, dir, &name(*number), now).map(|()| (false, None))
            }
            Op::Unlink { dir, name: number } => {
                let dir = world.resolve(dir)?;
                world.fs.unlink(dir, &name(*number), now).map(gone)
            }
            Op::Rmdir { dir, name: number } => {
                let dir = world.resolve(dir)?;
                world.fs.rmdir(dir, &name(*number), now).map(gone)
            }
            Op::Rename { from, to, how: number } => {
                let (old, new) = (name(from.1), name(to.1));
                let from = (world.resolve(&from.0)?, &old[..]);
                let to = (world.resolve(&to.0)?, &new[..]);
                world.fs.rename(from, to, how(*number), now).map(gone)
            }
            Op::SetAttr { file, attr: seed } => {
                let file = world.resolve(file)?;
                world.fs.set_attr(file, attr(*seed)).map(|()| (false, None))
            }
            Op::SetXattr { file, name: number, length, seed, how } => {
                let (file, value) = (world.resolve(file)?, bytes(*length, *seed));
                let set = world.fs.set_xattr(file, &name(*number), &value, set_how(*how), now);
                set.map(|()| (false, None))
            }
            Op::RemoveXattr { file, name: number } => {
                let file = world.resolve(file)?;
                world.fs.remove_xattr(file, &name(*number), now).map(|()| (false, None))
            }
            Op::SetContent { file, content } => {
                let file = world.resolve(file)?;
                let is_new = content.is_some_and(|id| !world.memory.has_content(id));
                content
                    .iter()
                    .filter(|_| is_new)
                    .for_each(|&id| world.memory.set_content(id, true));
                let set = world.fs.set_content(file, *content);
                if set.is_err() {
                    content
                        .iter()
                        .filter(|_| is_new)
                        .for_each(|&id| world.memory.set_content(id, false));
                }
                set.map(|old| (false, old))
            }
            Op::Exchange { one, other } => {
                let (one, other) = (world.resolve(one)?, world.resolve(other)?);
                world.fs.exchange_contents(one, other).map(|()| (false, None))
            }
            Op::Snapshot { of, to, copies } => {
                let (of, dir) = (world.resolve(of)?, world.resolve(&to.0)?);
                let mut contents = Copies { memory: &world.memory, left: *copies };
                let made = world.fs.snapshot(of, (dir, &name(to.1)), &mut contents, now)?;
                // Where it was made was changed by that.
                for copied in made.into_iter().filter(|copied| copied.from != dir) {
                    let (from, to) = (world.fs.stat(copied.from)?, world.fs.stat(copied.to)?);
                    assert_eq!((to.attr, to.content), (from.attr, copied.content), "{copied:?}");
                }
                Ok((false, None))
            }
            Op::RemoveTree { dir, name: number } => {
                let dir = world.resolve(dir)?;
                let mut contents = Copies { memory: &world.memory, left: 0 };
                let removed = world.fs.remove_tree(dir, &name(*number), &mut contents, now);
                removed.map(|()| (false, None))
            }
            Op::Hold { file, handle } => {
                let file = world.resolve(file)?;
                world.fs.hold(file);
                Ok(gone(world.keep(*handle, file)))
            }
            Op::Release { handle } => {
                let ino = world.handles.remove(handle).ok_or(Error::NotFound)?;
                Ok(gone(world.fs.release(ino)))
            }
        }
    }
}

impl World {
    /// A handle stands for an inode that is held; what it stood for before is released.
    fn keep(&mut self, handle: u8, ino: Ino) -> Option<Gone> {
        let old = self.handles.insert(handle, ino)?;
        self.fs.release(old)
    }
}

impl New {
    /// Contents are made before the file, and destroyed if there is none.
    fn make(
        self,
        world: &mut World,
        create: impl FnOnce(&mut World, What) -> Result<Ino, Error>,
    ) -> Result<Ino, Error> {
        let text;
        let what = match self {
            New::File(id) => {
                let is_new = !world.memory.has_content(id);
                if is_new {
                    world.memory.set_content(id, true);
                }
                let created = create(world, What::File(Some(id)));
                if created.is_err() && is_new {
                    world.memory.set_content(id, false);
                }
                return created;
            }
            New::Empty => What::File(None),
            New::Dir => What::Dir,
            New::Symlink(length, seed) => {
                text = bytes(length, seed);
                What::Symlink(&text)
            }
            New::Char(number) => What::Char(number),
            New::Block(number) => What::Block(number),
            New::Fifo => What::Fifo,
            New::Socket => What::Socket,
        };
        create(world, what)
    }
}
