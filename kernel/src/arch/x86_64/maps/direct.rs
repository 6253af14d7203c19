//! All memory is in the direct map: nothing is to be done, and nothing here becomes an instruction.

use super::super::memory::{phys_to_virt, BootPages};
use core::ops::Range;
use ephemeral::{Direct, DirectMap};

/// The direct map.
pub struct All;

impl DirectMap for All {
    type Page = u64;
    #[inline(always)]
    fn address(page: u64) -> usize {
        phys_to_virt(page) as usize
    }
    #[inline(always)]
    fn are_neighbours(page: u64, next: u64) -> bool {
        page.wrapping_add(paging::PAGE) == next
    }
}

/// How this kernel sees the memory of programs.
pub type Maps = Direct<All>;

static MAPS: Maps = Direct::new();

/// This core's.
#[inline(always)]
pub fn maps() -> &'static Maps {
    &MAPS
}

/// What a core keeps for it.
pub struct CoreMaps;

static NOTHING: CoreMaps = CoreMaps;

/// What core `id` needs for it.
pub fn make(_id: u32, _pages: &mut BootPages) -> &'static CoreMaps {
    &NOTHING
}

/// The `bytes` of memory at `base` are those of kernel objects from now on.
#[inline(always)]
pub fn show(_base: u64, _bytes: u64) {}

/// They are not any more.
#[inline(always)]
pub fn hide(_base: u64, _bytes: u64) {}

/// One more dispatcher shares the frame at `pa` with the kernel.
#[inline(always)]
pub fn share(_pa: u64) {}

/// One less.
#[inline(always)]
pub fn unshare(_pa: u64) {}

/// How many do.
#[inline(always)]
pub fn sharers(_pa: u64) -> u32 {
    0
}

/// So many cores will start, and read this.
pub fn lend_at_start(_range: &Range<u64>, _cores: u32) {}

/// One of them has read it, or will not start.
pub fn was_read(_range: &Range<u64>) {}

/// Is the page at `pa` that of objects?
pub fn is_shown(_pa: u64) -> bool {
    true
}

/// Has anything been hidden since the last call that other cores may have cached?
#[inline(always)]
pub fn take_hidden() -> bool {
    false
}

/// Has it, without that it counts as a call?
#[inline(always)]
pub fn has_hidden() -> bool {
    false
}

/// From now on, of all memory only that in `kept` is shown, and what is shared.
pub fn seal(_kept: &[Range<u64>]) {}

/// Calls `visit` with each page that is shown because somebody said so, whether it is that of objects, and how many
/// dispatchers share it.
pub fn for_each_shown(_visit: impl FnMut(u64, bool, u32)) {}

/// Do the windows show what they should?
pub fn is_sound() -> bool {
    true
}
