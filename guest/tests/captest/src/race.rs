//! Shootdowns, seen by programs: dispatchers on other cores read and write pages without a pause while
//! this one takes them away, in every way and at every level. No access that began after the call had
//! returned may succeed.
//!
//! Each page has a stamp for reads and one for writes: zero while it is allowed, and the number of
//! the round once the call that took it away has returned. A victim reads the stamp, tries the access,
//! and reads the stamp again: if it was set all the time and the access succeeded, that is a violation.
//! (If the page has been mapped again in between, the stamp was cleared before.)
//!
//! With `tlb=unsafe-local` on the kernel's command line this test must fail.

use crate::probe::{make_tables, PD, PDPT, PDPT_MAPPING, PD_MAPPING, PT, PT_MAPPING, VA};
use crate::setup::{slot, Lab};
use crate::threads::{self, Spaces};
use crate::Test;
use core::arch::global_asm;
use core::mem::offset_of;
use core::sync::atomic::{AtomicU64, Ordering::SeqCst};
use libos::abi::dispatcher::{DispatcherFrame, Upcall};
use libos::abi::slots::{DISPATCHER, VSPACE};
use libos::captypes::invocations::Counter;
use libos::vspace::{entry_of, R, RW, RWX};
use libos::{invoke, log, op, Cap, CapAddr, CapType, Status, PAGE};
use testkit::{check, good, Outcome, Rng};

pub const TESTS: &[Test] = &[("race_with_other_cores", race)];

const MIB2: u64 = 2 << 20;
/// Where the victims' frames are mapped, with tables of their own.
const FRAMES_VA: u64 = 5 << 39;
const FRAME_TABLES: CapAddr = slot(226);
const FRAME_TABLES_OFFSET: u64 = (14 << 20) + 8 * PAGE;
/// Small pages, their Frame, Mapping, and a Mapping that is left behind a hole.
const PAGES: u32 = 16;
const FRAME: CapAddr = slot(0);
const MAPPING: CapAddr = slot(1);
const REST: CapAddr = slot(2);
/// A large page at this entry of the [`PD`], its Frame and its Mapping.
const LARGE_ENTRY: u32 = 3;
const LARGE: CapAddr = slot(3);
const LARGE_MAPPING: CapAddr = slot(4);
/// Ticks until a victim that shows no life is given up.
const PATIENCE: u64 = 30_000_000_000;

/// Ticks of a short sleep.
const DOZE: u64 = 100_000;

/// An address that all victims use.
#[repr(C)]
pub struct Target {
    address: AtomicU64,
    /// Rounds in which it was taken away, or zero.
    no_read: AtomicU64,
    no_write: AtomicU64,
    unused: u64,
}

impl Target {
    pub const fn at(address: u64) -> Target {
        let zero = AtomicU64::new(0);
        let no_write = AtomicU64::new(0);
        Target { address: AtomicU64::new(address), no_read: zero, no_write, unused: 0 }
    }

    /// It was taken away in a round.
    pub fn forbid(&self, round: u64) {
        self.no_write.store(round, SeqCst);
        self.no_read.store(round, SeqCst);
    }

    /// It is going to be there again.
    pub fn allow(&self) {
        self.no_read.store(0, SeqCst);
        self.no_write.store(0, SeqCst);
    }
}

const fn page(n: u64) -> u64 {
    VA + n * PAGE
}

/// Pages of [`FRAME`], and those of the large page behind them.
const SMALL: [u32; 4] = [0, 3, 9, 15];
const TARGETS: usize = SMALL.len() + 2;

static ALL: [Target; TARGETS] = [
    Target::at(page(SMALL[0] as u64)),
    Target::at(page(SMALL[1] as u64)),
    Target::at(page(SMALL[2] as u64)),
    Target::at(page(SMALL[3] as u64)),
    Target::at(VA + LARGE_ENTRY as u64 * MIB2),
    Target::at(VA + (LARGE_ENTRY as u64 + 1) * MIB2 - 8),
];

