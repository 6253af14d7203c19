//! The library's own heap: `talc`, growing at the end by pieces of private memory.

use crate::mm::library;
use abi::layout::PAGE;
use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::ptr::{null_mut, NonNull};
use talc::{OomHandler, Span, Talc};

struct Grow {
    heap: Span,
}

impl OomHandler for Grow {
    fn handle_oom(talc: &mut Talc<Self>, layout: Layout) -> Result<(), ()> {
        let heap = talc.oom_handler.heap;
        if heap.is_empty() {
            let (start, bytes) = library::first_heap();
            let span = Span::from_base_size(start as *mut u8, bytes as usize);
            talc.oom_handler.heap = span;
            // SAFETY: these pages are part of the first piece of private memory, unused so far.
            return unsafe { talc.claim(span) }.map(|_| ());
        }
        // What the allocator itself keeps in the new memory is less than a page.
        let need = layout.size() as u64 + layout.align() as u64 + PAGE;
        let pages = u32::try_from(need.div_ceil(PAGE)).map_err(|_| ())?;
        let added = library::with(|library| library.grow_heap(pages)).map_err(|_| ())?;
        let larger = heap.extend(0, added as usize * PAGE as usize);
        talc.oom_handler.heap = larger;
        // SAFETY: the new pages follow those that the heap has already.
        let _ = unsafe { talc.extend(heap, larger) };
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
static HEAP: Heap = Heap(UnsafeCell::new(Talc::new(Grow { heap: Span::empty() })));
