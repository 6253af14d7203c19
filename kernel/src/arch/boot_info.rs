//! What the machine told us at boot, in a form that no longer depends on who told it.
//!
//! Filled in by the architecture, read by the code that turns all memory into capabilities and
//! starts `init`. Everything has a fixed upper bound, because nothing can be allocated yet.

use core::ops::Range;
use paging::PAGE;

/// Most regions that a memory map may have; what does not fit is left out, and so never used.
pub const MAX_REGIONS: usize = 160;
/// Most cores that are listed.
pub const MAX_CORES: usize = 64;
/// Most windows for registers of devices.
pub const MAX_WINDOWS: usize = 4;
/// Longest command line that is kept, in bytes.
pub const MAX_CMDLINE: usize = 1024;

/// What a piece of physical memory is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RegionKind {
    /// Free for `init` to have.
    Usable,
    /// Not memory, or the firmware's for ever.
    Reserved,
    /// Tables of the firmware, readable.
    Acpi,
    /// The kernel image.
    Kernel,
    /// Page tables, stacks and core structures that the kernel made for itself at boot.
    KernelData,
    /// The boot archive (module 0).
    Archive,
    /// Another core's share, or the channels between cores (`shares`).
    Given,
    /// Memory that keeps its contents without power.
    Persistent,
    /// The same, of which the machine says that nothing can be stored in it.
    ReadOnly,
}

impl RegionKind {
    /// Is it memory that is zeroed before it is used, or in use already?
    pub fn is_volatile(self) -> bool {
        !matches!(self, Self::Reserved | Self::Persistent | Self::ReadOnly)
    }
}

/// A piece of physical memory of one kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Region {
    /// First byte; for [`RegionKind::Usable`] a multiple of 4 KiB.
    pub start: u64,
    /// One past the last byte.
    pub end: u64,
    pub kind: RegionKind,
    /// Number of the NUMA node, 0 if the machine does not say.
    pub node: u32,
}

const NOTHING: Region = Region { start: 0, end: 0, kind: RegionKind::Reserved, node: 0 };

/// A core that the firmware lists as usable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CoreInfo {
    pub apic_id: u32,
    pub node: u32,
}

/// A list of at most `N` things, without an allocator.
#[derive(Clone, Copy)]
pub struct List<T: Copy, const N: usize> {
    items: [T; N],
    len: usize,
}

impl<T: Copy, const N: usize> List<T, N> {
    /// An empty list; `filler` occupies the unused places.
    pub const fn new(filler: T) -> Self {
        List { items: [filler; N], len: 0 }
    }

    /// Appends `item`. `false` if the list is full and the item was dropped.
    pub fn push(&mut self, item: T) -> bool {
        let Some(place) = self.items.get_mut(self.len) else { return false };
        *place = item;
        self.len += 1;
        true
    }

    pub fn as_slice(&self) -> &[T] {
        &self.items[..self.len]
    }

    pub fn as_mut_slice(&mut self) -> &mut [T] {
        &mut self.items[..self.len]
    }

    pub fn clear(&mut self) {
        self.len = 0;
    }
}

/// Everything known about the machine when `init` is started.
pub struct BootInfo {
    /// Sorted by address, without overlaps.
    pub memory: List<Region, MAX_REGIONS>,
    cmdline: List<u8, MAX_CMDLINE>,
    /// Physical addresses of the boot archive; empty if there is none.
    pub archive: Range<u64>,
    /// The boot core first.
    pub cores: List<CoreInfo, MAX_CORES>,
    /// The memory of the other cores' first domains, by the numbers of the cores; empty for a core
    /// that has none.
    pub shares: [Range<u64>; MAX_CORES],
    /// The memory for channels between the monitors; empty if there is none.
    pub channels: Range<u64>,
    /// Physical addresses that are no memory, at which devices on buses show their registers.
    pub windows: List<(u64, u64), MAX_WINDOWS>,
    /// Physical address of the page with the registers of the timer (HPET), or 0.
    pub timer: u64,
    /// Ticks of the time stamp counter in a second.
    pub tsc_hz: u64,
    /// Does persistent memory keep what the caches hold when the power fails? Else only what was written back.
    pub caches_persist: bool,
    /// Wall clock at boot, in seconds since 1970 (UTC).
    pub epoch_seconds: u64,
    /// Time stamp counter at the moment that `epoch_seconds` was read.
    pub epoch_tsc: u64,
}

/// The largest piece of a kind.
fn largest(all: &[Region], kind: RegionKind) -> Option<&Region> {
    all.iter().filter(|r| r.kind == kind).max_by_key(|r| r.end - r.start)
}

impl BootInfo {
    pub const fn new() -> Self {
        BootInfo {
            memory: List::new(NOTHING),
            cmdline: List::new(0),
            archive: 0..0,
            cores: List::new(CoreInfo { apic_id: 0, node: 0 }),
            shares: [const { 0..0 }; MAX_CORES],
            channels: 0..0,
            windows: List::new((0, 0)),
            timer: 0,
            tsc_hz: 0,
            caches_persist: false,
            epoch_seconds: 0,
            epoch_tsc: 0,
        }
    }

