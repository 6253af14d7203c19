//! Requests of those who decide about calls of others, and of those whose calls these are ([`calls`](crate::calls)).

use super::Unixd;
use crate::calls::{Addition, Calls, Heard, DATA_BYTES};
use crate::counters::{self, Origin};
use crate::descs::{Heirs, Object};
use crate::procs::Pid;
use crate::threads::Tid;
use crate::trace::SERVES;
use crate::voices::Speaker;
use crate::wait::{count, done, Call, Outcome, Tried};
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::slice;
use files::Claim;
use unixproto::files::{Kind, ADDFD_CLOEXEC, ADDFD_SEND, ADDFD_SETFD, CALL_ADDS, O_RDWR};
use unixproto::ops::CallReply;
use unixproto::{op, Errno};

/// Bytes of `struct seccomp_notif`.
const NOTICE_BYTES: usize = 16 + DATA_BYTES;
/// So many listeners may hear a process: one of each filter that its threads have.
const HEARD_MAX: usize = 64;
/// `SECCOMP_USER_NOTIF_FLAG_CONTINUE`
const CONTINUE: u32 = 1;

impl Unixd {
    /// A listener for the caller. `patient`: whose call was told waits.
    pub(super) fn hear_calls(&mut self, patient: bool) -> Tried {
        self.opening().room(1)?;
        let listeners = &self.counters.listeners;
        let heard_by = &mut self.procs.get_mut(self.caller.pid)?.heard_by;
        if heard_by.len() >= HEARD_MAX {
            heard_by
                .retain(|one| listeners.values().any(|calls| calls.hears(slice::from_ref(one))));
        }
        if heard_by.len() >= HEARD_MAX {
            return Err(Errno::EMFILE);
        }
        let number = self.counters.make(Origin::Calls, 0)?;
        let heard = Rc::new(Heard);
        self.counters.listeners.insert(number, Calls::new(heard.clone(), patient));
        let object = Object::Counter(Kind::Listener, number);
        let opened = self.opening().opened(object, O_RDWR, None, Claim::None)?;
        self.procs.get_mut(self.caller.pid)?.heard_by.push(heard);
        Ok(opened)
    }

    /// The calls of a listener, by its description.
    fn calls_of(&mut self, desc: u32) -> Result<(u32, &mut Calls), Errno> {
        let number = counters::number(self.descs.of(self.caller.pid, desc)?)?;
        let calls = self.counters.listeners.get_mut(&number).ok_or(Errno::EINVAL)?;
        Ok((number, calls))
    }

    /// A call of the caller is to be decided about.
    pub(super) fn call_notice(&mut self, call: &mut Call, listener: u32) -> Tried {
        let Speaker { pid, tid } = self.caller;
        let heard_by = &self.procs.get(pid)?.heard_by;
        let listeners = &mut self.counters.listeners;
        let calls = listener.checked_sub(1).and_then(|number| listeners.get_mut(&number));
        let calls = calls.filter(|calls| calls.hears(heard_by)).ok_or(Errno::ENOSYS)?;
        let waits = calls.waits(tid);
        if let Some(reply) = calls.take(tid) {
            return done(reply);
        }
        if waits {
            if let Some(reply) = self.given(listener - 1) {
                return done(reply);
            }
            call.kept = self.keeps_waiting(listener - 1).into();
        } else {
            let data = self.procs.a(self.caller, call)?;
            calls.enter(tid, *data.first_chunk().ok_or(Errno::EINVAL)?);
            self.counters.changed(listener - 1, true, &mut self.fx);
        }
        // Somebody may have begun to look into its memory after it had served another look, and before it came back here.
        match self.procs.is_to_stop(tid) {
            true => done(SERVES),
            false => Ok(Outcome::Block(0)),
        }
    }

    /// Does the caller leave the call that a listener was told of only to end?
    fn keeps_waiting(&self, listener: u32) -> bool {
        let tid = self.caller.tid;
        self.counters.listeners.get(&listener).is_some_and(|calls| calls.keeps(tid))
    }

    /// A thread does not wait any more for what is decided about its call.
    pub(super) fn leave_calls(&mut self, tid: Tid, number: u32) {
        let Some(calls) = self.counters.listeners.get_mut(&number) else { return };
        calls.leave(tid).into_iter().for_each(|giver| self.fx.wake(giver));
        self.counters.changed(number, false, &mut self.fx);
    }

    /// The same for all listeners: a thread that was answered, but not for good, need not come again.
    pub(super) fn leave_all_calls(&mut self, tid: Tid) {
        let heard = |(number, calls): (&u32, &Calls)| calls.waits(tid).then_some(*number);
        let all: Vec<u32> = self.counters.listeners.iter().filter_map(heard).collect();
        all.into_iter().for_each(|number| self.leave_calls(tid, number));
    }

