//! Channels: bytes and messages from a domain to another through memory that both map.
//!
//! One Frame, one direction: a page with two counters, and a ring of bytes. The [`Sender`] copies in
//! and moves one counter, the [`Receiver`] copies out and moves the other; the kernel has nothing to
//! do unless somebody waits, and then the other side rings a bell: it sets a notification bit. A
//! thread that waits keeps no other thread of its domain from running, which is what tells a channel
//! from a call to a server.
//!
//! Neither side believes the other: counters that cannot be are an error, and bytes are copied before
//! anybody looks at them.

use crate::interface::OwnedCap;
use crate::vspace::RW;
use crate::{domain, invoke, thread, Cap};
use abi::layout::PAGE;
use captypes::{op, Status};
use core::marker::PhantomData;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// The first page of the shared Frame.
#[repr(C)]
struct Header {
    /// Bytes ever sent. By the sender.
    sent: AtomicU64,
    /// The receiver waits for more.
    receiver_waits: AtomicU32,
    /// Bytes ever received. By the receiver.
    received: AtomicU64,
    /// The sender waits for room.
    sender_waits: AtomicU32,
}

/// How to wake the other side: an endpoint that it listens to, and the bit that it waits for.
#[derive(Debug)]
pub struct Bell {
    endpoint: OwnedCap,
    bit: u64,
}

impl Bell {
    /// To be rung at the other side of `endpoint`, with this bit.
    pub fn new(endpoint: OwnedCap, bit: u64) -> Bell {
        Bell { endpoint, bit }
    }

    fn ring(&self) -> Result<(), Status> {
        self.endpoint.cap().notify(self.bit)
    }
}

/// Makes the domain the one that is notified through an endpoint of its own: what a [`Bell`] of the
/// other side needs. The bit that a thread here waits for.
pub fn listen(endpoint: captypes::CapAddr) -> Result<u64, Status> {
    hear(endpoint)?;
    thread::new_bit()
}

/// The same without a bit.
pub fn hear(endpoint: captypes::CapAddr) -> Result<(), Status> {
    crate::upcall::install();
    // No more than to be its server: calls are not answered here.
    invoke(endpoint, op::Listen { bits: 0 })
}

/// The shared memory.
#[derive(Debug)]
struct Ring {
    va: u64,
    bytes: u64,
    own_bit: u64,
    bell: Bell,
    _frame: OwnedCap,
}

// SAFETY: the mapping stays; the counters are atomics, and bytes are copied by whoever has the one
// `Sender` or `Receiver`.
unsafe impl Send for Ring {}

impl Ring {
    /// `frame` stays mapped for good.
    fn new(frame: OwnedCap, own_bit: u64, bell: Bell) -> Result<Ring, Status> {
        let bytes = frame.cap().identify()?.bytes;
        if bytes < 2 * PAGE {
            return Err(Status::OutOfRange);
        }
        let va = domain::with(|domain| domain.map(frame.cap().into(), 0, bytes, RW))?;
        Ok(Ring { va, bytes: bytes - PAGE, own_bit, bell, _frame: frame })
    }

    fn header(&self) -> &Header {
        // SAFETY: mapped for good, and made of atomics.
        unsafe { &*(self.va as *const Header) }
    }

    /// Where the bytes after the first `position` ever are, up to the end of the ring.
    fn place(&self, position: u64, bytes: usize) -> (*mut u8, usize) {
        let offset = position % self.bytes;
        let here = bytes.min((self.bytes - offset) as usize);
        ((self.va + PAGE + offset) as *mut u8, here)
    }

    /// Bytes in the ring. `Invalid`: the other side says what cannot be.
    fn filled(&self) -> Result<u64, Status> {
        let header = self.header();
        let filled = header.sent.load(SeqCst).wrapping_sub(header.received.load(SeqCst));
        if filled <= self.bytes {
            Ok(filled)
        } else {
            Err(Status::Invalid)
        }
    }

