//! What a timeline says of functions: how often, how long, called by whom.

use crate::dump::Dump;
use crate::timeline::{Call, CallId, DispatcherId, Episode, Name, Timeline};
use std::collections::{BTreeMap, HashMap, HashSet};

/// The name of a function or an episode, for people.
pub fn label(dump: &Dump, name: Name) -> String {
    match name {
        Name::Function(number) => dump
            .functions
            .get(&number)
            .map_or_else(|| format!("function {number}"), |function| function.name.clone()),
        Name::Episode(episode) => episode_label(episode),
    }
}

fn episode_label(episode: Episode) -> String {
    match episode {
        Episode::Run => "first entry".into(),
        Episode::PageFault => "page fault".into(),
        Episode::Exception => "exception".into(),
        Episode::Message => "notification".into(),
        Episode::Timer => "timer".into(),
        Episode::Kernel => "kernel only".into(),
        Episode::LinuxCall(u32::MAX) => "system call".into(),
        Episode::LinuxCall(number) => match syscalls::x86_64::Sysno::new(number as usize) {
            Some(known) => format!("system call {}", known.name()),
            None => format!("system call {number}"),
        },
    }
}

/// Who a dispatcher is, for people.
pub fn who(dump: &Dump, timeline: &Timeline, dispatcher: Option<DispatcherId>) -> String {
    let Some(known) = dispatcher.and_then(|id| timeline.dispatchers.get(id)) else {
        return "kernel".into();
    };
    let image = known.image.and_then(|image| dump.images.get(image as usize));
    match (known.process, image) {
        (Some(process), _) => format!("process {process}"),
        (None, Some(image)) => image.clone(),
        (None, None) => "a dispatcher".into(),
    }
}

/// One function or kind of episode in all of a trace.
#[derive(Clone, PartialEq, Debug)]
pub struct Row {
    pub name: Name,
    /// Times of its calls that have ended, calls from it included, in their order.
    pub times: Vec<u64>,
    /// Calls, those that have not ended included.
    pub count: usize,
    /// Time in itself alone.
    pub own: u64,
    /// Time with all that it called; recursion counts once.
    pub total: u64,
}

impl Row {
    /// Of its calls, which must be at least one that has ended.
    pub fn median(&self) -> Option<u64> {
        let mut sorted = self.times.clone();
        sorted.sort_unstable();
        sorted.get(sorted.len().checked_sub(1)? / 2).copied()
    }
}

/// A row for every function and kind of episode, those with the most own time first.
pub fn rows(timeline: &Timeline) -> Vec<Row> {
    let mut rows: HashMap<Name, Row> = HashMap::new();
    for (id, call) in timeline.calls.iter().enumerate() {
        let row = rows.entry(call.name).or_insert_with(|| Row {
            name: call.name,
            times: Vec::new(),
            count: 0,
            own: 0,
            total: 0,
        });
        row.count += 1;
        row.own += call.own;
        if call.ended {
            row.times.push(call.total);
        }
        if !is_recursive(timeline, id) {
            row.total += call.total;
        }
    }
    let mut rows: Vec<_> = rows.into_values().collect();
    rows.sort_by_key(|row| (std::cmp::Reverse((row.own, row.total)), row.times.first().copied()));
    rows
}

/// Is the same function among its callers?
fn is_recursive(timeline: &Timeline, id: CallId) -> bool {
    let name = timeline.calls[id].name;
    callers(timeline, id).any(|caller| timeline.calls[caller].name == name)
}

/// Its caller, that one's caller, and so on.
fn callers(timeline: &Timeline, id: CallId) -> impl Iterator<Item = CallId> + '_ {
    std::iter::successors(timeline.calls[id].parent, |&at| timeline.calls[at].parent)
}

/// What one process, server or other dispatchers of one name did, and what was done for them.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct Share {
    /// Who it is, for people.
    pub who: String,
    /// Time in its program.
    pub program: u64,
    /// Time in its library, or in the server itself.
    pub library: u64,
    /// Time in the kernel on its behalf.
    pub kernel: u64,
    /// Page faults that its library handled.
    pub faults: usize,
    /// Linux system calls of its program.
    pub calls: usize,
}

impl Share {
    /// All of its time.
    pub fn total(&self) -> u64 {
        self.program + self.library + self.kernel
    }
}

