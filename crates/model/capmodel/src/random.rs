//! Random operations.
//!
//! Blind ones would nearly all fail, so arguments are mostly chosen from what the model says is there:
//! sources of a fitting type, ranges that nothing was made of yet, empty slots. One in eight operations
//! then gets an argument that makes no sense. Everything is a function of the seed and of the model's
//! state, which is a function of the operations before: the seed repeats the sequence.

use crate::view::{Named, View, NODES};
use crate::{Cap, Model, PAGE};
use captypes::invocations::{ArgWords, Part};
use captypes::place::L2_BYTES;
use captypes::{CapAddr, CapType, Label, Place, Rights};
use lockstep::{slot, EXECUTORS};

/// One invocation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Operation {
    /// Its number; of the table, or of nothing.
    pub label: u16,
    /// The invoked capability.
    pub target: Place,
    /// Arguments as they cross.
    pub args: ArgWords,
}

impl Operation {
    /// An operation with some arguments.
    pub fn new(label: Label, target: Place, args: &[u64]) -> Operation {
        let mut all = [0; 9];
        all[..args.len()].copy_from_slice(args);
        Operation { label: label as u16, target, args: all }
    }
    /// Its name.
    pub fn name(&self) -> String {
        Label::from_u16(self.label).map_or(format!("{}", self.label), |label| format!("{label:?}"))
    }
}

/// A generator whose whole state is its seed (xorshift*).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// From a seed.
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }
    /// Any number.
    pub fn word(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
    /// A number below `limit`, which is not zero.
    pub fn below(&mut self, limit: u64) -> u64 {
        (self.word() >> 11) % limit
    }
    /// True once in `n` times.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
    /// One of them.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> Option<T> {
        (!from.is_empty()).then(|| from[self.below(from.len() as u64) as usize])
    }
}

/// Which operations are frequent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Profile {
    /// Capabilities, CNodes, objects.
    Caps,
    /// Page tables and what is mapped in them.
    Memory,
}

/// How often each operation is tried, with either profile.
const WEIGHTS: &[(Label, u32, u32)] = &[
    (Label::Copy, 90, 40),
    (Label::Mint, 60, 30),
    (Label::Move, 70, 20),
    (Label::Retype, 230, 130),
    (Label::RetypeCopy, 40, 40),
    (Label::Delete, 110, 60),
    (Label::Revoke, 25, 10),
    (Label::Identify, 10, 5),
    (Label::CopyRange, 40, 15),
    (Label::DeleteRange, 12, 5),
    (Label::Map, 90, 230),
    (Label::MapMany, 25, 60),
    (Label::Protect, 25, 110),
    (Label::ProtectMany, 10, 50),
    (Label::Unmap, 25, 80),
    (Label::Replace, 15, 60),
    (Label::ReadEntry, 15, 40),
    (Label::ClearStatus, 5, 40),
    (Label::MapZero, 3, 40),
    (Label::Configure, 30, 5),
    (Label::Notify, 10, 1),
    (Label::Poll, 10, 1),
    (Label::CollectReclaimed, 10, 3),
    (Label::RetypeMany, 40, 20),
    (Label::Lend, 35, 60),
    (Label::Recall, 12, 20),
    (Label::CopyOut, 10, 50),
    (Label::CopyIn, 5, 25),
    (Label::Resize, 25, 1),
    (Label::NewId, 8, 0),
    (Label::Compare, 20, 3),
    (Label::NoOp, 3, 1),
    (Label::Locate, 5, 30),
    (Label::CollectCycles, 3, 1),
    (Label::SetFlushPolicy, 2, 8),
    (Label::Listen, 5, 1),
    (Label::PerfInfo, 1, 0),
    (Label::PerfRead, 1, 0),
    (Label::PerfProgram, 1, 0),
    (Label::Start, 2, 0),
    (Label::Suspend, 2, 0),
    (Label::Continue, 2, 0),
    (Label::SetTimer, 3, 0),
    (Label::SetFsBase, 2, 0),
    (Label::SetBreakpoints, 2, 0),
    (Label::Usage, 2, 0),
    (Label::Yield, 1, 0),
    (Label::Wait, 1, 0),
    (Label::Call, 1, 0),
    (Label::ReplyRecv, 1, 0),
    (Label::Reply, 1, 0),
    (Label::CopyFromCaller, 1, 0),
    (Label::CopyToCaller, 1, 0),
    (Label::CopyBetween, 1, 0),
    (Label::PortIn, 2, 0),
    (Label::PortOut, 2, 0),
    (Label::PortOutBytes, 1, 0),
    (Label::IrqAck, 2, 0),
    (Label::IrqMessage, 1, 0),
    (Label::ReadCounter, 2, 0),
];

