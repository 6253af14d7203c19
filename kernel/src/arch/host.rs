//! The stand-in for the machine, for tests on the host.
//!
//! A test gives a buffer of its own as "physical memory" ([`set_phys_memory`]); the registers of
//! the memory management unit are counters. Everything is per thread, as tests run in parallel.

use paging::{PhysAddr, VirtAddr};
use std::cell::{Cell, RefCell};
use std::vec::Vec;
use vtd::{Context, Fault, CONTEXTS};

pub use super::host_maps::*;

use super::boot_info::BootInfo;
use super::{Breakpoints, CoreHead, Handlers, IrqMessage, PerfCounter, PerfFacts};

/// What a real core keeps for its hardware: nothing here.
pub struct Hw;

impl Hw {
    pub(super) fn new() -> Self {
        Hw
    }
}

/// Most cores of a pretended machine.
pub const CORES: usize = 8;

/// What the pretended processor was told to do.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Counts {
    pub flush_all: u64,
    pub flush_page: u64,
    pub root_writes: u64,
    pub zeroed_pages: u64,
    pub copied_pages: u64,
    pub fpu_saves: u64,
    pub fpu_restores: u64,
}

thread_local! {
    static OFFSET: Cell<u64> = const { Cell::new(0) };
    static MEMORY: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
    static ROOTS: Cell<[u64; CORES]> = const { Cell::new([0; CORES]) };
    static CORE: Cell<usize> = const { Cell::new(0) };
    static INTERRUPTED: Cell<u64> = const { Cell::new(0) };
    static CLOCK: Cell<u64> = const { Cell::new(0) };
    static DEADLINE: Cell<u64> = const { Cell::new(u64::MAX) };
    static BREAKPOINTS: Cell<Breakpoints> = const { Cell::new(Breakpoints { addresses: [0; 4], control: 0 }) };
    static DEBUG_STATUS: Cell<u64> = const { Cell::new(0) };
    static COUNTS: Cell<Counts> = const { Cell::new(Counts {
        flush_all: 0, flush_page: 0, root_writes: 0, zeroed_pages: 0, copied_pages: 0,
        fpu_saves: 0, fpu_restores: 0,
    }) };
}

/// What the pretended processor was told to forget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flush {
    All,
    Page(u64),
}

thread_local! {
    static FLUSHES: RefCell<[Vec<Flush>; CORES]> = const { RefCell::new([const { Vec::new() }; CORES]) };
}

fn flushed(flush: Flush) {
    FLUSHES.with_borrow_mut(|flushes| flushes[CORE.get()].push(flush));
}

/// What this core was to forget since the last call.
pub fn take_flushes() -> Vec<Flush> {
    FLUSHES.with_borrow_mut(|flushes| core::mem::take(&mut flushes[CORE.get()]))
}

fn count(change: impl FnOnce(&mut Counts)) {
    let mut counts = COUNTS.get();
    change(&mut counts);
    COUNTS.set(counts);
}

/// From now on, on this thread, physical address `pa` is the byte at `base - first_pa + pa`.
/// `base` should be aligned to at least 4 KiB, and outlive every use. There are `bytes` of it.
pub fn set_phys_memory(base: *mut u8, first_pa: u64, bytes: u64) {
    super::host_maps::begin();
    OFFSET.set((base as u64).wrapping_sub(first_pa));
    MEMORY.set((first_pa, first_pa + bytes));
}

/// Is there memory at physical address `pa`?
pub fn is_memory(pa: u64) -> bool {
    let (first, end) = MEMORY.get();
    (first..end).contains(&pa)
}

/// What was counted on this thread since the last call.
pub fn take_counts() -> Counts {
    COUNTS.replace(Counts::default())
}

/// Where the direct map shows physical address `pa`.
pub fn phys_to_virt(pa: u64) -> *mut u8 {
    OFFSET.get().wrapping_add(pa) as *mut u8
}

/// The physical address of something in the direct map.
pub fn virt_to_phys<T>(at: *const T) -> u64 {
    (at as u64).wrapping_sub(OFFSET.get())
}

/// Forgets every cached translation that is not the kernel's.
pub fn flush_tlb() {
    count(|c| c.flush_all += 1);
    flushed(Flush::All);
}

