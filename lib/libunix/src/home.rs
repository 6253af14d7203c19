//! A process whose home is another core than `unixd`'s.
//!
//! Its requests go there as on one core, but for those that come with capabilities or are answered with some: these go to
//! the stand-in of `unixd` on this core, which has them carried.

use crate::errno::Result;
use crate::server::{call_at, call_words, header, Caps};
use abi::slots::STANDIN;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use libos::Cap;
use unixproto::home::from_elsewhere;
use unixproto::Words;

/// Found once: what is made of a domain by `fork` has the same home, and another program on another core begins anew.
static ELSEWHERE: AtomicBool = AtomicBool::new(false);

/// Looks where the process is at home.
pub fn find() {
    ELSEWHERE.store(STANDIN.identify().is_ok(), Relaxed);
}

/// Is there a stand-in?
#[inline]
pub fn is_elsewhere() -> bool {
    ELSEWHERE.load(Relaxed)
}

/// Sends a request with capabilities, or that is answered with some, to the stand-in.
#[cold]
#[inline(never)]
pub fn carry(words: Words, caps: Caps) -> Result<(Words, u32)> {
    from_elsewhere(
        words,
        (header().thread_key.load(Relaxed), caps.count > 0),
        |words| call_at(STANDIN, words, caps),
        |words| call_words(words, Caps::NONE),
        |(answer, _)| answer[0],
    )
}
