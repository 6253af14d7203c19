//! The protocol on a core whose CPU driver takes its steps as invocations of the Kernel capability.
//!
//! Monitors are this with rings between them. So are the tests of the kernel, on the host.

use crate::homes::Homes;
use crate::{
    Attempt, CoreId, Cores, CpuDriver, Held, Message, Monitor, Need, Outside, Progress, Region,
    Relations, WireCap,
};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use captypes::invocations::{Asked, Held as Flags, Invocation, Need as Asks, Value};
use captypes::{op, Label, Place, Status, Tree};
use core::ops::Range;

/// Who has invoked what the kernel has handed on: the invoker's name, the number of the request.
pub type Invoker = (u64, u64);

/// Who waits for the end of a request.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Client {
    /// Whoever invoked.
    Invoker(Invoker),
    /// The monitor itself, on account of something with this number.
    Own(u32),
}

/// What is asked for. Slots are named by their physical addresses.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Request {
    /// An invocation that the kernel has handed on.
    Redirected(Invoker),
    /// To delete what is in this slot.
    Delete(u64),
    /// To put a copy of what is in `slot` in a place on another core.
    Send { slot: u64, to: CoreId, place: u64 },
}

/// How a request ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// The kernel has told the invoker.
    Settled,
    /// It is to be told this.
    Status(Result<(), Status>),
}

impl From<Result<(), Status>> for Answer {
    fn from(result: Result<(), Status>) -> Self {
        Answer::Status(result)
    }
}

/// What a site is connected to.
pub trait Links {
    /// Invokes the Kernel capability of this core.
    fn invoke<I: Invocation>(&mut self, step: I) -> Result<I::Reply, Status>;
    /// The kernel has refused a step, which it should not. The protocol goes on as if it were done.
    fn refused(&mut self, step: Label, error: Status);
    /// Sends a message to the monitor of another core. They arrive once and in order.
    fn send(&mut self, to: CoreId, message: Message);
    /// What the monitor itself has begun with this number ([`Client::Own`]) has ended.
    fn ended(&mut self, number: u32, result: Result<(), Status>);
}

/// The protocol's part of one core.
#[derive(Debug)]
pub struct Site {
    monitor: Monitor<Request, Client>,
    known: Known,
}

/// What the steps need besides.
#[derive(Debug)]
struct Known {
    homes: Homes,
    /// The slots that invocations are about.
    slots: BTreeMap<Invoker, u64>,
    /// Slots of which the kernel has deleted a part.
    unfinished: Vec<u64>,
}

impl Site {
    /// That of `core`, when no core has sent anything to another. `homes`: by number of the core, the
    /// memory that each had at the start; that of core 0 is all the rest.
    pub fn new(core: CoreId, homes: Vec<Range<u64>>) -> Site {
        let homes = Homes::new(homes);
        let known = Known { homes, slots: BTreeMap::new(), unfinished: Vec::new() };
        Site { monitor: Monitor::new(core), known }
    }

    /// Memory that no core has anything of is at home on another core from now on. All cores must have been told before anything is
    /// made of it there.
    pub fn rehome(&mut self, memory: Range<u64>, core: CoreId) {
        self.known.homes.set(memory, core);
    }

    /// The kernel has handed on an invocation, with these words.
    pub fn redirected(&mut self, links: &mut impl Links, words: [u64; 6]) {
        let [_, invoker, ticket, slot, ..] = words;
        let invoker = (invoker, ticket);
        self.known.slots.insert(invoker, slot);
        self.request(links, Some(Client::Invoker(invoker)), Request::Redirected(invoker));
    }

    /// A request of this core; without a client, nobody waits for its end.
    pub fn request(&mut self, links: &mut impl Links, client: Option<Client>, request: Request) {
        self.monitor.request(&mut Step { known: &mut self.known, links }, client, request);
    }

    /// The monitor of another core has said something.
    pub fn message(&mut self, links: &mut impl Links, from: CoreId, message: Message) {
        self.monitor.message(&mut Step { known: &mut self.known, links }, from, message);
    }

    /// Begins to delete one of the things that the kernel may have left. Was there any?
    pub fn take_left(&mut self, links: &mut impl Links) -> bool {
        let left = links.invoke(op::NextLeft {}).map_or(0, |left| left.value);
        if left != 0 {
            self.request(links, None, Request::Delete(left));
        }
        left != 0
    }

