//! Handler frames in the program's memory, written and read by guarded code (`libos::guarded`): words of the frame,
//! registers, vector state.

use crate::errno::{Errno, Result};
use crate::mm::{user, Mm};
use abi::Regs;
use core::arch::{asm, global_asm};
use core::mem::offset_of;
use libos::guarded::Fault;
use linuxabi::sigframe::{Context, Frame, Machine, INFO_WORDS, MAGIC2, SOFTWARE_OFFSET};
use uvm::Access;

/// The words of a frame that are not registers, in their order.
#[repr(C)]
pub struct Words {
    pub restorer: u64,
    pub flags: u64,
    pub link: u64,
    /// `stack_t`.
    pub stack: [u64; 3],
    pub selectors: u64,
    pub error: u64,
    pub vector: u64,
    pub old_mask: u64,
    pub cr2: u64,
    pub vectors: u64,
    pub mask: u64,
    /// The first words of the `siginfo`. The others are zero.
    pub info: [u64; 4],
}

/// What is read of a frame besides the registers.
#[derive(Default)]
#[repr(C)]
pub struct Taken {
    pub rflags: u64,
    /// Address of the vector state.
    pub vectors: u64,
    pub mask: u64,
    /// `stack_t`.
    pub stack: [u64; 3],
}

/// Where the xsave header is in the area, and how many words it has.
pub const HEADER: usize = 512;
const HEADER_WORDS: usize = 8;
/// Where the control register MXCSR is in the area.
const MXCSR: usize = 24;
/// What the header says of the legacy parts, which are always there.
const LEGACY_PARTS: u64 = 3;
/// Words of [`linuxabi::sigframe::Software`].
const SOFTWARE_WORDS: usize = 6;

// What the code below relies on.
const _: () = {
    assert!(offset_of!(Frame, context) + offset_of!(Context, machine) == 6 * 8);
    assert!(offset_of!(Machine, selectors) == 18 * 8 && offset_of!(Machine, error) == 19 * 8);
    assert!(offset_of!(Machine, vectors) == 23 * 8 && offset_of!(Machine, reserved) == 24 * 8);
    assert!(offset_of!(Context, mask) == offset_of!(Context, machine) + 32 * 8);
    assert!(offset_of!(Frame, info) == offset_of!(Frame, context) + offset_of!(Context, mask) + 8);
    assert!(offset_of!(Words, selectors) == 6 * 8 && offset_of!(Words, info) == 13 * 8);
    assert!(INFO_WORDS == 16 && offset_of!(Taken, stack) == 24);
    assert!(HEADER_WORDS == 8 && SOFTWARE_WORDS == 6);
};

#[inline(always)]
fn or_fault(address: u64, code: u64) -> core::result::Result<(), Fault> {
    match code {
        0 => Ok(()),
        _ => Err(Fault { address, code }),
    }
}

/// Writes a frame to `addr`, with the `siginfo` if there is to be one.
#[inline(always)]
pub fn put_frame(mm: &mut Mm, addr: u64, words: &Words, regs: &Regs, info: bool) -> Result<()> {
    let bytes = if info { size_of::<Frame>() } else { offset_of!(Frame, info) };
    user::whole(mm, addr, bytes, Access::Write, |memory| {
        let (address, code): (u64, u64);
        // SAFETY: reads what `words` and `regs` are; writes to program memory, guarded.
        unsafe {
            asm!("call {}", sym libunix_guarded_put_frame, inout("rdi") memory.address() => _,
                inout("rsi") &raw const *words => _, inout("rdx") &raw const *regs => code,
                in("r8") u64::from(info), out("rax") address, out("rcx") _);
        }
        or_fault(address, code)
    })
}

