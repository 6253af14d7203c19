//! Two or three cores at once, in every interleaving that matters: loom switches between them at each word of memory, and each
//! descriptor, that two of them use and one of them changes. Which these are is found out by running: until no more are found,
//! all begins anew.
//!
//! Words are sequentially consistent here: what the algorithms publish, they publish by exchanges; what they need besides
//! ([`Cores::enter`]) is asked of who implements the traits.

use loom::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use loom::sync::Arc;
use morsel::*;
use powerfail::{Image, Recorder, PAGE};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Mutex;

const FRAMES: usize = 28;
/// A machine that does not survive has 2 MiB besides, of which only so many pages are there: the others, which nobody writes, are alike.
const LARGE: u64 = 512;
const PIECES: u64 = 3;
const HEAD: u64 = 4;
const CORES: usize = 3;

/// What two cores may use: a word of a frame, or (512) its descriptor.
type Place = (u64, usize);

#[derive(Default)]
struct Uses {
    /// Who has read it, and who has written it, since there are several.
    by: BTreeMap<Place, (u8, u8)>,
    concurrent: bool,
}

struct Shared {
    memory: Recorder,
    /// Is the page of 2 MiB in use, and which pieces of it are?
    large: BTreeSet<u64>,
    used: Vec<bool>,
    descriptors: Vec<u64>,
    /// By core.
    tlb: [BTreeMap<(u32, u64), (u64, bool)>; CORES],
    uses: Uses,
    /// What a test wants to know later.
    noted: Vec<u64>,
    wrong: Option<String>,
}

struct Machine {
    state: Mutex<Shared>,
    domain: Domain,
    /// Is it a pool that does not survive, and so shares 2 MiB in pieces?
    grows: bool,
    points: BTreeMap<Place, AtomicUsize>,
    allocator: AtomicUsize,
    /// Odd while a core walks, and while it executes an instruction.
    walks: [AtomicUsize; CORES],
    instructions: [AtomicUsize; CORES],
}

/// A core of it.
#[derive(Clone)]
struct Core {
    machine: Arc<Machine>,
    id: usize,
}

impl Core {
    fn with<R>(&self, f: impl FnOnce(&mut Shared) -> R) -> R {
        let mut state = self.machine.state.lock().expect("nobody panics here");
        state.memory.core = self.id % powerfail::CORES;
        f(&mut state)
    }
    fn fail(&self, what: String) {
        self.with(|state| state.wrong.get_or_insert(what).truncate(400));
    }
    fn use_of(&self, place: Place, writes: bool) {
        self.with(|state| {
            if state.uses.concurrent {
                let by = state.uses.by.entry(place).or_default();
                let by = if writes { &mut by.1 } else { &mut by.0 };
                *by |= 1 << self.id;
            }
        });
        if let Some(point) = self.machine.points.get(&place) {
            point.fetch_add(1, SeqCst);
        }
    }
    fn morsels(&self) -> Morsels<'_, Core, Core, Core> {
        let zeros = [0, 1, 2, 3].map(Frame);
        Morsels { memory: self, pages: self, cores: self, head: Frame(HEAD), zeros }
    }

    /// What a program does: an instruction that reads or writes a word of a page that it has mapped.
    fn access<R>(
        &self,
        record: Record,
        page: u64,
        write: bool,
        then: impl Fn(&mut Recorder, u64) -> R,
    ) -> Result<R, Refused> {
        for _ in 0..64 {
            self.machine.instructions[self.id].fetch_add(1, SeqCst);
            let found = self.translate(record, page, write);
            let result = found.map(|frame| {
                self.use_of((frame, 0), write);
                self.with(|state| then(&mut state.memory, stored(frame)))
            });
            self.machine.instructions[self.id].fetch_add(1, SeqCst);
            if let Some(result) = result {
                return Ok(result);
            }
            let access = if write { Access::Write } else { Access::Read };
            match self.morsels().fault(record, page, access) {
                Ok(_) => {}
                Err(Refused::Again) => loom::thread::yield_now(),
                Err(refused) => return Err(refused),
            }
        }
        self.fail(format!("core {}: faults on page {page} do not help", self.id));
        Err(Refused::Damaged)
    }
    fn translate(&self, record: Record, page: u64, write: bool) -> Option<u64> {
        let cached = self.with(|state| state.tlb[self.id].get(&(record.id, page)).copied());
        if let Some((frame, writable)) = cached {
            if writable || !write {
                return Some(frame);
            }
        }
        let anchor = self.morsels().anchor(record);
        let (mut frame, mut level, mut writable) = (anchor.root().0, anchor.order(), true);
        while level > 0 {
            let link = Link(self.load(At { frame: Frame(frame), index: index(page, level) }));
            if link.0 & 1 == 0 {
                return None;
            }
            writable &= link.0 & 2 != 0;
            frame = link.frame().0;
            level -= 1;
            if level == 1 && link.is_huge() {
                frame += page & 511;
                break;
            }
        }
        if write && !writable {
            return None;
        }
        self.with(|state| state.tlb[self.id].insert((record.id, page), (frame, writable)));
        Some(frame)
    }
    /// Writes a word of a page, so that it is safe.
    fn write(&self, record: Record, page: u64, word: usize, value: u64) -> Result<(), Refused> {
        self.access(record, page, true, |memory, frame| {
            memory.store(frame, word, value);
            memory.write_back(frame, word / powerfail::LINE);
            memory.fence();
        })
    }
    fn read(&self, record: Record, page: u64, word: usize) -> Result<u64, Refused> {
        self.access(record, page, false, |memory, frame| memory.load(frame, word))
    }
    /// As often as it is asked to come again.
    fn until<R>(&self, f: impl Fn() -> Result<R, Refused>) -> Result<R, Refused> {
        for _ in 0..64 {
            match f() {
                Err(Refused::Again) => loom::thread::yield_now(),
                other => return other,
            }
        }
        self.fail("it is never done".into());
        Err(Refused::Again)
    }
    fn discard(&self, record: Record, first: u64, end: u64) -> Result<(), Refused> {
        let mut from = first;
        while from < end {
            from = self.until(|| self.morsels().discard(record, from, end))?;
        }
        Ok(())
    }
    fn destroy(&self, record: Record) -> Result<(), Refused> {
        self.until(|| self.morsels().destroy(record))?;
        while !self.morsels().reap(record)? {}
        Ok(())
    }

    fn wait(&self, counters: &[AtomicUsize; CORES]) {
        for (n, counter) in counters.iter().enumerate().filter(|(n, _)| *n != self.id) {
            let before = counter.fetch_add(0, SeqCst);
            while before % 2 == 1 && counter.fetch_add(0, SeqCst) == before {
                assert!(n < CORES);
                loom::thread::yield_now();
            }
        }
    }
}

