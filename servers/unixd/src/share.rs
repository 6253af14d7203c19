//! Files that others have: a folder of the host, shown at `/share`, and the file systems of disks, each with a server of its own.
//!
//! The host answers by messages of 9P2000.L ([`ninep`]) over a virtio device ([`drivers::share`]). Nothing of its files is
//! kept here but numbers: each request asks again, so what others do to them is seen at once, and what they do to them
//! in the middle of a request is an error.
//!
//! ```text
//! link       the device, or the server of a disk
//! exchange   asking without waiting: what was answered to a thread's request so far is told again
//! nodes      what paths have led to, each with the host's number for it
//! names      walking paths
//! attributes what is said and changed of files
//! change     making, naming and removing files
//! open       opening, reading, writing
//! ```

mod attributes;
mod change;
pub mod disk;
mod exchange;
mod link;
mod names;
mod nodes;
mod open;

pub use attributes::DEVICE;
pub use exchange::UNANSWERED;
pub use names::Way;
pub use nodes::folder_of;
pub use open::OpenFile;

use crate::server::note;
use crate::threads::Tid;
use alloc::boxed::Box;
use core::cell::{Cell, RefCell};
use drivers::share::Share as Device;
use drivers::Slots;
use exchange::Exchange;
use libos::cmdline;
use link::Link;
use memfs::Cred;
use ninep::{Attributes, Reply, Request};
use nodes::Nodes;
use unixproto::Errno;

/// Name of the directory.
pub const NAME: &[u8] = b"share";
/// Who owns what belongs on the host to anybody but the user who runs the machine.
const NOBODY: u32 = 65534;
/// How long the host may take to show the folder, in seconds.
const PATIENCE: u64 = 10;

/// Who the host's user is, who is the administrator here.
#[derive(Clone, Copy)]
struct Owner {
    uid: u32,
    gid: u32,
}

/// What is different about the two kinds.
enum Origin {
    /// A folder of the host, where one user has a name here.
    Host(Owner),
    /// A disk.
    Disk(disk::Disk),
}

/// The folder.
pub struct Share {
    parts: RefCell<Parts>,
    origin: Origin,
    /// Nothing in it is changed from here.
    read_only: Cell<bool>,
}

/// What changes.
struct Parts {
    exchange: Exchange,
    nodes: Nodes,
}

/// The folder, for a request of a thread.
#[derive(Clone)]
pub struct Visit<'a> {
    share: &'a Share,
    tid: Tid,
    /// On whose behalf.
    cred: Cred,
}

impl Share {
    /// Takes over the device that this server was given, if the machine has one, and asks for the folder. `tsc_hz`: ticks of the
    /// clock in a second.
    ///
    /// # Errors
    /// The device does not work, or its host does not speak this protocol; that has been said.
    pub fn open(
        line: &str,
        number: u32,
        words: [u64; 4],
        tsc_hz: u64,
    ) -> Result<Option<Share>, ()> {
        let Some(how) = cmdline::option(line, "share") else { return Ok(None) };
        let id = |name| cmdline::number(line, name).unwrap_or(0) as u32;
        let owner = Owner { uid: id("share_uid"), gid: id("share_gid") };
        let device = drivers::Device::of(drivers::DeviceType::_9P, Slots::SHARE, words);
        let device = match device {
            Ok(Some(device)) => Device::start(device),
            Ok(None) => {
                libos::log!("unixd: there is no device for /share");
                return Err(());
            }
            Err(error) => Err(error.into()),
        };
        let device = device.and_then(|device| {
            device.listen(note::SHARE)?;
            Ok(device)
        });
        let device = device.map_err(|error| {
            libos::log!("unixd: the device of /share does not work: {error:?}");
        })?;
        let mut exchange = Exchange::new(Link::Host(Box::new(device)));
        let patience = tsc_hz.max(crate::clock::SECOND).saturating_mul(PATIENCE);
        let attributes = attach(&mut exchange, owner, patience).map_err(|error| {
            libos::log!("unixd: the host does not show the folder of /share: {error:?}");
        })?;
        let parts = Parts { exchange, nodes: Nodes::new(number, attributes) };
        let (parts, origin) = (RefCell::new(parts), Origin::Host(owner));
        Ok(Some(Share { parts, origin, read_only: Cell::new(how == "ro") }))
    }

    /// The folder itself.
    pub fn root(&self) -> u32 {
        self.parts.borrow().nodes.root()
    }

    /// Its number among all of them.
    pub fn folder(&self) -> u32 {
        folder_of(self.root()) as u32
    }

    /// Is nothing in it changed from here?
    pub fn is_read_only(&self) -> bool {
        self.read_only.get()
    }

    /// For a request of a thread.
    pub fn visit(&self, tid: Tid, cred: Cred) -> Visit<'_> {
        Visit { share: self, tid, cred }
    }

    /// A thread begins with a request: what was told to another one of it is forgotten.
    pub fn begin(&self, tid: Tid) {
        self.finish(tid);
    }

    /// A thread's request is tried again: what was answered to it so far is told again.
    pub fn rewind(&self, tid: Tid) {
        self.parts.borrow_mut().exchange.rewind(tid);
    }

    /// A thread's request is over.
    pub fn finish(&self, tid: Tid) {
        let mut parts = self.parts.borrow_mut();
        let Parts { exchange, nodes } = &mut *parts;
        for node in exchange.finish(tid) {
            nodes.settle(node, tid);
            nodes.release(node, |fid| exchange.forget(fid));
        }
        exchange.send_forgotten();
    }

    /// Answers have come: who waited for them, or for room to ask.
    pub fn interrupt(&self, woken: &mut alloc::vec::Vec<Tid>) {
        self.parts.borrow_mut().exchange.interrupt(woken);
    }

    /// Keeps a node alive.
    pub fn hold(&self, node: u32) {
        self.parts.borrow_mut().nodes.hold(node);
    }

    /// Ends a `hold`.
    pub fn release(&self, node: u32) {
        let mut parts = self.parts.borrow_mut();
        let Parts { exchange, nodes } = &mut *parts;
        nodes.release(node, |fid| exchange.forget(fid));
        exchange.send_forgotten();
    }

    /// Closes an open file of the host.
    pub fn close(&self, fid: u32) {
        let mut parts = self.parts.borrow_mut();
        parts.exchange.forget(fid);
        parts.exchange.send_forgotten();
    }
}

/// Agrees on the protocol, and asks for the root.
fn attach(exchange: &mut Exchange, owner: Owner, patience: u64) -> Result<Attributes, Errno> {
    let message = drivers::share::MESSAGE as u32;
    exchange.wait(&Request::Version { message }, patience, |reply| match reply {
        Reply::Version(bytes, ninep::VERSION) if bytes == message => Ok(()),
        _ => Err(Errno::EPROTONOSUPPORT),
    })?;
    let root = nodes::ROOT_FID;
    let attach = Request::Attach { fid: root, user: owner.uid, name: b"" };
    exchange.wait(&attach, patience, |reply| match reply {
        Reply::File(_) => Ok(()),
        Reply::Refused(error) => Err(Errno(error)),
        _ => Err(Errno::EIO),
    })?;
    exchange.wait(&Request::GetAttributes { fid: root }, patience, |reply| match reply {
        Reply::Attributes(attributes) => Ok(attributes),
        Reply::Refused(error) => Err(Errno(error)),
        _ => Err(Errno::EIO),
    })
}
