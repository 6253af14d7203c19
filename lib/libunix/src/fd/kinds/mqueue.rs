//! POSIX message queues, which `unixd` keeps.

use crate::errno::{Errno, Result};
use crate::fd::buffers::Cursor;
use crate::fd::ops::{FileOps, Handle, Server};
use crate::fd::watch::Look;
use crate::fd::{install, stream, Fds, File};
use crate::mm::{user, Mm};
use crate::process::{Files, Io, Task};
use crate::server::{self, op, restart};
use crate::sys::time::{monotonic, realtime};
use linuxabi::time::{from_timespec, TIME_BYTES};
use unixproto::files::{Kind, O_ACCMODE, O_CREAT, O_EXCL, O_NONBLOCK, O_RDONLY, O_WRONLY};
use unixproto::files::PATH_MAX;
use unixproto::mqueue::{
    COOKIE_BYTES, PRIORITIES, SIGEV_NONE, SIGEV_SIGNAL, SIGEV_THREAD, SIGNALS,
};
use unixproto::ops::{Opened, QueueState};
use unixproto::session::DATA_BYTES;

/// Bytes of `struct mq_attr`, of which the first 32 say something.
const ATTRIBUTES: usize = 64;
/// Words of it that do.
const ATTRIBUTE_WORDS: usize = 4;
/// Of `struct sigevent`: value, signal, how.
const EVENT_BYTES: usize = 16;

/// An open queue.
#[derive(Clone, Copy)]
pub struct MQueue {
    desc: u32,
}

impl FileOps for MQueue {
    const SERVED: Option<Kind> = Some(Kind::Messages);
    const POLLABLE: bool = true;
    const POSITIONED: bool = true;

    fn opened(opened: &Opened) -> Option<MQueue> {
        Some(MQueue { desc: opened.desc })
    }
    fn server(&self) -> Server {
        Server::Unixd([self.desc, 0])
    }
    /// What is said about the queue.
    fn read(&self, io: &mut Io, _: Handle, at: Option<u64>, to: &mut Cursor) -> Result<u64> {
        stream::read_at(io, self.desc, at, to)
    }
    fn seek(&self, _fds: &mut Fds, _: Handle, offset: i64, whence: u32) -> Result<u64> {
        Ok(server::call(op::Seek { desc: self.desc, offset, whence })?.offset)
    }
    fn more_flags(&self) -> u32 {
        0
    }
    fn is_watched(&self) -> bool {
        true
    }
    fn ready(&self, look: &Look) -> Option<u16> {
        look.told()
    }
}

pub fn mq_open(io: &mut Io, name: u64, flags: u32, mode: u32, attributes: u64) -> Result<u64> {
    let mut given = [0; 8 * ATTRIBUTE_WORDS];
    let has_attributes = attributes != 0;
    if has_attributes {
        let all: [u64; ATTRIBUTES / 8] = user::copy_in(&mut io.mm, attributes)?;
        for (to, word) in given.chunks_exact_mut(8).zip(all) {
            to.copy_from_slice(&word.to_le_bytes());
        }
    }
    let name = user::cstr(&mut io.mm, name, PATH_MAX as usize, Errno::ENAMETOOLONG)?;
    io.fds.check_room(0, io.limits.max_files())?;
    let mode = mode & 0o7777 & !server::umask();
    let flags = flags & (O_ACCMODE | O_CREAT | O_EXCL | O_NONBLOCK);
    let attributes = if has_attributes { &given[..] } else { &[] };
    let request = op::OpenMessages { flags, mode, limit: io.limits.max_messages() };
    let opened = server::call_ab(request, &name, attributes)?;
    let file = File::opened(opened, flags & (O_ACCMODE | O_NONBLOCK));
    // No program that is executed has it.
    Ok(install(io, file, true)? as u64)
}

pub fn mq_unlink(mm: &mut Mm, name: u64) -> Result<u64> {
    let name = user::cstr(mm, name, PATH_MAX as usize, Errno::ENAMETOOLONG)?;
    server::call_a(op::UnlinkMessages {}, &name).map(|()| 0)
}

/// The description of an open queue. `EBADF`: it is something else.
fn find(io: &Io, fd: i32, unwanted: Option<u32>) -> Result<u32> {
    let file = io.fds.get_open(fd)?;
    let MQueue { desc } = io.fds.of_kind(fd).map_err(|_| Errno::EBADF)?;
    match unwanted == Some(file.flags & O_ACCMODE) {
        true => Err(Errno::EBADF),
        false => Ok(desc),
    }
}

