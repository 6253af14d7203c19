//! From events to calls with times.
//!
//! Time is cut at the events of a core, and each piece belongs to what was running there: the
//! innermost function of the kernel, if that is running; else that of the running dispatcher's
//! library; else its program. What a probe itself costs, measured where the trace begins, is taken
//! off every piece, so that times are those of a system without probes.
//!
//! Calls of the kernel are made on behalf of the dispatcher that entered it, and stand below the
//! function that did. A dispatcher that does not run does not get older: a call that waits takes no
//! time. (As UVM §5.1.2 has it for threads.)
//!
//! Cores that take turns on one processor, as in an emulator that counts instructions, have one clock:
//! the time between two events, of whichever cores, belongs to the one on which something runs. If
//! something runs on both, it is not known when the turn changed ([`Timeline::turns`]).
//!
//! Everything between a program's leaving user mode and its going on is an [`Episode`]: a page
//! fault, a system call, an interrupt.

use crate::dump::Dump;
use crate::event::{Event, Mark, What, TIME_BITS};
use std::collections::HashMap;

/// Number of a [`Call`] in [`Timeline::calls`].
pub type CallId = usize;
/// Number of a [`Dispatcher`] in [`Timeline::dispatchers`].
pub type DispatcherId = usize;

/// Why a program was left.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Episode {
    /// The first entry of a library, or one again from the start.
    Run,
    PageFault,
    Exception,
    /// Notifications, such as signals.
    Message,
    Timer,
    /// A Linux system call, by its number.
    LinuxCall(u32),
    /// The kernel did something and went back to the program.
    Kernel,
}

/// What a call is of.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Name {
    Function(u32),
    Episode(Episode),
}

/// A function while it runs, or an episode. Times are since the beginning of the trace.
#[derive(Clone, PartialEq, Debug)]
pub struct Call {
    pub name: Name,
    pub dispatcher: Option<DispatcherId>,
    pub core: usize,
    pub parent: Option<CallId>,
    /// On its core's clock.
    pub start: u64,
    pub end: u64,
    /// Time in itself.
    pub own: u64,
    /// And in what it called.
    pub total: u64,
    /// It has ended: not by the trace's end.
    pub ended: bool,
}

/// Somebody who runs.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct Dispatcher {
    /// The number of its Linux process.
    pub process: Option<u32>,
    /// The image of the first function that it was seen in.
    pub image: Option<u32>,
    /// Time in code without probes: the program.
    pub program: u64,
}

/// What there is to be known about a trace.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct Timeline {
    /// In the order in which they began.
    pub calls: Vec<Call>,
    pub dispatchers: Vec<Dispatcher>,
    /// Time in which nothing ran.
    pub idle: u64,
    /// Time of one core or another, between an event of the one and the next, which is of the other.
    pub turns: u64,
    /// What one probe costs, and was taken off for each event.
    pub probe_cost: u64,
    pub events: usize,
    pub lost: u64,
    /// Exits of functions that had not been entered.
    pub strays: usize,
}

/// Who has a piece of time.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Runs {
    /// This call itself.
    Call(CallId),
    /// A dispatcher's program.
    Program(DispatcherId),
    /// Nobody.
    Nothing,
    /// One of two cores, it is not known which; see [`Timeline::turns`].
    Turn,
}

/// Time between two events, on the clock of the time-stamp counter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    pub core: usize,
    pub from: u64,
    pub to: u64,
    /// What of it the probes took.
    pub cost: u64,
    pub runs: Runs,
}

impl Piece {
    /// Time without that of probes.
    pub fn passed(&self) -> u64 {
        (self.to - self.from).saturating_sub(self.cost)
    }
}

impl Timeline {
    /// Reads the events of a trace.
    pub fn new(dump: &Dump) -> Timeline {
        Self::between(dump, 0, u64::MAX)
    }