/// Forgets the cached translation of the page at `va`.
pub fn flush_page(va: VirtAddr) {
    count(|c| c.flush_page += 1);
    flushed(Flush::Page(va.0));
}

/// Makes `pa` the root page table. Counted and recorded if it was not.
///
/// # Safety
/// On the machine: the table must map the kernel. Here: nothing.
pub unsafe fn write_root(PhysAddr(pa): PhysAddr) {
    let (mut roots, core) = (ROOTS.get(), CORE.get());
    let old = core::mem::replace(&mut roots[core], pa);
    ROOTS.set(roots);
    if old != pa {
        count(|c| c.root_writes += 1);
        flushed(Flush::All);
    }
}

thread_local! {
    static ROOT_LEVEL: Cell<u8> = const { Cell::new(4) };
}

/// Level of root tables: 4, or 5 with LA57.
pub fn root_level() -> u8 {
    ROOT_LEVEL.get()
}

/// Pretends that the machine on this thread was booted with so many levels.
pub fn set_root_level(level: u8) {
    ROOT_LEVEL.set(level);
}

/// First address that is no user address.
pub fn user_end() -> u64 {
    paging::user_end(root_level())
}

/// Physical address of the root page table in use.
pub fn root() -> PhysAddr {
    PhysAddr(ROOTS.get()[CORE.get()])
}

/// Physical address of a page of zeros that nobody writes to; here of none that could be looked at.
pub fn page_of_zeros() -> u64 {
    0x1000
}

/// Physical address of a table of `level` that shows nothing but that page, or of the page itself.
pub fn table_of_zeros(level: usize) -> u64 {
    page_of_zeros() + level as u64 * paging::PAGE
}

/// Begins to write the line with `at` back.
///
/// # Safety
/// It is memory.
pub unsafe fn write_back_line(_at: *const u8) {}

/// Returns when what this core has begun to write back has arrived.
pub fn write_back_fence() {}

/// The upper half of every root page table, entries 256 to 511.
fn kernel_half() -> &'static [u64; 256] {
    static ENTRIES: [u64; 256] = [0x8000_0000_0000_0123; 256];
    &ENTRIES
}

/// Gives the root table at `pa` the kernel's half.
///
/// # Safety
/// The table is memory that nobody holds a reference into.
pub unsafe fn copy_kernel_half(pa: u64) {
    let half = phys_to_virt(pa + 2048);
    // SAFETY: the caller's promise.
    unsafe { half.copy_from_nonoverlapping(kernel_half().as_ptr().cast(), 2048) }
}

/// Fills the page at `to` with zeros.
///
/// # Safety
/// The page is memory, and nobody holds a reference into it.
pub unsafe fn zero_page(to: *mut u8) {
    count(|c| c.zeroed_pages += 1);
    // SAFETY: the caller's promise.
    unsafe { to.write_bytes(0, paging::PAGE as usize) }
}

/// Whether there are only zeros in the `BYTES` bytes at `at`.
///
/// # Safety
/// They are memory.
pub unsafe fn is_zero<const BYTES: usize>(at: *const u8) -> bool {
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(at, BYTES) }.iter().all(|&byte| byte == 0)
}

/// Copies the `BYTES` bytes at `from` over those at `to`.
///
/// # Safety
/// Both are memory, differ, and nobody holds a reference into what is at `to`.
pub unsafe fn copy<const BYTES: usize>(to: *mut u8, from: *const u8) {
    count(|c| c.copied_pages += 1);
    // SAFETY: the caller's promise.
    unsafe { to.copy_from_nonoverlapping(from, BYTES) }
}

/// Copies `bytes` bytes at `from` to `to`.
///
/// # Safety
/// Both are memory, and nobody holds a reference into either.
pub unsafe fn copy_bytes(to: *mut u8, from: *const u8, bytes: usize) {
    // SAFETY: the caller's promise.
    unsafe { to.copy_from(from, bytes) }
}

/// Bytes that a save area for vector state needs; its alignment is 64.
pub fn fpu_area_size() -> usize {
    1024
}

/// Writes the state of a fresh program into a save area.
///
/// # Safety
/// `area` is writable for [`fpu_area_size`] bytes and aligned to 64.
pub unsafe fn fpu_init_image(area: *mut u8) {
    // SAFETY: the caller's promise.
    unsafe { area.write_bytes(0, fpu_area_size()) }
}

