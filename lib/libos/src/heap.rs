//! The heap of a native program: pieces of the domain's RAM at addresses from [`NATIVE_HEAP`] on.
//!
//! The heap grows by a piece when the allocator finds no room, and [`release`] gives pieces back to the
//! memory server in which nothing is allocated. A piece starts with a header, which says what it is
//! made of; the pieces form a list in the order of their addresses.
//!
//! Rust ends a program where an allocation fails that was not asked for by a `try_` function. A server
//! that others drive must not end so. It sets blocks of memory aside ([`set_aside`]): where the heap
//! cannot grow, small allocations take those. While [`is_short`] it refuses what would make it keep
//! more, and everything larger than [`SMALL`] it asks for by `try_` functions. (Decision 39.)

use crate::domain::{self, Backing};
use crate::local::Local;
use crate::vspace::RW;
use abi::layout::{NATIVE_HEAP, NATIVE_STACKS, PAGE};
use captypes::Status;
use core::alloc::{GlobalAlloc, Layout};
use core::ptr::{null_mut, NonNull};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use talc::{OomHandler, Span, Talc};

/// Bytes that the heap grows by, at least, if there are so many. Pieces start at multiples of it.
const STEP: u64 = 128 << 10;

/// The largest allocation, in bytes, for which memory is set aside.
pub const SMALL: usize = 48 << 10;

/// The start of a piece.
struct Piece {
    /// The one behind it.
    next: *mut Piece,
    backing: Backing,
    /// What the allocator has of it.
    span: Span,
}

/// What the allocator itself and a [`Piece`] take of a new piece, the allocator's table of lists included
/// that it puts into its first one.
const OVERHEAD: u64 = PAGE;

/// Memory set aside: a link to the next block, and room.
struct Block {
    next: *mut Block,
    _room: [u8; BLOCK - size_of::<*mut Block>()],
}

/// Bytes of a block: two fit into a piece of the usual size.
const BLOCK: usize = 62 << 10;
const _: () = assert!(SMALL < BLOCK && 2 * BLOCK as u64 + OVERHEAD / 2 <= STEP);

/// What the allocator asks when it has no room.
struct Grow {
    first: *mut Piece,
    /// Memory set aside, how many blocks that is, and how many it should be.
    blocks: *mut Block,
    there: u32,
    wanted: u32,
    /// The memory that is being asked for is to be set aside.
    filling: bool,
}

// SAFETY: pieces and blocks belong to the heap, which one caller at a time uses.
unsafe impl Send for Grow {}

/// Bytes of all pieces, changed by who uses the heap only.
static BYTES: AtomicU64 = AtomicU64::new(0);
/// Something of what was set aside has been taken.
static SHORT: AtomicBool = AtomicBool::new(false);

impl Grow {
    const fn new() -> Grow {
        let (first, blocks) = (null_mut(), null_mut());
        Grow { first, blocks, there: 0, wanted: 0, filling: false }
    }

    /// The first gap between pieces for `bytes`: its address, and the piece before it.
    fn gap(&self, bytes: u64) -> Option<(u64, *mut Piece)> {
        let (mut at, mut before, mut piece) = (NATIVE_HEAP, null_mut(), self.first);
        // SAFETY: every piece in the list is mapped, and its start is nobody else's.
        while let Some(this) = unsafe { piece.as_ref() } {
            if piece as u64 - at >= bytes {
                break;
            }
            at = (piece as u64 + this.backing.bytes()).next_multiple_of(STEP);
            (before, piece) = (piece, this.next);
        }
        (at + bytes <= NATIVE_STACKS).then_some((at, before))
    }

