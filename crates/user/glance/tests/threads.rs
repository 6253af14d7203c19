//! Several threads at once, in every interleaving that matters.

use glance::{Epoch, Kept, Lease, Offset, Record, Word, PAGES};
use loom::sync::atomic::{AtomicU64, Ordering::*};
use loom::sync::{Arc, Mutex};

struct Atomic(AtomicU64);

impl Word for Atomic {
    fn load(&self) -> u64 {
        self.0.load(Acquire)
    }
    fn store(&self, new: u64) {
        self.0.store(new, Release);
    }
    fn replace(&self, old: u64, new: u64) -> bool {
        self.0.compare_exchange(old, new, AcqRel, Relaxed).is_ok()
    }
    fn add(&self, by: u64) -> u64 {
        self.0.fetch_add(by, SeqCst)
    }
}

fn word(value: u64) -> Atomic {
    Atomic(AtomicU64::new(value))
}

/// A record is whole, and what it says is found as long as the epoch is the same.
#[test]
fn what_is_found_was_there() {
    loom::model(|| {
        // What "windows" show: window 0 shows file 1, then file 2; the record says which file is in which window.
        let all = Arc::new((
            Epoch::new(word(1)),
            Record::new(word(0), [word(0), word(0), word(0)]),
            [word(1), word(3)],
        ));
        all.1.write([1, 1, 0]);
        let writer = {
            let all = all.clone();
            loom::thread::spawn(move || {
                let (epoch, record, windows) = &*all;
                epoch.end();
                windows[0].store(2);
                record.write([epoch.now(), 3, 1]);
            })
        };
        let (epoch, record, windows) = &*all;
        if let Some([since, file, window]) = record.read().filter(|words| epoch.is(words[0])) {
            let found = windows[window as usize].load();
            if epoch.is(since) {
                assert_eq!(found, file);
            }
        }
        writer.join().unwrap();
        let [since, file, window] = record.read().unwrap();
        assert!(epoch.is(since));
        assert_eq!(windows[window as usize].load(), file);
    });
}

/// Each byte is read by one of those that read on.
#[test]
fn no_byte_is_read_twice() {
    loom::model(|| {
        let place = Arc::new(Offset::new(word(0)));
        place.begin(Some(0));
        let read = |place: &Offset<Atomic>| loop {
            let seen = place.get().unwrap();
            if place.replace(seen, seen.offset() + 1) {
                return seen.offset();
            }
        };
        let others: Vec<_> = (0..2)
            .map(|_| {
                let place = place.clone();
                loom::thread::spawn(move || read(&place))
            })
            .collect();
        let mut all = vec![read(&place)];
        all.extend(others.into_iter().map(|other| other.join().unwrap()));
        all.sort();
        assert_eq!(all, [0, 1, 2]);
    });
}

/// Whoever takes the offset away has it; who has seen it before cannot move it.
#[test]
fn what_is_taken_is_not_moved() {
    loom::model(|| {
        let place = Arc::new(Offset::new(word(0)));
        place.begin(Some(7));
        let reader = {
            let place = place.clone();
            loom::thread::spawn(move || place.get().is_some_and(|seen| place.replace(seen, 8)))
        };
        let taken = place.set(None).unwrap().offset();
        let has_read = reader.join().unwrap();
        assert_eq!(taken, if has_read { 8 } else { 7 });
        assert_eq!(place.get(), None);
    });
}

/// What is taken is what the thread was told; afterwards it maps nothing there, nor in what is given next, of which another one may be told.
#[test]
fn what_is_taken_was_mapped() {
    loom::model(|| {
        let lease = Arc::new(Lease::new(word(0), word(0)));
        lease.give(1000);
        let owner = {
            let lease = lease.clone();
            loom::thread::spawn(move || {
                let first = lease.map(2);
                let is_gone = first.is_some_and(|first| lease.unmap(first, 1).is_some());
                (first, is_gone)
            })
        };
        let taken = lease.take().unwrap();
        // Somebody else ends it, and gives it to the same thread, elsewhere.
        lease.give(2000);
        let (first, is_gone) = owner.join().unwrap();
        let again = lease.take().unwrap();
        assert_eq!((taken.start, again.start), (1000, 2000));
        let (before, behind) = (taken.count, again.count);
        match (first, is_gone) {
            (None, _) => assert_eq!((before, behind), (0, 0)),
            (Some(first), false) if first < 2000 => {
                assert_eq!((first, taken.first, before, behind), (1000 + PAGES - 2, first, 2, 0));
            }
            (Some(first), true) if first < 2000 => {
                assert_eq!(
                    (first + 1, taken.first, before, behind),
                    (1000 + PAGES - 1, first + 1, 1, 0)
                );
            }
            (Some(first), is_gone) => {
                assert_eq!((first, before), (2000 + PAGES - 2, 0));
                assert_eq!(
                    (again.first, behind),
                    if is_gone { (first + 1, 1) } else { (first, 2) }
                );
            }
        }
    });
}

