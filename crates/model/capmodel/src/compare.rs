//! The comparison: random operations performed by a guest and by the model, step by step.
//!
//! The model runs ahead of the guest by as much as the link holds, which changes nothing: what the
//! guest answers is compared with what the model said at that step. After every step the guest shows
//! its answer, the number of capabilities that exist, the slots that changed with their relations, some
//! others, and what some addresses lead to; from time to time all slots, by a digest.

use crate::report::Difference;
use crate::watch::Touch;
use crate::{
    Access, Answer, Errors, Model, Operation, Profile, Seen, SlotKey, Source, Watch, Words,
};
use captypes::invocations::Counter;
use captypes::place::L2_BYTES;
use captypes::{CapAddr, CapType, Label, Place, Rights, Status};
use lockstep::{slot, Command, Digest, Facts, Kind, EXECUTORS};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;

/// What connects us with a guest.
pub trait Link {
    /// Why it broke.
    type Error: fmt::Display;
    /// Hands a command over; it may be kept until an answer is waited for.
    fn post(&mut self, command: &Command) -> Result<(), Self::Error>;
    /// The next answer, if it is there.
    fn poll(&mut self) -> Result<Option<lockstep::Answer>, Self::Error>;
    /// The next answer.
    fn wait(&mut self) -> Result<lockstep::Answer, Self::Error>;
}

/// Why a comparison ended early.
#[derive(Debug)]
pub enum Failure<E> {
    /// The guest and the model differ.
    Difference(Box<Difference>),
    /// The guest does not answer any more; the last steps.
    Link(E, Vec<String>),
}

/// What to compare.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Repeats the sequence.
    pub seed: u64,
    /// Which operations are frequent.
    pub profile: Profile,
    /// Random operations.
    pub operations: u64,
    /// Operations between two looks at all slots.
    pub sweep_every: u64,
    /// Operations after which everything is torn down and begun anew.
    pub round: u64,
    /// Wait for every answer before the next step.
    pub cautious: bool,
}

impl Plan {
    /// The usual distances.
    pub fn new(seed: u64, profile: Profile, operations: u64) -> Plan {
        Plan { seed, profile, operations, sweep_every: 48, round: 3000, cautious: false }
    }
}

/// How often each operation was answered with each status word.
pub type Histogram = BTreeMap<(String, u64), u64>;

/// How much was compared.
#[derive(Clone, Copy, Default, Debug)]
pub struct Looks {
    /// Answers to operations.
    pub answers: u64,
    /// Slots, one by one.
    pub slots: u64,
    /// Slots, by a digest of those of a CNode.
    pub swept: u64,
    /// Addresses that led somewhere.
    pub pages: u64,
    /// Addresses that faulted.
    pub faults: u64,
}

/// What changes the state.
#[derive(Clone, Copy)]
enum Event {
    Operation(Operation),
    Touch(Touch, Seen, Option<u64>),
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Operation(operation) => operation.fmt(f),
            Event::Touch(touch, Seen::Fault { error }, _) => {
                write!(f, "{:?} at {:#x}: fault {error:#x}", touch.access, touch.va)
            }
            Event::Touch(touch, Seen::Done { .. }, page) => {
                write!(f, "{:?} at {:#x}: {:#x}", touch.access, touch.va, page.unwrap_or(0))
            }
        }
    }
}

/// What a command must answer.
enum Expectation {
    Invoke(Operation, Answer),
    /// The first answer says what a slot of the boot holds; this is what it must be.
    Capabilities(u64),
    Touch(Touch, Seen),
    Identity(SlotKey, Words),
    Sweep(u64, Digest),
    Take(u64),
}

struct Pending {
    step: u64,
    executor: usize,
    expectation: Expectation,
    /// The operation itself, rather than a look at what it did.
    is_step: bool,
}

/// Answers that may be outstanding before we wait.
const MOST_PENDING: usize = 2800;
/// Slots of each CNode that are swept: more than random operations use on purpose.
const SWEPT: u32 = 40;
/// Events that are remembered for a report; more than can be outstanding.
const REMEMBERED: usize = 8192;
/// Steps that a report shows.
const SHOWN: u64 = 8;

