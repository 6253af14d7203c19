//! An operation that concerns several cores, on the core that coordinates it.
//!
//! ```text
//! Locking ─┬─ Send ───── Sharing ── Copying ──────────────────────────────┐
//!          ├─ Retype ─── Checking ────────────────────────────────────────┤
//!          ├─ Delete ─┬─ Finding ── Taking ── (now foreign: local delete) ─┤
//!          │          └─ (or) ─ Marking ── Sweeping ── Deleting ── Covering ─┤
//!          └─ Revoke ─── Marking ── Sweeping ── Revoking ──────────────────┴─ end
//! ```

use crate::monitor::{answer_to, home_of, Monitor, Request};
use crate::mutation::Mutation;
use crate::{
    Attempt, Change, CoreId, Cores, Held, Message, Need, OpId, Outside, Progress, Region,
    Relations, WireCap,
};
use captypes::Status;

/// What an operation waits for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Phase {
    /// The home lets it begin.
    Locking,
    /// The CPU driver sets hints.
    Sharing,
    /// The other core inserts the copy.
    Copying,
    /// Others look for descendants.
    Checking { waiting: Cores, in_use: bool },
    /// Others look for copies.
    Finding { waiting: Cores, copies: Cores },
    /// A core with a copy becomes the owner; if it has none any more, these may.
    Taking { copies: Cores },
    /// Others lock copies and descendants.
    Marking { waiting: Cores },
    /// Others delete copies and descendants.
    Sweeping { waiting: Cores },
    /// The CPU driver deletes copies and descendants of this core.
    Revoking,
    /// The CPU driver deletes the last copy.
    Deleting,
    /// Cores say what they cover from the first address on.
    Covering { at: u64, waiting: Cores },
}

/// An operation.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Operation<Q, C> {
    request: Request<Q, C>,
    pub cap: WireCap,
    need: Need,
    /// Keeps the books of `cap`.
    pub home: CoreId,
    /// The other cores concerned.
    others: Cores,
    /// The CPU driver of this core has locked `cap`.
    pub locked: bool,
    /// Others have said what they cover.
    asked: bool,
    /// The first part of `cap` that another core covers, as far as others have said.
    cover: Option<Region>,
    /// Something covers part of `cap`.
    covered: bool,
    phase: Phase,
}

impl<Q, C> Operation<Q, C> {
    pub fn new(request: Request<Q, C>, cap: WireCap, need: Need, home: CoreId) -> Self {
        let (others, phase) = (Cores::NONE, Phase::Locking);
        let (locked, asked, cover, covered) = (false, false, None, false);
        Operation { request, cap, need, home, others, locked, asked, cover, covered, phase }
    }

    /// What it locks at the home.
    pub fn region(&self) -> Region {
        match self.need {
            Need::Retype { part } => part,
            _ => self.cap.region(),
        }
    }

    /// Does it wait for its own CPU driver?
    pub fn is_unfinished(&self) -> bool {
        matches!(self.phase, Phase::Sharing | Phase::Revoking | Phase::Deleting)
    }

    /// Another core covers this; the first counts.
    fn note_cover(&mut self, cover: Option<Region>) {
        self.asked = true;
        self.covered |= cover.is_some();
        self.cover = match (self.cover, cover) {
            (Some(a), Some(b)) => Some(earlier(a, b)),
            (a, b) => a.or(b),
        };
    }
}

/// The one that begins first, and of those that begin together the longer one.
fn earlier(a: Region, b: Region) -> Region {
    match (a.base, u64::MAX - a.end) <= (b.base, u64::MAX - b.end) {
        true => a,
        false => b,
    }
}

impl<Q: Clone, C: Clone> Monitor<Q, C> {
    fn operation(&mut self, id: OpId) -> Option<&mut Operation<Q, C>> {
        self.operations.iter_mut().find(|(other, _)| *other == id).map(|(_, op)| op)
    }

    fn set_phase(&mut self, id: OpId, phase: Phase) {
        if let Some(operation) = self.operation(id) {
            operation.phase = phase;
        }
    }

    /// What the slot of the operation's request holds, if it is what it was.
    fn held<W>(&mut self, world: &mut W, id: OpId) -> Option<Held>
    where
        W: Outside<Request = Q, Client = C>,
    {
        let operation = self.operation(id)?;
        let cap = operation.cap;
        world.held(&operation.request.request, &cap)
    }