    /// Waits until the other side has done something, unless `ready` by now.
    fn wait(
        &self,
        waits: &AtomicU32,
        ready: impl Fn() -> Result<bool, Status>,
    ) -> Result<(), Status> {
        waits.store(1, SeqCst);
        // An error is found again by whoever looks next.
        thread::wait_unless(self.own_bit, || ready().unwrap_or(true));
        waits.store(0, SeqCst);
        Ok(())
    }

    /// The counter has moved: whoever waits for that is told.
    fn tell(&self, waits: &AtomicU32) -> Result<(), Status> {
        match waits.swap(0, SeqCst) {
            0 => Ok(()),
            _ => self.bell.ring(),
        }
    }
}

/// What a message may be: data of which every sequence of bytes is a value, so that nobody can send a
/// bad one, without padding or references. Types of programs derive that with `zerocopy`.
pub trait Message: FromBytes + IntoBytes + Immutable {}
impl<T: FromBytes + IntoBytes + Immutable> Message for T {}

/// The end of a channel where messages of type `T` go in. Of bytes, unless something else is said.
#[derive(Debug)]
pub struct Sender<T = u8>(Ring, PhantomData<T>);

/// The end where they come out.
#[derive(Debug)]
pub struct Receiver<T = u8>(Ring, PhantomData<T>);

impl<T: Message> Sender<T> {
    /// Sends through `frame`, zero at first, of which the first page holds the counters. This side
    /// waits for `own_bit`.
    pub fn new(frame: OwnedCap, own_bit: u64, bell: Bell) -> Result<Self, Status> {
        Ring::new(frame, own_bit, bell).map(|ring| Sender(ring, PhantomData))
    }

    /// Wakes the other side if it waits, though nothing was sent: it looks again.
    pub fn wake_peer(&self) -> Result<(), Status> {
        self.0.bell.ring()
    }

    /// Sends a message; waits while there is no room.
    pub fn send(&mut self, message: &T) -> Result<(), Status> {
        self.send_bytes(message.as_bytes())
    }

    /// Sends bytes of messages; waits while there is no room.
    pub fn send_bytes(&mut self, mut bytes: &[u8]) -> Result<(), Status> {
        let ring = &self.0;
        let header = ring.header();
        while !bytes.is_empty() {
            let room = ring.bytes - ring.filled()?;
            if room == 0 {
                ring.wait(&header.sender_waits, || Ok(ring.filled()? < ring.bytes))?;
                continue;
            }
            let sent = header.sent.load(SeqCst);
            let (to, here) = ring.place(sent, bytes.len().min(room as usize));
            // SAFETY: inside the mapped ring. The receiver does not look there yet; if it does all
            // the same, it sees bytes.
            unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), to, here) };
            header.sent.store(sent + here as u64, SeqCst);
            ring.tell(&header.receiver_waits)?;
            bytes = &bytes[here..];
        }
        Ok(())
    }
}

impl<T: Message> Receiver<T> {
    /// Receives from `frame`; see [`Sender::new`].
    pub fn new(frame: OwnedCap, own_bit: u64, bell: Bell) -> Result<Self, Status> {
        Ring::new(frame, own_bit, bell).map(|ring| Receiver(ring, PhantomData))
    }

    /// The next message; waits for one.
    pub fn receive(&mut self) -> Result<T, Status> {
        let mut message = T::new_zeroed();
        self.receive_bytes(message.as_mut_bytes())?;
        Ok(message)
    }

    /// Fills `bytes`; waits for as many.
    pub fn receive_bytes(&mut self, mut bytes: &mut [u8]) -> Result<(), Status> {
        let ring = &self.0;
        let header = ring.header();
        while !bytes.is_empty() {
            let filled = ring.filled()?;
            if filled == 0 {
                ring.wait(&header.receiver_waits, || Ok(ring.filled()? > 0))?;
                continue;
            }
            let received = header.received.load(SeqCst);
            let (from, here) = ring.place(received, bytes.len().min(filled as usize));
            // SAFETY: inside the mapped ring; the sender does not write there before the counter
            // moves, and if it does all the same, these are bytes.
            unsafe { core::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), here) };
            header.received.store(received + here as u64, SeqCst);
            ring.tell(&header.sender_waits)?;
            bytes = &mut bytes[here..];
        }
        Ok(())
    }
}