/// Tried by accident only, as they do nothing that could be compared or must not succeed.
const ACCIDENTS: [Label; 5] =
    [Label::Shutdown, Label::Log, Label::NotifyReclaimed, Label::CheckInvariants, Label::IrqBind];

/// Does the model know what this operation does?
pub(crate) fn is_known(label: Label) -> bool {
    ACCIDENTS.contains(&label) || WEIGHTS.iter().any(|&(known, ..)| known == label)
}

/// Makes operations.
#[derive(Clone, Debug)]
pub struct Source {
    pub(crate) random: Random,
    profile: Profile,
}

/// Slots of each CNode that are used.
pub(crate) const SLOTS: u64 = 32;
/// Capabilities from which on more are deleted than made.
const CROWD: usize = 420;

/// Bit of a type to make: with `WRITE_ALONE`.
const BORN_ALONE: u64 = 1 << 8;

/// Flags of a map that a capability with these rights may be asked for.
fn mappable(rights: Rights) -> u64 {
    let write = if rights.has(Rights::WRITE_ALONE) { Rights::WRITE } else { Rights::NONE };
    u64::from(rights.or(write).0) & 7 | 1
}

/// Bytes at the beginning of RAM from which most objects are made.
const AGAIN: u64 = 1 << 20;

/// One operation in the making.
struct Draft<'a> {
    random: &'a mut Random,
    model: &'a Model,
    view: View,
    who: usize,
    profile: Profile,
}

impl Source {
    /// From a seed.
    pub fn new(seed: u64, profile: Profile) -> Source {
        Source { random: Random::new(seed), profile }
    }

    /// Who goes next.
    pub fn executor(&mut self) -> usize {
        self.random.below(EXECUTORS as u64) as usize
    }

    /// The next operation of executor `who`: one that does no harm to the executors, and whose outcome
    /// the rules determine.
    pub fn next(&mut self, model: &Model, who: usize) -> Operation {
        let view = View::of(model, who);
        let profile = self.profile;
        let mut draft = Draft { random: &mut self.random, model, view, who, profile };
        for _ in 0..50 {
            let Some(mut operation) = draft.operation() else { continue };
            if draft.random.one_in(8) {
                draft.spoil(&mut operation);
            }
            if model.permits(who, &operation) {
                return operation;
            }
        }
        Operation::new(Label::Identify, Place::own(CapAddr(slot::ROOT)), &[])
    }
}

