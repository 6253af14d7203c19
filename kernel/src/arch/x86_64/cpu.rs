//! What this processor can do, and the control registers that follow from it.

use super::super::Breakpoints;
use super::memory;
use core::arch::asm;
use core::arch::x86_64::{__cpuid_count, CpuidResult};
use core::sync::atomic::{AtomicBool, Ordering};

/// What CPUID says of the features that the kernel uses where it finds them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    pub huge_pages: bool,
    pub smep: bool,
    pub smap: bool,
    pub umip: bool,
    pub fsgsbase: bool,
    pub xsave: bool,
    pub avx: bool,
    /// Parts of the vector state that there are, as in XCR0.
    pub vector_parts: u64,
    pub x2apic: bool,
    pub tsc_deadline: bool,
    pub hypervisor: bool,
    /// Paging has five levels: chosen by the first instructions, and for good.
    pub five_levels: bool,
}

/// A leaf of CPUID; all zero where the processor does not have it.
pub fn cpuid(leaf: u32, subleaf: u32) -> CpuidResult {
    #[allow(unused_unsafe)]
    // SAFETY: every processor that runs 64-bit code has the instruction.
    let read = |leaf, subleaf| unsafe { __cpuid_count(leaf, subleaf) };
    let is_hypervisor_leaf = leaf >> 28 == 4;
    if is_hypervisor_leaf || leaf <= read(leaf & 0xf000_0000, 0).eax {
        return read(leaf, subleaf);
    }
    CpuidResult { eax: 0, ebx: 0, ecx: 0, edx: 0 }
}

fn bit(word: u32, number: u32) -> bool {
    word >> number & 1 != 0
}

impl Features {
    pub fn detect() -> Features {
        let basic = cpuid(1, 0);
        let structured = cpuid(7, 0);
        let extended = cpuid(0x8000_0001, 0);
        let xsave = bit(basic.ecx, 26);
        let state = cpuid(0xd, 0);
        Features {
            huge_pages: bit(extended.edx, 26),
            smep: bit(structured.ebx, 7),
            smap: bit(structured.ebx, 20),
            umip: bit(structured.ecx, 2),
            fsgsbase: bit(structured.ebx, 0),
            xsave,
            avx: xsave && bit(basic.ecx, 28),
            vector_parts: u64::from(state.edx) << 32 | u64::from(state.eax),
            x2apic: bit(basic.ecx, 21),
            tsc_deadline: bit(basic.ecx, 24),
            hypervisor: bit(basic.ecx, 31),
            five_levels: read_cr4() & CR4_LA57 != 0,
        }
    }
}

/// The address of this core's local APIC, which need not be switched on.
pub fn apic_id() -> u32 {
    let topology = cpuid(0xb, 0);
    if topology.ebx != 0 {
        topology.edx
    } else {
        cpuid(1, 0).ebx >> 24
    }
}

const CR4_LA57: u64 = 1 << 12;

fn read_cr4() -> u64 {
    let cr4: u64;
    // SAFETY: reads a register.
    unsafe { asm!("mov {}, cr4", out(reg) cr4, options(nomem, nostack, preserves_flags)) };
    cr4
}

/// Model-specific registers.
pub mod msr {
    pub const APIC_BASE: u32 = 0x1b;
    pub const SYSENTER_CS: u32 = 0x174;
    pub const SYSENTER_ESP: u32 = 0x175;
    pub const SYSENTER_EIP: u32 = 0x176;
    pub const TSC_DEADLINE: u32 = 0x6e0;
    pub const STAR: u32 = 0xc000_0081;
    pub const LSTAR: u32 = 0xc000_0082;
    pub const CSTAR: u32 = 0xc000_0083;
    pub const SFMASK: u32 = 0xc000_0084;
    pub const FS_BASE: u32 = 0xc000_0100;
    pub const GS_BASE: u32 = 0xc000_0101;
    pub const KERNEL_GS_BASE: u32 = 0xc000_0102;
    #[cfg(tessera_trace)]
    pub const TSC_AUX: u32 = 0xc000_0103;
}

/// Reads a model-specific register.
///
/// # Safety
/// The processor has it.
pub unsafe fn read_msr(register: u32) -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: the caller's promise.
    unsafe {
        asm!("rdmsr", in("ecx") register, out("eax") low, out("edx") high,
            options(nomem, nostack, preserves_flags));
    }
    u64::from(high) << 32 | u64::from(low)
}

/// Writes a model-specific register.
///
/// # Safety
/// The processor has it, and takes this value without harm to memory.
pub unsafe fn write_msr(register: u32, value: u64) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("wrmsr", in("ecx") register, in("eax") value as u32, in("edx") (value >> 32) as u32,
            options(nostack, preserves_flags));
    }
}

/// Whether [`enable`] switched on the instructions that read and write FS and GS bases.
static FSGSBASE: AtomicBool = AtomicBool::new(false);

