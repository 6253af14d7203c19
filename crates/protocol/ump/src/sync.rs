//! The atomics that everything here is made of. The model checker compiles the same files with its own.

pub use core::hint::spin_loop;
pub use core::sync::atomic::{fence, AtomicU64, Ordering};

/// A word alone in its cache line. The rest is atomic too, whatever somebody writes there.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Lone {
    word: AtomicU64,
    rest: [AtomicU64; 7],
}

impl Lone {
    pub const fn new(value: u64) -> Lone {
        Lone { word: AtomicU64::new(value), rest: [const { AtomicU64::new(0) }; 7] }
    }
}

impl core::ops::Deref for Lone {
    type Target = AtomicU64;
    fn deref(&self) -> &AtomicU64 {
        &self.word
    }
}
