//! The kernel's own address space, built once at boot and shared by every core and domain.
//!
//! ```text
//! 0xffff_8000_0000_0000   direct map: all physical memory, RW NX; the image as below. Between RAM and
//!                         persistent memory, which may be far above, nothing
//! 0xffff_fe00_0000_0000   in a traced build: buffers of events, RW NX for user mode
//! 0xffff_ffff_8020_0000   the image: text RX, read-only data R NX, data RW NX
//! 0xffff_ffff_c000_0000   registers of devices, uncached
//! 0xffff_ffff_d000_0000   stacks of the cores, each above a page that is never mapped
//! 0xffff_ffff_e000_0000   windows of the cores, in a kernel that has no direct map of user memory
//! ```
//!
//! With five levels of paging these are the same addresses, all below the last entry of the root.
//!
//! No page is both writable and executable, under either of its addresses. The upper halves of all
//! root tables are equal: the tables that entries 256 to 511 point to are made here and stay.

use super::cpu::Features;
use crate::arch::boot_info::{BootInfo, RegionKind};
use core::arch::asm;
use core::sync::atomic::{AtomicU64, AtomicU8, Ordering};
use paging::{Entry, Flags, Level, PhysAddr, VirtAddr, PAGE};

pub use abi::layout::DIRECT_MAP;

pub(super) const KERNEL_BASE: u64 = 0xffff_ffff_8000_0000;
const DEVICES: u64 = 0xffff_ffff_c000_0000;
const STACKS: u64 = 0xffff_ffff_d000_0000;
/// A table of each core.
#[cfg(tessera_map_cache)]
pub const WINDOWS: u64 = 0xffff_ffff_e000_0000;
/// The direct map covers at least what the boot tables cover.
const DIRECT_MAP_AT_LEAST: u64 = 4 << 30;

const READ: Flags = Flags::PRESENT.with(Flags::GLOBAL).with(Flags::NO_EXECUTE);
const READ_WRITE: Flags = READ.with(Flags::WRITE);
const READ_EXECUTE: Flags = Flags::PRESENT.with(Flags::GLOBAL);

/// Physical address of the kernel's own root table; never changes after [`build`].
static KERNEL_ROOT: AtomicU64 = AtomicU64::new(0);

/// Level of root tables; never changes after [`build`].
static ROOT_LEVEL: AtomicU8 = AtomicU8::new(Level::Pml4 as u8);

/// Level of root tables: 4, or 5 with LA57.
#[inline]
pub fn root_level() -> u8 {
    ROOT_LEVEL.load(Ordering::Relaxed)
}

/// First address that is no user address.
pub fn user_end() -> u64 {
    paging::user_end(root_level())
}

/// The end of memory, once the kernel has a map of its own.
static MEMORY_END: AtomicU64 = AtomicU64::new(0);

/// The first address of persistent memory, and its bytes: zero without. Then those of what is only read.
static PERSISTENT: [[AtomicU64; 2]; 2] = [const { [const { AtomicU64::new(0) }; 2] }; 2];

/// Can the kernel read and write what is at physical address `pa`, which a program has mapped?
#[inline(always)]
pub fn is_memory(pa: u64) -> bool {
    let is_in = |[start, bytes]: &[AtomicU64; 2]| {
        pa.wrapping_sub(start.load(Ordering::Relaxed)) < bytes.load(Ordering::Relaxed)
    };
    pa < MEMORY_END.load(Ordering::Relaxed) || PERSISTENT.iter().any(is_in)
}

/// Where the direct map shows physical address `pa`.
pub const fn phys_to_virt(pa: u64) -> *mut u8 {
    DIRECT_MAP.wrapping_add(pa) as *mut u8
}

/// The physical address of something in the direct map.
pub fn virt_to_phys<T>(at: *const T) -> u64 {
    (at as u64).wrapping_sub(DIRECT_MAP)
}

#[repr(align(4096))]
struct Zeros([u8; PAGE as usize]);

static ZEROS: Zeros = Zeros([0; PAGE as usize]);

/// Physical address of a page of zeros that nobody writes to.
#[inline(always)]
pub fn page_of_zeros() -> u64 {
    ZEROS.0.as_ptr() as u64 - KERNEL_BASE
}

