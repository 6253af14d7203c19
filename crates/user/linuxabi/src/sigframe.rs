//! What Linux puts on a program's stack before it enters a signal handler, and how `rt_sigreturn`
//! finds it there.
//!
//! ```text
//! top ─▶ (red zone of 128 bytes, unless this is the alternate stack)
//!        vector state: fxsave area, xsave header, extended parts, MAGIC2     aligned to 64
//!        Frame: return address, context, siginfo                             8 beyond a multiple of 16
//! ```
//!
//! Some of the fxsave area that no CPU uses says what follows it ([`Software`]); where that is
//! missing, only the first 512 bytes count.

use core::mem::offset_of;

/// Bytes below the stack pointer that belong to the program.
pub const RED_ZONE: u64 = 128;
/// Words of a `siginfo_t`.
pub const INFO_WORDS: usize = 16;
/// Bytes of the fxsave area.
pub const LEGACY_BYTES: usize = 512;
/// Bytes of the fxsave area and the xsave header.
pub const XSAVE_MIN_BYTES: usize = 576;
/// Where [`Software`] lies in the fxsave area.
pub const SOFTWARE_OFFSET: usize = 464;
/// Says that [`Software`] is there.
pub const MAGIC1: u32 = 0x4650_5853;
/// Lies behind the vector state.
pub const MAGIC2: u32 = 0x4650_5845;
/// Bytes of [`MAGIC2`].
pub const MAGIC2_BYTES: usize = 4;

/// `uc_flags`: there is an xsave area.
pub const UC_FP_XSTATE: u64 = 1;
/// `uc_flags`: `ss` is saved.
pub const UC_SIGCONTEXT_SS: u64 = 2;
/// `uc_flags`: `ss` is restored.
pub const UC_STRICT_RESTORE_SS: u64 = 4;

/// Selectors as programs know them from Linux: `cs`, `gs`, `fs`, `ss`.
pub const LINUX_SELECTORS: u64 = 0x002b_0000_0000_0033;
/// Flags that `rt_sigreturn` restores: AC, OF, DF, TF, SF, ZF, AF, PF, CF, RF.
pub const RESTORED_FLAGS: u64 = 0x5_0dd5;
/// Flags that are off when a handler starts: DF, TF, RF.
pub const CLEARED_FLAGS: u64 = 0x1_0500;

/// `stack_t`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct Stack {
    pub sp: u64,
    pub flags: u32,
    pub padding: u32,
    pub size: u64,
}

/// `struct sigcontext`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Machine {
    pub r8: u64,
    pub r9: u64,
    pub r10: u64,
    pub r11: u64,
    pub r12: u64,
    pub r13: u64,
    pub r14: u64,
    pub r15: u64,
    pub rdi: u64,
    pub rsi: u64,
    pub rbp: u64,
    pub rbx: u64,
    pub rdx: u64,
    pub rax: u64,
    pub rcx: u64,
    pub rsp: u64,
    pub rip: u64,
    pub rflags: u64,
    pub selectors: u64,
    pub error: u64,
    pub vector: u64,
    pub old_mask: u64,
    pub cr2: u64,
    /// Address of the vector state; 0 for none.
    pub vectors: u64,
    pub reserved: [u64; 8],
}

/// The kernel's `struct ucontext`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Context {
    pub flags: u64,
    pub link: u64,
    pub stack: Stack,
    pub machine: Machine,
    pub mask: u64,
}

/// `struct rt_sigframe`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Frame {
    /// Where the handler returns to.
    pub restorer: u64,
    pub context: Context,
    pub info: [u64; INFO_WORDS],
}

/// `struct _fpx_sw_bytes`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct Software {
    pub magic1: u32,
    /// With [`MAGIC2`].
    pub extended_size: u32,
    /// Parts of the state that are there, as in XCR0.
    pub parts: u64,
    /// Without [`MAGIC2`].
    pub size: u32,
    pub padding: [u32; 7],
}

