//! `getrandom`, and the contents of `/dev/random`: a keyed stream, seeded by the CPU.

use crate::errno::{Errno, Result};
use crate::fd::buffers::Cursor;
use crate::fd::transfer;
use crate::process::Io;
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

/// The process's stream, seeded when it is first used.
#[derive(Clone)]
pub struct Random {
    stream: Stream,
    is_seeded: bool,
}

impl Random {
    /// One that is not seeded.
    pub const fn new() -> Random {
        Random { stream: Stream::new([0; 4]), is_seeded: false }
    }
    /// Forgets the key: what is drawn afterwards cannot be computed by whoever has a copy of it.
    pub fn forget(&mut self) {
        *self = Random::new();
    }
    fn seed(&mut self) {
        let has = cpu_has_rdrand();
        let mut seed = [0; 4].map(|_: u64| cpu_word(has) ^ ticks());
        // Where the clock is all there is, another process may look at it in the same moment.
        seed[0] ^= u64::from(header().pid.load(Ordering::Relaxed)) << 40;
        *self = Random { stream: Stream::new(seed), is_seeded: true };
    }
    fn fill(&mut self, out: &mut [u8]) {
        if !self.is_seeded {
            self.seed();
        }
        self.stream.fill(out);
    }
}

/// Fills `out` with random bytes.
pub fn fill(random: &mut Random, out: &mut [u8]) {
    random.fill(out);
}

pub fn getrandom(io: &mut Io, buf: u64, len: u64, flags: u32) -> Result<u64> {
    const NONBLOCK: u32 = 1;
    const RANDOM: u32 = 2;
    const INSECURE: u32 = 4;
    if flags & !(NONBLOCK | RANDOM | INSECURE) != 0
        || flags & (RANDOM | INSECURE) == RANDOM | INSECURE
    {
        return Err(Errno::EINVAL);
    }
    let buffers = [Buffer { base: buf, len: len.min(MAX_RW) }];
    transfer::read_random(io, &mut Cursor::new(&buffers))
}

/// 16 random bytes for a new program: the CPU's, if it has any.
pub fn seed(random: &mut Random) -> [u8; 16] {
    let mut bytes = [0; 16];
    if cpu_has_rdrand() {
        bytes[..8].copy_from_slice(&cpu_word(true).to_le_bytes());
        bytes[8..].copy_from_slice(&cpu_word(true).to_le_bytes());
    } else {
        fill(random, &mut bytes);
    }
    bytes
}
