//! `getrandom`, and the contents of `/dev/random`: a keyed stream, seeded by the CPU.

use crate::errno::{Errno, Result};
use crate::fd::buffers::Cursor;
use crate::fd::transfer;
use crate::process::Process;
use crate::server::header;
use core::arch::asm;
use core::sync::atomic::Ordering;
use linuxabi::iovec::{Buffer, MAX_RW};
use linuxabi::random::Stream;

fn ticks() -> u64 {
    // SAFETY: reads a counter.
    unsafe { core::arch::x86_64::_rdtsc() }
}

fn cpu_has_rdrand() -> bool {
    const ECX_RDRAND: u32 = 1 << 30;
    core::arch::x86_64::__cpuid(1).ecx & ECX_RDRAND != 0
}

/// A word from the CPU's generator; from the clock where the CPU has none.
fn cpu_word(has: bool) -> u64 {
    let (word, ok): (u64, u8);
    if has {
        // SAFETY: the CPU has the instruction; only registers change.
        unsafe { asm!("rdrand {}", "setc {}", out(reg) word, out(reg_byte) ok, options(nostack)) };
        if ok != 0 {
            return word;
        }
    }
    ticks().wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// The process's stream. A forked child is another process: it stirs its copy.
#[derive(Clone)]
pub struct Random {
    stream: Stream,
    pid: u32,
}

impl Random {
    fn new() -> Random {
        let has = cpu_has_rdrand();
        Random { stream: Stream::new([0; 4].map(|_: u64| cpu_word(has) ^ ticks())), pid: 0 }
    }
    fn fill(&mut self, out: &mut [u8]) {
        let pid = header().pid.load(Ordering::Relaxed);
        if pid != self.pid {
            self.pid = pid;
            self.stream.stir(cpu_word(cpu_has_rdrand()) ^ (pid as u64) << 40);
        }
        self.stream.fill(out);
    }
}

/// Fills `out` with random bytes.
pub fn fill(p: &mut Process, out: &mut [u8]) {
    p.sys.random.get_or_insert_with(Random::new).fill(out);
}

pub fn getrandom(p: &mut Process, buf: u64, len: u64, flags: u32) -> Result<u64> {
    const NONBLOCK: u32 = 1;
    const RANDOM: u32 = 2;
    const INSECURE: u32 = 4;
    if flags & !(NONBLOCK | RANDOM | INSECURE) != 0
        || flags & (RANDOM | INSECURE) == RANDOM | INSECURE
    {
        return Err(Errno::EINVAL);
    }
    let buffers = [Buffer { base: buf, len: len.min(MAX_RW) }];
    transfer::read_random(p, &mut Cursor::new(&buffers))
}

/// 16 random bytes for a new program: the CPU's, if it has any.
pub fn seed(p: &mut Process) -> [u8; 16] {
    let mut bytes = [0; 16];
    if cpu_has_rdrand() {
        bytes[..8].copy_from_slice(&cpu_word(true).to_le_bytes());
        bytes[8..].copy_from_slice(&cpu_word(true).to_le_bytes());
    } else {
        fill(p, &mut bytes);
    }
    bytes
}
