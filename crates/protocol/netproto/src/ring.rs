//! A ring of messages in memory that two domains map: one writes, the other reads.
//!
//! Two counters of bytes ever written and ever read, each changed by one side only, and the bytes. A message is its length and its
//! bytes. Who reads copies a message out before it looks at it, and believes no counter.

use alloc::vec::Vec;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, Ordering};

/// Bytes before the messages: a counter in a cache line of its own, twice.
const HEAD: usize = 128;
const LENGTH: usize = 4;

/// The other side has written what cannot be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Broken;

/// One side of a ring. Its own counter it knows itself.
pub struct Ring {
    base: NonNull<u8>,
    /// Bytes for messages: a power of two.
    bytes: u32,
    own: u32,
}

impl Ring {
    /// In `bytes` of memory from `base` on, which are zero at first.
    ///
    /// # Panics
    /// If the size is not a power of two, of a page at least.
    ///
    /// # Safety
    /// The memory stays mapped, readable and writable, as long as the ring lives, is aligned to 64 bytes, and is accessed by no more
    /// than two rings, of which one only [puts](Ring::put) and one only [takes](Ring::take).
    pub unsafe fn new(base: NonNull<u8>, bytes: usize) -> Ring {
        assert!(bytes.is_power_of_two() && (4096..=1 << 30).contains(&bytes));
        Ring { base, bytes: (bytes / 2) as u32, own: 0 }
    }

    /// Both counters are zero again: when the other side begins anew.
    pub fn clear(&mut self) {
        self.own = 0;
        (0..2).for_each(|which| self.counter(which).store(0, Ordering::SeqCst));
    }

    fn counter(&self, which: usize) -> &AtomicU32 {
        // SAFETY: inside of the memory, aligned; only ever accessed as an atomic.
        unsafe { self.base.add(which * HEAD / 2).cast::<AtomicU32>().as_ref() }
    }

    fn copy(&self, at: u32, mut each: impl FnMut(*mut u8, usize, usize), len: usize) {
        let offset = (at & (self.bytes - 1)) as usize;
        let here = len.min(self.bytes as usize - offset);
        // SAFETY: both parts are inside of the memory.
        unsafe {
            let start = self.base.as_ptr().add(HEAD);
            each(start.add(offset), 0, here);
            each(start, here, len - here);
        }
    }

    fn write(&mut self, at: u32, from: &[u8]) {
        // SAFETY: `copy` names places inside of both; the reader copies from there without making references.
        let put = |to: *mut u8, done: usize, len: usize| unsafe {
            to.copy_from_nonoverlapping(from.as_ptr().add(done), len);
        };
        self.copy(at, put, from.len());
    }

    fn read(&self, at: u32, to: &mut [u8]) {
        // SAFETY: all of `to` is there to be written.
        unsafe { self.read_to(at, to.as_mut_ptr(), to.len()) }
    }

    /// # Safety
    /// There are `len` bytes from `to` on, which nobody else uses meanwhile.
    unsafe fn read_to(&self, at: u32, to: *mut u8, len: usize) {
        // SAFETY: `copy` names places inside of both.
        let get = |from: *mut u8, done: usize, len: usize| unsafe {
            to.add(done).copy_from_nonoverlapping(from, len);
        };
        self.copy(at, get, len);
    }

    /// Would a message of so many bytes leave half of the ring to others?
    pub fn has_calm(&self, len: usize) -> bool {
        let filled = self.own.wrapping_sub(self.counter(1).load(Ordering::Acquire));
        filled as usize + len + LENGTH <= self.bytes as usize / 2
    }

    /// Puts a message in. `false`: there is no room now.
    pub fn put(&mut self, message: &[u8]) -> Result<bool, Broken> {
        self.put_parts([message, &[]])
    }

    /// The same, of a message in two parts.
    pub fn put_parts(&mut self, parts: [&[u8]; 2]) -> Result<bool, Broken> {
        let len = parts[0].len() + parts[1].len();
        let filled = self.own.wrapping_sub(self.counter(1).load(Ordering::Acquire));
        let room = self.bytes.checked_sub(filled).ok_or(Broken)?;
        if len + LENGTH > room as usize {
            return Ok(false);
        }
        let mut at = self.own;
        for part in [&(len as u32).to_le_bytes()[..], parts[0], parts[1]] {
            self.write(at, part);
            at = at.wrapping_add(part.len() as u32);
        }
        self.own = at;
        self.counter(0).store(self.own, Ordering::Release);
        Ok(true)
    }

    /// Takes the next message out, into `to`. `false`: there is none.
    pub fn take(&mut self, to: &mut Vec<u8>) -> Result<bool, Broken> {
        let filled = self.counter(0).load(Ordering::Acquire).wrapping_sub(self.own);
        if filled == 0 {
            return Ok(false);
        }
        if filled > self.bytes || filled < LENGTH as u32 {
            return Err(Broken);
        }
        let mut len = [0; LENGTH];
        self.read(self.own, &mut len);
        let len = u32::from_le_bytes(len);
        if len > filled - LENGTH as u32 || len as usize > crate::LONGEST {
            return Err(Broken);
        }
        to.clear();
        to.reserve(len as usize);
        // SAFETY: so many bytes were reserved, and all are written.
        unsafe {
            self.read_to(self.own.wrapping_add(LENGTH as u32), to.as_mut_ptr(), len as usize);
            to.set_len(len as usize);
        }
        self.own = self.own.wrapping_add(LENGTH as u32 + len);
        self.counter(1).store(self.own, Ordering::Release);
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::VecDeque;
    use proptest::prelude::*;

    const BYTES: usize = 4096;

    #[repr(align(64))]
    struct Memory([u8; BYTES]);

    proptest! {
        #[test]
        fn a_ring_is_a_queue(lengths in prop::collection::vec((0usize..900, any::<bool>()), 1..200)) {
            let mut memory = alloc::boxed::Box::new(Memory([0; BYTES]));
            let base = NonNull::from(&mut memory.0).cast();
            // SAFETY: the memory outlives both; one puts, one takes.
            let (mut writer, mut reader) = unsafe { (Ring::new(base, BYTES), Ring::new(base, BYTES)) };
            let mut model: VecDeque<Vec<u8>> = VecDeque::new();
            let mut got = Vec::new();
            for (number, (len, takes)) in lengths.into_iter().enumerate() {
                let message = alloc::vec![number as u8; len];
                let filled: usize = model.iter().map(|one| one.len() + LENGTH).sum();
                let fits = filled + len + LENGTH <= BYTES / 2;
                let parts = message.split_at(len / 3);
                prop_assert_eq!(writer.put_parts([parts.0, parts.1]), Ok(fits));
                if fits {
                    model.push_back(message);
                }
                if takes {
                    let expected = model.pop_front();
                    prop_assert_eq!(reader.take(&mut got), Ok(expected.is_some()));
                    prop_assert!(expected.is_none_or(|expected| expected == got));
                }
            }
        }

        #[test]
        fn a_hostile_writer_is_found_out(bytes in prop::collection::vec(any::<u8>(), BYTES)) {
            let mut memory = alloc::boxed::Box::new(Memory([0; BYTES]));
            memory.0.copy_from_slice(&bytes);
            let base = NonNull::from(&mut memory.0).cast();
            // SAFETY: the memory outlives it.
            let mut reader = unsafe { Ring::new(base, BYTES) };
            let mut got = Vec::new();
            for _ in 0..BYTES {
                if reader.take(&mut got) != Ok(true) {
                    break;
                }
                prop_assert!(got.len() <= BYTES);
            }
        }
    }
}
