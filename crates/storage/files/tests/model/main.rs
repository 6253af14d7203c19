//! Random requests about contents against a naive model: a file is a vector of bytes.

mod kept;
mod snapshots;

use files::{Allocation, Backing, Claim, Files, Memory, Piece, Refusal, Writer, GRANT_MAX};
use kept::{Numbers, Object, Objects};
use memfs::{Attr, Attributes, Cred, Hidden, Ino, Kept, Shown, SIZE_MAX};
use paging::PAGE;
use piecewise::Limits;
use proptest::prelude::*;
use std::cell::{Cell, RefCell};
use std::num::NonZeroU32;
use std::rc::Rc;
use unixproto::Errno;

const NOW: i64 = 1;
/// The boot archive: two files lie in it, and something else between and behind them.
const ARCHIVE: usize = 5 * PAGE as usize;

fn archive() -> Vec<u8> {
    (0..ARCHIVE).map(|at| 1 + (at % 251) as u8).collect()
}

/// Memory as vectors, of which there is so much.
struct Bytes {
    free: Rc<Cell<u64>>,
    archive: Vec<u8>,
    objects: Objects,
}

struct Frame {
    bytes: RefCell<Vec<u8>>,
    /// How often it was taken away from everybody.
    revoked: Cell<u32>,
    /// What is given back when it is dropped, and where.
    taken: u64,
    free: Rc<Cell<u64>>,
}

impl Drop for Frame {
    fn drop(&mut self) {
        self.free.set(self.free.get() + self.taken);
    }
}

impl Memory for Bytes {
    type Frame = Frame;
    type Object = Object;

    fn archived(&mut self, offset: u64, bytes: u64) -> Result<Frame, Errno> {
        assert!(offset.is_multiple_of(PAGE) && bytes.is_multiple_of(PAGE));
        let part = &self.archive[offset as usize..(offset + bytes) as usize];
        let (bytes, revoked) = (RefCell::new(part.to_vec()), Cell::new(0));
        Ok(Frame { bytes, revoked, taken: 0, free: self.free.clone() })
    }

    fn archived_end(&mut self, offset: u64, bytes: u64, _: u32) -> Result<Frame, Errno> {
        let left = self.free.get().checked_sub(PAGE).ok_or(Errno::ENOSPC)?;
        self.free.set(left);
        let mut page = self.archive[offset as usize..(offset + bytes) as usize].to_vec();
        page.resize(PAGE as usize, 0);
        let (bytes, revoked) = (RefCell::new(page), Cell::new(0));
        Ok(Frame { bytes, revoked, taken: PAGE, free: self.free.clone() })
    }

    fn read_archived(&mut self, offset: u64, data: &mut [u8]) -> Result<(), Errno> {
        data.copy_from_slice(&self.archive[offset as usize..][..data.len()]);
        Ok(())
    }

    fn revoke(&mut self, frame: &Frame) -> Result<(), Errno> {
        frame.revoked.set(frame.revoked.get() + 1);
        Ok(())
    }

    fn make_object(&mut self, bytes: u64, needed: u64, _: u32) -> Result<Object, Errno> {
        let object = self.objects.volatile();
        if bytes <= PAGE {
            object.borrow_mut().most = PAGE;
        }
        object.borrow_mut().resize(bytes)?;
        let done = object.borrow_mut().populate(0, needed.min(bytes).next_multiple_of(PAGE));
        assert!(done <= bytes.next_multiple_of(PAGE));
        Ok(object)
    }

    fn create_object(&mut self) -> Result<(u32, Object), Errno> {
        self.objects.create()
    }

    fn open_object(&mut self, number: u32) -> Result<Object, Errno> {
        self.objects.open(number).ok_or(Errno::EIO)
    }

    fn most(object: &Object) -> u64 {
        object.borrow().most
    }

