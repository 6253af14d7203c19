//! The library's own heap: `talc`, growing at the end by mapped frames.

use crate::mm::library;
use abi::layout::{LIBRARY_HEAP, PAGE};
use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::ptr::{null_mut, NonNull};
use talc::{OomHandler, Span, Talc};

/// Pages that the heap grows by, at least. A forked child copies all of them.
const STEP: u32 = 4;

struct Grow {
    end: u64,
}

impl OomHandler for Grow {
    fn handle_oom(talc: &mut Talc<Self>, layout: Layout) -> Result<(), ()> {
        // What the allocator itself keeps in the new memory is less than a page.
        let need = layout.size() as u64 + layout.align() as u64 + PAGE;
        let pages = u32::try_from(need.div_ceil(PAGE)).map_err(|_| ())?.max(STEP);
        let start = library::with(|library| library.grow_heap(pages)).map_err(|_| ())?;
        let end = start + pages as u64 * PAGE;
        let span = Span::new(LIBRARY_HEAP as *mut u8, end as *mut u8);
        let old = core::mem::replace(&mut talc.oom_handler.end, end);
        if old == 0 {
            // SAFETY: the pages were just mapped for the heap, the first ones at its start.
            unsafe { talc.claim(span)? };
        } else {
            let before = Span::new(LIBRARY_HEAP as *mut u8, old as *mut u8);
            // SAFETY: the new pages follow those that the heap has already.
            let _ = unsafe { talc.extend(before, span) };
        }
        Ok(())
    }
}

struct Heap(UnsafeCell<Talc<Grow>>);

// SAFETY: one thread, see `process::current`.
unsafe impl Sync for Heap {}

// SAFETY: `Talc` keeps the contract, and nothing that it calls allocates.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: one thread, no recursion; the caller's layout is not empty.
        let block = unsafe { (*self.0.get()).malloc(layout) };
        block.map_or(null_mut(), NonNull::as_ptr)
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if let Some(block) = NonNull::new(block) {
            // SAFETY: the caller got the block from `alloc` with this layout.
            unsafe { (*self.0.get()).free(block, layout) };
        }
    }
}

#[global_allocator]
static HEAP: Heap = Heap(UnsafeCell::new(Talc::new(Grow { end: 0 })));
