//! The queue of a socket: what others have sent to it and it has not read.

use crate::lent::{Loan, Ring};
use crate::message::Message;
use crate::{QUEUE_BYTES, QUEUE_DATAGRAMS};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use piecewise::Shares;

/// A write of more bytes is made by a request anyway.
const FEW: usize = 4096;

/// A queue. Whoever looks at what is in it, or changes it, does so by [`Queue::settled`]; the rest is what everybody may ask.
#[derive(Debug)]
pub(crate) struct Queue<R> {
    here: Messages,
    /// What is lent. While it is open, there is nothing else in the queue.
    loan: Option<Box<Loan<R>>>,
}

impl<R> Default for Queue<R> {
    fn default() -> Self {
        Queue { here: Messages::default(), loan: None }
    }
}

/// Messages in order, and how many bytes they have.
#[derive(Debug, Default)]
pub(crate) struct Messages {
    all: VecDeque<Message>,
    bytes: usize,
    /// The last that was sent were a few bytes.
    is_small: bool,
}

impl<R: Ring> Queue<R> {
    /// What is in it, all of which is here now. Who has sent it is charged.
    #[inline]
    pub fn settled(&mut self, charged: &mut Shares) -> &mut Messages {
        if let Some(loan) = self.loan.as_mut().filter(|loan| loan.ring.is_in_use()) {
            self.here.absorb(loan, charged);
        }
        &mut self.here
    }

    /// Is there nothing in it?
    pub fn is_empty(&self) -> bool {
        self.here.all.is_empty() && self.bytes_lent() == 0
    }

    /// The same, where what is lent and open counts as nothing.
    pub fn looks_empty(&self) -> bool {
        self.here.all.is_empty()
            && self.ring().is_none_or(|ring| ring.is_open() || ring.close() == 0)
    }

    /// Bytes in it.
    pub fn bytes(&self) -> usize {
        self.here.bytes + self.bytes_lent()
    }

    /// Bytes that are in what is lent, which is closed from now on.
    #[inline]
    fn bytes_lent(&self) -> usize {
        self.ring().map_or(0, Ring::close)
    }

    /// Bytes in it as who lists all sockets is told: what is lent stays open.
    pub fn bytes_told(&self) -> usize {
        self.here.bytes + self.ring().map_or(0, Ring::bytes)
    }

    /// Bytes of the first message.
    pub fn first_bytes(&self) -> usize {
        self.here.all.front().map_or(0, |first| first.left().len())
    }

    /// Descriptors that were passed along with what is in it.
    pub fn passed(&self) -> usize {
        self.here.all.iter().map(|message| message.rights.len()).sum()
    }

    /// May more be added? Of datagrams there are few.
    pub fn has_room(&self, are_datagrams: bool) -> bool {
        if self.ring().is_some_and(Ring::is_open) {
            // There is room for more than goes into it.
            return true;
        }
        let is_full = are_datagrams && self.here.all.len() > QUEUE_DATAGRAMS;
        self.bytes() < QUEUE_BYTES && !is_full
    }
}

/// What is lent of it.
impl<R: Ring> Queue<R> {
    /// The ring.
    #[inline]
    pub fn ring(&self) -> Option<&R> {
        self.loan.as_ref().map(|loan| &loan.ring)
    }

    /// The same, to be changed.
    pub fn ring_mut(&mut self) -> Option<&mut R> {
        self.loan_mut().map(|loan| &mut loan.ring)
    }

    /// With what belongs to it.
    pub fn loan_mut(&mut self) -> Option<&mut Loan<R>> {
        self.loan.as_deref_mut()
    }

    /// It is lent.
    pub fn begin_loan(&mut self, loan: Loan<R>) {
        self.loan = Some(Box::new(loan));
    }

    /// It is not lent any more, and all that is in it is here.
    pub fn end_loan(&mut self, charged: &mut Shares) -> Option<Box<Loan<R>>> {
        self.settled(charged);
        self.loan.take()
    }

    /// Does nothing depend on what is in it, and were the last bytes few?
    pub fn is_at_rest(&self) -> bool {
        self.here.all.is_empty() && self.here.is_small && self.bytes_lent() == 0
    }
}

impl Messages {
    #[inline(never)]
    fn absorb<R: Ring>(&mut self, loan: &mut Loan<R>, charged: &mut Shares) {
        if let Some((bytes, user, uid, outgoing)) = loan.take(charged) {
            let mut message = Message::new(bytes, user, outgoing);
            message.charged = uid;
            // There was nothing else.
            self.bytes += message.left().len();
            self.all.push_back(message);
        }
    }

    /// One that may be read.
    pub fn get_mut(&mut self, index: usize) -> Option<&mut Message> {
        self.all.get_mut(index)
    }

    /// Is there none?
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Adds one: if it is part of a stream, to the last one if they can be read together.
    pub fn push(&mut self, message: Message, has_bounds: bool) {
        self.bytes += message.left().len();
        self.is_small = message.left().len() <= FEW;
        let last = self.all.back_mut().filter(|last| !has_bounds && last.continues(&message));
        if !last.is_some_and(|last| last.append(message.left())) {
            self.all.push_back(message);
        }
    }

    /// So many bytes of the first one have been read, and perhaps it is done.
    pub fn read(&mut self, bytes: usize, is_done: bool) {
        if let Some(first) = self.all.front_mut() {
            first.skip(bytes);
            self.bytes -= bytes;
        }
        if is_done {
            self.all.pop_front();
        }
    }

    /// All of them, which nobody will read here.
    pub fn take(&mut self) -> impl Iterator<Item = Message> {
        self.bytes = 0;
        core::mem::take(&mut self.all).into_iter()
    }
}
