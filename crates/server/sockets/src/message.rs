//! What waits to be read.

use crate::Name;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::Cell;

/// Who has sent something, or has made a socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct User {
    /// Process.
    pub pid: u32,
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

/// What a socket has sent and nobody has taken yet, in bytes, with what each message costs besides: it is the socket's, and each message that
/// it has sent counts itself there as long as it is.
pub(crate) type Outgoing = Rc<Cell<usize>>;

/// What a message counts besides its bytes, so that one without any counts, too.
const OVERHEAD: usize = 576;

/// A message, or a part of a stream that was sent by one.
#[derive(Debug)]
pub struct Message {
    bytes: Vec<u8>,
    /// How many of them have been read.
    read: usize,
    /// Descriptors that are passed along.
    pub rights: Vec<u32>,
    /// Who has sent it.
    pub user: User,
    /// The sender's name, if it has one.
    pub from: Option<Rc<Name>>,
    /// The user who is charged for it.
    pub charged: u32,
    /// When it was sent, if the reader wanted to know then; else 0.
    pub sent: i64,
    outgoing: Outgoing,
}

impl Drop for Message {
    fn drop(&mut self) {
        self.outgoing.update(|all| all - self.left().len() - OVERHEAD);
    }
}

impl Message {
    /// One that nobody has read.
    pub(crate) fn new(bytes: Vec<u8>, user: User, outgoing: Outgoing) -> Message {
        outgoing.update(|all| all + bytes.len() + OVERHEAD);
        let (rights, charged) = (Vec::new(), user.uid);
        Message { bytes, read: 0, rights, user, from: None, charged, sent: 0, outgoing }
    }

    /// What is left of it.
    pub fn left(&self) -> &[u8] {
        &self.bytes[self.read.min(self.bytes.len())..]
    }

    /// So many bytes more have been read.
    pub(crate) fn skip(&mut self, bytes: usize) {
        let before = self.left().len();
        self.read = self.bytes.len().min(self.read + bytes);
        self.outgoing.update(|all| all - (before - self.left().len()));
    }

    /// Bytes that it keeps from others.
    pub(crate) fn charge(&self) -> usize {
        self.left().len()
    }

    /// Could bytes of another one be read together with its?
    pub(crate) fn continues(&self, other: &Message) -> bool {
        let has_rights = !self.rights.is_empty() || !other.rights.is_empty();
        !has_rights
            && (self.user, self.charged) == (other.user, other.charged)
            && Rc::ptr_eq(&self.outgoing, &other.outgoing)
    }

    /// Adds the bytes of another one that [continues](Self::continues) it. `false`: there is no memory.
    pub(crate) fn append(&mut self, bytes: &[u8]) -> bool {
        if self.read >= self.bytes.len() / 2 {
            self.bytes.drain(..self.read.min(self.bytes.len()));
            self.read = 0;
        }
        if self.bytes.try_reserve(bytes.len()).is_err() {
            return false;
        }
        self.bytes.extend_from_slice(bytes);
        self.outgoing.update(|all| all + bytes.len());
        true
    }
}
