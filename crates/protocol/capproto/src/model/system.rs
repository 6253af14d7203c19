//! All cores, the channels between them, and two operations at a time, as stateright wants it.
//!
//! A *round* begins and ends in a quiet state: no messages, no operations. In it two requests start,
//! each when it likes, in any interleaving with the delivery of messages. What is left when all is
//! quiet again must be what the two make one after the other.

use super::caps::{is_copy, is_morsel, is_whole, Made, Place, Request, Show};
use super::database::{Database, Shape, Shared, Slot, World};
use super::spec::Spec;
use crate::mutation::Mutation;
use crate::{CoreId, Message, Monitor, Relations, WireCap};
use captypes::{CapType, Status};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::vec::Vec;

/// A core: its database and its monitor.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Core {
    pub db: Database,
    pub monitor: Monitor<Request, u8>,
}

/// A request of a round: where, what, and what came of it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Op {
    pub core: u8,
    pub request: Request,
    pub started: bool,
    pub result: Option<Result<(), Status>>,
    /// Bit n: it started after operation n had ended.
    pub after: u16,
}

impl Op {
    pub fn new(core: u8, request: Request) -> Op {
        Op { core, request, started: false, result: None, after: 0 }
    }

    /// Does it make a capability?
    pub fn makes(&self) -> bool {
        self.destination().is_some()
    }

    /// Where it puts one.
    pub fn destination(&self) -> Option<(u8, Place)> {
        match self.request {
            Request::Copy { dst, .. } | Request::Retype { dst, .. } => Some((self.core, dst)),
            Request::Allocate { dst, .. } | Request::Open { dst, .. } => Some((self.core, dst)),
            Request::Part { dst, .. } | Request::Snapshot { dst, .. } => Some((self.core, dst)),
            Request::Send { to, dst, .. } => Some((to, dst)),
            Request::Delete { .. } | Request::Revoke { .. } | Request::Close => None,
            Request::Destroy { .. } => None,
        }
    }

    fn is_delete(&self) -> bool {
        matches!(self.request, Request::Delete { .. })
    }
}

/// Messages on their way, by sender and receiver.
type Channels = BTreeMap<(u8, u8), VecDeque<Message>>;

/// A state of everything.
#[derive(Clone)]
pub struct State {
    pub cores: Vec<Core>,
    /// What the CPU drivers share.
    pub shared: Shared,
    pub channels: Channels,
    pub ops: Vec<Op>,
    /// What was there when the round began.
    pub start: Arc<Spec>,
    /// Rounds since the search began at a state at rest.
    pub round: u8,
    /// Steps of this round so far.
    pub steps: u16,
    /// Is the outcome compared with the specification?
    pub compared: bool,
}

/// Steps that no round needs. Whoever takes more goes round in circles.
const MOST_STEPS: u16 = 400;

impl PartialEq for State {
    fn eq(&self, other: &State) -> bool {
        let parts = |state: &State| (state.steps, state.compared);
        parts(self) == parts(other)
            && (&self.cores, &self.shared) == (&other.cores, &other.shared)
            && self.channels == other.channels
            && self.ops == other.ops
            && self.start == other.start
    }
}

impl Eq for State {}

/// A state at rest is the same before and after a round.
impl Hash for State {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        (&self.cores, &self.shared, &self.channels).hash(hasher);
        (&self.ops, &self.start, self.steps).hash(hasher);
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        for core in &self.cores {
            let (db, home) = (&core.db, if core.db.home_rd { " home d" } else { "" });
            write!(f, "\n  core {}: {:?} free {:b}{home}", db.core, db.slots, db.free)?;
            if !db.locks.is_empty() {
                write!(
                    f,
                    " locked {:?}",
                    db.locks.iter().map(|&cap| Show(cap)).collect::<Vec<_>>()
                )?;
            }
            if !core.monitor.is_quiet() {
                write!(f, "\n    {:?}", core.monitor)?;
            }
        }
        self.ops.iter().try_for_each(|op| write!(f, "\n  {op:?}"))?;
        self.channels.iter().try_for_each(|(ends, queue)| write!(f, "\n  {ends:?} {queue:?}"))
    }
}