/// Where the parts of the image begin and end, as physical addresses.
pub struct Image {
    pub start: u64,
    rodata: u64,
    data: u64,
    pub end: u64,
}

impl Image {
    pub fn get() -> Image {
        extern "C" {
            static __image_start: u8;
            static __rodata_start: u8;
            static __data_start: u8;
            static __image_end: u8;
        }
        let physical = |at: *const u8| at as u64 - KERNEL_BASE;
        Image {
            start: physical(&raw const __image_start),
            rodata: physical(&raw const __rodata_start),
            data: physical(&raw const __data_start),
            end: physical(&raw const __image_end),
        }
    }
}

#[cfg(tessera_map_cache)]
impl Image {
    /// What is never written.
    pub fn constant(&self) -> core::ops::Range<u64> {
        self.start..self.data
    }
}

/// The kernel's only allocator, alive until `init` starts: pages from behind the image, upward.
pub struct BootPages {
    start: u64,
    next: u64,
    end: u64,
}

impl BootPages {
    /// Takes the usable memory behind the image, up to the archive if that follows.
    pub fn new(info: &BootInfo) -> BootPages {
        let start = Image::get().end;
        let mut regions = info.memory.as_slice().iter();
        let region = regions.find(|r| r.start <= start && start < r.end);
        let mut end = region.map_or(start, |r| r.end).min(DIRECT_MAP_AT_LEAST);
        if info.archive.start >= start {
            end = end.min(info.archive.start);
        }
        BootPages { start, next: start, end }
    }

    /// Physical address of `count` adjacent pages, full of zeros.
    pub fn take(&mut self, count: u64) -> u64 {
        let pa = self.next;
        self.next += count * PAGE;
        assert!(self.next <= self.end, "no memory behind the kernel image for its own tables");
        // SAFETY: usable memory that nobody has, below the 4 GiB that are mapped since boot.
        unsafe { phys_to_virt(pa).write_bytes(0, (count * PAGE) as usize) };
        pa
    }

    /// Physical address of `bytes` (whole pages) of memory as it was, a multiple of `alignment`.
    #[cfg(tessera_trace)]
    pub fn take_uncleared(&mut self, bytes: u64, alignment: u64) -> u64 {
        let pa = self.next.next_multiple_of(alignment);
        assert!(pa + bytes <= self.end, "no memory behind the kernel image for buffers of events");
        self.next = pa + bytes;
        pa
    }

    /// A value that stays for ever.
    pub fn keep<T>(&mut self, value: T) -> &'static mut T {
        const { assert!(align_of::<T>() <= PAGE as usize) };
        let pa = self.take((size_of::<T>() as u64).div_ceil(PAGE));
        let place: *mut T = phys_to_virt(pa).cast();
        // SAFETY: fresh pages, large enough, aligned, and given to nobody else.
        unsafe {
            place.write(value);
            &mut *place
        }
    }

    /// `count` values that stay for ever.
    pub fn keep_many<T>(&mut self, count: usize, value: impl Fn() -> T) -> &'static mut [T] {
        const { assert!(align_of::<T>() <= PAGE as usize) };
        let pa = self.take(((size_of::<T>() * count) as u64).div_ceil(PAGE));
        let place: *mut T = phys_to_virt(pa).cast();
        // SAFETY: as in `keep`, for so many.
        unsafe {
            (0..count).for_each(|n| place.add(n).write(value()));
            core::slice::from_raw_parts_mut(place, count)
        }
    }

    /// What was handed out so far.
    pub fn used(&self) -> core::ops::Range<u64> {
        self.start..self.next
    }
}

/// A tree of page tables under construction.
pub struct Tables<'a> {
    root: u64,
    pages: &'a mut BootPages,
    largest: Level,
}

