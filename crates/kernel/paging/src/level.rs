//! The levels of the tree of page tables.

/// A kind of page table, from the last level up.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Level {
    /// Page table: its entries map 4 KiB pages.
    Pt = 1,
    /// Page directory: its entries cover 2 MiB.
    Pd = 2,
    /// Page directory pointer table: its entries cover 1 GiB.
    Pdpt = 3,
    /// Top of four-level paging: its entries cover 512 GiB.
    Pml4 = 4,
    /// Top of five-level paging: its entries cover 256 TiB.
    Pml5 = 5,
}

impl Level {
    /// The level with number `n` (1 is [`Level::Pt`]).
    pub const fn from_number(n: u8) -> Option<Level> {
        Some(match n {
            1 => Level::Pt,
            2 => Level::Pd,
            3 => Level::Pdpt,
            4 => Level::Pml4,
            5 => Level::Pml5,
            _ => return None,
        })
    }

    /// The kind of table that an entry of this one may point to.
    pub const fn below(self) -> Option<Level> {
        Level::from_number(self as u8 - 1)
    }

    /// Lowest bit of a virtual address that selects an entry of this table.
    pub const fn shift(self) -> u32 {
        3 + 9 * (self as u32)
    }

    /// Bytes of virtual address space that one entry covers.
    pub const fn entry_span(self) -> u64 {
        1 << self.shift()
    }

    /// Which entry of this table translates `va`, 0 to 511.
    pub const fn index(self, va: u64) -> usize {
        ((va >> self.shift()) & 511) as usize
    }

    /// Whether an entry of this table may map a page (a 1 GiB page only where the processor can).
    pub const fn maps_pages(self) -> bool {
        matches!(self, Level::Pt | Level::Pd | Level::Pdpt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_those_of_the_manual() {
        assert_eq!(Level::Pt.entry_span(), 4 << 10);
        assert_eq!(Level::Pd.entry_span(), 2 << 20);
        assert_eq!(Level::Pdpt.entry_span(), 1 << 30);
        assert_eq!(Level::Pml4.entry_span(), 512 << 30);
    }

    #[test]
    fn indices_take_an_address_apart_and_back() {
        let va = 0x7f12_3456_7000;
        let levels = [Level::Pt, Level::Pd, Level::Pdpt, Level::Pml4];
        let sum: u64 = levels.iter().map(|l| l.index(va) as u64 * l.entry_span()).sum();
        assert_eq!(sum, va);
    }

    #[test]
    fn every_level_but_the_last_has_one_below() {
        assert_eq!(Level::Pml4.below(), Some(Level::Pdpt));
        assert_eq!(Level::Pt.below(), None);
    }
}
