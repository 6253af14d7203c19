//! Messages and notifications between dispatchers.

use crate::setup::{slot, Lab};
use crate::threads::{self, dispatcher, Spaces, EP};
use crate::Test;
use libos::abi::slots::DISPATCHER;
use libos::ipc::{self, Caps};
use libos::{invoke, op, Cap, CapType, Place, Rights, Status, PAGE};
use testkit::{check, fails, good, Outcome};

pub const TESTS: &[Test] = &[
    ("call_words", words),
    ("call_badge", badge),
    ("call_caps", caps),
    ("call_caps_moved", caps_moved),
    ("call_caps_nowhere", caps_nowhere),
    ("call_two_clients", two_clients),
    ("call_rights", call_rights),
    ("call_peer_gone", peer_gone),
    ("call_suspended", suspended),
    ("call_deleted", deleted),
    ("reply_states", reply_states),
    ("notify_wait", notify_wait),
    ("notify_ends_receive", notify_ends_receive),
    ("notify_endpoint", notify_endpoint),
    ("poll", poll),
];

/// Calls the endpoint at slot `ep` again and again: word 0 is the first answer's plus one.
extern "C" fn client(ep: u64, first: u64, _: u64) -> ! {
    let mut word = first;
    loop {
        let sent = [word, word + 1, word + 2, word + 3, word + 4, word + 5];
        match ipc::call(Place(ep), sent, Caps::NONE, Place::NULL) {
            Ok(answer) => word = answer.words[0].wrapping_add(answer.words[5]),
            Err(status) => {
                let _ = threads::tell([u64::MAX, status.to_word(), 0, 0, 0, 0]);
                threads::idle()
            }
        }
    }
}

fn ep() -> u64 {
    Place::from(EP).0
}

fn words(lab: &mut Lab) -> Outcome {
    good!(threads::make_endpoint(lab));
    good!(threads::start(lab, 0, client, [ep(), 100, 0]));
    let mut message = good!(threads::hear());
    for round in 0..200u64 {
        let first = if round == 0 { 100 } else { 1000 * round + round };
        check!(message.words == core::array::from_fn(|i| first + i as u64));
        check!(message.badge == 0 && message.caps() == 0 && !message.is_notification());
        let next = round + 1;
        let answer = [1000 * next, 0, 0, 0, 0, next];
        message = good!(ipc::reply_recv(EP, Place::CALLER, answer, Caps::NONE, Place::NULL));
    }
    good!(threads::kill(0));
    Ok(())
}

fn badge(lab: &mut Lab) -> Outcome {
    good!(threads::make_endpoint(lab));
    good!(EP.mint_badged(slot(0), Rights::SEND, 0xdead_beef));
    good!(threads::start(lab, 0, client, [Place::from(slot(0)).0, 1, 0]));
    check!(good!(threads::hear()).badge == 0xdead_beef);
    // By name of the dispatcher instead of "the last caller".
    let message =
        good!(ipc::reply_recv(EP, dispatcher(0), [8, 0, 0, 0, 0, 1], Caps::NONE, Place::NULL));
    check!(message.words[0] == 9 && message.badge == 0xdead_beef);
    good!(threads::kill(0));
    Ok(())
}

/// Sends what is at `first`, wants the answer's at `recv`, then says how many came.
extern "C" fn sender(first: u64, count: u64, recv: u64) -> ! {
    let caps = Caps::new(Place(first), count as u32);
    let came = match ipc::call(EP, [0; 6], caps, Place(recv)) {
        Ok(answer) => answer.caps() as u64,
        Err(status) => 100 + status.to_word(),
    };
    let _ = threads::tell([came, 0, 0, 0, 0, 0]);
    threads::idle()
}

fn place(n: u32) -> u64 {
    Place::from(slot(n)).0
}

fn caps(lab: &mut Lab) -> Outcome {
    good!(threads::make_endpoint(lab));
    good!(lab.ram.retype(CapType::Frame, 0, PAGE, 4, slot(0)));
    good!(threads::start(lab, 0, sender, [place(0), 4, place(20)]));
    let message = good!(ipc::recv(EP, slot(10)));
    check!(message.caps() == 4);
    for n in 0..4 {
        let (sent, got) = (good!(slot(n).identify()), good!(slot(10 + n).identify()));
        check!((sent.base, sent.ty, sent.rights) == (got.base, got.ty, got.rights));
    }
    let caps = Caps::new(slot(11), 2);
    let message = good!(ipc::reply_recv(EP, Place::CALLER, [0; 6], caps, Place::NULL));
    check!(message.words[0] == 2);
    check!(good!(slot(21).identify()).base == good!(slot(2).identify()).base);
    fails!(Empty, slot(22).identify());
    good!(threads::kill(0));
    Ok(())
}