/// What can happen next.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// Two requests are chosen.
    Round(Vec<Op>),
    /// All has come to rest; the next round may begin.
    Rest,
    /// A request is made.
    Start(u8),
    /// The first message between two cores arrives.
    Deliver(u8, u8),
    /// A monitor goes on with unfinished work.
    Work(u8),
}

impl State {
    pub fn new(shape: &Shape, cores: u8, mutation: Option<Mutation>) -> State {
        let core = |n| Core {
            db: Database::new(n, shape),
            monitor: Monitor::with_bug(CoreId(n), mutation),
        };
        let (channels, ops) = (Channels::new(), Vec::new());
        let cores = (0..cores).map(core).collect();
        State {
            cores,
            shared: Shared::default(),
            channels,
            ops,
            start: Arc::new(Spec::default()),
            round: 0,
            steps: 0,
            compared: true,
        }
    }

    /// Does `event` on a core, then deletes what that found in dying containers.
    fn on_core(
        &mut self,
        shape: &Shape,
        n: u8,
        event: impl FnOnce(&mut Monitor<Request, u8>, &mut World),
    ) {
        let Core { db, monitor } = &mut self.cores[usize::from(n)];
        let (sent, finished, stalled) = (Vec::new(), Vec::new(), Vec::new());
        let (shared, bug) = (&mut self.shared, monitor.bug);
        let mut world = World { shape, db, shared, bug, sent, finished, stalled };
        event(monitor, &mut world);
        while let Some(at) = world.stalled.pop() {
            monitor.request(&mut world, None, Request::Delete { at });
        }
        let (sent, finished) = (world.sent, world.finished);
        for (to, message) in sent {
            self.channels.entry((n, to.0)).or_default().push_back(message);
        }
        for (client, answer) in finished {
            let op = &mut self.ops[usize::from(client)];
            if op.result.is_some() {
                self.cores[usize::from(n)].db.wrong = Some("two answers to one request");
            }
            self.ops[usize::from(client)].result = Some(answer);
        }
    }

    /// All that can happen, but for new rounds.
    pub fn steps(&self) -> Vec<Step> {
        let waiting = (0..).zip(&self.ops).filter(|(_, op)| !op.started);
        let mut steps: Vec<Step> = waiting.map(|(n, _)| Step::Start(n)).collect();
        steps.extend(self.channels.keys().map(|&(from, to)| Step::Deliver(from, to)));
        let busy = (0..).zip(&self.cores).filter(|(_, core)| core.monitor.has_work());
        steps.extend(busy.map(|(n, _)| Step::Work(n)));
        steps
    }

    pub fn step(&mut self, shape: &Shape, step: &Step) {
        self.steps += 1;
        match step {
            Step::Round(ops) => {
                self.start = Arc::new(self.spec());
                self.ops = ops.clone();
                self.round = 1;
            }
            Step::Rest => self.rest(),
            &Step::Start(n) => {
                let ended = (0..).zip(&self.ops).filter(|(_, op)| op.result.is_some());
                let after = ended.fold(0, |after, (at, _): (u8, _)| after | 1u16 << at);
                let op = &mut self.ops[usize::from(n)];
                (op.started, op.after) = (true, after);
                let (core, request) = (op.core, op.request);
                self.on_core(shape, core, |monitor, world| {
                    monitor.request(world, Some(n), request)
                });
            }
            &Step::Deliver(from, to) => {
                let Some(queue) = self.channels.get_mut(&(from, to)) else { return };
                let Some(message) = queue.pop_front() else { return };
                if queue.is_empty() {
                    self.channels.remove(&(from, to));
                }
                // What the channel carries is what arrives.
                let message = Message::decode(&message.encode()).expect("it was just encoded");
                self.on_core(shape, to, |monitor, world| {
                    monitor.message(world, CoreId(from), message)
                });
            }
            &Step::Work(n) => self.on_core(shape, n, |monitor, world| {
                monitor.work(world);
            }),
        }
        self.canonicalise();
    }

