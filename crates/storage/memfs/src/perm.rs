//! Who may do what.

use crate::fs::{Ino, Inode, Node};
use crate::Fs;
use credentials::{CapSet, Capability, Groups};
use unixproto::{files, Errno};

/// Permission to execute a file or to pass through a directory.
pub const EXEC: u32 = 1;
/// Permission to write.
pub const WRITE: u32 = 2;
/// Permission to read.
pub const READ: u32 = 4;

const STICKY: u32 = files::S_ISVTX;
const OTHERS_WRITE: u32 = files::S_IWOTH;
/// Runs as its owner.
pub(crate) const SET_UID: u32 = files::S_ISUID;
/// Runs as its group; of a directory: passes its group on.
pub(crate) const SET_GID: u32 = files::S_ISGID;
/// The group may execute it.
pub(crate) const GROUP_EXEC: u32 = files::S_IXGRP;

/// On whose behalf something is done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cred {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
    /// Supplementary groups.
    pub groups: Groups,
    /// What it may do beyond what owners and modes allow.
    pub caps: CapSet,
}

impl Cred {
    /// The administrator.
    pub const ROOT: Cred = Cred { uid: 0, gid: 0, groups: Groups::NONE, caps: CapSet::ALL };

    /// A user without capabilities.
    pub const fn user(uid: u32, gid: u32) -> Cred {
        Cred { uid, gid, groups: Groups::NONE, caps: CapSet::NONE }
    }
    /// Is it in a group?
    pub fn is_in(&self, group: u32) -> bool {
        self.gid == group || self.groups.has(group)
    }
    pub(crate) fn has(&self, capability: Capability) -> bool {
        self.caps.has(capability)
    }
}

/// What decides about permissions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Guard {
    /// Its owner.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// Permission bits.
    pub mode: u32,
    /// It is a directory.
    pub is_dir: bool,
}

impl Guard {
    /// `EACCES` unless `cred` has all the wanted permissions.
    pub fn permits(&self, cred: &Cred, wanted: u32) -> Result<(), Errno> {
        let bits = if cred.uid == self.uid {
            self.mode >> 6
        } else if cred.is_in(self.gid) {
            self.mode >> 3
        } else {
            self.mode
        };
        let missing = wanted & !bits & 7;
        if missing == 0 {
            return Ok(());
        }
        let searches = if self.is_dir { wanted & WRITE == 0 } else { wanted == READ };
        let overrides = self.is_dir || wanted & EXEC == 0 || self.mode & 0o111 != 0;
        match searches && cred.has(Capability::DacReadSearch)
            || overrides && cred.has(Capability::DacOverride)
        {
            true => Ok(()),
            false => Err(Errno::EACCES),
        }
    }
}

impl<C> Inode<C> {
    /// `EACCES` unless `cred` has all the wanted permissions.
    ///
    /// # Errors
    ///
    /// `EROFS`: something in a snapshot is to be written.
    pub fn permits(&self, cred: &Cred, wanted: u32) -> Result<(), Errno> {
        if wanted & WRITE != 0 && self.has_bytes() {
            self.changeable()?;
        }
        let guard = Guard { uid: self.uid, gid: self.gid, mode: self.mode, is_dir: self.is_dir() };
        guard.permits(cred, wanted)
    }
    /// Is it something of which the bytes are here, and not with a driver or another process?
    pub fn has_bytes(&self) -> bool {
        matches!(self.node, Node::File { .. } | Node::Dir(_) | Node::Symlink(_))
    }
    /// `EPERM` unless `cred` owns it or may do what owners may.
    pub fn owned_by(&self, cred: &Cred) -> Result<(), Errno> {
        match cred.uid == self.uid || cred.has(Capability::Fowner) {
            true => Ok(()),
            false => Err(Errno::EPERM),
        }
    }
}

impl<C: Default> Fs<C> {
    /// May `cred` add or remove names in a directory?
    pub(crate) fn may_change(&self, dir: Ino, cred: &Cred) -> Result<(), Errno> {
        self.get(dir)?.permits(cred, WRITE | EXEC)
    }
    /// May `cred` remove the name of `victim` from a directory?
    pub(crate) fn may_remove(&self, dir: Ino, victim: Ino, cred: &Cred) -> Result<(), Errno> {
        self.may_change(dir, cred)?;
        let (dir, victim) = (self.get(dir)?, self.get(victim)?);
        let free = dir.mode & STICKY == 0 || cred.has(Capability::Fowner);
        if !free && cred.uid != dir.uid && cred.uid != victim.uid {
            return Err(Errno::EPERM);
        }
        Ok(())
    }
    /// May `cred` give one more name to a file? To those of others only if it could copy them as well, and
    /// none that runs as somebody else.
    pub(crate) fn may_link(&self, ino: Ino, cred: &Cred) -> Result<(), Errno> {
        let inode = self.get(ino)?;
        let plain = matches!(inode.node, Node::File { .. })
            && inode.mode & SET_UID == 0
            && inode.mode & (SET_GID | GROUP_EXEC) != SET_GID | GROUP_EXEC;
        if plain && inode.permits(cred, READ | WRITE).is_ok() {
            return Ok(());
        }
        inode.owned_by(cred)
    }
    /// May `cred` follow a symbolic link at the end of a path? Not one that somebody else has put into a
    /// directory where everybody makes files.
    pub fn may_follow(&self, dir: Ino, link: Ino, cred: &Cred) -> Result<(), Errno> {
        let (dir, link) = (self.get(dir)?, self.get(link)?);
        let shared = STICKY | OTHERS_WRITE;
        match link.uid == cred.uid || link.uid == dir.uid || dir.mode & shared != shared {
            true => Ok(()),
            false => Err(Errno::EACCES),
        }
    }
}
