//! Times and trees of small traces that were worked out by hand.

use std::collections::BTreeMap;
use trace::dump::{CoreEvents, Dump, Function};
use trace::profile::{
    folded, label, matching, median_call, rows, shares, short, Share, Tree, Trees,
};
use trace::timeline::{Call, Episode, Name, Piece, Timeline};
use trace::What::{Enter, Exit};
use trace::{Event, Mark, What};

const TRAP: u32 = 0;
const SYSCALL: u32 = 1;
const FAULT: u32 = 2;
const LOOK_UP: u32 = 3;
const SERVE: u32 = 4;
const ANSWER: u32 = 5;

/// Instructions that the probes of these traces cost.
const COST: u64 = 10;

fn dump(cores: &[&[(u64, What)]]) -> Dump {
    let name = |image, name: &str| Function { image, name: name.into(), file: String::new() };
    let functions = BTreeMap::from([
        (TRAP, name(0, "on_trap")),
        (SYSCALL, name(0, "on_syscall")),
        (FAULT, name(1, "page_fault")),
        (LOOK_UP, name(1, "look_up")),
        (SERVE, name(2, "serve")),
        (ANSWER, name(2, "answer")),
    ]);
    let core = |events: &&[(u64, What)]| CoreEvents {
        events: events.iter().map(|&(time, what)| Event::new(time, what)).collect(),
        lost: 0,
    };
    Dump {
        counts_instructions: false,
        begins_with_program: false,
        images: ["kernel", "libunix", "unixd"].map(String::from).into(),
        functions,
        cores: cores.iter().map(core).collect(),
    }
}

/// Events at these times net of the probes: each costs [`COST`] after it.
fn with_probes(events: &[(u64, What)]) -> Vec<(u64, What)> {
    let calibration = [(0, What::Mark(Mark::Calibrate)); 3];
    let all = calibration.iter().chain(events);
    all.zip(0..).map(|(&(time, what), n)| (time + n * COST, what)).collect()
}

/// A page fault of process 7 that makes an invocation, which a server answers.
fn page_fault() -> Vec<(u64, What)> {
    let mark = What::Mark;
    with_probes(&[
        (100, mark(Mark::Switch(70))),
        (100, mark(Mark::Program(7))),
        (600, Enter(TRAP)),
        (650, mark(Mark::Upcall(1))),
        (660, Exit(TRAP)),
        (670, Enter(FAULT)),
        (700, Enter(LOOK_UP)),
        (720, Exit(LOOK_UP)),
        (730, Enter(SYSCALL)),
        (750, mark(Mark::Switch(80))),
        (755, Exit(SYSCALL)),
        (760, Enter(SERVE)),
        (765, Enter(ANSWER)),
        (795, Exit(ANSWER)),
        (800, Enter(SYSCALL)),
        (810, mark(Mark::Switch(70))),
        (815, Exit(SYSCALL)),
        (820, mark(Mark::Program(7))),
        (900, Enter(TRAP)),
        (930, Exit(TRAP)),
        (950, mark(Mark::Idle)),
        (970, mark(Mark::Switch(70))),
    ])
}

fn function(number: u32) -> Name {
    Name::Function(number)
}

#[test]
fn time_belongs_to_what_runs() {
    let timeline = Timeline::new(&dump(&[&page_fault()]));
    assert_eq!(timeline.probe_cost, COST);
    assert_eq!(timeline.strays, 0);
    let rows = rows(&timeline);
    let row = |name| rows.iter().find(|row| row.name == name).expect("it has run");
    // (own, total): what was called is in the second, what only happened meanwhile is not.
    let times = |name| (row(name).own, row(name).total);
    assert_eq!(times(function(TRAP)), (60 + 30, 90));
    assert_eq!(times(function(LOOK_UP)), (20, 20));
    assert_eq!(times(function(SYSCALL)), (25 + 15, 40));
    assert_eq!(times(function(FAULT)), (30 + 10 + 5, 45 + 20 + 25));
    assert_eq!(times(function(ANSWER)), (30, 30));
    let fault = Name::Episode(Episode::PageFault);
    assert_eq!(times(fault), (10, 10 + 60 + 90));
    assert_eq!(row(fault).count, 1);
    assert_eq!(times(Name::Episode(Episode::Kernel)), (0, 30));
    assert_eq!(timeline.dispatchers[0].program, 500 + 80 + 20);
    // Nobody runs before the first switch either.
    assert_eq!(timeline.idle, 100 + 20);
    assert_eq!(timeline.busy() + timeline.idle, 970);
    let folded = folded(&dump(&[&page_fault()]), &timeline);
    assert_eq!(folded.values().sum::<u64>(), timeline.busy());
    assert_eq!(folded["process 7;page fault;page_fault;look_up"], 20);
}