    /// What a trace is to show: all of it, or what happened from the first program on.
    pub fn shown(dump: &Dump) -> Timeline {
        match dump.begins_with_program {
            true => Self::between(dump, first_program(dump).unwrap_or(0), u64::MAX),
            false => Self::new(dump),
        }
    }

    /// The same, with the time outside `[from, to)` left out: times of the time-stamp counter, which
    /// began at less than 2⁴⁰ when the trace did. Calls that ended before are left out, too.
    pub fn between(dump: &Dump, from: u64, to: u64) -> Timeline {
        Builder::new(dump, from, to, &mut |_| {}).read()
    }

    /// All of it, and `watch` gets each piece of time.
    pub fn watched(dump: &Dump, watch: &mut dyn FnMut(Piece)) -> Timeline {
        Builder::new(dump, 0, u64::MAX, watch).read()
    }

    /// All of the time in which something ran.
    pub fn busy(&self) -> u64 {
        let program = self.dispatchers.iter().map(|dispatcher| dispatcher.program);
        program.chain(self.calls.iter().map(|call| call.own)).sum()
    }

    /// For each call, the calls that it made, in their order.
    pub fn children(&self) -> Vec<Vec<CallId>> {
        let mut children = vec![Vec::new(); self.calls.len()];
        for (id, call) in self.calls.iter().enumerate() {
            if let Some(parent) = call.parent {
                children[parent].push(id);
            }
        }
        children
    }
}

/// The events of a core with times that do not wrap, in their order. A probe that was interrupted
/// between reading the time and taking its place comes a little late.
fn unwrapped(events: &[Event]) -> Vec<(u64, What)> {
    const SPAN: u64 = 1 << TIME_BITS;
    let mut last = events.first().map_or(0, |event| event.time());
    let mut timed: Vec<_> = events
        .iter()
        .filter_map(|event| {
            let ahead = event.time().wrapping_sub(last) % SPAN;
            let time = match ahead < SPAN / 2 {
                true => last + ahead,
                false => last.saturating_sub(SPAN - ahead),
            };
            last = last.max(time);
            Some((time, event.what().ok()?))
        })
        .collect();
    timed.sort_by_key(|(time, _)| *time);
    timed
}

/// When a library gave way to its program for the first time.
fn first_program(dump: &Dump) -> Option<u64> {
    let first = |events: &[Event]| {
        let programs = |what: &What| matches!(what, What::Mark(Mark::Program(_)));
        unwrapped(events).into_iter().find(|(_, what)| programs(what)).map(|(time, _)| time)
    };
    dump.cores.iter().filter_map(|core| first(&core.events)).min()
}

/// The least time between two marks for calibration: nothing but the cost of a probe.
fn probe_cost(events: &[(u64, What)]) -> Option<u64> {
    let calibration = What::Mark(Mark::Calibrate);
    events
        .windows(2)
        .filter(|pair| pair[0].1 == calibration && pair[1].1 == calibration)
        .map(|pair| pair[1].0 - pair[0].0)
        .min()
}

/// What is known of a dispatcher while events are read.
#[derive(Default)]
struct Runner {
    /// The functions that each of its threads is in.
    stacks: HashMap<u32, Vec<CallId>>,
    thread: u32,
    /// Of its program.
    episode: Option<CallId>,
    in_library: bool,
}

impl Runner {
    fn stack(&mut self) -> &mut Vec<CallId> {
        self.stacks.entry(self.thread).or_default()
    }

    fn innermost(&self) -> Option<CallId> {
        self.stacks.get(&self.thread).and_then(|stack| stack.last().copied()).or(self.episode)
    }
}

/// An event that was read.
#[derive(Clone, Copy)]
struct Before {
    core: usize,
    time: u64,
    /// Of its probe.
    cost: u64,
}

#[derive(Default)]
struct CoreState {
    last: Option<Before>,
    clock: u64,
    /// Functions of the kernel, and for whom they run.
    kernel: Vec<CallId>,
    client: Option<DispatcherId>,
    current: Option<DispatcherId>,
}