    fn resize_object(&mut self, object: &mut Object, bytes: u64, _: u32) -> Result<bool, Errno> {
        // One page of its own cannot grow.
        let outgrown = object.borrow().most == PAGE && bytes > PAGE;
        if !outgrown {
            return object.borrow_mut().resize(bytes).map(|()| false);
        }
        let size = object.borrow().size();
        let new = self.make_object(bytes, PAGE, 0)?;
        if new.borrow().taken() == 0 {
            return Err(Errno::ENOSPC);
        }
        let mut page = vec![0; size as usize];
        object.borrow().read(0, &mut page);
        new.borrow_mut().write(0, &page);
        *object = new;
        Ok(true)
    }

    fn limit(&self, object: &Object) -> Result<u64, Errno> {
        Ok(object.borrow().size())
    }

    fn allow_object(&mut self, object: &mut Object, bytes: u64) -> Result<u64, Errno> {
        Ok(object.borrow().size() + bytes)
    }

    fn populate_object(
        &mut self,
        object: &mut Object,
        (from, to): (u64, u64),
        _: u32,
    ) -> Result<u64, Errno> {
        Ok(object.borrow_mut().populate(from, to))
    }

    fn extend_object(&mut self, object: &mut Object, bytes: u64, from: u64) -> bool {
        let mut object = object.borrow_mut();
        if bytes > object.most || object.resize(bytes).is_err() {
            return false;
        }
        let end = bytes.next_multiple_of(PAGE);
        object.populate(from, end) >= end
    }

    fn next_data(
        &self,
        object: &Object,
        (from, to): (u64, u64),
    ) -> Result<Option<(u64, u64)>, Errno> {
        Ok(object.borrow().next_data(from, to))
    }

    fn allocated(&self, object: &Object, size: u64) -> Result<u64, Errno> {
        assert!(object.borrow().taken() <= size.next_multiple_of(PAGE), "pages behind the end");
        Ok(object.borrow().taken())
    }

    fn is_full(&self, object: &Object, size: u64) -> bool {
        object.borrow().taken() == size.next_multiple_of(PAGE)
    }

    fn allocated_in(&self, number: u32, size: u64) -> Result<u64, Errno> {
        self.allocated(&self.objects.open(number).unwrap(), size)
    }

    fn copy_archived(&mut self, offset: u64, bytes: u64, to: &Object) -> Result<(), Errno> {
        let part = self.archive[offset as usize..(offset + bytes) as usize].to_vec();
        self.write_object(to, 0, &part)
    }

    fn revoke_object(&mut self, object: &Object) -> Result<(), Errno> {
        let size = object.borrow().size();
        object.borrow_mut().revoked.push(size);
        Ok(())
    }

    fn discard_object(&mut self, object: &mut Object, from: u64, to: u64) -> Result<(), Errno> {
        object.borrow_mut().discard(from, to);
        Ok(())
    }

    fn clear_object(&mut self, object: &Object, from: u64, to: u64) -> Result<(), Errno> {
        object.borrow_mut().clear(from, to);
        Ok(())
    }

    fn write_object(&mut self, to: &Object, offset: u64, data: &[u8]) -> Result<(), Errno> {
        to.borrow_mut().write(offset, data);
        Ok(())
    }

    fn read_object(&mut self, from: &Object, offset: u64, data: &mut [u8]) -> Result<(), Errno> {
        from.borrow().read(offset, data);
        Ok(())
    }

    fn write_back_object(&mut self, _: &Object, _: u64, _: u64) -> Result<(), Errno> {
        Ok(())
    }

    fn advise_object(&mut self, _: &Object, _: bool) -> Result<(), Errno> {
        Ok(())
    }
    fn is_large(_: &Object) -> bool {
        false
    }
    fn commit_object(&mut self, object: &Object) -> Result<(), Errno> {
        object.borrow_mut().committed += 1;
        Ok(())
    }

    fn release_object(&mut self, _: &Object) -> Result<(), Errno> {
        Ok(())
    }

    fn clone_object(&mut self, object: &mut Object) -> Result<(u32, Object), Errno> {
        self.objects.clone_of(object)
    }

