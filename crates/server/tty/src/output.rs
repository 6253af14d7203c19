//! What appears on the terminal.

use crate::termios::*;
use crate::{Tty, OUTPUT_MAX};

impl Tty {
    /// Takes bytes that a program writes, as many as there is room for.
    pub fn write(&mut self, bytes: &[u8]) -> usize {
        for (done, &byte) in bytes.iter().enumerate() {
            if self.output.len() + 8 > OUTPUT_MAX {
                return done;
            }
            self.put(byte);
        }
        bytes.len()
    }
    /// Takes bytes as they are, as many as there is room for.
    pub fn write_plain(&mut self, bytes: &[u8]) -> usize {
        let count = bytes.len().min(OUTPUT_MAX - self.output.len());
        self.output.extend(&bytes[..count]);
        count
    }
    /// Is there room for more?
    pub fn writable(&self) -> bool {
        self.output.len() < OUTPUT_MAX / 2
    }
    /// Bytes that wait for the terminal.
    pub fn pending_output(&self) -> usize {
        self.output.len()
    }
    /// Forgets them.
    pub fn flush_output(&mut self) {
        self.output.clear();
    }
    /// Takes up to `buffer.len()` of them; none while output is stopped.
    pub fn output(&mut self, buffer: &mut [u8]) -> usize {
        if self.stopped {
            return 0;
        }
        let bytes = buffer.len().min(self.output.len());
        for (place, byte) in buffer.iter_mut().zip(self.output.drain(..bytes)) {
            *place = byte;
        }
        bytes
    }

    /// One byte, with output processing.
    pub(crate) fn put(&mut self, byte: u8) {
        let flags = self.termios.oflag;
        if flags & OPOST == 0 {
            return self.put_raw(&[byte]);
        }
        match byte {
            b'\n' if flags & ONLCR != 0 => {
                self.column = 0;
                self.put_raw(b"\r\n");
            }
            b'\r' if flags & ONOCR != 0 && self.column == 0 => {}
            b'\r' if flags & OCRNL != 0 => self.put_raw(b"\n"),
            b'\t' if flags & XTABS == XTABS => {
                let columns = 8 - self.column % 8;
                self.column += columns;
                self.put_raw(&b"        "[..columns]);
            }
            _ => {
                self.move_column(byte);
                self.put_raw(&[byte]);
            }
        }
    }

    fn move_column(&mut self, byte: u8) {
        self.column = match byte {
            b'\t' => (self.column | 7) + 1,
            b'\r' => 0,
            b'\n' if self.termios.oflag & ONLRET != 0 => 0,
            8 => self.column.saturating_sub(1),
            0..=31 | 127 => self.column,
            _ if self.flag_i(IUTF8) && byte & 0xc0 == 0x80 => self.column,
            _ => self.column.wrapping_add(1),
        };
    }

    /// Bytes as they are. Echo that finds no room is lost.
    pub(crate) fn put_raw(&mut self, bytes: &[u8]) {
        if self.output.len() + bytes.len() <= OUTPUT_MAX {
            self.output.extend(bytes);
        }
    }
}
