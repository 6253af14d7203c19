//! `stat`, `statx` and `statfs`.

use crate::bytes::Bytes;
use crate::general as raw;

/// What is known about a file, in whatever form it is asked for.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// Device that holds it, as `makedev` packs it.
    pub dev: u64,
    pub ino: u64,
    /// Type and permission bits.
    pub mode: u32,
    pub nlink: u32,
    pub uid: u32,
    pub gid: u32,
    /// Device that it is, as `makedev` packs it.
    pub rdev: u64,
    pub size: u64,
    pub block_size: u32,
    /// In units of 512 bytes.
    pub blocks: u64,
    /// Nanoseconds since 1970.
    pub atime: i64,
    pub mtime: i64,
    pub ctime: i64,
}

const SECOND: i64 = 1_000_000_000;

fn split(ns: i64) -> (u64, u64) {
    (ns.div_euclid(SECOND) as u64, ns.rem_euclid(SECOND) as u64)
}

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

impl Attributes {
    /// As `struct stat`.
    pub fn to_stat(&self) -> [u8; STAT_BYTES] {
        let mut b = Bytes::default()
            .u64(self.dev)
            .u64(self.ino)
            .u64(self.nlink as u64)
            .u32(self.mode)
            .u32(self.uid)
            .u32(self.gid)
            .u32(0)
            .u64(self.rdev)
            .u64(self.size)
            .u64(self.block_size as u64)
            .u64(self.blocks);
        for ns in [self.atime, self.mtime, self.ctime] {
            let (sec, nsec) = split(ns);
            b = b.u64(sec).u64(nsec);
        }
        b.done()
    }

    /// As `struct statx` with the basic statistics and the birth time (the change time).
    pub fn to_statx(&self) -> [u8; STATX_BYTES] {
        let mut b = Bytes::default()
            .u32(raw::STATX_BASIC_STATS)
            .u32(self.block_size)
            .u64(0)
            .u32(self.nlink)
            .u32(self.uid)
            .u32(self.gid)
            .u16(self.mode as u16)
            .u16(0)
            .u64(self.ino)
            .u64(self.size)
            .u64(self.blocks)
            .u64(0);
        for ns in [self.atime, 0, self.ctime, self.mtime] {
            let (sec, nsec) = split(ns);
            b = b.u64(sec).u32(nsec as u32).u32(0);
        }
        let (rmajor, rminor) = device(self.rdev);
        let (major, minor) = device(self.dev);
        b.u32(rmajor).u32(rminor).u32(major).u32(minor).done()
    }
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
    use crate::bytes::{get_u32, get_u64};
    use core::mem::offset_of;

    #[test]
    fn stat_fields_are_where_the_headers_say() {
        let a = Attributes {
            ino: 5,
            mode: 0o100644,
            size: 77,
            block_size: 4096,
            mtime: -1,
            rdev: 9,
            ..Default::default()
        };
        let s = a.to_stat();
        assert_eq!(get_u64(&s, offset_of!(raw::stat, st_ino)), 5);
        assert_eq!(get_u32(&s, offset_of!(raw::stat, st_mode)), 0o100644);
        assert_eq!(get_u64(&s, offset_of!(raw::stat, st_rdev)), 9);
        assert_eq!(get_u64(&s, offset_of!(raw::stat, st_size)), 77);
        assert_eq!(get_u64(&s, offset_of!(raw::stat, st_mtime)) as i64, -1);
        assert_eq!(get_u64(&s, offset_of!(raw::stat, st_mtime_nsec)), 999_999_999);
    }

    #[test]
    fn statx_fields_are_where_the_headers_say() {
        let a =
            Attributes { size: 3, dev: makedev(1, 300), rdev: makedev(5, 1), ..Default::default() };
        let s = a.to_statx();
        assert_eq!(get_u64(&s, offset_of!(raw::statx, stx_size)), 3);
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
