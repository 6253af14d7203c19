//! Capabilities that several cores have: memory shared by parts on different cores, channels through
//! it, and what becomes of it when it is revoked or deleted.

use crate::part::digits;
use crate::Test;
use core::sync::atomic::{AtomicU64, Ordering::SeqCst};
use libos::abi::slots::{MEMD, MONITOR};
use libos::cores::{self, monitor, Machine, Part, CRASHED};
use libos::interface::{OwnedCap, Remote};
use libos::vspace::{R, RW};
use libos::{domain, log, memd, thread, Cap, CapAddr, CapType, RamAttrs, Status, PAGE};
use testkit::{check, fails, good, Outcome};
use ump::{Receiver, Ring, Sender};

pub const TESTS: &[Test] = &[
    ("memory", memory),
    ("channels", channels),
    ("revoked", revoked),
    ("deleted", deleted),
    ("not_sent", not_sent),
    ("not_borrowed", not_borrowed),
];

const NAME: &str = "monitortest";
/// Bytes that are shared: two rings.
const BYTES: u64 = 2 * PAGE;
const WORDS: usize = (BYTES / 8) as usize;
const MESSAGES: u64 = 1000;

/// A shared Frame, mapped here.
struct Shared {
    frame: OwnedCap,
    va: u64,
}

impl Shared {
    fn new() -> Result<Shared, Status> {
        Shared::of(OwnedCap::own(domain::with(|domain| domain.make(CapType::Frame, BYTES))?))
    }

    fn of(frame: OwnedCap) -> Result<Shared, Status> {
        let va = domain::with(|domain| domain.map(frame.cap().into(), 0, BYTES, RW))?;
        Ok(Shared { frame, va })
    }

    fn words(&self) -> &[AtomicU64] {
        // SAFETY: mapped for good, whole pages of atomics.
        unsafe { core::slice::from_raw_parts(self.va as *const AtomicU64, WORDS) }
    }

    fn ring(&self, n: u64) -> &Ring {
        // SAFETY: as above.
        unsafe { &*((self.va + n * PAGE) as *const Ring) }
    }

    /// Starts a part on a core that is to do `what` with a copy.
    fn give(&self, core: u32, what: &str) -> Result<Part, Status> {
        let key = new_key();
        let mut text = [0; 20];
        let part = cores::spawn_on(core, &[NAME, what, digits(key, &mut text)])?;
        cores::send(core, key, OwnedCap::copy_of(self.frame.cap())?)?;
        Ok(part)
    }
}

fn new_key() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0x5eed);
    LAST.fetch_add(0x9e37_79b9_7f4a_7c15, SeqCst)
}

fn pattern(n: usize, seed: u64) -> u64 {
    (n as u64 + 1).wrapping_mul(seed | 1)
}

/// What a part does with its copy: answers its exit status.
pub fn part(what: &str, key: u64) -> u64 {
    let shared = match cores::receive(key).and_then(Shared::of) {
        Ok(shared) => shared,
        Err(error) => return 2000 + error.to_word(),
    };
    match what {
        "memory" => {
            let right = |(n, word): (usize, &AtomicU64)| word.load(SeqCst) == pattern(n, 17);
            let all = shared.words().iter().enumerate().all(right);
            let store = |(n, word): (usize, &AtomicU64)| word.store(pattern(n, 29), SeqCst);
            shared.words().iter().enumerate().for_each(store);
            u64::from(all)
        }
        "echo" => echo(&shared),
        // Says that it is there, and looks until there is nothing to be looked at any more.
        "hold" => {
            shared.words()[0].store(1, SeqCst);
            while shared.words()[1].load(SeqCst) == 0 {
                thread::sleep(core::time::Duration::from_micros(100));
            }
            shared.words()[2].load(SeqCst)
        }
        _ => 2099,
    }
}

fn echo(shared: &Shared) -> u64 {
    let (mut receiver, mut sender) = (Receiver::new(shared.ring(0)), Sender::new(shared.ring(1)));
    for _ in 0..MESSAGES {
        let message = receive(&mut receiver);
        let answer = [message[0] + 1, message[1] * 3];
        while sender.try_send(7, &answer).is_err() {
            thread::yield_now();
        }
    }
    MESSAGES
}

fn receive(receiver: &mut Receiver) -> [u64; 2] {
    loop {
        match receiver.try_recv() {
            Ok(Some(message)) => return [message.words()[0], message.words()[1]],
            Ok(None) => thread::yield_now(),
            Err(_) => return [u64::MAX; 2],
        }
    }
}

fn memory(machine: &Machine) -> Outcome {
    for core in 0..machine.count.min(8) {
        let shared = good!(Shared::new());
        for (n, word) in shared.words().iter().enumerate() {
            word.store(pattern(n, 17), SeqCst);
        }
        check!(good!(good!(shared.give(core, "memory")).wait()) == 1);
        let right = |(n, word): (usize, &AtomicU64)| word.load(SeqCst) == pattern(n, 29);
        check!(shared.words().iter().enumerate().all(right));
    }
    Ok(())
}