    /// What does not matter is the same in all states.
    fn canonicalise(&mut self) {
        for core in &mut self.cores {
            core.db.locks.sort_unstable();
        }
        if self.is_over() {
            for core in &mut self.cores {
                core.db.hesitated = false;
            }
        }
    }

    /// Forgets the round, and which of the slots outside CNodes holds what.
    fn rest(&mut self) {
        self.ops.clear();
        self.steps = 0;
        // How often an object was created matters to nobody once nobody has what is older.
        self.shared.lives = [0; 4];
        for slot in self.cores.iter_mut().flat_map(|core| &mut core.db.slots) {
            slot.cap.aux = 0;
        }
        for core in &mut self.cores {
            let slots = &mut core.db.slots;
            slots.sort_unstable_by_key(|slot| {
                let root = matches!(slot.place, Place::Root(_));
                (!root, if root { Place::Root(0) } else { slot.place }, slot.cap)
            });
            for (n, slot) in (0..).zip(slots) {
                if let Place::Root(place) = &mut slot.place {
                    *place = n;
                }
            }
        }
        self.start = Arc::new(Spec::default());
    }

    /// Does nothing happen any more?
    pub fn is_over(&self) -> bool {
        self.channels.is_empty()
            && self.ops.iter().all(|op| op.started)
            && !self.cores.iter().any(|core| core.monitor.has_work())
    }

    /// What the specification sees of it.
    pub fn spec(&self) -> Spec {
        let mut spec = Spec { alive: self.shared.alive, ..Spec::default() };
        for core in &self.cores {
            for slot in &core.db.slots {
                let cap = WireCap { aux: 0, ..slot.cap };
                match slot.place {
                    Place::Limbo(_) => spec.doomed.push((core.db.core, cap)),
                    place => {
                        spec.slots.insert((core.db.core, place), cap);
                    }
                }
                if super::caps::is_container(&slot.cap) && slot.owned {
                    spec.cnodes.insert(slot.cap.base, core.db.core);
                }
            }
        }
        spec.doomed.sort_unstable();
        spec
    }

    fn slots(&self) -> impl Iterator<Item = (u8, &Slot)> {
        self.cores.iter().flat_map(|core| core.db.slots.iter().map(|slot| (core.db.core, slot)))
    }

    pub fn capabilities(&self) -> usize {
        self.cores.iter().map(|core| core.db.slots.len()).sum()
    }

    // What must hold.

