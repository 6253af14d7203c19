//! Where a program and its parts begin: address space layout randomisation.
//!
//! As on Linux in what moves and by how much at most: programs that may be anywhere and mappings by 2^28 pages, the stack by
//! 2^22 pages and a part of one, the heap by 32 MiB. The library and the vDSO in it stay where they are in all processes.

use crate::process::Io;
use crate::server::header;
use crate::sys::random;
use abi::layout::{PAGE, PROGRAM_END};
use core::sync::atomic::Ordering::Relaxed;

/// How far parts are from where they are without it.
#[derive(Clone, Copy)]
pub struct Places {
    /// Bytes by which the program is higher, if it may be anywhere.
    pub program: u64,
    /// The end of the stack.
    pub top: u64,
    /// Bytes at the end of the stack that nothing uses.
    pub slack: u64,
    /// Bytes by which mappings begin lower.
    pub mappings: u64,
    /// Bytes by which the heap is higher.
    pub heap: u64,
}

impl Places {
    /// Where they always are.
    const FIXED: Places = Places { program: 0, top: PROGRAM_END, slack: 0, mappings: 0, heap: 0 };

    /// Of a new program. `is_fixed`: the process does not want its programs anywhere else (`ADDR_NO_RANDOMIZE`).
    pub fn choose(io: &mut Io, is_fixed: bool) -> Places {
        /// `randomize_va_space`: all but the heap; all.
        const ALL: u32 = 2;
        let how = header().randomizes.load(Relaxed);
        if how == 0 || is_fixed {
            return Places::FIXED;
        }
        let mut bytes = [0; 40];
        random::fill(&mut io.random, &mut bytes);
        let (words, _) = bytes.as_chunks::<8>();
        let [program, stack, slack, mappings, heap] =
            core::array::from_fn(|n| words.get(n).map_or(0, |word| u64::from_le_bytes(*word)));
        let pages = |word: u64, bits: u32| (word & ((1 << bits) - 1)) * PAGE;
        Places {
            program: pages(program, 28),
            top: PROGRAM_END - pages(stack, 22),
            slack: slack & 0xff0,
            mappings: pages(mappings, 28),
            heap: if how >= ALL { pages(heap, 13) } else { 0 },
        }
    }
}
