//! Words of persistent memory that are mapped in the server's own address space.

use core::arch::asm;
use core::arch::x86_64::{__cpuid, __cpuid_count, _mm_clflush, _mm_sfence};
use core::sync::atomic::{compiler_fence, AtomicU64, Ordering};

/// Bytes of a line of the caches.
const LINE: u64 = 64;

/// How a line of the caches is written back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flush {
    /// Not at all: what is in a cache survives.
    None,
    /// Written back, and kept in the cache.
    Clwb,
    /// Written back and dropped, in any order.
    ClflushOpt,
    /// Written back and dropped.
    Clflush,
}

impl Flush {
    /// The best that this processor has.
    pub fn detect() -> Flush {
        let leaves = __cpuid(0).eax;
        let features = if leaves < 7 { 0 } else { __cpuid_count(7, 0).ebx };
        match features {
            features if features & 1 << 24 != 0 => Flush::Clwb,
            features if features & 1 << 23 != 0 => Flush::ClflushOpt,
            _ => Flush::Clflush,
        }
    }
}

/// Words that survive when the power fails.
pub struct MetaArea {
    start: u64,
    words: u64,
    flush: Flush,
}

impl MetaArea {
    /// So many words from an address on.
    ///
    /// # Safety
    ///
    /// They are mapped there as long as this exists, readable and writable, and nobody else accesses them.
    pub unsafe fn new(start: u64, words: u64, flush: Flush) -> MetaArea {
        MetaArea { start, words, flush }
    }

    /// Has a file system ever been made here?
    pub fn is_formatted(&self) -> bool {
        pmfs::Area::load(self, 0) != 0
    }

    fn word(&self, word: u64) -> &AtomicU64 {
        assert!(word < self.words, "no such word of the metadata");
        // SAFETY: whoever made this says that it is mapped; nobody makes any other reference to it.
        unsafe { &*((self.start + word * 8) as *const AtomicU64) }
    }
}

impl pmfs::Area for MetaArea {
    fn words(&self) -> u64 {
        self.words
    }
    fn load(&self, word: u64) -> u64 {
        self.word(word).load(Ordering::Relaxed)
    }
    fn store(&self, word: u64, value: u64) {
        // Stores of this processor become visible in their order.
        self.word(word).store(value, Ordering::Release);
    }
    fn write_back(&self, line: u64) {
        let at = self.word(line * (LINE / 8)).as_ptr();
        // SAFETY: the line is mapped; its contents stay as they are.
        unsafe {
            match self.flush {
                Flush::None => {}
                Flush::Clwb => asm!("clwb [{}]", in(reg) at, options(nostack, preserves_flags)),
                Flush::ClflushOpt => {
                    asm!("clflushopt [{}]", in(reg) at, options(nostack, preserves_flags));
                }
                Flush::Clflush => _mm_clflush(at as *const u8),
            }
        }
    }
    fn fence(&self) {
        match self.flush {
            Flush::None => compiler_fence(Ordering::SeqCst),
            // SAFETY: every processor of this architecture has it.
            _ => unsafe { _mm_sfence() },
        }
    }
}
