//! What is to be forgotten.

/// Most ranges of pages that a request names.
pub const MOST_RANGES: usize = if cfg!(test) { 2 } else { 24 };

const COUNT_BITS: u32 = 9;
const LEVEL: u64 = 7;
const VA: u64 = !0xfff;

/// Adjacent pages of one size.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Pages {
    /// Address of the first.
    va: u64,
    /// 1 to 512.
    count: u32,
    /// Level of the table that maps them: 1 for 4 KiB, 2 for 2 MiB, 3 for 1 GiB.
    level: u8,
}

impl Pages {
    /// `count` pages, 1 to 512, from `va` on, which tables of `level` map. The address is a multiple of
    /// their size.
    #[inline]
    pub const fn new(va: u64, level: u8, count: u32) -> Pages {
        debug_assert!(count >= 1 && count <= 1 << COUNT_BITS && va & !VA == 0);
        Pages { va, level, count }
    }

    /// How many.
    #[inline]
    pub const fn count(self) -> u32 {
        self.count
    }

    /// The address of each.
    #[inline]
    pub fn addresses(self) -> impl Iterator<Item = u64> {
        let bytes = 1 << (3 + 9 * u32::from(self.level));
        (0..u64::from(self.count)).map(move |n| self.va + n * bytes)
    }

    pub(crate) fn to_word(self) -> u64 {
        self.va | u64::from(self.level) << COUNT_BITS | u64::from(self.count - 1)
    }

    pub(crate) fn from_word(word: u64) -> Pages {
        let count = (word & ((1 << COUNT_BITS) - 1)) as u32 + 1;
        Pages { va: word & VA, level: (word >> COUNT_BITS & LEVEL) as u8, count }
    }
}

/// What another core is asked to forget.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Request {
    /// Every translation but the kernel's.
    Everything,
    /// Those of some pages, and what is cached of upper-level tables.
    Pages(Pages),
}

/// What an event takes away, as long as it is little.
#[derive(Clone)]
pub struct Forget {
    pages: [Pages; MOST_RANGES],
    /// How many of them; more for everything.
    ranges: usize,
    /// Pages in all of them.
    count: u32,
}

impl Forget {
    /// Everything, which need not be made for each who asks for it.
    pub const ALL: &'static Forget = &Forget { ranges: MOST_RANGES + 1, ..Forget::nothing() };

    /// Nothing.
    pub const fn nothing() -> Forget {
        const NONE: Pages = Pages { va: 0, level: 0, count: 0 };
        Forget { pages: [NONE; MOST_RANGES], ranges: 0, count: 0 }
    }

    /// Everything.
    #[inline]
    pub fn everything(&mut self) {
        self.ranges = MOST_RANGES + 1;
    }

    /// Is it everything?
    #[inline]
    pub fn is_everything(&self) -> bool {
        self.ranges > MOST_RANGES
    }

    /// These pages too; everything if that are more than `most`, or too many ranges.
    pub fn add(&mut self, pages: Pages, most: u32) {
        if self.is_everything() {
            return;
        }
        self.count += pages.count;
        match self.pages.get_mut(self.ranges) {
            Some(place) if self.count <= most => {
                *place = pages;
                self.ranges += 1;
            }
            _ => self.everything(),
        }
    }

    /// The pages; `None` for everything.
    #[inline]
    pub fn pages(&self) -> Option<&[Pages]> {
        self.pages.get(..self.ranges)
    }

    /// How many pages they are; 0 for everything.
    pub fn count(&self) -> u32 {
        if self.is_everything() {
            0
        } else {
            self.count
        }
    }
}

impl Default for Forget {
    fn default() -> Self {
        Self::nothing()
    }
}
