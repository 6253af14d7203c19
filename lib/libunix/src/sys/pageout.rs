//! Who chooses the pages of a program that leave memory. `prctl(PR_TESSERA_PAGEOUT)`: a program says how many pages of some of its memory are to be in memory, and which goes for another one.
//! `TESSERA_PAGEOUT` in its environment: whoever starts it says which of its small memory goes when memory is short. There is no such thing on Linux;
//! docs/pager.md says how they are used.

use crate::errno::{Errno, Result};
use crate::mm::{self, leases, usage, user, Mm};
use alloc::boxed::Box;
use alloc::vec::Vec;
use libos::selfpaging::{Clock, Fifo, Optimal, Policy, Sampled};

/// The option: "TSPA".
pub const PR_TESSERA_PAGEOUT: u32 = 0x5453_5041;

/// Policies, by their numbers.
mod policy {
    /// Nothing is limited any more.
    pub const NONE: u64 = 0;
    /// The page that came first goes.
    pub const FIFO: u64 = 1;
    /// The page goes that was not used since the hand passed it.
    pub const SECOND_CHANCE: u64 = 2;
    /// The page goes that was not used for longest, as seen at each page that comes.
    pub const LRU: u64 = 3;
    /// The page goes that will not be used for longest, as was recorded.
    pub const OPTIMAL: u64 = 4;
}

/// Most uses of a recorded trace: each takes 16 bytes of the library's memory.
const MOST_USES: u64 = 1 << 18;
/// Most pages that a range can have, and most places: each takes 40 bytes at most.
const MOST_PAGES: u64 = 1 << 18;
/// Bytes of what the program says: the policy, the number of pages, where the trace is (32-bit numbers of pages of the range), and how
/// many uses it has, 64 bits each.
const BYTES: u64 = 32;

/// As the environment of a new program says: `TESSERA_PAGEOUT` is `fifo`, `second-chance` or `lru`. Otherwise the usual hand goes round.
pub fn configure<'a>(mm: &mut Mm, mut environment: impl Iterator<Item = &'a [u8]>) {
    let Some(value) = environment.find_map(|entry| entry.strip_prefix(b"TESSERA_PAGEOUT=")) else {
        return;
    };
    let policy: Box<dyn Policy> = match value {
        b"fifo" => Box::new(Fifo::new()),
        b"second-chance" => Box::new(Clock::new()),
        b"lru" => Box::new(Sampled::new()),
        _ => return,
    };
    // Without memory for it all is as without the variable.
    let _ = mm.space.choose_victims(policy);
}

/// `len` bytes from `addr` on are limited as `bytes` bytes at `at` say. Without a policy nothing is any more.
pub fn limit(mm: &mut Mm, addr: u64, len: u64, at: u64, bytes: u64) -> Result<u64> {
    if bytes != BYTES {
        return Err(Errno::EINVAL);
    }
    let mut words = [0; 4];
    user::words_in(mm, at, &mut words)?;
    let [policy, pages, trace, uses] = words;
    if policy == policy::NONE {
        mm.space.limit_nothing();
        return Ok(0);
    }
    if pages > MOST_PAGES || len > MOST_PAGES * abi::layout::PAGE || uses > MOST_USES {
        return Err(Errno::E2BIG);
    }
    let policy: Box<dyn Policy> = match policy {
        policy::FIFO => Box::new(Fifo::new()),
        policy::SECOND_CHANCE => Box::new(Clock::new()),
        policy::LRU => Box::new(Sampled::new()),
        policy::OPTIMAL => Box::new(recorded(mm, trace, uses, addr)?),
        _ => return Err(Errno::EINVAL),
    };
    leases::end(mm, addr, len);
    usage::shrinks_by(mm, addr, len);
    let Mm { space, caps, .. } = mm;
    let limited = space.limit(caps, (addr, len), pages as u32, policy);
    usage::changed(mm);
    limited.map(|()| 0).map_err(mm::errno)
}

/// The policy for a trace of the program: numbers of pages, of which the first is at `addr`.
fn recorded(mm: &mut Mm, trace: u64, uses: u64, addr: u64) -> Result<Optimal> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(uses as usize * size_of::<u32>()).map_err(|_| Errno::ENOMEM)?;
    bytes.resize(uses as usize * size_of::<u32>(), 0);
    user::bytes_in(mm, trace, &mut bytes)?;
    let first = addr / abi::layout::PAGE;
    let page =
        |use_: &[u8]| first + u64::from(u32::from_le_bytes([use_[0], use_[1], use_[2], use_[3]]));
    Optimal::new(bytes.chunks_exact(size_of::<u32>()).map(page)).map_err(|_| Errno::ENOMEM)
}
