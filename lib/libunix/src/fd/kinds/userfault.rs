//! `userfaultfd`: page faults that the program serves itself. The library keeps it by itself: another process can have the
//! descriptor, and hears nothing by it.

use crate::errno::{Errno, Result};
use crate::fd::buffers::Cursor;
use crate::fd::ops::{FileOps, Handle, Server};
use crate::fd::watch::Look;
use crate::fd::{install, Fds, File};
use crate::mm::user;
use crate::mm::userfault::{self, Fill};
use crate::process::Io;
use crate::server::restart;
use crate::sys::processes::has;
use crate::thread::park::watch;
use ::userfault::Mode;
use abi::layout::PAGE;
use alloc::collections::VecDeque;
use alloc::rc::Rc;
use core::cell::{Cell, RefCell};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use credentials::Capability;
use linuxabi::bytes::Bytes;
use unixproto::files::{O_CLOEXEC, O_NONBLOCK, POLLERR, POLLIN};

/// A fault that is to be served.
#[derive(Clone, Copy)]
pub struct Fault {
    pub address: u64,
    pub is_write: bool,
    /// The page is there, and protected.
    pub is_protected: bool,
    /// The page is there, and not shown yet.
    pub is_minor: bool,
    pub tid: u32,
}

/// What has happened to memory that is registered.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// It is elsewhere now.
    Remap { from: u64, to: u64, len: u64 },
    /// Its contents are about to be given up.
    Remove { start: u64, end: u64 },
    /// It is no more.
    Unmap { start: u64, end: u64 },
}

/// A `userfaultfd`.
#[derive(Clone)]
pub struct Userfault(Rc<Handler>);

/// Who serves faults.
pub struct Handler {
    number: Cell<u32>,
    /// Its place among the files.
    index: Cell<u32>,
    /// What it has asked for, with `UFFDIO_API`.
    features: Cell<Option<u64>>,
    /// Only of the program itself, not of its calls.
    program_only: bool,
    /// What it has not read yet.
    pending: RefCell<VecDeque<Fault>>,
    /// The same of events, with their numbers.
    events: RefCell<VecDeque<(u64, Event)>>,
}

impl Drop for Handler {
    fn drop(&mut self) {
        userfault::leaves();
    }
}

/// `UFFD_FEATURE_*`.
mod feature {
    pub const PROTECT: u64 = 1;
    pub const EVENT_REMAP: u64 = 1 << 2;
    pub const EVENT_REMOVE: u64 = 1 << 3;
    pub const MISSING_SHARED: u64 = 1 << 5;
    pub const EVENT_UNMAP: u64 = 1 << 6;
    pub const SIGBUS: u64 = 1 << 7;
    pub const THREAD_ID: u64 = 1 << 8;
    pub const MINOR_SHARED: u64 = 1 << 10;
    pub const EXACT_ADDRESS: u64 = 1 << 11;
    pub const PROTECT_SHARED: u64 = 1 << 12;
    pub const PROTECT_MISSING: u64 = 1 << 13;
    const EVENTS: u64 = EVENT_REMAP | EVENT_REMOVE | EVENT_UNMAP;
    const SHARED: u64 = MISSING_SHARED | MINOR_SHARED | PROTECT_SHARED;
    pub const ALL: u64 =
        PROTECT | SIGBUS | THREAD_ID | EXACT_ADDRESS | PROTECT_MISSING | EVENTS | SHARED;
}

/// Numbers of requests, and bits of those that there are.
mod request {
    pub const API: u32 = 0xc018_aa3f;
    pub const REGISTER: u32 = 0xc020_aa00;
    pub const UNREGISTER: u32 = 0x8010_aa01;
    pub const WAKE: u32 = 0x8010_aa02;
    pub const COPY: u32 = 0xc028_aa03;
    pub const ZEROPAGE: u32 = 0xc020_aa04;
    pub const WRITEPROTECT: u32 = 0xc018_aa06;
    pub const CONTINUE: u32 = 0xc020_aa07;
    pub const OF_API: u64 = 1 | 1 << 1 | 1 << 0x3f;
    pub const OF_RANGE: u64 = 1 << 2 | 1 << 3 | 1 << 4;
    pub const OF_PROTECTED: u64 = 1 << 6;
    pub const OF_MINOR: u64 = 1 << 7;
}

