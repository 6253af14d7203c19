//! The ring against a queue, and against a peer that writes anything anywhere.

use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use ump::ring::{LINES, MAX_LINES, TAGS};
use ump::{Message, Receiver, Ring, SendError, Sender, LINE_WORDS, MAX_WORDS};

fn new_ring() -> &'static Ring {
    Box::leak(Box::new(Ring::new()))
}

/// The memory as somebody sees it who does not care what it means.
fn raw(ring: &Ring) -> &[AtomicU64] {
    // SAFETY: all of it is atomics of eight bytes.
    unsafe { std::slice::from_raw_parts((ring as *const Ring).cast(), size_of::<Ring>() / 8) }
}

fn lines(words: &[u64]) -> usize {
    words.len().div_ceil(LINE_WORDS).max(1)
}

fn same(message: &Message, tag: u32, words: &[u64]) -> bool {
    let (sent, rest) = message.words().split_at(words.len());
    message.tag == tag && sent == words && rest.iter().all(|word| *word == 0)
}

#[derive(Clone, Debug)]
enum Step {
    Send(u32, Vec<u64>),
    Receive,
    Release,
    Room(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => (0..TAGS, vec(any::<u64>(), 0..=MAX_WORDS)).prop_map(|(tag, words)| Step::Send(tag, words)),
        4 => Just(Step::Receive),
        1 => Just(Step::Release),
        1 => (0..=MAX_WORDS).prop_map(Step::Room),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 256 }))]

    #[test]
    fn a_ring_is_a_queue(steps in vec(step(), 1..400)) {
        let ring = new_ring();
        let (mut sender, mut receiver) = (Sender::new(ring), Receiver::new(ring));
        let mut queue = VecDeque::new();
        // Lines not received, and received ones that the sender may not know of.
        let (mut used, mut untold) = (0, 0);
        for step in steps {
            match step {
                Step::Send(tag, words) => match sender.try_send(tag, &words) {
                    Ok(()) => {
                        used += lines(&words);
                        prop_assert!(used <= LINES);
                        queue.push_back((tag, words));
                    }
                    Err(error) => {
                        prop_assert_eq!(error, SendError::Full);
                        prop_assert!(used + untold + lines(&words) > LINES);
                    }
                },
                Step::Receive => {
                    let expected: Option<(u32, Vec<u64>)> = queue.pop_front();
                    prop_assert_eq!(receiver.peek(), expected.as_ref().map(|(tag, _)| *tag));
                    match (receiver.try_recv().unwrap(), expected) {
                        (None, None) => {}
                        (Some(message), Some((tag, words))) => {
                            prop_assert!(same(&message, tag, &words));
                            used -= lines(&words);
                            untold = (untold + lines(&words)).min(LINES / 4 + MAX_LINES);
                        }
                        (got, expected) => panic!("{got:?} instead of {expected:?}"),
                    }
                }
                Step::Release => {
                    receiver.release();
                    untold = 0;
                }
                Step::Room(words) => {
                    let room = sender.room_for(words).unwrap();
                    let needed = words.div_ceil(LINE_WORDS).max(1);
                    prop_assert!(!room || used + needed <= LINES);
                    prop_assert!(room || used + untold + needed > LINES);
                    // Who waits is found by the receiver.
                    if !room && used + needed <= LINES {
                        prop_assert!(receiver.release());
                        untold = 0;
                        prop_assert!(sender.room_for(words).unwrap());
                    }
                }
            }
        }
    }

    /// Whatever is in the memory, the ends answer with messages or errors.
    #[test]
    fn no_peer_can_do_harm(
        noise in vec((0..512usize, prop_oneof![any::<u64>(), 0..200u64, (any::<u32>(), 1..200u64).prop_map(|(high, low)| u64::from(high) << 32 | low)]), 0..200),
        steps in vec(step(), 1..100),
    ) {
        let ring = new_ring();
        let (mut sender, mut receiver) = (Sender::new(ring), Receiver::new(ring));
        let mut noise = noise.chunks(2);
        for step in steps {
            for (at, value) in noise.next().unwrap_or_default() {
                raw(ring)[*at].store(*value, Ordering::Relaxed);
            }
            match step {
                Step::Send(tag, words) => drop(sender.try_send(tag, &words)),
                Step::Receive => drop(receiver.try_recv()),
                Step::Release => drop(receiver.release()),
                Step::Room(words) => drop(sender.room_for(words)),
            }
        }
    }
}

#[test]
fn what_cannot_be_is_an_error() {
    let ring = new_ring();
    let mut sender = Sender::new(ring);
    assert_eq!(sender.try_send(TAGS, &[]), Err(SendError::TooLarge));
    assert_eq!(sender.try_send(0, &[0; MAX_WORDS + 1]), Err(SendError::TooLarge));
    // The receiver says that it has taken more than was sent.
    raw(ring)[0].store(1, Ordering::Relaxed);
    (0..LINES).for_each(|_| sender.try_send(0, &[]).unwrap());
    raw(ring)[0].store(LINES as u64 + 1, Ordering::Relaxed);
    assert_eq!(sender.try_send(0, &[]), Err(SendError::Broken));
    // More lines than a message may have; and a line of one that is not there.
    let header = 3 * 8 + 7;
    for (value, error) in [(1 | 15 << 60, true), (1 | 1 << 60, true), (1, false), (2, false)] {
        let ring = new_ring();
        raw(ring)[header].store(value, Ordering::Relaxed);
        assert_eq!(Receiver::new(ring).try_recv().is_err(), error, "{value:#x}");
    }
}

/// Sequence numbers go around; a line from a round ago is never taken for a new one.
#[test]
fn many_rounds() {
    let ring = new_ring();
    let (mut sender, mut receiver) = (Sender::new(ring), Receiver::new(ring));
    let rounds = if cfg!(miri) { 200 } else { 100_000u64 };
    for n in 0..rounds {
        sender.try_send(1, &[n]).unwrap();
        assert_eq!(receiver.try_recv().unwrap().unwrap().words()[0], n);
        assert_eq!(receiver.try_recv(), Ok(None));
    }
}

#[test]
fn two_threads() {
    let ring = new_ring();
    let count = if cfg!(miri) { 200 } else { 200_000u64 };
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut sender = Sender::new(ring);
            for n in 0..count {
                let words = [n; MAX_WORDS];
                let words = &words[..n as usize % (MAX_WORDS + 1)];
                while sender.try_send(n as u32 % TAGS, words).is_err() {
                    std::thread::yield_now();
                }
            }
        });
        let mut receiver = Receiver::new(ring);
        for n in 0..count {
            let message = loop {
                match receiver.try_recv().unwrap() {
                    Some(message) => break message,
                    None => std::thread::yield_now(),
                }
            };
            let words = [n; MAX_WORDS];
            assert!(same(&message, n as u32, &words[..n as usize % (MAX_WORDS + 1)]));
        }
    });
}