impl Memory for Core {
    fn load(&self, at: At) -> u64 {
        self.use_of((at.frame.0, at.index), false);
        self.with(|state| state.memory.load(stored(at.frame.0), at.index))
    }
    fn store(&self, at: At, value: u64) {
        self.use_of((at.frame.0, at.index), true);
        self.with(|state| state.memory.store(at.frame.0, at.index, value));
    }
    fn compare_exchange(&self, at: At, old: u64, new: u64) -> Result<(), u64> {
        self.use_of((at.frame.0, at.index), true);
        self.with(|state| {
            let now = state.memory.load(at.frame.0, at.index);
            if now == old {
                state.memory.store(at.frame.0, at.index, new);
            }
            (now == old).then_some(()).ok_or(now)
        })
    }
    fn write_back(&self, frame: Frame, line: usize) {
        let places = (frame.0, line * WORDS)..(frame.0, (line + 1) * WORDS);
        for (_, point) in self.machine.points.range(places) {
            point.fetch_add(1, SeqCst);
        }
        self.with(|state| state.memory.write_back(stored(frame.0), line));
    }
    fn fence(&self) {
        self.with(|state| state.memory.fence());
    }
    fn zero(&self, frame: Frame) {
        self.use_of((frame.0, 0), true);
        if frame.0 >= LARGE + PIECES {
            return;
        }
        let frame = Frame(stored(frame.0));
        self.with(|state| {
            (0..LINES).for_each(|line| state.memory.store_line(frame.0, line, [0; WORDS]));
        });
    }
    fn copy(&self, from: Frame, to: Frame) {
        self.use_of((from.0, 0), false);
        self.use_of((to.0, 0), true);
        let (from, to) = (Frame(stored(from.0)), Frame(stored(to.0)));
        self.with(|state| {
            for line in 0..LINES {
                let words = std::array::from_fn(|n| state.memory.load(from.0, line * WORDS + n));
                state.memory.store_line(to.0, line, words);
            }
        });
    }
    fn domain(&self) -> Domain {
        self.machine.domain
    }
}

/// Where a frame is in memory.
fn stored(frame: u64) -> u64 {
    match frame.checked_sub(LARGE) {
        Some(piece) => FRAMES as u64 + piece.min(PIECES),
        None => frame,
    }
}

