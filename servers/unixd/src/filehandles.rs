//! `name_to_handle_at`, `open_by_handle_at`: files are found again by handles, which say a file system, an inode number, and which of those
//! inodes is meant that had it one after the other. Files of the tree in memory have handles; what others have does not.

use crate::names::Found;
use crate::nodes::Node;
use crate::open::Opening;
use crate::pathops::{identity, PathOps};
use crate::volumes::Spot;
use crate::wait::{done, Call, Tried};
use credentials::Capability;
use memfs::Ino;
use unixproto::files::*;
use unixproto::ops::FileHandle;
use unixproto::{op, Errno};

impl PathOps<'_> {
    /// `name_to_handle_at`.
    pub fn file_handle(&mut self, call: &Call, op: op::HandleOf) -> Tried {
        let op::HandleOf { dir, flags } = op;
        let is_open = call.lengths.0 == 0 && flags & AT_EMPTY_PATH != 0 && dir != CWD;
        if is_open && self.descs.of(self.caller.pid, dir)?.object.node().is_none() {
            return Err(Errno::EOPNOTSUPP);
        }
        let follow = flags & AT_SYMLINK_FOLLOW != 0;
        let Spot { mount, node } = self.view()?.target_spot(call, dir, flags, follow)?;
        let Node::Mem(ino) = node else { return Err(Errno::EOPNOTSUPP) };
        let generation = self.tree.files().names().get(ino)?.generation;
        let mount = self.tree.mounts().get(mount).map_err(|_| Errno::ESTALE)?.number;
        done(FileHandle { number: ino.0, generation, mount })
    }
}

impl Opening<'_> {
    /// `open_by_handle_at`.
    pub fn open_handle(&mut self, call: &mut Call, op: op::OpenHandle) -> Tried {
        if call.kept != 0 {
            return self.open_fifo(call);
        }
        self.handles.leases.leave(self.caller.tid);
        let view = self.view()?;
        let base = match op.dir {
            CWD => self.procs.get(self.caller.pid)?.stands.cwd,
            dir => {
                let desc = self.handles.descs.of(self.caller.pid, dir)?;
                if desc.is_path() {
                    return Err(Errno::EBADF);
                }
                view.spot_of(desc)?.ok_or(Errno::ESTALE)?
            }
        };
        // Files are found that their directories would hide.
        if !self.cred().caps.has(Capability::DacReadSearch) {
            return Err(Errno::EPERM);
        }
        let Node::Mem(below) = base.node else { return Err(Errno::ESTALE) };
        let ino = Ino(op.number);
        let tree = &*self.handles.tree;
        let names = tree.files().names();
        // What has no name is nobody's to be found: memory, segments, disks.
        let is_there =
            names.get(ino).is_ok_and(|inode| inode.generation == op.generation && inode.nlink > 0);
        let device = |ino: Ino| identity(tree, ino).map(|(device, _)| device).ok();
        if !is_there || device(ino) != device(below) {
            return Err(Errno::ESTALE);
        }
        self.room(1)?;
        let (parent, name) = self.name_of(ino).ok_or(Errno::ESTALE)?;
        let (mount, node) = (base.mount, Some(Node::Mem(ino)));
        let found = Found {
            parent: Node::Mem(parent),
            name,
            node,
            slash: false,
            above: mount,
            mount,
            known: None,
        };
        let flags = op.flags & !(O_CREAT | O_EXCL);
        let op = op::Open { dir: CWD, flags, mode: 0, extra: 0 };
        self.open_node(call, op, found, Node::Mem(ino), false)
    }

    /// A name of a file: of a directory there is one, of others all directories are asked.
    fn name_of(&self, ino: Ino) -> Option<(Ino, memfs::Name)> {
        let names = self.names();
        if let Ok(dir) = names.get(ino).and_then(|inode| inode.dir()) {
            let parent = dir.parent;
            let name = names.get(parent).ok()?.dir().ok()?.name_of(ino);
            return Some((parent, name.unwrap_or(b".").into()));
        }
        names.iter().find_map(|(at, inode)| Some((at, inode.dir().ok()?.name_of(ino)?.into())))
    }
}
