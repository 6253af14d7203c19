//! Random invocations, with all invariants checked after each.
//!
//! `TESSERA_SEED=n` repeats a run; `TESSERA_STEPS=n` makes it longer.

use super::machine::*;
use captypes::place::CapAddr;
use captypes::{op, CapType, Label, Place};

/// The generator of Steele, Lea and Flood, *Fast Splittable Pseudorandom Number Generators*, 2014.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
    pub fn one_of(&mut self, items: &[u64]) -> u64 {
        items[self.below(items.len() as u64) as usize]
    }

    /// A place: mostly one that exists.
    pub fn place(&mut self) -> u64 {
        let l1 = self.one_of(&[0, 0, 0, 1, 2]) as u32;
        let addr = CapAddr::new(l1, self.below(48) as u32);
        let root = CapAddr(self.one_of(&[1, 1, 16, 17, 18]) as u32);
        match self.below(16) {
            0 => Place::l1(root, self.below(6) as u32).0,
            1 => Place::l1(CapAddr::NULL, 1 + self.below(5) as u32).0,
            2 => Place::within(root, addr).0,
            3 => self.next(),
            _ => Place::own(addr).0,
        }
    }
    fn count(&mut self) -> u64 {
        match self.below(12) {
            0 => self.next(),
            1 => self.below(600),
            _ => 1 + self.below(6),
        }
    }
    fn offset(&mut self) -> u64 {
        match self.below(12) {
            0 => self.next(),
            _ => self.below(256) * 4096,
        }
    }
    fn ty(&mut self) -> u64 {
        self.below(CapType::ALL.len() as u64 + 1)
    }
    fn bytes(&mut self, ty: u64) -> u64 {
        if self.below(10) == 0 {
            return self.offset();
        }
        match CapType::from_u8(ty as u8) {
            Some(CapType::L1CNode) => self.one_of(&[0x1000, 0x4000]),
            Some(CapType::L2CNode) => 16384,
            Some(CapType::Ram) => self.one_of(&[0x1000, 0x10000, 0x40000]),
            Some(CapType::Frame) => self.one_of(&[0x1000, 0x1000, 0x3000, 0x20_0000]),
            _ => 4096,
        }
    }
    fn entry(&mut self) -> u64 {
        match self.below(10) {
            0 => self.next(),
            1 => self.below(512),
            _ => self.below(12),
        }
    }
    fn flags(&mut self) -> u64 {
        self.below(128)
    }

    /// A label with arguments that fit it more or less.
    pub fn invocation(&mut self) -> (Label, [u64; 9]) {
        let place = |r: &mut Self| r.place();
        match self.below(25) {
            21 => match self.below(4) {
                0 => (Label::Resize, [place(self), 0, 0, 0, 0, 0, 0, 0, 0]),
                1 => (Label::Compare, [place(self), 0, 0, 0, 0, 0, 0, 0, 0]),
                2 => (Label::NewId, [place(self), 0, 0, 0, 0, 0, 0, 0, 0]),
                _ => (Label::CollectCycles, [0; 9]),
            },
            23 => {
                let (offset, bytes) = (self.one_of(&[0, 1, 100, 4096]), 1 + self.below(9000));
                let (count, rights) = (1 + self.below(2), 1 | self.below(4));
                let (lower, copies) = (self.below(2), self.below(2) * self.place());
                (Label::Lend, [count, offset, bytes, rights, lower, place(self), copies, 0, 0])
            }
            24 => {
                let (offset, va, bytes) = (self.below(9000), self.below(1 << 23), self.below(9000));
                match self.below(4) {
                    0 => (Label::CopyOut, [offset, va, bytes, 0, 0, 0, 0, 0, 0]),
                    1 => (Label::CopyIn, [offset, va, bytes, 0, 0, 0, 0, 0, 0]),
                    _ => (Label::Recall, [self.count(), 0, 0, 0, 0, 0, 0, 0, 0]),
                }
            }
            22 => {
                let mut args = [0; 9];
                args[0] = place(self);
                let mut first = self.below(200);
                for word in args[1..].iter_mut().take(self.below(5) as usize) {
                    let ty = self.ty();
                    let units = self.bytes(ty) >> 12;
                    let count = 1 + self.below(3);
                    *word = first | (units & 0xf_ffff) << 26 | count << 46 | ty << 58;
                    first += units * count + self.below(4);
                }
                (Label::RetypeMany, args)
            }
            0 => (Label::Copy, [place(self), 0, 0, 0, 0, 0, 0, 0, 0]),
            1 => (Label::Mint, [place(self), self.below(32), self.below(3), 0, 0, 0, 0, 0, 0]),
            2 => (Label::Move, [place(self), 0, 0, 0, 0, 0, 0, 0, 0]),
            3..=7 => {
                let ty = self.ty();
                let (offset, bytes, count) = (self.offset(), self.bytes(ty), self.count());
                (Label::Retype, [ty, offset, bytes, count, place(self), 0, 0, 0, 0])
            }
            8 => (Label::Delete, [0; 9]),
            9 => (Label::DeleteRange, [self.count(), 0, 0, 0, 0, 0, 0, 0, 0]),
            10 => (Label::CopyRange, [place(self), self.count(), self.ty(), 0, 0, 0, 0, 0, 0]),
            11 => {
                (Label::RetypeCopy, [self.offset(), place(self), 0, place(self), 4096, 0, 0, 0, 0])
            }
            12 | 13 => {
                let offset = if self.below(3) == 0 { self.offset() } else { 0 };
                let (entry, count, flags) = (self.entry(), self.count(), self.flags());
                (Label::Map, [entry, count, place(self), offset, flags, place(self), 0, 0, 0])
            }
            14 => {
                let (entry, count, flags) = (self.entry(), self.count(), self.flags());
                (Label::MapMany, [entry, count, place(self), flags, place(self), 0, 0, 0, 0])
            }
            15 => {
                let (first, count, flags) = (self.below(4), self.count(), self.flags());
                (Label::Protect, [first, count, flags, 0, 0, 0, 0, 0, 0])
            }
            16 => (Label::ProtectMany, [self.count(), self.flags(), 0, 0, 0, 0, 0, 0, 0]),
            17 if self.below(2) == 0 => {
                (Label::Replace, [place(self), self.flags(), 0, 0, 0, 0, 0, 0, 0])
            }
            17 => (
                Label::Unmap,
                [self.below(4), self.count(), place(self), self.flags(), 0, 0, 0, 0, 0],
            ),
            18 => {
                let args = [0; 6].map(|_| self.place());
                let [a, b, c, d, e, _] = args;
                (Label::Configure, [a, b, c, d & 0xffff, e, self.below(4), 0, 0, 0])
            }
            19 if self.below(2) == 0 => {
                (Label::ClearStatus, [self.entry(), self.count(), self.below(4), 0, 0, 0, 0, 0, 0])
            }
            19 => (Label::Locate, [place(self), self.below(3), 0, 0, 0, 0, 0, 0, 0]),
            _ => (Label::Identify, [0; 9]),
        }
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Runs a random test with eight seeds, or the one that is asked for, and so many steps unless
/// others are.
pub fn each_seed(steps: u64, mut run: impl FnMut(u64, u64)) {
    let steps = number("TESSERA_STEPS").unwrap_or(steps);
    let seeds = match number("TESSERA_SEED") {
        Some(seed) => seed..seed + 1,
        None => 1..9,
    };
    for seed in seeds {
        std::println!("TESSERA_SEED={seed} TESSERA_STEPS={steps}");
        run(seed, steps);
    }
}

/// As a memory server does: what came back is known before it is given away again.
pub fn collect(m: &mut Machine) {
    while m.call(KERNEL, op::CollectReclaimed {}).unwrap().bytes2 != 0 {}
}

/// Frames of which slices are made, and where those go.
const SLICED: [u64; 2] = [60, 61];
const SLICES: u64 = 62;
/// Pages of each.
const SLICED_PAGES: u64 = 16;

/// A part of one of a few Frames, or of such a part: parts inside of others, and parts that would overlap.
fn slice(random: &mut Random) -> (Label, u64, [u64; 9]) {
    let any = |random: &mut Random| Place::own(CapAddr((SLICES + random.below(12)) as u32)).0;
    let whole = Place::own(CapAddr(random.one_of(&SLICED) as u32)).0;
    let source = if random.below(3) == 0 { any(random) } else { whole };
    match random.below(4) {
        0 => (Label::Delete, any(random), [0; 9]),
        _ => {
            let offset = random.below(SLICED_PAGES) * 4096;
            let bytes = (1 + random.below(6)) * 4096;
            let args = [CapType::Frame as u64, offset, bytes, 1, any(random), 0, 0, 0, 0];
            (Label::Retype, source, args)
        }
    }
}

/// Objects that random numbers alone would need long to make.
fn furnish(m: &mut Machine) {
    for (n, slot) in (0..).zip(SLICED) {
        let bytes = SLICED_PAGES * 4096;
        m.make(CapType::Frame, 0xc0_0000 + n * bytes, bytes, slot as u32);
    }
    let node = |m: &mut Machine, n: u32| {
        m.make(CapType::L2CNode, 0x80_0000 + u64::from(n) * 16384, 16384, 40);
        m.call(CapAddr(40), op::Move { dst: Place::l1(ROOT, n) }).unwrap();
    };
    node(m, 1);
    node(m, 2);
    let tables = [CapType::Pt, CapType::Pt, CapType::Pd, CapType::Pdpt];
    for (n, ty) in tables.into_iter().enumerate() {
        m.make(ty, 0x90_0000 + n as u64 * 4096, 4096, 20 + n as u32);
    }
    m.make(CapType::L1CNode, 0xa0_0000, 16384, 16);
    m.make(CapType::Dispatcher, 0xb0_0000, 4096, 28);
    m.make(CapType::Endpoint, 0xb0_1000, 4096, 29);
}

/// The domain's own capabilities must stay, or there is nobody left to go on.
pub fn spares(label: Label, place: u64) -> bool {
    let harmless =
        !matches!(label, Label::Delete | Label::DeleteRange | Label::Revoke | Label::Move);
    let place = Place(place);
    let low = place.addr().l1() == 0 && place.addr().l2() < 10;
    harmless || !(low || place.level() == captypes::Level::L1 && place.addr().0 == 0)
}

fn run(seed: u64, steps: u64) {
    let mut random = Random(seed);
    let mut m = Machine::new();
    furnish(&mut m);
    // Some runs are interrupted all the time.
    m.core.local.caps.budget.set([u32::MAX, 512, 8, 40][seed as usize % 4]);
    let mut done = [0u64; 256];
    for step in 0..steps {
        if step % 2000 == 1999 {
            // By now every slot is full of something that nothing can be done with.
            m.revoke(RAM).unwrap();
            let _ = m.call(CapAddr(16), op::DeleteRange { count: 200 });
            collect(&mut m);
            furnish(&mut m);
        }
        let (label, mut target, args) = match random.below(12) {
            0 => slice(&mut random),
            _ => {
                let target = random.place();
                let (label, args) = random.invocation();
                (label, target, args)
            }
        };
        if label == Label::CollectCycles {
            target = Place::own(KERNEL).0;
        }
        if !spares(label, target) {
            continue;
        }
        m.raw_words(label as u64, target, args);
        let status = m.dcb.ctx.rax.get();
        collect(&mut m);
        m.dcb.ctx.rax.set(status);
        if m.dcb.ctx.rax.get() == 0 {
            done[label as usize] += 1;
        }
        assert_eq!(m.current(), Some(m.dcb), "seed {seed} step {step}: the domain is gone");
    }
    let all: u64 = done.iter().sum();
    std::println!("{all} of {steps} succeeded");
    assert!(all * 20 > steps, "only {all} of {steps} succeeded");
    m.revoke(RAM).unwrap();
    let left: Vec<_> = m.core.local.caps.db.iter(crate::cap::MEMORY).map(|s| s.cap()).collect();
    let ram = left.iter().filter(|c| c.base >= FREE && c.base < FIRST + BYTES);
    assert_eq!(ram.count(), 1, "seed {seed}: only the home is left");
}

#[test]
fn random_operations_keep_the_invariants() {
    each_seed(4000, run);
}