    fn destroy_object(&mut self, number: u32, object: Option<Object>) {
        drop(object);
        self.objects.destroy(number);
    }
}

/// Files of the model: the last one is stored in an object.
const FILES: usize = 4;
const STORED: usize = 3;

#[derive(Clone, Debug)]
enum Op {
    /// Writes so many bytes of a value there.
    Write(usize, u64, u64, u8),
    /// Stores one byte through a mapping, if it lies inside.
    Map(usize, u64, u8),
    Resize(usize, u64),
    /// Has a part allocated, or made a hole.
    Allocate(usize, Allocation, u64, u64),
    /// Sees what a mapping for reading shows of a page.
    Look(usize, u64),
    /// So many pages of memory go, or come back.
    Starve(u64),
}

fn op() -> impl Strategy<Value = Op> {
    let offset = || prop_oneof![0..3 * PAGE, 0..12 * PAGE, Just(PAGE), Just(2 * PAGE)];
    prop_oneof![
        4 => (0..FILES, offset(), 0..3 * PAGE, 1..=255u8).prop_map(|(f, o, n, v)| Op::Write(f, o, n, v)),
        3 => (0..FILES, offset(), 1..=255u8).prop_map(|(f, o, v)| Op::Map(f, o, v)),
        3 => (0..FILES, offset()).prop_map(|(f, n)| Op::Resize(f, n)),
        2 => (0..FILES, allocation(), offset(), 1..3 * PAGE)
            .prop_map(|(f, how, o, n)| Op::Allocate(f, how, o, n)),
        4 => (0..FILES, offset()).prop_map(|(f, o)| Op::Look(f, o)),
        1 => (0..40u64).prop_map(Op::Starve),
    ]
}

fn allocation() -> impl Strategy<Value = Allocation> {
    prop_oneof![
        Just(Allocation::Extend),
        Just(Allocation::Keep),
        Just(Allocation::Punch),
        Just(Allocation::Zero)
    ]
}

struct World {
    files: Files<Bytes>,
    inos: [Ino; FILES],
    model: [Vec<u8>; FILES],
    free: Rc<Cell<u64>>,
    limit: u64,
    /// The directory with the stored file.
    kept: Ino,
    /// What some reader was shown of each file: its layout and size.
    shown: [Option<(u32, u64)>; FILES],
}

/// The reader that is shown files.
const READER: u32 = 7;

const PLENTY: u64 = 1 << 30;

/// A part of a file as it is mapped.
fn piece(
    files: &mut Files<Bytes>,
    ino: Ino,
    at: u64,
    write: bool,
) -> Result<Piece<'_, Frame, Object>, Errno> {
    if files.present(ino, at, write)?.is_none() {
        files.make_piece(ino, write, 0)?;
    }
    files.piece(ino, at)
}

impl World {
    fn new(limit: u64) -> World {
        let free = Rc::new(Cell::new(PLENTY));
        let objects = Objects::new(free.clone());
        let numbers = Numbers::new(objects.clone());
        let memory = Bytes { free: free.clone(), archive: archive(), objects };
        let attr = Attr { mode: 0o755, cred: Cred::ROOT, now: NOW };
        let mut files = Files::new(Limits::of(100), attr.clone(), memory);
        let root = files.names().root();
        let kept = files.names_mut().mkdir(root, b"kept", attr.clone()).unwrap();
        let attributes =
            Attributes { mode: 0o755, uid: 0, gid: 0, atime: NOW, mtime: NOW, ctime: NOW };
        files.names_mut().adopt_root(kept, Kept(NonZeroU32::MAX), attributes).unwrap();
        files.names_mut().mount(Box::new(numbers));
        let places = [(PAGE, PAGE + 100), (3 * PAGE, 10)];
        let inos = [
            files.create(root, b"new", attr.clone()).unwrap(),
            files.create_archived(root, b"boot", places[0], attr.clone()).unwrap(),
            files.create_archived(root, b"tiny", places[1], attr.clone()).unwrap(),
            files.create(kept, b"stored", attr).unwrap(),
        ];
        let part = |(at, len): (u64, u64)| archive()[at as usize..(at + len) as usize].to_vec();
        let model = [Vec::new(), part(places[0]), part(places[1]), Vec::new()];
        World { files, inos, model, free, limit, kept, shown: [None; FILES] }
    }