/// What a victim counts.
#[repr(C, align(64))]
struct Victim {
    passes: AtomicU64,
    reads: AtomicU64,
    writes: AtomicU64,
    faults: AtomicU64,
    wrong_reads: AtomicU64,
    wrong_writes: AtomicU64,
}

impl Victim {
    const fn new() -> Victim {
        Victim {
            passes: AtomicU64::new(0),
            reads: AtomicU64::new(0),
            writes: AtomicU64::new(0),
            faults: AtomicU64::new(0),
            wrong_reads: AtomicU64::new(0),
            wrong_writes: AtomicU64::new(0),
        }
    }
}

static VICTIMS: [Victim; threads::THREADS as usize] =
    [const { Victim::new() }; threads::THREADS as usize];

// A victim keeps everything in registers that an upcall leaves alone: `r10` is where it goes on
// after a fault.
global_asm!(
    ".global race_victim", "race_victim:",
    "mov r12, rdi", "mov r13, rsi", "mov r14, rdx",
    "2:", "xor ebx, ebx",
    "3:", "mov rbp, rbx", "shl rbp, 5", "add rbp, r13",
    "mov r15, [rbp + {no_read}]", "mov rax, [rbp]", "lea r10, [rip + 4f]",
    "mov r9, [rax]",
    "inc qword ptr [r12 + {reads}]",
    "test r15, r15", "jz 4f", "cmp r15, [rbp + {no_read}]", "jne 4f",
    "inc qword ptr [r12 + {wrong_reads}]",
    "4:", "mov r15, [rbp + {no_write}]", "mov rax, [rbp]", "lea r10, [rip + 5f]",
    "mov [rax], rax",
    "inc qword ptr [r12 + {writes}]",
    "test r15, r15", "jz 5f", "cmp r15, [rbp + {no_write}]", "jne 5f",
    "inc qword ptr [r12 + {wrong_writes}]",
    "5:", "inc rbx", "cmp rbx, r14", "jb 3b",
    "inc qword ptr [r12 + {passes}]", "jmp 2b",
    ".global race_fault", "race_fault:",
    "inc qword ptr [r12 + {faults}]",
    "mov dword ptr [rdi + {disabled}], 0",
    "jmp r10",
    no_read = const offset_of!(Target, no_read),
    no_write = const offset_of!(Target, no_write),
    passes = const offset_of!(Victim, passes),
    reads = const offset_of!(Victim, reads),
    writes = const offset_of!(Victim, writes),
    faults = const offset_of!(Victim, faults),
    wrong_reads = const offset_of!(Victim, wrong_reads),
    wrong_writes = const offset_of!(Victim, wrong_writes),
    disabled = const offset_of!(DispatcherFrame, disabled),
);

unsafe extern "C" {
    fn race_victim(counts: u64, targets: u64, count: u64) -> !;
    fn race_fault() -> !;
}

extern "C" fn victim(counts: u64, targets: u64, count: u64) -> ! {
    // SAFETY: runs until it is killed; what it writes to is for this test.
    unsafe { race_victim(counts, targets, count) }
}

