//! What a part holds, and random operations on it.
//!
//! A capability that has never left this core, nor anything of the memory it was made of, is *private*:
//! its operations must do exactly what they do on one core. Of the others it is known what a slot holds
//! if it holds anything, for any core may revoke them at any time; and that an empty slot stays empty.

use crate::board::{Board, Failure, Seen};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::SeqCst;
use core::time::Duration;
use libos::cores;
use libos::interface::OwnedCap;
use libos::ram::Ram;
use libos::vspace::{R, RW};
use libos::{domain, thread, Cap, CapAddr, CapType, Rights, Status, PAGE};
use testkit::Rng;

/// Slots for capabilities, and of Mappings.
const SLOTS: u32 = 64;
const MAPPINGS: u32 = 16;
/// Bytes of what everything is made of, and how many of it a part makes between two rest points.
const ROOT_BYTES: u64 = 16 * PAGE;
const MOST_ROOTS: usize = 24;
/// Capabilities that may be on their way to a core.
const MOST_SENT: u64 = 8;
/// The key of what is sent to a core, less the core.
const MAIL: u64 = 0x70_726f_746f << 8;
/// How often the mail is looked at before it counts as lost.
const PATIENCE: u32 = 50_000;

/// Something that capabilities are to.
#[derive(Clone, Copy)]
struct Object {
    seen: Seen,
    /// What it was made of, if that is known.
    parent: Option<u32>,
    /// What this was made of, at last.
    root: u32,
    /// Of a root: others have something of it.
    shared: bool,
}

/// What should be in a slot.
#[derive(Clone, Copy)]
struct Held {
    object: u32,
    rights: Rights,
}

/// The model of a part.
pub struct Holdings {
    core: u32,
    random: Rng,
    first: CapAddr,
    slots: Vec<Option<Held>>,
    objects: BTreeMap<u32, Object>,
    made: u32,
    roots: usize,
    table: CapAddr,
    mappings: CapAddr,
}

impl Holdings {
    /// Nothing is held yet.
    pub fn new(core: u32, seed: u64) -> Result<Holdings, Status> {
        let (first, mappings, table) = domain::with(|domain| {
            Ok((domain.slot_range(SLOTS)?, domain.slot_range(MAPPINGS)?, domain.slot()?))
        })?;
        let mut random =
            Rng::with_seed(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(core + 1) | 1);
        // The first numbers of similar seeds are similar.
        for _ in 0..8 {
            random.u64(..);
        }
        let slots = alloc::vec![None; SLOTS as usize];
        let objects = BTreeMap::new();
        let (made, roots) = (0, 0);
        Ok(Holdings { core, random, first, slots, objects, made, roots, table, mappings })
    }