impl CoreState {
    fn is_idle(&self) -> bool {
        self.kernel.is_empty() && self.current.is_none()
    }
}

struct Builder<'a> {
    dump: &'a Dump,
    watch: &'a mut dyn FnMut(Piece),
    /// The last event of any core.
    last: Option<Before>,
    from: u64,
    to: u64,
    cores: Vec<CoreState>,
    runners: Vec<Runner>,
    by_number: HashMap<u32, DispatcherId>,
    /// Calls that ended before the time that counts.
    over: Vec<CallId>,
    made: Timeline,
}

/// The number of the kernel among images.
const KERNEL: u32 = 0;

impl<'a> Builder<'a> {
    fn new(dump: &'a Dump, from: u64, to: u64, watch: &'a mut dyn FnMut(Piece)) -> Self {
        let first = dump.cores.first().map(|core| unwrapped(&core.events)).unwrap_or_default();
        let made = Timeline {
            probe_cost: probe_cost(&first).unwrap_or(0),
            lost: dump.cores.iter().map(|core| core.lost).sum(),
            ..Timeline::default()
        };
        let cores = dump.cores.iter().map(|_| CoreState::default()).collect();
        let (last, runners, by_number, over) = (None, vec![], HashMap::new(), vec![]);
        Builder { dump, watch, last, from, to, cores, runners, by_number, over, made }
    }

    fn read(mut self) -> Timeline {
        let streams = self.dump.cores.iter().map(|core| unwrapped(&core.events));
        let mut streams: Vec<_> = streams.map(|events| events.into_iter().peekable()).collect();
        // The cores in the order of time: a dispatcher may run on one after the other.
        while let Some((core, _)) = streams
            .iter_mut()
            .enumerate()
            .filter_map(|(core, stream)| Some((core, stream.peek()?.0)))
            .min_by_key(|(_, time)| *time)
        {
            if let Some((time, what)) = streams[core].next() {
                self.event(core, time, what);
            }
        }
        self.finish()
    }

    fn event(&mut self, core: usize, time: u64, what: What) {
        self.made.events += 1;
        self.pass_time(core, time);
        // At a function's exit the return is its own, not the probe's.
        let own = u64::from(matches!(what, What::Exit(_)) && self.dump.counts_instructions);
        let before = Before { core, time, cost: self.made.probe_cost.saturating_sub(own) };
        (self.last, self.cores[core].last) = (Some(before), Some(before));
        match what {
            What::Enter(function) => self.enter(core, function),
            What::Exit(function) => self.exit(core, function),
            What::Mark(mark) => self.mark(core, mark),
        }
    }

    /// The time since the event before belongs to what runs.
    fn pass_time(&mut self, core: usize, now: u64) {
        let before = match self.dump.counts_instructions {
            true => self.last,
            false => self.cores[core].last,
        };
        let Some(Before { core: other, time: then, cost }) = before else { return };
        if then < self.from || now > self.to {
            return;
        }
        let now = now.max(then);
        let known = other == core || self.cores[core].is_idle() || self.cores[other].is_idle();
        let core = if self.cores[core].is_idle() { other } else { core };
        let runs = if known { self.running(core) } else { Runs::Turn };
        let piece = Piece { core, from: then, to: now, cost, runs };
        (self.watch)(piece);
        let passed = piece.passed();
        match runs {
            Runs::Call(call) => self.made.calls[call].own += passed,
            Runs::Program(dispatcher) => self.made.dispatchers[dispatcher].program += passed,
            Runs::Nothing => self.made.idle += passed,
            Runs::Turn => return self.made.turns += passed,
        }
        self.cores[core].clock += passed;
    }

    /// What runs on a core.
    fn running(&self, core: usize) -> Runs {
        let state = &self.cores[core];
        let innermost = state.current.and_then(|current| self.runners[current].innermost());
        match (state.kernel.last().copied().or(innermost), state.current) {
            (Some(call), _) => Runs::Call(call),
            (None, Some(dispatcher)) => Runs::Program(dispatcher),
            (None, None) => Runs::Nothing,
        }
    }