/// Loads the registers of the frame's context at `addr` but the flags, which are with what else is returned.
#[inline(always)]
pub fn take_registers(mm: &mut Mm, addr: u64, regs: &mut Regs) -> Result<Taken> {
    let mut taken = Taken::default();
    user::whole(mm, addr, size_of::<Context>(), Access::Read, |memory| {
        let (address, code): (u64, u64);
        // SAFETY: writes to `regs` and `taken`; reads program memory, guarded.
        unsafe {
            asm!("call {}", sym libunix_guarded_take_registers, in("rdi") &raw mut *regs,
                in("rsi") memory.address(), in("rcx") &raw mut taken, out("rax") address,
                out("rdx") code);
        }
        or_fault(address, code)
    })?;
    Ok(taken)
}

/// Saves vector registers at `addr`, a multiple of 64, with what `software` says of them, and the mark behind the
/// `bytes` bytes of the area.
#[inline(always)]
pub fn put_vectors(
    mm: &mut Mm,
    addr: u64,
    bytes: usize,
    parts: u64,
    software: &[u64; SOFTWARE_WORDS],
) -> Result<()> {
    user::whole(mm, addr, bytes + size_of_val(&MAGIC2), Access::Write, |memory| {
        let (address, code): (u64, u64);
        // SAFETY: reads the words of `software`; writes to program memory, guarded, as much as there is state.
        unsafe {
            asm!("call {}", sym libunix_guarded_put_vectors, in("rdi") memory.address(),
                in("rsi") software, in("rcx") bytes, inout("rax") parts & 0xffff_ffff => address,
                inout("rdx") parts >> 32 => code, out("r8") _);
        }
        or_fault(address, code)
    })
}

/// What an area says of itself.
#[derive(Default)]
#[repr(C)]
pub struct Described {
    /// The first words of [`linuxabi::sigframe::Software`].
    pub software: [u64; 3],
    /// The first words of the xsave header.
    pub header: [u64; 3],
    /// MXCSR, in the lower half.
    pub mxcsr: u64,
}

/// Reads what is to be checked of the area at `addr`, `bytes` bytes large.
#[inline(always)]
pub fn describe(mm: &mut Mm, addr: u64, bytes: usize) -> Result<Described> {
    let mut all = Described::default();
    let at = HEADER + HEADER_WORDS * 8;
    if bytes < at {
        return Err(Errno::EFAULT);
    }
    user::whole(mm, addr, at, Access::Read, |memory| {
        let (address, code): (u64, u64);
        // SAFETY: writes to `all`; reads program memory, guarded.
        unsafe {
            asm!("call {}", sym libunix_guarded_describe, in("rdi") &raw mut all,
                in("rsi") memory.address(), out("rax") address, out("rdx") code);
        }
        or_fault(address, code)
    })?;
    Ok(all)
}

extern "C" {
    fn libunix_guarded_put_frame();
    fn libunix_guarded_take_registers();
    fn libunix_guarded_put_vectors();
    fn libunix_guarded_describe();
}

/// Assembly: `$each!(a, b, number)` for the registers that a frame has, with their places in [`Regs`].
macro_rules! registers {
    ($each:ident) => {
        concat!(
            $each!(r8, 0),
            $each!(r9, 1),
            $each!(r10, 2),
            $each!(r11, 3),
            $each!(r12, 4),
            $each!(r13, 5),
            $each!(r14, 6),
            $each!(r15, 7),
            $each!(rdi, 8),
            $each!(rsi, 9),
            $each!(rbp, 10),
            $each!(rbx, 11),
            $each!(rdx, 12),
            $each!(rax, 13),
            $each!(rcx, 14),
            $each!(rsp, 15),
            $each!(rip, 16),
        )
    };
}

/// From the registers at `rdx` to the words at `rdi`.
macro_rules! put {
    ($register:ident, $number:literal) => {
        concat!(
            "mov rax, [rdx + {",
            stringify!($register),
            "}]; mov [rdi + 8 * ",
            $number,
            "], rax;"
        )
    };
}

/// From the words at `rsi` to the registers at `rdi`.
macro_rules! take {
    ($register:ident, $number:literal) => {
        concat!(
            "mov rax, [rsi + {machine} + 8 * ",
            $number,
            "]; mov [rdi + {",
            stringify!($register),
            "}], rax;"
        )
    };
}

