//! The program's buffers of one read or write, as a sequence of resident pieces.

use crate::errno::Result;
use crate::mm::user;
use crate::process::Process;
use linuxabi::iovec::Buffer;

/// Most bytes that are made resident at a time.
const PIECE: u64 = 1 << 20;

/// Where a transfer stands in its buffers.
pub struct Cursor<'a> {
    buffers: &'a [Buffer],
    /// Bytes done of the first of `buffers`.
    at: u64,
    /// Bytes to go, in all.
    left: u64,
}

impl<'a> Cursor<'a> {
    /// From the start of the buffers.
    pub fn new(buffers: &'a [Buffer]) -> Self {
        Cursor { buffers, at: 0, left: buffers.iter().map(|b| b.len).sum() }
    }

    /// Bytes to go.
    pub fn left(&self) -> u64 {
        self.left
    }

    fn current(&mut self, max: u64) -> Option<(u64, usize)> {
        while let Some(first) = self.buffers.first() {
            if self.at < first.len {
                let n = (first.len - self.at).min(max).min(PIECE);
                return Some((first.base.wrapping_add(self.at), n as usize));
            }
            self.buffers = &self.buffers[1..];
            self.at = 0;
        }
        None
    }

    fn advance(&mut self, n: usize) {
        self.at += n as u64;
        self.left -= n as u64;
    }

    /// `EFAULT` unless the next byte can be written.
    pub fn probe_out(&mut self, p: &mut Process) -> Result<()> {
        match self.current(1) {
            Some((addr, n)) => user::slice_out(p, addr, n).map(|_| ()),
            None => Ok(()),
        }
    }

    /// How many of the next `max` bytes can be written: `EFAULT` if none can. What is then received is not
    /// lost for lack of a place.
    #[inline]
    pub fn writable(&mut self, p: &mut Process, max: u64) -> Result<u64> {
        let Some((addr, n)) = self.current(max) else { return Ok(0) };
        let first = user::prefix_out(p, addr, n)?.len() as u64;
        if first == max || first < n as u64 {
            return Ok(first);
        }
        self.writable_behind(p, max, first)
    }

    #[cold]
    fn writable_behind(&self, p: &mut Process, max: u64, first: u64) -> Result<u64> {
        let mut rest = Cursor { ..*self };
        rest.advance(first as usize);
        let mut total = first;
        while total < max {
            match rest.next_out(p, max - total) {
                Ok([]) => break,
                Ok(piece) => total += piece.len() as u64,
                Err(_) => break,
            }
        }
        Ok(total)
    }

    /// The next piece to read from, at most `max` bytes; empty at the end.
    pub fn next_in(&mut self, p: &mut Process, max: u64) -> Result<&'static [u8]> {
        let Some((addr, n)) = self.current(max) else { return Ok(&[]) };
        let piece = user::prefix_in(p, addr, n)?;
        self.advance(piece.len());
        Ok(piece)
    }

    /// The next piece to write to, at most `max` bytes; empty at the end.
    pub fn next_out(&mut self, p: &mut Process, max: u64) -> Result<&'static mut [u8]> {
        let Some((addr, n)) = self.current(max) else { return Ok(&mut []) };
        let piece = user::prefix_out(p, addr, n)?;
        self.advance(piece.len());
        Ok(piece)
    }

    /// Copies all of `from` to the buffers. Answers how much went before a bad address; `EFAULT`
    /// if nothing did.
    pub fn scatter(&mut self, p: &mut Process, from: &[u8]) -> Result<u64> {
        let mut done = 0;
        while done < from.len() {
            match self.next_out(p, (from.len() - done) as u64) {
                Ok([]) => break,
                Ok(piece) => {
                    piece.copy_from_slice(&from[done..done + piece.len()]);
                    done += piece.len();
                }
                Err(error) if done == 0 => return Err(error),
                Err(_) => break,
            }
        }
        Ok(done as u64)
    }
}