impl Tables<'_> {
    fn entry(table: u64, index: usize) -> *mut Entry {
        phys_to_virt(table).cast::<Entry>().wrapping_add(index)
    }

    /// Maps `[va, va + length)` to `pa` with the largest pages that fit.
    fn map(&mut self, mut va: u64, mut pa: u64, length: u64, flags: Flags) {
        let mut left = length.next_multiple_of(PAGE);
        while left > 0 {
            let level = self.level_for(va | pa, left);
            self.map_one(va, Entry::page(level, pa, flags), level);
            let span = level.entry_span();
            va = va.wrapping_add(span);
            pa += span;
            left -= span;
        }
    }

    fn level_for(&self, alignment: u64, left: u64) -> Level {
        let fits = |level: Level| {
            level <= self.largest
                && alignment & (level.entry_span() - 1) == 0
                && left >= level.entry_span()
        };
        [Level::Pdpt, Level::Pd].into_iter().find(|&l| fits(l)).unwrap_or(Level::Pt)
    }

    fn map_one(&mut self, va: u64, entry: Entry, level: Level) {
        let table = self.table(va, level);
        // SAFETY: a table of this tree, which is not in use yet or has nothing at this place.
        unsafe { Self::entry(table, level.index(va)).write(entry) };
    }

    /// The table of `level` that translates `va`, made where it is missing.
    fn table(&mut self, va: u64, level: Level) -> u64 {
        let mut table = self.root;
        let mut at = Level::from_number(root_level()).unwrap_or(Level::Pml4);
        while at > level {
            let place = Self::entry(table, at.index(va));
            // SAFETY: as in `map_one`; nobody else knows these tables.
            let found = unsafe { place.read() };
            assert!(!found.is_present() || !found.is_page(at), "the kernel's map overlaps");
            table = found.address();
            if !found.is_present() {
                table = self.pages.take(1);
                // SAFETY: as above.
                unsafe { place.write(Entry::new(table, Flags::PRESENT | Flags::WRITE)) };
            }
            at = at.below().unwrap_or(level);
        }
        table
    }

    /// Lets user mode through the entries that lead to the table of level `Pd` for `va`.
    #[cfg(tessera_trace)]
    fn open_to_user_mode(&mut self, va: u64) {
        let mut table = self.root;
        for level in [Level::Pml5, Level::Pml4, Level::Pdpt] {
            if level as u8 > root_level() {
                continue;
            }
            let place = Self::entry(table, level.index(va));
            // SAFETY: a table of this tree, which nobody changes after boot.
            unsafe {
                table = place.read().address();
                place.write(Entry::new(table, Flags::PRESENT | Flags::WRITE | Flags::USER));
            }
        }
    }

    /// As [`map_one`](Self::map_one), for what makes other parts of the map.
    #[cfg(tessera_map_cache)]
    pub fn put(&mut self, va: u64, entry: Entry, level: Level) {
        self.map_one(va, entry, level);
    }

    /// Physical address of `count` adjacent pages of zeros.
    #[cfg(tessera_map_cache)]
    pub fn take(&mut self, count: u64) -> u64 {
        self.pages.take(count)
    }

    /// The direct map. The image keeps the rights that it has at its own address.
    #[cfg(not(tessera_map_cache))]
    fn map_memory(&mut self, info: &BootInfo, image: &Image) {
        let top = info.top_of_memory();
        let whole = DIRECT_MAP_AT_LEAST.max(top).next_multiple_of(self.largest.entry_span());
        let data_end = image.end.next_multiple_of(Level::Pd.entry_span());
        let parts = [
            (0, image.start, READ_WRITE),
            (image.start, image.data, READ),
            (image.data, data_end, READ_WRITE),
            (data_end, whole, READ_WRITE),
        ];
        for (start, end, flags) in parts {
            self.map(DIRECT_MAP + start, start, end - start, flags);
        }
        let (written, read) = (info.persistent(), info.read_only());
        for (region, flags) in [(written, READ_WRITE), (read, READ)] {
            let Some(region) = region else { continue };
            // Right behind the other memory, the beginning may be there already.
            let start = region.start.max(whole);
            let length = region.end.saturating_sub(start);
            self.map(DIRECT_MAP + start, start, length, flags);
        }
    }

    /// The direct map, of which only a part will stay. Persistent memory is never in it: no object is made of that.
    #[cfg(tessera_map_cache)]
    fn map_memory(&mut self, info: &BootInfo, image: &Image) {
        super::maps::build(self, info, image);
    }

    fn map_image(&mut self, image: &Image) {
        let parts = [
            (image.start, image.rodata, READ_EXECUTE),
            (image.rodata, image.data, READ),
            (image.data, image.end, READ_WRITE),
        ];
        for (start, end, flags) in parts {
            let largest = core::mem::replace(&mut self.largest, Level::Pt);
            self.map(KERNEL_BASE + start, start, end - start, flags);
            self.largest = largest;
        }
    }
}