    /// Goes on with what takes several steps. Is there more?
    pub fn work(&mut self, links: &mut impl Links) -> bool {
        for slot in core::mem::take(&mut self.known.unfinished) {
            self.request(links, None, Request::Delete(slot));
        }
        if self.monitor.has_work() {
            self.monitor.work(&mut Step { known: &mut self.known, links });
        }
        self.has_work()
    }

    /// Is there anything to go on with?
    pub fn has_work(&self) -> bool {
        self.monitor.has_work() || !self.known.unfinished.is_empty()
    }

    /// Is nothing going on: no operation, no lock, nobody waiting?
    pub fn is_quiet(&self) -> bool {
        let Known { slots, unfinished, .. } = &self.known;
        self.monitor.is_quiet() && slots.is_empty() && unfinished.is_empty()
    }
}

/// A site during one event.
struct Step<'a, L> {
    known: &'a mut Known,
    links: &'a mut L,
}

fn progress(result: Result<(), Status>) -> Progress {
    match result {
        Err(Status::Again) => Progress::Again,
        _ => Progress::Done,
    }
}

fn is_one(result: Result<Value, Status>) -> bool {
    result.is_ok_and(|reply| reply.value != 0)
}

/// One step of the CPU driver, with a capability and what else it needs.
macro_rules! step {
    ($step:ident, $op:ident, $cap:ident $(, $field:ident: $value:expr)*) => {
        $step.kernel(op::$op {
            cap: *$cap, $($field: $value),*
        })
    };
}

impl<L: Links> Step<'_, L> {
    /// An invocation of the kernel that is not refused unless something is wrong.
    fn kernel<I: Invocation>(&mut self, step: I) -> Result<I::Reply, Status> {
        let result = self.links.invoke(step);
        if let Err(error) = result {
            if !matches!(error, Status::Again | Status::Empty) {
                self.links.refused(I::LABEL, error);
            }
        }
        result
    }

    fn held_at(&mut self, slot: u64) -> Option<(WireCap, Flags)> {
        let held = self.links.invoke(op::HeldAt { slot }).ok()?;
        Some((held.cap, held))
    }

    /// What an invocation that came to no end needs.
    fn attempt_of(&mut self, asked: Asked) -> Attempt<Answer> {
        let need = match asked.need {
            Asks::Nothing => return Attempt::Done(Answer::Settled),
            Asks::Unlocked => return Attempt::Locked,
            Asks::Delete => Need::Delete,
            Asks::Revoke => Need::Revoke,
            Asks::Retype => {
                let tree = self.held_at(asked.slot).map_or(0, |(cap, _)| cap.region().tree);
                let end = asked.base.saturating_add(asked.bytes);
                Need::Retype { part: Region { tree, base: asked.base, end } }
            }
        };
        match self.held_at(asked.slot) {
            Some((cap, _)) => Attempt::Remote { cap, need },
            None => Attempt::Done(Answer::Status(Err(Status::Empty))),
        }
    }

    fn proceed(&mut self, invoker: Invoker, checked: bool) -> Attempt<Answer> {
        match self.kernel(op::Proceed { client: invoker.0, ticket: invoker.1, checked }) {
            Ok(asked) => {
                self.known.slots.insert(invoker, asked.slot);
                self.attempt_of(asked)
            }
            // It has gone.
            Err(_) => Attempt::Done(Answer::Settled),
        }
    }

    fn slot_of(&self, request: &Request) -> u64 {
        match request {
            Request::Redirected(invoker) => self.known.slots.get(invoker).copied().unwrap_or(0),
            Request::Delete(slot) | Request::Send { slot, .. } => *slot,
        }
    }
}

