//! What capabilities and address spaces are supposed to do: the rules of design §3 in their most
//! naive form, for comparison with a running kernel after every operation.
//!
//! A [`Model`] is a list of slots with capabilities, a list of page-table entries, and the first word
//! of every page. Relations are found by looking at every slot, a translation by walking the list of
//! entries. It shares the description of types and invocations with the kernel (`captypes`), and
//! nothing else. It knows no order of checks, no order of destruction and no bounds of work: where the
//! rules leave something open, so does the [`Answer`].
//!
//! | file | what |
//! |---|---|
//! | `cap` | a capability, copies and descendants |
//! | `errors` | all errors that an operation may answer |
//! | `place` | from a [`Place`](captypes::Place) to a slot |
//! | `ops` | copy, mint, move, identify, ranges |
//! | `retype` | retype, of several parts, and with contents |
//! | `roots` | another root, and CNodes that nobody can reach |
//! | `delete` | delete, revoke, and what goes with an object |
//! | `loans` | lend, recall, and copies of what was lent |
//! | `tables` | map, protect, unmap, replace |
//! | `walk` | what the processor does with an address |
//! | `things` | dispatchers, endpoints, the kernel, ports and lines |
//! | `random` | operations that lead far |
//! | `view` | what an executor can name |
//! | `permits` | operations that are left out |
//! | `watch` | what to look at after an operation |
//! | `compare` | a guest and the model, step by step |
//! | `report` | what is said about a difference |

#![forbid(unsafe_code)]

mod cap;
pub mod compare;
mod delete;
mod errors;
mod loans;
mod ops;
mod permits;
mod place;
mod random;
mod report;
mod retype;
mod roots;
mod tables;
mod things;
mod view;
mod walk;
mod watch;

#[cfg(test)]
mod tests;

pub use cap::{page_bytes, Cap, Mapping, PAGE};
pub use compare::{Comparison, Failure, Link, Plan};
pub use errors::Errors;
pub use place::{Executor, SlotKey};
pub use random::{Operation, Profile, Random, Source};
pub use report::Difference;
pub use tables::Entry;
pub use walk::{Access, Seen};
pub use watch::{Touch, Watch};

use captypes::place::L2_BYTES;
use captypes::{op, CapType, Invocation, Label, Rights};
use lockstep::{Facts, OWN_ENTRIES};
use std::collections::{BTreeMap, BTreeSet};

/// Bytes of the root CNode of each executor.
pub const ROOT_BYTES: u64 = 16 << 10;

/// What an invocation must answer: one of these errors, or success with these words.
pub type Answer = Result<Words, Errors>;

/// Result words, and which of their bits the rules determine.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Words {
    /// The words.
    pub value: [u64; 6],
    /// The bits that count.
    pub mask: [u64; 6],
    /// Errors that may be answered instead.
    pub or: Errors,
}

impl Words {
    /// An operation without results.
    pub const NONE: Words = Words { value: [0; 6], mask: [0; 6], or: Errors::NONE };

    /// One word.
    pub fn one(value: u64) -> Words {
        Words::masked(value, u64::MAX)
    }
    /// One word of which only some bits count.
    pub fn masked(value: u64, mask: u64) -> Words {
        let first = |word| [word, 0, 0, 0, 0, 0];
        Words { value: first(value), mask: first(mask), or: Errors::NONE }
    }
    /// Are these words as they must be?
    pub fn fit(&self, words: &[u64; 6]) -> bool {
        (0..6).all(|n| (self.value[n] ^ words[n]) & self.mask[n] == 0)
    }
}

/// The state of a machine, as far as the rules know it.
#[derive(Clone, Default)]
pub struct Model {
    /// Slots in use.
    slots: BTreeMap<SlotKey, Cap>,
    /// Page-table entries in use, by the address of the table and the index.
    entries: BTreeMap<(u64, u32), Entry>,
    /// The first word of pages that hold something else than zero there; `None`: unknown.
    contents: BTreeMap<u64, Option<u64>>,
    /// Those who invoke.
    executors: Vec<Executor>,
    /// Last-level tables that somebody else has had since they were last known to be right.
    were_copied: BTreeSet<u64>,
    /// Who polled an endpoint last, by the address of the endpoint.
    servers: BTreeMap<u64, usize>,
    /// Notification bits that wait for an executor.
    pending: Vec<u64>,
    /// Memory below a home of which the memory server must hear when it comes back.
    homeland: core::ops::Range<u64>,
    /// Pages of it that came back and have not been collected.
    returned: BTreeSet<u64>,
    /// Numbers that were given out, and the slot of one of which we have not heard yet.
    numbers: BTreeSet<u64>,
    unnamed: Option<SlotKey>,
    /// How the core forgets translations, if that was ever set.
    flushing: Option<[u64; 2]>,
    /// A flaw to be found: who has the CNode does not count among those who have what is in it.
    #[cfg(test)]
    ignores_holders: bool,
    /// Acts of lending.
    loans: u32,
    /// Slots that the last operation changed.
    changed: Vec<SlotKey>,
    /// Objects with slots that the last operation destroyed.
    containers_destroyed: u32,
}

