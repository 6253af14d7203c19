//! Vector registers over handlers.
//!
//! The library is built without them, so while it runs the registers of the CPU are the program's.
//! A handler frame takes them straight from there, and `rt_sigreturn` puts them back, after
//! everything was checked that would make the CPU refuse.

use super::memory::{self, Described};
use crate::errno::{Errno, Result};
use crate::mm::user;
use crate::process::Task;
use alloc::vec::Vec;
use core::arch::asm;
use core::arch::x86_64::__cpuid_count;
use libos::guarded;
use linuxabi::sigframe::{
    extended_parts, Software, LEGACY_BYTES, MAGIC1, MAGIC2, MAGIC2_BYTES, SOFTWARE_OFFSET,
    XSAVE_MIN_BYTES,
};
use uvm::Access;

/// Bits of MXCSR that may be set.
const MXCSR_BITS: u32 = 0xffff;
/// Where MXCSR is in the area.
const MXCSR: usize = 24;

#[repr(C, align(64))]
struct Area([u8; XSAVE_MIN_BYTES]);

/// The state of a fresh program.
static INITIAL: Area = {
    let mut area = [0; XSAVE_MIN_BYTES];
    [area[0], area[1]] = 0x37f_u16.to_le_bytes();
    [area[MXCSR], area[MXCSR + 1]] = 0x1f80_u16.to_le_bytes();
    Area(area)
};

/// An area in memory of the library, in the state of a fresh program.
struct Aligned {
    /// With room for the alignment.
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl Aligned {
    const ALIGN: usize = 64;

    fn new(len: usize) -> Result<Aligned> {
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(len + Self::ALIGN).map_err(|_| Errno::ENOMEM)?;
        bytes.resize(len + Self::ALIGN, 0);
        let start = bytes.as_ptr().align_offset(Self::ALIGN);
        let mut area = Aligned { bytes, start, len };
        let known = len.min(INITIAL.0.len());
        area.bytes_mut()[..known].copy_from_slice(&INITIAL.0[..known]);
        Ok(area)
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.len]
    }
}

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

    /// The registers as a tracer sees them: an area of `xsave`, or of `fxsave`.
    pub fn shown(&self, extended: bool) -> Result<Vec<u8>> {
        let mut area = Aligned::new(if extended { self.bytes } else { LEGACY_BYTES })?;
        let at = area.bytes_mut().as_mut_ptr();
        match extended {
            true if self.parts == 0 => return Err(Errno::EINVAL),
            // SAFETY: the area is as large as the CPU says, aligned, and nobody else's.
            true => unsafe {
                asm!("xsave64 [{}]", in(reg) at, in("eax") self.parts as u32,
                    in("edx") (self.parts >> 32) as u32, options(nostack, preserves_flags));
            },
            // SAFETY: as above.
            false => unsafe {
                asm!("fxsave64 [{}]", in(reg) at, options(nostack, preserves_flags));
            },
        }
        let bytes = area.bytes_mut();
        if extended {
            // What there is, where debuggers look for it.
            bytes[SOFTWARE_OFFSET..SOFTWARE_OFFSET + 8].copy_from_slice(&self.parts.to_le_bytes());
        }
        Ok(bytes.to_vec())
    }

    /// Sets the registers to what a tracer says.
    pub fn take(&self, bytes: &[u8], extended: bool) -> Result<()> {
        let len = if extended { self.bytes } else { LEGACY_BYTES };
        if bytes.len() != len || extended && self.parts == 0 {
            return Err(Errno::EINVAL);
        }
        let mut area = Aligned::new(len)?;
        let own = area.bytes_mut();
        own.copy_from_slice(bytes);
        let mxcsr = [0, 1, 2, 3].map(|n| own[MXCSR + n]);
        if u32::from_le_bytes(mxcsr) & !MXCSR_BITS != 0 {
            return Err(Errno::EINVAL);
        }
        // SAFETY: the area lives until the end of this function, and is only read.
        let memory = unsafe { guarded::Memory::new(own.as_ptr() as u64, len) };
        let taken = match extended {
            true => guarded::load_vectors(memory, self.parts),
            false => guarded::load_legacy_vectors(memory),
        };
        taken.map_err(|_| Errno::EINVAL)
    }

    /// Gives the registers the state of a fresh program.
    #[inline(always)]
    pub fn reset(&mut self) {
        self.bytes();
        let area = INITIAL.0.as_ptr();
        // SAFETY: `INITIAL` is aligned and good: it says that all parts are in their first state.
        unsafe {
            if self.parts == 0 {
                asm!("fxrstor64 [{}]", in(reg) area, options(nostack, readonly, preserves_flags));
            } else {
                asm!("xrstor64 [{}]", in(reg) area, in("eax") self.parts as u32,
                    in("edx") (self.parts >> 32) as u32, options(nostack, readonly, preserves_flags));
            }
        }
    }
}

