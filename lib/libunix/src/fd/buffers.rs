//! The program's buffers of one read or write.

use crate::errno::Result;
use crate::mm::user::{self, Moved};
use crate::mm::Mm;
use libos::guarded::Memory;
use linuxabi::iovec::Buffer;

/// Most bytes that are copied at a time.
const PIECE: u64 = 1 << 20;

/// Where a transfer stands in its buffers.
#[derive(Clone)]
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

    /// Where the next bytes are, and how many there are in one piece that the program may have: `None` behind
    /// the end.
    pub fn piece(&mut self) -> Option<(u64, u64)> {
        let (addr, n) = self.current(u64::MAX)?;
        Some((addr, user::room(addr, n)))
    }

    /// So many bytes of that piece are done.
    pub fn skip(&mut self, bytes: u64) {
        self.advance(bytes as usize);
    }

    /// `EFAULT` unless the next byte can be written.
    pub fn probe_out(&mut self, mm: &mut Mm) -> Result<()> {
        match self.current(1) {
            Some((addr, n)) => user::writable(mm, addr, n).map(|_| ()),
            None => Ok(()),
        }
    }

    /// `EFAULT` unless the next byte can be read.
    pub fn probe_in(&mut self, mm: &mut Mm) -> Result<()> {
        match self.current(1) {
            Some((addr, n)) => user::readable(mm, addr, n).map(|_| ()),
            None => Ok(()),
        }
    }

    /// How many of the next `max` bytes can be written: `EFAULT` if none can. What is then received is not
    /// lost for lack of a place.
    #[inline]
    pub fn writable(&mut self, mm: &mut Mm, max: u64) -> Result<u64> {
        let Some((addr, n)) = self.current(max) else { return Ok(0) };
        let first = user::writable(mm, addr, n)? as u64;
        if first == max || first < n as u64 {
            return Ok(first);
        }
        self.writable_behind(mm, max, first)
    }

    #[cold]
    fn writable_behind(&self, mm: &mut Mm, max: u64, first: u64) -> Result<u64> {
        let mut rest = Cursor { ..*self };
        rest.advance(first as usize);
        let mut total = first;
        while total < max {
            let Some((addr, n)) = rest.current(max - total) else { break };
            let Ok(here) = user::writable(mm, addr, n) else { break };
            rest.advance(here);
            total += here as u64;
        }
        Ok(total)
    }

    /// Does `copy` with one buffer after the other, until `max` bytes are done or one copy is short. It is told where
    /// in the program the bytes are, how many they are, and how many are done.
    #[inline(always)]
    fn each(
        &mut self,
        mm: &mut Mm,
        max: usize,
        mut copy: impl FnMut(&mut Mm, u64, usize, usize) -> Moved,
    ) -> Moved {
        let mut bytes = 0;
        while bytes < max {
            let Some((addr, n)) = self.current((max - bytes) as u64) else { break };
            let moved = copy(mm, addr, n, bytes);
            self.advance(moved.bytes);
            bytes += moved.bytes;
            if moved.short.is_some() {
                return Moved { bytes, ..moved };
            }
        }
        Moved { bytes, short: None }
    }

    /// Copies from the buffers to `to`, as much as both have.
    pub fn gather(&mut self, mm: &mut Mm, to: &mut [u8]) -> Moved {
        self.each(mm, to.len(), |mm, addr, n, done| user::read(mm, addr, &mut to[done..done + n]))
    }

    /// The same to a window, or to memory shared with a server.
    #[inline]
    pub fn gather_to(&mut self, mm: &mut Mm, to: Memory) -> Moved {
        self.each(mm, to.len(), |mm, addr, n, done| user::read_to(mm, addr, to.skip(done).first(n)))
    }

    /// Copies from `from` to the buffers, as much as both have.
    pub fn scatter(&mut self, mm: &mut Mm, from: &[u8]) -> Moved {
        self.each(mm, from.len(), |mm, addr, n, done| user::write(mm, addr, &from[done..done + n]))
    }

    /// The same from a window, or from memory shared with a server.
    #[inline]
    pub fn scatter_from(&mut self, mm: &mut Mm, from: Memory) -> Moved {
        self.each(mm, from.len(), |mm, addr, n, done| {
            user::write_from(mm, addr, from.skip(done).first(n))
        })
    }

    /// Fills up to `max` bytes of the buffers with zeros.
    pub fn zero(&mut self, mm: &mut Mm, max: u64) -> Moved {
        let max = usize::try_from(max).unwrap_or(usize::MAX);
        self.each(mm, max, |mm, addr, n, _| user::zero(mm, addr, n))
    }
}