    /// Maps a new piece of `bytes`.
    fn add(&mut self, bytes: u64) -> Result<*mut Piece, Status> {
        let (va, before) = self.gap(bytes).ok_or(Status::NoMemory)?;
        let backing = domain::with(|domain| domain.back(va, bytes, RW))?;
        BYTES.store(self::bytes() + bytes, Ordering::Relaxed);
        let piece = va as *mut Piece;
        let start = (va + size_of::<Piece>() as u64) as *mut u8;
        let span = Span::new(start, (va + bytes) as *mut u8);
        // SAFETY: as in `gap`; where there is no piece before, the list starts here.
        let link = unsafe { before.as_mut() }.map_or(&mut self.first, |before| &mut before.next);
        // SAFETY: just mapped, for nobody else, and aligned to a page.
        unsafe { piece.write(Piece { next: *link, backing, span }) };
        *link = piece;
        Ok(piece)
    }

    /// A piece for an allocation of `least` bytes: of the usual size, or smaller if there is no more.
    fn add_for(&mut self, least: u64) -> Result<*mut Piece, Status> {
        let least = least.checked_add(OVERHEAD + PAGE).ok_or(Status::NoMemory)? & !(PAGE - 1);
        let mut bytes = least.max(STEP);
        loop {
            match self.add(bytes) {
                Err(Status::NoMemory) if bytes > least => {
                    bytes = (bytes / 2).next_multiple_of(PAGE).max(least)
                }
                result => return result,
            }
        }
    }

    /// A block that was set aside, for an allocation that nobody expects to fail.
    fn spend(&mut self, wanted: Layout) -> Option<NonNull<u8>> {
        if self.filling || wanted.size() > SMALL {
            return None;
        }
        let block = NonNull::new(self.blocks)?;
        // SAFETY: blocks in the list are allocated and nobody uses them.
        self.blocks = unsafe { block.as_ref().next };
        self.there -= 1;
        SHORT.store(true, Ordering::Relaxed);
        Some(block.cast())
    }
}

impl OomHandler for Grow {
    fn handle_oom(talc: &mut Talc<Self>, layout: Layout) -> Result<(), ()> {
        let wanted = layout.size().saturating_add(layout.align());
        if let Ok(piece) = talc.oom_handler.add_for(wanted as u64) {
            return claim(talc, piece);
        }
        let block = talc.oom_handler.spend(layout).ok_or(())?;
        // SAFETY: the allocator gave the block, with this layout.
        unsafe { talc.free(block, Layout::new::<Block>()) };
        Ok(())
    }
}

/// Gives the allocator a new piece.
fn claim(talc: &mut Talc<Grow>, piece: *mut Piece) -> Result<(), ()> {
    // SAFETY: the piece is new, and behind its start it is nobody's. The start stays where it is.
    unsafe { (*piece).span = talc.claim((*piece).span)? };
    Ok(())
}

/// Sets aside what is missing there. `true` if nothing is.
fn fill(talc: &mut Talc<Grow>) -> bool {
    talc.oom_handler.filling = true;
    while talc.oom_handler.there < talc.oom_handler.wanted {
        // SAFETY: the layout is not empty.
        let Ok(block) = (unsafe { talc.malloc(Layout::new::<Block>()) }) else { break };
        let block = block.cast::<Block>();
        // SAFETY: just allocated, with the layout of a block. Only the link is written.
        unsafe { (*block.as_ptr()).next = talc.oom_handler.blocks };
        talc.oom_handler.blocks = block.as_ptr();
        talc.oom_handler.there += 1;
    }
    talc.oom_handler.filling = false;
    talc.oom_handler.there >= talc.oom_handler.wanted
}

/// The pieces with nothing in them, from the one behind `before` on (null: from the first).
fn next_empty(talc: &Talc<Grow>, before: *mut Piece) -> Option<(*mut Piece, *mut Piece)> {
    let mut before = before;
    loop {
        // SAFETY: as in `Grow::gap`.
        let piece = unsafe { before.as_ref() }.map_or(talc.oom_handler.first, |piece| piece.next);
        // SAFETY: the same.
        let this = unsafe { piece.as_ref() }?;
        // SAFETY: the span is what the allocator answered when it got the piece.
        if unsafe { talc.get_allocated_span(this.span) }.is_empty() {
            return Some((before, piece));
        }
        before = piece;
    }
}