    fn writer(&self) -> Writer {
        Writer { cred: Cred::ROOT, limit: self.limit, now: NOW }
    }

    /// The byte of a file as a mapping for reading shows it.
    fn byte(&mut self, file: usize, offset: u64) -> Result<u8, Errno> {
        let piece = piece(&mut self.files, self.inos[file], offset, false)?;
        assert_eq!(piece.size, self.model[file].len() as u64);
        assert!(piece.start <= offset && offset < piece.start + piece.bytes);
        let inside = (offset - piece.start) as usize;
        Ok(match piece.backing {
            Backing::Frame(frame) => frame.bytes.borrow()[inside],
            Backing::Object(object) => object.borrow().byte(offset),
        })
    }

    /// Every byte up to the end of the last page is as the model has it, and zero behind the end.
    fn check(&mut self, file: usize) -> Result<(), Errno> {
        let size = self.model[file].len() as u64;
        for at in (0..size.next_multiple_of(PAGE)).step_by(61) {
            let wanted = self.model[file].get(at as usize).copied().unwrap_or(0);
            assert_eq!(self.byte(file, at)?, wanted, "byte {at:#x} of file {file}");
        }
        Ok(())
    }

    /// The contents of a file as they are copied out of it: data, and zeros in between.
    fn copied(&mut self, file: usize) -> Vec<u8> {
        let mut all = vec![0; self.model[file].len()];
        let mut at = 0;
        while let Some((from, to)) = self.files.next_data(self.inos[file], at).unwrap() {
            assert!(at <= from && from < to && to <= all.len() as u64);
            let part = &mut all[from as usize..to as usize];
            self.files.load(self.inos[file], from, part).unwrap();
            at = to;
        }
        all
    }

    fn write(&mut self, file: usize, offset: u64, bytes: u64, value: u8) {
        let before = self.model[file].len() as u64;
        let ino = self.inos[file];
        match self.files.begin_write(ino, offset, bytes, self.writer()) {
            Ok(part) => {
                assert!(part.offset == offset && part.bytes <= bytes);
                assert!(part.bytes > 0 || bytes == 0);
                self.files.store(ino, offset, &vec![value; part.bytes as usize]).unwrap();
                if part.bytes > 0 {
                    let end = (offset + part.bytes) as usize;
                    let new = end.max(before as usize);
                    self.model[file].resize(new, 0);
                    self.model[file][offset as usize..end].fill(value);
                }
                assert!(end_is(&part, bytes, self.limit) || self.free.get() < PAGE * 600);
            }
            Err(Refusal::Limit) => assert!(bytes > 0 && offset >= self.limit),
            Err(Refusal::Error(error)) => assert_eq!(error, Errno::ENOSPC),
        }
    }

    fn store_mapped(&mut self, file: usize, offset: u64, value: u8) {
        let size = self.model[file].len() as u64;
        match piece(&mut self.files, self.inos[file], offset, true) {
            Ok(piece) => {
                assert!(offset < size.next_multiple_of(PAGE));
                if offset < size {
                    match piece.backing {
                        Backing::Frame(_) => panic!("the archive is not written"),
                        // A store makes the page, or fails.
                        Backing::Object(object) => {
                            let page = offset & !(PAGE - 1);
                            if object.borrow_mut().populate(page, page + PAGE) == page {
                                return;
                            }
                            object.borrow_mut().write(offset, &[value]);
                        }
                    }
                    self.model[file][offset as usize] = value;
                }
            }
            Err(Errno::ENXIO) => assert!(offset >= size.next_multiple_of(PAGE)),
            Err(error) => assert_eq!(error, Errno::ENOSPC),
        }
    }

