//! The ring and the sleeping, in every interleaving of two or three threads and every order of memory
//! that the language allows: the very files of the crate, with the model checker's atomics.

mod sync {
    pub use loom::hint::spin_loop;
    pub use loom::sync::atomic::{fence, AtomicU64, AtomicU64 as Lone, Ordering};
}
#[allow(dead_code)]
#[path = "../src/ring.rs"]
mod ring;
#[allow(dead_code)]
#[path = "../src/sleep.rs"]
mod sleep;

use loom::sync::{Condvar, Mutex};
use loom::thread;
use ring::{Receiver, Ring, SendError, Sender};
use sleep::{Board, Sleeper};

/// A notification bit: sticky, as the kernel's are.
struct Doorbell {
    rung: Mutex<bool>,
    ring: Condvar,
}

impl Doorbell {
    fn new() -> Doorbell {
        Doorbell { rung: Mutex::new(false), ring: Condvar::new() }
    }
    fn ring(&self) {
        *self.rung.lock().unwrap() = true;
        self.ring.notify_one();
    }
    /// The model checker reports a deadlock if nobody ever rings.
    fn wait(&self) {
        let mut rung = self.rung.lock().unwrap();
        while !*rung {
            rung = self.ring.wait(rung).unwrap();
        }
        *rung = false;
    }
}

/// Shared by the threads of one execution.
fn leak<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

fn check(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 20_000;
    builder.check(model);
}

#[test]
fn what_is_received_is_what_was_sent() {
    check(3, || {
        let ring = leak(Ring::<2>::new());
        let sender = thread::spawn(move || {
            let mut sender = Sender::new(ring);
            for n in 1..=3u64 {
                loop {
                    match sender.try_send(n as u32, &[n, n + 10]) {
                        Ok(()) => break,
                        Err(SendError::Full) => thread::yield_now(),
                        Err(other) => panic!("{other:?}"),
                    }
                }
            }
        });
        let mut receiver = Receiver::new(ring);
        for n in 1..=3u64 {
            let message = loop {
                match receiver.try_recv().unwrap() {
                    Some(message) => break message,
                    None => thread::yield_now(),
                }
            };
            assert_eq!((message.tag, &message.words()[..3]), (n as u32, &[n, n + 10, 0][..]));
        }
        sender.join().unwrap();
    });
}

/// Without a loop, which would never end if this were not so.
#[test]
fn the_header_brings_the_words() {
    check(3, || {
        let ring = leak(Ring::<1>::new());
        let sender = thread::spawn(move || Sender::new(ring).try_send(5, &[7]).unwrap());
        if let Some(message) = Receiver::new(ring).try_recv().unwrap() {
            assert_eq!(message.words()[0], 7);
        }
        sender.join().unwrap();
    });
}

#[test]
fn the_first_line_of_a_message_brings_the_others() {
    check(3, || {
        let ring = leak(Ring::<2>::new());
        let sender = thread::spawn(move || {
            let mut sender = Sender::new(ring);
            sender.try_send(5, &[1, 2, 3, 4, 5, 6, 7, 8]).unwrap();
        });
        let mut receiver = Receiver::new(ring);
        if let Some(message) = receiver.try_recv().unwrap() {
            assert_eq!(message.words(), [1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0, 0, 0]);
        }
        sender.join().unwrap();
    });
}

