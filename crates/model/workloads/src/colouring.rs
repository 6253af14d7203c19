//! Two instances of RandomAccess that share a last-level cache (G18 table 3.6): what is measured.

/// Colours of the cache: that of the paper's machine has 2,048 sets of 64 bytes in each slice, so
/// that an address's set repeats every 32 pages.
pub const COLOURS: u64 = 32;
/// Colours of the small table when they are divided: three quarters of the cache hold it.
pub const SMALL_COLOURS: u64 = 24;
/// Colours of the large table: those that are left.
pub const LARGE_COLOURS: u64 = COLOURS - SMALL_COLOURS;
/// The tables' sizes in MiB.
pub const SMALL_MIB: u64 = 16;
/// See [`SMALL_MIB`].
pub const LARGE_MIB: u64 = 64;
/// Updates of each table; the second half of them counts, the first warms the cache.
pub const UPDATES: u64 = 4 << 20;
