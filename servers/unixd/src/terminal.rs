//! Terminals: reading, writing, job control; and requests to the standard streams that are none.

use crate::clock::Clock;
use crate::console::Console;
use crate::descs::{Descs, Object};
use crate::effects::Effects;
use crate::lines::{Controls, Line, LineId};
use crate::notify::Instances;
use crate::pipes::{broken, Pipes};
use crate::procs::{Pid, Procs, FIRST};
use crate::ptys::{packet, Ptys};
use crate::sockets::Sockets;
use crate::streams::{Channel, Streams};
use crate::threads::Tid;
use crate::voices::Speaker;
use crate::wait::{count, Call, Outcome, Tried};
use crate::watches::Source;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;
use credentials::Capability;
use tty::{Input, Termios, Tty, Winsize, TOSTOP};
use unixproto::files::*;
use unixproto::signals::*;
use unixproto::sockets::{
    device_shape, SIOCATMARK, SIOCGIFCONF, SIOCGSTAMP, SIOCGSTAMPNS, SIOCOUTQ, SIOCOUTQNSD,
};
use unixproto::tty::*;
use unixproto::{op, Errno};

/// The terminals, and the streams, with which that of the machine shares the way in and out.
#[derive(Default)]
pub struct Terminal {
    /// That of the machine. Without a device, its output queue is that of the streams too, and those who wait for them wait
    /// for it.
    console: Line,
    /// The pseudoterminals.
    pub ptys: Ptys,
    /// Whose controlling terminals they are.
    pub controls: Controls,
    /// What is typed goes through the line discipline.
    interactive: bool,
    /// The standard streams.
    streams: Streams,
}

impl Terminal {
    /// A terminal.
    fn line(&self, id: LineId) -> Result<&Line, Errno> {
        match id {
            LineId::Console => Ok(&self.console),
            LineId::Pty(number) => Ok(&self.ptys.get(number)?.line),
        }
    }
    /// The same, to be changed, and whose it is.
    fn line_mut(&mut self, id: LineId) -> Result<(&mut Line, &mut Controls), Errno> {
        let line = match id {
            LineId::Console => &mut self.console,
            LineId::Pty(number) => &mut self.ptys.get_mut(number)?.line,
        };
        Ok((line, &mut self.controls))
    }
    /// Has the master of a pseudoterminal gone?
    fn has_hung_up(&self, id: LineId) -> bool {
        match id {
            LineId::Console => false,
            LineId::Pty(number) => self.ptys.get(number).map_or(true, |pty| pty.has_hung_up),
        }
    }
    /// The controlling terminal of a session, and the process group in its foreground.
    pub fn control(&self, session: Pid) -> Option<(LineId, Option<Pid>)> {
        let id = self.controls.of(session)?;
        Some((id, self.controls.foreground(self.line(id).ok()?)))
    }
    /// The ways in and out.
    pub fn streams(&mut self) -> &mut Streams {
        &mut self.streams
    }
    /// The process group in the foreground of a line.
    pub fn foreground(&self, id: LineId) -> Option<Pid> {
        self.controls.foreground(self.line(id).ok()?)
    }

