//! Memory that is lent with a call to an endpoint of another core: the server there has the kernel copy, by
//! tables of the caller's core.
//!
//! | test | what must hold |
//! |---|---|
//! | `lent_to_other_cores` | what is lent is read and written, and no more; what is not there is said |
//! | `lenders_killed` | callers die while the server copies, and the server goes on |
//! | `borrowers_killed` | the server dies in the middle: the call ends, the memory stays the caller's |
//! | `unmapped_while_copied` | after an unmap has returned, nothing is written where the memory was |
//! | `deleted_while_copied` | the same, when the memory goes and becomes something else |

use crate::calls::{endpoint, new_key, send, start, with_badge};
use crate::Test;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering::SeqCst};
use core::time::Duration;
use libos::abi::slots::VSPACE;
use libos::captypes::invocations::{Copied, LENDS_READ, LENDS_WRITE};
use libos::captypes::op;
use libos::cores::{self, Machine, KILLED};
use libos::interface::OwnedCap;
use libos::invoke::{invoke, raw};
use libos::ipc::{self, Caps};
use libos::vspace::{entry_of, R, RW, RWX};
use libos::{domain, log, thread, worker, Cap, CapAddr, CapType, Place, Status, PAGE};
use testkit::{check, good, Outcome};

pub const TESTS: &[Test] = &[
    ("lent_to_other_cores", to_others),
    ("lenders_killed", lenders_killed),
    ("borrowers_killed", borrowers_killed),
    ("unmapped_while_copied", unmapped),
    ("deleted_while_copied", deleted),
];

/// What a server does.
const TAKE: u64 = 11;
const PUT: u64 = 12;
const NOTHING: u64 = 13;
/// As [`TAKE`], without a look at it.
const MOVE: u64 = 15;
const LEAVE: u64 = 14;
/// Most bytes that it copies at a time.
const MOST: u64 = 16 * PAGE;
/// How often it copies for a [`PUT`] with this bit, before it answers.
const OFTEN: u64 = 1 << 32;
const TIMES: u64 = 200;
/// Exit status of a part whose call has ended without an answer.
const GONE: u64 = 500;

/// The byte at `n` of what a server writes.
fn pattern(seed: u64, n: usize) -> u8 {
    (seed as u8).wrapping_add((n % 251) as u8) | 1
}

fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(7, |sum: u64, &byte| sum.wrapping_mul(31).wrapping_add(byte.into()))
}

pub fn part(what: &str, key: u64) -> Option<u64> {
    let done = match what {
        "borrow" => borrow(key),
        "lend-on" => cores::receive(key).map(|endpoint| lend_on(&endpoint)),
        _ => return None,
    };
    Some(done.unwrap_or_else(|status| 2000 + status.to_word()))
}

/// What a server with a buffer does for the last caller.
struct Borrower {
    buffer: Vec<u8>,
}

impl Borrower {
    fn new() -> Borrower {
        Borrower { buffer: alloc::vec![0; MOST as usize] }
    }

    /// The answer to a message: status, bytes, which side was short, checksum.
    fn answer(&mut self, words: [u64; 6]) -> [u64; 6] {
        let [what, offset, bytes, seed, ..] = words;
        let at = self.buffer.as_mut_ptr() as u64;
        let often = if what & OFTEN != 0 { TIMES } else { 1 };
        let mut copied = Ok(Copied { bytes: 0, short: 0 });
        for turn in 0..often {
            copied = match what & !OFTEN {
                TAKE => {
                    self.buffer.fill(0);
                    invoke(Place::CALLER, op::CopyFromCaller { offset, to: at, bytes })
                }
                PUT => {
                    if turn == 0 {
                        let bytes = self.buffer.iter_mut().take(bytes as usize).enumerate();
                        bytes.for_each(|(n, byte)| *byte = pattern(seed, n));
                    }
                    invoke(Place::CALLER, op::CopyToCaller { offset, from: at, bytes })
                }
                MOVE => invoke(Place::CALLER, op::CopyFromCaller { offset, to: at, bytes }),
                _ => copied,
            };
        }
        match copied {
            Ok(Copied { bytes, short }) => {
                let looked_at = if what == MOVE { 0 } else { bytes as usize };
                let sum = self.buffer.get(..looked_at).map_or(0, checksum);
                [0, bytes, u64::from(short), sum, 0, 0]
            }
            Err(error) => [error.to_word(), 0, 0, 0, 0, 0],
        }
    }

