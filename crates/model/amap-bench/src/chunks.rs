//! A sparse table of chunks of 256 slots, with a bit for each slot, and of few anons a list in order in place of an array.
//!
//! So the amap of a Linux process is laid out, in `crates/user/uvm`: there the array is a CNode and an anon is a capability to a Frame,
//! so that a fork shares the arrays, too, which here it copies.

use crate::{Anon, Layout, Occupied};
use tables::Sparse;

/// Slots of a chunk.
const EACH: u32 = 256;
/// Most anons in a list, as there.
const FEW: usize = 12;

#[derive(Clone)]
enum Chunk {
    Few(Vec<(u8, Anon)>),
    Many(Box<Many>),
}

#[derive(Clone)]
struct Many {
    filled: [u64; 4],
    anons: [Option<Anon>; EACH as usize],
}

impl Chunk {
    fn lookup(&self, at: u8) -> Option<Anon> {
        match self {
            Chunk::Few(list) => {
                list.binary_search_by_key(&at, |(own, _)| *own).ok().map(|place| list[place].1)
            }
            Chunk::Many(many) => many.anons[usize::from(at)],
        }
    }

    fn add(&mut self, at: u8, anon: Anon) -> Result<(), Occupied> {
        if let Chunk::Few(list) = self {
            match list.binary_search_by_key(&at, |(own, _)| *own) {
                Ok(_) => return Err(Occupied),
                Err(place) if list.len() < FEW => {
                    list.insert(place, (at, anon));
                    return Ok(());
                }
                Err(_) => *self = Chunk::Many(Box::new(Many::of(list))),
            }
        }
        match self {
            Chunk::Many(many) => many.add(at, anon),
            Chunk::Few(_) => Ok(()),
        }
    }

    fn unadd(&mut self, at: u8) -> Option<Anon> {
        match self {
            Chunk::Few(list) => {
                let place = list.binary_search_by_key(&at, |(own, _)| *own).ok()?;
                Some(list.remove(place).1)
            }
            Chunk::Many(many) => {
                let anon = many.anons[usize::from(at)].take()?;
                many.filled[usize::from(at / 64)] &= !(1 << (at % 64));
                Some(anon)
            }
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            Chunk::Few(list) => list.is_empty(),
            Chunk::Many(many) => many.filled == [0; 4],
        }
    }

    fn each(&self, mut visit: impl FnMut(u8, Anon)) {
        match self {
            Chunk::Few(list) => list.iter().for_each(|&(at, anon)| visit(at, anon)),
            Chunk::Many(many) => {
                for (word, base) in many.filled.iter().zip((0..).step_by(64)) {
                    let mut left = *word;
                    while left != 0 {
                        let at = base + left.trailing_zeros() as u8;
                        left &= left - 1;
                        if let Some(anon) = many.anons[usize::from(at)] {
                            visit(at, anon);
                        }
                    }
                }
            }
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Chunk::Few(list) => list.capacity() * size_of::<(u8, Anon)>(),
            Chunk::Many(_) => size_of::<Many>(),
        }
    }
}

impl Many {
    fn of(list: &[(u8, Anon)]) -> Many {
        let mut many = Many { filled: [0; 4], anons: [None; EACH as usize] };
        for &(at, anon) in list {
            let added = many.add(at, anon);
            debug_assert_eq!(added, Ok(()), "each slot is in the list once");
        }
        many
    }

    fn add(&mut self, at: u8, anon: Anon) -> Result<(), Occupied> {
        let place = &mut self.anons[usize::from(at)];
        if place.is_some() {
            return Err(Occupied);
        }
        *place = Some(anon);
        self.filled[usize::from(at / 64)] |= 1 << (at % 64);
        Ok(())
    }
}

/// As large as what is touched, by chunks.
#[derive(Clone)]
pub struct Chunks {
    slots: u32,
    chunks: Sparse<Chunk, 16>,
}

/// The number of a chunk, and the slot in it.
fn split(slot: u32) -> (u64, u8) {
    (u64::from(slot / EACH), (slot % EACH) as u8)
}

impl Layout for Chunks {
    const NAME: &'static str = "chunks";

    fn new(slots: u32) -> Chunks {
        Chunks { slots, chunks: Sparse::new() }
    }
    fn slots(&self) -> u32 {
        self.slots
    }
    fn extend(&mut self, by: u32) {
        self.slots += by;
    }
    fn add(&mut self, slot: u32, anon: Anon) -> Result<(), Occupied> {
        assert!(slot < self.slots);
        let (key, at) = split(slot);
        if let Some(chunk) = self.chunks.get_mut(key) {
            return chunk.add(at, anon);
        }
        let chunk = Chunk::Few(vec![(at, anon)]);
        self.chunks.insert(key, chunk).expect("a host has memory for a table");
        Ok(())
    }
    fn unadd(&mut self, slot: u32) -> Option<Anon> {
        assert!(slot < self.slots);
        let (key, at) = split(slot);
        let chunk = self.chunks.get_mut(key)?;
        let anon = chunk.unadd(at)?;
        if chunk.is_empty() {
            self.chunks.remove(key);
        }
        Some(anon)
    }
    fn lookup(&self, slot: u32) -> Option<Anon> {
        assert!(slot < self.slots);
        let (key, at) = split(slot);
        self.chunks.get(key)?.lookup(at)
    }
    fn each(&self, mut visit: impl FnMut(u32, Anon)) {
        for (key, chunk) in self.chunks.iter() {
            chunk.each(|at, anon| visit(key as u32 * EACH + u32::from(at), anon));
        }
    }
    fn bytes(&self) -> usize {
        self.chunks.iter().map(|(_, chunk)| size_of::<(u64, Chunk)>() + chunk.bytes()).sum()
    }
}
