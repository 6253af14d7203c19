//! Pseudoterminals: lines of terminals whose other side is a program, the master.
//!
//! What the master writes are keys, and what it reads is what would appear on a screen. Each has a name in `/dev/pts` while
//! there is a master. When that goes the line has hung up; the number is given again when nobody has the line open either.

use crate::descs::Handles;
use crate::effects::Effects;
use crate::lines::{Controls, Line, LineId};
use crate::open::Opening;
use crate::populate::PTS;
use crate::signals::from_kernel;
use crate::threads::Tid;
use crate::wait::Waiters;
use crate::watches::Source;
use alloc::collections::BTreeMap;
use alloc::format;
use memfs::{Attr, Cred, Fs, Ino, Node};
use tty::Tty;
use unixproto::files::*;
use unixproto::signals::{SIGCONT, SIGHUP};
use unixproto::Errno;

/// As many there are at most. Each takes 37 KiB.
const PTYS_MAX: usize = 1024;
/// As many are left to the administrator, however many users there are.
const FOR_ROOT: usize = 64;
/// As many a user has at most, but for the administrator.
const OF_A_USER: usize = 256;

/// What a master in packet mode is told of, as bits of a byte (`ioctl_tty(2)`).
pub mod packet {
    /// What was typed was thrown away.
    pub const FLUSH_READ: u8 = 1;
    /// What was written was thrown away.
    pub const FLUSH_WRITE: u8 = 2;
    /// Output was stopped.
    pub const STOP: u8 = 4;
    /// Output was started again.
    pub const START: u8 = 8;
    /// The usual keys do not stop and start output any more.
    pub const NO_STOP: u8 = 16;
    /// They do so again.
    pub const DO_STOP: u8 = 32;
}

/// A pseudoterminal.
pub struct Pty {
    /// What the programs on it have.
    pub line: Line,
    /// Threads that wait for it at the master.
    pub waiters: Waiters,
    /// Who made it.
    uid: u32,
    /// How many descriptions there are of the line.
    lines: u32,
    /// There were some, and the last one is gone.
    is_left: bool,
    /// The master is gone.
    pub has_hung_up: bool,
    /// The line may not be opened yet.
    pub is_locked: bool,
    /// The master is told more than data.
    is_packet: bool,
    /// What it is told next.
    status: u8,
}

impl Pty {
    /// `POLL*` bits of the line.
    fn line_ready(&self) -> u16 {
        if self.has_hung_up {
            return POLLIN | POLLRDNORM | POLLOUT | POLLWRNORM | POLLERR | POLLHUP;
        }
        self.line.ready()
    }

    /// `POLL*` bits of the master.
    fn master_ready(&self) -> u16 {
        let mut bits = 0;
        if self.readable() {
            bits |= POLLIN | POLLRDNORM;
        }
        if self.status != 0 {
            bits |= POLLIN | POLLRDNORM | POLLPRI;
        }
        if self.line.tty.has_room_for_input() {
            bits |= POLLOUT | POLLWRNORM;
        }
        if self.is_left {
            bits |= POLLHUP;
        }
        bits
    }

    fn readable(&self) -> bool {
        self.line.tty.pending_output() > 0 && !self.line.tty.is_stopped()
    }

    /// Takes what the master reads. `None`: there is nothing yet.
    ///
    /// # Errors
    ///
    /// `EIO`: nor will there be, as nobody has the line open any more.
    pub fn read(&mut self, buffer: &mut [u8]) -> Result<Option<usize>, Errno> {
        if self.is_packet && self.status != 0 && !buffer.is_empty() {
            buffer[0] = core::mem::take(&mut self.status);
            return Ok(Some(1));
        }
        if buffer.is_empty() || self.readable() {
            let head = usize::from(self.is_packet).min(buffer.len());
            buffer[..head].fill(0);
            return Ok(Some(head + self.line.tty.output(&mut buffer[head..])));
        }
        match self.is_left {
            true => Err(Errno::EIO),
            false => Ok(None),
        }
    }

