//! The comparison itself: a guest that follows the rules passes, and one with a flaw is found out.
//!
//! The guest is a second model. A flaw undoes a part of what an operation did.

use crate::compare::{Comparison, Failure, Link, Plan};
use crate::{Access, Model, Operation, Profile, Seen};
use captypes::invocations::Identity;
use captypes::place::L2_BYTES;
use captypes::{CapType, Label, Place, RamAttrs, Rights, Status};
use lockstep::{slot, Answer, Command, Digest, Facts, Kind};
use std::collections::VecDeque;
use std::convert::Infallible;

/// What a guest may do wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Flaw {
    None,
    /// Entries stay when they are unmapped.
    StaleEntries,
    /// Protect changes nothing.
    LaxProtect,
    /// Memory keeps what was in it.
    NoZeroing,
    /// Persistent memory does not.
    ForgetfulMemory,
    /// Mint keeps all rights.
    GenerousMint,
    /// Revoke leaves one capability behind.
    SloppyRevoke,
    /// Nobody is told of copies.
    SecretCopies,
    /// A Frame takes its Mappings along though another one covers them.
    HastyUnmap,
    /// What fails has an effect all the same.
    FailingDelete,
    /// Who has a CNode does not count among those who have what is in it.
    HiddenHolders,
    /// A table that others had keeps its entries as they are when it is written through again.
    Unsettled,
    /// Slots of a CNode that others have are emptied.
    SharedSlots,
    /// Where a page comes the page of zeros stays.
    StickyZeros,
}

const HOME: u64 = 0x10_0000;
const PLAY: u64 = 0x100_0000;
const PERSISTENT: u64 = 512 << 30;

fn facts() -> Facts {
    let own = |n: u64| {
        let base = HOME + n * 0x1_0000;
        [base, base + 0x4000, base + 0x8000, base + 0x9000]
    };
    Facts {
        executors: std::array::from_fn(|n| own(n as u64)),
        homeland: [PLAY + (32 << 20), 64 * 4096],
    }
}

/// A guest that is a model.
struct Twin {
    model: Model,
    flaw: Flaw,
    answers: VecDeque<Answer>,
    numbers: u64,
}

impl Twin {
    fn new(flaw: Flaw) -> Twin {
        let facts = facts();
        let mut model = Model::boot(&facts);
        let lasting = Rights::ALL.0 & !Rights::REVOKE.0;
        for (who, own) in facts.executors.iter().enumerate() {
            let mut give = |number: u32, ty: CapType, base: u64, bytes: u64| {
                let mut words = [ty as u64, lasting.into(), 0, base, bytes, 0];
                if number == slot::PLAY && who == 0 {
                    words[1] = Rights::ALL.0.into();
                }
                if number == slot::HOME {
                    words[2] = RamAttrs::HOME.0.into();
                }
                if number == slot::PERSISTENT {
                    words[2] = RamAttrs::PERSISTENT.0.into();
                }
                model.import((own[1], number), &words).unwrap();
            };
            give(slot::ROOT, CapType::L1CNode, own[0], L2_BYTES);
            give(slot::VSPACE, CapType::Pml4, own[2], 4096);
            give(slot::DISPATCHER, CapType::Dispatcher, own[3], 4096);
            give(slot::KERNEL, CapType::Kernel, 0, 0);
            for (n, other) in (0..).zip(&facts.executors) {
                give(slot::ROOTS + n, CapType::L1CNode, other[0], L2_BYTES);
                give(slot::VSPACES + n, CapType::Pml4, other[2], 4096);
                give(slot::DISPATCHERS + n, CapType::Dispatcher, other[3], 4096);
            }
            give(slot::PLAY, CapType::Ram, PLAY, 16 << 20);
            give(slot::BIG, CapType::Frame, 0x4000_0000, 1 << 30);
            give(slot::HOME, CapType::Ram, HOME, 0x7ff0_0000);
            give(slot::PERSISTENT, CapType::Ram, PERSISTENT, 4 << 20);
            give(slot::IO, CapType::Io, 0x80, 8);
            give(slot::IRQ, CapType::Irq, 5, 3);
            give(slot::ID, CapType::Id, 0, 1 << 40);
        }
        model.ignores_holders = flaw == Flaw::HiddenHolders;
        Twin { model, flaw, answers: VecDeque::new(), numbers: 1000 }
    }

