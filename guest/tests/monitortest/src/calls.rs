//! Calls to endpoints of other cores: the caller waits there, and comes back with the answer.
//!
//! | test | what must hold |
//! |---|---|
//! | `calls_to_other_cores` | words and badges, with a server that waits in `ReplyRecv`; capabilities are refused |
//! | `calls_from_all_cores` | all cores call one server at once, which is rung for |
//! | `callers_killed` | callers die wherever they are, and the server goes on |
//! | `servers_killed` | who waits for an answer is told that there will be none |
//! | `endpoint_deleted` | the same, when the endpoint goes and its server stays |

use crate::part::digits;
use crate::Test;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering::SeqCst};
use core::time::Duration;
use libos::captypes::op;
use libos::cores::{self, Machine, Part, KILLED};
use libos::interface::OwnedCap;
use libos::invoke::invoke;
use libos::ipc::{self, Caps};
use libos::{domain, log, thread, CapType, Place, Rights, Status, PAGE};
use testkit::{check, fails, good, Outcome};

pub const TESTS: &[Test] = &[
    ("calls_to_other_cores", to_others),
    ("calls_from_all_cores", from_all),
    ("callers_killed", callers_killed),
    ("servers_killed", servers_killed),
    ("endpoint_deleted", endpoint_deleted),
];

const NAME: &str = "monitortest";
const CALLS: u64 = 100;
/// A part's exit status when its call has ended without an answer.
const GONE: u64 = 500;
/// Words that a server receives.
pub const ADD: u64 = 1;
const NEVER: u64 = 2;
const LEAVE: u64 = 3;

pub fn new_key() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0xca11);
    LAST.fetch_add(0x9e37_79b9_7f4a_7c15, SeqCst)
}

pub fn endpoint() -> Result<OwnedCap, Status> {
    Ok(OwnedCap::own(domain::with(|domain| domain.make(CapType::Endpoint, PAGE))?))
}

pub fn with_badge(endpoint: &OwnedCap, badge: u32) -> Result<OwnedCap, Status> {
    let dst = domain::with(|domain| domain.slot())?;
    invoke(endpoint.cap(), op::Mint { dst: dst.into(), rights: Rights::SEND, badge })?;
    Ok(OwnedCap::own(dst))
}

/// A badge is there as long as the core of the endpoint has a capability with it: so that stays here.
pub fn send(core: u32, key: u64, badged: &OwnedCap) -> Result<(), Status> {
    cores::send(core, key, OwnedCap::copy_of(badged.cap())?)
}

pub fn call(endpoint: &OwnedCap, words: [u64; 6]) -> Result<[u64; 6], Status> {
    ipc::call(endpoint.cap(), words, Caps::NONE, Place::NULL).map(|answer| answer.words)
}

/// What a server answers.
pub fn sum(words: [u64; 6], badge: u64) -> [u64; 6] {
    let [_, a, b, c, d, e] = words;
    [a + b, badge, c, d, e, a.wrapping_mul(b)]
}

pub fn start(core: u32, what: &str, key: u64) -> Result<Part, Status> {
    cores::spawn_on(core, &[NAME, what, digits(key, &mut [0; 20])])
}

/// A part of one of these tests: answers its exit status.
pub fn part(what: &str, key: u64) -> Option<u64> {
    let done = match what {
        "serve" => serve(key),
        "call" => cores::receive(key).map(|endpoint| call_often(&endpoint, CALLS)),
        "call-on" => cores::receive(key).map(|endpoint| call_often(&endpoint, u64::MAX)),
        "call-in-vain" => cores::receive(key).map(|endpoint| call_in_vain(&endpoint)),
        _ => return None,
    };
    Some(done.unwrap_or_else(|status| 2000 + status.to_word()))
}