    /// An answer to operation `id`. Those that it does not expect are ignored.
    pub(crate) fn answered<W>(&mut self, world: &mut W, id: OpId, from: CoreId, message: Message)
    where
        W: Outside<Request = Q, Client = C>,
    {
        let bug = self.bug;
        let Some(operation) = self.operation(id) else { return };
        let rest = |waiting: Cores| waiting.without(Cores::only(from));
        match (operation.phase, message) {
            (Phase::Locking, Message::Granted { others, .. }) => {
                operation.others = others;
                self.granted(world, id);
            }
            (Phase::Copying, Message::Copied { error, .. }) => {
                let result = error.map_or(Ok(()), Err);
                let change = match operation.need {
                    Need::Send { to, .. } if result.is_ok() => Change::Sent(to),
                    _ => Change::Same,
                };
                self.end(world, id, change, result);
            }
            (Phase::Checking { waiting, in_use }, Message::Checked { in_use: also, .. }) => {
                let before = in_use && !bug.is(Mutation::LastAnswerWins);
                let (waiting, in_use) = (rest(waiting), before || also);
                operation.phase = Phase::Checking { waiting, in_use };
                self.checked(world, id, waiting, in_use);
            }
            (Phase::Finding { waiting, copies }, Message::Found { copy, cover, .. }) => {
                let waiting = rest(waiting);
                // A copy covers all of it, and may be gone when it is to become the owner.
                let copies = match copy {
                    true => copies.or(Cores::only(from)),
                    false => copies,
                };
                if !copy || bug.is(Mutation::StaleCover) {
                    operation.note_cover(cover);
                }
                operation.phase = Phase::Finding { waiting, copies };
                if waiting.is_empty() {
                    self.take(world, id, copies);
                }
            }
            (Phase::Taking { copies }, Message::Found { copy, cover, .. }) => {
                if copy {
                    return self.given_away(world, id);
                }
                operation.note_cover(cover);
                self.take(world, id, copies);
            }
            (Phase::Marking { waiting }, Message::Marked { .. }) => {
                let waiting = rest(waiting);
                operation.phase = Phase::Marking { waiting };
                if waiting.is_empty() {
                    self.sweep_others(world, id);
                }
            }
            (Phase::Sweeping { waiting }, Message::Swept { cover, .. }) => {
                let waiting = rest(waiting);
                operation.note_cover(cover);
                operation.phase = Phase::Sweeping { waiting };
                if waiting.is_empty() {
                    self.swept(world, id);
                }
            }
            (Phase::Covering { at, waiting }, Message::Covered { cover, .. }) => {
                let waiting = rest(waiting);
                operation.note_cover(cover);
                operation.phase = Phase::Covering { at, waiting };
                if waiting.is_empty() {
                    self.covered(world, id, at);
                }
            }
            _ => {}
        }
    }

    /// Goes on with a step that the CPU driver has not finished.
    pub(crate) fn go_on<W>(&mut self, world: &mut W, id: OpId)
    where
        W: Outside<Request = Q, Client = C>,
    {
        match self.operation(id).map(|operation| operation.phase) {
            Some(Phase::Sharing) => self.share(world, id),
            Some(Phase::Revoking) => self.revoke_here(world, id),
            Some(Phase::Deleting) => self.delete_last(world, id),
            _ => {}
        }
    }

    /// The region is the operation's. What it is about may have changed while it waited.
    fn granted<W>(&mut self, world: &mut W, id: OpId)
    where
        W: Outside<Request = Q, Client = C>,
    {
        let Some(held) = self.held(world, id) else {
            return match self.bug.is(Mutation::TrustOldSlot) {
                true => self.share(world, id),
                false => self.retry(world, id),
            };
        };
        let bug = self.bug;
        let Some(operation) = self.operation(id) else { return };
        let (cap, others) = (operation.cap, operation.others);
        if home_of(world, &cap, operation.need) != Some(operation.home) {
            // What it was about has gone, its memory has found another home, and the same has been made of it again.
            return self.retry(world, id);
        }
        match operation.need {
            Need::Send { .. } => self.share(world, id),
            Need::Retype { .. } if bug.is(Mutation::CheckLocally) => {
                self.checked(world, id, Cores::NONE, false);
            }
            Need::Retype { part } => {
                self.set_phase(id, Phase::Checking { waiting: others, in_use: false });
                self.post_all(world, others, Message::Check { op: id, cap, part });
                self.checked(world, id, others, false);
            }
            Need::Delete if !held.owned || !held.alone => self.retry(world, id),
            Need::Delete if others.is_empty() || !held.remote_copies => self.last(world, id),
            Need::Delete if !cap.is_moveable() => self.mark(world, id),
            Need::Delete if others.count() == 1 => self.take(world, id, others),
            Need::Delete => {
                let finding = Phase::Finding { waiting: others, copies: Cores::NONE };
                self.set_phase(id, finding);
                self.post_all(world, others, Message::Find { op: id, cap, take: false });
            }
            Need::Revoke if !held.owned && !cap.is_moveable() => {
                self.end(world, id, Change::Same, Err(Status::Unsupported));
            }
            Need::Revoke => self.mark(world, id),
        }
    }