const MESSAGE_BYTES: usize = 32;

/// The number of the next event of the process.
static NEXT_EVENT: AtomicU64 = AtomicU64::new(0);

impl Handler {
    fn new(program_only: bool) -> Handler {
        let (number, index) = (Cell::new(0), Cell::new(0));
        let (features, pending) = (Cell::new(None), RefCell::new(VecDeque::new()));
        let events = RefCell::new(VecDeque::new());
        Handler { number, index, features, program_only, pending, events }
    }
    fn has(&self, feature: u64) -> bool {
        self.features.get().is_some_and(|features| features & feature != 0)
    }
    /// `SIGBUS` instead of messages.
    pub fn wants_signals(&self) -> bool {
        self.has(feature::SIGBUS)
    }
    pub fn is_for_program_only(&self) -> bool {
        self.program_only
    }
    pub fn index(&self) -> u32 {
        self.index.get()
    }
    pub fn tell(&self, fault: Fault) {
        self.pending.borrow_mut().push_back(fault);
    }
    /// Has it asked for such events?
    pub fn wants(&self, event: Event) -> bool {
        self.has(match event {
            Event::Remap { .. } => feature::EVENT_REMAP,
            Event::Remove { .. } => feature::EVENT_REMOVE,
            Event::Unmap { .. } => feature::EVENT_UNMAP,
        })
    }
    /// Answers the number of the event.
    pub fn tell_event(&self, event: Event) -> u64 {
        let number = NEXT_EVENT.fetch_add(1, Relaxed);
        self.events.borrow_mut().push_back((number, event));
        number
    }
    /// Was it not read yet?
    pub fn has_event(&self, event: u64) -> bool {
        self.events.borrow().iter().any(|&(number, _)| number == event)
    }
    /// A thread waits no more.
    pub fn take_back(&self, tid: u32) {
        self.pending.borrow_mut().retain(|message| message.tid != tid);
    }
    /// Nobody waits for addresses in a range any more.
    pub fn forget(&self, start: u64, end: u64) {
        self.pending.borrow_mut().retain(|message| !(start..end).contains(&message.address));
    }

    /// `struct uffd_msg`: first of faults. And the number of the event that it tells.
    fn message(&self) -> Option<([u8; MESSAGE_BYTES], Option<u64>)> {
        if let Some(fault) = self.fault() {
            return Some((fault, None));
        }
        let (number, event) = self.events.borrow_mut().pop_front()?;
        Some((event.message(), Some(number)))
    }

    fn fault(&self) -> Option<[u8; MESSAGE_BYTES]> {
        const PAGEFAULT: u32 = 0x12;
        let fault = self.pending.borrow_mut().pop_front()?;
        let Fault { address, is_write, is_protected, is_minor, tid } = fault;
        let is_exact = self.has(feature::EXACT_ADDRESS);
        let address = if is_exact { address } else { address & !(PAGE - 1) };
        let tid = if self.has(feature::THREAD_ID) { tid } else { 0 };
        let flags = u64::from(is_write) | u64::from(is_protected) << 1 | u64::from(is_minor) << 2;
        Some(Bytes::default().u32(PAGEFAULT).u32(0).u64(flags).u64(address).u64(tid.into()).done())
    }
}

impl Event {
    fn message(self) -> [u8; MESSAGE_BYTES] {
        const REMAP: u32 = 0x14;
        const REMOVE: u32 = 0x15;
        const UNMAP: u32 = 0x16;
        let (event, words) = match self {
            Event::Remap { from, to, len } => (REMAP, [from, to, len]),
            Event::Remove { start, end } => (REMOVE, [start, end, 0]),
            Event::Unmap { start, end } => (UNMAP, [start, end, 0]),
        };
        let [first, second, third] = words;
        Bytes::default().u32(event).u32(0).u64(first).u64(second).u64(third).done()
    }
}

impl FileOps for Userfault {
    const POLLABLE: bool = true;

    fn server(&self) -> Server {
        Server::Library
    }

