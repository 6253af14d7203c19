//! The terminal: line discipline, job control; and requests to the standard streams that are none.

use crate::clock::Clock;
use crate::console::Console;
use crate::descs::{Descs, Object};
use crate::effects::Effects;
use crate::pipes::{broken, Pipes};
use crate::procs::{Pid, Procs, FIRST};
use crate::sockets::Sockets;
use crate::streams::{Channel, Streams};
use crate::voices::Speaker;
use crate::wait::{count, Call, Outcome, Tried, Waiters};
use crate::watches::Source;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;
use tty::{Input, Termios, Tty, Winsize, TOSTOP};
use unixproto::files::*;
use unixproto::signals::*;
use unixproto::tty::*;
use unixproto::{op, Errno};

/// The terminal, and the streams, with which it shares the way in and out.
#[derive(Default)]
pub struct Terminal {
    /// The line discipline. Without a device, its output queue is that of the streams too.
    tty: Tty,
    /// The session whose controlling terminal it is.
    session: Option<Pid>,
    /// The process group in the foreground.
    foreground: Option<Pid>,
    /// What is typed goes through the line discipline.
    interactive: bool,
    /// The standard streams.
    streams: Streams,
    waiters: Waiters,
}

impl Terminal {
    /// The session whose controlling terminal it is.
    pub fn session(&self) -> Option<Pid> {
        self.session
    }
    /// The process group in the foreground.
    pub fn foreground(&self) -> Option<Pid> {
        self.foreground
    }
    /// The ways in and out.
    pub fn streams(&mut self) -> &mut Streams {
        &mut self.streams
    }
    /// It is no session's any more. Returns the group that was in the foreground.
    pub fn disown(&mut self) -> Option<Pid> {
        self.session = None;
        self.foreground.take()
    }
    /// A session leader without terminal that opens the terminal makes it its own.
    pub fn adopt(&mut self, procs: &Procs, pid: Pid) {
        let Ok(proc) = procs.get(pid) else { return };
        if proc.sid == pid && self.session.is_none() {
            (self.session, self.foreground) = (Some(pid), Some(proc.pgid));
        }
    }
    /// One whose way in and out these are.
    pub fn over(streams: Streams) -> Terminal {
        Terminal { streams, ..Terminal::default() }
    }
    /// Has everything been received that there is?
    fn at_end(&self) -> bool {
        self.streams.at_end()
    }
    /// Is there room for more input from the serial port?
    pub fn has_room(&self) -> bool {
        self.interactive || self.streams.has_room()
    }
    /// `POLL*` bits of the terminal.
    pub fn tty_ready(&self) -> u16 {
        let mut bits = 0;
        if self.tty.readable() || self.at_end() {
            bits |= POLLIN | POLLRDNORM;
        }
        if self.tty.writable() {
            bits |= POLLOUT | POLLWRNORM;
        }
        bits
    }
    /// `POLL*` bits of a stream.
    pub fn stream_ready(&self, channel: Channel) -> u16 {
        self.streams.ready(channel, self.tty.writable())
    }
    /// Notes that a process waits for either.
    pub fn wait(&mut self, pid: Pid) {
        self.waiters.add(pid);
    }
    /// Bytes that wait to be sent.
    #[inline]
    pub fn pending_output(&self) -> usize {
        self.tty.pending_output()
    }
    /// Is there room for more output?
    pub fn is_writable(&self) -> bool {
        self.tty.writable()
    }
    /// Takes bytes to be sent. Returns how many.
    pub fn output(&mut self, bytes: &mut [u8]) -> usize {
        self.tty.output(bytes)
    }

    /// Something about the terminal has changed.
    pub fn wake(&mut self, data: bool, fx: &mut Effects) {
        self.waiters.drain().for_each(|tid| fx.wake(tid));
        fx.changed(Source::Terminal, data);
    }

    /// A byte came in by the serial port.
    pub fn came(&mut self, byte: u8, fx: &mut Effects) {
        self.streams.came(byte, !self.interactive);
        if self.interactive {
            self.typed(byte, fx);
        }
    }

    /// The device with the streams has interrupted.
    pub fn interrupt(&mut self, fx: &mut Effects) {
        let changes = self.streams.interrupt();
        let mut bytes = Vec::new();
        while self.interactive && self.streams.available() > 0 {
            self.streams.typed(&mut bytes);
            bytes.drain(..).for_each(|byte| self.typed(byte, fx));
        }
        if changes.input || changes.room {
            self.wake(changes.input, fx);
        }
    }