    /// Lets go of the region and begins anew: what the operation is about has changed.
    fn retry<W>(&mut self, world: &mut W, id: OpId)
    where
        W: Outside<Request = Q, Client = C>,
    {
        if self.bug.is(Mutation::KeepRegion) {
            self.operations.retain(|(other, _)| *other != id);
            return;
        }
        if let Some(operation) = self.release(world, id, Change::Same) {
            self.begin(world, operation.request);
        }
    }

    /// Ends the operation and answers.
    fn end<W>(&mut self, world: &mut W, id: OpId, change: Change, result: Result<(), Status>)
    where
        W: Outside<Request = Q, Client = C>,
    {
        if let Some(operation) = self.release(world, id, change) {
            answer_to(world, operation.request.client, result.into());
        }
    }

    // To another core.

    fn share<W>(&mut self, world: &mut W, id: OpId)
    where
        W: Outside<Request = Q, Client = C>,
    {
        if self.held(world, id).is_none() && !self.bug.is(Mutation::TrustOldSlot) {
            return self.retry(world, id);
        }
        let bug = self.bug;
        let Some(operation) = self.operation(id) else { return };
        let (cap, Need::Send { to, place }) = (operation.cap, operation.need) else { return };
        operation.phase = Phase::Sharing;
        if bug.is(Mutation::SendUnmarked) || world.share(&cap) == Progress::Done {
            self.set_phase(id, Phase::Copying);
            self.post(world, to, Message::Copy { op: id, cap, place });
        }
    }

    // Retype.

    /// When all have answered, the rest is the CPU driver's.
    fn checked<W>(&mut self, world: &mut W, id: OpId, waiting: Cores, in_use: bool)
    where
        W: Outside<Request = Q, Client = C>,
    {
        if !waiting.is_empty() {
            return;
        }
        if self.held(world, id).is_none() {
            return self.retry(world, id);
        }
        if in_use {
            return self.end(world, id, Change::Same, Err(Status::HasDescendants));
        }
        let Some(operation) = self.operation(id) else { return };
        match world.retype(&operation.request.request) {
            Attempt::Done(answer) => {
                if let Some(operation) = self.release(world, id, Change::Same) {
                    answer_to(world, operation.request.client, answer);
                }
            }
            // What locks it goes on when others have been heard: who begins at once anew hears only itself.
            Attempt::Locked => {
                if let Some(operation) = self.release(world, id, Change::Same) {
                    self.waiting.push_back(operation.request);
                }
            }
            Attempt::Remote { .. } => self.retry(world, id),
        }
    }

    // Delete.

    /// Asks the next core to become the owner; if none is left, this is the last copy of all.
    fn take<W>(&mut self, world: &mut W, id: OpId, copies: Cores)
    where
        W: Outside<Request = Q, Client = C>,
    {
        let bug = self.bug;
        let Some(operation) = self.operation(id) else { return };
        let cap = operation.cap;
        match copies.iter().next() {
            Some(_) if bug.is(Mutation::DeleteWithoutHeir) => self.last(world, id),
            Some(core) => {
                operation.phase = Phase::Taking { copies: copies.without(Cores::only(core)) };
                self.post(world, core, Message::Find { op: id, cap, take: true });
            }
            None => self.last(world, id),
        }
    }

    /// Another core is the owner now, so the delete is local.
    fn given_away<W>(&mut self, world: &mut W, id: OpId)
    where
        W: Outside<Request = Q, Client = C>,
    {
        let bug = self.bug;
        let Some(operation) = self.operation(id) else { return };
        if !bug.is(Mutation::KeepOwnership) {
            world.disown(&operation.cap);
        }
        self.retry(world, id);
    }

    /// No other core has a copy: deletes the last one, unless it is not the last any more.
    fn last<W>(&mut self, world: &mut W, id: OpId)
    where
        W: Outside<Request = Q, Client = C>,
    {
        match self.held(world, id) {
            Some(held) if held.owned && held.alone => {
                self.lock(world, id);
                self.delete_last(world, id);
            }
            _ => self.retry(world, id),
        }
    }

    fn lock<W>(&mut self, world: &mut W, id: OpId)
    where
        W: Outside<Request = Q, Client = C>,
    {
        if let Some(operation) = self.operation(id) {
            operation.locked = true;
            world.lock(&operation.cap);
        }
    }

