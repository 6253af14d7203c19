//! The virtio device of a shared folder (virtio 1.2, 5.? "9P transport"): one queue, into which requests are put and
//! from which answers come, in any order.
//!
//! What is in the messages is nobody's business here. A request has a place, which is its and its answer's until that was looked at;
//! there are [`PLACES`] of them.

use crate::dma::{Buffers, Memory};
use crate::transport::Device;
use crate::Failure;
use alloc::vec::Vec;
use libos::Status;
use virtio_drivers::transport::Transport;

/// Features: the device is one of today.
const VERSION_1: u64 = 1 << 32;
const QUEUE: u16 = 0;
/// Requests that the device has at once, at most.
pub const PLACES: usize = 8;
/// Each is two buffers.
const BUFFERS: usize = 2 * PLACES;
/// Bytes of a request, or an answer, at most.
pub const MESSAGE: usize = 16 * 1024;

/// The device, and what it has been given.
pub struct Share {
    // The device is reset before the memory of its queue goes.
    device: Device,
    queue: virtio_drivers::queue::VirtQueue<Memory, BUFFERS>,
    /// Of place `n` the request is in buffer `2 n`, the answer in the next one.
    buffers: Buffers,
    free: Vec<u16>,
    /// The place of what the device has, by the descriptor that names it.
    tokens: [u16; BUFFERS],
}

impl Share {
    /// Sets the device up.
    pub fn start(mut device: Device) -> Result<Share, Failure> {
        if device.negotiate(VERSION_1) != Some(VERSION_1) {
            return Err(Failure::Unsuitable);
        }
        let queue = virtio_drivers::queue::VirtQueue::new(&mut device, QUEUE, false, false)?;
        if !device.has_message(QUEUE) {
            return Err(Failure::Unsuitable);
        }
        let buffers = Buffers::new(BUFFERS * MESSAGE)?;
        device.finish_init();
        let free = (0..PLACES as u16).collect();
        Ok(Share { device, queue, buffers, free, tokens: [0; BUFFERS] })
    }

    /// Has this dispatcher notified of answers, with these bits.
    pub fn listen(&self, bits: u64) -> Result<(), Status> {
        self.device.listen(bits)
    }

    /// A place for a request, if there is one.
    pub fn place(&self) -> Option<u16> {
        self.free.last().copied()
    }

    /// Sends a request, which `fill` puts into a buffer: its bytes, or none if there is to be no request. Its place; `None`:
    /// nothing was sent.
    pub fn send(&mut self, fill: impl FnOnce(u16, &mut [u8]) -> Option<usize>) -> Option<u16> {
        let place = self.place()?;
        // SAFETY: the place is free, so neither the device nor anybody here has its buffers.
        let (request, answer) = unsafe { self.pair(place) };
        let bytes = fill(place, request)?.min(request.len());
        // SAFETY: nobody touches the buffers until the device has given them back.
        let token = unsafe { self.queue.add(&[&request[..bytes]], &mut [answer]) }.ok()?;
        *self.tokens.get_mut(usize::from(token))? = place;
        self.free.pop();
        if self.queue.should_notify() {
            self.device.notify(QUEUE);
        }
        Some(place)
    }

    /// Shows `look` the next answer, and its place, which is free afterwards. `false`: there is none.
    pub fn answer(&mut self, look: impl FnOnce(u16, &[u8])) -> bool {
        let Some(token) = self.queue.peek_used() else { return false };
        let Some(&place) = self.tokens.get(usize::from(token)) else { return false };
        // SAFETY: the buffers are those that were added with this token; nobody here has touched them since.
        let (request, answer) = unsafe { self.pair(place) };
        // SAFETY: the same buffers; their addresses are all that counts, since memory is shared without copies.
        let bytes = unsafe { self.queue.pop_used(token, &[request], &mut [answer]) };
        let Ok(bytes) = bytes else { return false };
        look(place, &answer[..(bytes as usize).min(MESSAGE)]);
        if !self.free.contains(&place) {
            self.free.push(place);
        }
        true
    }

    /// The two buffers of a place.
    ///
    /// # Safety
    /// The device does not have them now, and there are no other references to them.
    #[allow(clippy::mut_from_ref)]
    unsafe fn pair<'a>(&self, place: u16) -> (&'a mut [u8], &'a mut [u8]) {
        let place = usize::from(place);
        // SAFETY: two different buffers, mapped for good; the rest is the caller's promise.
        unsafe {
            let request = self.buffers.get(2 * place, MESSAGE);
            let answer = self.buffers.get(2 * place + 1, MESSAGE);
            (&mut *(request as *mut [u8]), &mut *(answer as *mut [u8]))
        }
    }
}