impl<L: Links> CpuDriver for Step<'_, L> {
    type Request = Request;
    type Answer = Answer;

    fn home(&self, cap: &WireCap) -> Option<CoreId> {
        let region = cap.region();
        if region.tree == Tree::Morsel as u8 {
            // That of its pool, where there may always be more of it.
            return Some(CoreId(cap.aux as u8));
        }
        if !region.is_memory() {
            return Some(CoreId(0));
        }
        self.known.homes.of(region.base..region.end)
    }

    fn attempt(&mut self, request: &Request) -> Attempt<Answer> {
        match *request {
            Request::Redirected(invoker) => self.proceed(invoker, false),
            Request::Delete(slot) => match self.kernel(op::DeleteAt { slot }) {
                // What is left may need room that is made by what comes between.
                Err(Status::Again) => {
                    self.known.unfinished.push(slot);
                    Attempt::Done(Answer::Settled)
                }
                Ok(asked) => self.attempt_of(asked),
                Err(error) => Attempt::Done(Answer::Status(Err(error))),
            },
            Request::Send { slot, to, place } => match self.held_at(slot) {
                Some((cap, held)) if cap.can_travel() && held.flags & Flags::STAYS == 0 => {
                    Attempt::Remote { cap, need: Need::Send { to, place } }
                }
                Some(_) => Attempt::Done(Answer::Status(Err(Status::WrongType))),
                None => Attempt::Done(Answer::Status(Err(Status::Empty))),
            },
        }
    }

    fn held(&mut self, request: &Request, cap: &WireCap) -> Option<Held> {
        let (now, held) = self.held_at(self.slot_of(request))?;
        let same = (now.ty, now.base, now.size) == (cap.ty, cap.base, cap.size);
        same.then_some(Held {
            owned: held.flags & Flags::OWNED != 0,
            alone: held.flags & Flags::ALONE != 0,
            remote_copies: held.flags & Flags::REMOTE_COPIES != 0,
            remote_descendants: held.flags & Flags::REMOTE_DESCENDANTS != 0,
        })
    }

    fn share(&mut self, cap: &WireCap) -> Progress {
        progress(step!(self, Share, cap))
    }

    fn retype(&mut self, request: &Request) -> Attempt<Answer> {
        match *request {
            Request::Redirected(invoker) => self.proceed(invoker, true),
            _ => Attempt::Done(Answer::Status(Err(Status::Invalid))),
        }
    }

    fn revoke(&mut self, request: &Request, cap: &WireCap) -> Progress {
        let slot = self.slot_of(request);
        progress(step!(self, RevokeRest, cap, slot: slot))
    }

    fn disown(&mut self, cap: &WireCap) {
        // What is refused is reported by `kernel`.
        let _ = step!(self, Disown, cap);
    }

    fn delete_last(&mut self, _: &Request, cap: &WireCap) -> Progress {
        progress(step!(self, DeleteEverywhere, cap))
    }

    fn insert(&mut self, cap: &WireCap, place: u64) -> Result<(), Status> {
        step!(self, InsertCopy, cap, dst: Place(place))
    }

    fn in_use(&mut self, cap: &WireCap, part: Region) -> bool {
        is_one(step!(self, InUse, cap, start: part.base, bytes: part.end - part.base))
    }

    fn own(&mut self, cap: &WireCap) -> bool {
        is_one(step!(self, Own, cap))
    }

    fn has_copy(&mut self, cap: &WireCap) -> bool {
        is_one(step!(self, HasCopy, cap))
    }

    fn lock(&mut self, cap: &WireCap) {
        // What is refused is reported by `kernel`.
        let _ = step!(self, Lock, cap);
    }

    fn unlock(&mut self, cap: &WireCap) {
        // What is refused is reported by `kernel`.
        let _ = step!(self, Unlock, cap);
    }

    fn sweep(&mut self, cap: &WireCap) -> Progress {
        progress(step!(self, Sweep, cap))
    }

    fn makers(&mut self, region: Region) -> Cores {
        Cores(self.kernel(op::Makers { base: region.base }).map_or(0, |makers| makers.value))
    }

    fn first_cover(&mut self, region: Region) -> Option<Region> {
        let bytes = region.end - region.base;
        let span = self.kernel(op::FirstCover { start: region.base, bytes }).ok()?;
        let end = span.base.saturating_add(span.bytes);
        (span.bytes != 0).then_some(Region { base: span.base, end, ..region })
    }

    fn give_back(&mut self, region: Region) {
        let bytes = region.end - region.base;
        // What is refused is reported by `kernel`.
        let _ = self.kernel(op::GiveBack { start: region.base, bytes });
    }
}

impl<L: Links> Outside for Step<'_, L> {
    type Client = Client;

    fn send(&mut self, to: CoreId, message: Message) {
        self.links.send(to, message);
    }

    fn finish(&mut self, client: Client, answer: Answer) {
        match (client, answer) {
            (Client::Invoker(invoker), answer) => {
                self.known.slots.remove(&invoker);
                let Answer::Status(result) = answer else { return };
                let status = result.map_or_else(Status::to_word, |()| 0);
                // An invoker that has gone needs no answer.
                let _ = self.kernel(op::Finish { client: invoker.0, ticket: invoker.1, status });
            }
            (Client::Own(number), Answer::Status(result)) => self.links.ended(number, result),
            (Client::Own(number), Answer::Settled) => self.links.ended(number, Ok(())),
        }
    }
}