impl Pages for Core {
    fn grows(&self) -> bool {
        self.machine.grows
    }
    fn take(&self, order: u8) -> Result<Frame, Refused> {
        self.machine.allocator.fetch_add(1, SeqCst);
        if order > 0 {
            assert!(self.machine.grows, "no large pages here");
            return self.with(|state| {
                let is_free = state.large.is_empty();
                is_free.then(|| state.large.extend(LARGE..LARGE + 512)).ok_or(Refused::NoMemory)?;
                Ok(Frame(LARGE))
            });
        }
        self.with(|state| {
            let found = state.used.iter().position(|used| !used).ok_or(Refused::NoMemory)?;
            state.used[found] = true;
            Ok(Frame(found as u64))
        })
    }
    fn give(&self, frame: Frame, order: u8) {
        self.machine.allocator.fetch_add(1, SeqCst);
        let frames = frame.0..frame.0 + (1 << order);
        let wrong = self.with(|state| {
            let twice = frames.clone().any(|frame| match frame >= LARGE {
                true => !state.large.remove(&frame),
                false => !std::mem::replace(&mut state.used[frame as usize], false),
            });
            let cached = state.tlb.iter().flatten().any(|(_, page)| frames.contains(&page.0));
            (twice || cached).then(|| format!("{frame:?}: given twice {twice}, cached {cached}"))
        });
        wrong.into_iter().for_each(|wrong| self.fail(wrong));
    }
    fn reserve(&self, frame: Frame, _: u8) -> Reserved {
        self.with(|state| match state.used.get_mut(frame.0 as usize) {
            Some(used) if frame.0 >= HEAD => match std::mem::replace(used, true) {
                true => Reserved::Before,
                false => Reserved::First,
            },
            _ => Reserved::Outside,
        })
    }
    fn descriptor(&self, frame: Frame) -> u64 {
        self.use_of((frame.0, PAGE), false);
        self.with(|state| state.descriptors[frame.0 as usize])
    }
    fn set_descriptor(&self, frame: Frame, value: u64) {
        self.use_of((frame.0, PAGE), true);
        self.with(|state| state.descriptors[frame.0 as usize] = value);
    }
    fn exchange_descriptor(&self, frame: Frame, old: u64, new: u64) -> Result<(), u64> {
        self.use_of((frame.0, PAGE), true);
        self.with(|state| {
            let word = &mut state.descriptors[frame.0 as usize];
            if *word != old {
                return Err(*word);
            }
            *word = new;
            Ok(())
        })
    }
}

impl Cores for Core {
    fn enter(&self) {
        self.machine.walks[self.id].fetch_add(1, SeqCst);
    }
    fn leave(&self) {
        self.machine.walks[self.id].fetch_add(1, SeqCst);
    }
    fn invalidate(&self, object: u32, pages: Range<u64>) {
        self.with(|state| {
            for tlb in &mut state.tlb {
                tlb.retain(|(cached, page), _| *cached != object || !pages.contains(page));
            }
        });
        self.wait(&self.machine.instructions);
        // What an instruction that was under way has cached since.
        self.with(|state| {
            for tlb in &mut state.tlb {
                tlb.retain(|(cached, page), _| *cached != object || !pages.contains(page));
            }
        });
    }
    fn grace(&self) {
        self.wait(&self.machine.walks);
    }
}

impl Machine {
    fn new(domain: Domain, grows: bool, points: &BTreeSet<Place>) -> Machine {
        let mut image = Image::new(if grows { stored(u64::MAX) as usize + 1 } else { FRAMES });
        for level in 1..4u64 {
            (0..PAGE).for_each(|n| image.store(level, n, Link::zeros(Frame(level - 1)).0));
        }
        Machine { grows, ..Machine::booted(image, domain, points) }
    }
    fn booted(image: Image, domain: Domain, points: &BTreeSet<Place>) -> Machine {
        let mut used = vec![false; FRAMES];
        used[..=HEAD as usize].fill(true);
        let state = Shared {
            memory: Recorder::new(image),
            large: BTreeSet::new(),
            used,
            descriptors: vec![0; LARGE as usize + 512],
            tlb: Default::default(),
            uses: Uses::default(),
            noted: Vec::new(),
            wrong: None,
        };
        Machine {
            state: Mutex::new(state),
            domain,
            grows: false,
            points: points.iter().map(|&place| (place, AtomicUsize::new(0))).collect(),
            allocator: AtomicUsize::new(0),
            walks: std::array::from_fn(|_| AtomicUsize::new(0)),
            instructions: std::array::from_fn(|_| AtomicUsize::new(0)),
        }
    }
}

/// What is found when the power fails now, and nothing survives that need not.
fn after_failure(core: &Core, page: impl FnOnce(&Core)) {
    let image = core.with(|state| {
        state.memory.watch();
        state.memory.point();
        let points = state.memory.take_points();
        let mut least = None;
        points[0].images(1, &mut fastrand::Rng::with_seed(1), |image| {
            least.get_or_insert(image);
        });
        least.expect("there is one")
    });
    let machine = Machine::booted(image, Domain::Memory, &BTreeSet::new());
    machine.state.lock().expect("new").used[HEAD as usize] = false;
    let core = Core { machine: Arc::new(machine), id: 0 };
    let mut recovery = Recovery::new();
    while !recovery.step(&core.morsels()).expect("sound") {}
    page(&core);
}

/// Frames in use are those that recovery finds; then all are given back.
fn audit(core: &Core) {
    core.with(|state| assert_eq!(state.wrong, None));
    if !core.machine.grows {
        recovers(core);
    }
    gives_all_back(core);
}