    fn resize(&mut self, file: usize, new: u64) {
        let size = self.model[file].len() as u64;
        match self.files.resize(self.inos[file], new, self.writer()) {
            Ok(()) => self.model[file].resize(new as usize, 0),
            Err(Refusal::Limit) => assert!(new > self.limit.max(size)),
            Err(Refusal::Error(error)) => assert_eq!(error, Errno::ENOSPC),
        }
    }

    fn allocate(&mut self, file: usize, how: Allocation, offset: u64, bytes: u64) {
        let (ino, writer, size) = (self.inos[file], self.writer(), self.model[file].len() as u64);
        let end = offset + bytes;
        let grows = matches!(how, Allocation::Extend | Allocation::Zero);
        match self.files.allocate_range(ino, how, (offset, bytes), writer) {
            Ok(()) => {
                if grows {
                    self.model[file].resize(size.max(end) as usize, 0);
                }
                if matches!(how, Allocation::Punch | Allocation::Zero) {
                    let part = offset.min(size) as usize..end.min(size) as usize;
                    self.model[file][part].fill(0);
                }
            }
            Err(Refusal::Limit) => assert!(grows && end > self.limit),
            Err(Refusal::Error(Errno::EOPNOTSUPP)) => {
                assert!(file == STORED && how == Allocation::Keep && end > size)
            }
            Err(Refusal::Error(error)) => {
                assert_eq!(error, Errno::ENOSPC);
                // What lies in the archive still, as there was no memory for a copy, is as it was.
                let part = offset.min(size) as usize..end.min(size) as usize;
                let is_zero = self.copied(file)[part.clone()].iter().all(|&byte| byte == 0);
                if how == Allocation::Zero && is_zero {
                    self.model[file][part].fill(0);
                }
            }
        }
    }

    fn step(&mut self, op: Op) {
        match op {
            Op::Allocate(file, how, offset, bytes) => self.allocate(file, how, offset, bytes),
            Op::Write(file, offset, bytes, value) => self.write(file, offset, bytes, value),
            Op::Map(file, offset, value) => self.store_mapped(file, offset, value),
            Op::Resize(file, new) => self.resize(file, new),
            Op::Look(file, offset) => {
                let there = offset < (self.model[file].len() as u64).next_multiple_of(PAGE);
                match self.byte(file, offset) {
                    Ok(byte) => {
                        let model = self.model[file].get(offset as usize).copied();
                        assert_eq!(byte, model.unwrap_or(0));
                    }
                    Err(Errno::ENXIO) => assert!(!there),
                    Err(error) => assert_eq!(error, Errno::ENOSPC),
                }
            }
            Op::Starve(pages) => {
                let taken: u64 = (0..FILES).map(|file| self.taken(file)).sum();
                self.free.set(match pages {
                    0..=20 => pages * PAGE,
                    _ => PLENTY - taken,
                });
            }
        }
        for (file, ino) in self.inos.into_iter().enumerate() {
            assert_eq!(self.files.names().get(ino).unwrap().size(), self.model[file].len() as u64);
        }
        self.look_at_shown();
    }

    /// Whoever was not told otherwise reads what it was shown as if it had asked again; and is shown everything.
    fn look_at_shown(&mut self) {
        while let Some(hidden) = self.files.names_mut().take_hidden() {
            let Hidden::Inode(ino, Shown::To(READER)) = hidden else {
                panic!("{hidden:?} was not shown")
            };
            let file = self.inos.iter().position(|other| *other == ino).expect("it was shown");
            assert!(self.shown[file].take().is_some(), "it is told once");
        }
        for file in 0..FILES {
            let ino = self.inos[file];
            if let Some(known) = self.shown[file] {
                let part = self.files.begin_read(ino, 0, u64::MAX, NOW + 1).unwrap();
                let now = (part.layout, part.bytes);
                assert_eq!(known, now, "file {file} has changed, and nobody was told");
            }
            let size = self.model[file].len() as u64;
            let part = self.files.begin_read(ino, 0, u64::MAX, NOW + 1).unwrap();
            assert_eq!(part.bytes, size);
            while let Some(hidden) = self.files.names_mut().take_hidden() {
                assert_eq!(hidden, Hidden::Inode(ino, Shown::To(READER)), "its access time");
            }
            self.files.names_mut().show(ino, READER);
            self.shown[file] = Some((part.layout, size));
        }
    }