fn channels(machine: &Machine) -> Outcome {
    for core in 1..machine.count.min(4) {
        let shared = good!(Shared::new());
        let part = good!(shared.give(core, "echo"));
        let (mut sender, mut receiver) =
            (Sender::new(shared.ring(0)), Receiver::new(shared.ring(1)));
        // SAFETY: reads a counter.
        let now = || unsafe { core::arch::x86_64::_rdtsc() };
        let start = now();
        for n in 0..MESSAGES {
            check!(sender.try_send(3, &[n, n * n]).is_ok());
            check!(receive(&mut receiver) == [n + 1, n * n * 3]);
        }
        log!("@bench channel_round_trip_{core} {} ticks", (now() - start) / MESSAGES);
        check!(good!(part.wait()) == MESSAGES);
    }
    Ok(())
}

/// Waits until the part has the memory.
fn wait_until_held(shared: &Shared) {
    while shared.words()[0].load(SeqCst) == 0 {
        thread::sleep(core::time::Duration::from_micros(100));
    }
}

fn revoked(machine: &Machine) -> Outcome {
    for core in 1..machine.count.min(4) {
        let shared = good!(Shared::new());
        let part = good!(shared.give(core, "hold"));
        wait_until_held(&shared);
        good!(shared.frame.cap().revoke());
        // Its copy is gone, and with it what it has mapped. So is the mapping here.
        check!(good!(part.wait()) == CRASHED);
        check!(good!(shared.frame.cap().identify()).relations & 3 == 0);
    }
    Ok(())
}

/// Who deletes its copy takes it from nobody else, whoever made it.
fn deleted(machine: &Machine) -> Outcome {
    for core in 1..machine.count.min(4) {
        let shared = good!(Shared::new());
        let second = good!(domain::with(|domain| domain.slot()));
        let part = good!(shared.give(core, "hold"));
        wait_until_held(&shared);
        // A second mapping, to talk to the part by: the first goes with the first capability.
        good!(shared.frame.cap().copy_to(second));
        let va = good!(domain::with(|domain| domain.map(second.into(), 0, BYTES, RW)));
        let other = Shared { frame: OwnedCap::own(second), va };
        drop(shared);
        other.words()[2].store(77, SeqCst);
        other.words()[1].store(1, SeqCst);
        check!(good!(part.wait()) == 77);
        // The last one of all cores.
        drop(other);
        fails!(Empty, second.identify());
    }
    Ok(())
}

fn not_sent(machine: &Machine) -> Outcome {
    let kernel: CapAddr = libos::abi::slots::KERNEL;
    fails!(WrongType, cores::send(1, new_key(), good!(OwnedCap::copy_of(kernel))));
    let frame = good!(Shared::new());
    let copy = || OwnedCap::copy_of(frame.frame.cap());
    fails!(OutOfRange, cores::send(machine.count, new_key(), good!(copy())));
    // With fewer rights, which stay away.
    let slot = good!(domain::with(|domain| domain.slot()));
    good!(frame.frame.cap().mint(slot, libos::Rights::READ));
    let key = new_key();
    good!(cores::send(0, key, OwnedCap::own(slot)));
    let back = good!(cores::receive(key));
    fails!(NoRights, domain::with(|domain| domain.map(back.cap().into(), 0, PAGE, RW)));
    good!(domain::with(|domain| domain.map(back.cap().into(), 0, PAGE, R)));
    // Homes are for memory servers to change.
    let public = monitor::Client(Remote(MONITOR));
    fails!(NoRights, public.borrow(PAGE));
    fails!(NoRights, public.borrowed());
    fails!(NoRights, public.next_wish());
    fails!(NoRights, public.ceded(0, 1 << 30, 0));
    Ok(())
}

/// What no memory of another core would help to grant takes none away from it.
fn not_borrowed(_: &Machine) -> Outcome {
    let before = good!(memd::stats(MEMD)).total;
    let slot = good!(domain::with(|domain| domain.slot()));
    let large = 1 << 40;
    fails!(NoMemory, memd::alloc(MEMD, PAGE, large, RamAttrs(0), slot));
    fails!(NoMemory, memd::alloc(MEMD, large, 0, RamAttrs(0), slot));
    fails!(NoMemory, memd::alloc(MEMD, PAGE, 0, RamAttrs::PERSISTENT, slot));
    fails!(NoMemory, memd::alloc_coloured(MEMD, u64::MAX, RamAttrs::PERSISTENT, slot));
    check!(!good!(memd::has(MEMD, large)));
    check!(!good!(memd::has(MEMD, u64::MAX)));
    check!(good!(memd::stats(MEMD)).total == before);
    good!(domain::free_slot(slot));
    Ok(())
}
