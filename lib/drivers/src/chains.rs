//! A queue of virtio (1.2, 2.7) whose requests are all alike: what the device reads first, data, and what it writes last.
//!
//! Each request has a place with memory of its own, so all that the descriptors say but the length and direction of the data is written
//! once. What the device may write, it is not trusted with: which place is whose, and what is expected, its user remembers.

use crate::dma::{Buffers, Memory};
use crate::Failure;
use core::ptr::NonNull;
use core::sync::atomic::{fence, AtomicU16, AtomicU32, AtomicU64, Ordering};
use libos::PAGE;
use virtio_drivers::transport::Transport;
use virtio_drivers::{BufferDirection, Hal, PhysAddr};

/// Descriptors of a place.
const EACH: usize = 3;
/// Bits of descriptors.
const NEXT: u16 = 1;
const WRITTEN: u16 = 2;
/// The device is not to interrupt; the driver need not notify.
const QUIET: u16 = 1;

/// Where the parts of the queue are in their page.
const AVAILABLE: usize = 2048;
const USED: usize = 3072;

/// A chain: a piece of memory for each of its parts.
pub struct Parts<'a> {
    pub first: &'a mut [u8],
    pub data: &'a mut [u8],
    pub last: &'a mut [u8],
}

/// The data of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Data {
    None,
    /// So many bytes that the device reads.
    Read(usize),
    /// So many bytes that it writes.
    Written(usize),
}

/// The queue: so many places, in a ring of `SIZE` descriptors.
pub struct Chains<const SIZE: usize> {
    page: Buffers,
    queue: u16,
    places: usize,
    /// How many requests were sent, and how many answers were seen.
    sent: u16,
    seen: u16,
}

impl<const SIZE: usize> Chains<SIZE> {
    const FITS: () = assert!(
        SIZE.is_power_of_two()
            && 16 * SIZE <= AVAILABLE
            && 6 + 2 * SIZE <= USED - AVAILABLE
            && 6 + 8 * SIZE <= PAGE as usize - USED
    );

    /// Makes the queue of a device, with the parts of each place.
    pub fn new<'a>(
        transport: &mut impl Transport,
        queue: u16,
        places: usize,
        parts: impl Fn(usize) -> Parts<'a>,
    ) -> Result<Self, Failure> {
        let () = Self::FITS;
        if EACH * places > SIZE
            || transport.queue_used(queue)
            || transport.max_queue_size(queue) < SIZE as u32
        {
            return Err(Failure::Unsuitable);
        }
        let page = Buffers::new(PAGE as usize)?;
        let chains = Chains { page, queue, places, sent: 0, seen: 0 };
        for place in 0..places {
            let Parts { first, data, last } = parts(place);
            for (n, part) in [first, data, last].into_iter().enumerate() {
                let bytes = part.len() as u32;
                chains.describe(EACH * place + n, address_of(part), bytes);
            }
            chains.set_flags(EACH * place + 2, WRITTEN, 0);
        }
        let address = chains.address();
        let (available, used) = (address + AVAILABLE as u64, address + USED as u64);
        transport.queue_set(queue, SIZE as u32, address, available, used);
        Ok(chains)
    }

    /// The device interrupts for answers, or need not.
    pub fn interrupts(&self, are_wanted: bool) {
        let flags = if are_wanted { 0 } else { QUIET };
        self.half(AVAILABLE).store(flags, Ordering::Relaxed);
    }

    /// Gives the device the request of a place. The device has the memory of the place from now on, until its answer was seen. Does it want to be
    /// notified?
    pub fn send(&mut self, place: u16, data: Data) -> bool {
        let first = EACH * usize::from(place);
        debug_assert!(usize::from(place) < self.places);
        let (bytes, flags, next) = match data {
            Data::None => (0, 0, first + 2),
            Data::Read(bytes) => (bytes, NEXT, first + 1),
            Data::Written(bytes) => (bytes, NEXT | WRITTEN, first + 1),
        };
        self.set_flags(first, NEXT, next as u16);
        self.word(16 * (first + 1) + 8).store(bytes as u32, Ordering::Relaxed);
        self.set_flags(first + 1, flags, first as u16 + 2);
        let slot = usize::from(self.sent) % SIZE;
        self.half(AVAILABLE + 4 + 2 * slot).store(first as u16, Ordering::Relaxed);
        self.sent = self.sent.wrapping_add(1);
        // What the descriptors say, before the device knows of them.
        self.half(AVAILABLE + 2).store(self.sent, Ordering::Release);
        // And that it may, before it is looked whether it has stopped looking by itself.
        fence(Ordering::SeqCst);
        self.wants_notice()
    }

    /// Does the device want to be told of requests?
    pub fn wants_notice(&self) -> bool {
        self.half(USED).load(Ordering::Relaxed) & QUIET == 0
    }

    /// The place of the next answer, as the device says: it may be any number, of a place that has no request, too.
    pub fn answer(&mut self) -> Option<u16> {
        if self.half(USED + 2).load(Ordering::Acquire) == self.seen {
            return None;
        }
        let slot = usize::from(self.seen) % SIZE;
        let first = self.word(USED + 4 + 8 * slot).load(Ordering::Relaxed);
        self.seen = self.seen.wrapping_add(1);
        Some(u16::try_from(first / EACH as u32).unwrap_or(u16::MAX))
    }

    /// The number of the queue.
    pub fn queue(&self) -> u16 {
        self.queue
    }

    fn describe(&self, descriptor: usize, address: PhysAddr, bytes: u32) {
        // SAFETY: inside of the page, as `FITS` says, and aligned.
        let word = unsafe { AtomicU64::from_ptr(self.at(16 * descriptor).cast()) };
        word.store(address, Ordering::Relaxed);
        self.word(16 * descriptor + 8).store(bytes, Ordering::Relaxed);
    }

    fn set_flags(&self, descriptor: usize, flags: u16, next: u16) {
        self.word(16 * descriptor + 12)
            .store(u32::from(flags) | u32::from(next) << 16, Ordering::Relaxed);
    }

    fn at(&self, offset: usize) -> *mut u8 {
        debug_assert!(offset < PAGE as usize);
        // SAFETY: only its address counts: what is there is used as atomic words only.
        let page = unsafe { self.page.get(0, PAGE as usize) };
        page.as_mut_ptr().wrapping_add(offset)
    }

    #[inline]
    fn half(&self, offset: usize) -> &AtomicU16 {
        // SAFETY: inside of the page, which is mapped for good, as `FITS` says, and aligned.
        unsafe { AtomicU16::from_ptr(self.at(offset).cast()) }
    }

    #[inline]
    fn word(&self, offset: usize) -> &AtomicU32 {
        // SAFETY: as above.
        unsafe { AtomicU32::from_ptr(self.at(offset).cast()) }
    }

    fn address(&self) -> PhysAddr {
        // SAFETY: only its address counts.
        address_of(unsafe { self.page.get(0, PAGE as usize) })
    }
}

/// The physical address of memory that is shared with devices.
fn address_of(bytes: &mut [u8]) -> PhysAddr {
    // SAFETY: it is shared for good, and nobody is told of it here.
    unsafe { Memory::share(NonNull::from(bytes), BufferDirection::Both) }
}
