//! Advisory record locks as `fcntl` describes them.

use crate::bytes::{get_u16, get_u64, Bytes};
use crate::general as raw;
use crate::Errno;

/// Bytes of `struct flock`.
pub const FLOCK_BYTES: usize = size_of::<raw::flock>();

/// A `struct flock`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Flock {
    /// `F_RDLCK`, `F_WRLCK` or `F_UNLCK`.
    pub ty: u16,
    /// What `start` is relative to.
    pub whence: u16,
    pub start: i64,
    pub len: i64,
    pub pid: i32,
}

/// `F_UNLCK`.
pub const UNLOCKED: u16 = raw::F_UNLCK as u16;

impl Flock {
    /// From the program's memory.
    pub fn decode(bytes: &[u8; FLOCK_BYTES]) -> Result<Flock, Errno> {
        let lock = Flock {
            ty: get_u16(bytes, 0),
            whence: get_u16(bytes, 2),
            start: get_u64(bytes, 8) as i64,
            len: get_u64(bytes, 16) as i64,
            pid: get_u64(bytes, 24) as i32,
        };
        if lock.ty > UNLOCKED || lock.whence > 2 {
            return Err(Errno::EINVAL);
        }
        Ok(lock)
    }
    /// To the program's memory.
    pub fn encode(&self) -> [u8; FLOCK_BYTES] {
        Bytes::default()
            .u16(self.ty)
            .u16(self.whence)
            .u32(0)
            .u64(self.start as u64)
            .u64(self.len as u64)
            .u32(self.pid as u32)
            .done()
    }
}