    fn begin(
        &mut self,
        core: usize,
        name: Name,
        dispatcher: Option<DispatcherId>,
        parent: Option<CallId>,
    ) -> CallId {
        let start = self.cores[core].clock;
        self.made.calls.push(Call {
            name,
            dispatcher,
            core,
            parent,
            start,
            end: start,
            own: 0,
            total: 0,
            ended: false,
        });
        self.made.calls.len() - 1
    }

    fn end(&mut self, core: usize, call: CallId) {
        self.made.calls[call].end = self.cores[core].clock;
        self.made.calls[call].ended = true;
        if self.last.is_some_and(|now| now.time < self.from) {
            self.over.push(call);
        }
    }

    fn enter(&mut self, core: usize, function: u32) {
        let image = self.dump.functions.get(&function).map_or(KERNEL, |found| found.image);
        if image == KERNEL {
            return self.enter_kernel(core, function);
        }
        // The kernel has left without a word.
        self.leave_kernel(core);
        let Some(current) = self.cores[core].current else {
            self.made.strays += 1;
            return;
        };
        self.made.dispatchers[current].image.get_or_insert(image);
        let parent = self.runners[current].innermost();
        let call = self.begin(core, Name::Function(function), Some(current), parent);
        self.runners[current].stack().push(call);
    }

    fn enter_kernel(&mut self, core: usize, function: u32) {
        if self.cores[core].kernel.is_empty() {
            let client = self.cores[core].current;
            self.cores[core].client = client;
            if let Some(client) = client {
                if self.runners[client].innermost().is_none() && !self.runners[client].in_library {
                    let name = Name::Episode(Episode::Kernel);
                    let episode = self.begin(core, name, Some(client), None);
                    self.runners[client].episode = Some(episode);
                }
            }
        }
        let state = &self.cores[core];
        let client = state.client;
        let below = client.and_then(|client| self.runners[client].innermost());
        let parent = state.kernel.last().copied().or(below);
        let call = self.begin(core, Name::Function(function), client, parent);
        self.cores[core].kernel.push(call);
    }

    fn exit(&mut self, core: usize, function: u32) {
        let image = self.dump.functions.get(&function).map_or(KERNEL, |found| found.image);
        let current = self.cores[core].current;
        let stack = match (image, current) {
            (KERNEL, _) => &self.cores[core].kernel,
            (_, Some(current)) => &*self.runners[current].stack(),
            (_, None) => &Vec::new(),
        };
        let is_it = |call: &CallId| self.made.calls[*call].name == Name::Function(function);
        let Some(at) = stack.iter().rposition(is_it) else {
            self.made.strays += 1;
            return;
        };
        let stack = match current {
            Some(current) if image != KERNEL => self.runners[current].stack(),
            _ => &mut self.cores[core].kernel,
        };
        let left = stack.split_off(at);
        left.into_iter().rev().for_each(|call| self.end(core, call));
        if image == KERNEL && self.cores[core].kernel.is_empty() {
            self.kernel_left(core);
        }
    }

    fn leave_kernel(&mut self, core: usize) {
        let left = std::mem::take(&mut self.cores[core].kernel);
        if left.is_empty() {
            return;
        }
        left.into_iter().rev().for_each(|call| self.end(core, call));
        self.kernel_left(core);
    }

    /// An episode ends here if the kernel has not entered the library.
    fn kernel_left(&mut self, core: usize) {
        let Some(client) = self.cores[core].client.take() else { return };
        if !self.runners[client].in_library {
            if let Some(episode) = self.runners[client].episode.take() {
                self.end(core, episode);
            }
        }
    }

