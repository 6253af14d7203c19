//! Page colours: which part of a physically indexed cache a page can be in (G18 §3.6).
//!
//! A cache of `sets` sets of lines finds the set of an address by its lowest bits. Pages whose
//! numbers are equal modulo `sets × line / 4096` compete for the same sets, and others never do: that
//! number is how many colours there are. Who gives two parts of a program pages of different colours
//! gives each its own part of the cache. Sets of colours are sets of bits; bit `n` is colour `n`.

use abi::layout::PAGE;
use core::arch::x86_64::{__cpuid, __cpuid_count};

/// Most colours that are told apart; a cache with more is taken as one with so many.
pub const MAX: u64 = 64;

/// Colours of the processor's last cache, a power of two. Caches in virtual machines may be made up:
/// the boot option `colours=N` says otherwise.
pub fn of_cache() -> u64 {
    let (basic, extended) = (__cpuid(0).eax, __cpuid(0x8000_0000).eax);
    let leaves = [(4, basic), (0x8000_001d, extended)];
    let known = leaves.into_iter().filter(|&(leaf, last)| leaf <= last);
    let caches = known.flat_map(|(leaf, _)| (0..8).map_while(move |n| cache(leaf, n)));
    let colours = caches.max_by_key(|&(level, _)| level).map_or(1, |(_, bytes)| bytes / PAGE);
    1 << colours.clamp(1, MAX).ilog2()
}

/// Level of cache number `index`, and its bytes in one way; `None` behind the last.
fn cache(leaf: u32, index: u32) -> Option<(u32, u64)> {
    let what = __cpuid_count(leaf, index);
    let (kind, level) = (what.eax & 31, what.eax >> 5 & 7);
    let (line, partitions) = ((what.ebx & 0xfff) + 1, (what.ebx >> 12 & 0x3ff) + 1);
    let sets = u64::from(what.ecx) + 1;
    (kind != 0).then_some((level, sets * u64::from(line * partitions)))
}

/// `count`, or the colours of the cache if that is zero, as a number of colours.
pub fn or_count(count: u64) -> u64 {
    match count {
        0 => of_cache(),
        _ => 1 << count.min(MAX).ilog2(),
    }
}

/// The colour of the page at a physical address, out of `count`.
pub fn of(address: u64, count: u64) -> u64 {
    address / PAGE % count
}
