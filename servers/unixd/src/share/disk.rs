//! A disk: the file system on it, which is shown where it is mounted, and the disk itself, which is always there.

use super::exchange::{Answer, Exchange};
use super::link::Link;
use super::nodes::{Nodes, ROOT_FID};
use super::{OpenFile, Origin, Share, Visit};
use crate::open::device;
use crate::threads::Tid;
use alloc::format;
use alloc::string::String;
use core::cell::{Cell, RefCell};
use drivers::mailbox::Asker;
use libos::abi::slots::DISKS;
use libos::Cap;
use ninep::serve::{FILES, FILES_READ_ONLY, WHOLE_FID};
use ninep::{Attributes, Request};
use unixproto::files::S_IFDIR;
use unixproto::{op, Errno};

/// Minor numbers of a disk, as Linux has them, of which only the first is used.
const MINORS: u64 = 16;

/// What only disks have.
pub struct Disk {
    number: u32,
    /// Is there anything mounted, or about to be?
    state: Cell<State>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Away,
    Mounted,
    /// A thread's request is about it.
    Leaving(Tid),
}

impl Disk {
    /// Its device number.
    pub fn device(&self) -> u64 {
        device::number(device::VIRTIO_DISKS, u64::from(self.number) * MINORS)
    }

    /// Its name in `/dev`.
    pub fn name(&self) -> String {
        format!("vd{}", char::from(b'a' + self.number as u8))
    }
}

impl Share {
    /// The disk with a number, if it has a server; among all folders it has the number `folder`.
    pub fn of_disk(number: u32, folder: u32) -> Result<Option<Share>, libos::Status> {
        let frame = DISKS.plus(2 * number);
        if frame.identify().is_err() {
            return Ok(None);
        }
        let link = Link::Server(Asker::new(frame, frame.plus(1))?);
        let parts = super::Parts {
            exchange: Exchange::new(link),
            nodes: Nodes::new(folder, Attributes::default()),
        };
        let origin = Origin::Disk(Disk { number, state: Cell::new(State::Away) });
        let read_only = Cell::new(false);
        Ok(Some(Share { parts: RefCell::new(parts), origin, read_only }))
    }

    /// The disk that it is, if it is one.
    pub fn disk(&self) -> Option<&Disk> {
        match &self.origin {
            Origin::Host(_) => None,
            Origin::Disk(disk) => Some(disk),
        }
    }

    /// What this server is notified with when the disk's is gone.
    pub fn gone_bit(&self) -> u64 {
        self.disk().map_or(0, |disk| libos::session::DISK_GONE << disk.number)
    }

    /// Its server is gone: all requests fail from now on.
    pub fn give_up(&self) {
        self.parts.borrow_mut().exchange.give_up();
    }

    /// Has its server been asked to show what is on it?
    pub fn is_attached(&self) -> bool {
        self.disk().is_some_and(|disk| disk.state.get() == State::Mounted)
    }

    /// Is a thread's request about to unmount it?
    pub fn is_leaving(&self, tid: Tid) -> bool {
        self.disk().is_some_and(|disk| disk.state.get() == State::Leaving(tid))
    }

    /// `EBUSY` while somebody is in it. From now on nobody gets there, and the thread's request goes on by [`Visit::unmount`].
    pub fn leave(&self, tid: Tid) -> Result<(), Errno> {
        let disk = self.disk().ok_or(Errno::EINVAL)?;
        if !self.parts.borrow().nodes.are_idle() {
            return Err(Errno::EBUSY);
        }
        disk.state.set(State::Leaving(tid));
        Ok(())
    }

    /// Begins to unmount it at the end of the session. `false`: not now.
    pub fn end(&self) -> bool {
        let Some(disk) = self.disk().filter(|disk| disk.state.get() == State::Mounted) else {
            return true;
        };
        let told = self.parts.borrow_mut().exchange.tell(&Request::Clunk { fid: ROOT_FID });
        if told {
            disk.state.set(State::Away);
        }
        told
    }

    /// Has its server answered everything?
    pub fn is_quiet(&self) -> bool {
        self.parts.borrow().exchange.is_idle()
    }
}

impl Visit<'_> {
    /// Mounts the file system on the disk.
    pub fn mount(&self, read_only: bool) -> Result<(), Errno> {
        let disk = self.share.disk().ok_or(Errno::ENOTBLK)?;
        if disk.state.get() == State::Mounted {
            return Err(Errno::EBUSY);
        }
        let name = if read_only { FILES_READ_ONLY } else { FILES };
        let attach = Request::Attach { fid: ROOT_FID, user: 0, name };
        match self.ask(&attach) {
            // Somebody was killed who was about to mount or to unmount it.
            Err(Errno::EBUSY) => {
                self.done(&Request::Clunk { fid: ROOT_FID })?;
                self.ask(&attach)?;
            }
            answer => {
                answer?;
            }
        }
        let Answer::Attributes(attributes) = self.ask(&Request::GetAttributes { fid: ROOT_FID })?.0
        else {
            return Err(Errno::EIO);
        };
        if attributes.mode & unixproto::files::S_IFMT != S_IFDIR {
            return Err(Errno::EIO);
        }
        let mut parts = self.share.parts.borrow_mut();
        let root = parts.nodes.root();
        parts.nodes.get_mut(root)?.attributes = attributes;
        self.share.read_only.set(read_only);
        disk.state.set(State::Mounted);
        Ok(())
    }

    /// Goes on with what [`Share::leave`] has begun.
    pub fn unmount(&self) -> Result<(), Errno> {
        let disk = self.share.disk().ok_or(Errno::EINVAL)?;
        self.done(&Request::Clunk { fid: ROOT_FID })?;
        disk.state.set(State::Away);
        Ok(())
    }

    /// Writes everything that is written to it.
    pub fn sync_all(&self) -> Result<(), Errno> {
        match self.share.disk() {
            Some(disk) if disk.state.get() == State::Mounted => {
                self.done(&Request::Sync { fid: ROOT_FID, data_only: false })
            }
            _ => Ok(()),
        }
    }

    /// Opens the disk itself. The file is the caller's, who closes it.
    pub fn open_disk(&self, op: op::Open) -> Result<OpenFile, Errno> {
        let walk = Request::Walk { fid: WHOLE_FID, new: 0, name: None };
        let (_, index) = self.ask(&walk)?;
        let (fid, _) = self.share.parts.borrow().exchange.made(self.tid, index)?;
        self.done(&Request::Open { fid, flags: op.flags & unixproto::files::O_ACCMODE })?;
        self.take(index);
        Ok(OpenFile {
            node: self.share.root(),
            fid,
            is_dir: false,
            number: self.share.root().into(),
        })
    }
}