    /// Why this state must not be, if so.
    pub fn violation(&self, shape: &Shape) -> Option<&'static str> {
        if let Some(wrong) = self.cores.iter().find_map(|core| core.db.wrong) {
            return Some(wrong);
        }
        if self.steps > MOST_STEPS {
            return Some("operations go round in circles");
        }
        if self.slots().any(|(_, slot)| self.is_free(shape, slot)) {
            return Some("free memory is covered");
        }
        if self.slots().any(|(_, slot)| is_morsel(&slot.cap) && self.shared.is_stale(&slot.cap)) {
            return Some("a capability to an object that is gone");
        }
        if self.overlapping() {
            return Some("capabilities overlap that are not related");
        }
        if !self.is_over() {
            return None;
        }
        self.rest_violation(shape)
    }

    fn is_free(&self, shape: &Shape, slot: &Slot) -> bool {
        let mut pages = slot.cap.base..slot.cap.region().end;
        slot.cap.region().is_memory()
            && pages.any(|page| {
                let home = shape.homes[page as usize];
                self.cores[usize::from(home)].db.free & 1 << page != 0
            })
    }

    fn overlapping(&self) -> bool {
        use super::caps::is_ancestor;
        let related = |a, b| is_copy(a, b) || is_ancestor(a, b) || is_ancestor(b, a);
        self.slots().any(|(_, a)| {
            self.slots()
                .any(|(_, b)| a.cap.region().overlaps(b.cap.region()) && !related(&a.cap, &b.cap))
        })
    }

    /// For states at rest.
    fn rest_violation(&self, shape: &Shape) -> Option<&'static str> {
        if self.ops.iter().any(|op| op.result.is_none()) {
            return Some("an operation never ends");
        }
        if !self.cores.iter().all(|core| core.monitor.is_quiet()) {
            return Some("a monitor is not quiet");
        }
        if !self.cores.iter().all(|core| core.db.locks.is_empty()) {
            return Some("something stays locked");
        }
        for (core, slot) in self.slots() {
            if let Some(why) = self.slot_violation(shape, core, slot) {
                return Some(why);
            }
        }
        if !self.all_memory_is_somewhere(shape) {
            return Some("memory is lost");
        }
        if self.compared && !self.ops.is_empty() && !self.outcome_is_allowed(shape) {
            return Some("no order of the operations gives this");
        }
        None
    }

    /// G18 invariants 4.1 to 4.3, and that hints which are clear say the truth.
    fn slot_violation(&self, shape: &Shape, core: u8, slot: &Slot) -> Option<&'static str> {
        use super::caps::is_ancestor;
        if matches!(slot.place, Place::Limbo(_)) {
            return Some("something was left behind by a dying container");
        }
        let copies = || self.slots().filter(|(_, other)| is_copy(&other.cap, &slot.cap));
        let owners: BTreeSet<u8> =
            copies().filter(|(_, c)| c.owned).map(|(core, _)| core).collect();
        let is_morsel = is_morsel(&slot.cap);
        if owners.is_empty() && !is_morsel {
            return Some("a capability has no owner");
        }
        if owners.len() > 1 {
            return Some("a capability has two owners");
        }
        if is_morsel && owners.iter().any(|&owner| Some(owner) != shape.pool.map(|pool| pool.0)) {
            return Some("an object is owned where its pool is not");
        }
        if copies().any(|(at, c)| {
            at == core && (c.owned, c.rc, c.rd, c.ra) != (slot.owned, slot.rc, slot.rd, slot.ra)
        }) {
            return Some("copies on one core differ");
        }
        let elsewhere = |test: &dyn Fn(&Slot) -> bool| {
            self.slots().any(|(at, other)| at != core && test(other))
        };
        if !slot.rc && elsewhere(&|other| is_copy(&other.cap, &slot.cap)) {
            return Some("RC is clear, but there are remote copies");
        }
        if !slot.rd && elsewhere(&|other| is_ancestor(&slot.cap, &other.cap)) {
            return Some("RD is clear, but there are remote descendants");
        }
        if !slot.ra && elsewhere(&|other| is_ancestor(&other.cap, &slot.cap)) {
            return Some("RA is clear, but there are remote ancestors");
        }
        None
    }

    fn all_memory_is_somewhere(&self, shape: &Shape) -> bool {
        let covered = |page: u64| {
            self.slots().any(|(_, slot)| {
                let region = slot.cap.region();
                region.is_memory() && region.base <= page && page < region.end
            })
        };
        let free =
            |page: usize| self.cores[usize::from(shape.homes[page])].db.free & 1 << page != 0;
        (0..shape.homes.len()).all(|page| covered(page as u64) || free(page))
    }

    /// Does some order of the operations lead here, with the answers given? An operation that started
    /// after another had ended comes after it.
    fn outcome_is_allowed(&self, shape: &Shape) -> bool {
        let end = self.spec();
        let start = BTreeSet::from([(*self.start).clone()]);
        self.some_order(shape, start, 0, &end)
    }

    fn some_order(&self, shape: &Shape, now: BTreeSet<Spec>, done: u16, end: &Spec) -> bool {
        let all = (1u16 << self.ops.len()) - 1;
        if done == all {
            return now.contains(end);
        }
        (0..).zip(&self.ops).any(|(n, op): (u8, &Op)| {
            if done & 1 << n != 0 || op.after & !done != 0 {
                return false;
            }
            let mut next = BTreeSet::new();
            for spec in &now {
                let mut spec = spec.clone();
                let verdict = spec.apply(shape, op.core, &op.request);
                let fits = match (&verdict, &op.result) {
                    (Ok(()), Some(Ok(()))) => true,
                    (Err(errors), Some(Err(error))) => errors.contains(error),
                    // Deleted by another one meanwhile: that is success, too (G18 §4.6).
                    (Err(_), Some(Ok(()))) if op.after & done == done => false,
                    (Err(_), Some(Ok(()))) => {
                        op.is_delete() || self.revokes_all_the_same(shape, op, &mut spec)
                    }
                    _ => false,
                };
                if fits {
                    next.extend(spec.settled().0);
                }
            }
            !next.is_empty() && self.some_order(shape, next, done | 1 << n, end)
        })
    }

    /// Two Revokes may each end the CNode in which the other's capability is. Neither is before the other then: both
    /// succeed, with what each has to delete.
    fn revokes_all_the_same(&self, shape: &Shape, op: &Op, spec: &mut Spec) -> bool {
        let Request::Revoke { at } = op.request else { return false };
        spec.revoke(shape, &self.start, (op.core, at)).is_ok()
    }
}