    /// The leader of a session has gone, whose terminal is nobody's now: those in the foreground there are told so. Those who
    /// are stopped go on only at the terminal of the machine.
    pub fn leader_gone(&mut self, session: Pid, fx: &mut Effects) {
        let (id, foreground) = self.controls.end(session);
        if let Some(Ok((line, controls))) = id.map(|id| self.line_mut(id)) {
            controls.disown(line);
        }
        let Some(group) = foreground else { return };
        fx.post_group(group, SIGHUP);
        if id == Some(LineId::Console) {
            fx.post_group(group, SIGCONT);
        }
    }
    /// A session leader without terminal that opens one makes it its own.
    pub fn adopt(&mut self, id: LineId, procs: &Procs, pid: Pid) {
        if self.has_hung_up(id) {
            return;
        }
        if let Ok((line, controls)) = self.line_mut(id) {
            controls.adopt((id, line), procs, pid);
        }
    }
    /// One more description of a terminal. See [`Ptys::open`].
    pub fn opened(&mut self, id: LineId, fx: &mut Effects) -> Result<(), Errno> {
        match id {
            LineId::Console => Ok(()),
            LineId::Pty(number) => self.ptys.open(number, fx),
        }
    }
    /// One less.
    pub fn closed_line(&mut self, id: LineId, fx: &mut Effects) {
        if let LineId::Pty(number) = id {
            self.ptys.close(number, fx);
        }
    }
    /// The master of a pseudoterminal is gone.
    pub fn hang_up(&mut self, number: u32, fx: &mut Effects) {
        self.ptys.hang_up(number, &mut self.controls, fx);
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
    /// `POLL*` bits of a terminal.
    pub fn tty_ready(&self, id: LineId) -> u16 {
        if let LineId::Pty(number) = id {
            return self.ptys.line_ready(number);
        }
        let at_end = if self.at_end() { POLLIN | POLLRDNORM } else { 0 };
        self.console.ready() | at_end
    }
    /// `POLL*` bits of a stream.
    pub fn stream_ready(&self, channel: Channel) -> u16 {
        self.streams.ready(channel, self.console.tty.writable())
    }
    /// Notes that a thread waits for a terminal, or for a stream.
    pub fn wait(&mut self, id: LineId, tid: Tid) {
        if let Ok((line, _)) = self.line_mut(id) {
            line.waiters.add(tid);
        }
    }
    /// Bytes that wait to be sent.
    #[inline]
    pub fn pending_output(&self) -> usize {
        self.console.tty.pending_output()
    }
    /// Is there room for more output?
    pub fn is_writable(&self) -> bool {
        self.console.tty.writable()
    }
    /// Takes bytes to be sent. Returns how many.
    pub fn output(&mut self, bytes: &mut [u8]) -> usize {
        self.console.tty.output(bytes)
    }

    /// Something about the terminal of the machine has changed.
    pub fn wake(&mut self, data: bool, fx: &mut Effects) {
        self.console.waiters.drain().for_each(|tid| fx.wake(tid));
        fx.changed(Source::Terminal, data);
    }

    /// A byte came in by the serial port.
    pub fn came(&mut self, byte: u8, fx: &mut Effects) {
        self.streams.came(byte, !self.interactive);
        if self.interactive {
            self.console.typed([byte].into_iter(), &self.controls, fx);
        }
    }

    /// The device with the streams has interrupted.
    pub fn interrupt(&mut self, fx: &mut Effects) {
        let changes = self.streams.interrupt();
        let mut bytes = Vec::new();
        while self.interactive && self.streams.available() > 0 {
            self.streams.typed(&mut bytes);
            self.console.typed(bytes.drain(..), &self.controls, fx);
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
        let Terminal { console, streams, .. } = self;
        streams.show(|buffer| console.tty.output(buffer));
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
        let mut size = self.console.tty.winsize;
        size.fields[0] = rows;
        size.fields[1] = columns;
        self.console.set_winsize(size, &self.controls, fx);
    }

    /// The terminal of the first process, if it has one.
    pub fn begin(&mut self, interactive: bool, has: bool) {
        self.interactive = interactive;
        if has {
            self.controls.give((LineId::Console, &mut self.console), FIRST, FIRST);
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
    pub sockets: &'a mut Sockets,
    pub notify: &'a Instances,
    pub clock: &'a mut Clock,
    pub fx: &'a mut Effects,
    pub caller: Speaker,
}

impl TtyOps<'_> {
    /// Is it in the background of the terminal's session?
    fn in_background(&self, line: &Line, pid: Pid) -> bool {
        let Ok(proc) = self.procs.get(pid) else { return false };
        line.session() == Some(proc.sid)
            && self.terminal.controls.foreground(line) != Some(proc.pgid)
    }

    /// A process in the background is stopped if it touches a terminal, or may not: see [`TtyOps::check_background`].
    fn check(&mut self, id: LineId, pid: Pid, signal: u32) -> Result<(), Errno> {
        let in_background = self.in_background(self.terminal.line(id)?, pid);
        match in_background.then(|| self.check_background(pid, signal)).flatten() {
            Some(error) => Err(error),
            None => Ok(()),
        }
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

    /// Reads from a terminal.
    #[inline(never)]
    pub fn tty_read(
        &mut self,
        id: LineId,
        call: &mut Call,
        bytes: usize,
        nonblocking: bool,
    ) -> Tried {
        self.check(id, self.caller.pid, SIGTTIN)?;
        if self.terminal.has_hung_up(id) {
            // Only whoever waited for something is told so.
            return if call.kept == WAITED { Err(Errno::EIO) } else { count(0) };
        }
        let mut buffer = [0; 4096];
        let bytes = bytes.min(buffer.len());
        let at_end = id == LineId::Console && self.terminal.at_end();
        let (line, _) = self.terminal.line_mut(id)?;
        match line.tty.read(&mut buffer[..bytes], call.late) {
            Input::Bytes(bytes) => {
                self.changed(id, (false, false));
                self.procs.put(self.caller, &buffer[..bytes])?;
                count(bytes)
            }
            Input::None if at_end => count(0),
            Input::None if nonblocking => Err(Errno::EAGAIN),
            Input::None => {
                line.waiters.add(self.caller.tid);
                call.kept = WAITED;
                let timeout = line.tty.read_timeout_ns();
                Ok(Outcome::Block(timeout.map_or(0, |ns| self.clock.deadline(ns))))
            }
        }
    }

    /// Something has happened to a terminal; `to_line`, `to_master`: there is more to be read there.
    fn changed(&mut self, id: LineId, more: (bool, bool)) {
        match id {
            LineId::Console => self.fx.changed(Source::Terminal, more.0),
            LineId::Pty(number) => {
                if let Ok(pty) = self.terminal.ptys.get_mut(number) {
                    pty.wake(number, more, self.fx);
                }
            }
        }
    }

    /// Writes to a terminal.
    #[inline(never)]
    pub fn tty_write(&mut self, id: LineId, call: &mut Call, nonblocking: bool) -> Tried {
        let tostop = self.terminal.line(id)?.tty.termios().lflag & TOSTOP != 0;
        if tostop && call.done == 0 {
            self.check(id, self.caller.pid, SIGTTOU)?;
        }
        if self.terminal.has_hung_up(id) {
            return Err(Errno::EIO);
        }
        self.put_out(id, call, nonblocking, Tty::write)
    }

    /// Reads what programs show on a pseudoterminal.
    #[inline(never)]
    pub fn master_read(&mut self, number: u32, bytes: usize, nonblocking: bool) -> Tried {
        let mut buffer = [0; 4096];
        let bytes = bytes.min(buffer.len());
        let pty = self.terminal.ptys.get_mut(number)?;
        match pty.read(&mut buffer[..bytes])? {
            Some(bytes) => {
                pty.wake(number, (false, false), self.fx);
                self.procs.put(self.caller, &buffer[..bytes])?;
                count(bytes)
            }
            None if nonblocking => Err(Errno::EAGAIN),
            None => {
                pty.waiters.add(self.caller.tid);
                Ok(Outcome::Block(0))
            }
        }
    }

    /// Types at a pseudoterminal.
    #[inline(never)]
    pub fn master_write(&mut self, number: u32, call: &mut Call, nonblocking: bool) -> Tried {
        let (total, before) = (call.lengths.0, call.done);
        let Terminal { ptys, controls, .. } = &mut *self.terminal;
        let pty = ptys.get_mut(number)?;
        let stopped = pty.line.tty.is_stopped();
        let mut signals = 0;
        let mut buffer = [0; 2048];
        while call.done < total && pty.line.tty.has_room_for_input() {
            let part = &mut buffer[..2048.min(total - call.done)];
            self.procs.session_of(self.caller.tid)?.read(call.done, part);
            for &byte in &*part {
                if !pty.line.tty.has_room_for_input() {
                    break;
                }
                signals |= pty.line.tty.input(byte).map_or(0, bit);
                call.done += 1;
            }
        }
        pty.line.signal(signals, controls, self.fx);
        pty.tell_of_stop(stopped);
        if call.done > before {
            pty.wake(number, (true, true), self.fx);
        }
        written(call, nonblocking).unwrap_or_else(|| {
            pty.waiters.add(self.caller.tid);
            Ok(Outcome::Block(0))
        })
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
            return self.put_out(LineId::Console, call, nonblocking, Tty::write_plain);
        }
        let session = self.procs.session_of(self.caller.tid)?;
        call.done += self.terminal.streams.write(channel, session, call.done, total);
        self.written(LineId::Console, call, nonblocking)
    }

    fn put_out(
        &mut self,
        id: LineId,
        call: &mut Call,
        nonblocking: bool,
        write: fn(&mut Tty, &[u8]) -> usize,
    ) -> Tried {
        let total = call.lengths.0;
        let mut buffer = [0; 2048];
        while call.done < total {
            let part = &mut buffer[..2048.min(total - call.done)];
            self.procs.session_of(self.caller.tid)?.read(call.done, part);
            let (line, _) = self.terminal.line_mut(id)?;
            let written = write(&mut line.tty, part);
            call.done += written;
            if written < part.len() {
                if id == LineId::Console {
                    self.console.output(self.terminal, self.clock, self.fx);
                }
                if !self.terminal.line(id)?.tty.writable() {
                    break;
                }
            }
        }
        self.written(id, call, nonblocking)
    }

    /// Answers a writer, or has it wait for more room.
    fn written(&mut self, id: LineId, call: &Call, nonblocking: bool) -> Tried {
        self.changed(id, (false, true));
        written(call, nonblocking).unwrap_or_else(|| {
            self.terminal.wait(id, self.caller.tid);
            Ok(Outcome::Block(0))
        })
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
            self.terminal.wait(LineId::Console, self.caller.tid);
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
        let is_socket = matches!(desc.object, Object::Socket(_) | Object::Inet(_));
        if is_socket && (op.command == SIOCGIFCONF || device_shape(op.command).is_some()) {
            let socket = match desc.object {
                Object::Inet(number) => Some(number),
                _ => None,
            };
            return self.device_request((pid, socket), call, op);
        }
        if let (SIOCATMARK, &Object::Inet(number)) = (op.command, &desc.object) {
            let is_at_mark = self.sockets.inet.of(number).is_at_mark(number)?;
            return self.give(&u32::from(is_at_mark).to_le_bytes());
        }
        if let (Some(unit), &Object::Inet(number)) = (stamp_unit(op.command), &desc.object) {
            let last = self.sockets.inet.of(number).last_time(number)?;
            let words = [last.div_euclid(1_000_000_000), last.rem_euclid(1_000_000_000) / unit];
            return self.give(words.map(i64::to_le_bytes).as_flattened());
        }
        if matches!(op.command, SIOCOUTQ | SIOCOUTQNSD) && is_socket {
            let is_left = op.command == SIOCOUTQNSD;
            let unsent = match desc.object {
                Object::Inet(number) => self.sockets.inet.of(number).unsent(number, is_left)?,
                Object::Socket(number) if !is_left => self.sockets.all.unsent(number)?,
                _ => return Err(Errno::ENOTTY),
            };
            return self.give(&(unsent as u32).to_le_bytes());
        }
        let (waiting, end) = match desc.object {
            Object::Tty(id, _) => {
                if self.terminal.has_hung_up(id) {
                    return Err(if op.command == TIOCSPGRP { Errno::ENOTTY } else { Errno::EIO });
                }
                (self.terminal.line(id)?.tty.available(), Some((id, false)))
            }
            Object::Master(number, _) => {
                let waiting = self.terminal.ptys.get(number)?.line.tty.pending_output();
                (waiting, Some((LineId::Pty(number), true)))
            }
            Object::Stream(Channel::Input) => (self.terminal.streams.available(), None),
            Object::Stream(_) => (0, None),
            Object::Pipe(pipe, _) => (self.pipes.length(pipe), None),
            Object::Socket(number) => (self.sockets.all.unread(number)?, None),
            Object::Notices(number) => (self.notify.unread(number), None),
            Object::Fanotify(number) => (self.notify.fans.unread(number), None),
            Object::Inet(number) => (self.sockets.inet.of(number).unread(number)?, None),
            Object::Path(_) => return Err(Errno::EBADF),
            _ => return Err(Errno::ENOTTY),
        };
        if op.command == FIONREAD {
            return self.give(&(waiting as u32).to_le_bytes());
        }
        let (id, is_master) = end.ok_or(Errno::ENOTTY)?;
        let shape = shape(op.command).ok_or(Errno::ENOTTY)?;
        let input = self.procs.a(self.caller, call)?;
        if input.len() != shape.input {
            return Err(Errno::EINVAL);
        }
        match id {
            LineId::Pty(number) if is_master => self.master_control(number, pid, op, &input),
            _ => self.tty_control((id, false), pid, op, &input),
        }
    }

    /// A request about interfaces, by a socket of any kind: those of its name space; a local one's are the caller's own.
    fn device_request(
        &mut self,
        (pid, socket): (Pid, Option<inet::Number>),
        call: &Call,
        op: op::Ioctl,
    ) -> Tried {
        let input = self.procs.a(self.caller, call)?;
        let proc = self.procs.get(pid)?;
        let (slot, owner) = match socket {
            Some(number) => (crate::inet::slot_of(number), self.sockets.inet.owner_of(number)),
            None => proc.net_place(),
        };
        let may_change = proc.who.has_in(owner, Capability::NetAdmin);
        let all = self.sockets.inet.at_mut(slot);
        let told = all.device_request(op.command, &input, may_change)?;
        self.give(&told)
    }

    fn give(&mut self, bytes: &[u8]) -> Tried {
        self.procs.put(self.caller, bytes)?;
        count(bytes.len())
    }

    /// What only a master does, and then what a terminal does.
    fn master_control(&mut self, number: u32, pid: Pid, op: op::Ioctl, input: &[u8]) -> Tried {
        let pty = self.terminal.ptys.get_mut(number)?;
        let flag = word(input).is_ok_and(|word| word != 0);
        match op.command {
            TIOCGPTN => self.give(&number.to_le_bytes()),
            TIOCSPTLCK => {
                pty.is_locked = flag;
                count(0)
            }
            TIOCGPTLCK => {
                let locked = u32::from(pty.is_locked);
                self.give(&locked.to_le_bytes())
            }
            TIOCPKT => {
                pty.set_packet(flag);
                count(0)
            }
            TIOCGPKT => {
                let packet = u32::from(pty.is_packet());
                self.give(&packet.to_le_bytes())
            }
            TIOCSIG => {
                let signal = op.value as u32;
                if !matches!(signal, SIGINT | SIGQUIT | SIGTSTP) {
                    return Err(Errno::EINVAL);
                }
                if let Some(group) = self.terminal.controls.foreground(&pty.line) {
                    self.fx.post_group(group, signal);
                }
                count(0)
            }
            _ => self.tty_control((LineId::Pty(number), true), pid, op, input),
        }
    }

    /// What a terminal does, also asked by a master.
    fn tty_control(
        &mut self,
        (id, is_master): (LineId, bool),
        pid: Pid,
        op: op::Ioctl,
        input: &[u8],
    ) -> Tried {
        let (sid, pgid) = self.procs.get(pid).map(|proc| (proc.sid, proc.pgid))?;
        let (line, controls) = self.terminal.line_mut(id)?;
        let ours = line.session() == Some(sid);
        match op.command {
            TCGETS => {
                let bytes = line.tty.termios().to_bytes();
                self.give(&bytes)
            }
            TCGETA => {
                let bytes = line.tty.termios().to_termio();
                self.give(&bytes)
            }
            TCSETS | TCSETSW | TCSETSF | TCSETA | TCSETAW | TCSETAF => {
                self.set_termios(id, pid, op.command, input)
            }
            TIOCGLCKTRMIOS => {
                let bytes = line.tty.locked.unwrap_or(Termios::NONE).to_bytes();
                self.give(&bytes)
            }
            TIOCSLCKTRMIOS => {
                let input = input.try_into().map_err(|_| Errno::EINVAL)?;
                // Of the first user name space.
                if !self.procs.cred(pid).caps.has(Capability::SysAdmin) {
                    return Err(Errno::EPERM);
                }
                line.tty.locked = Some(Termios::from_bytes(input));
                count(0)
            }
            TIOCGWINSZ => {
                let bytes = line.tty.winsize.to_bytes();
                self.give(&bytes)
            }
            TIOCSWINSZ => {
                let size = input.try_into().map_err(|_| Errno::EINVAL)?;
                line.set_winsize(Winsize::from_bytes(size), controls, self.fx);
                count(0)
            }
            TIOCGPGRP if ours || is_master => {
                let group = controls.foreground(line).unwrap_or(0);
                let group = self.procs.number_for(pid, group);
                self.give(&group.to_le_bytes())
            }
            TIOCSPGRP if ours => self.set_foreground(id, pid, input),
            TIOCGSID if ours || is_master => {
                let session = line.session().ok_or(Errno::ENOTTY)?;
                let session = self.procs.number_for(pid, session);
                self.give(&session.to_le_bytes())
            }
            TIOCSCTTY => {
                self.terminal.adopt(id, self.procs, pid);
                let taken = self.terminal.line(id)?.session() == Some(sid) && sid == pid;
                if taken {
                    count(0)
                } else {
                    Err(Errno::EPERM)
                }
            }
            TIOCNOTTY if ours => {
                if sid == pid {
                    let group = controls.disown(line).unwrap_or(pgid);
                    self.fx.post_group(group, SIGHUP);
                    self.fx.post_group(group, SIGCONT);
                }
                count(0)
            }
            TIOCOUTQ => {
                // What a program writes to a pseudoterminal is there at once.
                let bytes =
                    if id == LineId::Console { line.tty.pending_output() as u32 } else { 0 };
                self.give(&bytes.to_le_bytes())
            }
            TCFLSH => self.flush((id, is_master), op.value),
            TCSBRK | TCSBRKP | TCXONC | TIOCEXCL | TIOCNXCL => count(0),
            _ => Err(Errno::ENOTTY),
        }
    }

    fn set_termios(&mut self, id: LineId, pid: Pid, command: u32, input: &[u8]) -> Tried {
        self.check(id, pid, SIGTTOU)?;
        let (line, _) = self.terminal.line_mut(id)?;
        let new = match command {
            TCSETA | TCSETAW | TCSETAF => {
                let bytes = input.try_into().map_err(|_| Errno::EINVAL)?;
                line.tty.termios().with_termio(bytes)
            }
            _ => Termios::from_bytes(input.try_into().map_err(|_| Errno::EINVAL)?),
        };
        if matches!(command, TCSETSF | TCSETAF) {
            line.tty.flush_input();
        }
        let (stopped, usual) = (line.tty.is_stopped(), line.tty.has_usual_flow_keys());
        line.tty.set_termios(new);
        match id {
            LineId::Console => self.terminal.wake(false, self.fx),
            LineId::Pty(number) => {
                let pty = self.terminal.ptys.get_mut(number)?;
                pty.tell_of_stop(stopped);
                match (usual, pty.line.tty.has_usual_flow_keys()) {
                    (true, false) => pty.tell(packet::NO_STOP),
                    (false, true) => pty.tell(packet::DO_STOP),
                    _ => {}
                }
                pty.wake(number, (true, true), self.fx);
            }
        }
        count(0)
    }

    fn set_foreground(&mut self, id: LineId, pid: Pid, input: &[u8]) -> Tried {
        let group = word(input)?;
        let proc = self.procs.get(pid)?;
        let sid = proc.sid;
        if group == 0 || group > i32::MAX as u32 {
            return Err(Errno::EINVAL);
        }
        let group = self.procs.id_in(&proc.pids, group);
        self.check(id, pid, SIGTTOU)?;
        if self.procs.members(group).next().is_none() {
            return Err(Errno::ESRCH);
        }
        if !self.procs.members(group).any(|proc| proc.sid == sid) {
            return Err(Errno::EPERM);
        }
        let (line, controls) = self.terminal.line_mut(id)?;
        controls.set_foreground(line, group);
        count(0)
    }

    /// Forgets what came and was not read, and what was not sent: what one side of a pseudoterminal has written is at the
    /// other side at once.
    fn flush(&mut self, (id, is_master): (LineId, bool), which: u64) -> Tried {
        if which > 2 {
            return Err(Errno::EINVAL);
        }
        let (read, written) = (which != 1, which != 0);
        let (line, _) = self.terminal.line_mut(id)?;
        match is_master {
            false if read => line.tty.flush_input(),
            true if read => line.tty.flush_output(),
            _ => {}
        }
        match id {
            LineId::Console if written => line.tty.flush_output(),
            LineId::Pty(number) if !is_master => {
                let pty = self.terminal.ptys.get_mut(number)?;
                let statuses = [(read, packet::FLUSH_READ), (written, packet::FLUSH_WRITE)];
                statuses.iter().filter(|(is, _)| *is).for_each(|(_, status)| pty.tell(*status));
            }
            _ => {}
        }
        self.changed(id, (false, false));
        count(0)
    }
}

/// What a request to read keeps when it begins to wait.
const WAITED: u32 = 1;

/// What a writer is answered. `None`: it waits for more room.
fn written(call: &Call, nonblocking: bool) -> Option<Tried> {
    match call.done {
        done if done == call.lengths.0 || nonblocking && done > 0 => Some(count(done)),
        _ if nonblocking => Some(Err(Errno::EAGAIN)),
        _ => None,
    }
}

/// The only word of an argument.
fn word(input: &[u8]) -> Result<u32, Errno> {
    Ok(u32::from_le_bytes(input.try_into().map_err(|_| Errno::EINVAL)?))
}

/// In units of how many nanoseconds a request asks for when the last datagram came; `None`: it does not.
fn stamp_unit(command: u32) -> Option<i64> {
    match command {
        command if SIOCGSTAMP.contains(&command) => Some(1000),
        command if SIOCGSTAMPNS.contains(&command) => Some(1),
        _ => None,
    }
}
