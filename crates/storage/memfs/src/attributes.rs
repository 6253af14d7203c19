//! Changing modes, owners and contents, and what follows from that for the mode.

use crate::fs::{Attr, Ino, Inode, Node};
use crate::perm::{Cred, GROUP_EXEC, SET_GID, SET_UID};
use crate::Fs;
use credentials::Capability;
use unixproto::Errno;

impl<C> Inode<C> {
    /// Is `cred` in the group of the file, or may it keep set-group-id bits of others?
    fn in_group(&self, cred: &Cred) -> bool {
        cred.is_in(self.gid) || cred.has(Capability::Fsetid)
    }
    /// The mode without the set-id bits that a change of owner or contents takes away.
    fn without_set_id(&self, cred: &Cred) -> u32 {
        let executes_as_group = self.mode & SET_GID != 0 && self.mode & GROUP_EXEC != 0;
        let gid = if executes_as_group || !self.in_group(cred) { SET_GID } else { 0 };
        self.mode & !(SET_UID | gid)
    }
}

impl<C: Default> Fs<C> {
    /// Attributes of what is made in a directory: one with the set-group-id bit passes its group on.
    pub fn inherited(&self, dir: Ino, attr: Attr, is_dir: bool) -> Result<Attr, Errno> {
        let (parent, mut attr) = (self.get(dir)?, attr);
        if parent.mode & SET_GID != 0 {
            if is_dir {
                attr.mode |= SET_GID;
            } else if attr.mode & GROUP_EXEC != 0 && !parent.in_group(&attr.cred) {
                attr.mode &= !SET_GID;
            }
            attr.cred.gid = parent.gid;
        }
        Ok(attr)
    }

    /// `chmod`.
    pub fn set_mode(&mut self, ino: Ino, mode: u32, cred: &Cred, now: i64) -> Result<(), Errno> {
        self.get(ino)?.changeable()?;
        let inode = self.get_mut(ino)?;
        if matches!(inode.node, Node::Symlink(_)) {
            return Err(Errno::EOPNOTSUPP);
        }
        inode.owned_by(cred)?;
        let lost = if inode.in_group(cred) { 0 } else { SET_GID };
        inode.mode = mode & 0o7777 & !lost;
        inode.ctime = now;
        Ok(())
    }

    /// `chown`: `None` leaves the owner or the group.
    pub fn set_owner(
        &mut self,
        ino: Ino,
        uid: Option<u32>,
        gid: Option<u32>,
        cred: &Cred,
        now: i64,
    ) -> Result<(), Errno> {
        self.get(ino)?.changeable()?;
        let inode = self.get_mut(ino)?;
        // To change nothing is for everybody, so it leaves no trace. Bits that go are a change.
        if uid.is_none() && gid.is_none() && inode.owned_by(cred).is_err() {
            let stays = inode.is_dir() || inode.without_set_id(cred) == inode.mode;
            return if stays { Ok(()) } else { Err(Errno::EPERM) };
        }
        let owns = inode.uid == cred.uid;
        let keeps = uid.is_none_or(|uid| owns && uid == inode.uid);
        let joins = gid.is_none_or(|gid| owns && (cred.is_in(gid) || gid == inode.gid));
        if !(keeps && joins || cred.has(Capability::Chown)) {
            return Err(Errno::EPERM);
        }
        if !inode.is_dir() {
            let mode = inode.without_set_id(cred);
            if mode != inode.mode {
                inode.owned_by(cred)?;
                inode.mode = mode;
            }
        }
        inode.gid = gid.unwrap_or(inode.gid);
        inode.ctime = now;
        match uid {
            Some(uid) => self.give(ino, uid),
            None => Ok(()),
        }
    }

    /// The contents of a file are changed by `cred`: it does not run as its owner any more.
    pub fn written(&mut self, ino: Ino, cred: &Cred, now: i64) -> Result<(), Errno> {
        let inode = self.get_mut(ino)?;
        inode.modified(now);
        if inode.mode & (SET_UID | SET_GID) != 0 && !cred.has(Capability::Fsetid) {
            inode.mode = inode.without_set_id(cred);
        }
        Ok(())
    }
}
