//! Memory that is shared with devices: Frames, mapped here for good, whose physical addresses are known.

use core::ptr::NonNull;
use libos::frame::{Frame, FrameRequest};
use libos::local::Local;
use libos::vspace::RW;
use libos::{domain, Cap, CapAddr, Status, PAGE};
use virtio_drivers::{BufferDirection, Hal, PhysAddr};

/// Most pieces of a driver.
const MOST: usize = 32;

struct Piece {
    frame: Frame,
    address: PhysAddr,
    va: usize,
}

impl Piece {
    fn new(bytes: u64) -> Result<Piece, Status> {
        let frame = Frame::with(FrameRequest::bytes(bytes))?;
        let address = frame.cap().identify()?.base;
        let va = domain::with(|domain| domain.map(frame.cap().into(), 0, bytes, RW))? as usize;
        Ok(Piece { frame, address, va })
    }

    /// The physical address of bytes at `va`, if all of them are in the piece.
    fn address_of(&self, va: usize, bytes: usize) -> Option<PhysAddr> {
        let offset = va.checked_sub(self.va)?;
        let end = offset.checked_add(bytes)?;
        (end as u64 <= self.frame.bytes()).then_some(self.address + offset as u64)
    }
}

static PIECES: Local<[Option<Piece>; MOST]> = Local::new([const { None }; MOST]);

/// A piece of memory for buffers, for good.
pub struct Buffers {
    frame: CapAddr,
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the memory is this value's, whoever has it.
unsafe impl Send for Buffers {}

impl Buffers {
    /// `bytes` (rounded up to pages) of zeros, with neighbouring physical addresses.
    pub fn new(bytes: usize) -> Result<Buffers, Status> {
        let bytes = bytes.next_multiple_of(PAGE as usize);
        let Kept { frame, start, .. } = keep(bytes as u64)?;
        Ok(Buffers { frame, start, bytes })
    }

    /// The Frame that they are.
    pub fn frame(&self) -> CapAddr {
        self.frame
    }

    /// The buffer number `index` of those of `size` bytes, one behind the other.
    ///
    /// # Panics
    /// If there is none.
    ///
    /// # Safety
    /// No device has the buffer now, and there is no other reference to it.
    #[allow(clippy::mut_from_ref)]
    pub unsafe fn get(&self, index: usize, size: usize) -> &mut [u8] {
        assert!((index + 1) * size <= self.bytes, "there is no buffer {index}");
        // SAFETY: inside, mapped for good, initialised; the rest is the caller's promise.
        unsafe { core::slice::from_raw_parts_mut(self.start.as_ptr().add(index * size), size) }
    }
}

/// A piece that was noted.
struct Kept {
    frame: CapAddr,
    address: PhysAddr,
    start: NonNull<u8>,
}

fn keep(bytes: u64) -> Result<Kept, Status> {
    let piece = Piece::new(bytes)?;
    let start = NonNull::new(piece.va as *mut u8).ok_or(Status::NoMemory)?;
    let (frame, address) = (piece.frame.cap(), piece.address);
    let kept = PIECES.try_with(|pieces| match pieces.iter_mut().find(|place| place.is_none()) {
        Some(place) => {
            *place = Some(piece);
            true
        }
        None => false,
    });
    match kept {
        Some(true) => Ok(Kept { frame, address, start }),
        _ => Err(Status::NoMemory),
    }
}

/// The memory of this domain, for queues.
pub struct Memory;

// SAFETY: what `dma_alloc` returns is mapped at addresses that nothing else gets, zeroed by the kernel when the
// Frame was made, and aligned to pages; `dma_dealloc` unmaps it.
unsafe impl Hal for Memory {
    fn dma_alloc(pages: usize, _: BufferDirection) -> (PhysAddr, NonNull<u8>) {
        // The address zero says that there is none.
        keep(pages as u64 * PAGE)
            .map_or((0, NonNull::dangling()), |kept| (kept.address, kept.start))
    }

    unsafe fn dma_dealloc(address: PhysAddr, _: NonNull<u8>, _: usize) -> i32 {
        let gone = PIECES.try_with(|pieces| {
            let is_this = |place: &&mut Option<Piece>| {
                place.as_ref().is_some_and(|piece| piece.address == address)
            };
            pieces.iter_mut().find(is_this).and_then(Option::take)
        });
        // Dropping the Frame unmaps it.
        i32::from(gone.flatten().is_none())
    }

    unsafe fn mmio_phys_to_virt(_: PhysAddr, _: usize) -> NonNull<u8> {
        // Only the library's own transport by PCI asks, which needs the configuration space.
        unreachable!("registers are mapped from a DevFrame")
    }

    unsafe fn share(buffer: NonNull<[u8]>, _: BufferDirection) -> PhysAddr {
        let (va, bytes) = (buffer.as_ptr() as *mut u8 as usize, buffer.len());
        let found = PIECES.try_with(|pieces| {
            pieces.iter().flatten().find_map(|piece| piece.address_of(va, bytes))
        });
        // A driver that shows a device other memory has a bug, and must not go on.
        found.flatten().expect("the buffer is shared memory")
    }

    unsafe fn unshare(_: PhysAddr, _: NonNull<[u8]>, _: BufferDirection) {}
}