/// Until when to wait, nanoseconds since boot; 0: for ever.
fn deadline(task: &mut Task, timeout: u64) -> Result<u64> {
    if timeout == 0 {
        return Ok(0);
    }
    let time = from_timespec(&user::copy_in::<[u8; TIME_BYTES]>(&mut task.mm, timeout)?)?;
    Ok(monotonic().saturating_add(time.saturating_sub(realtime())).max(1))
}

pub fn mq_timedsend(
    io: &mut Io,
    fd: i32,
    message: u64,
    bytes: u64,
    priority: u32,
    timeout: u64,
) -> Result<u64> {
    let deadline = deadline(io, timeout)?;
    if priority >= PRIORITIES {
        return Err(Errno::EINVAL);
    }
    let desc = find(io, fd, Some(O_RDONLY))?;
    let state = server::call(op::QueueAttributes { desc, flags: 0, set: false })?;
    if bytes > state.size || bytes > DATA_BYTES as u64 {
        return Err(Errno::EMSGSIZE);
    }
    let mut text = alloc::vec![0; bytes as usize];
    user::bytes_in(&mut io.mm, message, &mut text)?;
    let a = server::put_a(&text);
    server::wait_filled(io, op::QueueSend { desc, priority, deadline }, a).map_err(restart)?;
    Ok(0)
}

pub fn mq_timedreceive(
    io: &mut Io,
    fd: i32,
    to: u64,
    bytes: u64,
    priority: u64,
    timeout: u64,
) -> Result<u64> {
    let deadline = deadline(io, timeout)?;
    let desc = find(io, fd, Some(O_WRONLY))?;
    let request = op::QueueReceive { desc, bytes, deadline };
    let got = server::wait(io, request).map_err(restart)?;
    let text = server::taken(got.count as usize)?;
    if priority != 0 {
        user::copy_out(&mut io.mm, priority, &got.priority)?;
    }
    user::bytes_out(&mut io.mm, to, &text)?;
    Ok(got.count)
}

pub fn mq_notify(io: &mut Io, fd: i32, event: u64) -> Result<u64> {
    let mut request = op::QueueNotify { desc: 0, how: 0, signal: 0, value: 0, on: event != 0 };
    let mut cookie = [0; COOKIE_BYTES];
    let mut bytes = 0;
    if event != 0 {
        let [value, words]: [u64; EVENT_BYTES / 8] = user::copy_in(&mut io.mm, event)?;
        let (signal, how) = (words as u32, (words >> 32) as u32);
        match how {
            SIGEV_NONE => {}
            SIGEV_SIGNAL if signal <= SIGNALS => request.signal = signal,
            SIGEV_THREAD => {
                user::bytes_in(&mut io.mm, value, &mut cookie)?;
                let socket = io.fds.get_open(signal as i32)?;
                request.signal = socket.description(Errno::ENOTSOCK)?;
                bytes = COOKIE_BYTES;
            }
            _ => return Err(Errno::EINVAL),
        }
        (request.how, request.value) = (how, value);
    }
    request.desc = find(io, fd, None)?;
    server::call_a(request, &cookie[..bytes]).map(|()| 0)
}

pub fn mq_getsetattr(io: &mut Io, fd: i32, new: u64, old: u64) -> Result<u64> {
    let mut flags = 0;
    if new != 0 {
        let [wanted, ..]: [u64; ATTRIBUTES / 8] = user::copy_in(&mut io.mm, new)?;
        if wanted & !u64::from(O_NONBLOCK) != 0 {
            return Err(Errno::EINVAL);
        }
        flags = wanted as u32;
    }
    let desc = find(io, fd, None)?;
    let before = server::call(op::QueueAttributes { desc, flags, set: new != 0 })?;
    if new != 0 {
        let Files { fds, .. } = io.files();
        let index = fds.index(fd)?;
        fds.keep_flags(index, None);
    }
    if old != 0 {
        let QueueState { flags, most, size, count } = before;
        let mut told = [0; ATTRIBUTES / 8];
        told[..ATTRIBUTE_WORDS].copy_from_slice(&[flags.into(), most, size, count]);
        user::copy_out(&mut io.mm, old, &told)?;
    }
    Ok(0)
}
