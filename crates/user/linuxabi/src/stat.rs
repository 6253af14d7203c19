//! `stat`, `statx` and `statfs`.

use crate::bytes::{get_u32, get_u64, Bytes};
use crate::general as raw;
use core::mem::offset_of;

/// Major and minor number of a packed device number.
pub const fn device(dev: u64) -> (u32, u32) {
    let major = (dev >> 8 & 0xfff) | (dev >> 32 & 0xffff_f000);
    let minor = (dev & 0xff) | (dev >> 12 & 0xffff_ff00);
    (major as u32, minor as u32)
}

/// A packed device number.
pub const fn makedev(major: u32, minor: u32) -> u64 {
    let (major, minor) = (major as u64, minor as u64);
    (minor & 0xff) | (major & 0xfff) << 8 | (minor & !0xff) << 12 | (major & !0xfff) << 32
}

/// Bytes of `struct stat`.
pub const STAT_BYTES: usize = core::mem::size_of::<raw::stat>();
/// Bytes of `struct statx`.
pub const STATX_BYTES: usize = core::mem::size_of::<raw::statx>();
/// Bytes of `struct statfs`.
pub const STATFS_BYTES: usize = core::mem::size_of::<raw::statfs>();

/// The `struct statx` that says what this `struct stat` says. The birth time is unknown.
pub fn statx(stat: &[u8; STAT_BYTES]) -> [u8; STATX_BYTES] {
    let u32_at = |at| get_u32(stat, at);
    let u64_at = |at| get_u64(stat, at);
    let mut b = Bytes::default()
        .u32(raw::STATX_BASIC_STATS)
        .u32(u64_at(offset_of!(raw::stat, st_blksize)) as u32)
        .u64(0)
        .u32(u64_at(offset_of!(raw::stat, st_nlink)) as u32)
        .u32(u32_at(offset_of!(raw::stat, st_uid)))
        .u32(u32_at(offset_of!(raw::stat, st_gid)))
        .u16(u32_at(offset_of!(raw::stat, st_mode)) as u16)
        .u16(0)
        .u64(u64_at(offset_of!(raw::stat, st_ino)))
        .u64(u64_at(offset_of!(raw::stat, st_size)))
        .u64(u64_at(offset_of!(raw::stat, st_blocks)))
        .u64(0);
    let time = |b: Bytes<STATX_BYTES>, at| b.u64(u64_at(at)).u32(u64_at(at + 8) as u32).u32(0);
    b = time(b, offset_of!(raw::stat, st_atime)).skip(16);
    b = time(b, offset_of!(raw::stat, st_ctime));
    b = time(b, offset_of!(raw::stat, st_mtime));
    let (rdev_major, rdev_minor) = device(u64_at(offset_of!(raw::stat, st_rdev)));
    let (major, minor) = device(u64_at(offset_of!(raw::stat, st_dev)));
    b.u32(rdev_major).u32(rdev_minor).u32(major).u32(minor).done()
}

/// What `statfs` says.
#[derive(Clone, Copy, Default, Debug)]
pub struct FsFacts {
    /// Magic number of the kind of file system.
    pub magic: u64,
    pub block_size: u64,
    pub blocks: u64,
    pub free: u64,
    pub files: u64,
    pub files_free: u64,
}

impl FsFacts {
    /// As `struct statfs`.
    pub fn to_statfs(&self) -> [u8; STATFS_BYTES] {
        const RELATIME: u64 = 0x1020;
        Bytes::default()
            .u64(self.magic)
            .u64(self.block_size)
            .u64(self.blocks)
            .u64(self.free)
            .u64(self.free)
            .u64(self.files)
            .u64(self.files_free)
            .u64(0)
            .u64(255)
            .u64(self.block_size)
            .u64(RELATIME)
            .done()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statx_says_what_stat_says() {
        let mut stat = [0; STAT_BYTES];
        let mut put = |at: usize, v: u64| stat[at..at + 8].copy_from_slice(&v.to_le_bytes());
        put(offset_of!(raw::stat, st_size), 3);
        put(offset_of!(raw::stat, st_rdev), makedev(5, 1));
        put(offset_of!(raw::stat, st_dev), makedev(1, 300));
        put(offset_of!(raw::stat, st_mtime), 77);
        put(offset_of!(raw::stat, st_mtime_nsec), 99);
        let s = statx(&stat);
        assert_eq!(get_u64(&s, offset_of!(raw::statx, stx_size)), 3);
        assert_eq!(get_u64(&s, offset_of!(raw::statx, stx_mtime)), 77);
        assert_eq!(get_u32(&s, offset_of!(raw::statx, stx_mtime) + 8), 99);
        assert_eq!(get_u32(&s, offset_of!(raw::statx, stx_rdev_major)), 5);
        assert_eq!(get_u32(&s, offset_of!(raw::statx, stx_rdev_minor)), 1);
        assert_eq!(get_u32(&s, offset_of!(raw::statx, stx_dev_minor)), 300);
    }

    #[test]
    fn devices_round_trip() {
        for (major, minor) in [(1, 3), (136, 0), (4095, 256), (70000, 1 << 20)] {
            assert_eq!(device(makedev(major, minor)), (major, minor));
        }
    }
}
