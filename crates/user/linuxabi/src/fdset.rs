//! `fd_set` of `select`, and what each of its three sets means in events of `poll`.

use crate::general as raw;

/// Most descriptors that a set holds.
pub const MAX_FDS: usize = raw::__FD_SETSIZE as usize;
/// Words of a set.
pub const WORDS: usize = MAX_FDS / 64;

/// Events that make a descriptor "readable".
pub const READ_EVENTS: u16 =
    (raw::POLLRDNORM | raw::POLLRDBAND | raw::POLLIN | raw::POLLHUP | raw::POLLERR) as u16;
/// Events that make a descriptor "writable".
pub const WRITE_EVENTS: u16 =
    (raw::POLLWRBAND | raw::POLLWRNORM | raw::POLLOUT | raw::POLLERR) as u16;
/// Events that make a descriptor "exceptional".
pub const EXCEPT_EVENTS: u16 = raw::POLLPRI as u16;

/// A set of descriptors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FdSet(pub [u64; WORDS]);

impl Default for FdSet {
    fn default() -> Self {
        FdSet([0; WORDS])
    }
}

/// Bytes that `nfds` descriptors take in the program's memory.
pub const fn bytes_for(nfds: usize) -> usize {
    nfds.div_ceil(64) * 8
}

impl FdSet {
    /// Is `fd` in it?
    pub fn has(&self, fd: usize) -> bool {
        self.0.get(fd / 64).is_some_and(|w| w >> (fd % 64) & 1 != 0)
    }
    /// Adds `fd`.
    pub fn set(&mut self, fd: usize) {
        if let Some(w) = self.0.get_mut(fd / 64) {
            *w |= 1 << (fd % 64);
        }
    }
    /// From bytes in the program's memory.
    pub fn from_bytes(bytes: &[u8]) -> FdSet {
        let mut set = FdSet::default();
        for (word, chunk) in set.0.iter_mut().zip(bytes.chunks(8)) {
            *word = crate::bytes::get_u64(chunk, 0);
        }
        set
    }
    /// To bytes in the program's memory.
    pub fn to_bytes(&self) -> [u8; MAX_FDS / 8] {
        let mut bytes = [0; MAX_FDS / 8];
        for (chunk, word) in bytes.chunks_mut(8).zip(self.0) {
            chunk.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }
}

/// Events to wait for when a descriptor is in these of the three sets.
pub const fn wanted(read: bool, write: bool, except: bool) -> u16 {
    (if read { READ_EVENTS } else { 0 })
        | (if write { WRITE_EVENTS } else { 0 })
        | (if except { EXCEPT_EVENTS } else { 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_round_trip() {
        let mut s = FdSet::default();
        for fd in [0, 63, 64, 1023] {
            s.set(fd);
            assert!(s.has(fd));
        }
        s.set(5000);
        assert!(!s.has(5000) && !s.has(1));
        assert_eq!(FdSet::from_bytes(&s.to_bytes()), s);
        assert_eq!((bytes_for(0), bytes_for(1), bytes_for(64), bytes_for(65)), (0, 8, 8, 16));
    }
}