    /// Is the way out a device?
    #[inline]
    pub fn has_device(&self) -> bool {
        self.streams.have_device()
    }

    /// Sends what waits to be shown over the device, as far as there is room.
    pub fn show(&mut self) {
        let Terminal { tty, streams, .. } = self;
        streams.show(|buffer| tty.output(buffer));
    }

    /// Sends everything that waits over the device, and waits until the host has taken it.
    pub fn drain(&mut self) {
        self.show();
        while self.pending_output() > 0 {
            let before = self.pending_output();
            self.streams.wait_for_room();
            self.show();
            if self.pending_output() == before {
                // Stopped by a key that nobody will take back.
                break;
            }
        }
        self.streams.drain();
    }

    /// A key.
    fn typed(&mut self, byte: u8, fx: &mut Effects) {
        if let Some(signal) = self.tty.input(byte) {
            if let Some(group) = self.foreground {
                fx.post_group(group, signal);
            }
        }
    }

    /// No more than `bytes` will come, counted from the start.
    pub fn input_ends(&mut self, bytes: u64, fx: &mut Effects) {
        self.streams.end_after(bytes);
        self.wake(false, fx);
    }

    /// Nobody reads a stream any more.
    pub fn closed(&mut self, channel: Channel, fx: &mut Effects) {
        self.streams.close(channel);
        self.wake(false, fx);
    }

    /// The window has another size.
    pub fn resized(&mut self, rows: u16, columns: u16, fx: &mut Effects) {
        let mut size = self.tty.winsize;
        size.fields[0] = rows;
        size.fields[1] = columns;
        self.set_winsize(size, fx);
    }

    fn set_winsize(&mut self, size: Winsize, fx: &mut Effects) {
        if self.tty.winsize == size {
            return;
        }
        self.tty.winsize = size;
        if let Some(group) = self.foreground {
            fx.post_group(group, SIGWINCH);
        }
    }

    /// The terminal of the first process, if it has one.
    pub fn begin(&mut self, interactive: bool, has: bool) {
        self.interactive = interactive;
        if has {
            self.session = Some(FIRST);
            self.foreground = Some(FIRST);
        }
    }
}

/// What requests to the terminal work on.
pub struct TtyOps<'a> {
    pub terminal: &'a mut Terminal,
    pub console: &'a mut Console,
    pub procs: &'a Procs,
    pub descs: &'a Descs,
    pub pipes: &'a Pipes,
    pub sockets: &'a Sockets,
    pub clock: &'a mut Clock,
    pub fx: &'a mut Effects,
    pub caller: Speaker,
}

