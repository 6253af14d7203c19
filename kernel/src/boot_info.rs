//! What the machine told us at boot, in a form that no longer depends on who told it.
//!
//! Filled in by the architecture, read by the code that turns all memory into capabilities and
//! starts `init`. Everything has a fixed upper bound, because nothing can be allocated yet.

use core::ops::Range;

/// Most regions that a memory map may have; what does not fit is left out, and so never used.
pub const MAX_REGIONS: usize = 96;
/// Most cores that are listed.
pub const MAX_CORES: usize = 64;
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
    /// Memory that keeps its contents without power.
    Persistent,
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
    /// Ticks of the time stamp counter in a second.
    pub tsc_hz: u64,
    /// Wall clock at boot, in seconds since 1970 (UTC).
    pub epoch_seconds: u64,
    /// Time stamp counter at the moment that `epoch_seconds` was read.
    pub epoch_tsc: u64,
}

impl BootInfo {
    pub const fn new() -> Self {
        let nothing = Region { start: 0, end: 0, kind: RegionKind::Reserved, node: 0 };
        BootInfo {
            memory: List::new(nothing),
            cmdline: List::new(0),
            archive: 0..0,
            cores: List::new(CoreInfo { apic_id: 0, node: 0 }),
            tsc_hz: 0,
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
            if rest.is_empty() { Some("") } else { rest.strip_prefix('=') }
        })
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

    #[test]
    fn a_full_list_drops_what_does_not_fit() {
        let mut list: List<u32, 2> = List::new(0);
        assert!(list.push(1) && list.push(2));
        assert!(!list.push(3));
        assert_eq!(list.as_slice(), &[1, 2]);
    }
}
