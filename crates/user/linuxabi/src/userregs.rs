//! `struct user`: registers as `ptrace` shows and takes them.

use crate::Errno;

/// `struct user_regs_struct`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct UserRegs {
    pub r15: u64,
    pub r14: u64,
    pub r13: u64,
    pub r12: u64,
    pub rbp: u64,
    pub rbx: u64,
    pub r11: u64,
    pub r10: u64,
    pub r9: u64,
    pub r8: u64,
    pub rax: u64,
    pub rcx: u64,
    pub rdx: u64,
    pub rsi: u64,
    pub rdi: u64,
    /// The number of the system call, or -1 outside of one.
    pub orig_rax: u64,
    pub rip: u64,
    pub cs: u64,
    pub rflags: u64,
    pub rsp: u64,
    pub ss: u64,
    pub fs_base: u64,
    pub gs_base: u64,
    pub ds: u64,
    pub es: u64,
    pub fs: u64,
    pub gs: u64,
}

/// Words of it.
pub const WORDS: usize = 27;
/// Bytes of it.
pub const BYTES: usize = WORDS * 8;
/// Bytes of `struct user`.
pub const USER_BYTES: u64 = 912;
/// Where its debug registers begin.
pub const DEBUG_REGISTERS: u64 = 848;

/// `cs` of a program.
pub const CS: u64 = 0x33;
/// `ss` of a program.
pub const SS: u64 = 0x2b;
/// Flags that a tracer sets: CF, PF, AF, ZF, SF, TF, DF, OF, NT, RF, AC.
pub const SETTABLE_FLAGS: u64 = 0x5_4dd5;

const _: () = assert!(core::mem::size_of::<UserRegs>() == BYTES);

impl UserRegs {
    /// Its words, in order.
    pub fn words(&self) -> [u64; WORDS] {
        [
            self.r15,
            self.r14,
            self.r13,
            self.r12,
            self.rbp,
            self.rbx,
            self.r11,
            self.r10,
            self.r9,
            self.r8,
            self.rax,
            self.rcx,
            self.rdx,
            self.rsi,
            self.rdi,
            self.orig_rax,
            self.rip,
            self.cs,
            self.rflags,
            self.rsp,
            self.ss,
            self.fs_base,
            self.gs_base,
            self.ds,
            self.es,
            self.fs,
            self.gs,
        ]
    }

    /// From its words.
    pub fn from_words(words: &[u64; WORDS]) -> UserRegs {
        let [r15, r14, r13, r12, rbp, rbx, r11, r10, r9, r8, rax, rcx, rdx, rsi, rdi, orig_rax, rip, cs, rflags, rsp, ss, fs_base, gs_base, ds, es, fs, gs] =
            *words;
        UserRegs {
            r15,
            r14,
            r13,
            r12,
            rbp,
            rbx,
            r11,
            r10,
            r9,
            r8,
            rax,
            rcx,
            rdx,
            rsi,
            rdi,
            orig_rax,
            rip,
            cs,
            rflags,
            rsp,
            ss,
            fs_base,
            gs_base,
            ds,
            es,
            fs,
            gs,
        }
    }

    /// These with their first words replaced by those in `bytes`, of which a part of a word counts not.
    ///
    /// # Errors
    ///
    /// `EIO`: a value that no program may have.
    pub fn changed(&self, bytes: &[u8], user_end: u64) -> Result<UserRegs, Errno> {
        let mut words = self.words();
        for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
        }
        let mut new = UserRegs::from_words(&words);
        let data = |selector: u64| selector == 0 || selector == SS;
        let selectors = [new.ds, new.es, new.fs, new.gs];
        if new.cs != CS || new.ss != SS || !selectors.into_iter().all(data) {
            return Err(Errno::EIO);
        }
        if new.fs_base >= user_end || new.gs_base >= user_end {
            return Err(Errno::EIO);
        }
        new.rflags = self.rflags & !SETTABLE_FLAGS | new.rflags & SETTABLE_FLAGS;
        Ok(new)
    }

    /// The same for the one word at `offset`.
    ///
    /// # Errors
    ///
    /// `EIO`, also for an offset that is not that of a word.
    pub fn with_word(&self, offset: u64, value: u64, user_end: u64) -> Result<UserRegs, Errno> {
        let mut words = self.words();
        let word = words.get_mut(offset as usize / 8).filter(|_| offset.is_multiple_of(8));
        *word.ok_or(Errno::EIO)? = value;
        let mut bytes = [0; BYTES];
        for (bytes, word) in bytes.chunks_exact_mut(8).zip(words) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        self.changed(&bytes, user_end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const END: u64 = 1 << 47;

    fn regs() -> UserRegs {
        let words = core::array::from_fn(|n| n as u64 + 1);
        UserRegs { cs: CS, ss: SS, ds: 0, es: 0, fs: 0, gs: 0, ..UserRegs::from_words(&words) }
    }

    #[test]
    fn words_are_in_the_order_of_linux() {
        let regs = regs();
        let words = regs.words();
        assert_eq!(UserRegs::from_words(&words), regs);
        // Offsets of `struct user_regs_struct`, as its header has them.
        assert_eq!(core::mem::offset_of!(UserRegs, orig_rax), 120);
        assert_eq!(core::mem::offset_of!(UserRegs, rip), 128);
        assert_eq!(core::mem::offset_of!(UserRegs, rsp), 152);
        assert_eq!(core::mem::offset_of!(UserRegs, fs_base), 168);
        assert_eq!(words[16], regs.rip);
    }

    #[test]
    fn what_no_program_may_have_is_refused() {
        let regs = regs();
        let at = |word: u64| word * 8;
        assert_eq!(regs.with_word(at(17), 0x8, END), Err(Errno::EIO));
        assert_eq!(regs.with_word(at(20), 0, END), Err(Errno::EIO));
        assert_eq!(regs.with_word(at(21), END, END), Err(Errno::EIO));
        assert_eq!(regs.with_word(3, 0, END), Err(Errno::EIO));
        assert_eq!(regs.with_word(at(27), 0, END), Err(Errno::EIO));
        assert_eq!(regs.with_word(at(16), u64::MAX, END).map(|regs| regs.rip), Ok(u64::MAX));
    }

    #[test]
    fn flags_of_the_kernel_stay() {
        const INTERRUPTS: u64 = 0x200;
        let before = UserRegs { rflags: INTERRUPTS, ..regs() };
        let after = before.with_word(18 * 8, u64::MAX, END).expect("flags may be anything");
        assert_eq!(after.rflags, INTERRUPTS | SETTABLE_FLAGS);
        let after = after.with_word(18 * 8, 0, END).expect("flags may be anything");
        assert_eq!(after.rflags, INTERRUPTS);
    }

    #[test]
    fn a_part_leaves_the_rest() {
        let before = regs();
        let after = before.changed(&[0xff; 12], END).expect("two registers");
        assert_eq!(after, UserRegs { r15: u64::MAX, ..before });
    }
}