impl TtyOps<'_> {
    /// Is it in the background of the terminal's session?
    fn in_background(&self, pid: Pid) -> bool {
        let Ok(proc) = self.procs.get(pid) else { return false };
        self.terminal.session == Some(proc.sid) && self.terminal.foreground != Some(proc.pgid)
    }

    /// A process in the background touches the terminal: its group is stopped, or it may not.
    /// `None`: it may, since it does not care for the signal.
    fn check_background(&mut self, pid: Pid, signal: u32) -> Option<Errno> {
        let Ok(Ok(session)) = self.procs.get(pid).map(|proc| proc.session()) else { return None };
        let ignored = session.header().ignored.load(Relaxed);
        let mask = self.procs.mask_of(self.caller.tid) | ignored;
        if mask & bit(signal) != 0 {
            return if signal == SIGTTIN { Some(Errno::EIO) } else { None };
        }
        if self.procs.is_orphaned(pid) {
            return Some(Errno::EIO);
        }
        let group = self.procs.get(pid).map_or(0, |proc| proc.pgid);
        self.fx.post_group(group, signal);
        Some(Errno::EINTR)
    }

    /// Reads from the terminal.
    #[inline(never)]
    pub fn tty_read(
        &mut self,
        pid: Pid,
        call: &mut Call,
        bytes: usize,
        nonblocking: bool,
    ) -> Tried {
        if self.in_background(pid) {
            if let Some(error) = self.check_background(pid, SIGTTIN) {
                return Err(error);
            }
        }
        let mut buffer = [0; 4096];
        let bytes = bytes.min(buffer.len());
        let at_end = self.terminal.at_end();
        match self.terminal.tty.read(&mut buffer[..bytes], call.late) {
            Input::Bytes(bytes) => {
                self.fx.changed(Source::Terminal, false);
                self.procs.put(self.caller, &buffer[..bytes])?;
                count(bytes)
            }
            Input::None if at_end => count(0),
            Input::None if nonblocking => Err(Errno::EAGAIN),
            Input::None => {
                self.terminal.wait(self.caller.tid);
                let timeout = self.terminal.tty.read_timeout_ns();
                Ok(Outcome::Block(timeout.map_or(0, |ns| self.clock.deadline(ns))))
            }
        }
    }

    /// Writes to the terminal.
    #[inline(never)]
    pub fn tty_write(&mut self, pid: Pid, call: &mut Call, nonblocking: bool) -> Tried {
        let tostop = self.terminal.tty.termios().lflag & TOSTOP != 0;
        if tostop && call.done == 0 && self.in_background(pid) {
            if let Some(error) = self.check_background(pid, SIGTTOU) {
                return Err(error);
            }
        }
        self.console_write(call, nonblocking, Tty::write)
    }

    /// Writes to a stream.
    #[inline(never)]
    pub fn stream_write(&mut self, channel: Channel, call: &mut Call, nonblocking: bool) -> Tried {
        let total = call.lengths.0;
        if channel == Channel::Input {
            return Err(Errno::EIO);
        }
        if self.terminal.streams.is_broken(channel) && total > 0 {
            return broken(self.caller, call.done, self.fx);
        }
        if !self.terminal.has_device() {
            return self.console_write(call, nonblocking, Tty::write_plain);
        }
        let session = self.procs.session_of(self.caller.tid)?;
        call.done += self.terminal.streams.write(channel, session, call.done, total);
        self.written(call, nonblocking)
    }

    fn console_write(
        &mut self,
        call: &mut Call,
        nonblocking: bool,
        write: fn(&mut Tty, &[u8]) -> usize,
    ) -> Tried {
        let total = call.lengths.0;
        let mut buffer = [0; 2048];
        while call.done < total {
            let part = &mut buffer[..2048.min(total - call.done)];
            self.procs.session_of(self.caller.tid)?.read(call.done, part);
            let written = write(&mut self.terminal.tty, part);
            call.done += written;
            if written < part.len() {
                self.console.output(self.terminal, self.clock, self.fx);
                if !self.terminal.tty.writable() {
                    break;
                }
            }
        }
        self.written(call, nonblocking)
    }

    /// Answers a writer, or has it wait for more room.
    fn written(&mut self, call: &Call, nonblocking: bool) -> Tried {
        self.fx.changed(Source::Terminal, false);
        if call.done == call.lengths.0 || nonblocking && call.done > 0 {
            return count(call.done);
        }
        if nonblocking {
            return Err(Errno::EAGAIN);
        }
        self.terminal.wait(self.caller.tid);
        Ok(Outcome::Block(0))
    }

    /// Reads from a stream.
    #[inline(never)]
    pub fn stream_read(&mut self, channel: Channel, bytes: usize, nonblocking: bool) -> Tried {
        if channel != Channel::Input {
            return Err(Errno::EIO);
        }
        let streams = &mut self.terminal.streams;
        if bytes > 0 && streams.available() == 0 && !streams.at_end() {
            if nonblocking {
                return Err(Errno::EAGAIN);
            }
            self.terminal.wait(self.caller.tid);
            return Ok(Outcome::Block(0));
        }
        let was_full = !streams.has_room();
        let bytes = streams.read(self.procs.session_of(self.caller.tid)?, bytes);
        if was_full && streams.has_room() {
            self.console.input(self.terminal, self.fx);
        }
        self.fx.changed(Source::Terminal, false);
        count(bytes)
    }

    /// Input and output control.
    pub fn ioctl(&mut self, pid: Pid, call: &Call, op: op::Ioctl) -> Tried {
        let desc = self.descs.of(pid, op.desc)?;
        let waiting = match desc.object {
            Object::Tty(_) => self.terminal.tty.available(),
            Object::Stream(Channel::Input) => self.terminal.streams.available(),
            Object::Stream(_) => 0,
            Object::Pipe(pipe, _) => self.pipes.length(pipe),
            Object::Socket(number) => self.sockets.all.unread(number)?,
            Object::Path(_) => return Err(Errno::EBADF),
            _ => return Err(Errno::ENOTTY),
        };
        if op.command == FIONREAD {
            return self.give(&(waiting as u32).to_le_bytes());
        }
        if !matches!(desc.object, Object::Tty(_)) {
            return Err(Errno::ENOTTY);
        }
        let shape = shape(op.command).ok_or(Errno::ENOTTY)?;
        let input = self.procs.a(self.caller, call)?;
        if input.len() != shape.input {
            return Err(Errno::EINVAL);
        }
        self.tty_control(pid, op, &input)
    }

    fn give(&mut self, bytes: &[u8]) -> Tried {
        self.procs.put(self.caller, bytes)?;
        count(bytes.len())
    }

    fn tty_control(&mut self, pid: Pid, op: op::Ioctl, input: &[u8]) -> Tried {
        let (sid, pgid) = self.procs.get(pid).map(|proc| (proc.sid, proc.pgid))?;
        let ours = self.terminal.session == Some(sid);
        match op.command {
            TCGETS => self.give(&self.terminal.tty.termios().to_bytes()),
            TCSETS | TCSETSW | TCSETSF => self.set_termios(pid, op.command, input),
            TIOCGWINSZ => self.give(&self.terminal.tty.winsize.to_bytes()),
            TIOCSWINSZ => {
                let size = input.try_into().map_err(|_| Errno::EINVAL)?;
                self.terminal.set_winsize(Winsize::from_bytes(size), self.fx);
                count(0)
            }
            TIOCGPGRP if ours => {
                let group = self.terminal.foreground.unwrap_or(0);
                self.give(&group.to_le_bytes())
            }
            TIOCSPGRP if ours => self.set_foreground(pid, input),
            TIOCGSID if ours => self.give(&sid.to_le_bytes()),
            TIOCSCTTY => {
                self.terminal.adopt(self.procs, pid);
                let taken = self.terminal.session == Some(sid);
                if taken {
                    count(0)
                } else {
                    Err(Errno::EPERM)
                }
            }
            TIOCNOTTY if ours => {
                if sid == pid {
                    let group = self.terminal.disown().unwrap_or(pgid);
                    self.fx.post_group(group, SIGHUP);
                    self.fx.post_group(group, SIGCONT);
                }
                count(0)
            }
            TIOCOUTQ => {
                let bytes = self.terminal.tty.pending_output() as u32;
                self.give(&bytes.to_le_bytes())
            }
            TCFLSH => self.flush(op.value),
            TCSBRK | TCSBRKP | TCXONC | TIOCEXCL | TIOCNXCL => count(0),
            _ => Err(Errno::ENOTTY),
        }
    }

    fn set_termios(&mut self, pid: Pid, command: u32, input: &[u8]) -> Tried {
        if self.in_background(pid) {
            if let Some(error) = self.check_background(pid, SIGTTOU) {
                return Err(error);
            }
        }
        let bytes = input.try_into().map_err(|_| Errno::EINVAL)?;
        if command == TCSETSF {
            self.terminal.tty.flush_input();
        }
        self.terminal.tty.set_termios(Termios::from_bytes(bytes));
        self.terminal.wake(false, self.fx);
        count(0)
    }

    fn set_foreground(&mut self, pid: Pid, input: &[u8]) -> Tried {
        let bytes = input.try_into().map_err(|_| Errno::EINVAL)?;
        let group = u32::from_le_bytes(bytes);
        let sid = self.procs.get(pid)?.sid;
        if group == 0 || group > i32::MAX as u32 {
            return Err(Errno::EINVAL);
        }
        if self.in_background(pid) {
            if let Some(error) = self.check_background(pid, SIGTTOU) {
                return Err(error);
            }
        }
        if self.procs.members(group).next().is_none() {
            return Err(Errno::ESRCH);
        }
        if !self.procs.members(group).any(|proc| proc.sid == sid) {
            return Err(Errno::EPERM);
        }
        self.terminal.foreground = Some(group);
        count(0)
    }

    fn flush(&mut self, which: u64) -> Tried {
        if which > 2 {
            return Err(Errno::EINVAL);
        }
        if which != 1 {
            self.terminal.tty.flush_input();
        }
        if which != 0 {
            self.terminal.tty.flush_output();
        }
        self.fx.changed(Source::Terminal, false);
        count(0)
    }
}