/// The time of a trace by who had it, the most first.
pub fn shares(dump: &Dump, timeline: &Timeline) -> Vec<Share> {
    let mut shares: BTreeMap<String, Share> = BTreeMap::new();
    let mut of = |dispatcher: Option<DispatcherId>, add: &mut dyn FnMut(&mut Share)| {
        let who = who(dump, timeline, dispatcher);
        let share = shares.entry(who.clone()).or_insert_with(|| Share { who, ..Share::default() });
        add(share);
    };
    for call in &timeline.calls {
        of(call.dispatcher, &mut |share| match call.name {
            Name::Function(number)
                if dump.functions.get(&number).is_none_or(|found| found.image == 0) =>
            {
                share.kernel += call.own;
            }
            Name::Function(_) => share.library += call.own,
            Name::Episode(episode) => {
                share.library += call.own;
                share.faults += usize::from(episode == Episode::PageFault);
                share.calls += usize::from(matches!(episode, Episode::LinuxCall(_)));
            }
        });
    }
    for (id, dispatcher) in timeline.dispatchers.iter().enumerate() {
        of(Some(id), &mut |share| share.program += dispatcher.program);
    }
    let mut shares: Vec<Share> =
        shares.into_values().filter(|share| share.total() > 0 || share.calls > 0).collect();
    shares.sort_by(|one, other| other.total().cmp(&one.total()).then(one.who.cmp(&other.who)));
    shares
}

/// A name without the types that something generic was made for: `<a::Space<b::C>>::f::<d>` is `<a::Space>::f`.
pub fn short(name: &str) -> String {
    let mut short = String::with_capacity(name.len());
    // Within how many lists of types.
    let mut depth = 0;
    let mut before = ' ';
    for (at, c) in name.char_indices() {
        let is_list = c == '<' && (before.is_alphanumeric() || before == '_' || before == ':');
        match c {
            '<' if is_list && depth == 0 => {
                depth = 1;
                // `::<` in a path of values.
                if short.ends_with("::") {
                    short.truncate(short.len() - 2);
                }
            }
            '<' if depth > 0 => depth += 1,
            // That of `->` closes nothing.
            '>' if depth > 0 && before != '-' => depth -= 1,
            _ if depth == 0 => short.push_str(&name[at..at + c.len_utf8()]),
            _ => {}
        }
        before = c;
    }
    short
}

/// Stacks and the time in their innermost function, as flame graphs want them: names from the
/// outermost on, separated by `;`. Programs and idle time are in it, so that it is all of the time.
pub fn folded(dump: &Dump, timeline: &Timeline) -> BTreeMap<String, u64> {
    let mut folded = BTreeMap::new();
    let mut paths: Vec<String> = Vec::with_capacity(timeline.calls.len());
    for call in &timeline.calls {
        let above = match call.parent {
            Some(parent) => paths[parent].clone(),
            None => plain(&who(dump, timeline, call.dispatcher)),
        };
        let path = format!("{above};{}", plain(&short(&label(dump, call.name))));
        if call.own > 0 {
            *folded.entry(path.clone()).or_default() += call.own;
        }
        paths.push(path);
    }
    for (id, dispatcher) in timeline.dispatchers.iter().enumerate() {
        if dispatcher.program > 0 {
            let path = format!("{};program", plain(&who(dump, timeline, Some(id))));
            *folded.entry(path).or_default() += dispatcher.program;
        }
    }
    folded
}

/// Without what means something between the names of a stack.
fn plain(name: &str) -> String {
    name.replace(';', ",")
}

/// A call and all that was done for it, as a tree.
#[derive(Clone, PartialEq, Debug)]
pub struct Tree {
    pub name: Name,
    pub dispatcher: Option<DispatcherId>,
    /// How many calls in a row this stands for.
    pub count: usize,
    pub own: u64,
    pub total: u64,
    /// What it called; and, where another dispatcher ran before the call went on, what that did.
    pub children: Vec<Tree>,
}

/// Makes trees of the calls of a timeline.
pub struct Trees<'a> {
    timeline: &'a Timeline,
    children: Vec<Vec<CallId>>,
}

impl<'a> Trees<'a> {
    pub fn new(timeline: &'a Timeline) -> Self {
        Trees { timeline, children: timeline.children() }
    }