/// A comparison under way.
pub struct Comparison<L: Link> {
    plan: Plan,
    link: L,
    model: Model,
    source: Source,
    watches: [Watch; EXECUTORS],
    pending: VecDeque<Pending>,
    history: VecDeque<(u64, usize, Event)>,
    histogram: Histogram,
    looks: Looks,
    step: u64,
    /// What is posted next is an operation.
    stepping: bool,
    /// Capabilities of the guest that the model does not know.
    others: Option<u64>,
    who: usize,
}

type Outcome<T, L> = Result<T, Failure<<L as Link>::Error>>;

impl<L: Link> Comparison<L> {
    /// Learns what the guest has.
    pub fn begin(plan: Plan, mut link: L, facts: &Facts) -> Outcome<Self, L> {
        let mut model = Model::boot(facts);
        for who in 0..EXECUTORS {
            for number in slot::ALL {
                let place = Place::own(CapAddr(number));
                let words = [Label::Identify as u64, place.0];
                let answer = link
                    .post(&Command::new(Kind::Invoke, who, &words))
                    .and_then(|()| link.wait())
                    .map_err(|error| Failure::Link(error, Vec::new()))?;
                let [status, a, b, c, d, e, f, _] = answer;
                let node = model.executors()[who].node;
                if status == 0 && model.import((node, number), &[a, b, c, d, e, f]).is_err() {
                    let text = format!("slot {number} of executor {who}: {answer:x?}");
                    return Err(Failure::Difference(Box::new(Difference::at_boot(plan, text))));
                }
            }
        }
        Ok(Comparison {
            plan,
            link,
            model,
            source: Source::new(plan.seed, plan.profile),
            watches: Default::default(),
            pending: VecDeque::new(),
            history: VecDeque::new(),
            histogram: Histogram::new(),
            looks: Looks::default(),
            step: 0,
            stepping: false,
            others: None,
            who: 0,
        })
    }

    /// Runs to the end.
    pub fn run(&mut self) -> Outcome<(), L> {
        self.prepare()?;
        for operation in 0..self.plan.operations {
            if operation > 0 && operation % self.plan.round == 0 {
                self.clear()?;
                self.prepare()?;
            }
            if self.source.random.one_in(6) {
                self.who = self.source.executor();
            }
            let next = self.source.next(&self.model, self.who);
            if self.plan.profile == Profile::Memory {
                self.touch()?;
            }
            self.perform(self.who, next)?;
            self.look()?;
            if operation % self.plan.sweep_every == 0 {
                self.sweep()?;
            }
        }
        self.sweep()?;
        self.clear()?;
        self.settle(0)
    }

    /// How often each operation was answered with each status word.
    pub fn histogram(&self) -> &Histogram {
        &self.histogram
    }

    /// How much was compared.
    pub fn looks(&self) -> Looks {
        self.looks
    }

    /// The guest may go.
    pub fn into_link(self) -> L {
        self.link
    }

    /// Every executor gets two CNodes, in which everything else will be.
    fn prepare(&mut self) -> Outcome<(), L> {
        for who in 0..EXECUTORS {
            let root = CapAddr(slot::ROOTS + who as u32);
            let bytes = L2_BYTES;
            let offset = 2 * bytes * who as u64;
            let args = [CapType::L2CNode as u64, offset, bytes, 2, Place::l1(root, 1).0];
            self.given(Label::Retype, slot::PLAY, &args)?;
        }
        Ok(())
    }

