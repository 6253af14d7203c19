//! Calls about which others decide (`SECCOMP_RET_USER_NOTIF`).
//!
//! Whoever has a listener is told of a call that a filter leaves to it, and decides: what it answers, or that it is made. The thread
//! that makes the call waits in [`CallNotice`](unixproto::op::CallNotice) meanwhile. A listener hears those processes only that were under it when
//! they were made, or have made it: a process has what says so as long as it lives.

use crate::threads::Tid;
use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use alloc::vec::Vec;
use unixproto::files::*;
use unixproto::ops::CallReply;
use unixproto::Errno;

const READABLE: u16 = POLLIN | POLLRDNORM;
const WRITABLE: u16 = POLLOUT | POLLWRNORM;
/// Bytes of `struct seccomp_data`.
pub const DATA_BYTES: usize = 64;
/// What a process has of a listener that hears it: the same that the listener has.
#[derive(Debug)]
pub struct Heard;

/// How far it has come with a call.
enum State {
    /// Nobody was told.
    New,
    /// It was told.
    Told,
    /// It is decided.
    Decided(CallReply),
}

/// A call.
pub struct Notice {
    id: u64,
    tid: Tid,
    data: [u8; DATA_BYTES],
    state: State,
}

/// The calls of a listener: at most one of each thread, as that waits.
pub struct Calls {
    heard: Rc<Heard>,
    notices: Vec<Notice>,
    /// The id that was given last.
    last: u64,
    /// Nobody is heard any more.
    is_over: bool,
}

impl Calls {
    /// Of a listener that hears who has this.
    pub fn new(heard: Rc<Heard>) -> Calls {
        Calls { heard, notices: Vec::new(), last: 0, is_over: false }
    }
    /// Does it hear somebody who has these?
    pub fn hears(&self, heard_by: &[Rc<Heard>]) -> bool {
        heard_by.iter().any(|one| Rc::ptr_eq(one, &self.heard))
    }
    /// Does nobody live any more whom it hears?
    pub fn is_over(&self) -> bool {
        self.is_over
    }
    /// A thread makes a call, and waits.
    pub fn enter(&mut self, tid: Tid, data: [u8; DATA_BYTES]) {
        self.last += 1;
        self.notices.push(Notice { id: self.last, tid, data, state: State::New });
    }
    /// Does a thread wait?
    pub fn waits(&self, tid: Tid) -> bool {
        self.waiting().any(|other| other == tid)
    }
    /// What was decided about the call of a thread, which does not wait any more then.
    pub fn take(&mut self, tid: Tid) -> Option<CallReply> {
        let at = self.notices.iter().position(|notice| notice.tid == tid)?;
        let State::Decided(reply) = self.notices[at].state else { return None };
        self.notices.remove(at);
        Some(reply)
    }
    /// The next call that nobody was told of: it is now.
    pub fn tell(&mut self) -> Option<(u64, Tid, [u8; DATA_BYTES])> {
        let is_new = |notice: &&mut Notice| matches!(notice.state, State::New);
        let notice = self.notices.iter_mut().find(is_new)?;
        notice.state = State::Told;
        Some((notice.id, notice.tid, notice.data))
    }
    /// Decides about a call. Answers whose it is.
    pub fn decide(&mut self, id: u64, reply: CallReply) -> Result<Tid, Errno> {
        let notice = self.told(id)?;
        notice.state = State::Decided(reply);
        Ok(notice.tid)
    }
    /// The threads that wait.
    pub fn waiting(&self) -> impl Iterator<Item = Tid> + '_ {
        self.notices.iter().map(|notice| notice.tid)
    }
    /// `POLL*` bits.
    pub fn ready(&self) -> u16 {
        let any = |is_it: fn(&State) -> bool, bits: u16| {
            if self.notices.iter().any(|notice| is_it(&notice.state)) {
                bits
            } else {
                0
            }
        };
        let over = if self.is_over { POLLHUP } else { 0 };
        any(|state| matches!(state, State::New), READABLE)
            | any(|state| matches!(state, State::Told), WRITABLE)
            | over
    }
    /// A call that was told. `ENOENT`: there is none; `EINPROGRESS`: it is another time for it.
    pub fn told(&mut self, id: u64) -> Result<&mut Notice, Errno> {
        let notice = self.notices.iter_mut().find(|notice| notice.id == id).ok_or(Errno::ENOENT)?;
        match notice.state {
            State::Told => Ok(notice),
            _ => Err(Errno::EINPROGRESS),
        }
    }
    /// A thread does not wait any more.
    pub fn leave(&mut self, tid: Tid) {
        self.notices.retain(|notice| notice.tid != tid);
    }
}

/// Those that hear nobody any more, and did before.
pub fn left(all: &mut BTreeMap<u32, Calls>) -> Vec<u32> {
    let is_left = |calls: &mut Calls| {
        let is_new = !calls.is_over && Rc::strong_count(&calls.heard) == 1;
        calls.is_over |= is_new;
        is_new
    };
    all.iter_mut().filter_map(|(number, calls)| is_left(calls).then_some(*number)).collect()
}
