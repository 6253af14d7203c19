//! The protocol in loom: every interleaving of a few cores, with every reordering that the memory model
//! permits.
//!
//! The processor is pretended: it caches what it finds in an entry until it is told to forget it or
//! loads another root, and it walks whenever it likes. A table that was taken away is then written by
//! its new owner without any synchronisation, so that loom reports every walk that might still be in it.
//! Below are also wrong variants of the protocol, each of which must fail.

use crate::sync::{fence, AtomicU64, Ordering};
use crate::{bit, concerned, members, Forget, Pages, Port, Request, MOST_RANGES, MOST_WALKS};
use loom::cell::UnsafeCell;
use loom::sync::{Arc, Notify};
use loom::thread;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::string::String;
use std::vec::Vec;

impl Port {
    /// The same as outside of tests.
    pub fn new() -> Port {
        let zero = || AtomicU64::new(0);
        Port {
            root: zero(),
            walks: core::array::from_fn(|_| zero()),
            askers: zero(),
            unanswered: zero(),
            ranges: zero(),
            pages: core::array::from_fn(|_| zero()),
            hosts: zero(),
        }
    }
}

/// The address space that all share.
const ROOT: u64 = 0x1000;

/// An entry of the root, and the table to which it leads.
struct Entry {
    present: AtomicU64,
    table: UnsafeCell<u64>,
    /// The invocation that takes it away has returned.
    gone: AtomicU64,
}

impl Entry {
    fn new() -> Entry {
        Entry { present: AtomicU64::new(1), table: UnsafeCell::new(0), gone: AtomicU64::new(0) }
    }
}

struct World {
    ports: Vec<Port>,
    /// Wakes a core that waits for interrupts.
    interrupts: Vec<Notify>,
    /// Wakes a core that looks again and again, as a loop would: whenever there may be something new.
    /// (In a loop, two that yield to each other would keep the third from running.)
    looks: Vec<Notify>,
    entries: Vec<Entry>,
    /// Cores that have done all that they want to do.
    finished: AtomicU64,
    /// What is wrong in it.
    mutation: Mutation,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mutation {
    None,
    /// A root is published only after it was loaded.
    LatePublication,
    /// The next root is published before the last one is gone.
    EarlyPublication,
    /// Roots are read without a barrier.
    NoBarrier,
    /// A core is known to have a dispatcher only after it has loaded its root.
    LateHost,
    /// Who takes away does not wait.
    NoWait,
    /// The answer comes before the deed.
    HastyAnswer,
    /// Only what was asked for first is done.
    FirstOnly,
    /// A core says that it walks when it has begun.
    LateWalk,
    /// It says that it has ended while it still uses what it has found.
    EarlyEnd,
}

/// One core.
struct Cpu {
    world: Arc<World>,
    id: usize,
    root: u64,
    /// The entries that are cached.
    cached: Vec<bool>,
}

impl Cpu {
    fn new(world: &Arc<World>, id: usize) -> Cpu {
        let cached = world.entries.iter().map(|_| false).collect();
        Cpu { world: world.clone(), id, root: 0, cached }
    }

    fn port(&self) -> &Port {
        &self.world.ports[self.id]
    }

    /// The processor walks through an entry, on its own account or for an access.
    fn walk(&mut self, entry: usize) -> bool {
        let at = &self.world.entries[entry];
        if !self.cached[entry] && self.root == ROOT && at.present.load(Ordering::Relaxed) == 1 {
            self.cached[entry] = true;
        }
        if self.cached[entry] {
            at.table.with(|_| ());
        }
        self.cached[entry]
    }

    fn walk_everywhere(&mut self) {
        for entry in 0..self.cached.len() {
            self.walk(entry);
        }
    }

    /// A program uses an address below an entry.
    fn access(&mut self, entry: usize) {
        let gone = self.world.entries[entry].gone.load(Ordering::Acquire) == 1;
        let succeeded = self.walk(entry);
        assert!(!(gone && succeeded), "an access succeeded after the call had returned");
    }