    /// The master is told more than data, or no more than that.
    pub fn set_packet(&mut self, is_packet: bool) {
        if self.is_packet != is_packet {
            (self.is_packet, self.status) = (is_packet, 0);
        }
    }

    /// Is the master told more than data?
    pub fn is_packet(&self) -> bool {
        self.is_packet
    }

    /// What it is told next. What takes something back takes its place.
    pub fn tell(&mut self, status: u8) {
        if !self.is_packet {
            return;
        }
        let contrary = match status {
            packet::STOP => packet::START,
            packet::START => packet::STOP,
            packet::NO_STOP => packet::DO_STOP,
            packet::DO_STOP => packet::NO_STOP,
            _ => 0,
        };
        self.status = self.status & !contrary | status;
    }

    /// Tells of output that was stopped or started since.
    pub fn tell_of_stop(&mut self, before: bool) {
        match (before, self.line.tty.is_stopped()) {
            (false, true) => self.tell(packet::STOP),
            (true, false) => self.tell(packet::START),
            _ => {}
        }
    }

    /// Something has happened on both sides; `to_line`, `to_master`: there is more to be read there.
    pub fn wake(&mut self, number: u32, (to_line, to_master): (bool, bool), fx: &mut Effects) {
        self.line.waiters.drain().for_each(|tid| fx.wake(tid));
        self.waiters.drain().for_each(|tid| fx.wake(tid));
        fx.changed(Source::Pty(number), to_line);
        fx.changed(Source::Master(number), to_master);
    }

    /// Is nobody left who has either side?
    fn is_unused(&self) -> bool {
        self.has_hung_up && self.lines == 0
    }
}

/// All of them.
#[derive(Default)]
pub struct Ptys {
    all: BTreeMap<u32, Pty>,
}

impl Ptys {
    /// Makes one with the least number that is free, whose line is locked.
    ///
    /// # Errors
    ///
    /// `ENOSPC`: there are too many, or of this user. `ENOMEM`: there is no memory.
    pub fn make(&mut self, uid: u32) -> Result<u32, Errno> {
        let own = self.all.values().filter(|pty| pty.uid == uid).count();
        let most = if uid == 0 { PTYS_MAX } else { PTYS_MAX - FOR_ROOT };
        if self.all.len() >= most || uid != 0 && own >= OF_A_USER {
            return Err(Errno::ENOSPC);
        }
        let is_free = |number: &u32| !self.all.contains_key(number);
        let number = (0..).find(is_free).ok_or(Errno::ENOSPC)?;
        let tty = Tty::pseudo().map_err(|_| Errno::ENOMEM)?;
        let pty = Pty {
            line: Line::of(tty),
            waiters: Waiters::default(),
            uid,
            lines: 0,
            is_left: false,
            has_hung_up: false,
            is_locked: true,
            is_packet: false,
            status: 0,
        };
        self.all.insert(number, pty);
        Ok(number)
    }

    /// One by its number.
    pub fn get(&self, number: u32) -> Result<&Pty, Errno> {
        self.all.get(&number).ok_or(Errno::EIO)
    }
    /// The same, to be changed.
    pub fn get_mut(&mut self, number: u32) -> Result<&mut Pty, Errno> {
        self.all.get_mut(&number).ok_or(Errno::EIO)
    }

    /// One more description of the line.
    ///
    /// # Errors
    ///
    /// `EIO`: it may not be opened yet, or not any more.
    pub fn open(&mut self, number: u32, fx: &mut Effects) -> Result<(), Errno> {
        let pty = self.get_mut(number)?;
        if pty.is_locked || pty.has_hung_up {
            return Err(Errno::EIO);
        }
        pty.lines += 1;
        pty.is_left = false;
        pty.wake(number, (false, false), fx);
        Ok(())
    }

    /// One less.
    pub fn close(&mut self, number: u32, fx: &mut Effects) {
        let Some(pty) = self.all.get_mut(&number) else { return };
        pty.lines -= 1;
        if pty.lines == 0 {
            pty.is_left = true;
            pty.wake(number, (false, true), fx);
        }
        self.forget(number);
    }