/// Sends an endpoint to core 0 and serves there.
fn serve(key: u64) -> Result<u64, Status> {
    let endpoint = endpoint()?;
    let badged = with_badge(&endpoint, 42)?;
    send(0, key, &badged)?;
    let (mut to, mut words, mut served) = (Place::NULL, [0; 6], 0);
    loop {
        let message = ipc::reply_recv(endpoint.cap(), to, words, Caps::NONE, Place::NULL)?;
        if message.is_notification() {
            to = Place::NULL;
            continue;
        }
        served += 1;
        match message.words[0] {
            ADD => (to, words) = (Place::CALLER, sum(message.words, message.badge)),
            NEVER => to = Place::NULL,
            _ => {
                ipc::reply(Place::CALLER, [served, 0, 0, 0, 0, 0], Caps::NONE)?;
                return Ok(served);
            }
        }
    }
}

/// How many answers were right, or why there was none.
fn call_often(endpoint: &OwnedCap, calls: u64) -> u64 {
    let (mut right, mut n, mut badge) = (0, 0, None);
    while n < calls {
        let words = [ADD, n, n + 7, 3, 4, 5];
        let Ok(answer) = call(endpoint, words) else { return GONE };
        let expected = *badge.get_or_insert(answer[1]);
        right += u64::from(answer == sum(words, expected));
        n += 1;
    }
    right
}

fn call_in_vain(endpoint: &OwnedCap) -> u64 {
    match call(endpoint, [NEVER, 0, 0, 0, 0, 0]) {
        Err(Status::PeerGone) => GONE,
        Err(other) => 1000 + other.to_word(),
        Ok(_) => 0,
    }
}

/// Has a call ended with its endpoint, or begun too late, when the capability had gone already?
fn is_gone(status: u64) -> bool {
    let late = [1000, 2000].map(|base| base + Status::Empty.to_word());
    status == GONE || late.contains(&status)
}

fn to_others(machine: &Machine) -> Outcome {
    for core in 1..machine.count.min(8) {
        let key = new_key();
        let part = good!(start(core, "serve", key));
        let endpoint = good!(cores::receive(key));
        // SAFETY: reads a counter.
        let now = || unsafe { core::arch::x86_64::_rdtsc() };
        let begun = now();
        for n in 0..CALLS {
            let words = [ADD, n, 2 * n, u64::MAX, n << 40, !n];
            check!(good!(call(&endpoint, words)) == sum(words, 42));
        }
        log!("@bench call_to_core_{core} {} ticks", (now() - begun) / CALLS);
        let caps = Caps::one(endpoint.cap());
        fails!(Unsupported, ipc::call(endpoint.cap(), [ADD; 6], caps, Place::NULL));
        fails!(Unsupported, ipc::recv(endpoint.cap(), Place::NULL));
        // Its receiver hears that, and nothing else comes of it.
        good!(invoke(endpoint.cap(), op::Notify { bits: 1 << 50 }));
        check!(good!(call(&endpoint, [LEAVE; 6]))[0] == CALLS + 1);
        check!(good!(part.wait()) == CALLS + 1);
        // With the server its endpoint goes, sooner or later.
        check!(matches!(call(&endpoint, [ADD; 6]), Err(Status::PeerGone | Status::Empty)));
    }
    check!(good!(cores::check()));
    Ok(())
}

/// A part that calls, and its badge.
pub struct Caller {
    pub part: Part,
    _badged: OwnedCap,
}

impl Caller {
    /// One that calls as `badged` says.
    pub fn new(part: Part, badged: OwnedCap) -> Caller {
        Caller { part, _badged: badged }
    }
}

/// A server in this domain, which does other things meanwhile.
pub struct Server {
    pub endpoint: OwnedCap,
    pub bit: u64,
}

impl Server {
    pub fn new() -> Result<Server, Status> {
        static BIT: AtomicU64 = AtomicU64::new(0);
        if BIT.load(SeqCst) == 0 {
            BIT.store(thread::new_bit()?, SeqCst);
        }
        let server = Server { endpoint: endpoint()?, bit: BIT.load(SeqCst) };
        invoke(server.endpoint.cap(), op::Listen { bits: server.bit })?;
        Ok(server)
    }