#[test]
fn a_tree_shows_who_else_worked() {
    let dump = dump(&[&page_fault()]);
    let timeline = Timeline::new(&dump);
    let found = matching(&dump, &timeline, "page fault");
    let tree = Trees::new(&timeline).of(median_call(&timeline, found).expect("there is one"));
    let names = |tree: &Tree| -> Vec<String> {
        tree.children.iter().map(|child| label(&dump, child.name)).collect()
    };
    assert_eq!(names(&tree), ["on_trap", "page_fault"]);
    assert_eq!(names(&tree.children[1]), ["look_up", "on_syscall", "answer", "on_syscall"]);
    assert_eq!(tree.elsewhere(), 30 + 15);
}

/// Each of two waits while the other calls, again and again: whose calls are deep in each other's.
#[test]
fn a_tree_has_each_call_once() {
    const DEPTH: usize = 60;
    let call = |at: usize| Call {
        name: function(at as u32),
        dispatcher: Some(at % 2),
        core: 0,
        parent: at.checked_sub(2),
        start: at as u64,
        end: (2 * DEPTH - at) as u64,
        own: 1,
        total: 1,
        ended: true,
    };
    let timeline = Timeline { calls: (0..DEPTH).map(call).collect(), ..Timeline::default() };
    fn count(tree: &Tree) -> usize {
        1 + tree.children.iter().map(count).sum::<usize>()
    }
    assert_eq!(count(&Trees::new(&timeline).of(0)), DEPTH);
}

#[test]
fn a_window_cuts_time_off() {
    let dump = dump(&[&page_fault()]);
    let events = unwrapped_times(&dump);
    // From the entry of `look_up` to the switch to the server.
    let timeline = Timeline::between(&dump, events[9], events[12]);
    assert_eq!(timeline.busy(), 750 - 700);
    assert_eq!(timeline.idle, 0);
}

#[test]
fn what_was_over_before_a_window_is_left_out() {
    let dump = dump(&[&page_fault()]);
    let all = Timeline::new(&dump);
    let events = unwrapped_times(&dump);
    // Where the program is reached for the first time, and where it goes on.
    let reached = What::Mark(Mark::Program(7));
    let reached = (0..events.len()).filter(|at| dump.cores[0].events[*at].what() == Ok(reached));
    let reached: Vec<u64> = reached.map(|at| events[at]).collect();
    let program = Dump { begins_with_program: true, ..dump.clone() };
    assert_eq!(Timeline::shown(&program), Timeline::between(&dump, reached[0], u64::MAX));
    assert_eq!(Timeline::shown(&dump), all);
    let from = Timeline::between(&dump, reached[1] + 1, u64::MAX);
    // The fault and what it called ended there; of the calls before that nothing is left.
    let names: Vec<Name> = from.calls.iter().map(|call| call.name).collect();
    assert!(!names.contains(&function(LOOK_UP)) && !names.contains(&function(ANSWER)), "{names:?}");
    assert!(from.calls.len() < all.calls.len() && from.busy() < all.busy());
    for (id, call) in from.calls.iter().enumerate() {
        assert!(call.parent.is_none_or(|parent| parent < id));
    }
    // What goes on is the same as in the whole.
    let traps = |timeline: &Timeline| -> Vec<u64> {
        let all = rows(timeline);
        all.iter().find(|row| row.name == function(TRAP)).map_or(vec![], |row| row.times.clone())
    };
    assert_eq!(traps(&from).last(), traps(&all).last());
}

#[test]
fn time_is_shared_out_by_process() {
    let dump = dump(&[&page_fault()]);
    let timeline = Timeline::new(&dump);
    let shares = shares(&dump, &timeline);
    assert_eq!(shares.iter().map(Share::total).sum::<u64>(), timeline.busy());
    let process = shares.iter().find(|share| share.who == "process 7").expect("it has run");
    assert_eq!((process.program, process.faults, process.calls), (500 + 80 + 20, 1, 0));
    // The kernel's functions on its behalf: the trap and the call, until the switch, and the trap again.
    assert_eq!(process.kernel, 60 + 30 + 25);
    assert!(shares.windows(2).all(|pair| pair[0].total() >= pair[1].total()));
}

