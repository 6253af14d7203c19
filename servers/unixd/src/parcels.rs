//! Byte strings that are longer than the data area of a session, in parts: values and lists of extended attributes.
//!
//! There are a few at a time, whoever they belong to. Who begins another may end somebody's, who is told so (`EAGAIN`) and
//! begins again: so users cannot fill memory with what they never ask for.

use crate::procs::Pid;
use crate::voices::Speaker;
use alloc::vec::Vec;
use unixproto::Errno;

/// How many there are at a time.
const MOST: usize = 8;
/// Bytes of one, as of a value or list of Linux.
pub const BYTES_MAX: usize = 65536;

struct Parcel {
    owner: Speaker,
    bytes: Vec<u8>,
}

/// The oldest one first.
#[derive(Default)]
pub struct Parcels {
    all: Vec<Parcel>,
}

impl Parcels {
    /// Keeps bytes for a thread, in place of what it had.
    pub fn keep(&mut self, owner: Speaker, bytes: Vec<u8>) {
        self.all.retain(|parcel| parcel.owner != owner);
        if self.all.len() >= MOST {
            self.all.remove(0);
        }
        self.all.push(Parcel { owner, bytes });
    }

    /// Adds bytes at the end of what a thread has, `offset`; or begins anew, at 0.
    pub fn add(&mut self, owner: Speaker, offset: usize, bytes: &[u8]) -> Result<(), Errno> {
        if offset == 0 {
            self.keep(owner, Vec::new());
        }
        let parcel = self.all.iter_mut().find(|parcel| parcel.owner == owner);
        let parcel = parcel.ok_or(Errno::EAGAIN)?;
        if parcel.bytes.len() != offset {
            return Err(Errno::EINVAL);
        }
        if bytes.len() > BYTES_MAX - offset {
            return Err(Errno::E2BIG);
        }
        parcel.bytes.try_reserve_exact(bytes.len()).map_err(|_| Errno::ENOMEM)?;
        parcel.bytes.extend_from_slice(bytes);
        Ok(())
    }

    /// So many bytes of what a thread has, from an offset on. With the last of them it goes.
    pub fn part(&mut self, owner: Speaker, offset: usize, most: usize) -> Result<Vec<u8>, Errno> {
        let at = self.all.iter().position(|parcel| parcel.owner == owner).ok_or(Errno::EAGAIN)?;
        let rest = self.all[at].bytes.get(offset..).ok_or(Errno::EINVAL)?;
        let part = rest[..rest.len().min(most)].to_vec();
        if part.len() == rest.len() {
            self.all.remove(at);
        }
        Ok(part)
    }

    /// All that a thread has; it has no more then.
    pub fn take(&mut self, owner: Speaker) -> Result<Vec<u8>, Errno> {
        let at = self.all.iter().position(|parcel| parcel.owner == owner).ok_or(Errno::EAGAIN)?;
        Ok(self.all.remove(at).bytes)
    }

    /// A process has ended.
    pub fn forget(&mut self, pid: Pid) {
        self.all.retain(|parcel| parcel.owner.pid != pid);
    }
}
