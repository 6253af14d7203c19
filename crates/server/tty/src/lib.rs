//! The line discipline of a terminal: what becomes of a key that is pressed and of a byte that is
//! written, as a value without hardware.
//!
//! Keys come in with [`Tty::input`], which may ask for a signal to the foreground process group.
//! Programs read with [`Tty::read`] and write with [`Tty::write`]. What should appear on the
//! terminal, echo included, collects in [`Tty::output`] until the owner sends it.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod edit;
mod output;
mod termios;

pub use termios::{Termios, Winsize, TOSTOP};

use alloc::collections::{TryReserveError, VecDeque};
use alloc::vec::Vec;
use termios::*;

/// Bytes that wait for a reader, at most; more keys are dropped.
const INPUT_MAX: usize = 4096;
/// Bytes that wait for the terminal, at most.
const OUTPUT_MAX: usize = 16 * 1024;

/// A terminal.
#[derive(Default)]
pub struct Tty {
    termios: Termios,
    /// What is set in there cannot be changed.
    pub locked: Option<Termios>,
    /// Rows and columns.
    pub winsize: Winsize,
    /// The line that is being edited (canonical mode).
    line: Vec<u8>,
    /// Bytes that can be read.
    ready: VecDeque<u8>,
    /// Lengths of the lines in `ready` (canonical mode); an empty one is an end of file.
    lines: VecDeque<u16>,
    output: VecDeque<u8>,
    column: usize,
    /// How wide each tab of the line is, so that one can be taken back without a look at what is before it.
    tabs: Vec<u8>,
    stopped: bool,
    literal: bool,
}

/// What a read found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Input {
    /// Nothing yet.
    None,
    /// So many bytes; zero is the end of the file.
    Bytes(usize),
}

impl Tty {
    /// The line of a pseudoterminal, with all the room that it will ever need: no settings for a keyboard, no window yet.
    ///
    /// # Errors
    ///
    /// There is no memory for it.
    pub fn pseudo() -> Result<Tty, TryReserveError> {
        let mut tty = Tty { winsize: Winsize { fields: [0; 4] }, ..Tty::default() };
        tty.termios.iflag &= !IUTF8;
        tty.termios.cflag &= !HUPCL;
        tty.line.try_reserve_exact(INPUT_MAX + 1)?;
        tty.tabs.try_reserve_exact(INPUT_MAX)?;
        tty.ready.try_reserve_exact(INPUT_MAX + 1)?;
        tty.lines.try_reserve_exact(INPUT_MAX)?;
        tty.output.try_reserve_exact(OUTPUT_MAX)?;
        Ok(tty)
    }
    /// The settings.
    pub fn termios(&self) -> Termios {
        self.termios
    }
    /// Changes the settings, but for those that are locked. What was typed before stays readable.
    pub fn set_termios(&mut self, new: Termios) {
        let was = self.canonical();
        let locked = self.locked.unwrap_or(Termios::NONE);
        self.termios = new.unlocked(self.termios, locked);
        if was && !self.canonical() {
            self.lines.clear();
            self.tabs.clear();
            self.ready.extend(self.line.drain(..));
        } else if !was && self.canonical() && !self.ready.is_empty() {
            self.lines.push_back(self.ready.len() as u16);
        }
        if !self.flag_i(IXON) {
            self.stopped = false;
        }
    }
    fn canonical(&self) -> bool {
        self.flag_l(ICANON)
    }
    fn flag_l(&self, bit: u32) -> bool {
        self.termios.lflag & bit != 0
    }
    fn flag_i(&self, bit: u32) -> bool {
        self.termios.iflag & bit != 0
    }

    /// Would a key not be lost? One that could not become part of any line is, whoever waits.
    pub fn has_room_for_input(&self) -> bool {
        let is_full =
            self.line.len() + self.ready.len() >= INPUT_MAX || self.lines.len() >= INPUT_MAX;
        !is_full || self.canonical() && self.lines.is_empty()
    }
    /// Is output stopped by a key?
    pub fn is_stopped(&self) -> bool {
        self.stopped
    }
    /// Do the usual two keys stop and start output?
    pub fn has_usual_flow_keys(&self) -> bool {
        let keys = (self.termios.cc[VSTOP], self.termios.cc[VSTART]);
        self.flag_i(IXON) && keys == (0x13, 0x11)
    }