/// Every request that makes sense on `core` in this state.
pub fn requests(state: &State, shape: &Shape, types: &[CapType], core: u8) -> Vec<Request> {
    let db = &state.cores[usize::from(core)].db;
    let cores = 0..state.cores.len() as u8;
    let mut list = Vec::new();
    for slot in &db.slots {
        let at = slot.place;
        list.push(Request::Delete { at });
        list.push(Request::Revoke { at });
        list.extend(is_whole(&slot.cap).then_some(Request::Destroy { at }));
        for dst in destinations(state, shape, core) {
            list.push(Request::Copy { src: at, dst });
            let made = makeable(shape, types).into_iter().filter(|made| made.fits(&slot.cap));
            list.extend(made.map(|cap| Request::Retype { src: at, cap, dst }));
            let parts = shape.parts().filter(|part| part.fits(&slot.cap));
            list.extend(parts.map(|cap| Request::Part { src: at, cap, dst }));
            let others = shape.all_objects().filter(|other| !is_copy(&other.cap(), &slot.cap));
            let others = others.filter(|_| is_whole(&slot.cap));
            list.extend(others.map(|cap| Request::Snapshot { src: at, cap, dst }));
        }
        for to in cores.clone().filter(|&to| to != core) {
            let places = destinations(state, shape, to).into_iter();
            list.extend(places.map(|dst| Request::Send { src: at, to, dst }));
        }
    }
    let free =
        |made: &Made| (made.base..made.base + made.size).all(|page| db.free & 1 << page != 0);
    for dst in destinations(state, shape, core) {
        let made = makeable(shape, types).into_iter().filter(free);
        list.extend(made.map(|cap| Request::Allocate { cap, dst }));
        list.extend(shape.objects(core).map(|cap| Request::Open { cap, dst }));
    }
    if shape.objects(core).next().is_some() {
        list.push(Request::Close);
    }
    list
}

/// Everything that could be made of some memory.
fn makeable(shape: &Shape, types: &[CapType]) -> Vec<Made> {
    let pages = shape.homes.len() as u8;
    let mut all = Vec::new();
    for &ty in types {
        for base in 0..pages {
            for size in 1..=pages - base {
                if ty != CapType::L2CNode || size == 1 {
                    all.push(Made { ty: ty as u8, base, size });
                }
            }
        }
    }
    all
}

/// Where something could be put: the first free slot of each kind. Which of several makes no
/// difference.
fn destinations(state: &State, shape: &Shape, core: u8) -> Vec<Place> {
    let db = &state.cores[usize::from(core)].db;
    let free = |place: &Place| db.at(*place).is_none();
    let root = (0..shape.root_slots).map(Place::Root).find(free);
    let cnodes = db.slots.iter().filter(|slot| slot.owned && super::caps::is_container(&slot.cap));
    let pages: BTreeSet<u8> = cnodes.map(|slot| slot.cap.base as u8).collect();
    let inside = pages
        .iter()
        .filter_map(|&page| (0..shape.cnode_slots).map(|n| Place::In(page, n)).find(free));
    root.into_iter().chain(inside).collect()
}
