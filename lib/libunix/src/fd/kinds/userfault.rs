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
use credentials::Capability;
use linuxabi::bytes::Bytes;
use unixproto::files::{O_CLOEXEC, O_NONBLOCK, POLLERR, POLLIN};

/// A fault that is to be served.
#[derive(Clone, Copy)]
pub struct Message {
    pub address: u64,
    pub is_write: bool,
    /// The page is there, and protected.
    pub is_protected: bool,
    pub tid: u32,
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
    pending: RefCell<VecDeque<Message>>,
}

impl Drop for Handler {
    fn drop(&mut self) {
        userfault::leaves();
    }
}

/// `UFFD_FEATURE_*`.
mod feature {
    pub const PROTECT: u64 = 1;
    pub const SIGBUS: u64 = 1 << 7;
    pub const THREAD_ID: u64 = 1 << 8;
    pub const EXACT_ADDRESS: u64 = 1 << 11;
    pub const PROTECT_MISSING: u64 = 1 << 13;
    pub const ALL: u64 = PROTECT | SIGBUS | THREAD_ID | EXACT_ADDRESS | PROTECT_MISSING;
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
    pub const OF_API: u64 = 1 | 1 << 1 | 1 << 0x3f;
    pub const OF_RANGE: u64 = 1 << 2 | 1 << 3 | 1 << 4;
    pub const OF_PROTECTED: u64 = 1 << 6;
}

const MESSAGE_BYTES: usize = 32;

impl Handler {
    fn new(program_only: bool) -> Handler {
        let (number, index) = (Cell::new(0), Cell::new(0));
        let (features, pending) = (Cell::new(None), RefCell::new(VecDeque::new()));
        Handler { number, index, features, program_only, pending }
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
    pub fn tell(&self, message: Message) {
        self.pending.borrow_mut().push_back(message);
    }
    /// A thread waits no more.
    pub fn take_back(&self, tid: u32) {
        self.pending.borrow_mut().retain(|message| message.tid != tid);
    }
    /// Nobody waits for addresses in a range any more.
    pub fn forget(&self, start: u64, end: u64) {
        self.pending.borrow_mut().retain(|message| !(start..end).contains(&message.address));
    }

    /// `struct uffd_msg`.
    fn message(&self) -> Option<[u8; MESSAGE_BYTES]> {
        const PAGEFAULT: u32 = 0x12;
        let Message { address, is_write, is_protected, tid } = self.pending.borrow_mut().pop_front()?;
        let is_exact = self.has(feature::EXACT_ADDRESS);
        let address = if is_exact { address } else { address & !(PAGE - 1) };
        let tid = if self.has(feature::THREAD_ID) { tid } else { 0 };
        let flags = u64::from(is_write) | u64::from(is_protected) << 1;
        Some(Bytes::default().u32(PAGEFAULT).u32(0).u64(flags).u64(address).u64(tid.into()).done())
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
                Some(message) => done += to.scatter(&mut io.mm, &message).some()? as u64,
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
        Some(if self.0.pending.borrow().is_empty() { 0 } else { POLLIN })
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
    let result = userfault::fill(io, range, from, protects);
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
        let [start, len, mode]: [u64; 3] = user::copy_in(&mut io.mm, arg)?;
        if mode == 0 || mode & !(MISSING | PROTECTED) != 0 {
            return Err(Errno::EINVAL);
        }
        let (missing, protected) = (mode & MISSING != 0, mode & PROTECTED != 0);
        let who = self.0.number.get();
        userfault::register(&mut io.mm, start, len, Mode { who, missing, protected })?;
        let requests = request::OF_RANGE | if protected { request::OF_PROTECTED } else { 0 };
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
