//! Which of the two kernels is booted: one that has all memory in a direct map, or one that sees the memory of programs
//! through a mapping cache.

use crate::toolchain::Variant;
use std::env;

/// Where this is said, for calls of this tool by itself, too.
const VARIABLE: &str = "TESSERA_MAP";

/// How the kernel sees the memory of programs.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Map {
    /// All of it is in the direct map
    Direct,
    /// Through a cache of short-lived mappings: none is in the direct map
    Cache,
}

/// The option of the commands that boot.
#[derive(clap::Args, Clone, Copy, Debug)]
pub struct MapOption {
    /// How the kernel sees the memory of programs; cache: in no direct map, but while it looks [default: direct]
    #[arg(long, value_enum, value_name = "HOW")]
    map: Option<Map>,
}

impl MapOption {
    /// Is it another kernel than the usual one?
    pub fn is_cache(self) -> bool {
        self.map == Some(Map::Cache)
    }

    /// Has all that is booted from now on boot this. Before there are threads.
    pub fn choose(self) {
        match self.map {
            Some(Map::Direct) => env::set_var(VARIABLE, "direct"),
            Some(Map::Cache) => env::set_var(VARIABLE, "cache"),
            None => {}
        }
    }
}

/// The kernel that was chosen.
pub fn variant() -> Variant {
    match env::var_os(VARIABLE).is_some_and(|map| map == "cache") {
        true => Variant::Cached,
        false => Variant::Plain,
    }
}
