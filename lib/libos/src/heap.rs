//! The heap of a native program: grows at [`NATIVE_HEAP`] by frames of the domain's RAM.

use crate::domain;
use crate::local::Local;
use crate::vspace::RW;
use abi::layout::{NATIVE_HEAP, PAGE};
use captypes::Status;
use core::alloc::{GlobalAlloc, Layout};
use core::ptr::{null_mut, NonNull};
use talc::{OomHandler, Span, Talc};

/// Bytes that the heap grows by, at least.
const STEP: u64 = 128 << 10;

/// Maps more memory behind what there is.
struct Grow {
    heap: Span,
}

impl OomHandler for Grow {
    fn handle_oom(talc: &mut Talc<Self>, layout: Layout) -> Result<(), ()> {
        // What the allocator itself keeps in the new memory is far less than a page.
        let need = layout.size() as u64 + layout.align() as u64 + PAGE;
        let bytes = need.next_multiple_of(PAGE).max(STEP);
        let end = talc.oom_handler.heap.get_base_acme().map_or(NATIVE_HEAP, |(_, end)| end as u64);
        add_memory(end, bytes).map_err(|_| ())?;
        let old = talc.oom_handler.heap;
        talc.oom_handler.heap = if old.is_empty() {
            let span = Span::from_base_size(end as *mut u8, bytes as usize);
            // SAFETY: `add_memory` has mapped this range, which nobody else uses.
            unsafe { talc.claim(span)? }
        } else {
            let span = Span::new(NATIVE_HEAP as *mut u8, (end + bytes) as *mut u8);
            // SAFETY: the same; the heap was extended without a gap.
            unsafe { talc.extend(old, span) }
        };
        Ok(())
    }
}

fn add_memory(va: u64, bytes: u64) -> Result<(), Status> {
    domain::with(|domain| domain.extend(va, bytes, RW))
}

/// The allocator, for `#[global_allocator]`; see [`crate::program`].
pub struct Heap(Local<Talc<Grow>>);

impl Heap {
    /// An empty heap.
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Self {
        Heap(Local::new(Talc::new(Grow { heap: Span::empty() })))
    }
}

// SAFETY: `Talc` keeps the contract; `Local` lets one caller at a time in, and a caller that comes
// in between is told that there is no memory.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's layout is not empty.
        let block = self.0.try_with(|talc| unsafe { talc.malloc(layout) });
        block.and_then(Result::ok).map_or(null_mut(), NonNull::as_ptr)
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let Some(block) = NonNull::new(block) else { return };
        // SAFETY: the caller got the block from `alloc` with this layout.
        self.0.try_with(|talc| unsafe { talc.free(block, layout) });
    }
}
