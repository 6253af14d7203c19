//! The monitor of one core: events in, steps of the CPU driver and messages out.

use crate::books::{Books, Claim};
use crate::mutation::{Bug, Mutation};
use crate::operation::Operation;
use crate::{
    Attempt, Change, CoreId, Cores, Message, Need, OpId, Outside, Progress, Region, Relations,
    WireCap,
};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use captypes::{Status, Tree};

/// Operations that one monitor coordinates at a time; other requests of clients wait.
const MAX_OPERATIONS: usize = 64;

/// A request, and who waits for the answer.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Request<Q, C> {
    pub client: Option<C>,
    pub request: Q,
}

/// A sweep for another core that is not done.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Sweeping {
    from: CoreId,
    op: OpId,
    cap: WireCap,
}

/// The part of the protocol that runs on one core. `Q` are the requests of its CPU driver, `C` the
/// clients.
///
/// The owner calls [`request`](Self::request), [`message`](Self::message) and, while it says that there is
/// something to do, [`work`](Self::work). None of them blocks.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Monitor<Q, C> {
    pub(crate) core: CoreId,
    /// Of the memory of which this core is the home.
    books: Books,
    /// Coordinated by this core, by number.
    pub(crate) operations: Vec<(OpId, Operation<Q, C>)>,
    /// Wait until something is unlocked.
    pub(crate) waiting: VecDeque<Request<Q, C>>,
    sweeping: Vec<Sweeping>,
    /// From this core to itself.
    to_self: VecDeque<Message>,
    pub(crate) bug: Bug,
}

impl<Q: Clone, C: Clone> Monitor<Q, C> {
    /// The monitor of `core`, when no core has sent anything to another.
    pub fn new(core: CoreId) -> Self {
        Monitor {
            core,
            books: Books::default(),
            operations: Vec::new(),
            waiting: VecDeque::new(),
            sweeping: Vec::new(),
            to_self: VecDeque::new(),
            bug: Bug::default(),
        }
    }

    /// A monitor that is wrong.
    #[cfg(test)]
    pub(crate) fn with_bug(core: CoreId, mutation: Option<Mutation>) -> Self {
        let mut monitor = Self::new(core);
        monitor.bug = Bug { mutation };
        monitor.books.bug = monitor.bug;
        monitor
    }

    /// An invocation that the CPU driver has redirected; without a client, the delete of something
    /// that was found in a dying container.
    pub fn request<W>(&mut self, world: &mut W, client: Option<C>, request: Q)
    where
        W: Outside<Request = Q, Client = C>,
    {
        self.begin(world, Request { client, request });
        self.settle(world);
    }

    /// A message from the monitor of `from`.
    pub fn message<W>(&mut self, world: &mut W, from: CoreId, message: Message)
    where
        W: Outside<Request = Q, Client = C>,
    {
        self.receive(world, from, message);
        self.settle(world);
    }

    /// Goes on with what the CPU driver has not finished. Is anything left for the next call?
    pub fn work<W>(&mut self, world: &mut W) -> bool
    where
        W: Outside<Request = Q, Client = C>,
    {
        let sweeps = core::mem::take(&mut self.sweeping);
        for Sweeping { from, op, cap } in sweeps {
            self.sweep(world, from, op, cap);
        }
        for id in self.unfinished() {
            self.go_on(world, id);
        }
        self.settle(world);
        self.has_work()
    }

    /// Must [`work`](Self::work) be called?
    pub fn has_work(&self) -> bool {
        !self.sweeping.is_empty() || self.operations.iter().any(|(_, op)| op.is_unfinished())
    }

    /// Is nothing going on: no operation, no lock, nobody waiting?
    pub fn is_quiet(&self) -> bool {
        self.operations.is_empty()
            && self.waiting.is_empty()
            && self.sweeping.is_empty()
            && self.books.is_quiet()
    }

    fn unfinished(&self) -> Vec<OpId> {
        self.operations.iter().filter(|(_, op)| op.is_unfinished()).map(|(id, _)| *id).collect()
    }

    /// Messages to this core itself are events like others, only sooner.
    fn settle<W>(&mut self, world: &mut W)
    where
        W: Outside<Request = Q, Client = C>,
    {
        while let Some(message) = self.to_self.pop_front() {
            self.receive(world, self.core, message);
        }
    }

    pub(crate) fn post<W>(&mut self, world: &mut W, to: CoreId, message: Message)
    where
        W: Outside<Request = Q, Client = C>,
    {
        if to == self.core {
            self.to_self.push_back(message);
        } else {
            world.send(to, message);
        }
    }

    pub(crate) fn post_all<W>(&mut self, world: &mut W, to: Cores, message: Message)
    where
        W: Outside<Request = Q, Client = C>,
    {
        for core in to.iter() {
            self.post(world, core, message);
        }
    }

    /// Tries a request, and starts an operation if it needs other cores.
    pub(crate) fn begin<W>(&mut self, world: &mut W, request: Request<Q, C>)
    where
        W: Outside<Request = Q, Client = C>,
    {
        match world.attempt(&request.request) {
            Attempt::Done(answer) => answer_to(world, request.client, answer),
            Attempt::Locked => self.waiting.push_back(request),
            // What the CPU driver has left goes on: others may wait until it is gone.
            Attempt::Remote { .. }
                if self.operations.len() >= MAX_OPERATIONS && request.client.is_some() =>
            {
                self.waiting.push_back(request);
            }
            Attempt::Remote { cap, need } => match home_of(world, &cap, need) {
                Some(home) => {
                    let id = self.free_id();
                    let operation = Operation::new(request, cap, need, home);
                    let region = operation.region();
                    self.operations.push((id, operation));
                    self.post(world, home, Message::Lock { op: id, region, rank: cap.rank() });
                }
                None => answer_to(world, request.client, Err(Status::Unsupported).into()),
            },
        }
    }