    fn perform(&mut self, command: &Command) -> Answer {
        let (who, words) = (command.executor, &command.words);
        match command.kind {
            Kind::Invoke => {
                let args = std::array::from_fn(|n| words[n + 2]);
                let target = Place(words[1]);
                self.invoke(who, &Operation { label: words[0] as u16, target, args })
            }
            Kind::Touch => {
                let access = [Access::Read, Access::Write, Access::Execute][words[1] as usize];
                match self.model.touch(who, words[0], access, words[2]) {
                    Seen::Done { value, .. } => [0, value, 0, 0, 0, 0, 0, 0],
                    Seen::Fault { error } => [1, 14, error, words[0], 0, 0, 0, 0],
                }
            }
            Kind::Sweep => {
                let mut digest = Digest::new();
                for n in 0..words[1] as u32 {
                    let place = Place(words[0]).plus(n);
                    let identify = Operation::new(Label::Identify, place, &[]);
                    let [status, a, b, c, d, e, f, _] = self.invoke(who, &identify);
                    let mapping = CapType::Mapping as u64;
                    digest = digest.with_identity(status, &[a, b, c, d, e, f], mapping);
                }
                [0, digest.0, 0, 0, 0, 0, 0, 0]
            }
            Kind::Take => [0, self.model.take_pending(who), 0, 0, 0, 0, 0, 0],
            Kind::Stop => [0; 8],
        }
    }

    fn invoke(&mut self, who: usize, operation: &Operation) -> Answer {
        let before = self.model.clone();
        let answer = self.model.invoke(who, operation);
        let label = Label::from_u16(operation.label);
        let mut words = match answer {
            Ok(words) => words.value,
            Err(errors) => {
                if self.flaw == Flaw::FailingDelete && label == Some(Label::Copy) {
                    let slots = self.model.slots.keys().copied();
                    if let Some(key) = slots.into_iter().find(|key| !before.is_given(*key)) {
                        self.model.delete_slot(key);
                    }
                }
                let shared = errors == crate::Errors::one(Status::Shared);
                if self.flaw == Flaw::SharedSlots && label == Some(Label::Delete) && shared {
                    if let Ok(slot) = self.model.slot_at(who, operation.target) {
                        self.model.delete_slot(slot);
                        return [0; 8];
                    }
                }
                let first = Status::ALL.iter().find(|&&status| errors.allows(status as u64));
                return [*first.expect("a reason") as u64, 0, 0, 0, 0, 0, 0, 0];
            }
        };
        match label {
            Some(Label::ReadCounter) => words[0] = 77 + self.model.capabilities(),
            Some(Label::CollectReclaimed) => self.collect(&mut words),
            Some(Label::NewId) => {
                self.numbers += 1;
                words[0] = self.numbers;
                self.model.name_id(self.numbers).unwrap();
            }
            Some(label) => self.spoil(label, &before, &mut words),
            None => {}
        }
        let [a, b, c, d, e, f] = words;
        [0, a, b, c, d, e, f, 0]
    }

    fn collect(&mut self, words: &mut [u64; 6]) {
        for range in words.chunks_mut(2) {
            if let Some(page) = self.model.returned.pop_first() {
                range.copy_from_slice(&[page, 4096]);
            }
        }
    }

    fn spoil(&mut self, label: Label, before: &Model, words: &mut [u64; 6]) {
        let model = &mut self.model;
        match (self.flaw, label) {
            (Flaw::StaleEntries, Label::Unmap) | (Flaw::LaxProtect, Label::Protect) => {
                model.entries = before.entries.clone();
            }
            (Flaw::NoZeroing, Label::Retype) => model.contents = before.contents.clone(),
            (Flaw::ForgetfulMemory, Label::Retype) => {
                let new = model.changed.iter().filter_map(|key| model.slots.get(key));
                for cap in new.filter(|cap| cap.is_frame()).copied().collect::<Vec<_>>() {
                    model
                        .contents
                        .retain(|page, _| *page < PERSISTENT || !cap.covers(*page, page + 1));
                }
            }
            (Flaw::GenerousMint, Label::Mint) => {
                for key in model.changed.clone() {
                    if let Some(cap) = model.slots.get_mut(&key) {
                        cap.rights = Rights::ALL;
                    }
                }
            }
            (Flaw::SloppyRevoke, Label::Revoke) => {
                let lost = before.slots.iter().find(|(key, _)| !model.slots.contains_key(key));
                if let Some((&key, &cap)) = lost {
                    model.slots.insert(key, cap);
                }
            }
            (
                Flaw::Unsettled,
                Label::Map | Label::MapMany | Label::Protect | Label::ProtectMany,
            ) => {
                for table in before.were_copied.difference(&model.were_copied) {
                    let entries = model.entries.range_mut((*table, 0)..(*table, u32::MAX));
                    for (key, entry) in entries {
                        entry.write = before.entries.get(key).is_some_and(|old| old.write);
                    }
                }
            }
            (Flaw::StickyZeros, Label::Map | Label::MapMany) => {
                let zeros = before.entries.iter().filter(|(_, entry)| entry.zero);
                model.entries.extend(zeros.map(|(&key, &entry)| (key, entry)));
            }
            (Flaw::SecretCopies, Label::Identify) => words[5] &= !Identity::COPIES,
            (Flaw::HastyUnmap, Label::Delete) => {
                let gone = model.changed.iter().find_map(|key| before.slots.get(key).copied());
                if let Some(gone) = gone.filter(|cap| cap.is_frame()) {
                    model.remove_mappings(|cap| gone.covers(cap.base, cap.end()));
                }
            }
            _ => {}
        }
    }
}

