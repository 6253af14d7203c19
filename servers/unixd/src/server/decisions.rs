//! Requests of those who decide about calls of others, and of those whose calls these are ([`calls`](crate::calls)).

use super::Unixd;
use crate::calls::{Calls, Heard, DATA_BYTES};
use crate::counters::{self, Origin};
use crate::descs::Object;
use crate::voices::Speaker;
use crate::wait::{done, Call, Outcome, Tried};
use alloc::rc::Rc;
use core::slice;
use files::Claim;
use unixproto::files::{Kind, O_RDWR};
use unixproto::ops::CallReply;
use unixproto::{op, Errno};

/// Bytes of `struct seccomp_notif`.
const NOTICE_BYTES: usize = 16 + DATA_BYTES;
/// So many listeners may hear a process: one of each filter that its threads have.
const HEARD_MAX: usize = 64;
/// `SECCOMP_USER_NOTIF_FLAG_CONTINUE`
const CONTINUE: u32 = 1;

impl Unixd {
    /// A listener for the caller.
    pub(super) fn hear_calls(&mut self) -> Tried {
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
        self.counters.listeners.insert(number, Calls::new(heard.clone()));
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
    pub(super) fn call_notice(&mut self, call: &Call, listener: u32) -> Tried {
        let Speaker { pid, tid } = self.caller;
        let heard_by = &self.procs.get(pid)?.heard_by;
        let listeners = &mut self.counters.listeners;
        let calls = listener.checked_sub(1).and_then(|number| listeners.get_mut(&number));
        let calls = calls.filter(|calls| calls.hears(heard_by)).ok_or(Errno::ENOSYS)?;
        if let Some(reply) = calls.take(tid) {
            return done(reply);
        }
        if !calls.waits(tid) {
            let data = self.procs.a(self.caller, call)?;
            calls.enter(tid, *data.first_chunk().ok_or(Errno::EINVAL)?);
            self.counters.changed(listener - 1, true, &mut self.fx);
        }
        Ok(Outcome::Block(0))
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