// Linux's offsets.
const _: () = {
    assert!(size_of::<Stack>() == 24);
    assert!(size_of::<Machine>() == 256);
    assert!(offset_of!(Machine, rip) == 128);
    assert!(offset_of!(Machine, selectors) == 144);
    assert!(offset_of!(Machine, cr2) == 176);
    assert!(offset_of!(Machine, vectors) == 184);
    assert!(size_of::<Context>() == 304);
    assert!(offset_of!(Context, machine) == 40);
    assert!(offset_of!(Context, mask) == 296);
    assert!(offset_of!(Frame, info) == 312);
    assert!(size_of::<Frame>() == 440);
    assert!(size_of::<Software>() == LEGACY_BYTES - SOFTWARE_OFFSET);
    assert!(size_of::<crate::general::siginfo>() == INFO_WORDS * 8);
};

/// Where a frame lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Placement {
    /// Address of the [`Frame`], the handler's stack pointer.
    pub frame: u64,
    /// Address of the vector state.
    pub vectors: u64,
    /// Bytes from `frame` to the end of it all.
    pub bytes: usize,
}

/// Places a frame with `vector_bytes` of vector state below `top`. Where there is no room at all
/// the addresses wrap around, to where no program can write.
pub const fn place(top: u64, vector_bytes: usize) -> Placement {
    let vector_bytes = vector_bytes + MAGIC2_BYTES;
    let vectors = top.wrapping_sub(vector_bytes as u64) & !63;
    let frame = (vectors.wrapping_sub(size_of::<Frame>() as u64) & !15).wrapping_sub(8);
    let bytes = vectors.wrapping_sub(frame) as usize + vector_bytes;
    Placement { frame, vectors, bytes }
}

/// What a sane [`Software`] says of the parts to restore; `None`: only the fxsave area counts.
/// `bytes` and `parts` are what the CPU has.
pub fn extended_parts(software: &Software, bytes: usize, parts: u64) -> Option<u64> {
    let size = software.size as usize;
    let sane = software.magic1 == MAGIC1
        && (XSAVE_MIN_BYTES..=bytes).contains(&size)
        && size <= software.extended_size as usize;
    if sane {
        Some(software.parts & parts)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_aligned_and_below_the_top() {
        for top in (0x7000_0000..0x7000_0100).step_by(1) {
            for bytes in [LEGACY_BYTES, XSAVE_MIN_BYTES, 832, 2696] {
                let place = place(top, bytes);
                assert_eq!(place.frame % 16, 8);
                assert_eq!(place.vectors % 64, 0);
                assert!(place.frame + size_of::<Frame>() as u64 <= place.vectors);
                assert!(place.vectors + (bytes + MAGIC2_BYTES) as u64 <= top);
                let end = place.frame + place.bytes as u64;
                assert_eq!(end, place.vectors + (bytes + MAGIC2_BYTES) as u64);
            }
        }
    }

    #[test]
    fn no_room_is_no_panic() {
        assert!(place(16, 832).frame > 1 << 63);
    }

    #[test]
    fn flags_are_those_of_linux() {
        let bits = |list: &[u64]| list.iter().fold(0, |all, bit| all | 1 << bit);
        assert_eq!(RESTORED_FLAGS, bits(&[18, 11, 10, 8, 7, 6, 4, 2, 0, 16]));
        assert_eq!(CLEARED_FLAGS, bits(&[10, 8, 16]));
    }

    #[test]
    fn only_a_sane_description_counts() {
        let good = Software {
            magic1: MAGIC1,
            extended_size: 836,
            parts: 0xff,
            size: 832,
            padding: [0; 7],
        };
        assert_eq!(extended_parts(&good, 832, 7), Some(7));
        assert_eq!(extended_parts(&Software { magic1: 0, ..good }, 832, 7), None);
        assert_eq!(extended_parts(&Software { size: 575, ..good }, 832, 7), None);
        assert_eq!(extended_parts(&Software { size: 833, ..good }, 832, 7), None);
        assert_eq!(extended_parts(&Software { extended_size: 0, ..good }, 832, 7), None);
    }
}