fn recovers(core: &Core) {
    let (image, used) = core.with(|state| (state.memory.now().clone(), state.used.clone()));
    let machine = Machine::booted(image, core.machine.domain, &BTreeSet::new());
    machine.state.lock().expect("new").used[HEAD as usize] = false;
    let other = Core { machine: Arc::new(machine), id: 0 };
    let mut recovery = Recovery::new();
    while !recovery.step(&other.morsels()).expect("sound") {}
    other.with(|state| assert_eq!(used, state.used, "in use, and found"));
    let (mine, found) =
        (core.with(|s| s.descriptors.clone()), other.with(|s| s.descriptors.clone()));
    for frame in 0..FRAMES {
        let (mine, found) = (State(mine[frame]), State(found[frame]));
        assert_eq!(mine.sharers(), found.sharers(), "frame {frame}: {mine:x?} {found:x?}");
    }
}

fn gives_all_back(core: &Core) {
    // Nobody has mapped what is destroyed.
    core.with(|state| state.tlb = Default::default());
    for id in 1..8 {
        if let Ok(record) = core.morsels().open(id) {
            core.destroy(record).expect("nobody else is there");
        }
    }
    core.with(|state| assert_eq!(state.wrong, None));
    let left = core.with(|state| state.used.iter().filter(|used| **used).count());
    core.with(|state| assert_eq!(state.large, BTreeSet::new()));
    // Before the head; it; the directory and its page.
    assert_eq!(left, HEAD as usize + 3);
}

type Body = fn(&Core);

/// Prepares a machine, runs these on one core each, and looks at it.
fn run(
    name: &str,
    domain: Domain,
    bound: usize,
    before: Body,
    cores: &'static [Body],
    after: Body,
) {
    run_in(name, (domain, false), bound, before, cores, after);
}

/// The same where pages of 2 MiB are shared in pieces.
fn run_large(name: &str, before: Body, cores: &'static [Body], after: Body) {
    run_in(name, (Domain::Caches, true), 3, before, cores, after);
}

fn run_in(
    name: &str,
    (domain, grows): (Domain, bool),
    bound: usize,
    before: Body,
    cores: &'static [Body],
    after: Body,
) {
    let mut points: BTreeSet<Place> = BTreeSet::new();
    loop {
        let new = std::sync::Arc::new(Mutex::new(BTreeSet::new()));
        let count = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(bound);
        model.max_branches = 20_000;
        let (found, counted, known) = (new.clone(), count.clone(), points.clone());
        model.check(move || {
            counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let machine = Arc::new(Machine::new(domain, grows, &known));
            let core = Core { machine: machine.clone(), id: 0 };
            core.morsels().format().expect("room");
            before(&core);
            core.with(|state| state.uses.concurrent = true);
            let threads: Vec<_> = (1..cores.len())
                .map(|id| {
                    let core = Core { machine: machine.clone(), id };
                    loom::thread::spawn(move || cores[id](&core))
                })
                .collect();
            cores[0](&core);
            threads.into_iter().for_each(|thread| thread.join().expect("it has ended"));
            core.with(|state| {
                state.uses.concurrent = false;
                let mut found = found.lock().expect("nobody panics here");
                found.extend(state.uses.by.iter().filter_map(|(place, (read, written))| {
                    let both = read | written;
                    // Of pieces, and of the entries that lead to them, one in front and one behind stand for all.
                    let is_one = !grows || matches!(place, (0..=LARGE, 0 | PAGE) | (0..=513, 1));
                    let is_one = is_one || *place == (LARGE + 1, PAGE);
                    (is_one && *written != 0 && both.count_ones() > 1).then_some(*place)
                }));
            });
            after(&core);
            audit(&core);
        });
        let mut new = new.lock().expect("ended");
        new.extend(points.iter());
        let runs = count.load(std::sync::atomic::Ordering::Relaxed);
        println!("{name}: {runs} interleavings at {} places", points.len());
        if *new == points {
            return;
        }
        points = std::mem::take(&mut *new);
    }
}

fn open(core: &Core, id: u32) -> Record {
    core.morsels().open(id).expect("it exists")
}
fn create(core: &Core, id: u32, order: u8) -> Record {
    core.morsels().create(id, order, [0; 4]).expect("room")
}
fn small(core: &Core) {
    create(core, 1, 1);
}
fn tall(core: &Core) {
    create(core, 1, 2);
}
fn written(core: &Core) {
    let record = create(core, 1, 2);
    core.write(record, 0, 0, 7).expect("room");
    core.with(|state| state.tlb[0].clear());
}
/// Two objects that share a table with one page.
fn shared(core: &Core) {
    written(core);
    core.morsels().snapshot(open(core, 1), 2).expect("room");
}