/// Makes an area that a program may have written fit for [`fpu_restore`].
///
/// # Safety
/// As [`fpu_init_image`].
pub unsafe fn fpu_sanitize(_area: *mut u8) {}

/// Saves the vector state.
///
/// # Safety
/// As [`fpu_init_image`].
pub unsafe fn fpu_save(_area: *mut u8) {
    count(|c| c.fpu_saves += 1);
}

/// Loads the vector state.
///
/// # Safety
/// `area` was filled by [`fpu_save`] or [`fpu_init_image`].
pub unsafe fn fpu_restore(_area: *const u8) {
    count(|c| c.fpu_restores += 1);
}

/// Lets vector instructions be executed.
pub fn vectors_allow() {}

/// Makes vector instructions raise an exception.
pub fn vectors_forbid() {}

/// The user's FS base.
pub fn read_fs_base() -> u64 {
    0
}

/// Sets the user's FS base; bits that would make it non-canonical are replaced.
pub fn write_fs_base(_base: u64) {}

/// See x86_64.
pub fn canonical(base: u64) -> u64 {
    base
}

/// The user's GS base.
pub fn read_gs_base() -> u64 {
    0
}

/// Sets the user's GS base; bits that would make it non-canonical are replaced.
pub fn write_gs_base(_base: u64) {}

/// Watches for what `breakpoints` say.
pub fn write_breakpoints(breakpoints: Breakpoints) {
    BREAKPOINTS.set(breakpoints);
}

/// What is watched for.
pub fn breakpoints() -> Breakpoints {
    BREAKPOINTS.get()
}

/// Why there was a debug exception, as DR6 says it; asked once.
pub fn take_debug_status() -> u64 {
    DEBUG_STATUS.take()
}

/// What the next debug exception is to have been for.
pub fn set_debug_status(status: u64) {
    DEBUG_STATUS.set(status);
}

/// The time stamp counter.
pub fn tsc() -> u64 {
    CLOCK.get()
}

/// Sets the pretended clock.
pub fn set_tsc(value: u64) {
    CLOCK.set(value);
}

/// Asks for one timer interrupt when the time stamp counter reaches `deadline`; `u64::MAX` for none.
pub fn timer_set(_core: &mut CoreHead, deadline: u64) {
    DEADLINE.set(deadline);
}

/// The deadline that was asked for last.
pub fn timer_deadline() -> u64 {
    DEADLINE.get()
}

/// Tells the local interrupt controller that the interrupt was taken.
pub fn eoi() {}

/// Lets legacy interrupt `irq` arrive at this core.
pub fn irq_unmask(_irq: u8) {}

/// Keeps legacy interrupt `irq` from arriving.
pub fn irq_mask(_irq: u8) {}

/// The message of interrupt `irq`, if it has one.
pub fn irq_message(irq: u8) -> Option<IrqMessage> {
    let is_message = (16..IRQS).contains(&usize::from(irq));
    is_message.then_some(IrqMessage { address: 0xfee0_0000, value: irq.into() })
}

/// Reads an I/O port of 1, 2 or 4 bytes.
///
/// # Safety
/// Reading this port must have no effect on memory.
pub unsafe fn io_in(_port: u16, _bytes: u8) -> u32 {
    0
}

/// Writes an I/O port of 1, 2 or 4 bytes.
///
/// # Safety
/// Writing this port must have no effect on memory.
pub unsafe fn io_out(_port: u16, _bytes: u8, _value: u32) {}

/// A pretended IOMMU.
struct HostIommu {
    contexts: [Context; CONTEXTS],
    /// Times that it was to forget all translations.
    flushes: u64,
    /// What it has refused.
    faults: Vec<Fault>,
}

thread_local! {
    static IOMMU: RefCell<Option<HostIommu>> = const { RefCell::new(None) };
}

/// Pretends that the machine on this thread has an IOMMU.
pub fn add_iommu() {
    let unit = HostIommu { contexts: [Context::Pass; CONTEXTS], flushes: 0, faults: Vec::new() };
    IOMMU.set(Some(unit));
}

/// It has refused something.
pub fn refuse(fault: Fault) {
    IOMMU.with_borrow_mut(|unit| unit.as_mut().expect("there is an IOMMU").faults.push(fault));
}

