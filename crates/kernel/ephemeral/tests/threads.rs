//! Threads that share a cache of two windows, in every interleaving.

use ephemeral::{AllocError, Cache, Cores, Ephemeral, Flags, Guarded, Lock, Machine, State};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use std::process::Command;

/// Windows that remember what they show.
#[derive(Default)]
struct Shelf([u64; 2]);

impl Machine for Shelf {
    type Page = u64;
    fn number(page: &u64) -> u64 {
        *page
    }
    fn address(&self, window: usize) -> usize {
        window
    }
    fn point(&mut self, first: usize, pages: &[u64]) -> bool {
        self.0[first] = pages[0];
        true
    }
    fn clear(&mut self, _: usize, _: usize) {}
    fn invalidate_here(&mut self, _: usize, _: usize) {}
    fn invalidate_on(&mut self, _: Cores, _: usize, _: usize) {}
    fn here(&self) -> u32 {
        0
    }
    fn cores(&self) -> Cores {
        Cores::one(0)
    }
}

type Windows = Cache<Shelf, 2, 0>;

/// As a library would do it, with a word to sleep on.
struct Threads {
    state: Mutex<State<Windows>>,
    word: Mutex<(u32, bool)>,
    changed: Condvar,
}

impl Lock<State<Windows>> for Threads {
    fn with<R>(&self, work: impl FnOnce(&mut State<Windows>) -> R) -> R {
        work(&mut self.state.lock().unwrap())
    }
    fn wait(&self, seen: u32, interruptible: bool) -> Result<(), AllocError> {
        let mut word = self.word.lock().unwrap();
        while word.0 == seen {
            if interruptible && word.1 {
                return Err(AllocError::Interrupted);
            }
            word = self.changed.wait(word).unwrap();
        }
        Ok(())
    }
    fn wake(&self, now: u32) {
        self.word.lock().unwrap().0 = now;
        self.changed.notify_all();
    }
}

type Subject = Guarded<Threads, Windows>;

fn subject() -> (Arc<Subject>, fn(&Subject)) {
    let state = Mutex::new(State::new(Cache::new(Shelf::default())));
    let threads = Threads { state, word: Mutex::new((0, false)), changed: Condvar::new() };
    (Arc::new(Guarded::new(threads)), |subject| subject.with(|cache| cache.check()).unwrap())
}

/// Asks for a page, and finds it as long as it is asked for.
fn use_page(subject: &Subject, page: u64) {
    let buf = subject.alloc(page, Flags::default()).unwrap();
    thread::yield_now();
    subject.with(|cache| assert_eq!(cache.machine().0[buf.address()], page));
}

/// Tries every interleaving, in a process of its own: when loom finds that nobody goes on, destructors that want the
/// lock end the process.
fn model(test: &str, work: impl Fn() + Send + Sync + 'static) {
    const INSIDE: &str = "EPHEMERAL_MODEL";
    if std::env::var_os(INSIDE).is_none() {
        let mut process = Command::new(std::env::current_exe().unwrap());
        let output = process.env(INSIDE, "").args(["--exact", test]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        let complaints = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}{complaints}");
        return;
    }
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(work);
}

/// Three pages, two windows: one waits until another is done.
#[test]
fn whoever_waits_is_woken() {
    model("whoever_waits_is_woken", || {
        let (subject, check) = subject();
        let threads = [1, 2].map(|page| {
            let subject = subject.clone();
            thread::spawn(move || use_page(&subject, page))
        });
        use_page(&subject, 3);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        check(&subject);
    });
}

/// Both windows are held while two others want one: both get one in the end.
#[test]
fn all_who_wait_are_woken() {
    model("all_who_wait_are_woken", || {
        let (subject, check) = subject();
        let held = [1, 2].map(|page| subject.alloc(page, Flags::default()).unwrap());
        let threads = [3, 4].map(|page| {
            let subject = subject.clone();
            thread::spawn(move || use_page(&subject, page))
        });
        drop(held);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        check(&subject);
    });
}

/// A hit of what another is about to free, or that a third evicts.
#[test]
fn a_hit_meets_an_eviction() {
    model("a_hit_meets_an_eviction", || {
        let (subject, check) = subject();
        let threads = [[1, 2], [3, 1]].map(|pages| {
            let subject = subject.clone();
            thread::spawn(move || pages.into_iter().for_each(|page| use_page(&subject, page)))
        });
        use_page(&subject, 1);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        check(&subject);
    });
}

/// A signal interrupts the sleep of who has asked for that; without that, and without a wait, nothing is interrupted.
#[test]
fn a_sleep_may_be_interrupted() {
    model("a_sleep_may_be_interrupted", || {
        let state = Mutex::new(State::new(Cache::new(Shelf::default())));
        let threads = Threads { state, word: Mutex::new((0, true)), changed: Condvar::new() };
        let subject: Subject = Guarded::new(threads);
        let held = [1, 2].map(|page| subject.alloc(page, Flags::INTERRUPTIBLE).unwrap());
        let asked = |flags| subject.alloc(3, flags).unwrap_err();
        assert_eq!(asked(Flags::INTERRUPTIBLE), AllocError::Interrupted);
        assert_eq!(asked(Flags::INTERRUPTIBLE.with(Flags::NO_WAIT)), AllocError::Busy);
        drop(held);
        assert!(subject.alloc(3, Flags::INTERRUPTIBLE).is_ok());
    });
}