/// Takes the piece behind `before`, which is empty, out of the heap and gives its memory back.
fn give_back(talc: &mut Talc<Grow>, before: *mut Piece, piece: *mut Piece) {
    // SAFETY: nothing is allocated in the piece, which is in the list. What its start says is taken out.
    let Piece { next, backing, span } = unsafe { piece.read() };
    // SAFETY: the allocator forgets what it got.
    unsafe { talc.truncate(span, Span::empty()) };
    // SAFETY: as in `Grow::gap`.
    match unsafe { before.as_mut() } {
        Some(before) => before.next = next,
        None => talc.oom_handler.first = next,
    }
    BYTES.store(bytes() - backing.bytes(), Ordering::Relaxed);
    // Only what is mapped is taken out; nothing of it can fail.
    let _ = domain::with(|domain| {
        domain.take_back(backing);
        Ok(())
    });
}

static HEAP: Local<Talc<Grow>> = Local::new(Talc::new(Grow::new()));

/// Bytes of memory that the heap has.
#[inline]
pub fn bytes() -> u64 {
    BYTES.load(Ordering::Relaxed)
}

/// Makes the heap at least so many bytes large. `NoMemory`: there are not so many.
pub fn grow_to(bytes: u64) -> Result<(), Status> {
    let grow = |talc: &mut Talc<Grow>| {
        while self::bytes() < bytes {
            let piece = talc.oom_handler.add(STEP)?;
            claim(talc, piece).map_err(|()| Status::NoMemory)?;
        }
        Ok(())
    };
    HEAP.try_with(grow).unwrap_or(Err(Status::WrongState))
}

/// Gives up to `most` pieces back that nothing is in, as long as the heap keeps `keep` bytes. Answers
/// whether more could be given back.
pub fn release(keep: u64, most: usize) -> bool {
    let give = |talc: &mut Talc<Grow>| {
        let (mut before, mut given) = (null_mut(), 0);
        while let Some((last, piece)) = next_empty(talc, before) {
            // SAFETY: the piece is in the list.
            let left = bytes() - unsafe { (*piece).backing.bytes() };
            before = last;
            if left < keep {
                before = piece;
                continue;
            }
            if given == most {
                return true;
            }
            give_back(talc, last, piece);
            given += 1;
        }
        false
    };
    HEAP.try_with(give).unwrap_or(false)
}

/// Sets at least `bytes` aside for when the heap cannot grow. `NoMemory`: there are not so many.
pub fn set_aside(bytes: usize) -> Result<(), Status> {
    let set = |talc: &mut Talc<Grow>| {
        talc.oom_handler.wanted = bytes.div_ceil(BLOCK) as u32;
        fill(talc)
    };
    match HEAP.try_with(set) {
        Some(true) => Ok(()),
        Some(false) => Err(Status::NoMemory),
        None => Err(Status::WrongState),
    }
}

/// Returns `true` if something of what was set aside has been taken and cannot be had again.
pub fn is_short() -> bool {
    if !SHORT.load(Ordering::Relaxed) {
        return false;
    }
    let whole = HEAP.try_with(fill).unwrap_or(false);
    SHORT.store(!whole, Ordering::Relaxed);
    !whole
}

/// The allocator, for `#[global_allocator]`; see [`crate::program`].
#[derive(Default)]
pub struct Heap;

// SAFETY: `Talc` keeps the contract; `Local` lets one caller at a time in, and a caller that comes
// in between is told that there is no memory.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's layout is not empty.
        let block = HEAP.try_with(|talc| unsafe { talc.malloc(layout) });
        block.and_then(Result::ok).map_or(null_mut(), NonNull::as_ptr)
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let Some(block) = NonNull::new(block) else { return };
        // SAFETY: the caller got the block from `alloc` with this layout.
        HEAP.try_with(|talc| unsafe { talc.free(block, layout) });
    }
}