    fn taken(&self, file: usize) -> u64 {
        let content = self.files.content(self.inos[file]).unwrap();
        let extents: u64 = content.extents().iter().map(|extent| extent.handle.taken).sum();
        let number = content.stored_number();
        let stored = number.map(|number| self.files.memory_ref().objects.open(number).unwrap());
        let object = stored.as_ref().or(content.object());
        extents + object.map_or(0, |object| object.borrow().taken())
    }
}

/// Returns `true` if a write came as far as it may.
fn end_is(part: &unixproto::ops::Part, wanted: u64, limit: u64) -> bool {
    let most = wanted.min(GRANT_MAX).min(limit - part.offset.min(limit));
    part.bytes == most
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn contents_are_as_in_the_model(
        ops in prop::collection::vec(op(), 1..60),
        limit in prop_oneof![Just(u64::MAX), 0..10 * PAGE],
    ) {
        let mut world = World::new(limit);
        for op in ops {
            world.step(op);
        }
        // With memory enough everything can be looked at.
        world.free.set(PLENTY - (0..FILES).map(|file| world.taken(file)).sum::<u64>());
        for file in 0..FILES {
            world.check(file).unwrap();
            prop_assert_eq!(world.copied(file), world.model[file].clone());
        }
        // What is gone has given everything back.
        let root = world.files.names().root();
        for name in [&b"new"[..], b"boot", b"tiny"] {
            world.files.names_mut().unlink(root, name, &Cred::ROOT, NOW).unwrap();
        }
        world.files.names_mut().unlink(world.kept, b"stored", &Cred::ROOT, NOW).unwrap();
        prop_assert_eq!(world.free.get(), PLENTY);
    }
}

#[test]
fn a_change_of_what_is_mapped_changes_the_layout() {
    let mut world = World::new(u64::MAX);
    let layout = |world: &mut World, file: usize| {
        piece(&mut world.files, world.inos[file], 0, false).unwrap().layout
    };
    world.write(0, 0, PAGE, 7);
    let page = layout(&mut world, 0);
    world.write(0, PAGE, 2 * PAGE, 7);
    let first = layout(&mut world, 0);
    assert_ne!(page, first, "a page was replaced by a larger object");
    world.resize(0, PAGE);
    world.write(0, 3 * PAGE, 4 * PAGE, 7);
    assert_eq!(layout(&mut world, 0), first, "it is the same object");
    let archived = layout(&mut world, 1);
    world.write(1, 0, 1, 7);
    assert_ne!(layout(&mut world, 1), archived);
}

#[test]
fn a_file_of_the_archive_is_taken_away_from_everybody_when_it_changes() {
    let mut world = World::new(u64::MAX);
    piece(&mut world.files, world.inos[1], 0, false).unwrap();
    let extents =
        |world: &World| world.files.content(world.inos[1]).unwrap().extents().iter().count();
    assert_eq!(extents(&world), 2);
    world.files.memory().free.set(0);
    world.write(1, 0, 1, 7);
    assert_eq!(extents(&world), 2, "there was no memory for a copy");
    world.free.set(PLENTY - world.taken(1));
    world.resize(1, PAGE + 7);
    assert_eq!(extents(&world), 0);
    world.check(1).unwrap();
}

