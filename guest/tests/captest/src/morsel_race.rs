//! Morsels on several cores at once: dispatchers on other cores fault on pages of an object while this one takes pages away,
//! sets limits, takes snapshots, maps and unmaps, and kills some of them.
//!
//! | test | what must hold |
//! |---|---|
//! | `morsel_race_for_pages` | all cores write to the same pages for the first time: each finds what all have written |
//! | `morsel_race_with_taking` | what was taken away nobody reads any more, nobody else's page changes, a snapshot is a consistent cut |
//! | `morsel_race_with_limits` | behind a limit, or where nothing is mapped any more, no access succeeds |
//!
//! After each the pool has as many free pages as before. `seed=N` and `rounds=N` on the command line choose others.

use crate::morsels::{free, furnish, set_word, word, POOL};
use crate::probe::{PDPT, PDPT_MAPPING, VA};
use crate::race::{self, Target};
use crate::setup::{slot, Lab};
use crate::threads::{self, THREADS};
use crate::Test;
use core::sync::atomic::{AtomicU64, Ordering::SeqCst};
use libos::abi::slots::VSPACE;
use libos::captypes::invocations::Counter;
use libos::morsel::{MorselCap, PoolCap};
use libos::vspace::{entry_of, RW, RWX};
use libos::{invoke, log, op, Cap, CapAddr, Status, PAGE};
use testkit::{check, good, Outcome, Rng};

pub const TESTS: &[Test] = &[
    ("morsel_race_for_pages", for_pages),
    ("morsel_race_with_taking", with_taking),
    ("morsel_race_with_limits", with_limits),
];

const MORSEL: CapAddr = slot(0);
const MAPPING: CapAddr = slot(110);
const SNAPSHOT: CapAddr = slot(1);
/// A second Mapping of it.
const BESIDE: CapAddr = slot(111);
const ENTRY: u32 = 3;
const BESIDE_ENTRY: u32 = 4;
/// Where it is mapped.
const BASE: u64 = VA + ((ENTRY as u64) << 30);
const BESIDE_BASE: u64 = VA + ((BESIDE_ENTRY as u64) << 30);
const TABLE_PAGES: u64 = 512;
/// Ticks until a thread that shows no life is given up.
const PATIENCE: u64 = 150_000_000_000;

const fn page(n: u64) -> u64 {
    BASE + n * PAGE
}

/// What a thread and the main thread tell each other.
#[repr(align(64))]
struct Place {
    passes: AtomicU64,
    wrong: AtomicU64,
}

static PLACES: [Place; THREADS as usize] =
    [const { Place { passes: AtomicU64::new(0), wrong: AtomicU64::new(0) } }; THREADS as usize];

/// A thread that waits ends its core's turn.
fn relax() {
    core::hint::spin_loop();
}