    /// An operation ends after the last answer to it has come: its number may be used again.
    fn free_id(&self) -> OpId {
        let used = |id: &OpId| self.operations.iter().any(|(other, _)| other == id);
        (0..).map(OpId).find(|id| !used(id)).unwrap_or(OpId(u32::MAX))
    }

    /// Tries again what waits for a lock.
    pub(crate) fn wake<W>(&mut self, world: &mut W)
    where
        W: Outside<Request = Q, Client = C>,
    {
        if self.bug.is(Mutation::NoWake) {
            return;
        }
        for request in core::mem::take(&mut self.waiting) {
            self.begin(world, request);
        }
    }

    /// Others may use `cap` again.
    pub(crate) fn unlock<W>(&mut self, world: &mut W, cap: &WireCap)
    where
        W: Outside<Request = Q, Client = C>,
    {
        world.unlock(cap);
        self.wake(world);
    }

    fn receive<W>(&mut self, world: &mut W, from: CoreId, message: Message)
    where
        W: Outside<Request = Q, Client = C>,
    {
        use Message::*;
        match message {
            Lock { op, region, rank } => {
                self.books.lock(Claim { core: from, op, region, rank });
                self.grant(world);
            }
            Unlock { op, change } => {
                self.books.unlock(self.core, from, op, change);
                self.grant(world);
            }
            GiveBack { region } => world.give_back(region),
            Copy { op, cap, place } => {
                let error = world.insert(&cap, place).err();
                self.post(world, from, Copied { op, error });
            }
            Check { op, cap, part } => {
                let in_use = world.in_use(&cap, part);
                self.post(world, from, Checked { op, in_use });
            }
            Find { op, cap, take } => {
                let copy = if take { world.own(&cap) } else { world.has_copy(&cap) };
                let cover = first_cover(world, &cap);
                self.post(world, from, Found { op, copy, cover });
            }
            Cover { op, region } => {
                let cover = world.first_cover(region);
                self.post(world, from, Covered { op, cover });
            }
            Mark { op, cap } => {
                world.lock(&cap);
                self.post(world, from, Marked { op });
            }
            Sweep { op, cap } => {
                world.lock(&cap);
                self.sweep(world, from, op, cap);
            }
            Granted { op, .. }
            | Copied { op, .. }
            | Checked { op, .. }
            | Found { op, .. }
            | Covered { op, .. }
            | Marked { op }
            | Swept { op, .. } => {
                self.answered(world, op, from, message);
            }
        }
    }

    /// Lets operations begin whose region is free.
    fn grant<W>(&mut self, world: &mut W)
    where
        W: Outside<Request = Q, Client = C>,
    {
        while let Some((Claim { core, op, region, .. }, cores)) = self.books.next() {
            // The books do not say what the home itself has, but here it can be seen.
            let uncovered = region.is_memory() && world.first_cover(region).is_none();
            let here = if uncovered { Cores::NONE } else { Cores::only(self.core) };
            // Nor what others have made of themselves.
            let made = self.makers(world, region);
            let others = cores.or(here).or(made).without(Cores::only(core));
            self.post(world, core, Message::Granted { op, others });
        }
    }

    fn makers<W>(&self, world: &mut W, region: Region) -> Cores
    where
        W: Outside<Request = Q, Client = C>,
    {
        match region.tree == Tree::Morsel as u8 && !self.bug.is(Mutation::ForgetMakers) {
            true => world.makers(region),
            false => Cores::NONE,
        }
    }

    fn sweep<W>(&mut self, world: &mut W, from: CoreId, op: OpId, cap: WireCap)
    where
        W: Outside<Request = Q, Client = C>,
    {
        match world.sweep(&cap) {
            Progress::Again => self.sweeping.push(Sweeping { from, op, cap }),
            Progress::Done => {
                self.unlock(world, &cap);
                if !self.bug.is(Mutation::DropAcknowledgement) {
                    let cover = first_cover(world, &cap);
                    self.post(world, from, Message::Swept { op, cover });
                }
            }
        }
    }

    /// Ends an operation. The home lets the next one begin.
    pub(crate) fn release<W>(
        &mut self,
        world: &mut W,
        id: OpId,
        change: Change,
    ) -> Option<Operation<Q, C>>
    where
        W: Outside<Request = Q, Client = C>,
    {
        let at = self.operations.iter().position(|(other, _)| *other == id)?;
        let (_, operation) = self.operations.remove(at);
        self.post(world, operation.home, Message::Unlock { op: id, change });
        if operation.locked && !self.bug.is(Mutation::StayLocked) {
            world.unlock(&operation.cap);
        }
        self.wake(world);
        Some(operation)
    }
}

/// The home of what an operation is about: of a retype the part, since what it is a part of may have parts with other homes.
pub(crate) fn home_of<W: Outside>(world: &W, cap: &WireCap, need: Need) -> Option<CoreId> {
    match need {
        Need::Retype { part } if part.is_memory() => {
            world.home(&WireCap { base: part.base, size: part.end - part.base, ..*cap })
        }
        _ => world.home(cap),
    }
}

/// The first part of a capability, if to memory, that something on this core covers.
fn first_cover<W: Outside>(world: &mut W, cap: &WireCap) -> Option<Region> {
    let region = cap.region();
    if region.is_memory() {
        world.first_cover(region)
    } else {
        None
    }
}

pub(crate) fn answer_to<W: Outside>(world: &mut W, client: Option<W::Client>, answer: W::Answer) {
    if let Some(client) = client {
        world.finish(client, answer);
    }
}