    /// Takes everything away.
    fn clear(&mut self) -> Outcome<(), L> {
        for who in 0..EXECUTORS {
            let root = CapAddr(slot::ROOTS + who as u32);
            // First the containers: how far a range with one comes may depend on what is in it.
            for place in (1..256).map(|index| Place::l1(root, index)) {
                if self.model.has_container(0, place) {
                    self.perform(0, Operation::new(Label::Delete, place, &[]))?;
                }
            }
            let first = Place::l1(root, 1);
            self.perform(0, Operation::new(Label::DeleteRange, first, &[255]))?;
        }
        self.given(Label::Revoke, slot::PLAY, &[])?;
        let lasting = u64::from(Rights::ALL.0 & !Rights::REVOKE.0);
        for who in 1..EXECUTORS {
            let root = CapAddr(slot::ROOTS + who as u32);
            let dst = Place::within(root, CapAddr(slot::PLAY));
            self.given(Label::Mint, slot::PLAY, &[dst.0, lasting, 0])?;
        }
        for _ in 0..32 {
            self.given(Label::CollectReclaimed, slot::KERNEL, &[])?;
        }
        self.given(Label::CheckInvariants, slot::KERNEL, &[])?;
        self.count_capabilities()
    }

    /// An operation of executor 0 on what it lives on.
    fn given(&mut self, label: Label, number: u32, args: &[u64]) -> Outcome<(), L> {
        self.perform(0, Operation::new(label, Place::own(CapAddr(number)), args))
    }

    fn perform(&mut self, who: usize, operation: Operation) -> Outcome<(), L> {
        self.step += 1;
        self.stepping = true;
        self.remember(who, Event::Operation(operation));
        let answer = self.model.invoke(who, &operation);
        let mut words = [0; 11];
        (words[0], words[1]) = (u64::from(operation.label), operation.target.0);
        words[2..].copy_from_slice(&operation.args);
        self.post(who, Kind::Invoke, &words, Expectation::Invoke(operation, answer))?;
        // What comes back decides what can be done next.
        let deciding = [Label::CollectReclaimed as u16, Label::NewId as u16];
        let decides = deciding.contains(&operation.label) && answer.is_ok();
        if decides || self.plan.cautious {
            self.settle(0)?;
        }
        Ok(())
    }

    fn remember(&mut self, who: usize, event: Event) {
        if self.history.len() == REMEMBERED {
            self.history.pop_front();
        }
        self.history.push_back((self.step, who, event));
    }

    /// Looks at what the operation may have changed.
    fn look(&mut self) -> Outcome<(), L> {
        self.count_capabilities()?;
        if let Some(who) = self.model.notified() {
            let bits = self.model.take_pending(who);
            self.post(who, Kind::Take, &[], Expectation::Take(bits))?;
        }
        let who = self.who;
        for (place, key) in self.source.slots_to_see(&self.model, who) {
            let expectation = match self.model.cap(key) {
                Some(_) => Expectation::Identity(key, self.model.identity(key)),
                None => {
                    let operation = Operation::new(Label::Identify, place, &[]);
                    Expectation::Invoke(operation, Err(Errors::one(Status::Empty)))
                }
            };
            self.post(who, Kind::Invoke, &[Label::Identify as u64, place.0], expectation)?;
        }
        let touches = if self.plan.profile == Profile::Memory { 2 } else { 1 };
        for _ in 0..touches {
            self.touch()?;
        }
        if self.plan.cautious {
            self.sweep()?;
        }
        Ok(())
    }

    fn count_capabilities(&mut self) -> Outcome<(), L> {
        let words =
            [Label::ReadCounter as u64, u64::from(slot::KERNEL), Counter::Capabilities as u64];
        let expectation = Expectation::Capabilities(self.model.capabilities());
        self.post(0, Kind::Invoke, &words, expectation)
    }

    fn touch(&mut self) -> Outcome<(), L> {
        let who = self.who;
        let watch = &mut self.watches[who];
        let Some(touch) = self.source.touches(&self.model, who, watch) else { return Ok(()) };
        let Touch { va, access, value } = touch;
        let seen = self.model.touch(who, va, access, value);
        let page = self.model.address_of(who, va);
        self.remember(who, Event::Touch(touch, seen, page));
        self.post(who, Kind::Touch, &[va, access as u64, value], Expectation::Touch(touch, seen))
    }

