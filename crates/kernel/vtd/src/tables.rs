//! Entries of the root table and of context tables.

use crate::registers::Abilities;

/// Words of an entry of either table.
pub const ENTRY_WORDS: usize = 2;
/// Entries of a context table: one for each function of a bus.
pub const CONTEXTS: usize = 256;
/// Level of the top table of a translation: it covers addresses of 39 bits.
pub const LEVEL: u8 = 3;

const PRESENT: u64 = 1;
const PASS: u64 = 2 << 2;
const ADDRESS: u64 = 0x000f_ffff_ffff_f000;
/// The code of addresses of 39 bits.
const WIDTH: u64 = 1;
const DOMAIN: u32 = 8;
/// The domain of all that pass. (Some units keep 0 for themselves.)
const PASSING: u64 = 1;
/// The domain of function 0 of a bus, if it is translated.
const FIRST_DOMAIN: u64 = 2;

/// The entry of the root table for a bus: physical address of its context table.
pub const fn root_entry(contexts: u64) -> [u64; ENTRY_WORDS] {
    [contexts & ADDRESS | PRESENT, 0]
}

/// What becomes of the requests of a function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Context {
    /// All are refused.
    Refuse,
    /// Addresses are physical ones.
    Pass,
    /// Addresses are translated by the table at a physical address.
    Translate(u64),
}

impl Context {
    /// The entry of a function (device and function number) of a bus. Two functions never have a domain in common, so that
    /// translations of one are never used for the other.
    pub const fn encode(self, function: u8, abilities: Abilities) -> [u64; ENTRY_WORDS] {
        match self {
            Context::Refuse => [0, 0],
            Context::Pass => [PASS | PRESENT, PASSING << DOMAIN | abilities.widest()],
            Context::Translate(table) => {
                [table & ADDRESS | PRESENT, (FIRST_DOMAIN + function as u64) << DOMAIN | WIDTH]
            }
        }
    }

    /// What the first word of an entry says.
    pub const fn decode(word: u64) -> Context {
        match (word & PRESENT != 0, word & PASS != 0) {
            (false, _) => Context::Refuse,
            (true, true) => Context::Pass,
            (true, false) => Context::Translate(word & ADDRESS),
        }
    }
}
