//! Invocations of the kernel itself, of I/O ports, interrupt lines and performance counters.

use crate::arch;
use crate::arch::log;
use crate::cap::policy::SCALE;
use crate::cores::CoreId;
use crate::driver::CpuDriver;
use captypes::invocations::{Counter, Value};
use captypes::Status;
use mdb::RawCap;

/// Bytes that five words hold.
const MOST_BYTES: u32 = 40;

/// The first `len` bytes of five words.
fn unpack(
    len: u32,
    words: [u64; 5],
    bytes: &mut [u8; MOST_BYTES as usize],
) -> Result<&[u8], Status> {
    if len > MOST_BYTES {
        return Err(Status::OutOfRange);
    }
    for (chunk, word) in bytes.chunks_exact_mut(8).zip(words) {
        chunk.copy_from_slice(&word.to_le_bytes());
    }
    Ok(&bytes[..len as usize])
}

/// Writes bytes to the kernel's log, as they are, as soon as their line is whole.
pub fn log_bytes(local: &mut CpuDriver, len: u32, words: [u64; 5]) -> Result<(), Status> {
    let mut bytes = [0; MOST_BYTES as usize];
    local.line.add(unpack(len, words, &mut bytes)?, log::bytes);
    Ok(())
}

/// Ends the machine in order.
pub fn shutdown(local: &mut CpuDriver, _status: u32) -> ! {
    local.line.end(log::bytes);
    crate::event_lengths::report();
    arch::shutdown()
}

/// A counter by its number, of core `core - 1`; of the core of `local` for 0.
pub fn read_counter(local: &CpuDriver, number: u32, core: u32) -> Result<Value, Status> {
    let counter = *Counter::ALL.get(number as usize).ok_or(Status::OutOfRange)?;
    if arch::SPARSE {
        local.publish_maps();
    }
    let value = match core.checked_sub(1) {
        None => local.counter(counter),
        Some(core) => {
            let shared = local.core.cores.at(core as usize).ok_or(Status::OutOfRange)?;
            let id = CoreId(core as u8);
            let idles = counter == Counter::IdleTicks && local.core.cores.idle() & id.bit() != 0;
            let measured = local.sched.measured(counter, id);
            let current = if idles { shared.idle_for(arch::tsc()) } else { 0 };
            measured.unwrap_or(shared.counter(counter) + current)
        }
    };
    Ok(Value { value })
}

/// Are ports `[port, port + width)` in the range of `cap`, and is the width one that exists?
fn check_port(cap: &RawCap, port: u16, width: u8) -> Result<(), Status> {
    let (first, count) = (cap.base >> SCALE, cap.word >> SCALE);
    let port = u64::from(port);
    if !matches!(width, 1 | 2 | 4) {
        return Err(Status::Invalid);
    }
    if port < first || port + u64::from(width) > first + count {
        return Err(Status::OutOfRange);
    }
    Ok(())
}

/// Reads a port.
pub fn port_in(cap: &RawCap, port: u16, width: u8) -> Result<Value, Status> {
    check_port(cap, port, width)?;
    // SAFETY: whoever has the capability was given the device; ports of devices that reach memory
    // on their own are as trusted as those who program them.
    let value = unsafe { arch::io_in(port, width) };
    Ok(Value { value: u64::from(value) })
}

/// Writes a port.
pub fn port_out(cap: &RawCap, port: u16, width: u8, value: u32) -> Result<(), Status> {
    check_port(cap, port, width)?;
    // SAFETY: as for `port_in`.
    unsafe { arch::io_out(port, width, value) };
    Ok(())
}

/// Writes bytes to a port, one after the other.
pub fn port_out_bytes(cap: &RawCap, port: u16, len: u32, words: [u64; 5]) -> Result<(), Status> {
    check_port(cap, port, 1)?;
    let mut bytes = [0; MOST_BYTES as usize];
    for &byte in unpack(len, words, &mut bytes)? {
        // SAFETY: as for `port_in`.
        unsafe { arch::io_out(port, 1, u32::from(byte)) };
    }
    Ok(())
}

/// What raises an interrupt line by a message; see [`captypes::op::IrqMessage`].
pub fn irq_message(line: u8) -> Result<Value, Status> {
    let message = arch::irq_message(line).ok_or(Status::Unsupported)?;
    Ok(Value { value: u64::from(message.address) | u64::from(message.value) << 32 })
}

/// Number of the time-stamp counter among the counters, of the first programmable and the first fixed.
const TSC: u32 = 0;
const PROGRAMMABLE: u32 = 1;
const FIXED: u32 = 64;

/// What counters there are; see [`captypes::op::PerfInfo`].
pub fn perf_info() -> u64 {
    let perf = arch::perf_facts();
    u64::from(perf.programmable)
        | u64::from(perf.fixed) << 8
        | u64::from(perf.width) << 16
        | u64::from(perf.version) << 24
        | u64::from(perf.missing) << 32
}

/// The counter behind a number, if the processor has it. `None` is the time-stamp counter.
fn perf_counter(number: u32) -> Result<Option<arch::PerfCounter>, Status> {
    let perf = arch::perf_facts();
    match number {
        TSC => Ok(None),
        PROGRAMMABLE..FIXED if number - PROGRAMMABLE < u32::from(perf.programmable) => {
            Ok(Some(arch::PerfCounter::Programmable(number - PROGRAMMABLE)))
        }
        FIXED.. if number - FIXED < u32::from(perf.fixed) => {
            Ok(Some(arch::PerfCounter::Fixed(number - FIXED)))
        }
        _ => Err(Status::Unsupported),
    }
}

/// Starts or stops a counter; see [`captypes::op::PerfProgram`].
pub fn perf_program(number: u32, event: u64) -> Result<(), Status> {
    const KNOWN: u64 = 0x3_ffff;
    let counter = perf_counter(number)?.ok_or(Status::WrongState)?;
    let fixed = matches!(counter, arch::PerfCounter::Fixed(_));
    if event & !KNOWN != 0 || fixed && event & 0xffff != 0 {
        return Err(Status::Invalid);
    }
    // SAFETY: CPUID says that the counter is there; what is not an event or a mode was refused.
    unsafe { arch::perf_start(counter, event) };
    Ok(())
}

/// A counter's value.
pub fn perf_read(number: u32) -> Result<Value, Status> {
    let value = match perf_counter(number)? {
        None => arch::tsc(),
        // SAFETY: CPUID says that the counter is there.
        Some(counter) => unsafe { arch::perf_read(counter) },
    };
    Ok(Value { value })
}