    /// The command line, without its terminator. What is not UTF-8 counts as empty.
    pub fn cmdline(&self) -> &str {
        core::str::from_utf8(self.cmdline.as_slice()).unwrap_or("")
    }

    /// The value of `name=value` on the command line, or "" for a bare `name`.
    pub fn option(&self, name: &str) -> Option<&str> {
        self.cmdline().split_ascii_whitespace().find_map(|word| {
            let rest = word.strip_prefix(name)?;
            if rest.is_empty() {
                Some("")
            } else {
                rest.strip_prefix('=')
            }
        })
    }

    /// Adds what the firmware says; a later entry wins over an earlier one.
    pub fn add_memory(&mut self, region: Region) {
        self.split_around(&region, |_| None);
        if region.start < region.end {
            self.memory.push(region);
        }
        self.memory.as_mut_slice().sort_unstable_by_key(|r| r.start);
    }

    /// Declares that `range` is of `kind`, whatever the firmware said, and keeps its nodes.
    pub fn mark(&mut self, range: Range<u64>, kind: RegionKind) {
        self.change(range, |part| Region { kind, ..part });
    }

    /// Declares that what is known of `range` belongs to NUMA node `node`.
    pub fn set_node(&mut self, range: Range<u64>, node: u32) {
        self.change(range, |part| Region { node, ..part });
    }

    /// Rounds usable memory inward to pages.
    pub fn round_to_pages(&mut self) {
        let old = core::mem::replace(&mut self.memory, List::new(NOTHING));
        for region in old.as_slice() {
            let mut region = *region;
            if region.kind == RegionKind::Usable {
                region.start = region.start.next_multiple_of(PAGE);
                region.end &= !(PAGE - 1);
            }
            if region.start < region.end {
                self.memory.push(region);
            }
        }
    }

    /// One past the highest byte of anything that is memory, but for what is persistent.
    pub fn top_of_memory(&self) -> u64 {
        let memory = self.memory.as_slice().iter().filter(|r| r.kind.is_volatile());
        memory.map(|r| r.end).max().unwrap_or(0)
    }

    /// Is anything in `range` memory?
    pub fn has_memory(&self, range: Range<u64>) -> bool {
        let mut memory = self.memory.as_slice().iter().filter(|r| r.kind != RegionKind::Reserved);
        memory.any(|r| r.start < range.end && range.start < r.end)
    }

    /// The persistent memory that programs get: the largest piece.
    pub fn persistent(&self) -> Option<&Region> {
        largest(self.memory.as_slice(), RegionKind::Persistent)
    }

    /// The persistent memory that programs get only to read: the largest piece.
    pub fn read_only(&self) -> Option<&Region> {
        largest(self.memory.as_slice(), RegionKind::ReadOnly)
    }

    /// The last whole page of usable memory in `range`.
    pub fn last_usable_page(&self, range: Range<u64>) -> Option<u64> {
        let usable = self.memory.as_slice().iter().filter(|r| r.kind == RegionKind::Usable);
        let pages = usable.filter_map(|r| {
            let page = (r.end.min(range.end) & !(PAGE - 1)).checked_sub(PAGE)?;
            (page >= r.start.max(range.start)).then_some(page)
        });
        pages.max()
    }

    /// Fills in [`BootInfo::windows`]: whatever the map says nothing about between the highest memory
    /// below `end` and `end`, in whole MiB, so that nothing that begins in an unfinished page is in it.
    pub fn find_windows(&mut self, end: u64) {
        const MIB: u64 = 1 << 20;
        let below = self.memory.as_slice().iter().filter(|r| r.start < end);
        let memory = below.clone().filter(|r| r.kind != RegionKind::Reserved);
        let mut from = memory.map(|r| r.end).max().unwrap_or(0);
        let known = below.map(|r| (r.start, r.end)).chain([(end, end)]);
        for (start, over) in known {
            let (first, last) = (from.next_multiple_of(MIB), start & !(MIB - 1));
            if first < last {
                self.windows.push((first, last));
            }
            from = from.max(over);
        }
    }

    fn change(&mut self, range: Range<u64>, new: impl Fn(Region) -> Region) {
        let range = Region { start: range.start, end: range.end, ..NOTHING };
        self.split_around(&range, |part| Some(new(part)));
        self.memory.as_mut_slice().sort_unstable_by_key(|r| r.start);
    }

    /// Cuts every region at the edges of `range`, and puts what `inside` makes of the parts within
    /// it in their place. A part that finds no room is lost, which only means it is never used.
    fn split_around(&mut self, range: &Region, inside: impl Fn(Region) -> Option<Region>) {
        let old = core::mem::replace(&mut self.memory, List::new(NOTHING));
        for &region in old.as_slice() {
            let (from, to) = (region.start.max(range.start), region.end.min(range.end));
            if from >= to {
                self.memory.push(region);
                continue;
            }
            let parts = [
                Some(Region { end: from, ..region }),
                inside(Region { start: from, end: to, ..region }),
                Some(Region { start: to, ..region }),
            ];
            for part in parts.into_iter().flatten().filter(|p| p.start < p.end) {
                self.memory.push(part);
            }
        }
    }