    /// The tree of one call. Calls of the same function in a row that consist of the same calls are
    /// one. Each call is in it once: of those that wait for each other, where who waits longest waits.
    pub fn of(&self, id: CallId) -> Tree {
        self.grow(id, &mut Vec::new(), &mut HashSet::from([id]))
    }

    /// The same below calls of these dispatchers, without what is somewhere in the tree.
    fn grow(
        &self,
        id: CallId,
        above: &mut Vec<Option<DispatcherId>>,
        seen: &mut HashSet<CallId>,
    ) -> Tree {
        let calls = &self.timeline.calls;
        let call = &calls[id];
        let others = self.meanwhile(id).into_iter();
        let others = others.filter(|&other| !above.contains(&calls[other].dispatcher));
        let mut parts: Vec<CallId> = self.children[id].iter().copied().chain(others).collect();
        parts.retain(|&part| seen.insert(part));
        parts.sort_unstable();
        let mut children: Vec<Tree> = Vec::new();
        above.push(call.dispatcher);
        for part in parts {
            let next = self.grow(part, above, seen);
            match children.last_mut() {
                Some(last) if last.is_like(&next) => last.add(&next),
                _ => children.push(next),
            }
        }
        above.pop();
        let (name, dispatcher) = (call.name, call.dispatcher);
        Tree { name, dispatcher, count: 1, own: call.own, total: call.total, children }
    }

    /// What other dispatchers did on the core while this call waited, and while no call that it made
    /// was running: the outermost calls that lie between.
    fn meanwhile(&self, id: CallId) -> Vec<CallId> {
        let calls = &self.timeline.calls;
        let call = &calls[id];
        let own: Vec<_> = self.children[id].iter().map(|&child| &calls[child]).collect();
        let fits = |that: &Call| that.start >= call.start && that.ended && that.end <= call.end;
        let in_a_child = |that: &Call| {
            own.iter().any(|child| {
                child.start <= that.start && that.end <= child.end && child.end > child.start
            })
        };
        let mut found: Vec<CallId> = Vec::new();
        for (other, that) in calls.iter().enumerate().skip(id + 1) {
            if that.core != call.core || that.dispatcher == call.dispatcher {
                continue;
            }
            if that.start > call.end {
                break;
            }
            // A server is in some function all the time: what counts is what it calls from there.
            let is_outermost =
                that.parent.is_none_or(|parent| parent < id || !fits(&calls[parent]));
            if is_outermost && fits(that) && !in_a_child(that) {
                found.push(other);
            }
        }
        found
    }
}

impl Tree {
    fn is_like(&self, other: &Tree) -> bool {
        self.name == other.name
            && self.dispatcher == other.dispatcher
            && self.children.len() == other.children.len()
            && self.children.iter().zip(&other.children).all(|(a, b)| a.is_like(b))
    }

    fn add(&mut self, other: &Tree) {
        self.count += other.count;
        self.own += other.own;
        self.total += other.total;
        self.children.iter_mut().zip(&other.children).for_each(|(mine, more)| mine.add(more));
    }

    /// Time that was spent by others while this waited.
    pub fn elsewhere(&self) -> u64 {
        let part = |child: &Tree| match child.dispatcher == self.dispatcher {
            true => child.elsewhere(),
            false => child.total + child.elsewhere(),
        };
        self.children.iter().map(part).sum()
    }
}

/// The calls of functions or episodes whose names contain `pattern`, outermost only.
pub fn matching(dump: &Dump, timeline: &Timeline, pattern: &str) -> Vec<CallId> {
    let mut known: HashMap<Name, bool> = HashMap::new();
    let mut matches =
        |name: Name| *known.entry(name).or_insert_with(|| label(dump, name).contains(pattern));
    let mut found = Vec::new();
    for (id, call) in timeline.calls.iter().enumerate() {
        if call.ended
            && matches(call.name)
            && !callers(timeline, id).any(|caller| matches(timeline.calls[caller].name))
        {
            found.push(id);
        }
    }
    found
}

/// The one of `calls` whose total time is the median.
pub fn median_call(timeline: &Timeline, mut calls: Vec<CallId>) -> Option<CallId> {
    calls.sort_by_key(|&id| (timeline.calls[id].total, id));
    calls.get(calls.len().checked_sub(1)? / 2).copied()
}