/// Moved capabilities leave their slots; those that have no place to go stay.
fn caps_moved(lab: &mut Lab) -> Outcome {
    good!(threads::make_endpoint(lab));
    good!(lab.ram.retype(CapType::Frame, 0, PAGE, 4, slot(0)));
    good!(lab.make(CapType::Frame, 1 << 20, PAGE, slot(22)));
    good!(threads::start(lab, 0, sender, [place(9), 0, place(20)]));
    good!(threads::hear());
    let caps = Caps::moved(slot(0), 4);
    let message = good!(ipc::reply_recv(EP, Place::CALLER, [0; 6], caps, Place::NULL));
    check!(message.words[0] == 2);
    fails!(Empty, slot(0).identify());
    fails!(Empty, slot(1).identify());
    let there = good!(slot(21).identify());
    check!(there.base == lab.ram_base + PAGE && there.relations & 3 == 0);
    check!(good!(slot(2).identify()).base == lab.ram_base + 2 * PAGE);
    good!(threads::kill(0));
    Ok(())
}

/// Capabilities that have no place to go, or are none, do not arrive; the words do.
fn caps_nowhere(lab: &mut Lab) -> Outcome {
    good!(threads::make_endpoint(lab));
    good!(lab.ram.retype(CapType::Frame, 0, PAGE, 3, slot(0)));
    let cases = [
        (slot(0), 4, Place::NULL, 0),
        (slot(0), 4, Place::from(slot(10)), 3),
        (slot(0), 3, Place::from(slot(255)), 0),
        (slot(0), 2, Place::within(slot(1), slot(0)), 0),
        (slot(9), 2, Place::from(slot(10)), 0),
        (slot(0), 255, Place::from(slot(10)), 3),
    ];
    for (first, count, recv, expected) in cases {
        good!(threads::start(lab, 0, sender, [Place::from(first).0, count, 0]));
        let message = good!(ipc::recv(EP, recv));
        check!(message.caps() == expected);
        // More than the receiver wanted, in the other direction.
        let caps = Caps::new(slot(0), 3);
        let message = good!(ipc::reply_recv(EP, Place::CALLER, [0; 6], caps, Place::NULL));
        check!(message.words[0] == 0);
        good!(threads::kill(0));
        good!(slot(10).delete_range(4));
    }
    Ok(())
}

fn two_clients(lab: &mut Lab) -> Outcome {
    good!(threads::make_endpoint(lab));
    for n in 0..3 {
        good!(EP.mint_badged(slot(n), Rights::SEND, 10 + n));
        good!(threads::start(lab, n, client, [place(n), 1000 * (n as u64 + 1), 0]));
    }
    let mut counts = [0u32; 3];
    let mut message = good!(threads::hear());
    // Nobody is passed over for ever, though who calls while the server waits is served first.
    for _ in 0..2_000_000 {
        let who = (message.badge - 10) as usize;
        check!(message.words[0] == 1000 * (who as u64 + 1) + counts[who] as u64);
        counts[who] += 1;
        if counts.iter().all(|&count| count >= 100) {
            break;
        }
        let answer = [message.words[0], 0, 0, 0, 0, 1];
        message = good!(ipc::reply_recv(EP, Place::CALLER, answer, Caps::NONE, Place::NULL));
    }
    check!(counts.iter().all(|&count| count >= 100));
    for n in 0..3 {
        good!(threads::kill(n));
    }
    Ok(())
}

fn call_rights(lab: &mut Lab) -> Outcome {
    good!(threads::make_endpoint(lab));
    good!(EP.mint(slot(0), Rights::SEND));
    good!(EP.mint(slot(1), Rights::RECV));
    fails!(NoRights, ipc::recv(slot(0), Place::NULL));
    fails!(NoRights, ipc::call(slot(1), [0; 6], Caps::NONE, Place::NULL));
    fails!(WrongType, ipc::call(lab.ram, [0; 6], Caps::NONE, Place::NULL));
    fails!(Empty, ipc::call(slot(9), [0; 6], Caps::NONE, Place::NULL));
    fails!(NoRights, slot(1).notify(1));
    fails!(WrongState, slot(0).notify(1));
    Ok(())
}

/// The endpoint dies: whoever waits at it is told.
fn peer_gone(lab: &mut Lab) -> Outcome {
    good!(threads::make_endpoint(lab));
    good!(lab.make(CapType::Endpoint, 0, PAGE, slot(0)));
    for n in 0..2 {
        good!(threads::start(lab, n, client, [place(0), 5, 0]));
    }
    check!(good!(ipc::recv(slot(0), Place::NULL)).words[0] == 5);
    for _ in 0..20 {
        good!(invoke(DISPATCHER, op::Yield {}));
    }
    // One has been received, the other waits to be.
    good!(slot(0).delete());
    for _ in 0..2 {
        let message = good!(threads::hear());
        check!(message.words[..2] == [u64::MAX, Status::PeerGone.to_word()]);
    }
    good!(threads::kill(0));
    good!(threads::kill(1));
    Ok(())
}