#[test]
fn names_lose_the_types_that_they_were_made_for() {
    for (name, expected) in [
        ("uvm::space::Space", "uvm::space::Space"),
        ("<uvm::Space>::fork::<libunix::Caps>", "<uvm::Space>::fork"),
        ("<uvm::Space<a::B<c>>>::fork", "<uvm::Space>::fork"),
        ("<a::B<c> as d::E<f>>::g", "<a::B as d::E>::g"),
        ("a::b::<c::<d>, e>::{closure#0}", "a::b::{closure#0}"),
        ("<a::B<fn(u8) -> c::D<e>>>::f", "<a::B>::f"),
        ("core::ptr::drop_in_place::<a::B<c>>", "core::ptr::drop_in_place"),
        ("<[u8] as a::B>::f", "<[u8] as a::B>::f"),
        ("a::<b", "a"),
        ("page fault", "page fault"),
    ] {
        assert_eq!(short(name), expected);
    }
}

fn unwrapped_times(dump: &Dump) -> Vec<u64> {
    dump.cores[0].events.iter().map(|event| event.time()).collect()
}

#[test]
fn times_may_wrap() {
    let near_the_end = (1 << 40) - 5;
    let events = [
        (near_the_end, What::Mark(Mark::Switch(1))),
        (near_the_end + 2, Enter(FAULT)),
        (near_the_end + 12, Exit(FAULT)),
    ];
    let timeline = Timeline::new(&dump(&[&events]));
    assert_eq!(timeline.calls[0].total, 10);
}

#[test]
fn a_late_event_takes_its_place() {
    let mark = |at| (at, What::Mark(Mark::Switch(1)));
    let events = [mark(0), (10, Enter(FAULT)), (30, Exit(LOOK_UP)), (20, Enter(LOOK_UP))];
    let timeline = Timeline::new(&dump(&[&events]));
    assert_eq!(timeline.strays, 0);
    assert_eq!(timeline.calls[1].total, 10);
}

#[test]
fn what_never_returned_ends_with_what_called_it() {
    let events = [
        (0, What::Mark(Mark::Switch(1))),
        (10, Enter(FAULT)),
        (20, Enter(LOOK_UP)),
        (50, Exit(FAULT)),
        (60, Exit(ANSWER)),
    ];
    let timeline = Timeline::new(&dump(&[&events]));
    assert_eq!(timeline.strays, 1);
    assert!(timeline.calls.iter().all(|call| call.ended));
    assert_eq!(timeline.calls[0].total, 40);
}

#[test]
fn a_dispatcher_moves_between_cores() {
    let here = [(0, What::Mark(Mark::Switch(1))), (10, Enter(FAULT)), (20, What::Mark(Mark::Idle))];
    let there = [(30, What::Mark(Mark::Switch(1))), (45, Exit(FAULT))];
    let timeline = Timeline::new(&dump(&[&here, &there]));
    assert_eq!(timeline.strays, 0);
    assert_eq!(timeline.calls[0].total, 10 + 15);
}

#[test]
fn threads_have_stacks_of_their_own() {
    let thread = |at, n| (at, What::Mark(Mark::Thread(n)));
    let events = [
        (0, What::Mark(Mark::Switch(1))),
        (10, Enter(SERVE)),
        thread(20, 5),
        thread(20, 6),
        (30, Enter(ANSWER)),
        thread(40, 6),
        thread(40, 5),
        (55, Exit(SERVE)),
    ];
    let timeline = Timeline::new(&dump(&[&events]));
    assert_eq!(timeline.strays, 0);
    assert_eq!((timeline.calls[0].total, timeline.calls[1].total), (10 + 15, 10));
}

/// With one clock for all cores, time is that of the core on which something runs.
#[test]
fn cores_that_take_turns_share_a_clock() {
    let here = [
        (0, What::Mark(Mark::Switch(1))),
        (10, Enter(FAULT)),
        (30, What::Mark(Mark::Idle)),
        (110, What::Mark(Mark::Switch(1))),
        (150, Exit(FAULT)),
    ];
    let there = [
        (40, What::Mark(Mark::Switch(2))),
        (45, Enter(SERVE)),
        (105, Exit(SERVE)),
        (160, What::Mark(Mark::Idle)),
    ];
    let shared = Dump { counts_instructions: true, ..dump(&[&here, &there]) };
    let mut pieces = Vec::new();
    let timeline = Timeline::watched(&shared, &mut |piece| pieces.push(piece));
    // What the second did from 105 on, the first after 110, and who had the turn from 150 to 160.
    assert_eq!((timeline.turns, timeline.idle), (10, 10));
    let own: Vec<_> = timeline.calls.iter().map(|call| (call.core, call.own)).collect();
    assert_eq!(own, [(0, 20 + 40), (1, 60)]);
    let programs: Vec<_> = timeline.dispatchers.iter().map(|d| d.program).collect();
    assert_eq!(programs, [10, 5 + 5]);
    assert_eq!(pieces.iter().map(Piece::passed).sum::<u64>(), 160);
    // Each has a clock of its own otherwise.
    assert_eq!(Timeline::new(&dump(&[&here, &there])).turns, 0);
}
