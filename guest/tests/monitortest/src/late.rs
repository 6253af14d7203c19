//! Callers of other cores that are answered later, by capabilities to their dispatchers; and what else is done with those.
//!
//! | test | what must hold |
//! |---|---|
//! | `answered_late` | callers of all cores wait at once, and are answered in any order |
//! | `notified_from_afar` | a dispatcher of another core is notified, and its processor time is known |
//! | `killed_before_the_answer` | who is not there any more is not answered, and nobody else |

use crate::calls::{call, new_key, send, start, sum, Caller, Server, ADD};
use crate::Test;
use alloc::vec::Vec;
use libos::abi::slots::DISPATCHER;
use libos::captypes::op;
use libos::cores::{self, Machine, KILLED};
use libos::interface::OwnedCap;
use libos::ipc::{self, Caps, Message};
use libos::{invoke, log, thread, Cap, CapType, Place, Status};
use testkit::{check, fails, good, Outcome};

pub const TESTS: &[Test] = &[
    ("answered_late", answered_late),
    ("notified_from_afar", notified),
    ("killed_before_the_answer", killed),
];

const ROUNDS: u64 = 50;
/// The key of a caller's dispatcher differs so much from that of its endpoint.
const APART: u64 = 0x5a5a_0000_0000;

pub fn part(what: &str, key: u64) -> Option<u64> {
    let done = match what {
        "call-late" => call_late(key),
        _ => return None,
    };
    Some(done.unwrap_or_else(|status| 2000 + status.to_word()))
}

/// Calls, waits to be notified of the bit that it has said, and answers how many answers were right.
fn call_late(key: u64) -> Result<u64, Status> {
    let endpoint = cores::receive(key)?;
    cores::send(0, key + APART, OwnedCap::copy_of(DISPATCHER)?)?;
    let bit = thread::new_bit()?;
    let mut right = 0;
    for n in 0..ROUNDS {
        let words = [ADD, n, key, bit, 0, 0];
        let answer = call(&endpoint, words)?;
        right += u64::from(answer == sum(words, key & 0xffff));
    }
    thread::wait_for(bit);
    Ok(right)
}

/// A caller with its dispatcher.
struct Late {
    caller: Caller,
    dispatcher: OwnedCap,
    key: u64,
    /// By which it is notified.
    bit: u64,
}

/// One on each of some cores.
fn callers(server: &Server, machine: &Machine) -> Result<Vec<Late>, Status> {
    let one = |core| {
        let key = new_key() >> 1;
        let part = start(core, "call-late", key)?;
        let badged = server.badged(core)?;
        send(core, key, &badged)?;
        let dispatcher = cores::receive(key + APART)?;
        Ok(Late { caller: Caller::new(part, badged), dispatcher, key, bit: 0 })
    };
    (1..machine.count.min(5)).map(one).collect()
}

/// The next call, which waits.
fn next(server: &Server) -> Result<Message, Status> {
    loop {
        match ipc::poll(server.endpoint.cap(), Place::NULL) {
            Ok(message) if message.is_notification() => {}
            Err(Status::Empty) => drop(thread::wait_for(server.bit)),
            other => return other,
        }
    }
}

/// Every caller has called: what each has said, by its core.
fn calls_of_all(server: &Server, all: &mut [Late]) -> Result<Vec<Message>, Status> {
    let mut calls: Vec<Message> = all.iter().map(|_| next(server)).collect::<Result<_, _>>()?;
    calls.sort_by_key(|call| call.badge);
    for (late, call) in all.iter_mut().zip(&calls) {
        late.bit = call.words[3];
    }
    Ok(calls)
}

fn answer(late: &Late, call: &Message) -> Result<(), Status> {
    ipc::reply(late.dispatcher.cap(), sum(call.words, late.key & 0xffff), Caps::NONE)
}

fn answered_late(machine: &Machine) -> Outcome {
    let server = good!(Server::new());
    let mut all = good!(callers(&server, machine));
    for late in &all {
        check!(good!(late.dispatcher.cap().identify()).ty == CapType::Dispatcher);
    }
    let count = all.len();
    for round in 0..ROUNDS as usize {
        let calls = good!(calls_of_all(&server, &mut all));
        for n in 0..count {
            let at = if round % 2 == 0 { count - 1 - n } else { (n + round) % count };
            check!(calls[at].words[1] == round as u64);
            good!(answer(&all[at], &calls[at]));
            // It waits no more, or for nothing of this server's that was received.
            fails!(WrongState, answer(&all[at], &calls[at]));
        }
    }
    for late in all {
        good!(invoke(late.dispatcher.cap(), op::Notify { bits: late.bit }));
        check!(good!(late.caller.part.wait()) == ROUNDS);
    }
    check!(good!(cores::check()));
    Ok(())
}

fn notified(machine: &Machine) -> Outcome {
    let server = good!(Server::new());
    let mut all = good!(callers(&server, machine));
    for _ in 0..ROUNDS {
        let calls = good!(calls_of_all(&server, &mut all));
        for (late, call) in all.iter().zip(&calls) {
            // While it waits here, its own core notifies it.
            good!(invoke(late.dispatcher.cap(), op::Notify { bits: 1 << 62 }));
            let used = good!(invoke(late.dispatcher.cap(), op::Usage {}));
            check!(used.ticks > 0);
            // Its library has no right to stop itself for good, nor has who gets it from there.
            fails!(NoRights, invoke(late.dispatcher.cap(), op::Suspend {}));
            good!(answer(late, call));
        }
    }
    for late in all {
        good!(invoke(late.dispatcher.cap(), op::Notify { bits: late.bit }));
        check!(good!(late.caller.part.wait()) == ROUNDS);
        // SAFETY: reads a counter.
        let now = || unsafe { core::arch::x86_64::_rdtsc() };
        let begun = now();
        // With the domain its dispatcher goes, here too.
        while invoke(late.dispatcher.cap(), op::Notify { bits: 1 }).is_ok() {
            thread::yield_now();
        }
        log!("dispatcher gone after {} ticks", now() - begun);
    }
    check!(good!(cores::check()));
    Ok(())
}

fn killed(machine: &Machine) -> Outcome {
    for _ in 0..5 {
        let server = good!(Server::new());
        let mut all = good!(callers(&server, machine));
        let calls = good!(calls_of_all(&server, &mut all));
        for (late, call) in all.into_iter().zip(&calls) {
            let dispatcher = late.dispatcher;
            check!(good!(late.caller.part.kill()) == KILLED);
            let words = sum(call.words, late.key);
            let late = ipc::reply(dispatcher.cap(), words, Caps::NONE);
            check!(matches!(late, Err(Status::WrongState | Status::Empty)));
        }
    }
    check!(good!(cores::check()));
    Ok(())
}