    /// Gives a file to a process whose call was told.
    pub(super) fn notice_add_fd(&mut self, call: &mut Call, op: op::NoticeAddFd) -> Tried {
        let Speaker { pid, tid } = self.caller;
        if call.kept == 0 {
            if op.flags & !(ADDFD_SETFD | ADDFD_SEND | ADDFD_CLOEXEC) != 0
                || op.fd != 0 && op.flags & ADDFD_SETFD == 0
            {
                return Err(Errno::EINVAL);
            }
            // Private memory stays that.
            if self.descs.of(pid, op.file)?.heirs != Heirs::Both {
                return Err(Errno::EBADF);
            }
            let (_, calls) = self.calls_of(op.desc)?;
            // Of a request before this one, whose listener it has closed.
            calls.withdraw(tid);
            let to = calls.add(op.id, (pid, tid), (op.file, op.fd, op.flags))?;
            call.kept = 1;
            self.fx.wake(to);
            return Ok(Outcome::Block(0));
        }
        // Whoever has closed it meanwhile hears nothing.
        let (number, calls) = self.calls_of(op.desc).map_err(|_| Errno::ENOENT)?;
        let Some(result) = calls.outcome(tid) else { return Ok(Outcome::Block(0)) };
        self.counters.changed(number, false, &mut self.fx);
        match usize::try_from(result) {
            Ok(fd) => count(fd),
            Err(_) => Err(Errno(result.unsigned_abs() as u16)),
        }
    }

    /// Who gives a file does not any more.
    pub(super) fn withdraw(&mut self, pid: Pid, tid: Tid, desc: u32) {
        let number = self.descs.of(pid, desc).and_then(counters::number);
        if let Some(calls) = number.ok().and_then(|it| self.counters.listeners.get_mut(&it)) {
            calls.withdraw(tid);
        }
    }

    /// The next file that the caller is to have while its call is decided about, which it holds from now on.
    fn given(&mut self, listener: u32) -> Option<CallReply> {
        let Speaker { pid, tid } = self.caller;
        let calls = self.counters.listeners.get_mut(&listener)?;
        let uid = self.procs.cred(pid).uid;
        loop {
            let &Addition { by: (by, _), file, fd, flags, .. } = calls.addition(tid)?;
            let may = match self.descs.holds(by, file) {
                true => self.descs.room(pid, uid, 1),
                false => Err(Errno::EBADF),
            };
            let Err(error) = may else {
                self.descs.pass(file);
                self.descs.receive(pid, file, false);
                let (value, error) = (file.into(), fd as i32);
                return Some(CallReply { value, error, flags: flags | CALL_ADDS });
            };
            let giver = calls.added(tid, -i32::from(error.0));
            giver.into_iter().for_each(|giver| self.fx.wake(giver));
        }
    }

    /// The caller has a file, or could not have it.
    pub(super) fn notice_added(&mut self, op: op::NoticeAdded) -> Tried {
        const LARGEST: i32 = 4095;
        if op.result < -LARGEST {
            return Err(Errno::EINVAL);
        }
        let number = op.listener.wrapping_sub(1);
        let calls = self.counters.listeners.get_mut(&number).ok_or(Errno::ENOSYS)?;
        let giver = calls.added(self.caller.tid, op.result);
        giver.into_iter().for_each(|giver| self.fx.wake(giver));
        self.counters.changed(number, false, &mut self.fx);
        done(())
    }

    /// The next call that nobody was told of.
    pub(super) fn notice_receive(&mut self, desc: u32) -> Tried {
        let Speaker { pid, tid } = self.caller;
        let (number, calls) = self.calls_of(desc)?;
        let Some((id, whose, data)) = calls.tell() else {
            if calls.is_over() {
                return Err(Errno::ENOENT);
            }
            self.counters.wait(number, tid);
            return Ok(Outcome::Block(0));
        };
        if calls.patient {
            self.procs.blocked_mut(whose).into_iter().flatten().for_each(|it| it.call.kept = 1);
        }
        let mut bytes = [0; NOTICE_BYTES];
        bytes[..8].copy_from_slice(&id.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.procs.number_for(pid, whose).to_le_bytes());
        bytes[16..].copy_from_slice(&data);
        self.procs.put(self.caller, &bytes)?;
        self.counters.changed(number, false, &mut self.fx);
        done(())
    }

    /// What becomes of a call.
    pub(super) fn notice_answer(&mut self, op: op::NoticeAnswer) -> Tried {
        let op::NoticeAnswer { desc, id, value, error, flags } = op;
        if flags & !CONTINUE != 0 || flags == CONTINUE && (value != 0 || error != 0) {
            return Err(Errno::EINVAL);
        }
        let (number, calls) = self.calls_of(desc)?;
        let tid = calls.decide(id, CallReply { value, error, flags })?;
        self.fx.wake(tid);
        self.counters.changed(number, false, &mut self.fx);
        done(())
    }

    /// Is a call that was told waited for?
    pub(super) fn notice_valid(&mut self, op: op::NoticeValid) -> Tried {
        let (_, calls) = self.calls_of(op.desc)?;
        calls.told(op.id).map_err(|_| Errno::ENOENT)?;
        done(())
    }
}
