//! Lines of terminals, and which session has which as its controlling terminal.

use crate::effects::Effects;
use crate::open::device;
use crate::procs::{Pid, Procs};
use crate::wait::Waiters;
use alloc::collections::BTreeMap;
use tty::{Tty, Winsize};
use unixproto::files::{POLLIN, POLLOUT, POLLRDNORM, POLLWRNORM};
use unixproto::signals::{bit, SIGWINCH};

/// Which terminal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LineId {
    /// That of the machine.
    Console,
    /// A pseudoterminal, by its number.
    Pty(u32),
}

impl LineId {
    /// Its device number.
    pub fn device(self) -> u64 {
        match self {
            LineId::Console => device::CONSOLE,
            LineId::Pty(number) => {
                let (low, high) = (u64::from(number & 0xff), u64::from(number & !0xff));
                device::number(device::PTS_MAJOR, low) | high << 12
            }
        }
    }
    /// The pseudoterminal with a device number.
    pub fn of_device(number: u64) -> Option<LineId> {
        let minor = number & 0xff | number >> 12 & 0xff_ff00;
        let id = LineId::Pty(minor as u32);
        (id.device() == number).then_some(id)
    }
}

/// A terminal, as its programs have it.
#[derive(Default)]
pub struct Line {
    /// The line discipline.
    pub tty: Tty,
    /// The session whose controlling terminal it is.
    session: Option<Pid>,
    /// Threads that wait for it.
    pub waiters: Waiters,
}

impl Line {
    /// One with a line discipline.
    pub fn of(tty: Tty) -> Line {
        Line { tty, ..Line::default() }
    }
    /// The session whose controlling terminal it is.
    pub fn session(&self) -> Option<Pid> {
        self.session
    }

    /// The window has another size.
    pub fn set_winsize(&mut self, size: Winsize, controls: &Controls, fx: &mut Effects) {
        if self.tty.winsize == size {
            return;
        }
        self.tty.winsize = size;
        if let Some(group) = controls.foreground(self) {
            fx.post_group(group, SIGWINCH);
        }
    }

    /// `POLL*` bits.
    pub fn ready(&self) -> u16 {
        let readable = if self.tty.readable() { POLLIN | POLLRDNORM } else { 0 };
        let writable = if self.tty.writable() { POLLOUT | POLLWRNORM } else { 0 };
        readable | writable
    }

    /// Keys of the other side, of which some may be signals for the foreground.
    pub fn typed(&mut self, keys: impl Iterator<Item = u8>, controls: &Controls, fx: &mut Effects) {
        let signals = keys.filter_map(|key| self.tty.input(key));
        let signals = signals.fold(0, |all, signal| all | bit(signal));
        self.signal(signals, controls, fx);
    }

    /// Posts signals of keys to the foreground: each once, however often its key was pressed.
    pub fn signal(&self, mut signals: u64, controls: &Controls, fx: &mut Effects) {
        let Some(group) = controls.foreground(self) else { return };
        while signals != 0 {
            fx.post_group(group, signals.trailing_zeros() + 1);
            signals &= signals - 1;
        }
    }
}

/// What a session has to do with its controlling terminal.
struct Control {
    /// Which that is; `None`: that one has hung up.
    line: Option<LineId>,
    /// The process group in the foreground.
    foreground: Option<Pid>,
}

/// The sessions with a controlling terminal.
#[derive(Default)]
pub struct Controls {
    sessions: BTreeMap<Pid, Control>,
}

impl Controls {
    /// The controlling terminal of a session.
    pub fn of(&self, session: Pid) -> Option<LineId> {
        self.sessions.get(&session)?.line
    }
    /// The process group in the foreground of a terminal.
    pub fn foreground(&self, line: &Line) -> Option<Pid> {
        self.sessions.get(&line.session?)?.foreground
    }
    /// Is a group in the foreground of any? Its id is not given again meanwhile.
    pub fn has_in_foreground(&self, group: Pid) -> bool {
        self.sessions.values().any(|control| control.foreground == Some(group))
    }
    /// Puts a group of the terminal's session into the foreground.
    pub fn set_foreground(&mut self, line: &Line, group: Pid) {
        let control = line.session.and_then(|session| self.sessions.get_mut(&session));
        if let Some(control) = control {
            control.foreground = Some(group);
        }
    }
    /// A session leader without terminal makes one that is no session's its own.
    pub fn adopt(&mut self, (id, line): (LineId, &mut Line), procs: &Procs, pid: Pid) {
        let Ok(proc) = procs.get(pid) else { return };
        if proc.sid == pid && line.session.is_none() && self.of(pid).is_none() {
            self.give((id, line), pid, proc.pgid);
        }
    }
    /// A terminal is a session's from now on.
    pub fn give(&mut self, (id, line): (LineId, &mut Line), session: Pid, foreground: Pid) {
        line.session = Some(session);
        let control = Control { line: Some(id), foreground: Some(foreground) };
        self.sessions.insert(session, control);
    }
    /// A terminal is its session's no more, which has none. Returns the group that was in the foreground.
    pub fn disown(&mut self, line: &mut Line) -> Option<Pid> {
        self.sessions.remove(&line.session.take()?)?.foreground
    }
    /// The same of a session whose leader has gone. Returns its terminal too, unless that has hung up.
    pub fn end(&mut self, session: Pid) -> (Option<LineId>, Option<Pid>) {
        let control = self.sessions.remove(&session);
        control.map_or((None, None), |control| (control.line, control.foreground))
    }
    /// A terminal has hung up. Returns the session that had it; its foreground is remembered until its leader goes.
    pub fn hang_up(&mut self, line: &mut Line) -> Option<Pid> {
        let session = line.session.take()?;
        self.sessions.get_mut(&session)?.line = None;
        Some(session)
    }
}