    /// Answers so many calls to an endpoint, for which this domain is rung.
    fn serve(&mut self, endpoint: &OwnedCap, bit: u64, mut calls: u32) -> Result<(), Status> {
        while calls > 0 {
            match ipc::poll(endpoint.cap(), Place::NULL) {
                Ok(message) if message.is_notification() => {}
                Ok(message) => {
                    // Whoever was killed meanwhile needs none.
                    let answer = self.answer(message.words);
                    let _ = ipc::reply(Place::CALLER, answer, Caps::NONE);
                    calls -= 1;
                }
                Err(Status::Empty) => drop(thread::wait_for(bit)),
                Err(other) => return Err(other),
            }
        }
        Ok(())
    }
}

fn borrow(key: u64) -> Result<u64, Status> {
    let endpoint = endpoint()?;
    let badged = with_badge(&endpoint, 43)?;
    send(0, key, &badged)?;
    let (mut to, mut words, mut served) = (Place::NULL, [0; 6], 0);
    let mut borrower = Borrower::new();
    loop {
        let message = ipc::reply_recv(endpoint.cap(), to, words, Caps::NONE, Place::NULL)?;
        to = Place::NULL;
        if message.is_notification() {
            continue;
        }
        if message.words[0] == LEAVE {
            ipc::reply(Place::CALLER, [served, 0, 0, 0, 0, 0], Caps::NONE)?;
            return Ok(served);
        }
        served += 1;
        (to, words) = (Place::CALLER, borrower.answer(message.words));
    }
}

/// Calls with a message of four words, and lends bytes as `bits` say.
fn lend(
    endpoint: &OwnedCap,
    bits: u64,
    [w0, w1, w2, w3]: [u64; 4],
    (w4, w5): (u64, u64),
) -> Result<[u64; 6], Status> {
    let (caps, recv) = (Place::NULL, Place::NULL);
    let args = op::Call { w0, w1, w2, w3, w4, w5, caps, recv };
    let answer = raw(endpoint.cap().into(), bits, args);
    Status::from_word(answer.status).map(|()| answer.words)
}

/// Calls until there is no answer.
fn lend_on(endpoint: &OwnedCap) -> u64 {
    let mut own: Vec<u8> = alloc::vec![0; MOST as usize];
    for seed in 0.. {
        let at = (own.as_mut_ptr() as u64, MOST);
        let Ok(answer) = lend(endpoint, LENDS_WRITE, [PUT, 0, MOST, seed], at) else { break };
        let right = own.iter().enumerate().all(|(n, &byte)| byte == pattern(seed, n));
        if answer[..3] != [0, MOST, 0] || !right {
            return 600;
        }
        let Ok(answer) = lend(endpoint, LENDS_READ, [TAKE, 0, MOST, seed], at) else { break };
        if answer[..4] != [0, MOST, 0, checksum(&own)] {
            return 601;
        }
    }
    GONE
}

/// A server on another core.
struct There {
    part: cores::Part,
    endpoint: OwnedCap,
}

impl There {
    fn new(core: u32) -> Result<There, Status> {
        let key = new_key();
        let part = start(core, "borrow", key)?;
        Ok(There { part, endpoint: cores::receive(key)? })
    }

    fn end(self, served: u64) -> Outcome {
        check!(good!(lend(&self.endpoint, 0, [LEAVE, 0, 0, 0], (0, 0)))[0] == served);
        check!(good!(self.part.wait()) == served);
        Ok(())
    }
}

/// Pages at an address, with the Frame that they are.
struct Pages {
    frame: OwnedCap,
    va: u64,
}

impl Pages {
    fn new(pages: u64) -> Result<Pages, Status> {
        let frame = domain::with(|domain| domain.make(CapType::Frame, pages * PAGE))?;
        let va = domain::with(|domain| domain.map(frame.into(), 0, pages * PAGE, RW))?;
        Ok(Pages { frame: OwnedCap::own(frame), va })
    }

    /// What is there.
    #[allow(clippy::mut_from_ref)]
    fn bytes(&self, from: u64, bytes: u64) -> &mut [u8] {
        // SAFETY: mapped, and while the slice is used nobody else writes there.
        unsafe { core::slice::from_raw_parts_mut((self.va + from) as *mut u8, bytes as usize) }
    }
}

