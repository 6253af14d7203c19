//! Native asynchronous input and output (`io_setup` and its relatives). As on Linux for what is not read from or written to a disk
//! directly, a request is done by the time it has been submitted; its event waits until somebody takes it.

use super::polling::temporary_mask;
use super::readwrite;
use super::{mask, State};
use crate::errno::{Errno, Result};
use crate::fd::kinds::{event, with_kind};
use crate::fd::ops::FileOps;
use crate::fd::{buffers::Cursor, transfer};
use crate::mm::{calls as memory, user, Mm};
use crate::process::{Io, Process};
use crate::sys::time::monotonic;
use crate::thread::park::{tell_watchers, watch};
use abi::layout::{PAGE, USER_END};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use linuxabi::iovec::{Buffer, MAX_RW};
use linuxabi::time::{from_timespec, TIME_BYTES};

/// Events that the contexts of a process may have room for.
const EVENTS_MOST: u32 = 65536;
/// More than any context can be asked for.
const EVENTS_NEVER: u32 = 0x1000_0000;
/// Contexts of a process.
const CONTEXTS_MOST: usize = 256;
/// Words of `struct iocb`, and of `struct io_event`.
const REQUEST_WORDS: usize = 8;
const EVENT_WORDS: usize = 4;
/// Where in `struct iocb` its key is, which is 0 once it has been submitted.
const KEY: u64 = 8;
/// The end of a request is told to an `eventfd`.
const FLAG_RESFD: u32 = 1;

const PREAD: u16 = 0;
const PWRITE: u16 = 1;
const FSYNC: u16 = 2;
const FDSYNC: u16 = 3;
const PREADV: u16 = 7;
const PWRITEV: u16 = 8;

/// What `io_setup` makes. It is known by the address of a page that the program can read: libraries look there for a ring of events,
/// and ask when they find none.
#[derive(Clone)]
struct Context {
    id: u64,
    most: u32,
    done: VecDeque<[u64; EVENT_WORDS]>,
}

/// All contexts of a process. Its children have none of them.
#[derive(Clone)]
pub struct Contexts(Vec<Context>);

impl Contexts {
    /// None.
    pub const fn new() -> Contexts {
        Contexts(Vec::new())
    }

    fn place(&self, id: u64) -> Result<usize> {
        self.0.iter().position(|context| context.id == id).ok_or(Errno::EINVAL)
    }

    fn get(&mut self, id: u64) -> Result<&mut Context> {
        let place = self.place(id)?;
        Ok(&mut self.0[place])
    }
}

pub fn io_setup(p: &mut Process, events: u32, to: u64) -> Result<u64> {
    let before: u64 = user::copy_in(&mut p.mm, to)?;
    if before != 0 || events == 0 || events > EVENTS_NEVER {
        return Err(Errno::EINVAL);
    }
    let taken: u32 = p.sys.aio.0.iter().map(|context| context.most).sum();
    if events > EVENTS_MOST - taken || p.sys.aio.0.len() >= CONTEXTS_MOST {
        return Err(Errno::EAGAIN);
    }
    const READ: u32 = 1;
    const PRIVATE_ANONYMOUS: u32 = 0x22;
    let id = memory::mmap(p, 0, PAGE, READ, PRIVATE_ANONYMOUS, -1, 0)?;
    if let Err(error) = user::copy_out(&mut p.mm, to, &id) {
        memory::munmap(p, id, PAGE)?;
        return Err(error);
    }
    p.sys.aio.0.push(Context { id, most: events, done: VecDeque::new() });
    Ok(0)
}

pub fn io_destroy(p: &mut Process, id: u64) -> Result<u64> {
    let place = p.sys.aio.place(id)?;
    p.sys.aio.0.remove(place);
    tell_watchers(p);
    // The program may have unmapped it.
    let _ = memory::munmap(p, id, PAGE);
    Ok(0)
}

/// A request, as `struct iocb` has it.
struct Request {
    data: u64,
    rw_flags: u32,
    operation: u16,
    fd: i32,
    address: u64,
    bytes: u64,
    offset: i64,
    told: Option<i32>,
}

impl Request {
    fn at(mm: &mut Mm, address: u64) -> Result<Request> {
        let words: [u64; REQUEST_WORDS] = user::copy_in(mm, address)?;
        let [data, key, what, buffer, bytes, offset, reserved, flags] = words;
        if reserved != 0 || bytes > i64::MAX as u64 {
            return Err(Errno::EINVAL);
        }
        let told = flags as u32 & FLAG_RESFD != 0;
        Ok(Request {
            data,
            rw_flags: (key >> 32) as u32,
            operation: what as u16,
            fd: (what >> 32) as i32,
            address: buffer,
            bytes,
            offset: offset as i64,
            told: told.then_some((flags >> 32) as i32),
        })
    }

    /// Where in the file, for those that have positions.
    fn position(&self, io: &Io) -> Result<Option<u64>> {
        fn has_positions<K: FileOps>(_: &K) -> bool {
            K::POSITIONED
        }
        let file = io.fds.get(self.fd)?;
        let positioned = with_kind!(&file.kind, kind => has_positions(kind));
        let at = u64::try_from(self.offset).map_err(|_| Errno::EINVAL)?;
        Ok(positioned.then_some(at))
    }

    /// The memory that it is about.
    fn buffers(&self, io: &mut Io) -> Result<Vec<Buffer>> {
        if matches!(self.operation, PREADV | PWRITEV) {
            return readwrite::vector(&mut io.mm, self.address, self.bytes);
        }
        match self.address.checked_add(self.bytes) {
            Some(end) if end <= USER_END => {}
            _ => return Err(Errno::EFAULT),
        }
        Ok(alloc::vec![Buffer { base: self.address, len: self.bytes.min(MAX_RW) }])
    }

