//! What stand-ins say.

use super::Unixd;
use crate::fork::may_use_cores;
use crate::homes::{self, Arrival, Unit};
use crate::procs::{Pid, Proc, Procs};
use crate::voices::Speaker;
use crate::wait::{Call, Outcome, Tried};
use libos::ipc::Message;
use unixproto::home::{Carried, Errand, Said};
use unixproto::ops::{error_words, lengths, op_number, Request};
use unixproto::signals::{killed, SIGKILL, SIGSEGV};
use unixproto::{op, Any, Errno, Words};

/// The word behind those of a request that sends a domain or a dispatcher: the number of the new unit.
const UNIT_WORD: usize = 4;

impl Unixd {
    /// The stand-in of a core says something. It is answered at once.
    #[cold]
    #[inline(never)]
    pub(super) fn home_says(&mut self, core: u32, message: &Message) -> Tried {
        let unit = |number| Unit { core, number };
        match Said::decode(&message.words) {
            Some(Said::Ready) => homes::ready(core),
            Some(Said::Sent { item, unit }) => {
                let has_come = homes::has_come(core, item, unit);
                return Ok(Outcome::Done([0, has_come.into(), 0, 0, 0, 0]));
            }
            Some(Said::Next) | None => {}
            Some(Said::Made { unit: number, is_there }) => self.made(unit(number), is_there),
            Some(Said::Ended { unit: number }) => {
                homes::forget(unit(number));
                self.voices.has_gone(unit(number));
            }
            Some(Said::Failed { unit: number, vector, error, address, rip }) => {
                if let Some(pid) = homes::owner(unit(number)) {
                    libos::log!(
                        "unixd: process {pid} ends: exception {vector} error {error:#x} at {rip:#x}, address {address:#x}"
                    );
                    let signal = if vector == 0 { SIGKILL } else { SIGSEGV };
                    // It may have in its hands what others in its memory need.
                    let pid = self.procs.host_of(pid);
                    self.life().terminate(pid, killed(signal));
                }
            }
            Some(Said::Carry { unit: number, thread, words }) => {
                let answer = self.carry(unit(number), thread, words);
                return Ok(Outcome::Done(answer));
            }
        }
        self.perform();
        Ok(Outcome::Done(homes::next(core).encode()))
    }

    /// A stand-in may have ended: so have the processes of its core.
    pub(super) fn homes_noted(&mut self) {
        for core in homes::noted() {
            libos::log!("unixd: the stand-in of core {core} has ended, and so do its processes");
            let is_there =
                |procs: &Procs, pid: Pid| procs.unit_of(pid).is_some_and(|unit| unit.core == core);
            for pid in self.procs.select(|proc| proc.is_live() && is_there(&self.procs, proc.pid)) {
                self.life().terminate(pid, killed(SIGKILL));
            }
            self.voices.core_gone(core);
        }
        self.perform();
    }

    /// A domain is there that was to be made, or there was an error.
    fn made(&mut self, unit: Unit, is_there: bool) {
        let Some(pid) = homes::owner(unit) else { return };
        if let Ok(Proc { coming: Some(coming), .. }) = self.procs.get_mut(pid) {
            if coming.domain.unit == Some(unit) {
                let copy = homes::take_dispatcher(unit).ok().filter(|_| is_there);
                coming.is_there = Some(copy.map(|copy| coming.domain.come(copy)).is_some());
                return self.fx.wake(coming.tid);
            }
        }
        let Ok(proc) = self.procs.get_mut(pid) else { return };
        let scheduling = proc.scheduling;
        let domain = proc.domain.as_mut().filter(|domain| domain.unit == Some(unit));
        let Some(domain) = domain else { return };
        let taken = match is_there {
            true => homes::take_dispatcher(unit),
            false => Err(Errno::ENOMEM),
        };
        match taken {
            Ok(copy) => {
                domain.come(copy);
                scheduling.begin(domain.dispatcher());
                homes::errand(unit.core, Errand::Start(unit.number));
            }
            Err(error) => {
                libos::log!(
                    "unixd: no domain for process {pid} on core {}: {}",
                    unit.core,
                    error.name()
                );
                self.life().terminate(pid, killed(SIGKILL));
            }
        }
    }

    /// A request that came to the stand-in of a core, from a domain there.
    fn carry(&mut self, unit: Unit, thread: u32, words: [u64; 5]) -> Words {
        let (mut answer, carried) = match self.carried(unit, thread, words) {
            Ok(answer) => answer,
            Err(error) => (error_words(error), Carried::Nothing),
        };
        carried.put(&mut answer);
        answer
    }

    fn carried(
        &mut self,
        unit: Unit,
        tid: u32,
        [a, b, c, d, e]: [u64; 5],
    ) -> Result<(Words, Carried), Errno> {
        let mut words = [a, b, c, d, e, 0];
        let number = op_number(&words);
        let brings = [
            op::ForkCommit::OP,
            op::Become::OP,
            op::Replace::OP,
            op::Thread::OP,
            op::ForkBeside::OP,
        ]
        .contains(&number);
        // What has come is taken from where it lies, whatever becomes of it.
        let mut arrival = match brings {
            false => Arrival::Here(0),
            true => {
                let new = Unit { core: unit.core, number: words[UNIT_WORD] as u32 };
                words[UNIT_WORD] = 0;
                Arrival::Elsewhere(new, Some(homes::take_dispatcher(new)?))
            }
        };
        let pid = self.procs.leader(tid);
        if self.procs.unit_of(tid) != Some(unit) {
            return Err(Errno::ESRCH);
        }
        let monitor = number == op::Replace::OP
            && op::Replace::decode(&words).is_ok_and(|replace| {
                self.procs.get(pid).is_ok_and(|proc| may_use_cores(proc, replace.linux))
            });
        self.caller = Speaker { pid, tid };
        let outcome = match number {
            op::FileExtent::OP => match self.try_once(pid, &words)? {
                Outcome::Block(_) => return Ok(([0; 6], Carried::Later)),
                outcome => outcome,
            },
            op if op == op::Fork::OP || brings => self.request(pid, &words, &mut arrival)?,
            _ => return Err(Errno::EINVAL),
        };
        let taken = match arrival.is_taken() {
            true => Carried::Taken { monitor },
            false => Carried::Nothing,
        };
        match outcome {
            Outcome::WithCaps(words, caps) => {
                homes::send_answer(unit.core, caps.first, caps.count)?;
                match arrival.is_taken() {
                    true => Ok((words, Carried::Thread)),
                    false => Ok((words, Carried::Caps(caps.count))),
                }
            }
            Outcome::Done(words) => Ok((words, taken)),
            Outcome::Block(_) | Outcome::Never => Ok(([0; 6], taken)),
        }
    }

    /// Tries a request, which does not wait here.
    fn try_once(&mut self, pid: Pid, words: &Words) -> Tried {
        let tid = self.caller.tid;
        let Some(waits) = self.procs.admit(tid, pid) else { return Ok(Outcome::Never) };
        if waits {
            self.life().give_up(tid);
        }
        // No request of those names a process.
        let mut call = Call::new(Any::decode(words)?, lengths(words)?);
        let outcome = self.first_attempt(pid, &mut call);
        self.hide_changed();
        self.keep_attributes();
        self.fx.drop_kept((pid, tid), &call);
        match self.settle() {
            true => Ok(Outcome::Never),
            false => outcome,
        }
    }
}
