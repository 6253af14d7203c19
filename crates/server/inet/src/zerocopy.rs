//! Calls whose bytes need not be copied (`MSG_ZEROCOPY`): the error queue tells which of them are complete, so that their bytes may be written to again.
//!
//! All are complete as soon as they are done, since the bytes were copied, and that is said, too (`SO_EE_CODE_ZEROCOPY_COPIED`), as Linux says it of
//! everything that stays inside of the machine.

use crate::errors::Entry;
use crate::socket::{Changes, Inet, Number};
use crate::timestamps::TX_RECORD;
use crate::OVERHEAD;
use unixproto::sockets::SO_ZEROCOPY;
use unixproto::Errno;

/// Entries about calls that may wait in the queue of a socket: Linux has it pay 832 bytes for each, of 128 KiB (`net.core.optmem_max`), and
/// does not begin one without 576 that are free.
const ENTRIES_MOST: usize = 157;

/// Calls that are complete, by their numbers: the first, and the last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Calls {
    pub first: u32,
    pub last: u32,
}

impl Calls {
    /// Adds so many, from one on, if they are the next ones.
    fn extend(&mut self, first: u32, count: u32) -> bool {
        let all = u64::from(self.last.wrapping_sub(self.first)) + 1 + u64::from(count);
        let is_next = first == self.last.wrapping_add(1) && all < 1 << 32;
        if is_next {
            self.last = self.last.wrapping_add(count);
        }
        is_next
    }
}

/// What is told of a call that sends, once it is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Telling {
    /// That its bytes may be written to again.
    pub is_zerocopy: bool,
    /// When it came to these stages: `SOF_TIMESTAMPING_TX_*`.
    pub stamps: u32,
}

impl Telling {
    /// In one word; 0: nothing is told.
    pub const fn pack(self) -> u32 {
        self.stamps | (self.is_zerocopy as u32) << 31
    }

    /// From that.
    pub const fn unpack(word: u32) -> Telling {
        Telling { is_zerocopy: word >> 31 != 0, stamps: word & TX_RECORD }
    }
}

impl Inet {
    /// What is to be told of a call, whose bytes need not be copied, and which may ask for times other than its socket does.
    pub fn telling(
        &self,
        number: Number,
        is_zerocopy: bool,
        stamps: Option<u32>,
    ) -> Result<Telling, Errno> {
        let socket = self.get(number)?;
        let stamps = stamps.unwrap_or_else(|| socket.options.stamping()) & TX_RECORD;
        let is_zerocopy = is_zerocopy && socket.options.is_set(SO_ZEROCOPY);
        Ok(Telling { is_zerocopy, stamps })
    }

    /// Is there room for what is to be told of a call that begins?
    ///
    /// # Errors
    /// `ENOBUFS`: there is none, since nobody has read of many others.
    pub fn may_tell(&self, number: Number, telling: Telling) -> Result<(), Errno> {
        if !telling.is_zerocopy {
            return Ok(());
        }
        let socket = self.get(number)?;
        let is_full = || {
            let calls = socket.errors.iter().filter(|one| matches!(one, Entry::Complete(_)));
            calls.count() >= ENTRIES_MOST
        };
        let has_many = socket.errors.len() >= ENTRIES_MOST;
        match has_many && is_full() || !self.shares.has_room(socket.uid, OVERHEAD) {
            true => Err(Errno::ENOBUFS),
            false => Ok(()),
        }
    }

    /// So many more calls are complete.
    pub(crate) fn are_complete(&mut self, number: Number, count: u32, changes: &mut Changes) {
        let Ok(socket) = self.get_mut(number) else { return };
        if count == 0 {
            return;
        }
        let first = socket.next_call;
        socket.next_call = first.wrapping_add(count);
        let is_merged = match socket.errors.back_mut() {
            Some(Entry::Complete(calls)) => calls.extend(first, count),
            _ => false,
        };
        match is_merged {
            true => changes.push((number, false)),
            false => {
                let calls = Calls { first, last: first.wrapping_add(count - 1) };
                self.queue_error(number, Entry::Complete(calls), changes);
            }
        }
    }

    /// A call that has sent bytes of a stream is over.
    pub fn call_over(&mut self, number: Number, telling: Telling, changes: &mut Changes) {
        self.bytes_were_sent(number, telling.stamps, changes);
        self.are_complete(number, telling.is_zerocopy.into(), changes);
    }
}