impl Draft<'_> {
    fn label(&mut self) -> Label {
        if self.view.caps.len() > CROWD && self.random.one_in(2) {
            let ends = [Label::Delete, Label::Delete, Label::DeleteRange, Label::Revoke];
            return self.random.pick(&ends).unwrap_or(Label::Delete);
        }
        let weight = |&(_, caps, memory): &(Label, u32, u32)| match self.profile {
            Profile::Caps => u64::from(caps),
            Profile::Memory => u64::from(memory),
        };
        let mut at = self.random.below(WEIGHTS.iter().map(weight).sum());
        for entry in WEIGHTS {
            let own = weight(entry);
            if at < own {
                return entry.0;
            }
            at -= own;
        }
        Label::Identify
    }

    /// A capability that can be named and fulfils a condition.
    fn cap(&mut self, wanted: impl Fn(&Cap) -> bool) -> Option<Named> {
        let count = self.view.caps.iter().filter(|named| wanted(&named.cap)).count();
        if count == 0 {
            return None;
        }
        let n = self.random.below(count as u64) as usize;
        self.view.caps.iter().filter(|named| wanted(&named.cap)).nth(n).copied()
    }

    /// One of those that the executor lives on.
    fn given(&self, number: u32) -> Option<Named> {
        let key = (self.model.executors()[self.who].node, number);
        let cap = *self.model.cap(key)?;
        Some(Named { place: Place::own(CapAddr(number)), key, cap })
    }

    /// Mostly one of the random capabilities, sometimes one that the executor lives on.
    fn any(&mut self) -> Option<Named> {
        if self.random.one_in(16) {
            let number = self.random.pick(&slot::ALL)?;
            return self.given(number);
        }
        self.cap(|_| true)
    }

    /// The first of `count` slots that are empty, if such are found quickly.
    fn empty(&mut self, count: u64) -> Option<Place> {
        for _ in 0..6 {
            let Some(node) = self.random.pick(&self.view.nodes) else { break };
            let first = self.random.below(SLOTS.saturating_sub(count).max(1)) as u32;
            let mut slots = first..first + count as u32;
            if slots.all(|n| self.model.cap((node.base, n)).is_none()) {
                return Some(node.place(first));
            }
        }
        self.random.one_in(8).then(|| self.somewhere())
    }

    /// A place for an L2CNode in a root.
    fn empty_in_root(&mut self) -> Option<Place> {
        let root = self.random.pick(&self.view.roots)?;
        let index = NODES.start + self.random.below(u64::from(NODES.end - NODES.start)) as u32;
        self.model.cap((root.base, index)).is_none().then(|| Place::l1(root.cap, index))
    }

    /// Any slot that can be named.
    fn somewhere(&mut self) -> Place {
        let Some(node) = self.random.pick(&self.view.nodes) else {
            return Place::own(CapAddr::new(1, 1));
        };
        node.place(self.random.below(SLOTS) as u32)
    }

    /// Rights to map with: mostly some that the capability has.
    fn flags(&mut self, rights: Rights) -> u64 {
        let allowed = mappable(rights);
        let asked = 1 | self.random.below(8);
        let exclusive = if self.random.one_in(5) { 8 } else { 0 };
        let uncached = if self.random.one_in(24) { 16 } else { 0 };
        let flushing = if self.random.one_in(3) { 32 * self.random.below(4) } else { 0 };
        let asked = if self.random.one_in(10) { asked } else { asked & allowed };
        asked | exclusive | uncached | flushing
    }

    /// The next step in the life of a table that is shared, left by the others, and written through
    /// again by the entry above: too long a way for chance.
    fn shared_table(&mut self) -> Option<Operation> {
        let model = self.model;
        let writable = |cap: &Cap| {
            let mut entries = model.entries_of(cap.base);
            let alone = cap.ty == CapType::Pt && !cap.rights.has(Rights::WRITE);
            alone && entries.any(|(_, entry)| entry.alone && entry.write)
        };
        let table = self.cap(writable)?;
        if model.has_copies(table.key) {
            return Some(Operation::new(Label::Delete, table.place, &[]));
        }
        if !model.was_copied(&table.cap) {
            return Some(Operation::new(Label::Copy, table.place, &[self.empty(1)?.0]));
        }
        const ALL: u64 = 7;
        let mapped = |cap: &Cap| {
            cap.base == table.cap.base && cap.mapping.is_some_and(|mapping| mapping.is_table)
        };
        if let Some(mapping) = self.cap(mapped) {
            let flags = if self.random.one_in(2) { ALL } else { ALL & !2 };
            return Some(Operation::new(Label::Protect, mapping.place, &[0, 1, flags]));
        }
        let above = self.cap(|cap| cap.ty == CapType::Pd)?;
        let args = [self.entry(2), 1, table.place.0, 0, ALL, self.empty(1)?.0];
        Some(Operation::new(Label::Map, above.place, &args))
    }

    fn operation(&mut self) -> Option<Operation> {
        if self.profile == Profile::Memory && self.random.one_in(25) {
            if let Some(operation) = self.shared_table() {
                return Some(operation);
            }
        }
        let label = self.label();
        match label {
            Label::Retype => self.retype(),
            Label::RetypeCopy => self.retype_copy(),
            Label::Map => self.map(),
            Label::MapMany => self.map_many(),
            Label::Protect | Label::Unmap => self.part(label),
            Label::ProtectMany => {
                let first = self.cap(|cap| cap.mapping.is_some())?;
                let count = 1 + self.random.below(5);
                Some(Operation::new(label, first.place, &[count, self.random.below(16) | 1]))
            }
            Label::Replace => self.replace(),
            Label::ReadEntry => {
                let table = self.table()?;
                let entry = self.entry(table.cap.level()?);
                Some(Operation::new(label, table.place, &[entry]))
            }
            Label::ClearStatus => {
                let table = self.table()?;
                let (entry, count) = (self.entry(table.cap.level()?), 1 + self.random.below(30));
                let bits = 1 + self.random.below(3);
                Some(Operation::new(label, table.place, &[entry, count, bits]))
            }
            Label::MapZero => {
                let table = self.cap(|cap| cap.ty == CapType::Pt).or(self.table())?;
                let (entry, count) = (self.entry(1), 1 + self.random.below(12));
                let flags = if self.random.one_in(3) { 0 } else { 1 | (4 * self.random.below(2)) };
                Some(Operation::new(label, table.place, &[entry, count, flags]))
            }
            Label::Configure => self.configure(),
            Label::Lend => self.lend(),
            Label::Recall => {
                let loan = self.cap(|cap| cap.ty == CapType::Loan)?;
                Some(Operation::new(label, loan.place, &[1 + self.random.below(3)]))
            }
            Label::CopyOut | Label::CopyIn => self.transfer(label),
            Label::RetypeMany => self.retype_many(),
            Label::Resize => {
                let old = self.cap(|cap| cap.ty == CapType::L1CNode)?;
                let new = self.cap(|cap| cap.ty == CapType::L1CNode)?;
                Some(Operation::new(label, old.place, &[new.place.0]))
            }
            Label::Compare => {
                let one = self.any()?;
                let same = self.random.one_in(2);
                let other = self.cap(|cap| !same || cap.is_copy_of(&one.cap)).or(self.any())?;
                Some(Operation::new(label, one.place, &[other.place.0]))
            }
            Label::Locate => {
                let what = self.cap(|cap| cap.level().is_some() || cap.mapping.is_some())?;
                let root = self.table()?;
                Some(Operation::new(label, what.place, &[root.place.0, self.random.below(3)]))
            }
            _ => self.simple(label),
        }
    }

    fn simple(&mut self, label: Label) -> Option<Operation> {
        let target = match label {
            Label::Delete | Label::Revoke | Label::DeleteRange => self.cap(|_| true)?,
            Label::Notify if self.random.one_in(3) => self.cap(|c| c.ty == CapType::Dispatcher)?,
            Label::Notify | Label::Poll => self.cap(|c| c.ty == CapType::Endpoint)?,
            Label::CollectReclaimed
            | Label::ReadCounter
            | Label::CollectCycles
            | Label::SetFlushPolicy => self.given(slot::KERNEL)?,
            Label::NewId => self.cap(|c| c.ty == CapType::Id).or(self.given(slot::ID))?,
            Label::PerfInfo | Label::PerfRead | Label::PerfProgram => {
                self.cap(|c| c.ty == CapType::PerfMon).or(self.given(slot::PERFMON))?
            }
            Label::Listen => self.cap(|c| c.ty == CapType::Endpoint)?,
            Label::PortIn | Label::PortOut | Label::PortOutBytes => {
                self.cap(|c| c.ty == CapType::Io).or(self.given(slot::IO))?
            }
            Label::IrqAck | Label::IrqMessage => {
                self.cap(|c| c.ty == CapType::Irq).or(self.given(slot::IRQ))?
            }
            Label::Copy | Label::Mint | Label::Move | Label::Identify | Label::CopyRange => {
                self.any()?
            }
            _ => self.cap(|c| c.ty == CapType::Dispatcher).or(self.any())?,
        };
        let r = &mut *self.random;
        let (word, few) = (r.word(), 1 + r.below(6));
        let badge = if r.one_in(2) && target.cap.ty == CapType::Endpoint { r.below(4) } else { 0 };
        if label == Label::SetBreakpoints {
            let control = if word & 1 == 0 { word >> 8 & 0xdddd_00ff } else { word >> 8 };
            let args = [word >> (word & 31), 0x1000, word >> 40, 0, control];
            return Some(Operation::new(label, target.place, &args));
        }
        let args: [u64; 3] = match label {
            Label::Copy | Label::Move if target.cap.ty == CapType::L2CNode && r.one_in(2) => {
                [self.empty_in_root()?.0, 0, 0]
            }
            Label::Copy | Label::Move => [self.empty(1)?.0, 0, 0],
            Label::Mint => [self.empty(1)?.0, (word & 0x7f) | 1, badge],
            Label::CopyRange => {
                let only = if word & 3 == 0 { target.cap.ty as u64 } else { 0 };
                [self.empty(few)?.0, few, only]
            }
            Label::DeleteRange => [few, 0, 0],
            Label::NewId => [self.empty(1)?.0, 0, 0],
            Label::SetFlushPolicy => [word % 3, word >> 8 & 63, 0],
            Label::Listen | Label::Notify => [word & 0xff, 0, 0],
            Label::SetTimer => [if word & 1 == 0 { 0 } else { u64::MAX >> 1 }, 0, 0],
            Label::SetFsBase => [word >> (word & 31), 0, 0],
            Label::PortIn | Label::PortOut | Label::PortOutBytes => [0x80 + word % 10, 1, 0],
            Label::ReadCounter => [word % 20, word >> 8 & 3, 0],
            _ => [0; 3],
        };
        Some(Operation::new(label, target.place, &args))
    }

    /// Where objects come from.
    fn origin(&mut self) -> Option<Named> {
        match self.random.below(22) {
            20 | 21 => self.given(slot::PERSISTENT),
            0 => self.given(slot::HOME),
            1 => self.given(slot::DEVICE),
            2 => self.cap(|cap| matches!(cap.ty, CapType::PhysAddr | CapType::DevFrame)),
            3 | 4 => self.given(slot::BIG),
            5..=7 => self.cap(|cap| cap.ty == CapType::Frame),
            8 if self.profile == Profile::Caps => {
                let number = if self.random.one_in(2) { slot::IO } else { slot::IRQ };
                let found = self.cap(|cap| matches!(cap.ty, CapType::Io | CapType::Irq));
                found.or(self.given(number))
            }
            8..=12 => self.cap(|cap| cap.ty == CapType::Ram),
            _ => self.given(slot::PLAY),
        }
    }

    /// A type to make of memory.
    fn kind(&mut self) -> CapType {
        use CapType::*;
        let caps =
            [Ram, Ram, Frame, Frame, L2CNode, L2CNode, L1CNode, Endpoint, Dispatcher, Pt, Pd];
        let memory = [Frame, Frame, Frame, Frame, Pt, Pt, Pd, Pd, Pdpt, Pdpt, Ram, L2CNode];
        let rare = [Pml4, Pml5, Pdpt, Dispatcher, Endpoint, L1CNode, PhysAddr, Mapping, Null];
        let kinds: &[CapType] = match self.profile {
            _ if self.random.one_in(10) => &rare,
            Profile::Caps => &caps,
            Profile::Memory => &memory,
        };
        self.random.pick(kinds).unwrap_or(Frame)
    }

    fn retype(&mut self) -> Option<Operation> {
        let source = self.origin()?;
        let ty = match source.cap.ty {
            CapType::Ram => self.kind(),
            CapType::PhysAddr if self.random.one_in(2) => CapType::DevFrame,
            _ if self.random.one_in(20) => self.kind(),
            own => own,
        };
        let in_memory = ty.tree() == captypes::Tree::Memory;
        let bytes = self.size(ty, &source.cap);
        let count = if self.random.one_in(4) { 1 + self.random.below(6) } else { 1 };
        let unit = if in_memory { PAGE } else { 1 };
        let offset = self.gap(&source.cap, bytes.saturating_mul(count), unit);
        let dst = match ty {
            CapType::L2CNode if self.random.one_in(2) => self.empty_in_root()?,
            _ => self.empty(count)?,
        };
        let alone = if self.is_born_alone(ty) { BORN_ALONE } else { 0 };
        let args = [ty as u64 | alone, offset, bytes, count, dst.0];
        Some(Operation::new(Label::Retype, source.place, &args))
    }

    /// Several parts of one capability, in ascending order.
    fn retype_many(&mut self) -> Option<Operation> {
        let play = match self.random.below(7) {
            0 | 1 => self.given(slot::PLAY),
            2 => self.given(slot::PERSISTENT),
            _ => None,
        };
        let source = play.or(self.cap(|cap| matches!(cap.ty, CapType::Ram | CapType::Frame)))?;
        let mut args = [0; 8];
        let (mut first, mut objects) = (self.gap(&source.cap, 4 * PAGE, PAGE) / PAGE, 0);
        for part in &mut args[1..1 + 1 + self.random.below(4) as usize] {
            let ty = if source.cap.is_frame() { source.cap.ty } else { self.kind() };
            let pages = self.size(ty, &source.cap).min(1 << 20) / PAGE;
            let count = 1 + self.random.below(2);
            let made = Part::new(ty, first, pages, count as u32).unwrap_or_default();
            *part = if self.is_born_alone(ty) { made.alone().0 } else { made.0 };
            first += pages * count + self.random.below(2);
            objects += count;
        }
        args[0] = self.empty(objects)?.0;
        Some(Operation::new(Label::RetypeMany, source.place, &args))
    }

    /// Is the next object to be written to only while alone? A CNode that somebody copies is lost for
    /// most operations: a few of those.
    fn is_born_alone(&mut self, ty: CapType) -> bool {
        self.random.one_in(match ty {
            CapType::L2CNode => 8,
            _ if ty.can_be_alone() => 3,
            _ => 100,
        })
    }

    /// Bytes of an object.
    fn size(&mut self, ty: CapType, source: &Cap) -> u64 {
        let r = &mut *self.random;
        match ty {
            CapType::L1CNode => PAGE << r.below(4),
            CapType::L2CNode => L2_BYTES,
            CapType::Ram => PAGE << r.below(6),
            CapType::Io | CapType::Irq => 1 + r.below(3),
            // Nothing is zeroed when a Frame is divided.
            CapType::Frame if source.is_frame() && r.one_in(3) => (2 << 20) * (1 + r.below(2)),
            CapType::Frame if self.profile == Profile::Memory && r.one_in(60) => 2 << 20,
            CapType::Frame | CapType::DevFrame | CapType::PhysAddr if r.one_in(3) => {
                PAGE * (1 + r.below(8))
            }
            _ => PAGE,
        }
    }

    /// An offset at which `bytes` of a capability are free, if one is found quickly.
    fn gap(&mut self, source: &Cap, bytes: u64, unit: u64) -> u64 {
        let home = source.is_home();
        let mut area = if home { self.model.homeland() } else { source.base..source.end() };
        // Memory that is used again and again: what was in it must not be seen.
        if source.ty == CapType::Ram && bytes < AGAIN && !self.random.one_in(4) {
            let few = bytes <= 2 * PAGE && self.random.one_in(2);
            area.end = area.end.min(area.start + if few { AGAIN / 8 } else { AGAIN });
        }
        let unit = if bytes.is_multiple_of(2 << 20) && bytes > 0 { 2 << 20 } else { unit };
        let places = (area.end - area.start).saturating_sub(bytes) / unit + 1;
        let mut offset = 0;
        for _ in 0..6 {
            let base = area.start + unit * self.random.below(places);
            offset = base.wrapping_sub(source.base);
            if !self.model.is_taken(source, base, base.saturating_add(bytes)) {
                break;
            }
        }
        offset
    }

    fn retype_copy(&mut self) -> Option<Operation> {
        let play = match self.random.below(7) {
            0..=2 => self.given(slot::PLAY),
            3 => self.given(slot::PERSISTENT),
            _ => None,
        };
        let ram = play.or(self.cap(|cap| cap.ty == CapType::Ram))?;
        let frame = self.cap(|cap| cap.ty == CapType::Frame)?;
        let bytes = if self.random.one_in(4) { 2 * PAGE } else { PAGE };
        let pages = frame.cap.bytes / PAGE;
        let from = PAGE * self.random.below(pages.saturating_sub(bytes / PAGE) + 1);
        let dst = if self.random.one_in(2) { frame.place } else { self.empty(1)? };
        let offset = self.gap(&ram.cap, bytes, PAGE);
        let alone = u64::from(self.is_born_alone(CapType::Frame));
        let args = [offset, frame.place.0, from, dst.0, bytes, alone];
        Some(Operation::new(Label::RetypeCopy, ram.place, &args))
    }

    /// A table; often a root of an executor.
    fn table(&mut self) -> Option<Named> {
        if self.random.one_in(4) {
            let number = slot::VSPACES + self.random.below(EXECUTORS as u64) as u32;
            return self.given(number);
        }
        self.cap(|cap| cap.level().is_some())
    }

    /// An entry of a table: of few, so that they meet.
    fn entry(&mut self, level: u8) -> u64 {
        let r = &mut *self.random;
        match level {
            _ if r.one_in(40) => r.below(520),
            1 if r.one_in(3) => r.below(512),
            1 => r.below(24),
            2 => r.below(6),
            3 => r.below(4),
            _ => 4 + r.below(3),
        }
    }

    fn map(&mut self) -> Option<Operation> {
        let table = self.table()?;
        let level = table.cap.level()?;
        let (page, below) = (crate::page_bytes(level), CapType::table_of_level(level - 1));
        let as_table = level > 3 || level > 1 && !self.random.one_in(3);
        let src = if as_table {
            self.cap(|cap| Some(cap.ty) == below)?
        } else if level == 1 && self.random.one_in(10) {
            self.cap(|cap| cap.level().is_some())?
        } else if level == 3 || self.random.one_in(12) {
            self.given(slot::BIG)?
        } else {
            self.cap(|cap| cap.is_frame() && cap.bytes >= page)?
        };
        let (mut count, mut offset) = (1, 0);
        if src.cap.is_frame() && src.cap.bytes >= page {
            let pages = src.cap.bytes / page;
            count = 1 + self.random.below(pages.min(6));
            offset = page * self.random.below(pages - count + 1);
        }
        let entry = self.entry(level);
        let readable = src.cap.level().is_some() && !as_table;
        let rights = if readable { Rights::READ } else { src.cap.rights };
        // Rights that a table lacks would hide what the entries below allow.
        let flags = match as_table && !self.random.one_in(4) {
            true => mappable(rights),
            false => self.flags(rights),
        };
        let dst = self.empty(1)?;
        let args = [entry, count, src.place.0, offset, flags, dst.0];
        Some(Operation::new(Label::Map, table.place, &args))
    }

    fn map_many(&mut self) -> Option<Operation> {
        let table = self.table()?;
        let level = table.cap.level()?;
        let below = CapType::table_of_level(level - 1);
        let page = crate::page_bytes(level);
        let fits =
            |cap: &Cap| Some(cap.ty) == below || level <= 3 && cap.is_frame() && cap.bytes == page;
        let src = self.cap(fits)?;
        let count = 1 + self.random.below(4);
        let entry = self.entry(level);
        let flags = self.flags(src.cap.rights);
        let dst = self.empty(count)?;
        let args = [entry, count, src.place.0, flags, dst.0];
        Some(Operation::new(Label::MapMany, table.place, &args))
    }

    /// Protect or Unmap.
    fn part(&mut self, label: Label) -> Option<Operation> {
        let target = self.cap(|cap| cap.mapping.is_some())?;
        let entries = u64::from(target.cap.mapping?.count);
        let (mut first, mut count) = (0, entries);
        if self.random.one_in(2) {
            first = self.random.below(entries);
            count = 1 + self.random.below(entries - first);
        }
        let flags = self.flags(target.cap.rights);
        let args = match label {
            Label::Protect => [first, count, flags, 0],
            _ => [first, count, self.empty(1)?.0, flags & 0x60],
        };
        Some(Operation::new(label, target.place, &args))
    }

    /// Mostly a part of one Frame, sometimes of what is in the next slots, too.
    fn lend(&mut self) -> Option<Operation> {
        let frame = self.cap(|cap| cap.ty == CapType::Frame)?;
        let most = 1 + self.random.below(3) as u32;
        let more = (1..most).map_while(|n| self.model.cap((frame.key.0, frame.key.1 + n)));
        let more: Vec<u64> = more.filter(|cap| cap.is_frame()).map(|cap| cap.bytes).collect();
        let offset = self.random.below(frame.cap.bytes.min(3 * PAGE));
        let ends_in = more.last().copied().unwrap_or(frame.cap.bytes - offset);
        let between: u64 = frame.cap.bytes + more.iter().sum::<u64>() - offset - ends_in;
        let bytes = between + 1 + self.random.below(ends_in.min(3 * PAGE));
        let count = 1 + more.len() as u64;
        let rights = if self.random.one_in(3) { 3 } else { 1 };
        let lower = u64::from(self.random.one_in(2));
        let dst = self.empty(count)?.0;
        let copies = if self.random.one_in(2) { self.empty(count)?.0 } else { 0 };
        let args = [count, offset, bytes, rights, lower, dst, copies];
        Some(Operation::new(Label::Lend, frame.place, &args))
    }

    fn transfer(&mut self, label: Label) -> Option<Operation> {
        let loan = self.cap(|cap| cap.ty == CapType::Loan)?;
        let offset = if self.random.one_in(2) { 0 } else { self.random.below(loan.cap.bytes) };
        let mapped = self.cap(|cap| cap.mapping.is_some_and(|mapping| !mapping.is_table));
        let mut va = 4 << 39 | self.random.below(1 << 30);
        if let Some((mapped, mapping)) = mapped.and_then(|m| Some((m, m.cap.mapping?))) {
            let mut places = Vec::new();
            let root = self.model.executors()[self.who].vspace;
            self.model.add_places(root, mapping.table, 0, &mut places);
            if let Some(place) = self.random.pick(&places) {
                let first = u64::from(mapping.first) * crate::page_bytes(mapping.level);
                va = place + first + self.random.below(mapped.cap.bytes);
                va -= if self.random.one_in(2) { va % PAGE } else { 0 };
            }
        }
        let bytes = if self.random.one_in(2) { PAGE } else { 1 + self.random.below(3 * PAGE) };
        Some(Operation::new(label, loan.place, &[offset, va, bytes]))
    }

    fn replace(&mut self) -> Option<Operation> {
        let single = |cap: &Cap| cap.mapping.is_some_and(|m| m.count == 1 && !m.is_table);
        let target = self.cap(single)?;
        let bytes = target.cap.bytes;
        let src = self.cap(|cap| cap.is_frame() && cap.bytes >= bytes)?;
        let flags = self.flags(src.cap.rights);
        Some(Operation::new(Label::Replace, target.place, &[src.place.0, flags]))
    }

    fn configure(&mut self) -> Option<Operation> {
        let target = self.cap(|cap| cap.ty == CapType::Dispatcher)?;
        let sometimes = |draft: &mut Self, ty: CapType| {
            let found = if draft.random.one_in(2) { draft.cap(|cap| cap.ty == ty) } else { None };
            found.map_or(Place::NULL.0, |named| named.place.0)
        };
        let cspace = sometimes(self, CapType::L1CNode);
        let vspace = sometimes(self, CapType::Pml4);
        let frame = sometimes(self, CapType::Frame);
        let endpoint = sometimes(self, CapType::Endpoint);
        let va = PAGE * self.random.below(1 << 30);
        let options = self.random.below(8);
        let args = [cspace, vspace, frame, va, endpoint, options];
        Some(Operation::new(Label::Configure, target.place, &args))
    }

    /// Replaces one argument by one that makes no sense, or the operation by another.
    fn spoil(&mut self, operation: &mut Operation) {
        let word = self.nonsense();
        match self.random.below(12) {
            0 => operation.label = (self.random.word() & 0x7f) as u16,
            1 | 2 => operation.target = Place(word),
            n => operation.args[n as usize % 6] = word,
        }
    }

    fn nonsense(&mut self) -> u64 {
        let near = self.somewhere().0;
        let r = &mut *self.random;
        match r.below(9) {
            0 => r.word(),
            1 => 1 << r.below(64),
            2 => (1 << r.below(64)) - 1,
            3 => r.below(600),
            4 => PAGE * r.below(600),
            5 => 0,
            6 => Place::within(CapAddr(r.below(40) as u32), CapAddr(r.below(2000) as u32)).0,
            7 => Place::l1(CapAddr(r.below(40) as u32), r.below(260) as u32).0,
            _ => near,
        }
    }
}