impl Model {
    /// Performs an invocation by executor `who`; says what it must answer.
    pub fn invoke(&mut self, who: usize, operation: &Operation) -> Answer {
        self.changed.clear();
        self.containers_destroyed = 0;
        let (target, words) = (operation.target, &operation.args);
        let Some(label) = Label::from_u16(operation.label) else {
            return Err(Errors::one(captypes::Status::Invalid));
        };
        macro_rules! with {
            ($op:ident, $f:expr) => {
                match op::$op::decode(words) {
                    Ok(args) => $f(self, who, target, args),
                    Err(status) => Err(Errors::one(status)),
                }
            };
        }
        match label {
            Label::Copy => with!(Copy, Model::copy),
            Label::Mint => with!(Mint, Model::mint),
            Label::Move => with!(Move, Model::move_cap),
            Label::Retype => with!(Retype, Model::retype),
            Label::RetypeCopy => with!(RetypeCopy, Model::retype_copy),
            Label::RetypeMany => with!(RetypeMany, Model::retype_many),
            Label::Compare => with!(Compare, Model::compare),
            Label::NoOp => with!(NoOp, Model::no_op),
            Label::NewId => with!(NewId, Model::new_id),
            Label::Resize => with!(Resize, Model::resize),
            Label::Identify => with!(Identify, Model::identify),
            Label::CopyRange => with!(CopyRange, Model::copy_range),
            Label::Delete => with!(Delete, Model::delete),
            Label::DeleteRange => with!(DeleteRange, Model::delete_range),
            Label::Revoke => with!(Revoke, Model::revoke),
            Label::Map => with!(Map, Model::map),
            Label::MapMany => with!(MapMany, Model::map_many),
            Label::Protect => with!(Protect, Model::protect),
            Label::ProtectMany => with!(ProtectMany, Model::protect_many),
            Label::Unmap => with!(Unmap, Model::unmap),
            Label::Replace => with!(Replace, Model::replace),
            Label::Locate => with!(Locate, Model::locate),
            Label::ClearStatus => with!(ClearStatus, Model::clear_status),
            Label::MapZero => with!(MapZero, Model::map_zero),
            Label::ReadEntry => with!(ReadEntry, Model::read_entry),
            Label::Lend => with!(Lend, Model::lend),
            Label::Recall => with!(Recall, Model::recall),
            Label::CopyOut => with!(CopyOut, Model::copy_out),
            Label::CopyIn => with!(CopyIn, Model::copy_in),
            _ => self.invoke_thing(who, label, operation),
        }
    }

    /// A machine as it is before the first operation; what the executors' slots hold is added by
    /// [`Model::import`].
    pub fn boot(facts: &Facts) -> Model {
        let mut model = Model::default();
        for &[root, node, vspace, dispatcher] in &facts.executors {
            let root_slots = place::root_slots(ROOT_BYTES);
            model.executors.push(Executor { root, root_slots, node, vspace, dispatcher });
            model.pending.push(0);
            let words = [CapType::L2CNode as u64, Rights::ALL.0.into(), 0, node, L2_BYTES, 0];
            // The words are those of an identity.
            let _ = model.import((root, 0), &words);
            for index in OWN_ENTRIES {
                model.import_entry(vspace, index);
            }
        }
        let [base, bytes] = facts.homeland;
        model.homeland = base..base + bytes;
        model
    }

    /// Those who invoke.
    pub fn executors(&self) -> &[Executor] {
        &self.executors
    }

    /// Memory of which the memory server must hear when it comes back.
    pub fn homeland(&self) -> core::ops::Range<u64> {
        self.homeland.clone()
    }

    /// The slots that the last operation filled, emptied or changed.
    pub fn changed(&self) -> &[SlotKey] {
        &self.changed
    }

    /// How many slots are in use.
    pub fn capabilities(&self) -> u64 {
        self.slots.len() as u64
    }

    /// What a slot holds.
    pub fn cap(&self, key: SlotKey) -> Option<&Cap> {
        self.slots.get(&key)
    }

    /// All slots in use.
    pub fn slots(&self) -> impl Iterator<Item = (SlotKey, &Cap)> {
        self.slots.iter().map(|(&key, cap)| (key, cap))
    }

    /// What is in the slots of an object.
    fn in_container(&self, base: u64, slots: u32) -> impl Iterator<Item = (SlotKey, Cap)> + '_ {
        self.slots.range((base, 0)..(base, slots)).map(|(&key, &cap)| (key, cap))
    }

    /// The entries of a table in use.
    fn entries_of(&self, table: u64) -> impl Iterator<Item = (u32, Entry)> + '_ {
        self.entries
            .range((table, 0)..(table, u32::MAX))
            .map(|(&(_, index), &entry)| (index, entry))
    }

    /// Fills an empty slot.
    fn put(&mut self, key: SlotKey, cap: Cap) {
        if cap.ty == CapType::Pt && self.slots.values().any(|other| other.is_copy_of(&cap)) {
            self.were_copied.insert(cap.base);
        }
        let old = self.slots.insert(key, cap);
        assert!(old.is_none(), "the model fills a slot in use");
        self.changed.push(key);
    }

    /// Empties a slot, and nothing else.
    fn take(&mut self, key: SlotKey) -> Option<Cap> {
        self.changed.push(key);
        self.slots.remove(&key)
    }

    /// Is there another slot with the same object?
    pub fn has_copies(&self, key: SlotKey) -> bool {
        let Some(cap) = self.slots.get(&key) else { return false };
        self.slots.iter().any(|(&other, c)| other != key && c.is_copy_of(cap))
    }

    /// Was anything made of it, or is it mapped?
    pub fn has_descendants(&self, cap: &Cap) -> bool {
        self.slots.values().any(|other| other.descends_from(cap))
    }
}
