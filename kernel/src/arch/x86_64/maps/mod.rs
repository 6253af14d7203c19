//! What of the memory the kernel sees, and how it sees the rest: one of three, chosen when the kernel is compiled.
//!
//! | | memory of kernel objects | memory of programs |
//! |---|---|---|
//! | `direct` | in the direct map, for ever | likewise |
//! | `cache` (`--cfg tessera_map_cache`) | in the direct map, while it is that of objects | through windows of the core, while it is looked at |
//!
//! | `uncached` (that, and `--cfg tessera_map_uncached`) | likewise | likewise, but each look maps, unmaps, and is forgotten by all cores |
//!
//! To objects, all are the same. The third is what the second is compared with. Docs: decisions 72 and 82.

#[cfg(not(tessera_map_cache))]
mod direct;
#[cfg(not(tessera_map_cache))]
pub use direct::*;

#[cfg(tessera_map_cache)]
mod cache;
#[cfg(tessera_map_cache)]
mod sparse;
#[cfg(tessera_map_cache)]
pub use cache::{is_sound, make, maps, CoreMaps, Maps};
#[cfg(tessera_map_cache)]
pub use sparse::{build, for_each_shown, has_hidden, hide, is_shown, seal, share, sharers, show};
#[cfg(tessera_map_cache)]
pub use sparse::{lend_at_start, take_hidden, unshare, was_read};

#[cfg(not(tessera_map_uncached))]
mod alone;
#[cfg(not(tessera_map_uncached))]
use alone as others;
#[cfg(tessera_map_uncached)]
mod everywhere;
#[cfg(tessera_map_uncached)]
use everywhere as others;
pub use others::{answer_maps, join_maps};

/// What the ephemeral mappings of this core came to.
pub fn maps_counters() -> ephemeral::Counters {
    ephemeral::Ephemeral::counters(maps())
}

/// Is memory of programs seen only while it is looked at?
pub const SPARSE: bool = cfg!(tessera_map_cache);