    /// Does it. An error is that of the submission; one of what was submitted is in what it answers.
    fn run(&self, io: &mut Io) -> Result<Result<u64>> {
        let file = io.fds.get_open(self.fd)?;
        let (readable, writable) = (file.readable(), file.writable());
        let is_read = matches!(self.operation, PREAD | PREADV);
        match self.operation {
            PREAD | PREADV | PWRITE | PWRITEV => {
                if self.rw_flags != 0 {
                    return Err(Errno::EOPNOTSUPP);
                }
                if !(if is_read { readable } else { writable }) {
                    return Err(Errno::EBADF);
                }
                let buffers = self.buffers(io)?;
                let at = self.position(io)?;
                let mut cursor = Cursor::new(&buffers);
                let done = match is_read {
                    true => transfer::read(io, self.fd, at, &mut cursor),
                    false => transfer::write(io, self.fd, at, &mut cursor),
                };
                match done {
                    // It cannot be read or written at all.
                    Err(Errno::EINVAL | Errno::EISDIR) => Err(Errno::EINVAL),
                    done => Ok(done),
                }
            }
            FSYNC | FDSYNC => {
                let has_more = self.address != 0 || self.bytes != 0 || self.offset != 0;
                if has_more || self.rw_flags != 0 {
                    return Err(Errno::EINVAL);
                }
                match readwrite::fsync(&mut io.fds, self.fd) {
                    Err(Errno::EINVAL) => Err(Errno::EINVAL),
                    done => Ok(done),
                }
            }
            _ => Err(Errno::EINVAL),
        }
    }
}

fn submit(p: &mut Process, id: u64, address: u64) -> Result<()> {
    let request = Request::at(&mut p.mm, address)?;
    let context = p.sys.aio.get(id)?;
    if context.done.len() >= context.most as usize {
        return Err(Errno::EAGAIN);
    }
    p.fds.get(request.fd)?;
    if let Some(fd) = request.told {
        event::check(&p.fds, fd)?;
    }
    user::copy_out(&mut p.mm, address + KEY, &0u32)?;
    let done = match request.run(p)? {
        Ok(bytes) => bytes,
        // Whoever waits for the event does not know that it was a signal.
        Err(Errno::ERESTARTSYS | Errno::ERESTARTNOHAND) => -i64::from(Errno::EINTR as u16) as u64,
        Err(error) => error.to_rax(),
    };
    // Another thread may have destroyed it meanwhile.
    let Ok(context) = p.sys.aio.get(id) else { return Ok(()) };
    context.done.push_back([request.data, address, done, 0]);
    tell_watchers(p);
    if let Some(fd) = request.told {
        // One that was closed meanwhile is told nothing.
        let _ = event::add(p, fd, 1);
    }
    Ok(())
}

pub fn io_submit(p: &mut Process, id: u64, count: i64, requests: u64) -> Result<u64> {
    if count < 0 {
        return Err(Errno::EINVAL);
    }
    let most = p.sys.aio.get(id)?.most;
    for n in 0..(count as u64).min(most.into()) {
        let next = user::copy_in::<u64>(&mut p.mm, requests.wrapping_add(8 * n));
        if let Err(error) = next.and_then(|address| submit(p, id, address)) {
            return if n > 0 { Ok(n) } else { Err(error) };
        }
    }
    Ok((count as u64).min(most.into()))
}

/// All is done by the time it is submitted: nothing can be cancelled.
pub fn io_cancel(
    (mm, sys): (&mut Mm, &mut State),
    id: u64,
    request: u64,
    _result: u64,
) -> Result<u64> {
    user::copy_in::<u32>(mm, request.wrapping_add(KEY))?;
    sys.aio.place(id)?;
    Err(Errno::EINVAL)
}

pub fn io_getevents(
    p: &mut Process,
    id: u64,
    least: i64,
    most: i64,
    to: u64,
    timeout: u64,
) -> Result<u64> {
    let mut deadline = None;
    if timeout != 0 {
        let time = from_timespec(&user::copy_in::<[u8; TIME_BYTES]>(&mut p.mm, timeout)?)?;
        deadline = Some(monotonic().saturating_add(time));
    }
    p.sys.aio.place(id)?;
    if least < 0 || least > most {
        return Err(Errno::EINVAL);
    }
    let (least, most) = (least as u64, most as u64);
    let mut taken = 0;
    loop {
        while taken < most {
            let Some(event) = p.sys.aio.get(id)?.done.front().copied() else { break };
            if let Err(error) = user::copy_out(&mut p.mm, to.wrapping_add(32 * taken), &event) {
                return if taken > 0 { Ok(taken) } else { Err(error) };
            }
            p.sys.aio.get(id)?.done.pop_front();
            taken += 1;
        }
        if taken >= least || deadline.is_some_and(|end| end <= monotonic()) {
            return Ok(taken);
        }
        match watch(p, deadline) {
            Ok(()) | Err(Errno::ETIMEDOUT) => {}
            Err(_) if taken > 0 => return Ok(taken),
            Err(error) => return Err(error),
        }
    }
}

pub fn io_pgetevents(
    p: &mut Process,
    id: u64,
    least: i64,
    most: i64,
    to: u64,
    timeout: u64,
    mask: u64,
) -> Result<u64> {
    if mask != 0 {
        let [set, size]: [u64; 2] = user::copy_in(&mut p.mm, mask)?;
        if set != 0 {
            temporary_mask(p, set, size)?;
        }
    }
    let result = io_getevents(p, id, least, most, to, timeout);
    mask::end_temporary(&mut p.me, result == Err(Errno::EINTR));
    result
}
