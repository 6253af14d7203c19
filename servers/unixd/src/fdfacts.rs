//! `/proc/PID/fdinfo`: what is told of an open file.

use crate::descs::Object;
use crate::morefds::ShownFd;
use crate::names::View;
use crate::open::Opening;
use crate::procs::Pid;
use alloc::format;
use alloc::string::String;
use core::fmt::Write;
use unixproto::files::{O_CLOEXEC, O_RDWR};
use unixproto::Errno;

/// The mount of what has no name, and the inode of all that have none.
const NO_MOUNT: u64 = 1;
const NO_INODE: u64 = 1;
/// Events of which `epoll` always tells.
const ALWAYS: u32 = 0x18;

impl Opening<'_> {
    /// What is told of a descriptor of a process.
    pub fn fd_facts(&self, pid: Pid, fd: u32) -> Result<String, Errno> {
        let view = self.view()?;
        let id = match view.any_fd(pid, fd)? {
            ShownFd::Desc(id) => id,
            // Only its library knows more.
            ShownFd::Own(_) => return Ok(head((0, O_RDWR), false, (NO_MOUNT, NO_INODE))),
        };
        let desc = self.handles.descs.get(id)?;
        let is_named = desc.object.node().is_some() || matches!(desc.object, Object::Shared(_));
        let mut text = head((desc.offset, desc.flags), is_named, self.place_of(&view, id)?);
        match desc.object {
            Object::Counter(_, number) => {
                let now = self.handles.clock.now();
                let called = |other| i64::from(self.procs.number_for(self.caller.pid, other));
                text.push_str(&self.handles.counters.facts(number, now, called));
            }
            Object::Signals(set) => put_line!(text, "sigmask:\t{set:016x}"),
            Object::Set(number) => {
                for (fd, events, data) in self.handles.sets.members(number) {
                    let named = view.any_fd(pid, fd as u32);
                    let of = match named {
                        Ok(ShownFd::Desc(member)) => Some(member),
                        _ => None,
                    };
                    let pos = of.and_then(|of| self.handles.descs.get(of).ok());
                    let pos = pos.map_or(0, |member| member.offset);
                    let (_, ino) = of.map_or(Ok((0, NO_INODE)), |of| self.place_of(&view, of))?;
                    let events = events | ALWAYS;
                    put_line!(
                        text,
                        "tfd: {fd:8} events: {events:8x} data: {data:16x}  pos:{pos} ino:{ino:x} sdev:{:x}",
                        crate::procfs::DEVICE + 1
                    );
                }
            }
            Object::Notices(number) => {
                for (wd, file, wanted) in self.handles.notify.watches(number) {
                    put_line!(
                        text,
                        "inotify wd:{wd:x} ino:{file:x} sdev:{:x} mask:{wanted:x} ignored_mask:0 ",
                        crate::procfs::DEVICE
                    );
                }
            }
            Object::Socket(number) => {
                put_line!(text, "scm_fds: {}", self.handles.sockets.all.passed(number));
            }
            _ => {}
        }
        Ok(text)
    }

    /// The mount and the inode of what a description is of.
    fn place_of(&self, view: &View<'_>, id: u32) -> Result<(u64, u64), Errno> {
        let desc = self.handles.descs.get(id)?;
        let spot = view.spot_of(desc)?;
        let mount = spot.and_then(|spot| self.handles.tree.mounts().get(spot.mount).ok());
        let ino = match desc.object {
            Object::Pipe(pipe, _) => 1 + u64::from(pipe),
            Object::Socket(number) => 1 + u64::from(number),
            Object::Inet(number) => crate::inet::inode(number),
            Object::Space(ref space) => space.number(),
            ref object => object.inode().max(NO_INODE),
        };
        Ok((mount.map_or(NO_MOUNT, |mount| mount.number), ino))
    }
}

/// What is told of each. Whether a descriptor is closed when a program is executed only the library knows.
fn head((pos, flags): (u64, u32), is_named: bool, (mount, ino): (u64, u64)) -> String {
    // As Linux has it, what was opened by a name may be large.
    const LARGE: u32 = 0o100_000;
    let flags = flags & !O_CLOEXEC | if is_named { LARGE } else { 0 };
    format!("pos:\t{pos}\nflags:\t0{flags:o}\nmnt_id:\t{mount}\nino:\t{ino}\n")
}