/// Builds the kernel's address space and switches to it: from here on, the rights are enforced
/// and the identity map is gone.
pub fn build(info: &BootInfo, pages: &mut BootPages, features: &Features) {
    let image = Image::get();
    let root = pages.take(1);
    let top = if features.five_levels { Level::Pml5 } else { Level::Pml4 };
    ROOT_LEVEL.store(top as u8, Ordering::Relaxed);
    MEMORY_END.store(info.top_of_memory(), Ordering::Relaxed);
    for (region, [start, bytes]) in [info.persistent(), info.read_only()].iter().zip(&PERSISTENT) {
        let Some(region) = region else { continue };
        start.store(region.start, Ordering::Relaxed);
        bytes.store(region.end - region.start, Ordering::Relaxed);
    }
    let largest = if features.huge_pages { Level::Pdpt } else { Level::Pd };
    let mut tables = Tables { root, pages, largest };
    tables.map_memory(info, &image);
    tables.map_image(&image);
    // The two windows share one upper-level table each, which must exist before it is copied.
    tables.table(DEVICES, Level::Pd);
    tables.table(STACKS, Level::Pd);
    #[cfg(tessera_map_cache)]
    tables.table(WINDOWS, Level::Pd);
    KERNEL_ROOT.store(root, Ordering::Relaxed);
    // SAFETY: the new tables map everything that the old ones did and that is still used.
    unsafe { write_root(PhysAddr(root)) };
}

/// Maps the page with registers at `pa`, as device number `window`, and returns its address.
pub fn map_device(window: u64, pa: u64, pages: &mut BootPages) -> *mut u8 {
    let root = KERNEL_ROOT.load(Ordering::Relaxed);
    let va = DEVICES + window * PAGE;
    let flags = READ_WRITE | Flags::DEVICE;
    Tables { root, pages, largest: Level::Pt }.map(va, pa & !(PAGE - 1), PAGE, flags);
    (va + pa % PAGE) as *mut u8
}

/// Physical address of the last-level table for `va`, in the windows.
#[cfg(tessera_map_cache)]
pub fn window_table(va: u64, pages: &mut BootPages) -> u64 {
    let root = KERNEL_ROOT.load(Ordering::Relaxed);
    Tables { root, pages, largest: Level::Pt }.table(va, Level::Pt)
}

/// Maps `[pa, pa + bytes)` at `va` in the kernel's half, readable and writable in user mode too.
#[cfg(tessera_trace)]
pub fn share_with_user_mode(va: u64, pa: u64, bytes: u64, pages: &mut BootPages) {
    let root = KERNEL_ROOT.load(Ordering::Relaxed);
    let mut tables = Tables { root, pages, largest: Level::Pd };
    tables.map(va, pa, bytes, READ_WRITE | Flags::USER);
    for at in (va..va + bytes).step_by(Level::Pd.entry_span() as usize) {
        tables.open_to_user_mode(at);
    }
}

/// Pages of a kernel stack.
const STACK_PAGES: u64 = 8;
/// Address space for each stack: as much again below it is never mapped.
const STACK_SPAN: u64 = 2 * STACK_PAGES * PAGE;
/// Most stacks that there can be.
const MOST_STACKS: u64 = 4096;

/// Makes stack number `number`, and returns its top.
pub fn make_stack(number: u64, pages: &mut BootPages) -> u64 {
    assert!(number < MOST_STACKS);
    let root = KERNEL_ROOT.load(Ordering::Relaxed);
    let top = STACKS + (number + 1) * STACK_SPAN;
    let size = STACK_PAGES * PAGE;
    let pa = pages.take(STACK_PAGES);
    Tables { root, pages, largest: Level::Pt }.map(top - size, pa, size, READ_WRITE);
    top
}

