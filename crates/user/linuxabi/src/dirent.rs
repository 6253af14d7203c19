//! `struct linux_dirent64` and its older sister: variable-length records of a directory listing.

use crate::general::linux_dirent64;
use core::mem::offset_of;

const HEAD: usize = offset_of!(linux_dirent64, d_name);

/// Appends one `linux_dirent64` to `buf` at `at`. Answers where the next one goes, or `None` if it
/// does not fit.
pub fn put64(buf: &mut [u8], at: usize, ino: u64, next: u64, ty: u8, name: &[u8]) -> Option<usize> {
    let len = (HEAD + name.len() + 1).next_multiple_of(8);
    let record = buf.get_mut(at..at.checked_add(len)?)?;
    record.fill(0);
    record[0..8].copy_from_slice(&ino.to_le_bytes());
    record[8..16].copy_from_slice(&next.to_le_bytes());
    record[16..18].copy_from_slice(&(len as u16).to_le_bytes());
    record[18] = ty;
    record[HEAD..HEAD + name.len()].copy_from_slice(name);
    Some(at + len)
}

/// Turns one `linux_dirent64` record into a `linux_dirent`, in place: the type moves from the
/// head to the last byte.
pub fn to_old(record: &mut [u8]) {
    let Some(ty) = record.get(18).copied() else { return };
    let len = record.len();
    record.copy_within(HEAD..len, 18);
    record[len - 1] = ty;
}

/// `d_type` for the type bits of a mode.
pub const fn type_of_mode(mode: u32) -> u8 {
    (mode >> 12 & 15) as u8
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::get_u16;

    #[test]
    fn records_are_packed_and_bounded() {
        let mut buf = [0xff; 56];
        let one = put64(&mut buf, 0, 1, 1, 4, b".").unwrap();
        assert_eq!(one, 24);
        let two = put64(&mut buf, one, 2, 2, 8, b"hello.txt").unwrap();
        assert_eq!(two, 56);
        assert_eq!(get_u16(&buf, 24 + 16), 32);
        assert_eq!(&buf[24 + 19..24 + 29], b"hello.txt\0");
        assert_eq!(put64(&mut buf, two, 3, 3, 8, b"x"), None);
        to_old(&mut buf[24..56]);
        assert_eq!(&buf[24 + 18..24 + 28], b"hello.txt\0");
        assert_eq!(buf[55], 8);
    }
}
