//! Which core the program runs on, what the others do meanwhile, and what measurements count.

use crate::{number, Lab};
use core::arch::global_asm;
use core::mem::offset_of;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use libos::abi::dispatcher::{DispatcherFrame, Regs};
use libos::abi::layout::NATIVE_FRAME;
use libos::abi::slots;
use libos::captypes::invocations::Counter;
use libos::runtime::Boot;
use libos::vspace::RW;
use libos::{domain, invoke, op, CapType, Place, Status, PAGE};

const MOST_CORES: usize = 64;
/// Instructions of a round of [`capbench_spin`].
const ROUND: u64 = 3;

/// The rounds of one core that is kept busy.
#[repr(align(64))]
struct Rounds(AtomicU64);

static ROUNDS: [Rounds; MOST_CORES] = [const { Rounds(AtomicU64::new(0)) }; MOST_CORES];
/// Are interrupts counted instead of instructions?
static INTERRUPTS: AtomicBool = AtomicBool::new(false);
/// How many cores there are.
static CORES: AtomicU32 = AtomicU32::new(1);

extern "C" {
    fn capbench_spin();
}

// The pause ends the core's turn where the emulator lets cores take turns.
global_asm!("capbench_spin:", "inc qword ptr [rdi]", "pause", "jmp capbench_spin");

/// The cost of `work` alone: the instructions of all cores but those that are only kept busy, or the
/// interrupts that cores have sent.
pub fn time(work: impl FnOnce() -> Result<(), Status>) -> Result<u64, Status> {
    if INTERRUPTS.load(Ordering::Relaxed) {
        let before = interrupts()?;
        work()?;
        return Ok(interrupts()? - before);
    }
    let (busy, before) = (rounds(), ticks());
    work()?;
    let after = ticks();
    Ok(after - before - ROUND * (rounds() - busy))
}

/// The time-stamp counter.
fn ticks() -> u64 {
    // SAFETY: reads a counter.
    unsafe { core::arch::x86_64::_rdtsc() }
}

fn interrupts() -> Result<u64, Status> {
    let cores = 0..CORES.load(Ordering::Relaxed);
    cores.map(|core| libos::log::counter_of(core, Counter::Interrupts)).sum()
}

fn rounds() -> u64 {
    ROUNDS.iter().map(|core| core.0.load(Ordering::Relaxed)).sum()
}

/// What `work` measures, in interrupts; `None` with one core.
pub fn counting_interrupts(
    mut work: impl FnMut() -> Result<u64, Status>,
) -> Option<Result<u64, Status>> {
    if CORES.load(Ordering::Relaxed) == 1 {
        return None;
    }
    INTERRUPTS.store(true, Ordering::Relaxed);
    // Reading the counters may take journeys as well.
    let reading = time(|| Ok(()));
    let sent = work();
    INTERRUPTS.store(false, Ordering::Relaxed);
    Some(sent.and_then(|sent| Ok(sent - reading?)))
}

/// Does what the command line says.
pub fn prepare(boot: &Boot, lab: &mut Lab) -> Result<(), Status> {
    CORES.store(boot.info.cores, Ordering::Relaxed);
    testkit::settle(boot)?;
    if let Some(core) = number("on") {
        invoke(slots::DISPATCHER, op::SetAffinity { mask: 1 << core })?;
    }
    let busy = number("busy").unwrap_or(0);
    (0..MOST_CORES).filter(|core| busy >> core & 1 != 0).try_for_each(|core| spin(lab, core))
}

/// Keeps a core busy with a dispatcher of this domain.
fn spin(lab: &mut Lab, core: usize) -> Result<(), Status> {
    let (dispatcher, frame) = domain::with(|domain| {
        Ok((domain.make(CapType::Dispatcher, PAGE)?, domain.make(CapType::Frame, PAGE)?))
    })?;
    let rounds = &ROUNDS[core].0;
    let save = offset_of!(DispatcherFrame, save);
    let fields = [
        (offset_of!(Regs, rdi), rounds.as_ptr() as u64),
        (offset_of!(Regs, rip), capbench_spin as *const () as u64),
        (offset_of!(Regs, rflags), 0x202),
    ];
    let mut view = lab.window.open(frame, 0, PAGE, RW)?;
    for (at, value) in fields {
        view.write(save + at, &value.to_le_bytes())?;
    }
    drop(view);
    let configuration = op::Configure {
        cspace: slots::ROOT.into(),
        vspace: libos::vspace::root().into(),
        frame: frame.into(),
        frame_va: NATIVE_FRAME,
        fault_ep: Place::NULL,
        options: 0,
    };
    invoke(dispatcher, configuration)?;
    invoke(dispatcher, op::SetAffinity { mask: 1 << core })?;
    invoke(dispatcher, op::Start {})?;
    while rounds.load(Ordering::Relaxed) == 0 {
        core::hint::spin_loop();
    }
    Ok(())
}