fn to_others(machine: &Machine) -> Outcome {
    let pages = good!(Pages::new(8));
    for core in 1..machine.count.min(4) {
        let there = good!(There::new(core));
        let mut calls = 0;
        let mut call = |bits, words, lent| {
            calls += 1;
            lend(&there.endpoint, bits, words, lent)
        };
        for (n, byte) in pages.bytes(0, 8 * PAGE).iter_mut().enumerate() {
            *byte = (n as u64 * 7 + n as u64 / PAGE + u64::from(core)) as u8;
        }
        // Over pages, from the middle, up to the end and no further.
        for (start, bytes) in [(0, 1), (100, PAGE), (PAGE - 1, 2), (5, 8 * PAGE - 5)] {
            let sum = checksum(pages.bytes(start, bytes));
            let lent = (pages.va + start, bytes);
            let answer = good!(call(LENDS_READ, [TAKE, 0, bytes, 0], lent));
            check!(answer[..4] == [0, bytes, 0, sum]);
            let answer = good!(call(LENDS_READ, [TAKE, 0, bytes + 1, 0], lent));
            check!(answer[..4] == [0, bytes, 1, sum]);
            let rest = checksum(pages.bytes(start + bytes - 1, 1));
            let answer = good!(call(LENDS_READ, [TAKE, bytes - 1, 9, 0], lent));
            check!(answer[..4] == [0, 1, 1, rest]);
            check!(good!(call(LENDS_READ, [PUT, 0, 1, 0], lent))[0] == Status::NoRights.to_word());
            check!(good!(call(0, [TAKE, 0, 1, 0], lent))[0] == Status::NoRights.to_word());
        }
        for (start, bytes) in [(1, 1), (4000, 200), (2 * PAGE, 3 * PAGE), (PAGE + 9, 4 * PAGE)] {
            let all = pages.bytes(0, 8 * PAGE);
            all.fill(0);
            let answer = good!(call(LENDS_WRITE, [PUT, 0, MOST, start], (pages.va + start, bytes)));
            check!(answer[..3] == [0, bytes, 1]);
            let (before, rest) = all.split_at(start as usize);
            let (written, behind) = rest.split_at(bytes as usize);
            check!(before.iter().chain(behind).all(|&byte| byte == 0));
            check!(written.iter().enumerate().all(|(n, &byte)| byte == pattern(start, n)));
        }
        // The page behind is not there; addresses that nobody has.
        let end = pages.va + 8 * PAGE;
        let answer = good!(call(LENDS_WRITE, [PUT, 0, 2 * PAGE, 3], (end - 10, 2 * PAGE)));
        check!(answer[..3] == [0, 10, 1]);
        for va in [end, 1 << 47, u64::MAX - 5, 0xffff_8000_0000_0000] {
            let answer = good!(call(LENDS_READ, [TAKE, 0, 100, 0], (va, 100)));
            check!(answer[..3] == [0, 0, 1]);
        }
        good!(read_only(&pages, &there, &mut calls));
        good!(cost(&pages, &there, core, &mut calls));
        there.end(calls)?;
    }
    check!(good!(cores::check()));
    Ok(())
}

/// What the caller can only read stays as it is.
fn read_only(pages: &Pages, there: &There, calls: &mut u64) -> Result<(), Status> {
    let frame = pages.frame.cap().into();
    let va = domain::with(|domain| domain.map(frame, 0, 2 * PAGE, R))?;
    pages.bytes(0, PAGE).fill(9);
    let sum = checksum(pages.bytes(0, 50));
    let read = lend(&there.endpoint, LENDS_READ, [TAKE, 0, 50, 0], (va, 50))?;
    let written = lend(&there.endpoint, LENDS_WRITE, [PUT, 0, 50, 0], (va, 50))?;
    *calls += 2;
    let kept = pages.bytes(0, PAGE).iter().all(|&byte| byte == 9);
    match read[..4] == [0, 50, 0, sum] && written[..3] == [0, 0, 1] && kept {
        true => Ok(()),
        false => Err(Status::WrongState),
    }
}