    /// Keeps at most [`MAX_CMDLINE`] bytes of `text`.
    pub fn set_cmdline(&mut self, text: &[u8]) {
        self.cmdline.clear();
        for &byte in text {
            self.cmdline.push(byte);
        }
    }
}

impl Default for BootInfo {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_found_by_whole_name() {
        let mut info = BootInfo::new();
        info.set_cmdline(b"verbose mem=64M  memory=1");
        assert_eq!(info.option("mem"), Some("64M"));
        assert_eq!(info.option("verbose"), Some(""));
        assert_eq!(info.option("verb"), None);
        assert_eq!(info.option("memory"), Some("1"));
    }

    fn map(info: &BootInfo) -> Vec<(u64, u64, RegionKind, u32)> {
        info.memory.as_slice().iter().map(|r| (r.start, r.end, r.kind, r.node)).collect()
    }

    fn usable(start: u64, end: u64) -> Region {
        Region { start, end, kind: RegionKind::Usable, node: 0 }
    }

    #[test]
    fn marking_and_nodes_cut_regions_at_their_edges() {
        let mut info = BootInfo::new();
        info.add_memory(usable(0x10_0000, 0x80_0000));
        info.add_memory(usable(0, 0x9_f000));
        info.mark(0x20_0000..0x30_0000, RegionKind::Kernel);
        info.set_node(0x28_0000..0x100_0000, 1);
        use RegionKind::*;
        assert_eq!(
            map(&info),
            [
                (0, 0x9_f000, Usable, 0),
                (0x10_0000, 0x20_0000, Usable, 0),
                (0x20_0000, 0x28_0000, Kernel, 0),
                (0x28_0000, 0x30_0000, Kernel, 1),
                (0x30_0000, 0x80_0000, Usable, 1),
            ]
        );
        assert_eq!(info.top_of_memory(), 0x80_0000);
    }

    #[test]
    fn a_later_entry_wins_over_an_earlier_one() {
        let mut info = BootInfo::new();
        info.add_memory(usable(0, 0x3000));
        info.add_memory(Region { kind: RegionKind::Reserved, ..usable(0x1000, 0x2000) });
        info.add_memory(usable(0x5000, 0x5000));
        use RegionKind::*;
        assert_eq!(
            map(&info),
            [(0, 0x1000, Usable, 0), (0x1000, 0x2000, Reserved, 0), (0x2000, 0x3000, Usable, 0)]
        );
    }

    #[test]
    fn windows_are_what_the_map_leaves_open_above_the_memory() {
        const MIB: u64 = 1 << 20;
        let reserved = |start, end| Region { kind: RegionKind::Reserved, ..usable(start, end) };
        let mut info = BootInfo::new();
        info.add_memory(usable(0, 0x9_f000));
        info.add_memory(usable(MIB, 64 * MIB - 0x1000));
        info.add_memory(reserved(64 * MIB - 0x1000, 65 * MIB + 1));
        info.add_memory(reserved(80 * MIB, 90 * MIB));
        info.add_memory(usable(200 * MIB, 300 * MIB));
        info.find_windows(100 * MIB);
        let expected = [(66 * MIB, 80 * MIB), (90 * MIB, 100 * MIB)];
        assert_eq!(info.windows.as_slice(), expected);
    }

    #[test]
    fn usable_memory_is_rounded_inward() {
        let mut info = BootInfo::new();
        info.add_memory(usable(0x10, 0x9_fc00));
        info.add_memory(usable(0xa_0010, 0xa_0fff));
        info.round_to_pages();
        assert_eq!(map(&info), [(0x1000, 0x9_f000, RegionKind::Usable, 0)]);
    }

    #[test]
    fn the_last_usable_page_is_whole_and_in_the_range() {
        let mut info = BootInfo::new();
        info.add_memory(usable(0, 0x9_fc00));
        info.add_memory(usable(0x10_0000, 0x80_0000));
        assert_eq!(info.last_usable_page(0x1000..0xa_0000), Some(0x9_e000));
        assert_eq!(info.last_usable_page(0x1000..0x9_e800), Some(0x9_d000));
        assert_eq!(info.last_usable_page(0x9_e001..0xa_0000), None);
        assert_eq!(info.last_usable_page(0x9_f000..0x10_1000), Some(0x10_0000));
        info.mark(0..0x10_0000, RegionKind::Reserved);
        assert_eq!(info.last_usable_page(0x1000..0xa_0000), None);
    }

    #[test]
    fn a_full_list_drops_what_does_not_fit() {
        let mut list: List<u32, 2> = List::new(0);
        assert!(list.push(1) && list.push(2));
        assert!(!list.push(3));
        assert_eq!(list.as_slice(), &[1, 2]);
    }
}
