//! Nobody but a core itself uses its windows, and all know: no other core is asked to forget one.

#[cfg(tessera_map_cache)]
use ephemeral::Cores;

/// Core `_core` takes interrupts from now on.
#[inline(always)]
pub fn join_maps(_core: usize) {}

/// Core `_core`, this one, forgets what others ask for.
#[inline(always)]
pub fn answer_maps(_core: usize) {}

/// The number of core `_core` among those that use its windows.
#[cfg(tessera_map_cache)]
#[inline(always)]
pub(super) fn here(_core: usize) -> u32 {
    0
}

/// Who uses the windows of core `_core`.
#[cfg(tessera_map_cache)]
#[inline(always)]
pub(super) fn users(_core: usize) -> Cores {
    Cores::one(0)
}

/// Has others forget `_count` windows of core `_core`, the first of which is at `_start`: there are none.
#[cfg(tessera_map_cache)]
#[inline(always)]
pub(super) fn forget(_core: usize, _whom: Cores, _start: u64, _count: usize) {}
