//! The queue of a socket: what others have sent to it and it has not read.

use crate::message::Message;
use crate::{QUEUE_BYTES, QUEUE_DATAGRAMS};
use alloc::collections::VecDeque;

/// A queue. Whoever looks at what is in it, or changes it, does so by [`Queue::settled`]; the rest is what everybody may ask.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    here: Messages,
}

/// Messages in order, and how many bytes they have.
#[derive(Debug, Default)]
pub(crate) struct Messages {
    all: VecDeque<Message>,
    bytes: usize,
}

impl Queue {
    /// What is in it.
    pub fn settled(&mut self) -> &mut Messages {
        &mut self.here
    }

    /// Is there nothing in it?
    pub fn is_empty(&self) -> bool {
        self.here.all.is_empty()
    }

    /// Bytes in it.
    pub fn bytes(&self) -> usize {
        self.here.bytes
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
        let is_full = are_datagrams && self.here.all.len() > QUEUE_DATAGRAMS;
        self.bytes() < QUEUE_BYTES && !is_full
    }
}

impl Messages {
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