/// Sets this core's control registers: protections, and everything that programs may use.
pub fn enable(features: &Features) {
    const CR0_WP: u64 = 1 << 16;
    const CR0_MP: u64 = 1 << 1;
    const CR0_NE: u64 = 1 << 5;
    const CR0_EM_TS: u64 = 1 << 2 | 1 << 3;
    const CR4_PAE: u64 = 1 << 5;
    const CR4_MCE: u64 = 1 << 6;
    const CR4_PGE: u64 = 1 << 7;
    const CR4_OSFXSR_OSXMMEXCPT: u64 = 1 << 9 | 1 << 10;
    let optional = [
        (features.umip, 11),
        (features.five_levels, 12),
        (features.fsgsbase, 16),
        (features.xsave, 18),
        (features.smep, 20),
        (features.smap, 21),
    ];
    let mut cr4 = CR4_PAE | CR4_MCE | CR4_PGE | CR4_OSFXSR_OSXMMEXCPT;
    for (has, number) in optional {
        cr4 |= u64::from(has) << number;
    }
    // SAFETY: the bits are those that the processor reports; the kernel has no user mappings and
    // no writable text, so the protections take nothing from it.
    unsafe {
        let mut cr0: u64;
        asm!("mov {}, cr0", out(reg) cr0, options(nomem, nostack, preserves_flags));
        cr0 = (cr0 | CR0_WP | CR0_MP | CR0_NE) & !CR0_EM_TS;
        asm!("mov cr0, {}", in(reg) cr0, options(nostack, preserves_flags));
        asm!("mov cr4, {}", in(reg) cr4, options(nostack, preserves_flags));
    }
    forget_firmware();
    FSGSBASE.store(features.fsgsbase, Ordering::Relaxed);
}

/// Of DR7: the bit that is always set.
const NO_BREAKPOINTS: u64 = 0x400;
/// Of DR6: the bits that are always set.
pub const NO_STATUS: u64 = 0xffff_0ff0;

/// Whatever was there before the kernel may have left a way in, or traps: `sysenter` leads nowhere, and
/// nothing is watched for.
fn forget_firmware() {
    // SAFETY: every 64-bit processor has these registers; the kernel relies on none of them.
    unsafe {
        for register in [msr::SYSENTER_CS, msr::SYSENTER_ESP, msr::SYSENTER_EIP] {
            write_msr(register, 0);
        }
        asm!("mov dr7, {}", in(reg) NO_BREAKPOINTS, options(nomem, nostack, preserves_flags));
    }
}

/// Watches for what `breakpoints` say. Nothing of the kernel's memory may be among them.
#[cold]
#[inline(never)]
pub fn write_breakpoints(breakpoints: Breakpoints) {
    let Breakpoints { addresses: [zero, one, two, three], control } = breakpoints;
    // SAFETY: every 64-bit processor has these registers. The kernel passes over what it does to user memory that
    // is watched (entry.rs).
    unsafe {
        asm!("mov dr7, {}", in(reg) NO_BREAKPOINTS, options(nomem, nostack, preserves_flags));
        asm!("mov dr0, {}", in(reg) zero, options(nomem, nostack, preserves_flags));
        asm!("mov dr1, {}", in(reg) one, options(nomem, nostack, preserves_flags));
        asm!("mov dr2, {}", in(reg) two, options(nomem, nostack, preserves_flags));
        asm!("mov dr3, {}", in(reg) three, options(nomem, nostack, preserves_flags));
        asm!("mov dr7, {}", in(reg) control | NO_BREAKPOINTS, options(nomem, nostack, preserves_flags));
    }
}

/// Why there was a debug exception, as DR6 says it; asked once.
pub fn take_debug_status() -> u64 {
    /// Which breakpoints, and whether it was a single step.
    const REASONS: u64 = 0x400f;
    let status: u64;
    // SAFETY: as above.
    unsafe {
        asm!("mov {}, dr6", out(reg) status, options(nomem, nostack, preserves_flags));
        asm!("mov dr6, {}", in(reg) NO_STATUS, options(nomem, nostack, preserves_flags));
    }
    status & REASONS
}

/// Whether user mode may set its FS and GS bases itself.
pub fn has_fsgsbase() -> bool {
    FSGSBASE.load(Ordering::Relaxed)
}

/// `base`, with the bits replaced that would make it no address.
pub fn canonical(base: u64) -> u64 {
    paging::sign_extend(base, memory::root_level())
}

/// The user's FS base.
#[inline]
pub fn read_fs_base() -> u64 {
    if has_fsgsbase() {
        let base: u64;
        // SAFETY: switched on in `enable`.
        unsafe { asm!("rdfsbase {}", out(reg) base, options(nomem, nostack, preserves_flags)) };
        return base;
    }
    // SAFETY: every 64-bit processor has it.
    unsafe { read_msr(msr::FS_BASE) }
}

/// Sets the user's FS base, an address.
#[inline]
pub fn write_fs_base(base: u64) {
    if has_fsgsbase() {
        // SAFETY: switched on in `enable`; the kernel does not use FS.
        unsafe { asm!("wrfsbase {}", in(reg) base, options(nomem, nostack, preserves_flags)) };
        return;
    }
    // SAFETY: every 64-bit processor has it.
    unsafe { write_msr(msr::FS_BASE, base) }
}

/// The user's GS base. (While the kernel runs, its own is active and the user's is swapped out.)
#[inline]
pub fn read_gs_base() -> u64 {
    // SAFETY: every 64-bit processor has it.
    unsafe { read_msr(msr::KERNEL_GS_BASE) }
}

/// Sets the user's GS base, an address.
#[inline]
pub fn write_gs_base(base: u64) {
    // SAFETY: every 64-bit processor has it.
    unsafe { write_msr(msr::KERNEL_GS_BASE, base) }
}

/// Lets the processor know that this is a loop that waits for another.
#[inline]
pub fn relax() {
    core::hint::spin_loop();
}

/// The time stamp counter.
pub fn tsc() -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: reads a counter.
    unsafe {
        asm!("rdtsc", out("eax") low, out("edx") high, options(nomem, nostack, preserves_flags));
    }
    u64::from(high) << 32 | u64::from(low)
}