fn now() -> u64 {
    // SAFETY: reads a counter.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Victims, one on each core but this one as far as they go.
pub fn victims() -> u32 {
    (libos::upcall::own_frame().cores as u32 - 1).min(threads::THREADS)
}

/// Maps the victims' frames, and starts each on its core.
pub fn start_victims(lab: &mut Lab, targets: &'static [Target]) -> Result<(), Status> {
    for (n, ty) in [CapType::Pdpt, CapType::Pd, CapType::Pt].into_iter().enumerate() {
        let offset = FRAME_TABLES_OFFSET + n as u64 * PAGE;
        lab.make(ty, offset, PAGE, FRAME_TABLES.plus(n as u32))?;
    }
    let [pdpt, pd, pt] = [0, 1, 2].map(|n| FRAME_TABLES.plus(n));
    VSPACE.map(entry_of(4, FRAMES_VA), 1, pdpt, 0, RWX, FRAME_TABLES.plus(3))?;
    pdpt.map(0, 1, pd, 0, RWX, FRAME_TABLES.plus(4))?;
    pd.map(0, 1, pt, 0, RWX, FRAME_TABLES.plus(5))?;
    for n in 0..victims() {
        let counts = &raw const VICTIMS[n as usize] as u64;
        threads::make(lab, n)?;
        let args = [counts, targets.as_ptr() as u64, targets.len() as u64];
        threads::set_registers(lab, n, &threads::first_registers(n, victim, args))?;
        let entry = offset_of!(DispatcherFrame, upcall) + 8 * Upcall::PageFault as usize;
        let mut view = lab.window.open(threads::frame(n), 0, PAGE, RW)?;
        view.write(entry, &(race_fault as *const () as u64).to_le_bytes())?;
        drop(view);
        pt.map(n, 1, threads::frame(n), 0, RW, slot(10 + n))?;
        threads::configure(n, Spaces::default(), FRAMES_VA + u64::from(n) * PAGE, 0)?;
        invoke(threads::dispatcher(n), op::SetAffinity { mask: 2 << n })?;
        invoke(threads::dispatcher(n), op::Start {})?;
    }
    Ok(())
}

/// Reads, writes, faults, and accesses that have wrongly succeeded, of all victims.
pub fn counts() -> [u64; 4] {
    let sum = |field: fn(&Victim) -> &AtomicU64| -> u64 {
        VICTIMS.iter().map(|victim| field(victim).load(SeqCst)).sum()
    };
    let wrong = sum(|v| &v.wrong_reads) + sum(|v| &v.wrong_writes);
    [sum(|v| &v.reads), sum(|v| &v.writes), sum(|v| &v.faults), wrong]
}

/// Leaves the processor for a moment.
pub fn doze() -> Result<(), Status> {
    invoke(DISPATCHER, op::SetTimer { deadline: now() + DOZE })?;
    invoke(DISPATCHER, op::Wait {}).map(drop)
}

/// Lets every victim go round twice: what it had begun before is over then.
pub fn go_round() -> bool {
    let end = now() + PATIENCE;
    VICTIMS.iter().take(victims() as usize).all(|victim| {
        let start = victim.passes.load(SeqCst);
        while victim.passes.load(SeqCst) < start + 2 && now() < end {
            // The emulator may have fewer processors than the machine.
            let _ = doze();
        }
        victim.passes.load(SeqCst) >= start + 2
    })
}

fn is_empty(slot: CapAddr) -> bool {
    slot.identify().is_err()
}

/// Makes and maps again what is missing, with all rights.
fn restore(lab: &mut Lab) -> Result<(), Status> {
    for target in &ALL {
        target.allow();
    }
    if is_empty(PDPT_MAPPING) {
        VSPACE.map(entry_of(4, VA), 1, PDPT, 0, RWX, PDPT_MAPPING)?;
    }
    if is_empty(PD) {
        lab.make(CapType::Pd, (14 << 20) + PAGE, PAGE, PD)?;
    }
    if is_empty(PD_MAPPING) {
        PDPT.map(0, 1, PD, 0, RWX, PD_MAPPING)?;
    }
    if is_empty(PT) {
        lab.make(CapType::Pt, (14 << 20) + 2 * PAGE, PAGE, PT)?;
    }
    if is_empty(PT_MAPPING) {
        PD.map(0, 1, PT, 0, RWX, PT_MAPPING)?;
    }
    PT_MAPPING.protect(0, 1, RWX)?;
    if is_empty(FRAME) {
        lab.make(CapType::Frame, 0, u64::from(PAGES) * PAGE, FRAME)?;
    }
    for mapping in [MAPPING, REST, LARGE_MAPPING] {
        if !is_empty(mapping) {
            mapping.delete()?;
        }
    }
    if is_empty(LARGE) {
        lab.make(CapType::Frame, 4 << 20, MIB2, LARGE)?;
    }
    PT.map(0, PAGES, FRAME, 0, RW, MAPPING)?;
    PD.map(LARGE_ENTRY, 1, LARGE, 0, RW, LARGE_MAPPING)
}

/// What was taken away.
struct Loss {
    small: core::ops::Range<u32>,
    large: bool,
    writes_only: bool,
}

/// Takes something away in way `way`, with pages `first..first + count` where a part is meant.
fn take(way: u64, first: u32, count: u32) -> Result<Loss, Status> {
    let lose = |small, large, writes_only| Ok(Loss { small, large, writes_only });
    let (part, all, none) = (first..first + count, 0..PAGES, 0..0);
    match way {
        0 => MAPPING.unmap(first, count, REST).and_then(|()| lose(part, false, false)),
        1 => MAPPING.protect(first, count, R).and_then(|()| lose(part, false, true)),
        2 => MAPPING.delete().and_then(|()| lose(all, false, false)),
        3 => FRAME.revoke().and_then(|()| lose(all, false, false)),
        4 => FRAME.delete().and_then(|()| lose(all, false, false)),
        5 => PT_MAPPING.protect(0, 1, R).and_then(|()| lose(all, false, true)),
        6 => PT_MAPPING.delete().and_then(|()| lose(all, false, false)),
        7 => PT.delete().and_then(|()| lose(all, false, false)),
        8 => PD_MAPPING.delete().and_then(|()| lose(all, true, false)),
        9 => PDPT_MAPPING.delete().and_then(|()| lose(all, true, false)),
        10 => LARGE_MAPPING.protect(0, 1, R).and_then(|()| lose(none, true, true)),
        11 => LARGE_MAPPING.delete().and_then(|()| lose(none, true, false)),
        12 => LARGE.revoke().and_then(|()| lose(none, true, false)),
        13 => LARGE.delete().and_then(|()| lose(none, true, false)),
        _ => PD.delete().and_then(|()| lose(all, true, false)),
    }
}

/// Ways of [`take`].
const WAYS: u64 = 15;

/// Says to the victims what the call has taken, now that it has returned.
fn stamp(loss: &Loss, round: u64) {
    for (n, target) in ALL.iter().enumerate() {
        let lost = SMALL.get(n).map_or(loss.large, |page| loss.small.contains(page));
        if lost {
            target.no_write.store(round, SeqCst);
            if !loss.writes_only {
                target.no_read.store(round, SeqCst);
            }
        }
    }
}

fn race(lab: &mut Lab) -> Outcome {
    if victims() == 0 {
        return Ok(());
    }
    good!(make_tables(lab));
    good!(restore(lab));
    good!(start_victims(lab, &ALL));
    let earlier = counts();
    let mut random = Rng::with_seed(lab.seed);
    let before = good!(log::counter(Counter::Shootdowns));
    for round in 1..=lab.rounds {
        check!(go_round());
        let first = random.u32(..PAGES);
        let count = 1 + random.u32(..PAGES - first);
        let loss = good!(take(random.u64(..WAYS), first, count));
        stamp(&loss, round);
        check!(go_round());
        good!(restore(lab));
    }
    let shootdowns = good!(log::counter(Counter::Shootdowns)) - before;
    for n in 0..victims() {
        good!(threads::kill(n));
    }
    let now = counts();
    let [reads, writes, faults, wrong] = core::array::from_fn(|n| now[n] - earlier[n]);
    let rounds = lab.rounds;
    log!(
        "{rounds} rounds, {shootdowns} shootdowns: {reads} reads, {writes} writes, {faults} faults"
    );
    check!(wrong == 0);
    check!(reads > rounds && writes > rounds && faults > rounds);
    check!(shootdowns > rounds / 2);
    Ok(())
}
