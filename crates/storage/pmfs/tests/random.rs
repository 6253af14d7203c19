//! Random operations beside the naive model, with power failures between them: in a large area, and in one that is nearly full.

mod common;

use common::model::{compare, Model};
use common::{formatted, New, Op, Ref, World};
use pmfs::{Error, Ino};
use powerfail::Image;
use std::collections::BTreeSet;

const OPERATIONS: usize = 120_000;
/// About as many inodes there are at most.
const INODES: usize = 60;

struct Choice<'a> {
    random: &'a mut fastrand::Rng,
    model: &'a Model,
    names: u8,
}

impl Choice<'_> {
    /// One that is there, so often of 16; of others, those that no file can have are rare.
    fn name(&mut self, path: &[u8], often: u8) -> u8 {
        let there = self.model.names(path);
        match self.random.u8(..16) {
            n if n < often && !there.is_empty() => there[self.random.usize(..there.len())],
            15 if self.random.bool() => self.random.u8(250..),
            _ => self.random.u8(..self.names),
        }
    }
    fn path(&mut self) -> Vec<u8> {
        let mut path = Vec::new();
        while path.len() < 6 && self.random.u8(..4) > 0 {
            let names = self.model.names(&path);
            match names.len() {
                0 => break,
                count => path.push(names[self.random.usize(..count)]),
            }
        }
        path
    }
    fn file(&mut self) -> Ref {
        match self.random.u8(..8) {
            0 => Ref::Handle(self.random.u8(..4)),
            _ => Ref::Path(self.path()),
        }
    }
    fn dir(&mut self) -> (Ref, Vec<u8>) {
        if self.random.u8(..20) == 0 {
            return (self.file(), Vec::new());
        }
        let mut path = self.path();
        while !self.model.is_dir(&path) && self.random.u8(..20) > 0 {
            path.pop();
        }
        (Ref::Path(path.clone()), path)
    }
    fn place(&mut self, often: u8) -> (Ref, u8) {
        let (dir, path) = self.dir();
        (dir, self.name(&path, often))
    }
    fn what(&mut self) -> New {
        let number = self.random.u64(..);
        match self.random.u8(..16) {
            0..=3 => New::File(self.random.u32(..40)),
            4 => New::Empty,
            5..=9 => New::Dir,
            10..=11 => New::Symlink(self.length(&[0, 1, 55, 56, 57, 4095, 4096]), 3),
            12 => New::Char(number),
            13 => New::Block(number),
            14 => New::Fifo,
            _ => New::Socket,
        }
    }
    fn length(&mut self, some: &[usize]) -> usize {
        match self.random.u8(..8) {
            0 => some[self.random.usize(..some.len())],
            _ => self.random.usize(..200),
        }
    }

    fn operation(&mut self) -> Op {
        let attr = self.random.u8(..);
        // Many inodes are for the model to look through: then more of them are removed.
        let kind = match self.model.inodes() > INODES && self.random.u8(..8) > 0 {
            true => self.random.u8(13..29),
            false => self.random.u8(..42),
        };
        match kind {
            0..=8 => {
                let ((dir, name), new) = (self.place(2), self.what());
                Op::Create { dir, name, new, attr }
            }
            9 => Op::Unnamed { handle: self.random.u8(..4), new: self.what(), attr },
            10..=12 => {
                let (file, (dir, name)) = (self.file(), self.place(2));
                Op::Link { file, dir, name }
            }
            13..=16 => {
                let (dir, name) = self.place(14);
                Op::Unlink { dir, name }
            }
            17..=19 => {
                let (dir, name) = self.place(14);
                Op::Rmdir { dir, name }
            }
            20..=27 => {
                let (from, to) = (self.place(14), self.place(7));
                Op::Rename { from, to, how: self.random.u8(..3) }
            }
            28 if self.random.bool() => {
                let (dir, name) = self.place(14);
                Op::RemoveTree { dir, name }
            }
            28..=29 => Op::SetAttr { file: self.file(), attr },
            30..=32 => {
                let (file, name) = (self.file(), self.random.u8(..) & 0x8f);
                let length = self.length(&[0, 46, 47, 102, 103, 4096, 5000, 65536, 65537]);
                Op::SetXattr { file, name, length, seed: attr, how: self.random.u8(..3) }
            }
            33 => Op::RemoveXattr { file: self.file(), name: self.random.u8(..) & 0x8f },
            34..=35 => {
                let content = (self.random.u8(..4) > 0).then(|| self.random.u32(..40));
                Op::SetContent { file: self.file(), content }
            }
            36 => Op::Exchange { one: self.file(), other: self.file() },
            40 => {
                let (of, to) = (self.dir().0, self.place(2));
                Op::Snapshot { of, to, copies: self.random.usize(..40) }
            }
            37..=38 => Op::Hold { file: self.file(), handle: self.random.u8(..4) },
            _ => Op::Release { handle: self.random.u8(..4) },
        }
    }
}

