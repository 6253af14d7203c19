//! The entries of a morsel's tables.
//!
//! ```text
//!  63  58  54   53       52      51 ... 12   10      9     7      6 5    2 1 0
//! ┌──┬────┬───┬────────┬───────┬───────────┬───────┬──────┬──────┬─────┬───────┐
//! │0 │ 0  │out│replaces│entered│ frame     │ claim │zeros │ huge │ d a │ u w p │
//! └──┴────┴───┴────────┴───────┴───────────┴───────┴──────┴──────┴─────┴───────┘
//! ```
//!
//! | state | p w u | |
//! |---|---|---|
//! | empty | 0 | the word is 0 |
//! | zeros | p u | a hole that was read: leads to the constant zero page, or to constant tables of it |
//! | claim | none | decided, but not yet to be used; whoever meets it [completes](crate::Morsels) it |
//! | out | none | the page is in a store: leads to its slot, which is counted as a page is; in last-level tables |
//! | own | p w u | nobody else leads to what is below |
//! | shared | p u | perhaps somebody does: to be copied, or found to be alone, before it is written |
//!
//! A path may be written if *all* its entries are own: below a shared entry there may be own ones.

use crate::memory::Frame;
use paging::{Entry, Flags};

const ZEROS: Flags = Flags::from_bits(1 << 9);
const CLAIM: Flags = Flags::from_bits(1 << 10);
const ENTERED: Flags = Flags::from_bits(1 << 52);
const REPLACES: Flags = Flags::from_bits(1 << 53);
const OUT: Flags = Flags::from_bits(1 << 54);
const ACCESS: Flags = Flags::PRESENT.with(Flags::WRITE).with(Flags::USER);

/// What an entry leads to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Page,
    /// 2 MiB.
    Huge,
    /// A table of this level: its entries cover 512^(level - 1) pages.
    Table(u8),
}

impl Kind {
    /// What the pool calls its size.
    pub fn order(self) -> u8 {
        match self {
            Kind::Huge => 9,
            _ => 0,
        }
    }
}

/// A frame, or 512, as an entry leads to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Child {
    pub frame: Frame,
    pub kind: Kind,
}

impl Child {
    pub(crate) fn each_frame(self, f: impl FnMut(Frame)) {
        let first = self.frame.0;
        (first..first + (1 << self.kind.order())).map(Frame).for_each(f);
    }
}

/// An entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Link(pub u64);

impl Link {
    pub const EMPTY: Link = Link(0);

    fn make(frame: Frame, flags: Flags) -> Link {
        Link(Entry::new(frame.0 << 12, flags).bits())
    }
    fn flags(self) -> Flags {
        Entry::from_bits(self.0).flags()
    }
    fn with(self, flags: Flags) -> Link {
        Link(self.0 | flags.bits())
    }
    fn without(self, flags: Flags) -> Link {
        Link(self.0 & !flags.bits())
    }
    fn has(self, flags: Flags) -> bool {
        self.flags().contains(flags)
    }