    /// Loads a root; until then the processor goes on with the old one.
    fn load(&mut self, root: u64) {
        self.walk_everywhere();
        fence(Ordering::SeqCst);
        self.root = root;
        self.cached.fill(false);
    }

    /// Its kernel reads an entry itself, and uses the table, without the root being loaded.
    fn walk_itself(&mut self, entry: usize) {
        self.goes_here();
        let world = self.world.clone();
        let (port, at) = (&world.ports[self.id], &world.entries[entry]);
        let is_gone = || at.gone.load(Ordering::Acquire) == 1;
        let mut roots = [0; MOST_WALKS];
        roots[MOST_WALKS - 1] = ROOT;
        let look = || at.present.load(Ordering::Relaxed) == 1;
        let early = (world.mutation == Mutation::LateWalk).then(look);
        let walking = port.walk(roots);
        let gone = is_gone();
        let found = early.unwrap_or_else(look);
        let walking = (world.mutation != Mutation::EarlyEnd).then_some(walking);
        if found {
            at.table.with(|_| ());
            assert!(!gone, "a copy succeeded after the call had returned");
        }
        drop(walking);
    }

    fn change_root(&mut self, root: u64) {
        let world = self.world.clone();
        let port = &world.ports[self.id];
        match world.mutation {
            Mutation::LatePublication => {
                self.goes_here();
                self.load(root);
                self.walk_everywhere();
                port.root.store(root, Ordering::SeqCst);
            }
            Mutation::EarlyPublication => {
                self.goes_here();
                port.root.store(root, Ordering::SeqCst);
                self.load(root);
            }
            Mutation::LateHost => {
                port.change_root(root, || self.load(root));
                self.walk_everywhere();
                self.goes_here();
            }
            _ => {
                self.goes_here();
                port.change_root(root, || self.load(root));
            }
        }
    }

    /// A dispatcher comes that has the address space, of whichever core that takes something away there.
    fn goes_here(&self) {
        self.world.ports.iter().for_each(|port| port.goes_to(self.id));
    }

    /// An interrupt comes now, or whoever waits looks.
    fn answer(&mut self) {
        let world = self.world.clone();
        let port = |core: usize| &world.ports[core];
        match world.mutation {
            Mutation::HastyAnswer => {
                let askers = self.port().askers.swap(0, Ordering::Acquire);
                for core in members(askers) {
                    port(core).unanswered.fetch_and(!bit(self.id), Ordering::Release);
                }
                if askers == 0 {
                    return;
                }
                self.walk(0);
                self.cached.fill(false);
            }
            mutation => {
                let mut first = true;
                let cached = &mut self.cached;
                let answered = world.ports[self.id].answer(self.id, port, |request| {
                    if first || mutation != Mutation::FirstOnly {
                        forget(cached, request);
                    }
                    first = false;
                });
                if answered == 0 {
                    return;
                }
            }
        }
        self.others_look();
    }

    fn others_look(&self) {
        let looks = self.world.looks.iter().enumerate();
        looks.filter(|&(core, _)| core != self.id).for_each(|(_, look)| look.notify());
    }

    /// An invocation on this core takes entries away, and uses the tables for something else.
    fn take_away(&mut self, entries: &[usize]) {
        let world = self.world.clone();
        for &entry in entries {
            world.entries[entry].present.store(0, Ordering::Relaxed);
            self.cached[entry] = false;
        }
        self.shoot_down(entries);
        for &entry in entries {
            world.entries[entry].table.with_mut(|_| ());
            world.entries[entry].gone.store(1, Ordering::Release);
        }
    }

