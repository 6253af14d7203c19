//! Calls to `unixd`.
//!
//! A request's words go by registers; its byte strings lie in the data area of the session frame,
//! and so do those of the answer. Every thread has a session frame, and `unixd` writes to its data
//! area only while the thread waits for an answer, so what lies there stays until the next call. It is memory that
//! others write all the same: it is copied, never referred to.
//!
//! A request that may be answered late goes out by [`wait`] or [`wait_filled`], which let other
//! threads use the library meanwhile.

use crate::errno::{Errno, Result};
use crate::home;
use crate::invoke::{invoke_raw, Raw};
use crate::process::Task;
use crate::sys::time;
use crate::thread::{area, company, lock};
use abi::layout::SESSION_FRAME;
use alloc::vec::Vec;
use captypes::invocations::{received, LENDS_READ, LENDS_WRITE, MOVE_CAPS};
use captypes::{CapAddr, Label, Place, Status};
use core::sync::atomic::Ordering;
use libos::guarded::Memory;
pub use unixproto::op;
pub use unixproto::session::Header;
use unixproto::session::{own_umask, with_own_umask, MoreFds, ShownFiles};
use unixproto::session::{DATA_BYTES, DATA_OFFSET, MORE_OFFSET, SHOWN_OFFSET};
use unixproto::{lent, Reply, Request, Words};

/// The header that both sides see, of the thread that runs here.
#[inline]
pub fn header() -> &'static Header {
    // SAFETY: as in `main_header`.
    unsafe { &*(area::own_session() as *const Header) }
}

/// The session frame of the first thread of the process that runs here.
#[inline(always)]
fn main_session() -> u64 {
    // A guest is never the first thread, which need not ask.
    match !area::is_first() && company::is_guest() {
        true => area::own_session(),
        false => SESSION_FRAME,
    }
}

/// The header of the first thread, with what is the process's. It stays when that thread ends.
#[inline]
pub fn main_header() -> &'static Header {
    // SAFETY: the session frame is mapped for as long as the library runs, and all fields of the
    // header are atomics.
    unsafe { &*(main_session() as *const Header) }
}

/// The mode creation mask of the thread that asks.
pub fn umask() -> u32 {
    let own = own_umask(header().umask.load(Ordering::Relaxed));
    own.unwrap_or_else(|| main_header().umask.load(Ordering::Relaxed) & 0o777)
}

/// Sets it. Returns what it was, and whether it is that of the thread alone, as it stands elsewhere than its process.
pub fn set_umask(mask: u32) -> (u32, bool) {
    let own = &header().umask;
    let change = |word| own_umask(word).map(|_| with_own_umask(word, Some(mask)));
    if let Ok(before) = own.fetch_update(Ordering::Relaxed, Ordering::Relaxed, change) {
        return (own_umask(before).unwrap_or_default(), true);
    }
    let change = |word| Some(word & !0o777 | mask);
    let (Ok(before) | Err(before)) =
        main_header().umask.fetch_update(Ordering::Relaxed, Ordering::Relaxed, change);
    (before & 0o777, false)
}

/// Changes of descriptors that a header of a process has no room for.
pub fn more_fds(header: &Header) -> &MoreFds {
    // SAFETY: a header is the start of a session frame, which is mapped as a whole; all fields are atomics.
    unsafe { &*header_start(header).add(MORE_OFFSET).cast::<MoreFds>() }
}

fn header_start(header: &Header) -> *const u8 {
    (header as *const Header).cast()
}

/// What the process knows of files.
#[inline]
pub fn shown_files() -> &'static ShownFiles {
    // SAFETY: as in `main_header`.
    unsafe { &*((main_session() + SHOWN_OFFSET as u64) as *const ShownFiles) }
}