/// Whoever takes it at the same time as another one: one of them gets it.
#[test]
fn it_is_taken_once() {
    loom::model(|| {
        let lease = Arc::new(Lease::new(word(0), word(0)));
        lease.give(1000);
        lease.map(3);
        let other = {
            let lease = lease.clone();
            loom::thread::spawn(move || lease.take())
        };
        let mine = lease.take();
        let theirs = other.join().unwrap();
        assert!(mine.is_some() != theirs.is_some());
        assert_eq!(mine.or(theirs).map(|taken| taken.count), Some(3));
    });
}

/// What the page tables say of pages that are kept, and what is in them. The kernel changes both at once.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Shown {
    /// The thread may hide it.
    may_hide: bool,
    is_shown: bool,
    contents: u64,
}

/// Somebody takes pages that a thread is about to unmap, or to map again. If they are mapped they have what was in them; if not, there is
/// something else then, which the thread leaves alone, also if it is lent to another one.
#[test]
fn who_is_late_changes_nothing_of_others() {
    for maps in [false, true] {
        for lends_again in [false, true] {
            loom::model(move || take_kept(maps, lends_again));
        }
    }
}

fn take_kept(maps: bool, lends_again: bool) {
    const START: u64 = 512;
    let lent = Shown { may_hide: true, is_shown: true, contents: 7 };
    let all = Arc::new((Kept::new(word(0), word(0), word(0)), Mutex::new(lent)));
    let hide = |shown: &Mutex<Shown>| {
        let mut shown = shown.lock().unwrap();
        if shown.may_hide {
            (shown.is_shown, shown.contents) = (false, 0);
        }
        shown.may_hide
    };
    all.0.give(START, 64);
    if maps {
        let begun = all.0.unmap(START, 64).unwrap();
        assert!(hide(&all.1) && all.0.done(begun, false));
    }
    let taker = {
        let all = all.clone();
        loom::thread::spawn(move || {
            let (kept, shown) = &*all;
            let taken = kept.take().unwrap();
            let mut shown = shown.lock().unwrap();
            if taken.is_mapped {
                assert_eq!((shown.is_shown, shown.contents), (true, if maps { 0 } else { 7 }));
                shown.may_hide = false;
                return true;
            }
            if !taken.was_busy {
                assert_eq!((shown.is_shown, shown.contents), (false, 0));
            }
            // Something else comes there: the thread must not be able to hide it if it may be late.
            let may_hide = lends_again && !kept.is_late(taken.start);
            *shown = Shown { may_hide, is_shown: true, contents: 9 };
            false
        })
    };
    let (kept, shown) = &*all;
    if maps {
        let begun = kept.map(64);
        let mapped = begun.is_some_and(|begun| {
            let is_shown = {
                let mut shown = shown.lock().unwrap();
                shown.is_shown |= shown.may_hide;
                shown.may_hide
            };
            kept.done(begun, is_shown) && is_shown
        });
        // Who has been told that it is mapped has it.
        assert!(!taker.join().unwrap() || mapped);
        assert!(!mapped || shown.lock().unwrap().contents == 0);
    } else {
        let begun = kept.unmap(START, 64);
        let unmapped = begun.is_some_and(|begun| {
            let is_empty = hide(shown);
            !kept.done(begun, !is_empty) || is_empty
        });
        let was_mapped = taker.join().unwrap();
        assert!(begun.is_none() == was_mapped);
        assert!(!unmapped || !was_mapped);
    }
    if !shown.lock().unwrap().may_hide || lends_again {
        let now = shown.lock().unwrap();
        assert!(now.is_shown);
    }
    assert!(!kept.is_late(START));
}