    /// For a caller on a core.
    pub fn badged(&self, core: u32) -> Result<OwnedCap, Status> {
        with_badge(&self.endpoint, 100 + core)
    }

    /// Parts on cores that call.
    fn callers(&self, cores: impl Iterator<Item = u32>, what: &str) -> Result<Vec<Caller>, Status> {
        let start = |core| {
            let key = new_key();
            let part = start(core, what, key)?;
            let badged = self.badged(core)?;
            send(core, key, &badged)?;
            Ok(Caller::new(part, badged))
        };
        cores.map(start).collect()
    }

    /// Answers calls, so many.
    fn serve(&self, mut calls: u64) -> Result<u64, Status> {
        let mut wrong = 0;
        while calls > 0 {
            match ipc::poll(self.endpoint.cap(), Place::NULL) {
                Ok(message) if message.is_notification() => {}
                Ok(message) => {
                    wrong += u64::from(!(100..164).contains(&message.badge));
                    let answer = sum(message.words, message.badge);
                    // Whoever was killed meanwhile needs none.
                    let _ = ipc::reply(Place::CALLER, answer, Caps::NONE);
                    calls -= 1;
                }
                Err(Status::Empty) => drop(thread::wait_for(self.bit)),
                Err(other) => return Err(other),
            }
        }
        Ok(wrong)
    }
}

fn from_all(machine: &Machine) -> Outcome {
    let server = good!(Server::new());
    let parts = good!(server.callers(0..machine.count, "call"));
    check!(good!(server.serve(u64::from(machine.count) * CALLS)) == 0);
    for caller in parts {
        check!(good!(caller.part.wait()) == CALLS);
    }
    check!(good!(cores::check()));
    Ok(())
}

fn callers_killed(machine: &Machine) -> Outcome {
    let server = good!(Server::new());
    let mut calls = 1;
    for round in 0..10 {
        let mut parts = good!(server.callers(0..machine.count.min(4), "call-on"));
        // One after the other at some moment; the rest calls on.
        while let Some(caller) = parts.pop() {
            calls = calls * 5 % 97;
            check!(good!(server.serve(calls * (1 + round % 3))) == 0);
            check!(good!(caller.part.kill()) == KILLED);
        }
    }
    check!(good!(cores::check()));
    Ok(())
}

fn servers_killed(machine: &Machine) -> Outcome {
    for at in 1..machine.count.min(4) {
        let key = new_key();
        let serving = good!(start(at, "serve", key));
        let endpoint = good!(cores::receive(key));
        let others: Vec<u32> = (0..machine.count.min(4)).collect();
        let mut parts = Vec::new();
        for &core in &others {
            let key = new_key();
            parts.push(good!(start(core, "call-in-vain", key)));
            // From here: the owner's core is known to whoever has a copy of a copy.
            good!(cores::send(core, key, good!(OwnedCap::copy_of(endpoint.cap()))));
        }
        thread::sleep(Duration::from_millis(20));
        check!(good!(serving.kill()) == KILLED);
        for part in parts {
            check!(is_gone(good!(part.wait())));
        }
    }
    check!(good!(cores::check()));
    Ok(())
}

fn endpoint_deleted(machine: &Machine) -> Outcome {
    for core in 1..machine.count.min(8) {
        // It is rung for the call (or has been for an earlier one), and does not look.
        let server = good!(Server::new());
        let key = new_key();
        let part = good!(start(core, "call-in-vain", key));
        let badged = good!(with_badge(&server.endpoint, 100));
        good!(send(core, key, &badged));
        thread::wait_for(server.bit);
        drop((badged, server));
        check!(is_gone(good!(part.wait())));
    }
    check!(good!(cores::check()));
    Ok(())
}