fn cost(pages: &Pages, there: &There, core: u32, calls: &mut u64) -> Result<(), Status> {
    const CALLS: u64 = 200;
    // SAFETY: reads a counter.
    let now = || unsafe { core::arch::x86_64::_rdtsc() };
    for (what, bits, bytes) in [
        ("nothing", 0, 0),
        ("64", LENDS_READ, 64),
        ("4096", LENDS_READ, PAGE),
        ("32768", LENDS_READ, 8 * PAGE),
    ] {
        let word = if bits == 0 { NOTHING } else { MOVE };
        let begun = now();
        for n in 0..CALLS {
            lend(&there.endpoint, bits, [word, 0, bytes, n], (pages.va, bytes))?;
        }
        *calls += CALLS;
        log!("@bench call_to_core_{core}_lending_{what} {} ticks", (now() - begun) / CALLS);
    }
    Ok(())
}

fn lenders_killed(machine: &Machine) -> Outcome {
    let bit = good!(thread::new_bit());
    let own = good!(endpoint());
    good!(invoke(own.cap(), op::Listen { bits: bit }));
    let mut borrower = Borrower::new();
    for round in 1..8 {
        let mut parts = Vec::new();
        for core in 0..machine.count.min(4) {
            let key = new_key();
            let part = good!(start(core, "lend-on", key));
            let badged = good!(with_badge(&own, 100 + core));
            good!(send(core, key, &badged));
            parts.push((part, badged));
        }
        while let Some((part, _badged)) = parts.pop() {
            good!(borrower.serve(&own, bit, round * 5));
            check!(good!(part.kill()) == KILLED);
        }
    }
    check!(good!(cores::check()));
    Ok(())
}

fn borrowers_killed(machine: &Machine) -> Outcome {
    for core in 1..machine.count.min(4) {
        for delay in [1, 3, 10] {
            let there = good!(There::new(core));
            let pages = Arc::new(good!(Pages::new(16)));
            let (lent, endpoint) = (pages.clone(), good!(OwnedCap::copy_of(there.endpoint.cap())));
            let calling = good!(worker::spawn(Some(0), move || {
                loop {
                    let words = [PUT | OFTEN, 0, MOST, 1];
                    match lend(&endpoint, LENDS_WRITE, words, (lent.va, MOST)) {
                        Ok(answer) if answer[..2] == [0, MOST] => {}
                        Ok(answer) => return Err(answer[0] + 1000),
                        Err(error) => return Ok(error),
                    }
                }
            }));
            thread::sleep(Duration::from_millis(delay));
            check!(good!(there.part.kill()) == KILLED);
            let ended = good!(calling.join());
            check!(matches!(ended, Ok(Status::PeerGone | Status::Empty)));
            pages.bytes(0, MOST).fill(0);
            thread::sleep(Duration::from_millis(1));
            check!(pages.bytes(0, MOST).iter().all(|&byte| byte == 0));
        }
    }
    check!(good!(cores::check()));
    Ok(())
}

/// A worker lends memory at an address to a server on another core, again and again.
struct Lender {
    stop: Arc<AtomicBool>,
    worker: worker::Worker<Result<u64, Status>>,
}

impl Lender {
    /// The worker runs on core 0, or anywhere.
    fn new(there: &There, runs_on: Option<u32>, lent: (u64, u64)) -> Result<Lender, Status> {
        let stop = Arc::new(AtomicBool::new(false));
        let endpoint = OwnedCap::copy_of(there.endpoint.cap())?;
        let own_stop = stop.clone();
        let worker = worker::spawn(runs_on, move || {
            let mut calls = 0;
            while !own_stop.load(SeqCst) {
                lend(&endpoint, LENDS_WRITE, [PUT | OFTEN, 0, lent.1, calls], lent)?;
                calls += 1;
            }
            Ok(calls)
        })?;
        Ok(Lender { stop, worker })
    }

    fn end(self) -> Result<u64, Status> {
        self.stop.store(true, SeqCst);
        self.worker.join()?
    }
}

/// Where pages come and go: below an upper-level entry that nothing else uses.
const PLACE: u64 = 5 << 39;
/// Entry of the table there, and address, where they are looked at.
const LOOK: u32 = 64;
const LOOKED_AT: u64 = PLACE + LOOK as u64 * PAGE;
const ROUNDS: u64 = 300;
/// Rounds in all, if the machine is so busy that the other core has written nothing in those.
const PATIENT: u64 = 40 * ROUNDS;

/// Is there a further round?
fn goes_on(round: u64, seen: u64) -> bool {
    round < ROUNDS || seen == 0 && round < PATIENT
}