/// A client that is suspended while it waits goes on with the answer when it is continued.
fn suspended(lab: &mut Lab) -> Outcome {
    good!(threads::make_endpoint(lab));
    good!(threads::start(lab, 0, client, [ep(), 5, 0]));
    good!(threads::hear());
    good!(invoke(dispatcher(0), op::Suspend {}));
    good!(ipc::reply(dispatcher(0), [6, 0, 0, 0, 0, 1], Caps::NONE));
    for _ in 0..10 {
        good!(invoke(DISPATCHER, op::Yield {}));
        fails!(Empty, invoke(EP, op::Poll { recv: Place::NULL }));
    }
    good!(invoke(dispatcher(0), op::Continue {}));
    fails!(WrongState, invoke(dispatcher(0), op::Continue {}));
    check!(good!(threads::hear()).words[0] == 7);
    good!(threads::kill(0));
    Ok(())
}

/// Clients that die while they wait leave nothing behind.
fn deleted(lab: &mut Lab) -> Outcome {
    good!(threads::make_endpoint(lab));
    for n in 0..3 {
        good!(threads::start(lab, n, client, [ep(), 10 * n as u64, 0]));
    }
    let first = good!(threads::hear()).words[0] as u32 / 10;
    good!(threads::kill(first));
    fails!(WrongState, ipc::reply(Place::CALLER, [0; 6], Caps::NONE));
    let second = good!(threads::hear()).words[0] as u32 / 10;
    check!(second != first);
    let third = 3 - first - second;
    good!(threads::kill(third));
    let next =
        good!(ipc::reply_recv(EP, Place::CALLER, [50, 0, 0, 0, 0, 0], Caps::NONE, Place::NULL));
    check!(next.words[0] == 50);
    good!(threads::kill(second));
    fails!(Empty, invoke(EP, op::Poll { recv: Place::NULL }));
    Ok(())
}

fn reply_states(lab: &mut Lab) -> Outcome {
    good!(threads::make_endpoint(lab));
    good!(threads::prepare(lab, 0, client, [ep(), 5, 0], Spaces::default()));
    fails!(WrongState, ipc::reply(dispatcher(0), [0; 6], Caps::NONE));
    fails!(WrongState, ipc::reply(Place::CALLER, [0; 6], Caps::NONE));
    fails!(WrongType, ipc::reply(EP, [0; 6], Caps::NONE));
    good!(invoke(dispatcher(0), op::Start {}));
    fails!(WrongState, invoke(dispatcher(0), op::Start {}));
    let again = op::Configure {
        cspace: Place::NULL,
        vspace: Place::NULL,
        frame: Place::NULL,
        frame_va: 0,
        fault_ep: Place::NULL,
        options: 0,
    };
    fails!(WrongState, invoke(dispatcher(0), again));
    good!(threads::hear());
    good!(ipc::reply(Place::CALLER, [0; 6], Caps::NONE));
    fails!(WrongState, ipc::reply(dispatcher(0), [0; 6], Caps::NONE));
    good!(threads::kill(0));
    Ok(())
}

extern "C" fn notifier(target: u64, bits: u64, times: u64) -> ! {
    for _ in 0..times {
        let _ = Place(target).notify(bits);
    }
    threads::idle()
}

fn notify_wait(lab: &mut Lab) -> Outcome {
    good!(DISPATCHER.notify(1));
    good!(DISPATCHER.notify(4));
    check!(good!(invoke(DISPATCHER, op::Wait {})).value == 5);
    good!(threads::start(lab, 0, notifier, [Place::from(DISPATCHER).0, 1 << 40, 1]));
    check!(good!(invoke(DISPATCHER, op::Wait {})).value == 1 << 40);
    good!(threads::kill(0));
    Ok(())
}

fn notify_ends_receive(lab: &mut Lab) -> Outcome {
    good!(threads::make_endpoint(lab));
    good!(DISPATCHER.notify(2));
    let message = good!(threads::hear());
    check!(message.is_notification() && message.words[0] == 2);
    good!(threads::start(lab, 0, notifier, [Place::from(DISPATCHER).0, 8, 1]));
    let message = good!(threads::hear());
    check!(message.is_notification() && message.words[0] == 8);
    good!(threads::kill(0));
    Ok(())
}

/// Bits set through an endpoint reach whoever receives from it.
fn notify_endpoint(lab: &mut Lab) -> Outcome {
    good!(threads::make_endpoint(lab));
    fails!(Empty, invoke(EP, op::Poll { recv: Place::NULL }));
    good!(EP.notify(16));
    let message = good!(threads::hear());
    check!(message.is_notification() && message.words[0] == 16);
    Ok(())
}

fn poll(lab: &mut Lab) -> Outcome {
    good!(threads::make_endpoint(lab));
    fails!(Empty, invoke(EP, op::Poll { recv: Place::NULL }));
    good!(threads::start(lab, 0, client, [ep(), 5, 0]));
    for _ in 0..20 {
        good!(invoke(DISPATCHER, op::Yield {}));
    }
    good!(invoke(EP, op::Poll { recv: Place::NULL }));
    fails!(Empty, invoke(EP, op::Poll { recv: Place::NULL }));
    good!(ipc::reply(Place::CALLER, [0; 6], Caps::NONE));
    good!(threads::kill(0));
    Ok(())
}