    /// The master is gone.
    pub fn hang_up(&mut self, number: u32, controls: &mut Controls, fx: &mut Effects) {
        let Some(pty) = self.all.get_mut(&number) else { return };
        pty.has_hung_up = true;
        pty.line.tty.flush_input();
        pty.line.tty.flush_output();
        if let Some(leader) = controls.hang_up(&mut pty.line) {
            fx.post(leader, SIGHUP, from_kernel());
            fx.post(leader, SIGCONT, from_kernel());
        }
        pty.wake(number, (true, false), fx);
        self.forget(number);
    }

    fn forget(&mut self, number: u32) {
        if self.all.get(&number).is_some_and(Pty::is_unused) {
            self.all.remove(&number);
        }
    }

    /// `POLL*` bits of a line.
    pub fn line_ready(&self, number: u32) -> u16 {
        self.all.get(&number).map_or(POLLNVAL, Pty::line_ready)
    }
    /// `POLL*` bits of a master.
    pub fn master_ready(&self, number: u32) -> u16 {
        self.all.get(&number).map_or(POLLNVAL, Pty::master_ready)
    }
    /// A thread waits at a master.
    pub fn wait(&mut self, number: u32, tid: Tid) {
        if let Some(pty) = self.all.get_mut(&number) {
            pty.waiters.add(tid);
        }
    }
}

/// The group that may write to a terminal whose user lets others (`mesg`).
const TTY_GROUP: u32 = 5;

/// The directory of the names, unless somebody has taken that away.
pub fn directory<C: Default>(names: &Fs<C>) -> Option<Ino> {
    let mut parts = PTS.split(|&byte| byte == b'/');
    parts.try_fold(names.root(), |dir, part| names.lookup(dir, part).ok()?)
}

impl Opening<'_> {
    /// A new pseudoterminal, for its master.
    ///
    /// # Errors
    ///
    /// Those of [`Ptys::make`]. `ENOSPC`: there is no room for its name. `ENODEV`: there is no place for it.
    pub fn open_master(&mut self) -> Result<u32, Errno> {
        let cred = self.cred();
        if self.stock.has_no_names(cred.uid) {
            return Err(Errno::ENOSPC);
        }
        let now = self.handles.clock.wall();
        let Handles { terminal, tree, fx, .. } = &mut self.handles;
        let names = tree.files_mut().names_mut();
        let dir = directory(names).ok_or(Errno::ENODEV)?;
        let number = terminal.ptys.make(cred.uid)?;
        let node = Node::Device(LineId::Pty(number).device());
        let attr = Attr { mode: 0o620, cred: Cred { gid: TTY_GROUP, ..Cred::ROOT }, now };
        let made = names.create(dir, format!("{number}").as_bytes(), node, attr);
        let Ok(ino) = made.and_then(|ino| names.give(ino, cred.uid).map(|()| ino)) else {
            terminal.hang_up(number, fx);
            return Err(Errno::ENOSPC);
        };
        if let Ok(inode) = names.get_mut(ino) {
            (inode.gid, inode.mode) = (TTY_GROUP, 0o620);
        }
        Ok(number)
    }
}

impl Handles<'_> {
    /// Nobody has a master any more: its line has hung up, and has no name.
    pub fn close_master(&mut self, number: u32) {
        let now = self.clock.wall();
        let names = self.tree.files_mut().names_mut();
        let (name, device) = (format!("{number}"), LineId::Pty(number).device());
        let dir = directory(names);
        let named = dir.and_then(|dir| names.lookup(dir, name.as_bytes()).ok()?);
        let inode = named.and_then(|ino| names.get(ino).ok());
        let is_it =
            inode.is_some_and(|inode| matches!(inode.node, Node::Device(it) if it == device));
        if let (Some(dir), true) = (dir, is_it) {
            // It is there, and the administrator may.
            let _ = names.unlink(dir, name.as_bytes(), &Cred::ROOT, now);
        }
        self.terminal.hang_up(number, self.fx);
    }
}
