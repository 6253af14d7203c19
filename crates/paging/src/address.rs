//! Virtual addresses: 48 bits, sign-extended.

/// Whether bits 47 to 63 of `va` are all equal, as a four-level machine demands.
pub const fn is_canonical(va: u64) -> bool {
    sign_extend(va) == va
}

/// `va` with bits 48 to 63 replaced by copies of bit 47.
pub const fn sign_extend(va: u64) -> u64 {
    (((va << 16) as i64) >> 16) as u64
}

/// Whether `va` lies in the lower half, which belongs to user mode.
pub const fn is_user(va: u64) -> bool {
    va >> 47 == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_halves_meet_their_borders() {
        assert!(is_user(0x7fff_ffff_ffff) && is_canonical(0x7fff_ffff_ffff));
        assert!(!is_user(0x8000_0000_0000) && !is_canonical(0x8000_0000_0000));
        assert!(is_canonical(0xffff_8000_0000_0000) && !is_user(0xffff_8000_0000_0000));
        assert!(!is_canonical(0xffff_7fff_ffff_ffff));
        assert_eq!(sign_extend(0x8000_0000_0000), 0xffff_8000_0000_0000);
    }
}
