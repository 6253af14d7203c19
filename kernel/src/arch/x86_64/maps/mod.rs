//! What of the memory the kernel sees, and how it sees the rest: one of two, chosen when the kernel is compiled.
//!
//! | | memory of kernel objects | memory of programs |
//! |---|---|---|
//! | `direct` | in the direct map, for ever | likewise |
//! | `cache` (`--cfg tessera_map_cache`) | in the direct map, while it is that of objects | through windows of the core, while it is looked at |
//!
//! To objects, both are the same. Docs: decision 72.

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

/// Is memory of programs seen only while it is looked at?
pub const SPARSE: bool = cfg!(tessera_map_cache);
