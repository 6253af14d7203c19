//! What user mode writes to the kernel's log ([`arch::log`](crate::arch::log)).

/// A line of user mode, which comes in pieces: kept until it is whole, so that those of different
/// cores never mix.
pub struct Line {
    bytes: [u8; Line::MOST],
    used: usize,
}

impl Line {
    /// A longer line is written in parts.
    const MOST: usize = 256;

    /// Nothing yet.
    pub const fn new() -> Line {
        Line { bytes: [0; Line::MOST], used: 0 }
    }

    /// Adds a piece, and gives every line that is whole then to `write`.
    pub fn add(&mut self, piece: &[u8], mut write: impl FnMut(&[u8])) {
        for &byte in piece {
            self.bytes[self.used] = byte;
            self.used += 1;
            if byte == b'\n' || self.used == Line::MOST {
                self.end(&mut write);
            }
        }
    }

    /// Gives what there is to `write`.
    pub fn end(&mut self, mut write: impl FnMut(&[u8])) {
        if self.used > 0 {
            write(&self.bytes[..self.used]);
            self.used = 0;
        }
    }
}

impl Default for Line {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_out_whole() {
        let mut line = Line::new();
        let mut out = Vec::new();
        let mut write = |text: &[u8]| out.push(text.to_vec());
        for piece in ["one l", "ine\ntwo", "\n", "\nrest"] {
            line.add(piece.as_bytes(), &mut write);
        }
        line.end(&mut write);
        line.end(&mut write);
        let lines: [&[u8]; 4] = [b"one line\n", b"two\n", b"\n", b"rest"];
        assert_eq!(out, lines);
    }

    #[test]
    fn a_long_line_is_written_in_parts() {
        let mut line = Line::new();
        let mut all = Vec::new();
        let text = [b'x'; 3 * Line::MOST + 1];
        text.chunks(40).for_each(|piece| line.add(piece, |part| all.extend_from_slice(part)));
        assert_eq!(all.len(), 3 * Line::MOST);
        line.end(|part| all.extend_from_slice(part));
        assert_eq!(all, text);
    }
}
