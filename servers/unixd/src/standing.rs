//! Where a process stands: its working directory.

use crate::nodes::Node;
use crate::notify::FileEvent;
use crate::pathops::PathOps;
use crate::procs::STANDS;
use crate::volumes::{Spot, Standing};
use crate::wait::{count, done, Call, Tried};
use memfs::{Hidden, Shown, Step};
use notices::mask;
use unixproto::Errno;

impl PathOps<'_> {
    /// `ENOTDIR`, `EACCES`: a process cannot be in a node.
    pub(crate) fn may_be_in(&self, node: Node) -> Result<(), Errno> {
        match node {
            Node::Mem(ino) => {
                let inode = self.tree.files().names().get(ino)?;
                inode.dir()?;
                inode.permits(&self.cred(), memfs::EXEC)
            }
            Node::Proc(inner) => match self.view()?.proc_step(inner)? {
                Step::Dir => Ok(()),
                _ => Err(Errno::ENOTDIR),
            },
            Node::Share(dir) => self.visit(dir)?.check_dir(dir, memfs::EXEC),
        }
    }

    /// `chdir`, `fchdir`.
    pub fn chdir(&mut self, call: &Call, dir: u32, flags: u32) -> Tried {
        let spot = self.view()?.target_spot(call, dir, flags, true)?;
        self.may_be_in(spot.node)?;
        self.stand(|stands| &mut stands.cwd, spot)
    }

    /// The caller stands somewhere else, and so do those that stand where it does.
    pub(crate) fn stand(&mut self, which: fn(&mut Standing) -> &mut Spot, spot: Spot) -> Tried {
        let with = self.procs.get(self.caller.pid)?.common[STANDS];
        let all = match with {
            0 => alloc::vec![self.caller.pid],
            with => self.procs.select(|proc| proc.common[STANDS] == with && !proc.is_over()),
        };
        for pid in all {
            self.tree.hold_spot(spot);
            let proc = self.procs.get_mut(pid)?;
            let old = core::mem::replace(which(&mut proc.stands), spot);
            self.procs.hide(Hidden::Ways(Shown::To(pid)));
            self.left(old);
        }
        done(())
    }

    /// A process does not stand somewhere any more.
    pub(crate) fn left(&mut self, spot: Spot) {
        if let Some(gone) = self.tree.release(spot.node) {
            self.fx.observe(|| FileEvent::of_file(mask::DELETE_SELF, gone));
            self.pipes.forget_fifo(gone);
        }
        self.tree.release_mount(spot.mount);
    }

    /// `getcwd`.
    pub fn get_cwd(&mut self) -> Tried {
        let stands = self.procs.get(self.caller.pid)?.stands;
        let path = self.tree.path_of(stands.cwd, stands.root)?;
        if path.len() >= unixproto::session::DATA_BYTES {
            return Err(Errno::ENAMETOOLONG);
        }
        self.procs.put(self.caller, &path)?;
        count(path.len())
    }
}
