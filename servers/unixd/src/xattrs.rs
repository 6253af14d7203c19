//! Extended attributes: of files that survive, which have them where their names are. Others have none.

use crate::names::View;
use crate::nodes::Node;
use crate::notify::FileEvent;
use crate::parcels::BYTES_MAX;
use crate::pathops::PathOps;
use crate::wait::{count, done, Call, Tried};
use alloc::vec::Vec;
use credentials::Capability;
use memfs::{Ino, SetXattr};
use notices::mask;
use unixproto::files::{AT_SYMLINK_NOFOLLOW, S_ISVTX, XATTR_CREATE, XATTR_REPLACE};
use unixproto::session::DATA_BYTES;
use unixproto::{op, Errno};

/// Bytes of a name.
const NAME_MAX: usize = 255;

/// Who may have to do with an attribute, by the beginning of its name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Space {
    /// Whoever may read or write the file.
    User,
    /// The administrator.
    Trusted,
    /// Everybody reads, the administrator writes.
    Security,
}

impl Space {
    fn of(name: &[u8]) -> Result<Space, Errno> {
        let all = [
            (&b"user."[..], Space::User),
            (b"trusted.", Space::Trusted),
            (b"security.", Space::Security),
        ];
        let found = all.iter().find(|(prefix, _)| name.starts_with(prefix));
        let &(prefix, space) = found.ok_or(Errno::EOPNOTSUPP)?;
        match name.len() > prefix.len() {
            true => Ok(space),
            false => Err(Errno::EINVAL),
        }
    }
}