fn is_in_stacks(va: u64) -> bool {
    va.wrapping_sub(STACKS) < MOST_STACKS * STACK_SPAN
}

/// Whether `va` is where a kernel stack would go if it grew too large.
pub fn is_stack_guard(va: u64) -> bool {
    is_in_stacks(va) && (va - STACKS) % STACK_SPAN < STACK_SPAN / 2
}

/// Whether 16 bytes at `va`, a multiple of 8, can be read as part of a kernel stack (if the core
/// that it would belong to exists) or of the image, where the boot stack is.
pub fn is_kernel_stack(va: u64) -> bool {
    let image = Image::get();
    let in_stacks = |va| is_in_stacks(va) && !is_stack_guard(va);
    let in_image = |va: u64| (KERNEL_BASE + image.data..KERNEL_BASE + image.end).contains(&va);
    let both = |test: &dyn Fn(u64) -> bool| test(va) && test(va + 8);
    both(&in_stacks) || both(&in_image)
}

/// Whether `va` is in the kernel's code.
pub fn is_text(va: u64) -> bool {
    let image = Image::get();
    (KERNEL_BASE + image.start..KERNEL_BASE + image.rodata).contains(&va)
}

/// Gives the root table at `pa` the upper half of every one, entries 256 to 511: the kernel's.
///
/// # Safety
/// The table is memory that nobody holds a reference into, and the processor does not use yet.
pub unsafe fn copy_kernel_half(pa: u64) {
    const HALF: u64 = PAGE / 2;
    // SAFETY: the caller's promise; the kernel's root table is another page.
    unsafe {
        super::copy::<{ HALF as usize }>(
            phys_to_virt(pa + HALF),
            phys_to_virt(kernel_root().0 + HALF),
        )
    }
}

/// Physical address of the kernel's own root table, for when no domain's is wanted.
pub fn kernel_root() -> PhysAddr {
    PhysAddr(KERNEL_ROOT.load(Ordering::Relaxed))
}

/// Physical address of the root page table in use.
pub fn root() -> PhysAddr {
    let value: u64;
    // SAFETY: reads a register.
    unsafe { asm!("mov {}, cr3", out(reg) value, options(nomem, nostack, preserves_flags)) };
    PhysAddr(value)
}

/// Makes `pa` the root page table. Forgets every cached translation that is not the kernel's.
///
/// # Safety
/// The table's upper half is that of [`copy_kernel_half`], and it stays valid while in use.
pub unsafe fn write_root(pa: PhysAddr) {
    // SAFETY: the caller's promise.
    unsafe { asm!("mov cr3, {}", in(reg) pa.0, options(nostack, preserves_flags)) };
}

/// Forgets every cached translation that is not the kernel's.
pub fn flush_tlb() {
    // SAFETY: the same root as before.
    unsafe { asm!("mov cr3, {}", in(reg) root().0, options(nostack, preserves_flags)) };
}

/// Forgets the cached translation of the page at `va`.
pub fn flush_page(va: VirtAddr) {
    // SAFETY: affects no more than the translation cache.
    unsafe { asm!("invlpg [{}]", in(reg) va.0, options(nostack, preserves_flags)) };
}

/// Writes down what of the memory is taken, now that everything is.
pub fn record(info: &mut BootInfo, pages: &BootPages) {
    /// Kept back for the code that starts the other cores, and because firmware lives there.
    const LOW_MEMORY: core::ops::Range<u64> = 0..1 << 20;
    /// From here to 4 GiB are the interrupt controllers, timers and the firmware.
    const CHIPSET: u64 = 0xfec0_0000;
    let image = Image::get();
    let archive = info.archive.start..info.archive.end.next_multiple_of(PAGE);
    info.mark(LOW_MEMORY, RegionKind::Reserved);
    info.mark(image.start..image.end, RegionKind::Kernel);
    info.mark(pages.used(), RegionKind::KernelData);
    info.mark(archive, RegionKind::Archive);
    info.round_to_pages();
    info.find_windows(CHIPSET);
}