fn now() -> u64 {
    // SAFETY: reads a counter.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// An object of order 2, mapped at [`BASE`]. Returns the free pages of the pool before.
fn make_object(lab: &mut Lab) -> Result<u64, Status> {
    furnish(lab)?;
    // The directory gets its page with its first record.
    POOL.create_morsel(2, MORSEL)?;
    MORSEL.destroy()?;
    let before = free();
    POOL.create_morsel(2, MORSEL)?;
    PDPT.map(ENTRY, 1, MORSEL, 0, RW, MAPPING)?;
    Ok(before)
}

/// Nobody has it any more: all of its pages are free again.
fn destroy_object(before: u64) -> Outcome {
    good!(MAPPING.delete());
    good!(MORSEL.destroy());
    check!(free() == before);
    Ok(())
}

fn start(lab: &mut Lab, n: u32, entry: threads::Entry, args: [u64; 3]) -> Result<(), Status> {
    threads::prepare(lab, n, entry, args, threads::Spaces::default())?;
    invoke(threads::dispatcher(n), op::SetAffinity { mask: 2 << n })?;
    invoke(threads::dispatcher(n), op::Start {})
}

fn wrongs() -> u64 {
    PLACES.iter().map(|place| place.wrong.load(SeqCst)).sum()
}

// --- The same pages, for the first time. ---

/// Pages of a round, in two tables.
const RACED: u64 = 48;
/// The round that threads are in, and whether they are to look at what was written.
static ROUND: AtomicU64 = AtomicU64::new(0);

fn raced(n: u64) -> u64 {
    page(TABLE_PAGES - RACED / 2 + n)
}

fn token(round: u64, n: u64, who: u64) -> u64 {
    round << 32 | n << 8 | (who + 1)
}

/// Writes to the pages of a round, each core from another one on or all in the same order.
fn write_pages(round: u64, who: u64, all: u64) {
    let start = if round.is_multiple_of(2) { 0 } else { who * RACED / all };
    for k in 0..RACED {
        let n = (start + k) % RACED;
        set_word(raced(n) + 8 * who, token(round, n, who));
    }
}

/// How many words are not what some core has written.
fn wrong_words(round: u64, all: u64) -> u64 {
    let pairs = (0..RACED).flat_map(|n| (0..all).map(move |who| (n, who)));
    pairs.filter(|&(n, who)| word(raced(n) + 8 * who) != token(round, n, who)).count() as u64
}

/// Even steps are writing, odd ones looking.
extern "C" fn racer(who: u64, all: u64, first: u64) -> ! {
    let place = &PLACES[who as usize - 1];
    for step in first.. {
        while ROUND.load(SeqCst) < step {
            relax();
        }
        match step.is_multiple_of(2) {
            true => write_pages(step / 2, who, all),
            false => _ = place.wrong.fetch_add(wrong_words(step / 2, all), SeqCst),
        }
        place.passes.store(step, SeqCst);
    }
    threads::idle()
}

/// Has all threads do a step, and does it, too.
fn step_together(step: u64, others: u32, own: impl FnOnce()) -> bool {
    ROUND.store(step, SeqCst);
    own();
    let end = now() + PATIENCE;
    PLACES[..others as usize].iter().all(|place| {
        while place.passes.load(SeqCst) < step && now() < end {
            let _ = race::doze();
        }
        place.passes.load(SeqCst) >= step
    })
}

fn for_pages(lab: &mut Lab) -> Outcome {
    let others = race::victims();
    if others == 0 {
        return Ok(());
    }
    let before = good!(make_object(lab));
    let all = u64::from(others) + 1;
    ROUND.store(1, SeqCst);
    for n in 0..others {
        good!(start(lab, n, racer, [u64::from(n) + 1, all, 2]));
    }
    let empty = free();
    let lost = || log::counter(Counter::ExchangesLost).unwrap_or(0);
    let (lost_before, mut wrong) = (lost(), 0);
    for round in 1..=lab.rounds {
        check!(step_together(2 * round, others, || write_pages(round, 0, all)));
        // Each page once, and two tables.
        check!(empty - free() == RACED + 2);
        check!(step_together(2 * round + 1, others, || wrong += wrong_words(round, all)));
        check!(wrong + wrongs() == 0);
        good!(MORSEL.discard_pages(0, 2 * TABLE_PAGES));
        check!(free() == empty);
    }
    for n in 0..others {
        good!(threads::kill(n));
    }
    log!("{} rounds, {} exchanges lost on core 0", lab.rounds, lost() - lost_before);
    destroy_object(before)
}

// --- Taking away, beside those who populate. ---

/// Pages that this core writes and takes away, and that others read.
const TARGETS: u64 = 16;
/// Pages from each to the next: odd, so that no two of them are in the same place of a TLB.
const SPACING: u64 = 17;
/// A table of which all is taken away at once.
const WHOLE: u64 = 2 * TABLE_PAGES;
/// Two pages of each thread, written one after the other.
const PAIRS: u64 = TABLE_PAGES;

const fn target(n: u64) -> u64 {
    page(n * SPACING)
}
/// Beside target `n`, of thread `who` alone.
const fn owned(n: u64, who: u64) -> u64 {
    target(n) + (1 + who) * PAGE
}
/// In the table that is taken away as a whole: of thread `who` alone, too.
const fn fleeting(n: u64, who: u64) -> u64 {
    page(WHOLE + n * SPACING + who)
}

/// Since when each target is taken away; 0 while it is not.
static TAKEN: [AtomicU64; TARGETS as usize] = [const { AtomicU64::new(0) }; TARGETS as usize];

/// Reads targets, and writes to pages beside them, to a pair, and to pages that are taken away at any time.
extern "C" fn neighbour(who: u64, _: u64, _: u64) -> ! {
    let place = &PLACES[who as usize];
    let mut known = [0u64; TARGETS as usize];
    for n in 0..TARGETS {
        known[n as usize] = word(owned(n, who));
    }
    let mut count = word(page(PAIRS + 2 * who));
    let mut wrong = 0;
    loop {
        for n in 0..TARGETS {
            let before = TAKEN[n as usize].load(SeqCst);
            let seen = word(target(n));
            let is_taken = before != 0 && before == TAKEN[n as usize].load(SeqCst);
            wrong += u64::from(is_taken && seen != 0);
            let own = owned(n, who);
            wrong += u64::from(word(own) != known[n as usize]);
            // Nothing but the one word has ever been written there.
            let other = 1 + (count + n) % (TABLE_PAGES - 1);
            wrong += u64::from(word(own + 8 * other) != 0);
            known[n as usize] += 1;
            set_word(own, known[n as usize]);
            let fleeting = fleeting(n, who);
            wrong += u64::from(word(fleeting + 8 * other) != 0);
            set_word(fleeting, count);
        }
        count += 1;
        set_word(page(PAIRS + 2 * who), count);
        set_word(page(PAIRS + 2 * who + 1), count);
        place.wrong.fetch_add(core::mem::take(&mut wrong), SeqCst);
        place.passes.fetch_add(1, SeqCst);
    }
}

/// Lets every thread go round twice: what it had begun before is over then.
fn go_round(others: u32) -> bool {
    let end = now() + PATIENCE;
    PLACES[..others as usize].iter().all(|place| {
        let start = place.passes.load(SeqCst);
        while place.passes.load(SeqCst) < start + 2 && now() < end {
            let _ = race::doze();
        }
        place.passes.load(SeqCst) >= start + 2
    })
}

/// Takes a target away: from the return of that on everybody reads zeros.
fn take_target(n: u64, round: u64, others: u32) -> Outcome {
    TAKEN[n as usize].store(0, SeqCst);
    set_word(target(n), round);
    check!(go_round(others));
    good!(MORSEL.discard_pages(n * SPACING, 1));
    TAKEN[n as usize].store(round, SeqCst);
    check!(word(target(n)) == 0);
    check!(go_round(others));
    Ok(())
}

/// Both pages of a pair, or one write between them.
fn cut_is_consistent(others: u32) -> Outcome {
    good!(MORSEL.snapshot(SNAPSHOT));
    for who in 0..u64::from(others) {
        let mut counts = [0u64; 2];
        for (n, count) in (0..).zip(&mut counts) {
            let to = core::ptr::from_mut(count) as u64;
            good!(SNAPSHOT.read_morsel((PAIRS + 2 * who + n) * PAGE, to, 8));
        }
        check!(counts[0] == counts[1] || counts[0] == counts[1] + 1);
    }
    good!(SNAPSHOT.destroy());
    Ok(())
}

/// Another Mapping shows what this one does, and none after it has gone.
fn map_beside(n: u64, round: u64) -> Outcome {
    good!(PDPT.map(BESIDE_ENTRY, 1, MORSEL, 0, RW, BESIDE));
    TAKEN[n as usize].store(0, SeqCst);
    set_word(BESIDE_BASE + (target(n) - BASE), round);
    check!(word(target(n)) == round);
    good!(BESIDE.delete());
    Ok(())
}

fn with_taking(lab: &mut Lab) -> Outcome {
    let others = race::victims();
    if others == 0 {
        return Ok(());
    }
    let before = good!(make_object(lab));
    let earlier = wrongs();
    for n in 0..others {
        good!(start(lab, n, neighbour, [n.into(), 0, 0]));
    }
    let mut random = Rng::with_seed(lab.seed);
    let mut ways = [0u64; 6];
    // Most ways take no time, and some bugs need many.
    let rounds = 4 * lab.rounds;
    for round in 1..=rounds {
        let (way, n) = (random.usize(..ways.len()), random.u64(..TARGETS));
        ways[way] += 1;
        match way {
            0 => take_target(n, round, others)?,
            1 => {
                (0..8).try_for_each(|_| MORSEL.discard_pages(WHOLE, TABLE_PAGES)).map_err(failed)?
            }
            2 => cut_is_consistent(others)?,
            3 => map_beside(n, round)?,
            // Behind everything that anybody uses.
            4 => good!(MORSEL.set_limit((4 + random.u64(..4)) * TABLE_PAGES * PAGE + round)),
            _ => {
                let n = random.u32(..others);
                good!(threads::kill(n));
                good!(start(lab, n, neighbour, [n.into(), 0, 0]));
            }
        }
        check!(wrongs() == earlier);
    }
    check!(go_round(others));
    for n in 0..others {
        good!(threads::kill(n));
    }
    log!("{rounds} rounds, by way {ways:?}");
    check!(wrongs() == earlier);
    destroy_object(before)
}

fn failed(status: Status) -> testkit::Failure {
    testkit::Failure { line: line!(), what: "pages are taken away", status: Some(status) }
}

// --- Limits, and Mappings that go. ---

/// In three tables.
const PLACES_OF_LIMITS: [u64; 6] = [0, 3, 511, 512, 700, 1400];

static LIMITED: [Target; PLACES_OF_LIMITS.len()] = [
    Target::at(page(PLACES_OF_LIMITS[0])),
    Target::at(page(PLACES_OF_LIMITS[1])),
    Target::at(page(PLACES_OF_LIMITS[2])),
    Target::at(page(PLACES_OF_LIMITS[3])),
    Target::at(page(PLACES_OF_LIMITS[4])),
    Target::at(page(PLACES_OF_LIMITS[5])),
];

/// Takes something away, and tells from which page on.
fn lose(way: u64, first: u64) -> Result<u64, Status> {
    match way {
        0 | 1 => MORSEL.set_limit(first * PAGE).map(|()| first),
        2 => MAPPING.delete().map(|()| 0),
        3 => PDPT_MAPPING.delete().map(|()| 0),
        _ => PDPT.delete().map(|()| 0),
    }
}

fn restore(lab: &Lab) -> Result<(), Status> {
    LIMITED.iter().for_each(Target::allow);
    if PDPT.identify().is_err() {
        crate::probe::make_pdpt(lab)?;
    }
    if PDPT_MAPPING.identify().is_err() {
        VSPACE.map(entry_of(4, VA), 1, PDPT, 0, RWX, PDPT_MAPPING)?;
    }
    if MAPPING.identify().is_err() {
        PDPT.map(ENTRY, 1, MORSEL, 0, RW, MAPPING)?;
    }
    MORSEL.set_limit(1 << 30)
}

fn with_limits(lab: &mut Lab) -> Outcome {
    if race::victims() == 0 {
        return Ok(());
    }
    let before = good!(make_object(lab));
    good!(restore(lab));
    let earlier = race::counts();
    good!(race::start_victims(lab, &LIMITED));
    let mut random = Rng::with_seed(lab.seed);
    let rounds = lab.rounds.div_ceil(3);
    for round in 1..=rounds {
        check!(race::go_round());
        let first = good!(lose(random.u64(..5), random.u64(..1500)));
        for (target, page) in LIMITED.iter().zip(PLACES_OF_LIMITS) {
            if page >= first {
                target.forbid(round);
            }
        }
        check!(race::go_round());
        good!(restore(lab));
    }
    for n in 0..race::victims() {
        good!(threads::kill(n));
    }
    let counts = race::counts();
    let [reads, writes, faults, wrong] = core::array::from_fn(|n| counts[n] - earlier[n]);
    log!("{rounds} rounds: {reads} reads, {writes} writes, {faults} faults");
    check!(wrong == 0);
    check!(reads > rounds && writes > rounds && faults > rounds);
    destroy_object(before)
}