#[test]
fn two_populate_a_page() {
    for domain in [Domain::Caches, Domain::Memory] {
        run(
            "two populate a page",
            domain,
            3,
            small,
            &[
                |core| core.write(open(core, 1), 5, 0, 1).expect("room"),
                |core| core.write(open(core, 1), 5, 1, 2).expect("room"),
            ],
            |core| {
                let read = [0, 1].map(|word| core.read(open(core, 1), 5, word));
                assert_eq!(read, [Ok(1), Ok(2)]);
            },
        );
    }
}

/// Whoever has written a page finds it after a power failure, though another core populated it and has not ended.
#[test]
fn who_meets_a_claim_completes_it() {
    fn writer(core: &Core) {
        let value = 1 + core.id as u64;
        core.write(open(core, 1), 5, core.id, value).expect("room");
        after_failure(core, |later| {
            assert_eq!(later.read(open(later, 1), 5, core.id), Ok(value));
        });
    }
    run("a claim", Domain::Memory, 3, small, &[writer, writer], |_| {});
}

#[test]
fn two_populate_neighbours_in_a_table_that_is_not_there() {
    run(
        "neighbours",
        Domain::Memory,
        2,
        tall,
        &[
            |core| core.write(open(core, 1), 5, 0, 1).expect("room"),
            |core| core.write(open(core, 1), 6, 0, 2).expect("room"),
        ],
        |core| {
            let read = [5, 6].map(|page| core.read(open(core, 1), page, 0));
            assert_eq!(read, [Ok(1), Ok(2)]);
        },
    );
}

#[test]
fn zeros_are_seen_until_a_page_is_written_and_never_again() {
    for domain in [Domain::Caches, Domain::Memory] {
        run(
            "zeros",
            domain,
            3,
            small,
            &[
                |core| core.write(open(core, 1), 5, 0, 1).expect("room"),
                |core| {
                    let read = [(); 3].map(|()| core.read(open(core, 1), 5, 0).expect("inside"));
                    assert!(read.is_sorted(), "{read:?}");
                },
            ],
            |core| assert_eq!(core.read(open(core, 1), 5, 0), Ok(1)),
        );
    }
}

#[test]
fn a_page_is_discarded_while_somebody_uses_it() {
    for domain in [Domain::Caches, Domain::Memory] {
        run(
            "discard",
            domain,
            3,
            |core| {
                small(core);
                core.write(open(core, 1), 5, 1, 9).expect("room");
                core.with(|state| state.tlb[0].clear());
            },
            &[
                |core| core.discard(open(core, 1), 5, 6).expect("room"),
                |core| core.write(open(core, 1), 5, 0, 1).expect("room"),
            ],
            |core| {
                let read = [0, 1].map(|word| core.read(open(core, 1), 5, word).expect("inside"));
                assert!([[0, 0], [1, 0]].contains(&read), "{read:?}");
            },
        );
    }
}

#[test]
fn a_table_is_discarded_while_somebody_populates_it() {
    run(
        "discard of a table",
        Domain::Caches,
        2,
        written,
        &[
            |core| core.discard(open(core, 1), 0, 512).expect("room"),
            |core| core.write(open(core, 1), 1, 0, 1).expect("room"),
        ],
        |core| {
            let read = [0, 1].map(|page| core.read(open(core, 1), page, 0).expect("inside"));
            assert!([[0, 0], [0, 1]].contains(&read), "{read:?}");
        },
    );
}

#[test]
fn two_discard_a_page() {
    fn discards(core: &Core) {
        core.discard(open(core, 1), 0, 1).expect("room");
    }
    run("two discard", Domain::Memory, 3, written, &[discards, discards], |core| {
        assert_eq!(core.read(open(core, 1), 0, 0), Ok(0));
    });
}

#[test]
fn an_object_is_destroyed_while_somebody_populates_it() {
    for domain in [Domain::Caches, Domain::Memory] {
        run(
            "destroy",
            domain,
            2,
            tall,
            &[
                |core| core.destroy(open(core, 1)).expect("it is there"),
                |core| {
                    if let Ok(record) = core.morsels().open(1) {
                        let done = core.morsels().populate(record, 5, 6, false);
                        assert!(matches!(done, Ok(6) | Err(Refused::Gone)), "{done:?}");
                    }
                },
            ],
            |core| assert_eq!(core.morsels().open(1), Err(Refused::Gone)),
        );
    }
}

#[test]
fn an_object_grows_while_somebody_populates_it() {
    run(
        "grow",
        Domain::Memory,
        3,
        small,
        &[
            |core| core.until(|| core.morsels().grow(open(core, 1))).expect("room"),
            |core| core.write(open(core, 1), 5, 0, 1).expect("room"),
        ],
        |core| {
            assert_eq!(core.read(open(core, 1), 5, 0), Ok(1));
            core.until(|| core.morsels().limit_to(open(core, 1), 1 << 30)).expect("room");
            assert_eq!(core.write(open(core, 1), 600, 0, 2), Ok(()));
        },
    );
}