/// How often it was to forget all translations since the last call.
pub fn take_device_flushes() -> u64 {
    IOMMU.with_borrow_mut(|unit| unit.as_mut().map_or(0, |unit| core::mem::take(&mut unit.flushes)))
}

/// Has the machine an IOMMU that is used?
pub fn has_iommu() -> bool {
    IOMMU.with_borrow(Option::is_some)
}

/// What becomes of requests of a function of the first bus.
pub fn device_context(function: u8) -> Context {
    IOMMU.with_borrow(|unit| {
        unit.as_ref().map_or(Context::Pass, |unit| unit.contexts[function as usize])
    })
}

/// Says what becomes of requests of a function of the first bus. Returns `false` if they do not go through the IOMMU:
/// here those of the last device.
pub fn set_device_context(function: u8, context: Context) -> bool {
    IOMMU.with_borrow_mut(|unit| match unit {
        Some(unit) if function < 0xf8 => {
            unit.contexts[function as usize] = context;
            unit.flushes += 1;
            true
        }
        _ => false,
    })
}

/// No device uses a translation any more that its tables do not allow. Returns `false` if none is translated.
pub fn forget_devices() -> bool {
    IOMMU.with_borrow_mut(|unit| {
        let Some(unit) = unit else { return false };
        let translates = unit.contexts.iter().any(|&context| context != Context::Pass);
        unit.flushes += u64::from(translates);
        translates
    })
}

/// Takes the oldest record of a refused request, and says whether others were lost.
pub fn next_fault() -> (Option<Fault>, bool) {
    IOMMU.with_borrow_mut(|unit| match unit {
        Some(unit) if !unit.faults.is_empty() => (Some(unit.faults.remove(0)), false),
        _ => (None, false),
    })
}

/// What the pretended processor has: one programmable counter, no other.
pub fn perf_facts() -> PerfFacts {
    PerfFacts { version: 1, programmable: 1, fixed: 0, width: 40, missing: 0 }
}

/// Sets a counter to zero.
///
/// # Safety
/// On the machine: the counter must be there. Here: nothing.
pub unsafe fn perf_start(_counter: PerfCounter, _event: u64) {}

/// A counter's value.
///
/// # Safety
/// As [`perf_start`].
pub unsafe fn perf_read(_counter: PerfCounter) -> u64 {
    0
}

/// Whether user mode may set its FS and GS bases itself.
pub fn has_fsgsbase() -> bool {
    true
}

/// Vector of line 0.
pub const VECTOR_IRQ0: u64 = 32;
/// Lines that are routed: sixteen with pins, and as many of messages.
pub const IRQS: usize = 32;
/// Vector of the timer.
pub const VECTOR_TIMER: u64 = 0xe0;
/// Vector for requests between cores.
pub const VECTOR_IPI: u64 = 0xe1;

thread_local! {
    static RELAX: Cell<Option<fn()>> = const { Cell::new(None) };
}

/// What other cores do while one waits for them, on this thread.
pub fn set_relax(others: Option<fn()>) {
    RELAX.set(others);
}

/// Lets other cores go on.
pub fn relax() {
    RELAX.get().expect("a core waits for another, and there is none")();
}

/// Interrupts another core: see [`take_interrupt`].
pub fn send_ipi(core: usize) {
    INTERRUPTED.set(INTERRUPTED.get() | 1 << core);
}

/// Was this core interrupted by another since the last call, on this thread?
pub fn take_interrupt(core: usize) -> bool {
    let all = INTERRUPTED.get();
    INTERRUPTED.set(all & !(1 << core));
    all & 1 << core != 0
}

/// What this thread executes from now on, it executes on this core. Returns which it was.
pub fn become_core(core: usize) -> usize {
    CORE.replace(core)
}

/// Starts the other cores: there are none.
pub fn start_all<H: Handlers>(_info: &'static BootInfo) {}

/// Physical address of the kernel's own root table, for when no domain's is wanted.
pub fn kernel_root() -> PhysAddr {
    PhysAddr::NONE
}

/// Runs what `core.current_ctx` points to.
pub fn resume(_core: &mut CoreHead) -> ! {
    panic!("user mode does not run on the host");
}

/// Waits for interrupts, with nothing to run.
pub fn idle(_core: &mut CoreHead) -> ! {
    panic!("the host does not idle");
}

/// Ends the machine in order.
pub fn shutdown() -> ! {
    panic!("the machine was shut down");
}
