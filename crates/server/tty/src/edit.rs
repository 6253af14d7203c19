//! Editing of a line in canonical mode.

use crate::termios::*;
use crate::{Tty, INPUT_MAX, OUTPUT_MAX};

impl Tty {
    /// A key in canonical mode that is no signal.
    pub(crate) fn edit(&mut self, byte: u8) {
        let extended = self.flag_l(IEXTEN);
        match byte {
            b'\n' => self.end_line(byte),
            _ if self.is_cc(byte, VERASE) => self.erase_last(),
            _ if self.is_cc(byte, VKILL) => self.kill(),
            _ if self.is_cc(byte, VEOF) => self.complete(),
            _ if extended && self.is_cc(byte, VWERASE) => self.erase_word(),
            _ if extended && self.is_cc(byte, VREPRINT) => self.reprint(byte),
            _ if extended && self.is_cc(byte, VLNEXT) => self.literal = true,
            _ if self.is_cc(byte, VEOL) || self.is_cc(byte, VEOL2) => self.end_line(byte),
            _ => self.accept(byte),
        }
    }

    fn end_line(&mut self, byte: u8) {
        if self.line.len() + self.ready.len() > INPUT_MAX || self.lines.len() >= INPUT_MAX {
            return;
        }
        self.line.push(byte);
        if self.flag_l(ECHO) || byte == b'\n' && self.flag_l(ECHONL) {
            self.put(byte);
        }
        self.complete();
    }

    /// Hands the line to the readers as it is.
    fn complete(&mut self) {
        if self.lines.len() >= INPUT_MAX {
            // Nothing but ends of file: nobody has read one of them.
            return;
        }
        self.lines.push_back(self.line.len() as u16);
        self.tabs.clear();
        self.ready.extend(self.line.drain(..));
    }

    /// Takes the last character off the line, and from the screen.
    fn erase_last(&mut self) {
        while let Some(byte) = self.line.pop() {
            let continuation = self.flag_i(IUTF8) && byte & 0xc0 == 0x80;
            if continuation && !self.line.is_empty() {
                continue;
            }
            let tab = if byte == b'\t' { self.tabs.pop() } else { None };
            if self.flag_l(ECHO) {
                self.rub_out(byte, tab.unwrap_or(0));
            }
            return;
        }
    }

    /// Takes a byte off the screen, which may be a tab of that width.
    fn rub_out(&mut self, byte: u8, tab: u8) {
        if !self.flag_l(ECHOE) {
            return self.echo(self.termios.cc[VERASE]);
        }
        let columns = match byte {
            b'\t' => tab,
            _ if self.is_shown_as_control(byte) => 2,
            0..=31 | 127 => 0,
            _ => 1,
        };
        for _ in 0..columns {
            self.put_raw(b"\x08 \x08");
            self.column = self.column.saturating_sub(1);
        }
    }

    /// How wide a tab is that is shown now.
    pub(crate) fn width_of_tab(&self) -> u8 {
        8 - (self.column % 8) as u8
    }

    fn kill(&mut self) {
        if self.flag_l(ECHOKE) && self.flag_l(ECHOE) && self.flag_l(ECHO) {
            while !self.line.is_empty() {
                self.erase_last();
            }
            return;
        }
        self.line.clear();
        self.tabs.clear();
        self.echo(self.termios.cc[VKILL]);
        if self.flag_l(ECHOK) {
            self.put(b'\n');
        }
    }

    fn erase_word(&mut self) {
        let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80;
        while self.line.last().is_some_and(|&byte| !is_word(byte)) {
            self.erase_last();
        }
        while self.line.last().is_some_and(|&byte| is_word(byte)) {
            self.erase_last();
        }
    }

    fn reprint(&mut self, byte: u8) {
        self.echo_control(byte);
        self.put(b'\n');
        self.tabs.clear();
        for index in 0..self.line.len() {
            if self.output.len() >= OUTPUT_MAX {
                // The rest would be lost.
                break;
            }
            if self.line[index] == b'\t' {
                self.tabs.push(self.width_of_tab());
            }
            self.echo(self.line[index]);
        }
    }

    /// Is this byte echoed as `^X`?
    fn is_shown_as_control(&self, byte: u8) -> bool {
        self.flag_l(ECHOCTL) && (byte < 32 || byte == 127) && byte != b'\t' && byte != b'\n'
    }

    /// Shows a byte that was typed.
    pub(crate) fn echo(&mut self, byte: u8) {
        if !self.flag_l(ECHO) {
            return;
        }
        if self.is_shown_as_control(byte) {
            return self.echo_control(byte);
        }
        self.put(byte);
    }

    /// Shows a control character.
    pub(crate) fn echo_control(&mut self, byte: u8) {
        if !self.flag_l(ECHO) {
            return;
        }
        if self.is_shown_as_control(byte) {
            self.put(b'^');
            self.put(byte ^ 0x40);
        }
    }
}
