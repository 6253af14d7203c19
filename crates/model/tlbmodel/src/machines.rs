//! The machines of the papers.
//!
//! Sizes of TLBs and caches are those of G18's tables 2.2 and 3.2. Neither vendor publishes the sizes
//! of page-structure caches; [`WALK_CACHES`] is an assumption of the usual order of magnitude, and
//! every count is also given without such caches.

use crate::cache;
use crate::lru::Geometry;
use crate::tlb::{Description, Level, WalkCaches};

/// Page-structure caches, assumed.
pub const WALK_CACHES: WalkCaches = WalkCaches { pde: 32, pdpte: 4, pml4e: 2 };

/// Intel Xeon E5-2670 v2 (Ivy Bridge), G18 table 2.2: RandomAccess and most other measurements. Its
/// second level holds pages of 4 KiB only.
pub const IVY_BRIDGE: Description = Description {
    name: "Xeon E5-2670 v2",
    first: Level::Split([
        Some(Geometry::new(64, 4)),
        Some(Geometry::new(32, 4)),
        Some(Geometry::new(4, 4)),
    ]),
    second: Level::Split([Some(Geometry::new(512, 4)), None, None]),
    walk_caches: Some(WALK_CACHES),
};

/// AMD Opteron 6378 (Piledriver), G18 table 3.2: PageRank. The table gives each page size the same 64
/// and 1,024 entries: one TLB at each level, which all sizes share.
pub const PILEDRIVER: Description = Description {
    name: "Opteron 6378",
    first: Level::Unified(Geometry::full(64)),
    second: Level::Unified(Geometry::new(1024, 8)),
    walk_caches: Some(WALK_CACHES),
};

/// The last-level cache of the Xeon E5-2670 v2: 25 MiB (G18 table 2.2), as ten slices of 2,048 sets of
/// 20 ways of 64 bytes.
pub const IVY_BRIDGE_LLC: cache::Description =
    cache::Description { slices: 10, sets: 2048, ways: 20, line: 64 };
