//! A process whose home is another core than `unixd`'s.
//!
//! Its requests go there as on one core, but for those that come with capabilities or are answered with some: these go to
//! the stand-in of `unixd` on this core, which has them carried.

use crate::errno::Result;
use crate::server::{call_at, call_words, header, Caps};
use abi::slots::STANDIN;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use libos::Cap;
use unixproto::home::{LATER_ERROR, THREAD_WORD};
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
    loop {
        let mut carried = words;
        carried[THREAD_WORD] = header().thread_key.load(Relaxed).into();
        let (answer, count) = call_at(STANDIN, carried, caps)?;
        if answer[0] != u64::from(LATER_ERROR.0) || caps.count > 0 {
            return Ok((answer, count));
        }
        // The stand-in waits for nobody: what may take long is asked for here, and is there then.
        let (answer, _) = call_words(words, Caps::NONE)?;
        if answer[0] != 0 {
            return Ok((answer, 0));
        }
    }
}