/// The tables for [`PLACE`], the last one first.
struct Tables([OwnedCap; 3]);

impl Tables {
    fn new() -> Result<Tables, Status> {
        let make = |ty| Ok(OwnedCap::own(domain::with(|domain| domain.make(ty, PAGE))?));
        let slots = domain::with(|domain| domain.slot_range(3))?;
        let (pdpt, pd, pt) = (make(CapType::Pdpt)?, make(CapType::Pd)?, make(CapType::Pt)?);
        VSPACE.map(entry_of(4, PLACE), 1, pdpt.cap(), 0, RWX, slots)?;
        pdpt.cap().map(0, 1, pd.cap(), 0, RWX, slots.plus(1))?;
        pd.cap().map(0, 1, pt.cap(), 0, RWX, slots.plus(2))?;
        Ok(Tables([pt, pd, pdpt]))
    }

    /// Maps a whole Frame from an entry on; the Mapping is in `slot` then.
    fn map(&self, entry: u32, frame: CapAddr, bytes: u64, slot: CapAddr) -> Result<(), Status> {
        self.0[0].cap().map(entry, (bytes / PAGE) as u32, frame, 0, RW, slot)
    }
}

/// Waits for a byte at an address that is not 0: whether one comes.
fn is_written(va: u64, bytes: u64, patience: u64) -> bool {
    (0..patience).any(|n| {
        // SAFETY: mapped memory of this domain; a server may be writing there.
        unsafe { core::ptr::read_volatile((va + n * 61 % bytes) as *const u8) != 0 }
    })
}

fn unmapped(machine: &Machine) -> Outcome {
    const BYTES: u64 = 4 * PAGE;
    let (tables, slot) = (good!(Tables::new()), good!(domain::with(|domain| domain.slot())));
    for core in 1..machine.count.min(4) {
        let (there, pages) = (good!(There::new(core)), good!(Pages::new(4)));
        // The thread that calls may be away from home itself.
        let runs_on = if core % 2 == 1 { Some(0) } else { None };
        let lender = good!(Lender::new(&there, runs_on, (PLACE, BYTES)));
        let mut seen = 0;
        let mut rounds = 0;
        while goes_on(rounds, seen) {
            let round = rounds;
            rounds += 1;
            pages.bytes(0, BYTES).fill(0);
            good!(tables.map(0, pages.frame.cap(), BYTES, slot));
            seen += u64::from(is_written(pages.va, BYTES, 100_000));
            good!(slot.delete());
            pages.bytes(0, BYTES).fill(0);
            check!(!is_written(pages.va, BYTES, 2_000 + 100 * (round % 50)));
        }
        let calls = good!(lender.end());
        log!("unmapped on core {core}: written to in {seen} of {rounds} rounds, {calls} calls");
        check!(seen > 0);
        there.end(calls)?;
    }
    good!(domain::free_slot(slot));
    check!(good!(cores::check()));
    Ok(())
}

fn deleted(machine: &Machine) -> Outcome {
    const BYTES: u64 = 2 * PAGE;
    let tables = good!(Tables::new());
    let ram = OwnedCap::own(good!(domain::with(|domain| domain.make(CapType::Ram, BYTES))));
    let slots = good!(domain::with(|domain| domain.slot_range(2)));
    let (frame, mapping) = (slots, slots.plus(1));
    for core in 1..machine.count.min(4) {
        let there = good!(There::new(core));
        let lender = good!(Lender::new(&there, Some(0), (PLACE, BYTES)));
        let mut seen = 0;
        let mut rounds = 0;
        while goes_on(rounds, seen) {
            rounds += 1;
            good!(ram.cap().retype(CapType::Frame, 0, BYTES, 1, frame));
            good!(tables.map(0, frame, BYTES, mapping));
            seen += u64::from(is_written(PLACE, BYTES, 100_000));
            good!(frame.delete());
            // The same memory, and something else.
            good!(ram.cap().retype(CapType::Frame, 0, BYTES, 1, frame));
            good!(tables.map(LOOK, frame, BYTES, mapping));
            check!(!is_written(LOOKED_AT, BYTES, 4_000));
            good!(frame.delete());
        }
        let calls = good!(lender.end());
        log!("deleted on core {core}: written to in {seen} of {rounds} rounds, {calls} calls");
        check!(seen > 0);
        there.end(calls)?;
    }
    check!(good!(cores::check()));
    Ok(())
}
