//! Who may do what.

use crate::fs::{Ino, Inode};
use crate::Fs;
use unixproto::Errno;

/// Permission to execute a file or to pass through a directory.
pub const EXEC: u32 = 1;
/// Permission to write.
pub const WRITE: u32 = 2;
/// Permission to read.
pub const READ: u32 = 4;

const STICKY: u32 = 0o1000;

/// On whose behalf something is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cred {
    /// User id; 0 may do almost everything.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
}

impl<C> Inode<C> {
    /// `EACCES` unless `cred` has all the wanted permissions.
    pub fn permits(&self, cred: Cred, wanted: u32) -> Result<(), Errno> {
        let bits = if cred.uid == self.uid {
            self.mode >> 6
        } else if cred.gid == self.gid {
            self.mode >> 3
        } else {
            self.mode
        };
        let granted = match cred.uid {
            0 if self.is_dir() || self.mode & 0o111 != 0 => READ | WRITE | EXEC,
            0 => READ | WRITE | bits & EXEC,
            _ => bits,
        };
        if wanted & !granted & 7 != 0 {
            return Err(Errno::EACCES);
        }
        Ok(())
    }
    /// `EPERM` unless `cred` owns it or is the superuser.
    pub fn owned_by(&self, cred: Cred) -> Result<(), Errno> {
        if cred.uid != 0 && cred.uid != self.uid {
            return Err(Errno::EPERM);
        }
        Ok(())
    }
}

impl<C: Default> Fs<C> {
    /// May `cred` add or remove names in a directory?
    pub(crate) fn may_change(&self, dir: Ino, cred: Cred) -> Result<(), Errno> {
        self.get(dir)?.permits(cred, WRITE | EXEC)
    }
    /// May `cred` remove the name of `victim` from a directory?
    pub(crate) fn may_remove(&self, dir: Ino, victim: Ino, cred: Cred) -> Result<(), Errno> {
        self.may_change(dir, cred)?;
        let (dir, victim) = (self.get(dir)?, self.get(victim)?);
        let free = dir.mode & STICKY == 0 || cred.uid == 0;
        if !free && cred.uid != dir.uid && cred.uid != victim.uid {
            return Err(Errno::EPERM);
        }
        Ok(())
    }
}