    fn read(&self, io: &mut Io, file: Handle, _at: Option<u64>, to: &mut Cursor) -> Result<u64> {
        if self.0.features.get().is_none() {
            return Err(Errno::EINVAL);
        }
        let mut done = 0;
        loop {
            if to.left() < MESSAGE_BYTES as u64 {
                return if done > 0 { Ok(done) } else { Err(Errno::EINVAL) };
            }
            match self.0.message() {
                Some((message, event)) => {
                    if let Some(event) = event {
                        userfault::was_read(io, event);
                    }
                    done += to.scatter(&mut io.mm, &message).some()? as u64;
                }
                None if done > 0 => return Ok(done),
                None if file.flags & O_NONBLOCK != 0 => return Err(Errno::EAGAIN),
                None => watch(io, None).map_err(restart)?,
            }
        }
    }

    fn ready(&self, _: &Look) -> Option<u16> {
        if self.0.features.get().is_none() {
            return Some(POLLERR);
        }
        let is_empty = self.0.pending.borrow().is_empty() && self.0.events.borrow().is_empty();
        Some(if is_empty { 0 } else { POLLIN })
    }

    fn seek(&self, _: &mut Fds, _: Handle, _offset: i64, _whence: u32) -> Result<u64> {
        Ok(0)
    }

    fn more_flags(&self) -> u32 {
        0
    }

    fn ioctl(&self, io: &mut Io, _: Handle, command: u32, arg: u64) -> Result<u64> {
        if command == request::API {
            return self.begin(io, arg);
        }
        if self.0.features.get().is_none() {
            return Err(Errno::EINVAL);
        }
        // The memory that it was made for may be gone, or another process's.
        if !io.mm.userfaults.knows(self.0.number.get(), &self.0) {
            match command {
                request::REGISTER | request::UNREGISTER => return Err(Errno::ENOMEM),
                request::WAKE => {}
                _ => return Err(Errno::ESRCH),
            }
        }
        match command {
            request::REGISTER => self.register(io, arg),
            request::UNREGISTER => {
                let [start, len] = user::copy_in(&mut io.mm, arg)?;
                userfault::unregister(io, start, len).map(|()| 0)
            }
            request::WAKE => {
                let [start, len] = user::copy_in(&mut io.mm, arg)?;
                userfault::wake_range(io, start, len).map(|()| 0)
            }
            request::COPY => {
                const PROTECTS: u64 = 2;
                let [to, from, len, mode]: [u64; 4] = user::copy_in(&mut io.mm, arg)?;
                if mode & !(DONT_WAKE | PROTECTS) != 0 || from.checked_add(len).is_none_or(|end| end <= from) {
                    return Err(Errno::EINVAL);
                }
                fill(io, (to, len), Fill::Copy(from), (mode, mode & PROTECTS != 0), arg + 32)
            }
            request::ZEROPAGE => {
                let [to, len, mode]: [u64; 3] = user::copy_in(&mut io.mm, arg)?;
                if mode & !DONT_WAKE != 0 {
                    return Err(Errno::EINVAL);
                }
                fill(io, (to, len), Fill::Zero, (mode, false), arg + 24)
            }
            request::CONTINUE => {
                let [start, len, mode]: [u64; 3] = user::copy_in(&mut io.mm, arg)?;
                if mode & !DONT_WAKE != 0 {
                    return Err(Errno::EINVAL);
                }
                come(io, (start, len), mode, arg + 24, |io| userfault::go_on(io, (start, len)))
            }
            request::WRITEPROTECT => {
                const ON: u64 = 1;
                const DONT_WAKE: u64 = 2;
                let [start, len, mode]: [u64; 3] = user::copy_in(&mut io.mm, arg)?;
                if mode & !(ON | DONT_WAKE) != 0 || mode == ON | DONT_WAKE {
                    return Err(Errno::EINVAL);
                }
                let with_missing = self.0.has(feature::PROTECT_MISSING);
                userfault::protect(io, (start, len), mode & ON != 0, with_missing)?;
                if mode == 0 {
                    userfault::wake_range(io, start, len)?;
                }
                Ok(0)
            }
            _ => Err(Errno::EINVAL),
        }
    }
}

/// Of pages that come: nobody is woken.
const DONT_WAKE: u64 = 1;