#[test]
fn what_would_show_too_much_is_taken_back_before_the_file_grows() {
    let mut world = World::new(u64::MAX);
    let ino = world.inos[0];
    world.write(0, 0, 9 * PAGE - 5, 7);
    let revoked = |world: &World| {
        let object = world.files.content(ino).unwrap().object().unwrap().borrow();
        object.revoked.iter().map(|size| size.div_ceil(PAGE)).collect::<Vec<_>>()
    };
    let layout = |world: &mut World| piece(&mut world.files, ino, 0, false).unwrap().layout;
    let first = layout(&mut world);
    // Who shows less than there is shows it as it must be.
    world.files.show_until(ino, 8 * PAGE).unwrap();
    world.write(0, 0, 10 * PAGE, 7);
    assert_eq!((revoked(&world), layout(&mut world)), (vec![], first));
    // Up to where it may be seen it grows as ever; of several limits the least counts.
    world.files.show_until(ino, 20 * PAGE).unwrap();
    world.files.show_until(ino, 12 * PAGE).unwrap();
    world.files.show_until(ino, 15 * PAGE).unwrap();
    world.resize(0, 12 * PAGE);
    assert_eq!((revoked(&world), layout(&mut world)), (vec![], first));
    world.write(0, 12 * PAGE, 1, 7);
    assert_eq!(revoked(&world), [12]);
    assert_ne!(layout(&mut world), first);
    // Once.
    world.resize(0, 30 * PAGE);
    assert_eq!(revoked(&world), [12]);
    // What is cut off and comes again is not seen either.
    world.files.show_until(ino, 30 * PAGE).unwrap();
    world.resize(0, 3 * PAGE);
    world.write(0, 30 * PAGE, PAGE, 7);
    assert_eq!(revoked(&world), [12, 3]);
    world.check(0).unwrap();
}

#[test]
fn what_is_all_zeros_takes_no_memory() {
    let mut world = World::new(u64::MAX);
    let ino = world.inos[0];
    let allocated = |world: &World| world.files.allocated(ino).unwrap();
    world.resize(0, 100 * PAGE);
    assert!(world.files.content(ino).unwrap().object().is_none());
    assert_eq!((allocated(&world), world.copied(0)), (0, vec![0; 100 * PAGE as usize]));
    assert_eq!(world.files.next_data(ino, 0), Ok(None));
    world.write(0, 50 * PAGE + 1, 1, 7);
    assert_eq!(allocated(&world), PAGE);
    assert_eq!(world.files.next_data(ino, 0), Ok(Some((50 * PAGE, 51 * PAGE))));
    assert_eq!(world.files.next_data(ino, 50 * PAGE + 5), Ok(Some((50 * PAGE + 5, 51 * PAGE))));
    assert_eq!(world.files.next_data(ino, 51 * PAGE), Ok(None));
}

#[test]
fn an_unnamed_file_goes_with_its_last_holder() {
    let mut world = World::new(u64::MAX);
    let attr = Attr { mode: 0o600, cred: Cred::ROOT, now: NOW };
    let ino = world.files.create_unnamed(0, attr).unwrap();
    world.files.names_mut().hold(ino);
    world.files.begin_write(ino, 0, PAGE, world.writer()).unwrap();
    assert!(!world.files.release(ino), "somebody holds it");
    assert!(world.free.get() < PLENTY);
    assert!(world.files.release(ino));
    assert_eq!(world.free.get(), PLENTY);
}

#[test]
fn claims_are_counted() {
    let mut world = World::new(u64::MAX);
    let ino = world.inos[0];
    world.files.claim(ino, Claim::Writes);
    world.files.claim(ino, Claim::Writes);
    world.files.claim(ino, Claim::Executes);
    world.files.unclaim(ino, Claim::Writes);
    world.files.unclaim(ino, Claim::None);
    let content = world.files.content(ino).unwrap();
    assert_eq!((content.writers(), content.texts()), (1, 1));
}

#[test]
fn what_no_file_has_is_refused() {
    let mut world = World::new(u64::MAX);
    let (ino, writer) = (world.inos[0], world.writer());
    let at = |world: &mut World, offset| world.files.begin_write(ino, offset, 1, writer.clone());
    assert_eq!(at(&mut world, SIZE_MAX + 1), Err(Refusal::Error(Errno::EFBIG)));
    assert_eq!(at(&mut world, 1 << 63), Err(Refusal::Error(Errno::EINVAL)));
    let root = world.files.names().root();
    assert_eq!(world.files.resize(root, 0, writer), Err(Refusal::Error(Errno::EISDIR)));
    assert_eq!(world.files.begin_read(ino, 1 << 63, 1, NOW), Err(Errno::EINVAL));
}