global_asm!(
    ".section guarded, \"ax\"",
    ".global libunix_guarded_put_frame, libunix_guarded_take_registers",
    ".global libunix_guarded_put_vectors, libunix_guarded_describe",
    // rdi: to, rsi: words, rdx: registers, r8: 1 if there is to be a siginfo.
    "libunix_guarded_put_frame:",
    "mov ecx, 6",
    "rep movsq",
    registers!(put),
    "mov rax, [rdx + {rflags}]",
    "mov [rdi + 8 * 17], rax",
    "add rdi, 8 * 18",
    "mov ecx, 6",
    "rep movsq",
    "add rdi, 8 * 8",
    "movsq",
    "test r8d, r8d",
    "jz 2f",
    "movsq; movsq; movsq; movsq",
    "mov ecx, 12",
    "xor eax, eax",
    "rep stosq",
    "2:",
    "xor edx, edx",
    "ret",
    // rdi: registers, rsi: context, rcx: what else is taken.
    "libunix_guarded_take_registers:",
    registers!(take),
    "mov rax, [rsi + {machine} + 8 * 17]",
    "mov [rcx], rax",
    "mov rax, [rsi + {machine} + 8 * 23]",
    "mov [rcx + 8], rax",
    "mov rax, [rsi + {mask}]",
    "mov [rcx + 16], rax",
    ".irp word, 0, 1, 2",
    "mov rax, [rsi + {stack} + 8 * \\word]",
    "mov [rcx + 24 + 8 * \\word], rax",
    ".endr",
    "xor edx, edx",
    "ret",
    // rdi: area, rsi: software, rcx: bytes, edx:eax: parts.
    "libunix_guarded_put_vectors:",
    "xor r8d, r8d",
    ".irp word, 0, 1, 2, 3, 4, 5, 6, 7",
    "mov [rdi + {header} + 8 * \\word], r8",
    ".endr",
    "xsave64 [rdi]",
    "or qword ptr [rdi + {header}], {legacy}",
    ".irp word, 0, 1, 2, 3, 4, 5",
    "mov r8, [rsi + 8 * \\word]",
    "mov [rdi + {software} + 8 * \\word], r8",
    ".endr",
    "mov dword ptr [rdi + rcx], {magic}",
    "xor edx, edx",
    "ret",
    // rdi: to, rsi: area.
    "libunix_guarded_describe:",
    ".irp word, 0, 1, 2",
    "mov rax, [rsi + {software} + 8 * \\word]",
    "mov [rdi + 8 * \\word], rax",
    "mov rax, [rsi + {header} + 8 * \\word]",
    "mov [rdi + 24 + 8 * \\word], rax",
    ".endr",
    "mov eax, [rsi + {mxcsr}]",
    "mov [rdi + 48], rax",
    "xor edx, edx",
    "ret",
    ".text",
    r8 = const offset_of!(Regs, r8),
    r9 = const offset_of!(Regs, r9),
    r10 = const offset_of!(Regs, r10),
    r11 = const offset_of!(Regs, r11),
    r12 = const offset_of!(Regs, r12),
    r13 = const offset_of!(Regs, r13),
    r14 = const offset_of!(Regs, r14),
    r15 = const offset_of!(Regs, r15),
    rdi = const offset_of!(Regs, rdi),
    rsi = const offset_of!(Regs, rsi),
    rbp = const offset_of!(Regs, rbp),
    rbx = const offset_of!(Regs, rbx),
    rdx = const offset_of!(Regs, rdx),
    rax = const offset_of!(Regs, rax),
    rcx = const offset_of!(Regs, rcx),
    rsp = const offset_of!(Regs, rsp),
    rip = const offset_of!(Regs, rip),
    rflags = const offset_of!(Regs, rflags),
    machine = const offset_of!(Context, machine),
    mask = const offset_of!(Context, mask),
    stack = const offset_of!(Context, stack),
    header = const HEADER,
    legacy = const LEGACY_PARTS,
    software = const SOFTWARE_OFFSET,
    magic = const MAGIC2,
    mxcsr = const MXCSR,
);