    fn mark(&mut self, core: usize, mark: Mark) {
        let current = self.cores[core].current;
        match (mark, current) {
            (Mark::Calibrate, _) => {}
            (Mark::Switch(number), _) => {
                let next = self.dispatcher(number);
                self.cores[core].current = Some(next);
            }
            (Mark::Idle, _) => self.cores[core].current = None,
            (Mark::Created(number), _) => {
                self.by_number.remove(&number);
            }
            (Mark::Leave, _) => self.leave_kernel(core),
            (_, None) => self.made.strays += 1,
            (Mark::Upcall(entry), Some(current)) => self.upcall(current, entry),
            (Mark::Program(process), Some(current)) => self.program(core, current, process),
            (Mark::LinuxCall(number), Some(current)) => {
                self.name_episode(current, Episode::LinuxCall(number));
            }
            (Mark::Thread(thread), Some(current)) => self.switch_thread(current, thread),
        }
    }

    fn dispatcher(&mut self, number: u32) -> DispatcherId {
        *self.by_number.entry(number).or_insert_with(|| {
            self.runners.push(Runner::default());
            self.made.dispatchers.push(Dispatcher::default());
            self.runners.len() - 1
        })
    }

    /// The order of `abi::dispatcher::Upcall`.
    fn upcall(&mut self, current: DispatcherId, entry: u32) {
        let episode = match entry {
            1 => Episode::PageFault,
            2 => Episode::Exception,
            3 => Episode::Message,
            4 => Episode::Timer,
            5 => Episode::LinuxCall(u32::MAX),
            _ => Episode::Run,
        };
        self.runners[current].in_library = true;
        self.name_episode(current, episode);
    }

    fn name_episode(&mut self, current: DispatcherId, episode: Episode) {
        if let Some(id) = self.runners[current].episode {
            self.made.calls[id].name = Name::Episode(episode);
        }
    }

    /// The library is left for the program, with all functions that it was in.
    fn program(&mut self, core: usize, current: DispatcherId, process: u32) {
        self.made.dispatchers[current].process = Some(process);
        let runner = &mut self.runners[current];
        runner.in_library = false;
        let left = std::mem::take(runner.stack());
        let episode = runner.episode.take();
        left.into_iter().rev().chain(episode).for_each(|call| self.end(core, call));
    }

    /// Each switch names the thread that is left, and then the one that goes on. The first thread of
    /// a dispatcher has no name before.
    fn switch_thread(&mut self, current: DispatcherId, thread: u32) {
        let runner = &mut self.runners[current];
        if !runner.stacks.contains_key(&thread) && runner.thread == 0 {
            let stack = runner.stacks.remove(&0).unwrap_or_default();
            runner.stacks.insert(thread, stack);
        }
        runner.thread = thread;
    }

    fn finish(mut self) -> Timeline {
        for id in 0..self.made.calls.len() {
            if !self.made.calls[id].ended {
                let core = self.made.calls[id].core;
                self.made.calls[id].end = self.cores[core].clock;
            }
        }
        // Callers began before what they called.
        for id in (0..self.made.calls.len()).rev() {
            let call = &mut self.made.calls[id];
            call.total += call.own;
            let (parent, total) = (call.parent, call.total);
            if let Some(parent) = parent {
                self.made.calls[parent].total += total;
            }
        }
        self.leave_out();
        self.made
    }

    /// Leaves the calls out that were over before the time that counts. What they were called by may go on.
    fn leave_out(&mut self) {
        if self.over.is_empty() {
            return;
        }
        let mut kept = vec![true; self.made.calls.len()];
        self.over.iter().for_each(|&call| kept[call] = false);
        // Where a call that is kept comes to be. Its caller ended later than it did, and is kept.
        let places: Vec<CallId> = kept
            .iter()
            .scan(0, |next, &is_kept| {
                let place = *next;
                *next += usize::from(is_kept);
                Some(place)
            })
            .collect();
        let mut kept_again = kept.iter();
        self.made.calls.retain(|_| kept_again.next() == Some(&true));
        for call in &mut self.made.calls {
            call.parent = call.parent.filter(|&parent| kept[parent]).map(|parent| places[parent]);
        }
    }
}