impl PathOps<'_> {
    /// The file that has attributes, or could have. `EOPNOTSUPP`: processes, and files of the host.
    fn xattr_target(
        &mut self,
        call: &Call,
        dir: u32,
        flags: u32,
        write: bool,
    ) -> Result<Ino, Errno> {
        let follow = flags & AT_SYMLINK_NOFOLLOW == 0;
        let view = View::new(self.tree, self.procs, self.descs, self.caller)?;
        let spot = view.target_spot(call, dir, flags, follow)?;
        if write {
            self.tree.may_write(spot.mount)?;
        }
        match spot.node {
            Node::Mem(ino) => Ok(ino),
            Node::Proc(_) | Node::Share(_) => Err(Errno::EOPNOTSUPP),
        }
    }

    /// Those who watch the file are told.
    fn xattr_changed(&mut self, call: &Call, dir: u32, flags: u32) -> Result<(), Errno> {
        let follow = flags & AT_SYMLINK_NOFOLLOW == 0;
        let view = View::new(self.tree, self.procs, self.descs, self.caller)?;
        let (node, place) = view.placed(call, dir, flags, follow)?;
        let event = FileEvent { mask: mask::ATTRIB, file: Some(node), place, ..FileEvent::SWEPT };
        self.fx.observe(|| event);
        Ok(())
    }

    /// The space of a name, if the process may have to do with this attribute of a file.
    fn may_have(&self, ino: Ino, name: &[u8], write: bool) -> Result<Space, Errno> {
        let inode = self.tree.files().names().get(ino)?;
        if inode.kept().is_none() {
            return Err(Errno::EOPNOTSUPP);
        }
        if write {
            inode.changeable()?;
        }
        let space = Space::of(name)?;
        let proc = self.procs.get(self.caller.pid)?;
        let refusal = if write { Errno::EPERM } else { Errno::ENODATA };
        let is_admin = proc.has(Capability::SysAdmin);
        match space {
            Space::User => {
                let is_file = matches!(inode.node, memfs::Node::File { .. });
                if !is_file && !inode.is_dir() {
                    return Err(refusal);
                }
                if write && inode.is_dir() && inode.mode & S_ISVTX != 0 {
                    inode.owned_by(&proc.cred())?;
                }
                inode.permits(&proc.cred(), if write { memfs::WRITE } else { memfs::READ })?;
            }
            Space::Trusted if !is_admin => return Err(refusal),
            Space::Security if write && !is_admin => return Err(refusal),
            Space::Trusted | Space::Security => {}
        }
        Ok(space)
    }

    /// `getxattr`.
    #[inline(never)]
    pub fn get_xattr(&mut self, call: &Call, op: op::GetXattr) -> Tried {
        let ino = self.xattr_target(call, op.dir, op.flags, false)?;
        let name = self.procs.b(self.caller, call)?;
        self.may_have(ino, &name, false)?;
        let (keeper, kept) = self.tree.files_mut().names_mut().xattrs_of(ino)?;
        let value = keeper.xattr(kept, &name)?;
        self.answer(value)
    }

    /// An answer of so many bytes, of which the first ones are given.
    fn answer(&mut self, bytes: Vec<u8>) -> Tried {
        let all = bytes.len();
        self.procs.put(self.caller, &bytes[..all.min(DATA_BYTES)])?;
        if all > DATA_BYTES {
            self.procs.parcels.keep(self.caller, bytes);
        }
        count(all)
    }

    /// The next bytes of a long answer.
    #[inline(never)]
    pub fn rest(&mut self, op: op::Rest) -> Tried {
        let part = self.procs.parcels.part(self.caller, op.offset as usize, DATA_BYTES)?;
        self.procs.put(self.caller, &part)?;
        count(part.len())
    }

    /// The next bytes of a long value.
    #[inline(never)]
    pub fn give(&mut self, call: &Call, op: op::Give) -> Tried {
        let bytes = self.procs.a(self.caller, call)?;
        self.procs.parcels.add(self.caller, op.offset as usize, &bytes)?;
        done(())
    }

    /// `listxattr`.
    #[inline(never)]
    pub fn list_xattrs(&mut self, call: &Call, op: op::ListXattrs) -> Tried {
        let ino = match self.xattr_target(call, op.dir, op.flags, false) {
            // What can have none has none.
            Err(Errno::EOPNOTSUPP) => return self.answer(Vec::new()),
            ino => ino?,
        };
        let is_admin = self.procs.get(self.caller.pid)?.has(Capability::SysAdmin);
        let names = self.tree.files_mut().names_mut();
        let all = match names.xattrs_of(ino) {
            Ok((keeper, kept)) => keeper.xattrs(kept)?,
            // It is a list all the same.
            Err(Errno::EOPNOTSUPP) => Vec::new(),
            Err(error) => return Err(error),
        };
        let mut shown = Vec::new();
        for name in all.split_inclusive(|&byte| byte == 0) {
            if is_admin || Space::of(name) != Ok(Space::Trusted) {
                shown.extend_from_slice(name);
            }
        }
        if shown.len() > BYTES_MAX {
            return Err(Errno::E2BIG);
        }
        self.answer(shown)
    }

    /// `setxattr`. Byte string `b` has the name, a NUL, and the value.
    #[inline(never)]
    pub fn set_xattr(&mut self, call: &Call, op: op::SetXattr) -> Tried {
        let how = match op.how {
            0 => SetXattr::Any,
            XATTR_CREATE => SetXattr::Create,
            XATTR_REPLACE => SetXattr::Replace,
            _ => return Err(Errno::EINVAL),
        };
        // It is used up, whatever becomes of it.
        let long = op.parts.then(|| self.procs.parcels.take(self.caller)).transpose()?;
        let ino = self.xattr_target(call, op.dir, op.flags, true)?;
        let both = self.procs.b(self.caller, call)?;
        let end = both.iter().position(|&byte| byte == 0).ok_or(Errno::EINVAL)?;
        let (name, value) = (&both[..end], long.as_deref().unwrap_or(&both[end + 1..]));
        if name.is_empty() || name.len() > NAME_MAX {
            return Err(Errno::ERANGE);
        }
        self.may_have(ino, name, true)?;
        let now = self.clock.wall();
        let names = self.tree.files_mut().names_mut();
        let (keeper, kept) = names.xattrs_of(ino)?;
        keeper.set_xattr(kept, name, value, how, now)?;
        names.get_mut(ino)?.ctime = now;
        if self.fx.observed() {
            self.xattr_changed(call, op.dir, op.flags)?;
        }
        done(())
    }

    /// `removexattr`.
    #[inline(never)]
    pub fn remove_xattr(&mut self, call: &Call, op: op::RemoveXattr) -> Tried {
        let ino = self.xattr_target(call, op.dir, op.flags, true)?;
        let name = self.procs.b(self.caller, call)?;
        self.may_have(ino, &name, true)?;
        let now = self.clock.wall();
        let names = self.tree.files_mut().names_mut();
        let (keeper, kept) = names.xattrs_of(ino)?;
        keeper.remove_xattr(kept, &name, now)?;
        names.get_mut(ino)?.ctime = now;
        if self.fx.observed() {
            self.xattr_changed(call, op.dir, op.flags)?;
        }
        done(())
    }
}
