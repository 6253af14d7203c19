//! What waits to be read.

use crate::Name;
use alloc::rc::Rc;
use alloc::vec::Vec;

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
}

impl Message {
    /// One that nobody has read.
    pub fn new(bytes: Vec<u8>, user: User) -> Message {
        Message { bytes, read: 0, rights: Vec::new(), user, from: None }
    }

    /// What is left of it.
    pub fn left(&self) -> &[u8] {
        &self.bytes[self.read.min(self.bytes.len())..]
    }

    /// So many bytes more have been read.
    pub(crate) fn skip(&mut self, bytes: usize) {
        self.read = self.bytes.len().min(self.read + bytes);
    }

    /// Bytes that it keeps from others.
    pub(crate) fn charge(&self) -> usize {
        self.left().len()
    }

    /// Could bytes of another one be read together with its?
    pub(crate) fn continues(&self, other: &Message) -> bool {
        self.rights.is_empty() && other.rights.is_empty() && self.user == other.user
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
        true
    }
}
