//! Calls about which others decide (`SECCOMP_RET_USER_NOTIF`).
//!
//! Whoever has a listener is told of a call that a filter leaves to it, and decides: what it answers, or that it is made. The thread
//! that makes the call waits in [`CallNotice`](unixproto::op::CallNotice) meanwhile. A listener hears those processes only that were under it when
//! they were made, or have made it: a process has what says so as long as it lives.

use crate::procs::Pid;
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
    /// It answers the descriptor that it is about to get.
    Sending,
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

/// A file that a process is to have whose call was told.
pub struct Addition {
    /// Who gives it, and waits meanwhile.
    pub by: (Pid, Tid),
    /// The description.
    pub file: u32,
    /// The descriptor that it is to be.
    pub fd: u32,
    /// `ADDFD_*`
    pub flags: u32,
    /// Who gets it.
    to: Tid,
    progress: Progress,
}

/// How far a file has come.
enum Progress {
    Wanted,
    Given,
    Done(i32),
}

/// The calls of a listener: at most one of each thread, as that waits.
pub struct Calls {
    heard: Rc<Heard>,
    /// Threads whose calls were told leave them only to end (`SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV`).
    pub patient: bool,
    notices: Vec<Notice>,
    /// At most one of each thread that gives, as that waits.
    additions: Vec<Addition>,
    /// The id that was given last.
    last: u64,
    /// Nobody is heard any more.
    is_over: bool,
}

impl Calls {
    /// Of a listener that hears who has this.
    pub fn new(heard: Rc<Heard>, patient: bool) -> Calls {
        let (notices, additions) = Default::default();
        Calls { heard, patient, notices, additions, last: 0, is_over: false }
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
    /// Does a thread wait, and leave its call only to end?
    pub fn keeps(&self, tid: Tid) -> bool {
        let is_told = |one: &Notice| one.tid == tid && !matches!(one.state, State::New);
        self.patient && self.notices.iter().any(is_told)
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
    /// The threads that wait: for what is decided, or until a file is taken that they give.
    pub fn waiting(&self) -> impl Iterator<Item = Tid> + '_ {
        let give = self.additions.iter().map(|addition| addition.by.1);
        self.notices.iter().map(|notice| notice.tid).chain(give)
    }

    /// A thread gives a file to one whose call was told. Answers that one.
    pub fn add(
        &mut self,
        id: u64,
        by: (Pid, Tid),
        (file, fd, flags): (u32, u32, u32),
    ) -> Result<Tid, Errno> {
        let to = self.told(id)?.tid;
        if flags & ADDFD_SEND != 0 {
            if self.additions.iter().any(|addition| addition.to == to) {
                return Err(Errno::EBUSY);
            }
            self.told(id)?.state = State::Sending;
        }
        self.additions.push(Addition { by, file, fd, flags, to, progress: Progress::Wanted });
        Ok(to)
    }

    /// The next file that a thread is to take; it is on its way from now on.
    pub fn addition(&mut self, to: Tid) -> Option<&Addition> {
        let is_next =
            |one: &&mut Addition| one.to == to && matches!(one.progress, Progress::Wanted);
        let one = self.additions.iter_mut().find(is_next)?;
        one.progress = Progress::Given;
        Some(one)
    }

    /// A thread has taken a file, or could not. Answers who has given it.
    pub fn added(&mut self, to: Tid, result: i32) -> Option<Tid> {
        for notice in self.notices.iter_mut().filter(|notice| notice.tid == to) {
            if let State::Sending = notice.state {
                notice.state = match u64::try_from(result) {
                    Ok(value) => State::Decided(CallReply { value, error: 0, flags: 0 }),
                    Err(_) => State::Told,
                };
            }
        }
        let is_it = |one: &&mut Addition| one.to == to && matches!(one.progress, Progress::Given);
        let one = self.additions.iter_mut().find(is_it)?;
        one.progress = Progress::Done(result);
        Some(one.by.1)
    }

    /// What has become of the file that a thread gives.
    pub fn outcome(&mut self, by: Tid) -> Option<i32> {
        let at = self.additions.iter().position(|one| one.by.1 == by)?;
        let Progress::Done(result) = self.additions[at].progress else { return None };
        self.additions.remove(at);
        Some(result)
    }

    /// A thread does not give its file any more.
    pub fn withdraw(&mut self, by: Tid) {
        for one in self.additions.iter().filter(|one| one.by.1 == by) {
            let is_sent = |notice: &&mut Notice| notice.tid == one.to;
            // Who has it already says what has become of it.
            if let (Progress::Wanted, Some(Notice { state: state @ State::Sending, .. })) =
                (&one.progress, self.notices.iter_mut().find(is_sent))
            {
                *state = State::Told;
            }
        }
        self.additions.retain(|one| one.by.1 != by);
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
    /// A thread does not wait any more. Answers who would have given it files.
    pub fn leave(&mut self, tid: Tid) -> Vec<Tid> {
        self.notices.retain(|notice| notice.tid != tid);
        let gone = self.additions.iter_mut().filter(|one| one.to == tid);
        let tell = |one: &mut Addition| {
            if !matches!(one.progress, Progress::Done(_)) {
                one.progress = Progress::Done(-i32::from(Errno::ESRCH.0));
            }
            one.by.1
        };
        gone.map(tell).collect()
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
