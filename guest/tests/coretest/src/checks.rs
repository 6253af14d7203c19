//! What a first domain can see of its own core.

use core::sync::atomic::Ordering;
use libos::abi::layout::NATIVE_FRAME;
use libos::abi::slots::{ARCHIVE, CHANNELS, DISPATCHER, ID, IO, IRQ, KERNEL, PERFMON};
use libos::abi::DispatcherFrame;
use libos::captypes::invocations::{Counter, NOTIFY_TIMER};
use libos::runtime::Boot;
use libos::vspace::RW;
use libos::{domain, invoke, op, Cap, CapAddr, CapType, Rights, Status, PAGE};
use testkit::{check, good, Machine, Outcome};

/// The time stamp counter.
pub fn now() -> u64 {
    // SAFETY: reads a counter.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Ticks of a millisecond.
pub fn ms() -> u64 {
    // SAFETY: every program's frame is mapped there, for good.
    let frame = unsafe { &*(NATIVE_FRAME as *const DispatcherFrame) };
    frame.tsc_hz / 1000
}

/// Sleeps so long; answers the notification that ended it.
pub fn sleep(ticks: u64) -> Result<u64, Status> {
    invoke(DISPATCHER, op::SetTimer { deadline: now() + ticks })?;
    Ok(invoke(DISPATCHER, op::Wait {})?.value)
}

/// What the kernel says of cores and nodes agrees with what the tester says it asked for.
pub fn nodes(boot: &Boot) -> Outcome {
    let cores = boot.info.cores as usize;
    if let Some(expected) = super::number(boot, "expect-cores") {
        check!(cores as u64 == expected);
    }
    if let Some(expected) = super::number(boot, "expect-nodes") {
        let nodes = boot.info.nodes.get(..cores).unwrap_or(&[]);
        // Cores and memory are divided evenly, in order.
        let right = |(core, node): (usize, &u8)| core * expected as usize / cores == *node as usize;
        check!(nodes.iter().enumerate().all(right));
        check!(u64::from(testkit::nodes()) == expected);
    }
    Ok(())
}

/// Core 0 has the devices.
pub fn boot_core(machine: &Machine) -> Outcome {
    check!(good!(IO.identify()).ty == CapType::Io);
    check!(good!(IRQ.identify()).ty == CapType::Irq);
    check!(machine.boot.info.first_domains & 1 != 0);
    common(machine).map(|_| ())
}

/// Any other core has none, and one piece of memory.
pub fn first_domain(machine: &Machine) -> Result<u64, testkit::Failure> {
    let info = machine.boot.info;
    check!(info.first_domains >> info.core & 1 != 0);
    check!(IO.identify().is_err() && IRQ.identify().is_err());
    check!(info.ram_caps == 1 && info.device_caps == 0);
    check!(good!(machine.ram.identify()).ty == CapType::Ram);
    common(machine)
}

/// What every first domain can do. Answers the number of a fresh Id.
fn common(machine: &Machine) -> Result<u64, testkit::Failure> {
    check!(good!(KERNEL.identify()).ty == CapType::Kernel);
    check!(good!(PERFMON.identify()).ty == CapType::PerfMon);
    let archive = good!(ARCHIVE.identify());
    check!(archive.ty == CapType::Frame && !archive.rights.has(Rights::WRITE));
    check!(machine.boot.archive().starts_with(b"070701"));
    // Told by the kernel when it began to run.
    let (own, info) = (libos::upcall::own_frame(), machine.boot.info);
    check!(own.core.load(Ordering::Relaxed) == u64::from(info.core));
    let node = info.nodes.get(info.core as usize).copied().unwrap_or(u8::MAX);
    check!(own.node.load(Ordering::Relaxed) == u64::from(node));
    if machine.boot.info.channel_bytes > 0 {
        check!(good!(CHANNELS.identify()).bytes == machine.boot.info.channel_bytes);
    }
    good!(memory());
    good!(vectors());
    for _ in 0..3 {
        check!(good!(sleep(2 * ms())) == NOTIFY_TIMER);
    }
    let counter = op::ReadCounter { counter: Counter::Invocations as u32, core: 0 };
    check!(good!(invoke(KERNEL, counter)).value > 0);
    let slot = good!(domain::with(|domain| domain.slot()));
    let id = good!(ID.new_id(slot));
    good!(invoke(KERNEL, op::CheckInvariants {}));
    Ok(id)
}

/// Memory is empty, can be mapped and written, and is gone after its last capability.
fn memory() -> Result<(), Status> {
    let frame: CapAddr = domain::with(|domain| domain.make(CapType::Frame, 4 * PAGE))?;
    let va = domain::with(|domain| domain.map(frame.into(), 0, 4 * PAGE, RW))?;
    // SAFETY: just mapped, for this slice only.
    let words = unsafe { core::slice::from_raw_parts_mut(va as *mut u64, 4 * 512) };
    if words.iter().any(|&word| word != 0) {
        return Err(Status::WrongState);
    }
    words.iter_mut().zip(0..).for_each(|(word, n)| *word = n);
    let sum: u64 = words.iter().sum();
    if sum != (4 * 512 - 1) * (4 * 512) / 2 {
        return Err(Status::WrongState);
    }
    frame.delete()
}

/// The registers for vectors work, and are this program's own.
fn vectors() -> Result<(), Status> {
    let value = now() as f64;
    for _ in 0..3 {
        let mut kept = value;
        // SAFETY: a value goes through a vector register.
        unsafe { core::arch::asm!("movq xmm7, {0}", "pause", "movq {0}, xmm7", inout(reg) kept) };
        if kept.to_bits() != value.to_bits() {
            return Err(Status::WrongState);
        }
    }
    Ok(())
}
