//! Addresses. Virtual ones have as many bits as the levels of the page tables translate, sign-extended.

use core::ops::{Add, BitOr};

/// An address of physical memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
#[repr(transparent)]
pub struct PhysAddr(pub u64);

/// An address that page tables translate.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
#[repr(transparent)]
pub struct VirtAddr(pub u64);

impl PhysAddr {
    /// Address zero, where no object is.
    pub const NONE: PhysAddr = PhysAddr(0);

    /// Returns `true` if it is [`NONE`](Self::NONE).
    #[inline]
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }
}

impl Add<u64> for VirtAddr {
    type Output = VirtAddr;
    #[inline]
    fn add(self, bytes: u64) -> VirtAddr {
        VirtAddr(self.0.wrapping_add(bytes))
    }
}

/// Adds the part of an address that a table of another level translates.
impl BitOr<u64> for VirtAddr {
    type Output = VirtAddr;
    #[inline]
    fn bitor(self, part: u64) -> VirtAddr {
        VirtAddr(self.0 | part)
    }
}

/// Bits of an address that a tree of `levels` levels translates: 48 for four, 57 for five.
const fn bits(levels: u8) -> u32 {
    12 + 9 * levels as u32
}

/// Whether `va` is an address where paging has `levels` levels: the bits that are not translated are
/// copies of the highest one that is.
pub const fn is_canonical(va: u64, levels: u8) -> bool {
    sign_extend(va, levels) == va
}

/// `va` with the bits that are not translated replaced by copies of the highest one that is.
pub const fn sign_extend(va: u64, levels: u8) -> u64 {
    let unused = 64 - bits(levels);
    (((va << unused) as i64) >> unused) as u64
}

/// First address above the lower half, which belongs to user mode.
pub const fn user_end(levels: u8) -> u64 {
    1 << (bits(levels) - 1)
}

/// Whether `va` lies in the lower half of any machine: that of four levels.
pub const fn is_user(va: u64) -> bool {
    va < user_end(4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_halves_meet_their_borders() {
        assert!(is_user(0x7fff_ffff_ffff) && is_canonical(0x7fff_ffff_ffff, 4));
        assert!(!is_user(0x8000_0000_0000) && !is_canonical(0x8000_0000_0000, 4));
        assert!(is_canonical(0xffff_8000_0000_0000, 4) && !is_user(0xffff_8000_0000_0000));
        assert!(!is_canonical(0xffff_7fff_ffff_ffff, 4));
        assert_eq!(sign_extend(0x8000_0000_0000, 4), 0xffff_8000_0000_0000);
    }

    #[test]
    fn a_fifth_level_translates_nine_bits_more() {
        assert_eq!((user_end(4), user_end(5)), (1 << 47, 1 << 56));
        assert!(is_canonical(0x8000_0000_0000, 5) && is_canonical((1 << 56) - 1, 5));
        assert!(!is_canonical(1 << 56, 5) && is_canonical(0xff00_0000_0000_0000, 5));
        // The addresses of four levels are addresses with five.
        assert!(is_canonical(0xffff_8000_0000_0000, 5));
        assert_eq!(sign_extend(1 << 56 | 1, 5), 0xff00_0000_0000_0001);
    }
}
