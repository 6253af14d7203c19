//! Vector registers over handlers.
//!
//! The library is built without them, so while it runs the registers of the CPU are the program's.
//! A handler frame takes them straight from there, and `rt_sigreturn` puts them back, after
//! everything was checked that would make the CPU refuse.

use crate::errno::{Errno, Result};
use crate::mm::user;
use crate::process::Process;
use core::arch::asm;
use core::arch::x86_64::__cpuid_count;
use linuxabi::sigframe::{
    extended_parts, Software, LEGACY_BYTES, MAGIC1, MAGIC2, MAGIC2_BYTES, SOFTWARE_OFFSET,
    XSAVE_MIN_BYTES,
};

/// x87 and SSE: what the fxsave area holds.
const LEGACY_PARTS: u64 = 3;
/// Bits of MXCSR that may be set.
const MXCSR_BITS: u32 = 0xffff;
/// Places in the area.
const MXCSR: usize = 24;
const PRESENT: usize = 512;
const FORM: usize = 520;
/// Words of the xsave header.
const HEADER_WORDS: usize = 8;
/// Words of it, from [`FORM`] on, that must be zero.
const ZERO_WORDS: usize = 2;

#[repr(C, align(64))]
struct Area([u8; XSAVE_MIN_BYTES]);

/// The state of a fresh program.
static INITIAL: Area = {
    let mut area = [0; XSAVE_MIN_BYTES];
    [area[0], area[1]] = 0x37f_u16.to_le_bytes();
    [area[MXCSR], area[MXCSR + 1]] = 0x1f80_u16.to_le_bytes();
    Area(area)
};

/// What the CPU has.
#[derive(Clone, Copy)]
pub struct Vectors {
    /// Parts of the state, as in XCR0; 0: there is no xsave.
    parts: u64,
    /// Bytes of all parts; 0: not known yet.
    bytes: usize,
}

impl Vectors {
    /// To be found out.
    pub const UNKNOWN: Vectors = Vectors { parts: 0, bytes: 0 };

    /// Bytes of an area.
    #[inline(always)]
    pub fn bytes(&mut self) -> usize {
        if self.bytes == 0 {
            self.find_out();
        }
        self.bytes
    }

    /// Are there parts beyond the fxsave area?
    pub fn extended(&self) -> bool {
        self.parts != 0
    }

    #[cold]
    fn find_out(&mut self) {
        const OSXSAVE: u32 = 1 << 27;
        const XSAVE_LEAF: u32 = 0xd;
        #[allow(unused_unsafe)]
        // SAFETY: every 64-bit CPU has the instruction; leaf 0xd is read only where it is.
        let cpuid = |leaf| unsafe { __cpuid_count(leaf, 0) };
        let features = cpuid(1).ecx;
        if features & OSXSAVE == 0 {
            *self = Vectors { parts: 0, bytes: LEGACY_BYTES };
            return;
        }
        let (low, high): (u32, u32);
        // SAFETY: user mode may execute this, as the feature bit says.
        unsafe {
            asm!("xgetbv", in("ecx") 0, out("eax") low, out("edx") high,
                options(nomem, nostack, preserves_flags));
        }
        let bytes = cpuid(XSAVE_LEAF).ebx as usize;
        *self =
            Vectors { parts: low as u64 | (high as u64) << 32, bytes: bytes.max(XSAVE_MIN_BYTES) };
    }

    /// Saves the registers, and says so for `rt_sigreturn`.
    ///
    /// # Safety
    ///
    /// `area` is aligned to 64 and writable for [`Vectors::bytes`] and `MAGIC2_BYTES`.
    #[inline(always)]
    pub unsafe fn save(&self, area: *mut u8) {
        // SAFETY: the caller's promise; all places are inside the area.
        unsafe {
            let header = area.add(PRESENT).cast::<u64>();
            if self.parts == 0 {
                asm!("fxsave64 [{}]", in(reg) area, options(nostack, preserves_flags));
                return;
            }
            for word in 0..HEADER_WORDS {
                header.add(word).write(0);
            }
            asm!("xsave64 [{}]", in(reg) area, in("eax") self.parts as u32,
                in("edx") (self.parts >> 32) as u32, options(nostack, preserves_flags));
            header.write(header.read() | LEGACY_PARTS);
            let size = self.bytes as u32;
            area.add(SOFTWARE_OFFSET).cast::<Software>().write(Software {
                magic1: MAGIC1,
                extended_size: size + MAGIC2_BYTES as u32,
                parts: self.parts,
                size,
                padding: [0; 7],
            });
            area.add(self.bytes).cast::<u32>().write_unaligned(MAGIC2);
        }
    }