    /// A key was pressed. Answers the signal that it stands for.
    pub fn input(&mut self, byte: u8) -> Option<u32> {
        let byte = self.translate(byte)?;
        if core::mem::take(&mut self.literal) {
            self.accept(byte);
            return None;
        }
        if self.flag_i(IXON) && self.flow(byte) {
            return None;
        }
        if let Some(signal) = self.signal(byte) {
            if !self.flag_l(NOFLSH) {
                self.flush_input();
            }
            self.echo_control(byte);
            return Some(signal);
        }
        if self.canonical() {
            self.edit(byte);
        } else {
            self.accept(byte);
        }
        None
    }

    fn translate(&self, byte: u8) -> Option<u8> {
        let byte = if self.flag_i(ISTRIP) { byte & 0x7f } else { byte };
        match byte {
            b'\r' if self.flag_i(IGNCR) => None,
            b'\r' if self.flag_i(ICRNL) => Some(b'\n'),
            b'\n' if self.flag_i(INLCR) => Some(b'\r'),
            byte => Some(byte),
        }
    }

    /// Stop and start of output.
    fn flow(&mut self, byte: u8) -> bool {
        if self.is_cc(byte, VSTOP) {
            self.stopped = true;
        } else if self.is_cc(byte, VSTART) || self.stopped && self.flag_i(IXANY) {
            self.stopped = false;
            return self.is_cc(byte, VSTART);
        } else {
            return false;
        }
        true
    }

    fn is_cc(&self, byte: u8, index: usize) -> bool {
        byte != 0 && self.termios.cc[index] == byte
    }

    fn signal(&mut self, byte: u8) -> Option<u32> {
        use unixproto::signals::{SIGINT, SIGQUIT, SIGTSTP};
        if !self.flag_l(ISIG) {
            return None;
        }
        let keys = [(VINTR, SIGINT), (VQUIT, SIGQUIT), (VSUSP, SIGTSTP)];
        let hit = keys.iter().find(|(index, _)| self.is_cc(byte, *index))?;
        self.stopped = false;
        Some(hit.1)
    }

    /// Takes a byte as it is: into the line, or straight to the readers.
    fn accept(&mut self, byte: u8) {
        if self.line.len() + self.ready.len() >= INPUT_MAX {
            return;
        }
        if self.canonical() {
            self.line.push(byte);
            if byte == b'\t' {
                self.tabs.push(self.width_of_tab());
            }
        } else {
            self.ready.push_back(byte);
        }
        self.echo(byte);
    }

    /// Forgets what was typed and not read.
    pub fn flush_input(&mut self) {
        self.line.clear();
        self.tabs.clear();
        self.ready.clear();
        self.lines.clear();
    }

    /// Bytes that a read would get at once.
    pub fn available(&self) -> usize {
        match self.canonical() {
            true => self.lines.front().copied().unwrap_or(0).into(),
            false => self.ready.len(),
        }
    }
    /// Would a read not wait?
    pub fn readable(&self) -> bool {
        match self.canonical() {
            true => !self.lines.is_empty(),
            false => self.ready.len() >= (self.termios.cc[VMIN] as usize).max(1),
        }
    }

    /// Reads into `buffer` what is there. With `late` a raw read takes less than `VMIN`: its time
    /// is over.
    pub fn read(&mut self, buffer: &mut [u8], late: bool) -> Input {
        let bytes = if self.canonical() {
            let Some(line) = self.lines.front_mut() else { return Input::None };
            let bytes = buffer.len().min((*line).into());
            *line -= bytes as u16;
            if *line == 0 {
                self.lines.pop_front();
            }
            bytes
        } else {
            let least = match (self.termios.cc[VMIN], self.termios.cc[VTIME]) {
                (0, 0) => 0,
                (0, _) => 1,
                (min, _) => min as usize,
            };
            let needed = least.min(buffer.len());
            if self.ready.len() < needed && !late {
                return Input::None;
            }
            buffer.len().min(self.ready.len())
        };
        for (place, byte) in buffer.iter_mut().zip(self.ready.drain(..bytes)) {
            *place = byte;
        }
        Input::Bytes(bytes)
    }

    /// How long a raw read may wait, counted from its start or (with `VMIN`) from the last byte.
    pub fn read_timeout_ns(&self) -> Option<u64> {
        let time = self.termios.cc[VTIME] as u64;
        if self.canonical() || time == 0 {
            return None;
        }
        if self.termios.cc[VMIN] > 0 && self.ready.is_empty() {
            return None;
        }
        Some(time * 100_000_000)
    }
}

#[cfg(test)]
mod tests;