#[test]
fn two_grow_an_object() {
    fn grows(core: &Core) {
        core.until(|| core.morsels().grow(open(core, 1))).expect("room");
    }
    run("two grow", Domain::Memory, 3, small, &[grows, grows], |core| {
        assert_eq!(core.morsels().anchor(open(core, 1)).order(), 3);
    });
}

#[test]
fn two_create_an_object() {
    fn creates(core: &Core) {
        let made = core.until(|| core.morsels().create(3, 1, [core.id as u64; 4]));
        assert!(made.is_ok() || made == Err(Refused::Exists));
        if made.is_ok() {
            assert_eq!(core.morsels().owner_words(open(core, 3)), [core.id as u64; 4]);
        }
    }
    run(
        "two create",
        Domain::Memory,
        3,
        |_| {},
        &[creates, creates],
        |core| {
            open(core, 3);
        },
    );
}

/// A snapshot that has the second of two writes has the first; and it stays as it is.
#[test]
fn a_snapshot_is_a_cut() {
    fn both(core: &Core, id: u32) -> [u64; 2] {
        [5, 6].map(|page| core.read(open(core, id), page, 0).expect("inside"))
    }
    fn writes(core: &Core, value: u64) {
        let mut pages = [5, 6].into_iter();
        pages.try_for_each(|page| core.write(open(core, 1), page, 0, value)).expect("room");
    }
    for domain in [Domain::Caches, Domain::Memory] {
        run(
            "a cut",
            domain,
            2,
            |core| {
                small(core);
                writes(core, 1);
            },
            &[
                |core| {
                    core.until(|| core.morsels().snapshot(open(core, 1), 2)).expect("room");
                    let seen = both(core, 2);
                    core.with(|state| state.noted.extend(seen));
                },
                |core| {
                    writes(core, 2);
                    writes(core, 3);
                },
            ],
            |core| {
                assert_eq!(both(core, 1), [3, 3]);
                let cut = both(core, 2);
                assert!([[1, 1], [2, 1], [2, 2], [3, 2], [3, 3]].contains(&cut), "{cut:?}");
                core.with(|state| assert_eq!(state.noted, cut));
            },
        );
    }
}

#[test]
fn both_who_share_a_table_write() {
    for domain in [Domain::Caches, Domain::Memory] {
        run(
            "both write",
            domain,
            2,
            shared,
            &[
                |core| core.write(open(core, 1), 0, 0, 1).expect("room"),
                |core| core.write(open(core, 2), 0, 0, 2).expect("room"),
            ],
            |core| {
                let read = [1, 2].map(|id| core.read(open(core, id), 0, 0));
                assert_eq!(read, [Ok(1), Ok(2)]);
            },
        );
    }
}

#[test]
fn one_who_shares_a_table_writes_and_the_other_is_destroyed() {
    run(
        "write, destroy",
        Domain::Memory,
        2,
        shared,
        &[
            |core| core.write(open(core, 1), 0, 0, 1).expect("room"),
            |core| core.destroy(open(core, 2)).expect("it is there"),
        ],
        |core| assert_eq!(core.read(open(core, 1), 0, 0), Ok(1)),
    );
}

#[test]
fn both_who_share_a_table_are_destroyed() {
    run(
        "both destroyed",
        Domain::Memory,
        2,
        shared,
        &[
            |core| core.destroy(open(core, 1)).expect("it is there"),
            |core| core.destroy(open(core, 2)).expect("it is there"),
        ],
        |_| {},
    );
}

#[test]
fn one_who_shares_a_table_writes_and_the_other_discards() {
    run(
        "write, discard",
        Domain::Caches,
        2,
        shared,
        &[
            |core| core.write(open(core, 1), 0, 0, 1).expect("room"),
            |core| core.discard(open(core, 2), 0, 1).expect("room"),
        ],
        |core| {
            let read = [1, 2].map(|id| core.read(open(core, id), 0, 0));
            assert_eq!(read, [Ok(1), Ok(0)]);
        },
    );
}

/// Who has a part mapped sees what is written, whatever snapshots are taken.
#[test]
fn a_part_stays_the_same_while_a_snapshot_is_taken() {
    run(
        "a part",
        Domain::Caches,
        2,
        written,
        &[
            |core| {
                core.until(|| core.morsels().part(open(core, 1), 0, 1)).expect("there");
            },
            |core| {
                core.until(|| core.morsels().snapshot(open(core, 1), 2)).expect("room");
            },
        ],
        |core| {
            let part = core.morsels().part(open(core, 1), 0, 1);
            core.write(open(core, 1), 0, 0, 8).expect("room");
            assert_eq!(core.morsels().part(open(core, 1), 0, 1), part);
            let read = [1, 2].map(|id| core.read(open(core, id), 0, 0));
            assert_eq!(read, [Ok(8), Ok(7)]);
        },
    );
}

