//! How much of the address space is in memory.

use crate::map::Flags;
use crate::space::Space;

/// How much of a range is in memory, in pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Residency {
    /// Anons that are the process's alone.
    pub own: u64,
    /// Anons that perhaps another process has, too.
    pub shared: u64,
    /// Pages of objects that the page tables show.
    pub objects: u64,
}

impl Residency {
    /// All pages.
    pub fn all(&self) -> u64 {
        self.own + self.shared + self.objects
    }
}

/// What has to be counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    /// Pages of objects that the page tables show.
    pub files: u64,
    /// Last-level tables.
    pub tables: u64,
    /// Those of them that perhaps another process has, too.
    pub shared_tables: u64,
}

impl Space {
    /// Counts. Takes as long as to look at each region.
    pub fn usage(&self) -> Usage {
        let mut usage = Usage::default();
        // Both are in order, so none is searched.
        let mut chunks = self.amap.chunks().peekable();
        for (key, region) in self.pmap.regions() {
            usage.tables += 1;
            usage.shared_tables += u64::from(region.shared);
            for half in [0, 1] {
                let mut shown = region.present_half(half);
                let number = key * 2 + u64::from(half);
                while chunks.next_if(|&(other, _)| other < number).is_some() {}
                if let Some((_, chunk)) = chunks.next_if(|&(other, _)| other == number) {
                    shown = shown.minus(&chunk.filled);
                }
                if !shown.is_empty() {
                    usage.files += u64::from(shown.count());
                }
            }
        }
        usage
    }

    /// What is in memory of pages `start..end`.
    pub fn residency(&self, start: u64, end: u64) -> Residency {
        let mut all = Residency::default();
        let mut half = self.next_half(start >> 8);
        while half < end.div_ceil(256) {
            let first = half << 8;
            let (lo, hi) = (start.max(first) - first, end.min(first + 256) - first);
            let (lo, hi) = (lo as u32, hi as u32);
            if let Some(chunk) = self.amap.chunk(half) {
                let own = chunk.own().within(lo, hi).count() as u64;
                all.own += own;
                all.shared += chunk.filled.within(lo, hi).count() as u64 - own;
            }
            all.objects += self.objects_in(half, lo, hi);
            half = self.next_half(half + 1);
        }
        all
    }

    /// Of one entry.
    pub(crate) fn locked(flags: Flags, resident: &Residency) -> u64 {
        if flags.has(Flags::LOCKED) {
            resident.all()
        } else {
            0
        }
    }

    /// Pages of objects that the tables show in `lo..hi` of a half of a region: what is present without an anon.
    fn objects_in(&self, half: u64, lo: u32, hi: u32) -> u64 {
        let Some(region) = self.pmap.region(half >> 1) else { return 0 };
        let present = region.present_half((half & 1) as u32).within(lo, hi);
        let shown = match self.amap.chunk(half) {
            Some(chunk) => present.minus(&chunk.filled),
            None => present,
        };
        shown.count() as u64
    }
}
