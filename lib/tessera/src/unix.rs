//! Requests to `unixd`.
//!
//! As in the library of a Linux process: words go by registers, byte strings lie in the data area of
//! the session frame. One request at a time uses it.

use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use libos::abi::layout::NATIVE_SESSION;
use libos::abi::slots::{STANDIN, UNIXD};
use libos::ipc::{self, Caps, Message};
use libos::local::Local;
use libos::supervisor::{self, Supervisor};
use libos::{domain, Cap, CapAddr, Place, Status};
use unixproto::home::from_elsewhere;
use unixproto::session::{Header, DATA_BYTES, DATA_OFFSET};
use unixproto::{op, Errno, Reply, Request, Words};

/// Is this a process, so that `unixd` knows it?
static IS_PROCESS: AtomicBool = AtomicBool::new(false);

/// Is its home another core than `unixd`'s?
static ELSEWHERE: AtomicBool = AtomicBool::new(false);

/// Remembers that this is a process, whose session frame is mapped at its address.
pub fn attach() {
    IS_PROCESS.store(true, Relaxed);
    ELSEWHERE.store(STANDIN.identify().is_ok(), Relaxed);
    supervisor::set(Supervisor { admit, end });
}

/// The part of the session frame that is not bytes.
fn header() -> &'static Header {
    // SAFETY: mapped, for good, in every process; all fields of the header are atomics.
    unsafe { &*(NATIVE_SESSION as usize as *const Header) }
}

/// Sends a request with capabilities, or that is answered with some. From another core than `unixd`'s its stand-in has it carried.
fn carry(words: Words, caps: Caps, recv: Place) -> Result<Message, Status> {
    if !ELSEWHERE.load(Relaxed) {
        return ipc::call(UNIXD, words, caps, recv);
    }
    from_elsewhere(
        words,
        (header().thread_key.load(Relaxed), caps.count > 0),
        |words| ipc::call(STANDIN, words, caps, recv),
        |words| ipc::call(UNIXD, words, Caps::NONE, Place::NULL),
        |answer| answer.words[0],
    )
}

/// Makes a dispatcher a thread of the process, for `unixd`.
fn admit(dispatcher: CapAddr) -> Result<u32, Status> {
    const ANSWER: u32 = 3;
    let first = domain::with(|domain| domain.slot_range(ANSWER))?;
    let (caps, words) = (Caps::moved(dispatcher, 1), op::Thread { traced: false }.encode(0, 0));
    let answer = carry(words, caps, first.into())?;
    let thread = unixproto::ops::Process::decode(&answer.words).map_err(|_| Status::NoMemory);
    if thread.is_ok() {
        // What else comes is for those that speak for themselves.
        first.plus(2).move_to(dispatcher)?;
    }
    for index in 0..ANSWER {
        let slot = first.plus(index);
        // Empty slots are as good as emptied ones.
        slot.discard();
        domain::free_slot(slot)?;
    }
    thread.map(|thread| thread.pid)
}

/// Ends a dispatcher that `admit` has made a thread.
fn end(tid: u32) -> Result<(), Status> {
    call(op::ThreadEnd { tid }, &[]).map_err(|_| Status::WrongState)
}

/// Is there a `unixd` that knows this domain?
pub fn is_process() -> bool {
    IS_PROCESS.load(Relaxed)
}

/// The data area, while somebody uses it.
pub struct Session(());

static SESSION: Local<Session> = Local::new(Session(()));

/// Calls `f` with the session. `EAGAIN`: this is no process, or inside of another such call.
pub fn with<R>(f: impl FnOnce(&mut Session) -> Result<R, Errno>) -> Result<R, Errno> {
    if !is_process() {
        return Err(Errno::ENOSYS);
    }
    SESSION.try_with(f).unwrap_or(Err(Errno::EAGAIN))
}

impl Session {
    fn area(&mut self) -> &mut [u8] {
        // SAFETY: mapped, for good, in every process. `unixd` touches it during requests only, and
        // whoever has the one `Session` makes none meanwhile.
        unsafe {
            let start = (NATIVE_SESSION as usize + DATA_OFFSET) as *mut u8;
            core::slice::from_raw_parts_mut(start, DATA_BYTES)
        }
    }

    /// Puts byte strings `a` and `b` in the data area. `EINVAL`: too long.
    fn put(&mut self, a: &[u8], b: &[u8]) -> Result<(), Errno> {
        if a.len() + b.len() > DATA_BYTES {
            return Err(Errno::EINVAL);
        }
        header().used.fetch_max((a.len() + b.len()) as u32, Relaxed);
        let (first, rest) = self.area().split_at_mut(a.len());
        first.copy_from_slice(a);
        rest[..b.len()].copy_from_slice(b);
        Ok(())
    }

    /// Sends a request with byte strings; again, when a signal has interrupted it that does nothing.
    pub fn call<R: Request + Copy>(
        &mut self,
        request: R,
        a: &[u8],
        b: &[u8],
    ) -> Result<R::Reply, Errno> {
        loop {
            self.put(a, b)?;
            match self.send(request, a.len(), b.len(), Place::NULL) {
                Err(Errno::EINTR) => {}
                answer => return answer.map(|(reply, _)| reply),
            }
        }
    }

    /// Sends a request whose answer comes with a capability, into `slot`: is there one?
    pub fn receive<R: Request + Copy>(
        &mut self,
        request: R,
        slot: impl Into<Place>,
    ) -> Result<(R::Reply, bool), Errno> {
        let (reply, caps) = self.send(request, 0, 0, slot.into())?;
        Ok((reply, caps > 0))
    }

    fn send<R: Request>(
        &mut self,
        request: R,
        a: usize,
        b: usize,
        recv: Place,
    ) -> Result<(R::Reply, u32), Errno> {
        let words = request.encode(a, b);
        let answer = match recv == Place::NULL {
            true => ipc::call(UNIXD, words, Caps::NONE, recv),
            false => carry(words, Caps::NONE, recv),
        };
        let answer = answer.map_err(|_| Errno::EIO)?;
        Ok((R::Reply::decode(&answer.words)?, answer.caps()))
    }

    /// The first bytes of the data area: what the last answer has left there.
    pub fn data(&mut self, bytes: usize) -> &[u8] {
        let area = self.area();
        let bytes = bytes.min(area.len());
        &area[..bytes]
    }
}

/// Sends a request with byte string `a`.
pub fn call<R: Request + Copy>(request: R, a: &[u8]) -> Result<R::Reply, Errno> {
    with(|session| session.call(request, a, &[]))
}

/// The same; also the bytes of the answer, of which the reply says how many.
pub fn call_data<R: Request + Copy>(
    request: R,
    a: &[u8],
    bytes: impl FnOnce(&R::Reply) -> usize,
) -> Result<(R::Reply, Vec<u8>), Errno> {
    with(|session| {
        let reply = session.call(request, a, &[])?;
        let bytes = bytes(&reply);
        Ok((reply, session.data(bytes).to_vec()))
    })
}