/// The same while somebody writes, too: what was handed out is the object's table, and the snapshot is of one moment.
#[test]
fn a_part_stays_the_same_while_a_snapshot_is_taken_and_somebody_writes() {
    run(
        "a part, three",
        Domain::Caches,
        // With three, two that are asked to come again can take turns for ever, and whom they wait for has none.
        2,
        written,
        &[
            |core| {
                let part = core.until(|| core.morsels().part(open(core, 1), 0, 1)).expect("there");
                core.with(|state| state.noted.push(part.0));
            },
            |core| {
                core.until(|| core.morsels().snapshot(open(core, 1), 2)).expect("room");
            },
            |core| core.write(open(core, 1), 0, 0, 9).expect("room"),
        ],
        |core| {
            let part = core.morsels().part(open(core, 1), 0, 1).expect("there");
            core.with(|state| assert_eq!(state.noted, [part.0]));
            let seen = core.read(open(core, 2), 0, 0).expect("inside");
            assert!([7, 9].contains(&seen), "{seen}");
            assert_eq!(core.read(open(core, 1), 0, 0), Ok(9));
            core.write(open(core, 1), 0, 0, 8).expect("room");
            assert_eq!(core.morsels().part(open(core, 1), 0, 1), Ok(part));
            assert_eq!(core.read(open(core, 2), 0, 0), Ok(seen));
        },
    );
}

/// Behind a limit nobody writes.
#[test]
fn a_limit_is_lowered_while_somebody_writes() {
    run(
        "limit",
        Domain::Caches,
        1,
        small,
        &[
            |core| {
                core.until(|| core.morsels().limit_to(open(core, 1), 4096)).expect("room");
                trim(core);
            },
            |core| {
                let done = core.write(open(core, 1), 5, 0, 1);
                assert!(matches!(done, Ok(()) | Err(Refused::Beyond)), "{done:?}");
            },
        ],
        |core| {
            assert_eq!(core.read(open(core, 1), 5, 0), Err(Refused::Beyond));
            core.until(|| core.morsels().limit_to(open(core, 1), 1 << 21)).expect("room");
            assert_eq!(core.read(open(core, 1), 5, 0), Ok(0));
        },
    );
}

/// An object of five pages in a pool that grows, which may have eight more.
fn raisable(core: &Core) {
    small(core);
    let record = open(core, 1);
    core.until(|| core.morsels().limit_to(record, 5 * 4096)).expect("room");
    // While something may be left behind the limit it does not rise.
    assert_eq!(core.morsels().allow_raising(record, 8), Ok(5 * 4096));
    trim(core);
    assert_eq!(core.morsels().allow_raising(record, 8), Ok(13 * 4096));
}

/// Takes away what is behind the limit.
fn trim(core: &Core) {
    let mut from = 0;
    while let Some(next) = core.until(|| core.morsels().trim(open(core, 1), from)).expect("room") {
        from = next;
    }
}

fn raise(core: &Core, from: u64, to: u64) -> Result<(), Refused> {
    core.morsels().raise_while(open(core, 1), (from * 4096, to * 4096), || true)
}

/// Behind what was set there is nothing, and when it rises again there are zeros.
#[test]
fn a_limit_is_set_while_somebody_raises_it() {
    run_in(
        "set and raised",
        (Domain::Caches, true),
        4,
        raisable,
        &[
            |core| core.until(|| core.morsels().limit_to(open(core, 1), 6 * 4096)).expect("room"),
            |core| {
                if raise(core, 5, 8).is_ok() {
                    let done = core.write(open(core, 1), 7, 0, 1);
                    assert!(matches!(done, Ok(()) | Err(Refused::Beyond)), "{done:?}");
                }
            },
        ],
        |core| {
            trim(core);
            assert_eq!(core.read(open(core, 1), 7, 0), Err(Refused::Beyond));
            assert!(raise(core, 6, 7).is_err());
            core.until(|| core.morsels().limit_to(open(core, 1), 1 << 21)).expect("room");
            assert_eq!(core.read(open(core, 1), 7, 0), Ok(0));
        },
    );
}

/// No more than was allowed, whoever is first.
#[test]
fn two_raise_a_limit() {
    fn raises(core: &Core) {
        let to = 9 + core.id as u64;
        let raised = raise(core, 5, to);
        assert!(matches!(raised, Ok(()) | Err(Refused::Beyond | Refused::Again)), "{raised:?}");
        core.with(|state| state.noted.extend(raised.is_ok().then_some(to)));
    }
    run_in("two raise", (Domain::Caches, true), 3, raisable, &[raises, raises], |core| {
        let noted = core.with(|state| state.noted.clone());
        let [to] = noted[..] else { panic!("{noted:?}") };
        assert_eq!(core.morsels().limit(open(core, 1)), to * 4096);
        assert_eq!(raise(core, to, 14), Err(Refused::Beyond));
        assert_eq!(raise(core, to, 13), Ok(()));
    });
}