    fn delete_last<W>(&mut self, world: &mut W, id: OpId)
    where
        W: Outside<Request = Q, Client = C>,
    {
        let bug = self.bug;
        let Some(operation) = self.operation(id) else { return };
        operation.phase = Phase::Deleting;
        let (region, asked) = (operation.cap.region(), operation.asked);
        if world.delete_last(&operation.request.request, &operation.cap) == Progress::Again {
            return;
        }
        match (region.is_memory(), asked) {
            (false, _) => self.end(world, id, Change::Gone, Ok(())),
            (true, false) if !bug.is(Mutation::ReclaimUnasked) => {
                self.cover(world, id, region.base);
            }
            (true, _) => self.covered(world, id, region.base),
        }
    }

    // Who covers the rest: memory that nobody covers goes home.

    /// Asks for what is covered from `at` on.
    fn cover<W>(&mut self, world: &mut W, id: OpId, at: u64)
    where
        W: Outside<Request = Q, Client = C>,
    {
        if !self.asks_who_covers(world, id, at) {
            self.covered(world, id, at);
        }
    }

    /// Asks the others for what they cover from `at` on, if there are some.
    fn asks_who_covers<W>(&mut self, world: &mut W, id: OpId, at: u64) -> bool
    where
        W: Outside<Request = Q, Client = C>,
    {
        let Some(operation) = self.operation(id) else { return true };
        let (waiting, region) = (operation.others, Region { base: at, ..operation.cap.region() });
        operation.cover = None;
        operation.phase = Phase::Covering { at, waiting };
        self.post_all(world, waiting, Message::Cover { op: id, region });
        !waiting.is_empty()
    }

    /// Others have said what they cover from `at` on. Where nobody else is to be asked, all pieces are looked at here, however many.
    fn covered<W>(&mut self, world: &mut W, id: OpId, mut at: u64)
    where
        W: Outside<Request = Q, Client = C>,
    {
        loop {
            let Some(operation) = self.operation(id) else { return };
            let region = Region { base: at, ..operation.cap.region() };
            operation.note_cover(world.first_cover(region));
            let (home, cover, covered) = (operation.home, operation.cover, operation.covered);
            let (gap_end, next) = cover.map_or((region.end, region.end), |c| (c.base, c.end));
            if at < gap_end {
                let region = Region { end: gap_end, ..region };
                self.post(world, home, Message::GiveBack { region });
                if self.bug.is(Mutation::ReclaimTwice) {
                    self.post(world, home, Message::GiveBack { region });
                }
            }
            if next >= region.end || self.bug.is(Mutation::StopAtCover) {
                let change = if covered { Change::Same } else { Change::Gone };
                return self.end(world, id, change, Ok(()));
            }
            if self.asks_who_covers(world, id, next) {
                return;
            }
            at = next;
        }
    }

    // Everywhere.

    /// Locks copies and descendants on all cores. A single other core can do it when it deletes them.
    fn mark<W>(&mut self, world: &mut W, id: OpId)
    where
        W: Outside<Request = Q, Client = C>,
    {
        self.lock(world, id);
        let bug = self.bug;
        let Some(operation) = self.operation(id) else { return };
        let (cap, waiting) = (operation.cap, operation.others);
        if waiting.count() < 2 || bug.is(Mutation::SkipMark) {
            return self.sweep_others(world, id);
        }
        operation.phase = Phase::Marking { waiting };
        self.post_all(world, waiting, Message::Mark { op: id, cap });
    }

    fn sweep_others<W>(&mut self, world: &mut W, id: OpId)
    where
        W: Outside<Request = Q, Client = C>,
    {
        let bug = self.bug;
        let Some(operation) = self.operation(id) else { return };
        let (cap, mut waiting) = (operation.cap, operation.others);
        if bug.is(Mutation::SweepOne) {
            waiting = waiting.iter().next().map_or(waiting, Cores::only);
        }
        operation.phase = Phase::Sweeping { waiting };
        self.post_all(world, waiting, Message::Sweep { op: id, cap });
        if waiting.is_empty() {
            self.swept(world, id);
        }
    }

    /// No other core has anything of it any more.
    fn swept<W>(&mut self, world: &mut W, id: OpId)
    where
        W: Outside<Request = Q, Client = C>,
    {
        match self.operation(id).map(|operation| operation.need) {
            Some(Need::Delete) => self.delete_last(world, id),
            _ => self.revoke_here(world, id),
        }
    }

    fn revoke_here<W>(&mut self, world: &mut W, id: OpId)
    where
        W: Outside<Request = Q, Client = C>,
    {
        let Some(operation) = self.operation(id) else { return };
        operation.phase = Phase::Revoking;
        if world.revoke(&operation.request.request, &operation.cap) == Progress::Done {
            self.end(world, id, Change::Alone, Ok(()));
        }
    }
}
