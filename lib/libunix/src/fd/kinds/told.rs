//! Files of `/proc/PID` whose text only the library of that process knows: it is asked at each read (`trace`).

use super::own_text;
use crate::errno::{Errno, Result};
use crate::fd::buffers::Cursor;
use crate::fd::ops::{FileOps, Handle, Server};
use crate::fd::stream::in_pieces;
use crate::fd::transfer::Source;
use crate::fd::Fds;
use crate::process::Io;
use crate::server::{self, header, op};
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;
use unixproto::files::{Kind, SEEK_CUR, SEEK_SET};
use unixproto::ops::Opened;
use unixproto::session::DATA_BYTES;
use unixproto::trace::command;

/// Bits of the number that `unixd` gives below the id of the process: what it is asked for.
const PID_SHIFT: u32 = 16;

/// An open text.
#[derive(Clone, Copy)]
pub struct Told {
    desc: u32,
    pid: u32,
    what: u32,
}

impl Told {
    fn piece(&self, io: &mut Io, from: u64, len: usize) -> Result<Vec<u8>> {
        if self.pid == header().key.load(Relaxed) {
            return own_text::told(&mut io.mm, self.what, from, len);
        }
        let ask =
            op::MemoryFile { desc: self.desc, write: false, address: from, bytes: len as u64 };
        match server::wait(io, ask) {
            Ok(answer) => server::taken(answer.count as usize),
            // It has ended, or is another program by now.
            Err(Errno::ESRCH) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }
}

/// What a text asks to be counted anew, up to a zero byte in it.
fn cleared(text: &[u8]) -> Result<u64> {
    let text = text.split(|&byte| byte == 0).next().unwrap_or_default().trim_ascii();
    let digits = text.strip_prefix(b"-").or(text.strip_prefix(b"+")).unwrap_or(text);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(Errno::EINVAL);
    }
    let number = core::str::from_utf8(text).ok().and_then(|text| text.parse::<i32>().ok());
    let number = number.ok_or(Errno::ERANGE)?;
    u64::try_from(number).ok().filter(|number| command::CLEARED.contains(number)).ok_or(Errno::EINVAL)
}

impl FileOps for Told {
    const SERVED: Option<Kind> = Some(Kind::Told);
    const POSITIONED: bool = true;

    fn opened(opened: &Opened) -> Option<Told> {
        let what = opened.inode as u32 & ((1 << PID_SHIFT) - 1);
        Some(Told { desc: opened.desc, pid: (opened.inode >> PID_SHIFT) as u32, what })
    }
    fn server(&self) -> Server {
        Server::Unixd([self.desc, 0])
    }
    fn read(&self, io: &mut Io, _: Handle, at: Option<u64>, to: &mut Cursor) -> Result<u64> {
        let desc = self.desc;
        let start = match at {
            Some(at) => at,
            None => server::call(op::Seek { desc, offset: 0, whence: SEEK_CUR })?.offset,
        };
        let done = in_pieces(to.left(), |done| {
            let len = to.left().min(DATA_BYTES as u64) as usize;
            let bytes = self.piece(io, start.saturating_add(done), len)?;
            let stored = to.scatter(&mut io.mm, &bytes).some()?;
            Ok((stored as u64, stored < len))
        })?;
        if at.is_none() {
            let offset = start.saturating_add(done) as i64;
            server::call(op::Seek { desc, offset, whence: SEEK_SET })?;
        }
        Ok(done)
    }
    /// A number, which says what is to be counted anew (`clear_refs`).
    fn write(&self, io: &mut Io, _: Handle, _: Option<u64>, from: &mut impl Source) -> Result<u64> {
        /// More is not looked at.
        const LONGEST: u64 = 12;
        let wanted = from.left();
        let mut text = [0; LONGEST as usize];
        let len = from.gather(io, &mut text[..wanted.min(LONGEST) as usize]).some()?;
        if self.what != command::CLEAR_REFS {
            return Err(Errno::EIO);
        }
        let number = cleared(&text[..len])?;
        if self.pid == header().key.load(Relaxed) {
            own_text::clear_refs(&mut io.mm, number);
        } else {
            let ask =
                op::MemoryFile { desc: self.desc, write: true, address: number, bytes: 0 };
            server::wait(io, ask)?;
        }
        Ok(len as u64)
    }
    /// By its end no such text is known.
    fn seek(&self, _fds: &mut Fds, _: Handle, offset: i64, whence: u32) -> Result<u64> {
        if !matches!(whence, SEEK_SET | SEEK_CUR) {
            return Err(Errno::EINVAL);
        }
        Ok(server::call(op::Seek { desc: self.desc, offset, whence })?.offset)
    }
}
