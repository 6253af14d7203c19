//! The kernel log and the kernel's counters.

use crate::invoke;
use abi::slots::KERNEL;
use captypes::invocations::Counter;
use captypes::{op, Place, Status};
use core::fmt::{self, Write};

/// Bytes that one invocation writes.
const CHUNK: usize = 40;

/// Collects text and writes it to the kernel log in as few invocations as there are.
pub struct KernelLog {
    kernel: Place,
    buffer: [u8; CHUNK],
    used: usize,
}

impl KernelLog {
    /// Writes through the Kernel capability at `kernel`.
    pub fn new(kernel: impl Into<Place>) -> Self {
        KernelLog { kernel: kernel.into(), buffer: [0; CHUNK], used: 0 }
    }

    /// Writes what was collected. A log that fails has nowhere to say so.
    pub fn flush(&mut self) {
        if self.used == 0 {
            return;
        }
        let word = |i: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&self.buffer[8 * i..8 * i + 8]);
            u64::from_le_bytes(bytes)
        };
        let (w0, w1, w2, w3, w4) = (word(0), word(1), word(2), word(3), word(4));
        // There is nowhere to tell it.
        let _ = invoke(self.kernel, op::Log { len: self.used as u32, w0, w1, w2, w3, w4 });
        self.used = 0;
    }
}

impl Write for KernelLog {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for &byte in text.as_bytes() {
            self.buffer[self.used] = byte;
            self.used += 1;
            if self.used == CHUNK {
                self.flush();
            }
        }
        Ok(())
    }
}

impl Drop for KernelLog {
    fn drop(&mut self) {
        self.flush();
    }
}

/// Writes `arguments` and a line end through the Kernel capability in its usual slot.
pub fn line(arguments: fmt::Arguments) {
    let mut log = KernelLog::new(KERNEL);
    // There is nowhere to tell it.
    let _ = log.write_fmt(arguments);
    // As above.
    let _ = log.write_str("\n");
}

/// Writes one line to the kernel log.
#[macro_export]
macro_rules! log {
    ($($arg:tt)*) => { $crate::log::line(format_args!($($arg)*)) };
}

/// The value of a counter of the kernel.
pub fn counter(counter: Counter) -> Result<u64, Status> {
    invoke(KERNEL, op::ReadCounter { counter: counter as u32, core: 0 }).map(|reply| reply.value)
}

/// A counter of one core, whichever this is.
pub fn counter_of(core: u32, counter: Counter) -> Result<u64, Status> {
    let args = op::ReadCounter { counter: counter as u32, core: core + 1 };
    invoke(KERNEL, args).map(|reply| reply.value)
}

/// Writes every counter of the kernel to its log, as `@counter NAME VALUE`.
pub fn print_counters() {
    for &which in Counter::ALL {
        if let Ok(value) = counter(which) {
            line(format_args!("@counter {} {value}", which.name()));
        }
    }
    for core in 1.. {
        let Ok(ticks) = counter_of(core, Counter::IdleTicks) else { break };
        line(format_args!("@counter idle_ticks_{core} {ticks}"));
    }
}
