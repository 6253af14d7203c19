//! One entry of a page table: a physical address and flags in a word.

use crate::Level;
use core::ops::{BitAnd, BitOr};

/// A set of the flag bits of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
#[repr(transparent)]
pub struct Flags(u64);

impl Flags {
    pub const NONE: Flags = Flags(0);
    pub const PRESENT: Flags = Flags(1);
    /// Writable. In an upper-level entry: anything below may be writable.
    pub const WRITE: Flags = Flags(1 << 1);
    /// Reachable from user mode; intersected over the levels like [`Flags::WRITE`].
    pub const USER: Flags = Flags(1 << 2);
    pub const WRITE_THROUGH: Flags = Flags(1 << 3);
    pub const NO_CACHE: Flags = Flags(1 << 4);
    pub const ACCESSED: Flags = Flags(1 << 5);
    /// Written to. Only entries that map a page have it.
    pub const DIRTY: Flags = Flags(1 << 6);
    /// The entry of a directory maps a page instead of pointing to a table.
    pub const HUGE: Flags = Flags(1 << 7);
    /// Stays in the translation cache when the root changes.
    pub const GLOBAL: Flags = Flags(1 << 8);
    /// The three bits that the processor ignores.
    pub const SOFTWARE: Flags = Flags(0b111 << 9);
    /// May not be executed; united over the levels, unlike the others.
    pub const NO_EXECUTE: Flags = Flags(1 << 63);

    /// Uncached, for the registers of devices.
    pub const DEVICE: Flags = Flags(Self::WRITE_THROUGH.0 | Self::NO_CACHE.0);

    pub const fn from_bits(bits: u64) -> Flags {
        Flags(bits & !Entry::ADDRESS)
    }

    pub const fn bits(self) -> u64 {
        self.0
    }

    pub const fn contains(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// The union, in constants.
    pub const fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    pub const fn without(self, other: Flags) -> Flags {
        Flags(self.0 & !other.0)
    }
}

impl BitOr for Flags {
    type Output = Flags;
    fn bitor(self, other: Flags) -> Flags {
        self.with(other)
    }
}

impl BitAnd for Flags {
    type Output = Flags;
    fn bitand(self, other: Flags) -> Flags {
        Flags(self.0 & other.0)
    }
}

impl core::fmt::Debug for Flags {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let names = [
            (Flags::PRESENT, 'p'),
            (Flags::WRITE, 'w'),
            (Flags::USER, 'u'),
            (Flags::WRITE_THROUGH, 't'),
            (Flags::NO_CACHE, 'c'),
            (Flags::ACCESSED, 'a'),
            (Flags::DIRTY, 'd'),
            (Flags::HUGE, 'h'),
            (Flags::GLOBAL, 'g'),
            (Flags::NO_EXECUTE, 'n'),
        ];
        for (flag, name) in names {
            write!(f, "{}", if self.contains(flag) { name } else { '-' })?;
        }
        Ok(())
    }
}

/// One word of a page table.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
#[repr(transparent)]
pub struct Entry(u64);

impl Entry {
    /// Translates nothing.
    pub const EMPTY: Entry = Entry(0);

    /// The bits that hold a physical address: 12 to 51.
    pub const ADDRESS: u64 = 0x000f_ffff_ffff_f000;

    /// An entry for the table or page at physical address `pa`, a multiple of 4 KiB.
    pub const fn new(pa: u64, flags: Flags) -> Entry {
        debug_assert!(pa & !Self::ADDRESS == 0);
        Entry((pa & Self::ADDRESS) | flags.0)
    }

    /// An entry of a table of `level` that maps a page of that level's size.
    pub const fn page(level: Level, pa: u64, flags: Flags) -> Entry {
        debug_assert!(level.maps_pages() && pa & (level.entry_span() - 1) == 0);
        match level {
            Level::Pt => Entry::new(pa, flags),
            _ => Entry::new(pa, flags.with(Flags::HUGE)),
        }
    }

    pub const fn from_bits(bits: u64) -> Entry {
        Entry(bits)
    }

    pub const fn bits(self) -> u64 {
        self.0
    }

    pub const fn is_present(self) -> bool {
        self.0 & Flags::PRESENT.0 != 0
    }

    /// Whether this entry, in a table of `level`, maps a page.
    pub const fn is_page(self, level: Level) -> bool {
        self.is_present() && (matches!(level, Level::Pt) || self.0 & Flags::HUGE.0 != 0)
    }

    /// Physical address of the table or 4 KiB page. For a larger page take [`Entry::page_address`].
    pub const fn address(self) -> u64 {
        self.0 & Self::ADDRESS
    }

    /// Physical address of the page that this entry of a table of `level` maps. (Bit 12 of a large
    /// page's entry is an attribute, not part of the address.)
    pub const fn page_address(self, level: Level) -> u64 {
        self.address() & !(level.entry_span() - 1)
    }

    pub const fn flags(self) -> Flags {
        Flags(self.0 & !Self::ADDRESS)
    }

    /// The same address with other flags.
    pub const fn with_flags(self, flags: Flags) -> Entry {
        Entry(self.address() | flags.0)
    }
}

impl core::fmt::Debug for Entry {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{:#x} {:?}", self.address(), self.flags())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_gives_back_what_it_was_made_of() {
        let flags = Flags::PRESENT | Flags::WRITE | Flags::NO_EXECUTE;
        let entry = Entry::new(0x000f_ffff_ffff_f000, flags);
        assert_eq!(entry.address(), 0x000f_ffff_ffff_f000);
        assert_eq!(entry.flags(), flags);
        assert!(entry.is_present() && entry.is_page(Level::Pt) && !entry.is_page(Level::Pd));
    }

    #[test]
    fn large_pages_have_the_bit_and_small_ones_do_not() {
        let large = Entry::page(Level::Pd, 0x20_0000, Flags::PRESENT);
        assert!(large.is_page(Level::Pd) && large.flags().contains(Flags::HUGE));
        assert!(!Entry::page(Level::Pt, 0x1000, Flags::PRESENT).flags().contains(Flags::HUGE));
        let with_attribute = Entry::from_bits(large.bits() | 1 << 12);
        assert_eq!(with_attribute.page_address(Level::Pd), 0x20_0000);
    }

    #[test]
    fn flags_are_sets() {
        let rw = Flags::PRESENT | Flags::WRITE;
        assert!(rw.contains(Flags::WRITE) && !rw.contains(Flags::USER));
        assert_eq!(rw.without(Flags::WRITE), Flags::PRESENT);
        assert_eq!(rw & Flags::WRITE, Flags::WRITE);
        assert_eq!(Flags::from_bits(u64::MAX).bits() & Entry::ADDRESS, 0);
    }

    #[test]
    fn new_flags_keep_the_address() {
        let entry = Entry::new(0x5000, Flags::PRESENT | Flags::WRITE);
        assert_eq!(entry.with_flags(Flags::PRESENT).address(), 0x5000);
        assert_eq!(Entry::EMPTY.with_flags(Flags::NONE), Entry::EMPTY);
    }
}