/// What one may find after a power failure now.
fn after_failure(world: &World, random: &mut fastrand::Rng) -> Image {
    let mut recorder = world.memory.0.borrow_mut();
    recorder.watch();
    recorder.point();
    let point = recorder.take_points().remove(0);
    let (mut found, mut count) = (None, 0);
    let mut choice = random.fork();
    point.images(8, random, |image| {
        count += 1;
        if choice.usize(..count) == 0 {
            found = Some(image);
        }
    });
    found.expect("one at least")
}

fn run(seed: u64, pages: usize, names: u8, operations: usize) {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut model = Model::new(pages);
    let mut world = World::mount(formatted(pages), None, false).expect("formatted");
    // Each inode ever made, by number and generation.
    let mut known = BTreeSet::from([(world.fs.root(), 0)]);
    let (mut full, mut done, mut mounts, mut most) = (0, 0, 0, 0);
    for n in 0..operations {
        let op = Choice { random: &mut random, model: &model, names }.operation();
        let context = || format!("seed {seed:#x}, operation {n}: {op:?}");
        let inodes = model.inodes();
        let expected = op.model(&mut model, n as i64);
        let found = op.run(&mut world, n as i64);
        assert_eq!(found, expected, "{}", context());
        full += (found == Err(Error::NoSpace)) as usize;
        done += found.is_ok() as usize;
        most = most.max(model.inodes());
        if let (Op::Create { dir, name, .. }, true) = (&op, model.inodes() > inodes) {
            let dir = world.resolve(dir).expect("there");
            let ino: Ino =
                world.fs.lookup(dir, &common::name(*name)).expect("there").expect("there");
            let generation = world.fs.stat(ino).expect("there").generation;
            assert!(known.insert((ino, generation)), "{}: {ino:?} comes again", context());
        }
        if n % 101 == 0 {
            compare(&world, &model).unwrap_or_else(|wrong| panic!("{}: {wrong}", context()));
        }
        if n % 311 == 0 {
            world = World::mount(after_failure(&world, &mut random), None, false)
                .unwrap_or_else(|wrong| panic!("{}: {wrong:?}", context()));
            model = model.settled();
            mounts += 1;
            compare(&world, &model).unwrap_or_else(|wrong| panic!("{}: {wrong}", context()));
        }
    }
    println!(
        "seed {seed:#x}: {operations} operations, {done} succeeded, {full} without space, \
         {mounts} mounts, up to {most} inodes"
    );
    assert!(done > operations / 6);
}

#[test]
fn random_operations_are_those_of_the_model() {
    run(0x7e55_e7a5_0000_0300, 512, 40, OPERATIONS);
}

#[test]
fn random_operations_in_an_area_that_is_nearly_full() {
    for seed in 0..6 {
        run(0x7e55_e7a5_0000_0301 + seed, 3, 24, OPERATIONS / 6);
    }
}