    /// Looks at all slots.
    fn sweep(&mut self) -> Outcome<(), L> {
        let who = self.who;
        for (place, node) in self.source.nodes_to_sweep(&self.model, who) {
            let mut digest = Digest::new();
            for index in 0..SWEPT {
                let key = (node, index);
                let (status, words) = match self.model.cap(key) {
                    Some(_) => (0, self.model.identity(key).value),
                    None => (Status::Empty as u64, [0; 6]),
                };
                digest = digest.with_identity(status, &words, CapType::Mapping as u64);
            }
            let words = [place.0, u64::from(SWEPT)];
            self.post(who, Kind::Sweep, &words, Expectation::Sweep(node, digest))?;
        }
        Ok(())
    }

    fn post(
        &mut self,
        executor: usize,
        kind: Kind,
        words: &[u64],
        expectation: Expectation,
    ) -> Outcome<(), L> {
        let posted = self.link.post(&Command::new(kind, executor, words));
        self.linked(posted)?;
        let is_step = std::mem::take(&mut self.stepping);
        self.pending.push_back(Pending { step: self.step, executor, expectation, is_step });
        loop {
            let answer = self.link.poll();
            match self.linked(answer)? {
                Some(answer) => self.compare(&answer)?,
                None => break,
            }
        }
        if self.pending.len() > MOST_PENDING {
            self.settle(MOST_PENDING / 2)?;
        }
        Ok(())
    }

    fn linked<T>(&self, result: Result<T, L::Error>) -> Outcome<T, L> {
        result.map_err(|error| {
            let Some(next) = self.pending.front() else {
                return Failure::Link(error, self.shown(self.step));
            };
            let mut steps = self.shown(next.step);
            steps.push(format!("waiting for {}", self.describe(next)));
            Failure::Link(error, steps)
        })
    }

    /// Waits until at most `most` answers are outstanding.
    fn settle(&mut self, most: usize) -> Outcome<(), L> {
        while self.pending.len() > most {
            let answer = self.link.wait();
            let answer = self.linked(answer)?;
            self.compare(&answer)?;
        }
        Ok(())
    }

    fn compare(&mut self, answer: &lockstep::Answer) -> Outcome<(), L> {
        let Some(pending) = self.pending.pop_front() else { return Ok(()) };
        let wrong = self.check(&pending.expectation, answer);
        self.count(&pending, answer[0]);
        let Some((expected, got)) = wrong else { return Ok(()) };
        let looked_at = self.describe(&pending);
        Err(Failure::Difference(Box::new(Difference {
            seed: self.plan.seed,
            profile: self.plan.profile,
            step: pending.step,
            looked_at,
            expected,
            got,
            history: self.shown(pending.step),
        })))
    }

    fn count(&mut self, pending: &Pending, status: u64) {
        let looks = &mut self.looks;
        match &pending.expectation {
            Expectation::Invoke(operation, _) if pending.is_step => {
                *self.histogram.entry((operation.name(), status)).or_default() += 1;
                looks.answers += 1;
            }
            Expectation::Identity(..) | Expectation::Invoke(..) => looks.slots += 1,
            Expectation::Sweep(..) => looks.swept += u64::from(SWEPT),
            Expectation::Touch(..) if status == 0 => looks.pages += 1,
            Expectation::Touch(..) => looks.faults += 1,
            Expectation::Capabilities(_) | Expectation::Take(_) => {}
        }
    }