    /// Leads to `child` alone. `born_dirty`: the processor need not mark it accessed nor dirty.
    pub fn own(child: Child, born_dirty: bool) -> Link {
        let mut flags = ACCESS;
        if born_dirty {
            flags = flags.with(Flags::ACCESSED);
        }
        if born_dirty && !matches!(child.kind, Kind::Table(_)) {
            flags = flags.with(Flags::DIRTY);
        }
        if child.kind == Kind::Huge {
            flags = flags.with(Flags::HUGE);
        }
        Link::make(child.frame, flags)
    }
    /// Shows the constant zeros in `frame`, a page or a table.
    pub fn zeros(frame: Frame) -> Link {
        Link::make(frame, Flags::PRESENT.with(Flags::USER).with(Flags::ACCESSED).with(ZEROS))
    }
    /// Leads to a slot of a store.
    pub fn out(slot: Frame) -> Link {
        Link::make(slot, OUT)
    }
    #[inline(always)]
    pub fn is_out(self) -> bool {
        self.has(OUT)
    }
    /// Was it used since the mark was cleared?
    pub fn is_accessed(self) -> bool {
        self.has(Flags::ACCESSED)
    }
    /// Without that mark.
    pub fn rested(self) -> Link {
        self.without(Flags::ACCESSED)
    }
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
    /// Nothing is stored there: empty, or zeros are shown.
    pub fn is_hole(self) -> bool {
        self.is_empty() || self.has(ZEROS)
    }
    pub fn shows_zeros(self) -> bool {
        self.has(ZEROS)
    }
    /// Of an entry of a last-level table: leads to a page that is there, and not by a claim.
    #[inline(always)]
    pub fn is_page(self) -> bool {
        self.0 & Flags::PRESENT.with(ZEROS).bits() == Flags::PRESENT.bits()
    }
    pub fn is_claim(self) -> bool {
        self.has(CLAIM)
    }
    pub fn is_own(self) -> bool {
        self.has(ACCESS)
    }
    pub fn is_huge(self) -> bool {
        self.has(Flags::HUGE)
    }
    /// The table below is used by who did not come through this entry, or one further below is.
    pub fn is_entered(self) -> bool {
        self.has(ENTERED)
    }
    /// A claim before whose completion translations must be forgotten.
    pub fn replaces(self) -> bool {
        self.has(REPLACES)
    }
    pub fn frame(self) -> Frame {
        Frame(Entry::from_bits(self.0).address() >> 12)
    }
    /// Can these algorithms have written it into a table of `level`? As it will be when a claim is completed.
    #[inline]
    pub(crate) fn is_sound(self, level: u8) -> bool {
        let marks = ACCESS.with(Flags::ACCESSED).with(Flags::DIRTY).with(ENTERED);
        let (huge, table) = (self.is_huge(), level > 1 && !self.is_huge());
        self.has(Flags::PRESENT.with(Flags::USER))
            && self.without(marks.with(Flags::HUGE)).0 == self.frame().0 << 12
            && (!huge || level == 2 && self.frame().0.is_multiple_of(512))
            && (!self.is_entered() || table)
    }
    /// What an entry of a table of `level` leads to.
    #[inline]
    pub fn child(self, level: u8) -> Child {
        let kind = match level {
            1 => Kind::Page,
            _ if self.is_huge() => Kind::Huge,
            _ => Kind::Table(level - 1),
        };
        Child { frame: self.frame(), kind }
    }
    /// The claim for it: neither processor nor IOMMU uses an entry without its access bits.
    pub fn claimed(self, replaces: bool) -> Link {
        let claim = self.without(ACCESS).with(CLAIM);
        if replaces {
            claim.with(REPLACES)
        } else {
            claim
        }
    }
    /// What a claim becomes.
    pub fn completed(self) -> Link {
        self.without(CLAIM.with(REPLACES)).with(ACCESS)
    }
    /// Without what only the last run knew.
    #[inline(always)]
    pub(crate) fn tidy(self) -> Link {
        match self {
            link if link.is_hole() => Link::EMPTY,
            link if link.is_claim() => link.completed().left(),
            link => link.left(),
        }
    }
    /// Shared.
    pub fn lowered(self) -> Link {
        self.without(Flags::WRITE)
    }
    /// Own again.
    pub fn raised(self) -> Link {
        self.with(Flags::WRITE)
    }
    /// Was its page written to since the mark was cleared?
    pub fn is_dirty(self) -> bool {
        self.has(Flags::DIRTY)
    }
    /// Without that mark.
    pub fn clean(self) -> Link {
        self.without(Flags::DIRTY)
    }
    pub fn entered(self) -> Link {
        self.with(ENTERED)
    }
    pub fn left(self) -> Link {
        self.without(ENTERED)
    }
}

/// Which entry of a table of `level` leads to `page`.
pub fn index(page: u64, level: u8) -> usize {
    ((page >> (9 * (level as u32 - 1))) & 511) as usize
}

/// How many pages an entry of a table of `level` covers.
pub fn span(level: u8) -> u64 {
    1 << (9 * (level as u32 - 1))
}

/// How many pages a morsel of `order` has at most.
pub fn pages_of(order: u8) -> u64 {
    1 << (9 * order as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_give_no_access_and_remember_what_they_become() {
        for kind in [Kind::Page, Kind::Huge, Kind::Table(2)] {
            for dirty in [false, true] {
                let own = Link::own(Child { frame: Frame(0x200), kind }, dirty);
                let claim = own.claimed(true);
                assert_eq!(claim.0 & 0b111, 0);
                assert!(claim.is_claim() && claim.replaces() && !claim.is_hole());
                assert_eq!(claim.completed(), own);
                assert_eq!(own.claimed(false).completed(), own);
            }
        }
    }

    #[test]
    fn only_bits_that_processor_and_iommu_ignore_are_used() {
        let ours = ZEROS.with(CLAIM).with(ENTERED).with(REPLACES).with(OUT).bits();
        let free: u64 = 0b11 << 9 | 0x7f << 52;
        assert_eq!(ours & !free, 0);
    }

    #[test]
    fn pages_are_found_by_nine_bits_a_level() {
        assert_eq!(
            (index(511, 1), index(512, 1), index(512, 2), index(1 << 18, 3)),
            (511, 0, 1, 1)
        );
        assert_eq!((span(1), span(2), pages_of(0), pages_of(2)), (1, 512, 1, 1 << 18));
    }
}