    /// A number below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.random.u64(..limit)
    }

    /// Any core.
    pub fn any_core(&mut self) -> u32 {
        self.below(cores::count().into()) as u32
    }

    /// The core of this part.
    pub fn core(&self) -> u32 {
        self.core
    }

    fn slot(&self, n: usize) -> CapAddr {
        self.first.plus(n as u32)
    }

    fn free(&mut self) -> Option<usize> {
        let free: Vec<usize> = (0..self.slots.len()).filter(|&n| self.slots[n].is_none()).collect();
        (!free.is_empty()).then(|| free[self.random.usize(..free.len())])
    }

    /// A slot that should hold something.
    fn held(&mut self) -> Option<(usize, Held)> {
        let held: Vec<(usize, Held)> =
            self.slots.iter().enumerate().filter_map(|(n, held)| Some((n, (*held)?))).collect();
        (!held.is_empty()).then(|| held[self.random.usize(..held.len())])
    }

    fn is_shared(&self, object: u32) -> bool {
        self.objects[&self.objects[&object].root].shared
    }

    /// Others have something of this.
    fn share(&mut self, object: u32) {
        let root = self.objects[&object].root;
        if let Some(root) = self.objects.get_mut(&root) {
            root.shared = true;
        }
    }

    fn new_object(&mut self, seen: Seen, parent: Option<u32>, shared: bool) -> u32 {
        self.made += 1;
        let number = self.made;
        let root = parent.map_or(number, |parent| self.objects[&parent].root);
        self.objects.insert(number, Object { seen, parent, root, shared });
        number
    }

    fn comes_from(&self, object: u32, ancestor: u32) -> bool {
        let mut next = Some(object);
        while let Some(object) = next {
            if object == ancestor {
                return true;
            }
            next = self.objects[&object].parent;
        }
        false
    }

    /// So many random operations.
    pub fn run(&mut self, board: &Board, count: u64) -> Result<(), Failure> {
        if self.table.identify().is_err() {
            domain::with(|domain| domain.arena.make(CapType::Pt, PAGE, 1, self.table.into()))?;
        }
        for _ in 0..count {
            self.step(board)?;
        }
        Ok(())
    }

    /// One random operation on what is held here.
    fn step(&mut self, board: &Board) -> Result<(), Failure> {
        match self.random.u64(..100) {
            0..4 => self.make_root(),
            4..22 => self.retype(),
            22..34 => self.copy(Rights::ALL),
            34..40 => {
                let kept = [Rights::READ, Rights::READ.or(Rights::REVOKE), Rights::NONE];
                let rights = kept[self.random.usize(..3)];
                self.copy(rights)
            }
            40..52 => self.send(board),
            52..62 => self.take(board).map(|_| ()),
            62..72 => self.map(),
            72..80 => self.unmap(),
            80..94 => self.delete(),
            94..97 => self.revoke(),
            _ => self.look(),
        }
    }

    fn make_root(&mut self) -> Result<(), Failure> {
        let Some(n) = self.free() else { return Ok(()) };
        if self.roots >= MOST_ROOTS {
            return Ok(());
        }
        self.roots += 1;
        let slot = self.slot(n);
        domain::with(|domain| domain.arena.make(CapType::Ram, ROOT_BYTES, 1, slot.into()))?;
        let what = slot.identify()?;
        let object = self.new_object(Seen::of(&what), None, false);
        self.slots[n] = Some(Held { object, rights: what.rights });
        Ok(())
    }

    /// What may come when other cores work on the same: the capability has gone, is in use, or the
    /// slots are.
    #[track_caller]
    fn expect(&self, object: u32, result: Result<(), Status>) -> Result<bool, Failure> {
        match result {
            Ok(()) => Ok(true),
            Err(Status::Empty | Status::HasDescendants) if self.is_shared(object) => Ok(false),
            Err(status) => Err(Failure::here(Some(status))),
        }
    }

    fn retype(&mut self) -> Result<(), Failure> {
        let (Some((n, held)), Some(to)) = (self.held(), self.free()) else { return Ok(()) };
        let source = self.objects[&held.object].seen;
        let types = [CapType::Ram, CapType::Frame, CapType::Frame, CapType::Endpoint];
        let ty = types[self.random.usize(..4)];
        let pages = source.bytes / PAGE;
        let bytes = match ty {
            CapType::Endpoint => PAGE,
            _ => PAGE << self.random.u64(..3),
        };
        let offset = (self.random.u64(..pages.max(1)) * PAGE) & !(bytes - 1);
        let fits = offset + bytes <= source.bytes && source.base.is_multiple_of(bytes);
        let is_copy = ty == source.ty && bytes == source.bytes;
        if !source.ty.can_retype_to(ty) || !fits || is_copy {
            return Ok(());
        }
        let (from, dst) = (self.slot(n), self.slot(to));
        // What else has been made of it is not noted by range, so it may be in use.
        match from.retype(ty, offset, bytes, 1, dst) {
            Err(Status::HasDescendants | Status::NoRights) => return Ok(()),
            result => {
                if !self.expect(held.object, result)? {
                    return self.forget_if_gone(n);
                }
            }
        }
        let (base, relations) = (source.base + offset, 0);
        let object = self.new_object(Seen { base, bytes, ty, relations }, Some(held.object), false);
        let rights = match self.slot(to).identify() {
            Ok(what) => what.rights,
            Err(_) if self.is_shared(object) => return Ok(()),
            Err(status) => return Err(status.into()),
        };
        self.slots[to] = Some(Held { object, rights });
        self.check_slot(to)
    }

    fn copy(&mut self, rights: Rights) -> Result<(), Failure> {
        let (Some((n, held)), Some(to)) = (self.held(), self.free()) else { return Ok(()) };
        let (from, dst) = (self.slot(n), self.slot(to));
        let result = match rights {
            Rights::ALL => from.copy_to(dst),
            _ => from.mint(dst, rights),
        };
        if !self.expect(held.object, result)? {
            return self.forget_if_gone(n);
        }
        self.slots[to] = Some(Held { rights: held.rights.and(rights), ..held });
        self.check_slot(to)
    }

    /// Sends a capability to a random core, unless too much waits there.
    fn send_any(&mut self, board: &Board, cap: Result<OwnedCap, Status>) -> Result<(), Status> {
        let core = self.random.u32(..board.cores());
        let sent = board.sent_to(core);
        if sent.fetch_add(1, SeqCst) >= MOST_SENT {
            sent.fetch_sub(1, SeqCst);
            return Ok(());
        }
        let result = cap.and_then(|cap| cores::send(core, MAIL + u64::from(core), cap));
        if result.is_err() {
            sent.fetch_sub(1, SeqCst);
        }
        result
    }

    /// Sends what is not held here to a random core. It may have been revoked before.
    pub fn give(&mut self, board: &Board, cap: OwnedCap) -> Result<(), Failure> {
        match self.send_any(board, Ok(cap)) {
            Ok(()) | Err(Status::Empty) => Ok(()),
            Err(status) => Err(status.into()),
        }
    }

    fn send(&mut self, board: &Board) -> Result<(), Failure> {
        let Some((n, held)) = self.held() else { return Ok(()) };
        self.share(held.object);
        let copy = OwnedCap::copy_of(self.slot(n));
        let result = self.send_any(board, copy);
        match self.expect(held.object, result)? {
            true => Ok(()),
            false => self.forget_if_gone(n),
        }
    }

    /// Takes one capability, which is deleted soon. Was there one?
    pub fn take_one(&mut self, board: &Board) -> Result<bool, Failure> {
        if self.free().is_none() {
            self.delete()?;
        }
        self.take(board)
    }

    /// Takes one capability that was sent to this core. Was there one?
    fn take(&mut self, board: &Board) -> Result<bool, Failure> {
        let Some(n) = self.free() else { return Ok(false) };
        let cap = match cores::try_receive(MAIL + u64::from(self.core)) {
            Ok(cap) => cap,
            Err(Status::Again) => return Ok(false),
            // It was revoked on its way.
            Err(Status::Empty) => {
                self.was_taken(board);
                return Ok(true);
            }
            Err(status) => return Err(status.into()),
        };
        self.was_taken(board);
        let slot = self.slot(n);
        let moved = cap.cap().move_to(slot).and_then(|()| slot.identify());
        match moved {
            Ok(what) => {
                let object = self.known(Seen::of(&what));
                self.slots[n] = Some(Held { object, rights: what.rights });
                Ok(true)
            }
            Err(Status::Empty) => Ok(true),
            Err(status) => Err(status.into()),
        }
    }

    fn was_taken(&self, board: &Board) {
        board.sent_to(self.core).fetch_sub(1, SeqCst);
    }

    /// The object of what came from another core.
    fn known(&mut self, seen: Seen) -> u32 {
        let known = self.objects.iter().find(|(_, object)| object.seen.is_same(&seen));
        match known.map(|(&number, _)| number) {
            Some(object) if self.is_shared(object) => object,
            _ => self.new_object(seen, None, true),
        }
    }

    fn map(&mut self) -> Result<(), Failure> {
        let Some((n, held)) = self.held() else { return Ok(()) };
        let seen = self.objects[&held.object].seen;
        if seen.ty != CapType::Frame {
            return Ok(());
        }
        let entry = self.random.u32(..MAPPINGS);
        let mapping = self.mappings.plus(entry);
        if mapping.identify().is_ok() {
            mapping.delete()?;
        }
        let writable = held.rights.has(Rights::READ.or(Rights::WRITE));
        let offset = self.random.u64(..seen.bytes / PAGE) * PAGE;
        let flags = if writable { RW } else { R };
        let result = self.table.map(entry, 1, self.slot(n), offset, flags, mapping);
        match (result, held.rights.has(Rights::READ)) {
            (Err(Status::NoRights), false) => Ok(()),
            (result, _) => match self.expect(held.object, result)? {
                true => Ok(()),
                false => self.forget_if_gone(n),
            },
        }
    }

    fn unmap(&mut self) -> Result<(), Failure> {
        let mapping = self.mappings.plus(self.random.u32(..MAPPINGS));
        match mapping.delete() {
            Ok(()) | Err(Status::Empty) => Ok(()),
            Err(status) => Err(status.into()),
        }
    }

    fn delete(&mut self) -> Result<(), Failure> {
        let Some((n, held)) = self.held() else { return Ok(()) };
        let result = self.slot(n).delete();
        self.expect(held.object, result)?;
        self.slots[n] = None;
        self.check_slot(n)
    }

    fn revoke(&mut self) -> Result<(), Failure> {
        let Some((n, held)) = self.held() else { return Ok(()) };
        let result = self.slot(n).revoke();
        // What cannot change its owner is revoked by that one alone.
        let stays = self.objects[&held.object].seen.ty == CapType::Endpoint;
        if stays && self.is_shared(held.object) && result == Err(Status::Unsupported) {
            return self.forget_if_gone(n);
        }
        if !held.rights.has(Rights::REVOKE) {
            let gone = self.is_shared(held.object) && result == Err(Status::Empty);
            return match result {
                Err(Status::NoRights) => Ok(()),
                _ if gone => self.forget_if_gone(n),
                result => Err(Failure::here(result.err())),
            };
        }
        if !self.expect(held.object, result)? {
            return self.forget_if_gone(n);
        }
        // Nothing of it is left but this, whoever made it.
        let gone: Vec<usize> = (0..self.slots.len())
            .filter(|&other| other != n)
            .filter(|&other| {
                self.slots[other].is_some_and(|other| self.comes_from(other.object, held.object))
            })
            .collect();
        for other in gone {
            self.slots[other] = None;
            self.check_slot(other)?;
        }
        self.check_slot(n)
    }

    fn look(&mut self) -> Result<(), Failure> {
        let n = self.random.usize(..self.slots.len());
        self.check_slot(n)
    }

    /// Somebody may have revoked it.
    fn forget_if_gone(&mut self, n: usize) -> Result<(), Failure> {
        self.check_slot(n)
    }

    /// Is in the slot what should be there?
    #[track_caller]
    fn check_slot(&mut self, n: usize) -> Result<(), Failure> {
        match (self.slots[n], self.slot(n).identify()) {
            (None, Err(Status::Empty)) => Ok(()),
            (Some(held), Ok(what)) => {
                let seen = Seen::of(&what);
                let same = self.objects[&held.object].seen.is_same(&seen);
                match same && what.rights == held.rights {
                    true => Ok(()),
                    false => Err(Failure::here(None)),
                }
            }
            (Some(held), Err(Status::Empty)) if self.is_shared(held.object) => {
                self.slots[n] = None;
                Ok(())
            }
            (_, result) => Err(Failure::here(result.err())),
        }
    }

    /// Takes all that was sent to this core. It must come.
    pub fn collect(&mut self, board: &Board) -> Result<(), Failure> {
        for _ in 0..PATIENCE {
            if board.sent_to(self.core).load(SeqCst) == 0 {
                return Ok(());
            }
            if !self.take_one(board)? {
                thread::sleep(Duration::from_micros(100));
            }
        }
        Err(Failure::here(None))
    }

    /// Compares everything that is held, and shows it: how many.
    pub fn inspect(&mut self, board: &Board) -> Result<u64, Failure> {
        let mut held = Vec::new();
        for n in 0..self.slots.len() {
            self.check_slot(n)?;
            if let Ok(what) = self.slot(n).identify() {
                held.push(Seen::of(&what));
            }
        }
        board.show(self.core, &held);
        Ok(held.len() as u64)
    }

    /// Deletes everything.
    pub fn clear(&mut self) -> Result<(), Failure> {
        for n in 0..self.slots.len() {
            if let Some(held) = self.slots[n] {
                let result = self.slot(n).delete();
                self.expect(held.object, result)?;
                self.slots[n] = None;
            }
            self.check_slot(n)?;
        }
        for slot in (0..MAPPINGS).map(|n| self.mappings.plus(n)).chain([self.table]) {
            if slot.identify().is_ok() {
                slot.delete()?;
            }
        }
        self.objects.clear();
        self.roots = 0;
        domain::with(|domain| domain.arena.release())?;
        Ok(())
    }
}