/// The first `len` bytes of the data area: what an answer has left there, or what is to be filled before a call.
#[inline]
pub fn data(len: usize) -> Memory {
    let len = len.min(DATA_BYTES);
    let used = &header().used;
    if used.load(Ordering::Relaxed) < len as u32 {
        used.store(len as u32, Ordering::Relaxed);
    }
    let address = area::own_session() + DATA_OFFSET as u64;
    // SAFETY: inside the session frame, of which only the header is ever referred to. The rest is `unixd`'s, too.
    unsafe { Memory::new(address, len) }
}

/// Reads what an answer has left at the start of the data area.
pub fn take(to: &mut [u8]) {
    // The frame stays for as long as the thread may ask anything.
    let _ = data(to.len()).read(to);
}

/// Reads the first `len` bytes that an answer has left in the data area.
///
/// # Errors
///
/// `ENOMEM`.
pub fn taken(len: usize) -> Result<Vec<u8>> {
    let mut all = Vec::new();
    // As in `take`.
    let _ = data(len).append_to(&mut all).map_err(|_| Errno::ENOMEM)?;
    Ok(all)
}

/// Puts byte string `a` in the data area. Returns its length, cut to what fits.
pub fn put_a(a: &[u8]) -> usize {
    data(a.len()).write(a).done
}

/// Puts byte string `b` behind `a` of length `a`. Returns its length, cut to what fits.
pub fn put_b(a: usize, b: &[u8]) -> usize {
    data(a.saturating_add(b.len())).skip(a).write(b).done
}

/// Capabilities that go with a request, and where those of the answer are put.
#[derive(Clone, Copy)]
pub struct Caps {
    pub first: Place,
    pub count: u32,
    /// They are given away.
    pub moved: bool,
    pub recv: Place,
}

impl Caps {
    /// None in either direction.
    pub const NONE: Caps = Caps { first: Place::NULL, count: 0, moved: false, recv: Place::NULL };

    /// Gives `count` away, from `first` on.
    pub fn give(first: impl Into<Place>, count: u32) -> Caps {
        Caps { first: first.into(), count, moved: true, ..Caps::NONE }
    }

    /// Receives at `slot`.
    pub fn receive(slot: impl Into<Place>) -> Caps {
        Caps { recv: slot.into(), ..Caps::NONE }
    }

    /// Bits of `rax`.
    fn bits(self) -> u64 {
        let moved = if self.moved { MOVE_CAPS } else { 0 };
        (self.count as u64) << 16 | moved
    }
}

/// Sends a request with byte strings of lengths `a` and `b`, and capabilities. Answers how many
/// capabilities came back, too.
pub fn call_caps<R: Request>(
    request: R,
    a: usize,
    b: usize,
    caps: Caps,
) -> Result<(R::Reply, u32)> {
    let words = request.encode(a, b);
    let has_caps = caps.count > 0 || !caps.recv.is_null();
    let (words, count) = match has_caps && home::is_elsewhere() {
        true => home::carry(words, caps)?,
        false => call_words(words, caps)?,
    };
    let reply = R::Reply::decode(&words).map_err(|e| Errno::from_number(e.0 as u64))?;
    Ok((reply, count))
}

#[inline(always)]
pub fn call_words(words: Words, caps: Caps) -> Result<(Words, u32)> {
    call_with(caps.bits(), words, caps)
}

/// With these bits of `rax`.
#[inline(always)]
fn call_with(bits: u64, words: Words, caps: Caps) -> Result<(Words, u32)> {
    let [w0, w1, w2, w3, w4, w5] = words;
    let rax = Label::Call as u64 | bits;
    let args = [w0, w1, w2, w3, w4, w5, caps.first.0, caps.recv.0, 0];
    received(invoke_raw(rax, Place::own(area::own_endpoint()), args))
}

/// The same to another endpoint.
#[cold]
pub fn call_at(endpoint: CapAddr, words: Words, caps: Caps) -> Result<(Words, u32)> {
    let [w0, w1, w2, w3, w4, w5] = words;
    let rax = Label::Call as u64 | caps.bits();
    let args = [w0, w1, w2, w3, w4, w5, caps.first.0, caps.recv.0, 0];
    received(invoke_raw(rax, Place::own(endpoint), args))
}