impl Link for Twin {
    type Error = Infallible;

    fn post(&mut self, command: &Command) -> Result<(), Infallible> {
        let answer = self.perform(command);
        self.answers.push_back(answer);
        Ok(())
    }
    fn poll(&mut self) -> Result<Option<Answer>, Infallible> {
        Ok(None)
    }
    fn wait(&mut self) -> Result<Answer, Infallible> {
        Ok(self.answers.pop_front().expect("every command was answered"))
    }
}

fn compare(flaw: Flaw, profile: Profile, seed: u64) -> Result<(), String> {
    compare_long(flaw, profile, seed, 3000)
}

fn compare_long(flaw: Flaw, profile: Profile, seed: u64, operations: u64) -> Result<(), String> {
    let plan = Plan { sweep_every: 16, ..Plan::new(seed, profile, operations) };
    let explain = |failure| match failure {
        Failure::Difference(difference) => difference.to_string(),
        Failure::Link(..) => "the twin is gone".into(),
    };
    let mut comparison = Comparison::begin(plan, Twin::new(flaw), &facts()).map_err(explain)?;
    comparison.run().map_err(explain)
}

#[test]
fn a_guest_that_follows_the_rules_passes() {
    for seed in 1..4 {
        for profile in [Profile::Caps, Profile::Memory] {
            compare(Flaw::None, profile, seed).unwrap();
        }
    }
}

#[test]
fn flaws_are_found() {
    let flaws = [
        Flaw::StaleEntries,
        Flaw::LaxProtect,
        Flaw::NoZeroing,
        Flaw::ForgetfulMemory,
        Flaw::GenerousMint,
        Flaw::SloppyRevoke,
        Flaw::SecretCopies,
        Flaw::HastyUnmap,
        Flaw::FailingDelete,
        Flaw::HiddenHolders,
        Flaw::Unsettled,
        Flaw::SharedSlots,
        Flaw::StickyZeros,
    ];
    for flaw in flaws {
        let find = |seed| compare_long(flaw, Profile::Memory, seed, 60_000).err();
        let report = (1..6).find_map(find).unwrap_or_else(|| panic!("{flaw:?} is not found"));
        println!("{flaw:?}: {}", report.lines().next().unwrap_or_default());
        assert!(report.contains("model:") && report.contains("kernel:"), "{flaw:?}: {report}");
    }
}

#[test]
fn a_seed_repeats_everything() {
    let once = compare(Flaw::LaxProtect, Profile::Memory, 7).unwrap_err();
    assert_eq!(once, compare(Flaw::LaxProtect, Profile::Memory, 7).unwrap_err());
    assert_ne!(once, compare(Flaw::LaxProtect, Profile::Memory, 8).unwrap_err());
}

#[test]
fn executors_keep_what_they_live_on() {
    let model = Twin::new(Flaw::None).model;
    let permits =
        |label, place, args: &[u64]| model.permits(0, &Operation::new(label, place, args));
    let root = Place::own(captypes::CapAddr(slot::ROOT));
    assert!(!permits(Label::Delete, root, &[]));
    assert!(!permits(Label::DeleteRange, Place::l1(captypes::CapAddr::NULL, 0), &[5]));
    assert!(permits(Label::DeleteRange, Place::l1(captypes::CapAddr::NULL, 1), &[5]));
    let dispatcher = Place::own(captypes::CapAddr(slot::DISPATCHERS + 1));
    assert!(!permits(Label::Suspend, dispatcher, &[]));
    let kernel = Place::own(captypes::CapAddr(slot::KERNEL));
    assert!(!permits(Label::Shutdown, kernel, &[0]));
}