    fn shoot_down(&mut self, entries: &[usize]) {
        let world = self.world.clone();
        let others = || world.ports.iter().enumerate().filter(|&(core, _)| core != self.id);
        let whom = if world.mutation == Mutation::NoBarrier {
            others()
                .fold(0, |set, (core, port)| set | if port.root() == ROOT { bit(core) } else { 0 })
        } else {
            concerned(self.id, |core| &world.ports[core], |root| root == ROOT)
        };
        if whom == 0 {
            return;
        }
        let mut what = Forget::nothing();
        for &entry in entries {
            what.add(Pages::new(entry as u64 * 4096, 1, 1), 8);
        }
        world.ports[self.id].ask(
            self.id,
            whom,
            &what,
            |core| &world.ports[core],
            |core| {
                world.interrupts[core].notify();
            },
        );
        self.others_look();
        if world.mutation == Mutation::NoWait {
            return;
        }
        loop {
            self.answer();
            if self.port().is_answered() {
                break;
            }
            world.looks[self.id].wait();
        }
    }

    /// Has nothing to do any more, but for others.
    fn finish(&mut self) {
        let world = self.world.clone();
        let all = bit(world.ports.len()) - 1;
        if world.finished.fetch_or(bit(self.id), Ordering::AcqRel) | bit(self.id) == all {
            return world.interrupts.iter().for_each(Notify::notify);
        }
        while world.finished.load(Ordering::Acquire) != all {
            world.interrupts[self.id].wait();
            self.answer();
        }
    }
}

/// Page n is below entry n.
fn forget(cached: &mut [bool], request: Request) {
    match request {
        Request::Everything => cached.fill(false),
        Request::Pages(pages) => {
            pages.addresses().for_each(|va| cached[va as usize / 4096] = false)
        }
    }
}

type Program = fn(&mut Cpu);

/// Runs one program on each core, in every way in which that is possible.
fn explore(
    programs: &'static [Program],
    entries: usize,
    preemptions: Option<usize>,
    mutation: Mutation,
) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = preemptions;
    model.check(move || {
        let ports: Vec<_> = programs.iter().map(|_| Port::new()).collect();
        if programs.len() > 2 {
            ports[0].root.store(ROOT, Ordering::SeqCst);
            ports.iter().for_each(|port| port.goes_to(0));
        }
        let world = Arc::new(World {
            ports,
            interrupts: programs.iter().map(|_| Notify::new()).collect(),
            looks: programs.iter().map(|_| Notify::new()).collect(),
            entries: (0..entries).map(|_| Entry::new()).collect(),
            finished: AtomicU64::new(0),
            mutation,
        });
        let run = |id: usize, world: &Arc<World>| {
            let mut cpu = Cpu::new(world, id);
            // Of three, the first is in the address space all the time: loom is not fair to a core whose
            // change of roots two others wait for.
            if id == 0 && programs.len() > 2 {
                cpu.root = ROOT;
            }
            programs[id](&mut cpu);
            cpu.finish();
        };
        let others: Vec<_> = (1..programs.len())
            .map(|id| {
                let world = world.clone();
                thread::spawn(move || run(id, &world))
            })
            .collect();
        run(0, &world);
        others.into_iter().for_each(|other| other.join().unwrap());
    });
}

fn takes_first(cpu: &mut Cpu) {
    cpu.take_away(&[0]);
}

/// Comes into the address space, uses it, and leaves.
fn visits(cpu: &mut Cpu) {
    cpu.change_root(ROOT);
    cpu.access(0);
    cpu.answer();
    cpu.access(0);
    cpu.change_root(0);
}

/// Copies for somebody who waits here, twice.
fn copies(cpu: &mut Cpu) {
    cpu.walk_itself(0);
    cpu.answer();
    cpu.walk_itself(0);
}

fn takes_both(cpu: &mut Cpu) {
    cpu.take_away(&[0, 1]);
}

fn visits_both(cpu: &mut Cpu) {
    cpu.change_root(ROOT);
    cpu.access(0);
    cpu.access(1);
    cpu.answer();
    cpu.access(1);
    cpu.change_root(0);
}