/// What has come back: words, and how many capabilities.
#[inline(always)]
fn received(raw: Raw) -> Result<(Words, u32)> {
    match Status::from_word(raw.status) {
        Ok(()) => Ok((raw.words, (raw.received & received::CAPS) as u32)),
        Err(Status::Interrupted) => Err(Errno::EINTR),
        Err(_) => Err(Errno::EIO),
    }
}

/// Sends a request with byte strings of lengths `a` and `b`, which needs no capabilities: wherever the home is, the server is called.
#[inline]
fn call_plain<R: Request>(request: R, a: usize, b: usize) -> Result<R::Reply> {
    let (words, _) = call_words(request.encode(a, b), Caps::NONE)?;
    R::Reply::decode(&words).map_err(|e| Errno::from_number(e.0 as u64))
}

/// Sends a request without byte strings.
#[inline]
pub fn call<R: Request>(request: R) -> Result<R::Reply> {
    call_plain(request, 0, 0)
}

/// Sends a request that may be answered late.
pub fn wait<R: Request>(task: &mut Task, request: R) -> Result<R::Reply> {
    let released = lock::release(task);
    let reply = call(request);
    drop(released);
    // It may have been long ago.
    time::look();
    reply
}

/// Memory of the program that is lent with a request, until it is answered.
#[derive(Clone, Copy)]
pub struct Loan {
    pub address: u64,
    pub bytes: u64,
    /// To be written to, and not to be read.
    pub write: bool,
}

/// The same with memory that is lent. Nothing of it need be there: the answer says how far that is so.
pub fn wait_lending<R: Request>(task: &mut Task, request: R, loan: Loan) -> Result<R::Reply> {
    let mut words = request.encode(0, 0);
    (words[lent::ADDRESS], words[lent::BYTES]) = (loan.address, loan.bytes);
    let bits = if loan.write { LENDS_WRITE } else { LENDS_READ };
    let released = lock::release(task);
    let answer = call_with(bits, words, Caps::NONE);
    drop(released);
    R::Reply::decode(&answer?.0).map_err(|e| Errno::from_number(e.0 as u64))
}

/// The same with byte string `a`, whose bytes are in the data area already.
pub fn wait_filled<R: Request>(task: &mut Task, request: R, a: usize) -> Result<R::Reply> {
    let released = lock::release(task);
    let reply = call_filled(request, a);
    drop(released);
    reply
}

/// The same with `b` behind it.
pub fn wait_both<R: Request>(task: &mut Task, request: R, a: usize, b: usize) -> Result<R::Reply> {
    let released = lock::release(task);
    let reply = call_plain(request, a, b);
    drop(released);
    reply
}

/// Sends a request with byte string `a`, whose bytes are in the data area already.
pub fn call_filled<R: Request>(request: R, a: usize) -> Result<R::Reply> {
    call_plain(request, a, 0)
}

/// Sends a request with byte string `a`.
pub fn call_a<R: Request>(request: R, a: &[u8]) -> Result<R::Reply> {
    call_filled(request, put_a(a))
}

/// Sends a request with byte strings `a` and `b`.
pub fn call_ab<R: Request>(request: R, a: &[u8], b: &[u8]) -> Result<R::Reply> {
    let a = put_a(a);
    let b = put_b(a, b);
    call_plain(request, a, b)
}

/// Closes a description that no descriptor has.
pub fn close(desc: u32) {
    // One that is not closed goes with the process. Whoever closes it after an error has that one to tell.
    let _ = call_a(op::Close {}, &desc.to_le_bytes());
}

/// The error of a call that is repeated after a handler with `SA_RESTART`.
pub fn restart(error: Errno) -> Errno {
    match error {
        Errno::EINTR => Errno::ERESTARTSYS,
        other => other,
    }
}

/// The error of a call that is repeated only if no handler ran.
pub fn restart_no_handler(error: Errno) -> Errno {
    match error {
        Errno::EINTR => Errno::ERESTARTNOHAND,
        other => other,
    }
}