    /// Gives the registers the state of a fresh program.
    #[inline(always)]
    pub fn reset(&mut self) {
        self.bytes();
        // SAFETY: `INITIAL` is aligned and good: it says that all parts are in their first state.
        unsafe { self.load(INITIAL.0.as_ptr(), self.parts) }
    }

    /// Loads `parts`.
    ///
    /// # Safety
    ///
    /// `area` is aligned to 64 (16 without xsave) and readable, and was checked.
    #[inline(always)]
    unsafe fn load(&self, area: *const u8, parts: u64) {
        // SAFETY: the caller's promise.
        unsafe {
            if self.parts == 0 {
                asm!("fxrstor64 [{}]", in(reg) area, options(nostack, readonly, preserves_flags));
            } else {
                asm!("xrstor64 [{}]", in(reg) area, in("eax") parts as u32,
                    in("edx") (parts >> 32) as u32, options(nostack, readonly, preserves_flags));
            }
        }
    }
}

/// Restores what lies at `address` in the program's memory; it may be anything.
pub fn restore(p: &mut Process, address: u64) -> Result<()> {
    if address == 0 {
        p.me.signals.vectors.reset();
        return Ok(());
    }
    let bytes = p.me.signals.vectors.bytes();
    let vectors = p.me.signals.vectors;
    if vectors.extended() {
        if let Some(parts) = described(p, address, bytes, vectors.parts) {
            return restore_extended(p, address, bytes, parts);
        }
    }
    restore_legacy(p, address)
}

/// The parts that are there beyond the fxsave area.
fn described(p: &mut Process, address: u64, bytes: usize, parts: u64) -> Option<u64> {
    let area = user::slice_in(p, address, bytes + MAGIC2_BYTES).ok()?;
    // SAFETY: inside the area; any bytes are such a structure.
    let software =
        unsafe { area.as_ptr().add(SOFTWARE_OFFSET).cast::<Software>().read_unaligned() };
    let parts = extended_parts(&software, bytes, parts)?;
    // SAFETY: `size` was checked: this is inside the area and what lies behind it.
    let magic2 =
        unsafe { area.as_ptr().add(software.size as usize).cast::<u32>().read_unaligned() };
    (magic2 == MAGIC2).then_some(parts)
}

fn restore_extended(p: &mut Process, address: u64, bytes: usize, parts: u64) -> Result<()> {
    let vectors = p.me.signals.vectors;
    let area = user::slice_in(p, address, bytes)?.as_ptr();
    if address & 63 != 0 {
        return Err(Errno::EFAULT);
    }
    // SAFETY: these places are inside the area, and aligned as it is.
    let (mxcsr, present, form) = unsafe {
        let form = area.add(FORM).cast::<[u64; ZERO_WORDS]>().read();
        (area.add(MXCSR).cast::<u32>().read(), area.add(PRESENT).cast::<u64>().read(), form)
    };
    if mxcsr & !MXCSR_BITS != 0 || present & !vectors.parts != 0 || form != [0; ZERO_WORDS] {
        return Err(Errno::EFAULT);
    }
    if parts != vectors.parts {
        p.me.signals.vectors.reset();
    }
    // SAFETY: aligned, readable, and nothing in it that the CPU would refuse.
    unsafe { vectors.load(area, parts) };
    Ok(())
}

/// Only the fxsave area counts; whatever is beyond gets its first state.
fn restore_legacy(p: &mut Process, address: u64) -> Result<()> {
    let area = user::slice_in(p, address, LEGACY_BYTES)?.as_ptr();
    if address & 15 != 0 {
        return Err(Errno::EFAULT);
    }
    // SAFETY: inside the area, and aligned.
    let mxcsr = unsafe { area.add(MXCSR).cast::<u32>().read() };
    if mxcsr & !MXCSR_BITS != 0 {
        return Err(Errno::EFAULT);
    }
    p.me.signals.vectors.reset();
    // SAFETY: aligned, readable, and MXCSR is good.
    unsafe { asm!("fxrstor64 [{}]", in(reg) area, options(nostack, readonly, preserves_flags)) };
    Ok(())
}