/// What one committed after its write is there after a power failure, whoever commits at the same time.
#[test]
fn two_commit_an_object() {
    fn commits(core: &Core) {
        let value = 1 + core.id as u64;
        let page = 5 + core.id as u64;
        core.write(open(core, 1), page, 0, value).expect("room");
        let new = 2 + core.id as u32;
        let old = core.until(|| core.morsels().commit(open(core, 1), new)).expect("room");
        after_failure(core, |later| {
            assert_eq!(later.read(open(later, 1), page, 0), Ok(value));
        });
        if let Some(old) = old {
            while !core.morsels().reap(old).expect("sound") {}
        }
    }
    run("two commit", Domain::Memory, 2, small, &[commits, commits], |core| {
        let released = core.morsels().release_commit(open(core, 1)).expect("nobody else is there");
        while !core.morsels().reap(released.expect("committed")).expect("sound") {}
    });
}

#[test]
fn an_object_is_committed_while_somebody_writes() {
    run(
        "commit",
        Domain::Memory,
        2,
        written,
        &[
            |core| {
                core.until(|| core.morsels().commit(open(core, 1), 2)).expect("room");
            },
            |core| {
                core.write(open(core, 1), 0, 0, 8).expect("room");
                core.write(open(core, 1), 0, 0, 9).expect("room");
            },
        ],
        |core| {
            assert_eq!(core.read(open(core, 1), 0, 0), Ok(9));
            after_failure(core, |later| {
                let read = later.read(open(later, 1), 0, 0).expect("inside");
                assert!((7..10).contains(&read), "{read}");
            });
            let released = core.morsels().release_commit(open(core, 1)).expect("nobody else");
            while !core.morsels().reap(released.expect("committed")).expect("sound") {}
        },
    );
}

/// Two objects that have a page of 2 MiB, with something in two of its pages.
fn large(core: &Core) {
    let record = create(core, 1, 2);
    assert_eq!(core.morsels().populate(record, 0, 512, true), Ok(512));
    [0, 1].into_iter().for_each(|page| core.write(record, page, 0, 7 + page).expect("there"));
    core.until(|| core.morsels().snapshot(open(core, 1), 2)).expect("room");
    core.with(|state| state.tlb[0].clear());
}

/// What is in the two pages of both.
fn first_pages(core: &Core) -> [u64; 4] {
    let read = [(1, 0), (1, 1), (2, 0), (2, 1)];
    read.map(|(id, page)| core.read(open(core, id), page, 0).expect("there"))
}

#[test]
fn both_who_share_a_large_page_write() {
    run_large(
        "both write to 2 MiB",
        large,
        &[
            |core| core.write(open(core, 1), 0, 0, 1).expect("room"),
            |core| core.write(open(core, 2), 0, 0, 2).expect("room"),
        ],
        |core| assert_eq!(first_pages(core), [1, 8, 2, 8]),
    );
}

#[test]
fn two_divide_a_large_page() {
    run_large(
        "two divide 2 MiB",
        large,
        &[
            |core| core.write(open(core, 1), 0, 0, 1).expect("room"),
            |core| core.write(open(core, 1), 1, 0, 2).expect("room"),
        ],
        |core| assert_eq!(first_pages(core), [1, 2, 7, 8]),
    );
}

#[test]
fn a_large_page_is_divided_while_who_shares_it_is_destroyed() {
    run_large(
        "divide 2 MiB, destroy",
        large,
        &[
            |core| core.write(open(core, 1), 1, 0, 1).expect("room"),
            |core| core.destroy(open(core, 2)).expect("it is there"),
        ],
        |core| {
            let read = [0, 1].map(|page| core.read(open(core, 1), page, 0));
            assert_eq!(read, [Ok(7), Ok(1)]);
        },
    );
}

#[test]
fn a_large_page_is_divided_while_a_snapshot_is_taken() {
    run_large(
        "divide 2 MiB, snapshot",
        large,
        &[
            |core| core.until(|| core.write(open(core, 1), 0, 0, 1)).expect("room"),
            |core| {
                core.until(|| core.morsels().snapshot(open(core, 1), 3)).expect("room");
            },
        ],
        |core| {
            let read = [(1, 0), (2, 0), (1, 1), (2, 1), (3, 1)];
            let read = read.map(|(id, page)| core.read(open(core, id), page, 0).expect("there"));
            assert_eq!(read, [1, 7, 8, 8, 8]);
            let cut = core.read(open(core, 3), 0, 0);
            assert!(cut == Ok(1) || cut == Ok(7), "{cut:?}");
        },
    );
}

#[test]
fn a_large_page_is_divided_while_who_shares_it_discards() {
    run_large(
        "divide 2 MiB, discard",
        large,
        &[
            |core| core.write(open(core, 1), 0, 0, 1).expect("room"),
            |core| core.discard(open(core, 2), 0, 512).expect("there"),
        ],
        |core| assert_eq!(first_pages(core), [1, 8, 0, 0]),
    );
}