fn takes_first_inside(cpu: &mut Cpu) {
    cpu.change_root(ROOT);
    cpu.take_away(&[0]);
    cpu.access(1);
}

fn takes_second_inside(cpu: &mut Cpu) {
    cpu.change_root(ROOT);
    cpu.walk(0);
    cpu.take_away(&[1]);
    cpu.access(0);
}

fn takes_second(cpu: &mut Cpu) {
    cpu.take_away(&[1]);
}

fn uses_both(cpu: &mut Cpu) {
    cpu.access(0);
    cpu.access(1);
    cpu.answer();
    cpu.access(0);
    cpu.access(1);
}

#[test]
fn no_access_succeeds_after_the_return() {
    explore(&[takes_first, visits], 1, Some(3), Mutation::None);
}

#[test]
fn no_copy_succeeds_after_the_return() {
    explore(&[takes_first, copies], 1, Some(3), Mutation::None);
}

#[test]
fn two_that_ask_each_other_both_come_to_an_end() {
    explore(&[takes_first_inside, takes_second_inside], 2, Some(2), Mutation::None);
}

#[test]
fn two_ask_a_third() {
    explore(&[uses_both, takes_first, takes_second], 2, Some(1), Mutation::None);
}

/// The message with which an exploration fails.
fn failure(programs: &'static [Program], entries: usize, mutation: Mutation) -> Option<String> {
    let explored = catch_unwind(AssertUnwindSafe(|| explore(programs, entries, Some(3), mutation)));
    let panic = explored.err()?;
    let text = panic.downcast_ref::<String>().cloned();
    Some(text.or_else(|| panic.downcast_ref::<&str>().map(|&s| s.into())).unwrap_or_default())
}

#[test]
fn every_mistake_is_found() {
    let two: &'static [Program] = &[takes_first, visits];
    let both: &'static [Program] = &[takes_both, visits_both];
    let copy: &'static [Program] = &[takes_first, copies];
    let mutations = [
        (two, 1, Mutation::LatePublication),
        (two, 1, Mutation::EarlyPublication),
        (two, 1, Mutation::NoBarrier),
        (two, 1, Mutation::LateHost),
        (two, 1, Mutation::NoWait),
        (two, 1, Mutation::HastyAnswer),
        (both, 2, Mutation::FirstOnly),
        (copy, 1, Mutation::LateWalk),
        (copy, 1, Mutation::EarlyEnd),
    ];
    for (programs, entries, mutation) in mutations {
        let failure = failure(programs, entries, mutation);
        std::println!("{mutation:?}: {failure:?}");
        assert!(failure.is_some(), "{mutation:?} was not noticed");
    }
}

#[test]
fn ranges_survive_the_port() {
    for pages in [Pages::new(0x7fff_ffe0_0000, 2, 1), Pages::new(0x1000, 1, 512)] {
        assert_eq!(Pages::from_word(pages.to_word()), pages);
    }
    let two = Pages::new(0x7fff_ffe0_0000, 2, 2);
    assert_eq!(two.addresses().collect::<Vec<_>>(), [0x7fff_ffe0_0000, 0x8000_0000_0000]);
}

#[test]
fn too_many_pages_are_everything() {
    let one = |n: u64| Pages::new(n << 12, 1, 1);
    let mut forget = Forget::nothing();
    assert_eq!(forget.pages(), Some(&[][..]));
    forget.add(one(1), 3);
    forget.add(one(2), 3);
    assert_eq!((forget.pages(), forget.count()), (Some(&[one(1), one(2)][..]), 2));
    let mut many = forget.clone();
    many.add(Pages::new(0, 1, 2), 3);
    assert!(many.is_everything() && many.pages().is_none() && many.count() == 0);
    for n in 0..MOST_RANGES as u64 {
        forget.add(one(n), u32::MAX);
    }
    assert!(forget.is_everything());
}