/// Saves the registers in the program's memory at `address`, a multiple of 64, and says so for `rt_sigreturn`.
#[inline(always)]
pub fn save(task: &mut Task, address: u64) -> Result<()> {
    let Vectors { parts, bytes } = task.me.signals.vectors;
    if parts == 0 {
        let save = |area| guarded::save_legacy_vectors(area);
        return user::whole(&mut task.mm, address, bytes, Access::Write, save);
    }
    let size = bytes as u32;
    let magics = u64::from(MAGIC1) | u64::from(size + MAGIC2_BYTES as u32) << 32;
    let software = [magics, parts, size.into(), 0, 0, 0];
    memory::put_vectors(&mut task.mm, address, bytes, parts, &software)
}

/// Restores what lies at `address` in the program's memory; it may be anything.
#[inline(always)]
pub fn restore(task: &mut Task, address: u64) -> Result<()> {
    if address == 0 {
        task.me.signals.vectors.reset();
        return Ok(());
    }
    let bytes = task.me.signals.vectors.bytes();
    let vectors = task.me.signals.vectors;
    if vectors.extended() {
        let described = memory::describe(&mut task.mm, address, bytes).ok();
        let parts = described.as_ref().and_then(|all| parts_of(task, address, all));
        if let (Some(described), Some(parts)) = (described, parts) {
            return restore_extended(task, address, &described, parts);
        }
    }
    restore_legacy(task, address)
}

/// The parts that are there beyond the fxsave area.
#[inline(always)]
fn parts_of(task: &mut Task, address: u64, described: &Described) -> Option<u64> {
    let Vectors { parts, bytes } = task.me.signals.vectors;
    let [magics, present, size] = described.software;
    let software = Software {
        magic1: magics as u32,
        extended_size: (magics >> 32) as u32,
        parts: present,
        size: size as u32,
        padding: [0; 7],
    };
    let parts = extended_parts(&software, bytes, parts)?;
    let magic2: u32 =
        user::copy_in(&mut task.mm, address.checked_add(u64::from(software.size))?).ok()?;
    (magic2 == MAGIC2).then_some(parts)
}

/// What is checked here, the program may change before it is loaded: then the processor refuses it, and that
/// is a bad address, too.
#[inline(always)]
fn restore_extended(
    task: &mut Task,
    address: u64,
    described: &Described,
    parts: u64,
) -> Result<()> {
    let Vectors { parts: known, bytes } = task.me.signals.vectors;
    let [present, form @ ..] = described.header;
    if address & 63 != 0
        || described.mxcsr as u32 & !MXCSR_BITS != 0
        || present & !known != 0
        || form != [0; 2]
    {
        return Err(Errno::EFAULT);
    }
    if parts != known {
        task.me.signals.vectors.reset();
    }
    user::whole(&mut task.mm, address, bytes, Access::Read, |area| {
        guarded::load_vectors(area, parts)
    })
}

/// Only the fxsave area counts; whatever is beyond gets its first state.
#[cold]
fn restore_legacy(task: &mut Task, address: u64) -> Result<()> {
    if address & 15 != 0 {
        return Err(Errno::EFAULT);
    }
    let mxcsr: u32 = user::copy_in(&mut task.mm, address.wrapping_add(MXCSR as u64))?;
    if mxcsr & !MXCSR_BITS != 0 {
        return Err(Errno::EFAULT);
    }
    task.me.signals.vectors.reset();
    user::whole(&mut task.mm, address, LEGACY_BYTES, Access::Read, guarded::load_legacy_vectors)
}