/// Receives `count` messages from several rings, asleep whenever there is none.
fn receive_all(rings: &[&'static Ring<2>], sleeper: &Sleeper, bell: &Doorbell, count: usize) {
    let mut receivers: Vec<_> = rings.iter().map(|ring| Receiver::new(ring)).collect();
    let mut received = 0;
    loop {
        for receiver in &mut receivers {
            received += usize::from(receiver.try_recv().unwrap().is_some());
        }
        if received == count {
            return;
        }
        sleeper.announce();
        match receivers.iter().any(|receiver| receiver.peek().is_some()) {
            true => sleeper.cancel(),
            false => bell.wait(),
        }
    }
}

#[test]
fn no_wake_up_is_lost() {
    check(3, || {
        let (ring, bell) = (leak(Ring::<2>::new()), leak(Doorbell::new()));
        let sender = thread::spawn(move || {
            let mut sender = Sender::new(ring);
            for n in 0..2 {
                sender.try_send(n, &[]).unwrap();
                if ring.sleeper().must_wake() {
                    bell.ring();
                }
            }
        });
        receive_all(&[ring], ring.sleeper(), bell, 2);
        sender.join().unwrap();
    });
}

#[test]
fn no_wake_up_of_two_senders_is_lost() {
    check(2, || {
        let rings = [leak(Ring::<2>::new()), leak(Ring::<2>::new())];
        let (sleeper, bell) = (leak(Sleeper::new()), leak(Doorbell::new()));
        let senders = rings.map(|ring| {
            thread::spawn(move || {
                Sender::new(ring).try_send(1, &[]).unwrap();
                if sleeper.must_wake() {
                    bell.ring();
                }
            })
        });
        receive_all(&rings, sleeper, bell, 2);
        senders.into_iter().for_each(|sender| sender.join().unwrap());
    });
}

#[test]
fn a_sender_that_waits_for_room_is_woken() {
    check(3, || {
        let (ring, bell) = (leak(Ring::<1>::new()), leak(Doorbell::new()));
        let sender = thread::spawn(move || {
            let mut sender = Sender::new(ring);
            for n in 0..2 {
                while sender.try_send(n, &[]) == Err(SendError::Full) {
                    if !sender.room_for(1).unwrap() {
                        bell.wait();
                    }
                }
            }
        });
        let mut receiver = Receiver::new(ring);
        for n in 0..2 {
            let message = loop {
                match receiver.try_recv().unwrap() {
                    Some(message) => break message,
                    None => thread::yield_now(),
                }
            };
            assert_eq!(message.tag, n);
            if receiver.release() {
                bell.ring();
            }
        }
        sender.join().unwrap();
    });
}

/// Receives `count` messages from those who say on the board that they have sent some, asleep whenever
/// nobody does.
fn receive_told(rings: &[&'static Ring<2>], board: &Board, bell: &Doorbell, count: usize) {
    let mut receivers: Vec<_> = rings.iter().map(|ring| Receiver::new(ring)).collect();
    let mut received = 0;
    loop {
        let told = board.take();
        for (_, receiver) in receivers.iter_mut().enumerate().filter(|(n, _)| told >> n & 1 != 0) {
            while receiver.try_recv().unwrap().is_some() {
                received += 1;
            }
        }
        if received == count {
            return;
        }
        board.sleeper().announce();
        match board.is_told() {
            true => board.sleeper().cancel(),
            false => bell.wait(),
        }
    }
}

/// Each sender puts in so many messages, and tells of each.
fn send_and_tell(ring: &'static Ring<2>, board: &Board, bell: &Doorbell, number: u32, count: u32) {
    let mut sender = Sender::new(ring);
    for n in 0..count {
        sender.try_send(n, &[]).unwrap();
        if board.tell(number) {
            bell.ring();
        }
    }
}

#[test]
fn nothing_that_was_told_is_lost() {
    check(3, || {
        let (ring, board, bell) =
            (leak(Ring::<2>::new()), leak(Board::new()), leak(Doorbell::new()));
        let sender = thread::spawn(move || send_and_tell(ring, board, bell, 0, 2));
        receive_told(&[ring], board, bell, 2);
        sender.join().unwrap();
    });
}

#[test]
fn nothing_that_two_have_told_is_lost() {
    check(2, || {
        let rings = [leak(Ring::<2>::new()), leak(Ring::<2>::new())];
        let (board, bell) = (leak(Board::new()), leak(Doorbell::new()));
        let senders = [0, 1].map(|n: u32| {
            thread::spawn(move || send_and_tell(rings[n as usize], board, bell, n, 1))
        });
        receive_told(&rings, board, bell, 2);
        senders.into_iter().for_each(|sender| sender.join().unwrap());
    });
}

/// Without a loop, which would go on until it is so.
#[test]
fn what_was_told_brings_the_message() {
    check(3, || {
        let (ring, board) = (leak(Ring::<1>::new()), leak(Board::new()));
        let sender = thread::spawn(move || {
            Sender::new(ring).try_send(5, &[7]).unwrap();
            board.tell(3);
        });
        if board.take() != 0 {
            assert_eq!(Receiver::new(ring).try_recv().unwrap().unwrap().words()[0], 7);
        }
        sender.join().unwrap();
    });
}

#[test]
fn who_waits_for_room_is_told_of_it() {
    check(3, || {
        let (ring, board, bell) =
            (leak(Ring::<1>::new()), leak(Board::new()), leak(Doorbell::new()));
        let sender = thread::spawn(move || {
            let mut sender = Sender::new(ring);
            for n in 0..2 {
                while sender.try_send(n, &[]) == Err(SendError::Full) {
                    board.sleeper().announce();
                    match board.is_told() || sender.room_for(1).unwrap() {
                        true => board.sleeper().cancel(),
                        false => bell.wait(),
                    }
                    board.take();
                }
            }
        });
        let mut receiver = Receiver::new(ring);
        for _ in 0..2 {
            while receiver.try_recv().unwrap().is_none() {
                thread::yield_now();
            }
            if receiver.release() && board.tell(0) {
                bell.ring();
            }
        }
        sender.join().unwrap();
    });
}