    /// What was expected and what came, if they differ.
    fn check(
        &mut self,
        expectation: &Expectation,
        answer: &lockstep::Answer,
    ) -> Option<(String, String)> {
        let [status, a, b, c, d, e, f, repetitions] = *answer;
        let words = [a, b, c, d, e, f];
        match expectation {
            Expectation::Invoke(operation, expected) => {
                let shown = || (describe_answer(expected), describe_got(status, &words));
                let collects = operation.label == Label::CollectReclaimed as u16;
                let fits = match expected {
                    Err(errors) => errors.allows(status),
                    // What was counted before a repetition is not in the answer.
                    Ok(expected) if expected.or.allows(status) => true,
                    Ok(expected) => status == 0 && (repetitions > 0 || expected.fit(&words)),
                };
                if !fits {
                    return Some(shown());
                }
                if collects && status == 0 {
                    let problem = self.model.collected(&words).err()?;
                    return Some((problem, format!("{words:x?}")));
                }
                if operation.label == Label::NewId as u16 && status == 0 {
                    let problem = self.model.name_id(a).err()?;
                    return Some((problem, format!("{a}")));
                }
                None
            }
            Expectation::Capabilities(known) => {
                let others = *self.others.get_or_insert(a.wrapping_sub(*known));
                let expected = known.wrapping_add(others);
                let fits = status == 0 && a == expected;
                let own = |all: u64| format!("{} capabilities", all.wrapping_sub(others) as i64);
                (!fits).then(|| (own(expected), own(a)))
            }
            Expectation::Identity(_, expected) => {
                let fits = status == 0 && expected.fit(&words);
                let shown =
                    || (describe_identity(&expected.value), describe_looked(status, &words));
                (!fits).then(shown)
            }
            Expectation::Touch(touch, seen) => {
                let got = match status {
                    0 => Seen::Done { value: a, mask: u64::MAX },
                    _ => Seen::Fault { error: b },
                };
                let fits = match (*seen, touch.access) {
                    (Seen::Done { value, mask }, Access::Read) => {
                        status == 0 && (value ^ a) & mask == 0
                    }
                    (Seen::Done { .. }, _) => status == 0,
                    (Seen::Fault { error }, _) => status == 1 && (a, b, c) == (14, error, touch.va),
                };
                let shown = || (format!("{seen:x?}"), format!("{got:x?}, {answer:x?}"));
                (!fits).then(shown)
            }
            Expectation::Sweep(_, digest) => {
                let fits = (status, a) == (0, digest.0);
                (!fits).then(|| (format!("{:x}", digest.0), format!("{a:x}")))
            }
            Expectation::Take(bits) => {
                let fits = (status, a) == (0, *bits);
                (!fits).then(|| (format!("{bits:#x}"), format!("{a:#x}")))
            }
        }
    }

    fn describe(&self, pending: &Pending) -> String {
        let what = match &pending.expectation {
            Expectation::Invoke(operation, _) => format!("the answer to {operation}"),
            Expectation::Capabilities(_) => "how many capabilities exist".into(),
            Expectation::Touch(touch, _) => format!("{:?} at {:#x}", touch.access, touch.va),
            Expectation::Identity(key, _) => format!("slot {} of the CNode at {:#x}", key.1, key.0),
            Expectation::Sweep(node, _) => format!("all slots of the CNode at {node:#x}"),
            Expectation::Take(_) => "notification bits".into(),
        };
        format!("{what}, by executor {}", pending.executor)
    }

    /// The steps up to this one.
    fn shown(&self, step: u64) -> Vec<String> {
        let near = |&&(own, ..): &&(u64, usize, Event)| own <= step && own + SHOWN > step;
        let shown = self.history.iter().filter(near);
        shown.map(|(step, who, event)| format!("{step}: executor {who}: {event}")).collect()
    }
}

fn describe_answer(answer: &Answer) -> String {
    match answer {
        Ok(words) if words.mask == [0; 6] => "success".into(),
        Ok(words) => format!("success with {:x?}", words.value),
        Err(errors) => format!("one of {errors:?}"),
    }
}

fn describe_got(status: u64, words: &[u64; 6]) -> String {
    match Status::from_word(status) {
        Ok(()) => format!("success with {words:x?}"),
        Err(error) => format!("{error:?}"),
    }
}

fn describe_looked(status: u64, words: &[u64; 6]) -> String {
    if status == 0 {
        describe_identity(words)
    } else {
        describe_got(status, words)
    }
}

fn describe_identity(words: &[u64; 6]) -> String {
    use captypes::invocations::{Identity, Reply};
    match Identity::decode(words) {
        Ok(identity) => format!("{identity:x?}"),
        Err(_) => format!("{words:x?}"),
    }
}
