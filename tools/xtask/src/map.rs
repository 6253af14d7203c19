//! Which of the three kernels is booted: one that has all memory in a direct map, one that sees the memory of programs
//! through a mapping cache, or one that maps it for each look: what the others are compared with.

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
    /// Through mappings that are made for each look, and forgotten by all cores after it
    Uncached,
}

impl Map {
    /// All, the one that the others are compared with first.
    pub const ALL: [Map; 3] = [Map::Uncached, Map::Cache, Map::Direct];

    /// What it is called.
    pub const fn name(self) -> &'static str {
        match self {
            Map::Direct => "direct",
            Map::Cache => "cache",
            Map::Uncached => "uncached",
        }
    }

    /// The kernel that does so.
    pub const fn variant(self) -> Variant {
        match self {
            Map::Direct => Variant::Plain,
            Map::Cache => Variant::Cached,
            Map::Uncached => Variant::Uncached,
        }
    }
}

/// The option of the commands that boot.
#[derive(clap::Args, Clone, Copy, Debug)]
pub struct MapOption {
    /// How the kernel sees the memory of programs; cache: in no direct map, but through windows that remember; uncached: through windows that do not [default: direct]
    #[arg(long, value_enum, value_name = "HOW")]
    map: Option<Map>,
}

impl MapOption {
    /// Is it another kernel than the usual one?
    pub fn is_another(self) -> bool {
        self.map.is_some_and(|map| map != Map::Direct)
    }

    /// Has all that is booted from now on boot this. Before there are threads.
    pub fn choose(self) {
        if let Some(map) = self.map {
            env::set_var(VARIABLE, map.name());
        }
    }
}

/// The kernel that was chosen.
pub fn variant() -> Variant {
    let chosen = env::var_os(VARIABLE);
    let is = |map: &Map| chosen.as_ref().is_some_and(|chosen| chosen == map.name());
    Map::ALL.into_iter().find(is).unwrap_or(Map::Direct).variant()
}
