//! Channels between cores: user-level message passing in shared memory.
//!
//! * [`ring`]: one direction of a channel, one page. A message is a cache line (or a few), whose last
//!   word is written last; the receiver polls the line where the next one will be. Two cores exchange
//!   a message with the two cache-line transfers that this takes at least, and no system call.
//! * [`sleep`]: who has nothing to do polls for a while and then sleeps; whoever sends sees whether
//!   it must ring a doorbell. No wake-up is lost.
//! * [`wire`]: values as words.
//! * [`mod@interface`]: both sides of an interface, of messages and of calls, from one declaration.
//!
//! Neither side believes the other: whatever is in the memory, the worst is a typed error and the end
//! of the channel. All shared words are atomics, so that there is no data race with a peer that does
//! not keep to the protocol.
//!
//! Barrelfish calls this UMP (Baumann et al., The Multikernel, SOSP 2009, §4.6).
#![no_std]
#![forbid(unsafe_code)]

pub mod interface;
pub mod ring;
pub mod sleep;
mod sync;
pub mod wire;

pub use ring::{Broken, Message, Receiver, Ring, SendError, Sender, LINE_WORDS, MAX_WORDS};
pub use sleep::{Board, Patience, Sleeper};

/// Bytes of a [`Ring`] with the usual number of lines: a page.
pub const RING_BYTES: usize = 4096;

const _: () = assert!(size_of::<Ring>() == RING_BYTES && align_of::<Ring>() == 64);
