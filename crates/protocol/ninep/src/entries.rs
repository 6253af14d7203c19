//! Entries of a directory.

use crate::wire::Reader;
use crate::{Malformed, Qid};

/// An entry of a directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry<'a> {
    /// What it leads to.
    pub qid: Qid,
    /// Where the entries behind it begin.
    pub next: u64,
    /// `DT_*`.
    pub kind: u8,
    /// Its name: not empty, and without slashes and zeros.
    pub name: &'a [u8],
}

/// The entries in an answer. The first malformed one is the last.
#[derive(Clone, Copy)]
pub struct Entries<'a>(Reader<'a>);

impl<'a> Entries<'a> {
    /// Of the bytes of [`Reply::Bytes`](crate::Reply::Bytes).
    pub fn new(bytes: &'a [u8]) -> Entries<'a> {
        Entries(Reader(bytes))
    }

    fn take(&mut self) -> Result<Entry<'a>, Malformed> {
        let from = &mut self.0;
        let entry =
            Entry { qid: from.qid()?, next: from.u64()?, kind: from.u8()?, name: from.string()? };
        let is_wrong = |byte: &u8| matches!(byte, 0 | b'/');
        match entry.name.is_empty() || entry.name.iter().any(is_wrong) {
            true => Err(Malformed),
            false => Ok(entry),
        }
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<Entry<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0 .0.is_empty() {
            return None;
        }
        let entry = self.take();
        if entry.is_err() {
            self.0 .0 = &[];
        }
        Some(entry)
    }
}