#[test]
fn a_clone_has_what_the_other_had_and_nothing_in_common() {
    let mut world = World::new(8 * PAGE);
    let attr = Attr { mode: 0o644, cred: Cred::ROOT, now: NOW };
    let other = world.files.create(world.kept, b"other", attr).unwrap();
    let (stored, writer) = (world.inos[STORED], world.writer());
    let clone = |world: &mut World, from, to| world.files.clone_contents(from, to, writer.clone());
    // Of nothing.
    assert_eq!(clone(&mut world, stored, other), Ok(()));
    world.write(STORED, PAGE + 5, PAGE, 7);
    assert_eq!(clone(&mut world, stored, other), Ok(()));
    assert_eq!(clone(&mut world, stored, other), Ok(()));
    world.write(STORED, PAGE + 5, 10, 8);
    let mut bytes = [0; 2];
    world.files.load(other, PAGE + 4, &mut bytes).unwrap();
    assert_eq!(bytes, [0, 7]);
    assert_eq!(world.files.names().get(other).unwrap().size(), 2 * PAGE + 5);
    let wrong = |error: Errno| Err(Refusal::Error(error));
    assert_eq!(clone(&mut world, stored, stored), wrong(Errno::EINVAL));
    let plain = world.inos;
    assert_eq!(clone(&mut world, plain[0], other), wrong(Errno::EXDEV));
    assert_eq!(clone(&mut world, other, plain[0]), wrong(Errno::EXDEV));
    // Of a file of the archive, which is one no more.
    assert_eq!(clone(&mut world, plain[1], plain[0]), Ok(()));
    world.model[0] = world.model[1].clone();
    world.write(1, 5, 10, 9);
    world.check(0).unwrap();
    world.check(1).unwrap();
    assert_eq!(clone(&mut world, plain[0], plain[2]), Ok(()));
    world.model[2] = world.model[0].clone();
    world.check(2).unwrap();
    let small = Writer { limit: PAGE, ..writer.clone() };
    world.files.resize(other, 0, writer).unwrap();
    assert_eq!(world.files.clone_contents(stored, other, small), Err(Refusal::Limit));
    world.files.names_mut().unlink(world.kept, b"other", &Cred::ROOT, NOW).unwrap();
    world.files.names_mut().unlink(world.kept, b"stored", &Cred::ROOT, NOW).unwrap();
    let root = world.files.names().root();
    for name in [&b"new"[..], b"boot", b"tiny"] {
        world.files.names_mut().unlink(root, name, &Cred::ROOT, NOW).unwrap();
    }
    assert_eq!(world.free.get(), PLENTY);
}

#[test]
fn an_atomic_file_is_committed_when_it_is_synchronised() {
    let mut world = World::new(u64::MAX);
    let (stored, plain) = (world.inos[STORED], world.inos[0]);
    assert_eq!(world.files.make_atomic(plain, true), Err(Errno::EOPNOTSUPP));
    world.write(STORED, 0, PAGE, 7);
    let commits = |world: &World| {
        let number = world.files.content(stored).unwrap().stored_number().unwrap();
        world.files.memory_ref().objects.open(number).unwrap().borrow().committed
    };
    world.files.write_back(stored, 0, PAGE).unwrap();
    assert_eq!(commits(&world), 0);
    world.files.make_atomic(stored, true).unwrap();
    world.files.write_back(stored, 0, PAGE).unwrap();
    // Whatever part of it.
    world.files.write_back(stored, PAGE, PAGE).unwrap();
    assert_eq!(commits(&world), 3);
    world.files.make_atomic(stored, false).unwrap();
    world.files.write_back(stored, 0, PAGE).unwrap();
    assert_eq!(commits(&world), 3);
}