/// Pages come. How many bytes, or which error, also goes to where the caller wants it.
fn fill(io: &mut Io, range: (u64, u64), from: Fill, (mode, protects): (u64, bool), told: u64) -> Result<u64> {
    come(io, range, mode, told, |io| userfault::fill(io, range, from, protects))
}

/// The same in any way.
fn come(
    io: &mut Io,
    range: (u64, u64),
    mode: u64,
    told: u64,
    how: impl FnOnce(&mut Io) -> Result<u64>,
) -> Result<u64> {
    let result = how(io);
    // Errors of what was asked for, not of pages, are told once only.
    let is_about_pages = !matches!(result, Err(Errno::EINVAL));
    if is_about_pages {
        user::copy_out(&mut io.mm, told, &crate::errno::to_rax(result))?;
    }
    let done = result?;
    if mode & DONT_WAKE == 0 {
        userfault::wake_range(io, range.0, done)?;
    }
    if done < range.1 { Err(Errno::EAGAIN) } else { Ok(0) }
}

/// What has been asked for, as a word.
const HAS_BEGUN: u32 = 1 << 31;

impl Userfault {
    /// What it is for a program that begins in other memory, of which it knows nothing.
    pub fn left(&self) -> u32 {
        self.0.features.get().map_or(0, |features| features as u32 | HAS_BEGUN)
    }

    /// The same there.
    pub fn of_other_memory(left: u32) -> Userfault {
        let features = (left & HAS_BEGUN != 0).then_some(u64::from(left) & feature::ALL);
        let handler = Handler::new(true);
        handler.features.set(features);
        Userfault(Rc::new(handler))
    }

    /// `UFFDIO_API`.
    fn begin(&self, io: &mut Io, arg: u64) -> Result<u64> {
        const VERSION: u64 = 0xaa;
        if self.0.features.get().is_some() {
            return Err(Errno::EINVAL);
        }
        let [version, features]: [u64; 2] = user::copy_in(&mut io.mm, arg)?;
        if version != VERSION || features & !feature::ALL != 0 {
            user::copy_out(&mut io.mm, arg, &[0u64; 3])?;
            return Err(Errno::EINVAL);
        }
        user::copy_out(&mut io.mm, arg, &[version, feature::ALL, request::OF_API])?;
        self.0.features.set(Some(features));
        Ok(0)
    }

    fn register(&self, io: &mut Io, arg: u64) -> Result<u64> {
        const MISSING: u64 = 1;
        const PROTECTED: u64 = 2;
        const MINOR: u64 = 4;
        let [start, len, mode]: [u64; 3] = user::copy_in(&mut io.mm, arg)?;
        if mode == 0 || mode & !(MISSING | PROTECTED | MINOR) != 0 {
            return Err(Errno::EINVAL);
        }
        let (missing, protected) = (mode & MISSING != 0, mode & PROTECTED != 0);
        let minor = mode & MINOR != 0;
        let who = self.0.number.get();
        userfault::register(&mut io.mm, start, len, Mode { who, missing, minor, protected })?;
        let protected = if protected { request::OF_PROTECTED } else { 0 };
        let requests = request::OF_RANGE | protected | if minor { request::OF_MINOR } else { 0 };
        user::copy_out(&mut io.mm, arg + 24, &requests)?;
        Ok(0)
    }
}

pub fn userfaultfd(io: &mut Io, flags: u32) -> Result<u64> {
    const PROGRAM_ONLY: u32 = 1;
    let program_only = flags & PROGRAM_ONLY != 0;
    if !program_only && !has(Capability::SysPtrace) {
        return Err(Errno::EPERM);
    }
    if flags & !(PROGRAM_ONLY | O_CLOEXEC | O_NONBLOCK) != 0 {
        return Err(Errno::EINVAL);
    }
    let handler = Rc::new(Handler::new(program_only));
    handler.number.set(io.mm.userfaults.add(Rc::downgrade(&handler)));
    let file = File::new(Userfault(handler.clone()), flags & O_NONBLOCK);
    let fd = install(io, file, flags & O_CLOEXEC != 0)?;
    handler.index.set(io.fds.index(fd)?);
    Ok(fd as u64)
}
