//! Memory is short: who makes room, and who ends if nobody can.
//!
//! Small private memory of processes consists of Frames, which nobody but their own library can move to where they can leave
//! memory. So whoever finds little or none says so, and is told to do it itself, if it has about as much as any other; else the one that has
//! most is asked, as for a look into its memory, with a deadline. Whoever does not answer, or has nothing to give, is left out for
//! a while. If all are, and no page of an object can leave either, a process is ended: the one with most memory, as its `oom_score_adj` says.
//!
//! How much small memory a process has is what it says itself.

use crate::homes;
use crate::oom;
use crate::procs::{Pid, State, INIT};
use crate::procsystem::{usage, PAGE_KIB};
use crate::server::Unixd;
use crate::signals::from_kernel;
use crate::swap;
use crate::wait::{count, Call, Outcome, Tried};
use alloc::string::String;
use unixproto::ops::Count;
use unixproto::signals::SIGKILL;
use unixproto::trace::command;
use unixproto::{op, Any, Errno, Reply};

/// Memory that there is to be for what cannot leave it, in bytes: as much as two processes get at a time.
const LITTLE: u64 = 4 << 20;
/// So much there must be for who has found none.
const LEAST: u64 = 512 << 10;
/// After so many tries it is no matter of how much there is in all, says who needs it; or others are faster to take what there is.
const PATIENT: u32 = 4;
/// After so many it is not the others.
const UNLUCKY: u32 = 40;
/// Pages below which nobody is asked for any.
const SMALL: u64 = 128;
/// Pages that one is asked for at a time.
const ASKED: u64 = 1024;
/// How long somebody who is asked has time.
const PATIENCE_NS: u64 = 500_000_000;
/// For how long who has not answered, or given nothing, is left out.
const LEFT_OUT_NS: u64 = 3_000_000_000;
/// How long one who waits for the memory of another that ends waits before it looks again.
const ENDING_NS: u64 = 20_000_000;
/// What `kept` of a request says once somebody has been ended for it.
const ENDED: u32 = 1;

impl Unixd {
    /// See the head of this file.
    pub(super) fn relieve(&mut self, pid: Pid, call: &mut Call, op: op::Relieve) -> Tried {
        if !swap::is_on() {
            return Err(Errno::ENOSYS);
        }
        if call.kept == ENDED {
            return match call.late {
                true => count(0),
                false => Ok(Outcome::Block(self.clock.now() + ENDING_NS)),
            };
        }
        let needed = op.tries > 0;
        let core = self.procs.core_of(self.caller.tid);
        loop {
            let asked = self.procs.tracees.asked_by(self.caller.tid).next();
            let other = match asked.map(|tid| self.procs.leader(tid)) {
                Some(other) => other,
                None => {
                    let wanted = if needed { LEAST } else { LITTLE };
                    if homes::has_memory(core, wanted) {
                        return match op.tries {
                            ..=PATIENT => count(0),
                            // There is memory, but not as it is needed; or it is not so. Only its own is its to give.
                            _ if op.pages > 0 => count(op.pages as usize),
                            tries if tries > UNLUCKY => Err(Errno::ENOMEM),
                            _ if call.late => count(0),
                            // Whoever is faster comes first.
                            _ => Ok(Outcome::Block(self.clock.now() + ENDING_NS)),
                        };
                    }
                    if op.pages > 0 && self.is_asked(pid) {
                        return count(op.pages as usize);
                    }
                    match self.who_gives(pid, op.pages > 0) {
                        Some(own) if own == pid => return count(op.pages as usize),
                        Some(other) => other,
                        None if !needed => return count(0),
                        None => return self.last_resort(pid, call, wanted),
                    }
                }
            };
            let data = &[];
            let asked = self.life().ask_process(call, other, (command::RELIEVE, ASKED, 0), data);
            match asked {
                Ok(Outcome::Block(_)) => {
                    return Ok(Outcome::Block(self.clock.now() + PATIENCE_NS));
                }
                Ok(Outcome::Done(words)) if Count::decode(&words).is_ok_and(|it| it.count > 0) => {
                    return count(0);
                }
                _ => {
                    // Others have time of their own.
                    call.late = false;
                    let until = self.clock.now() + LEFT_OUT_NS;
                    if let Ok(proc) = self.procs.get_mut(other) {
                        proc.gives_from = until;
                    }
                    if !needed {
                        return count(0);
                    }
                }
            }
        }
    }

    /// Does another wait for memory of this process? Then its own comes first: it answers only once it goes on, and whoever
    /// asks would wait for all whom it asks.
    fn is_asked(&self, pid: Pid) -> bool {
        let asked = &self.procs.tracees.asked;
        self.procs.threads_of(pid).iter().any(|tid| asked.contains_key(tid))
    }

    /// Who is to move small memory: the caller, if it has some and is not much smaller than the others.
    fn who_gives(&self, pid: Pid, has_some: bool) -> Option<Pid> {
        let now = self.clock.now();
        let waits = |of: Pid| {
            let threads = self.procs.threads_of(of);
            threads.into_iter().any(|tid| {
                let blocked = self.procs.blocked(tid);
                blocked.is_some_and(|blocked| matches!(blocked.call.any, Any::Relieve(_)))
            })
        };
        let others = self.procs.iter().filter(|proc| {
            proc.pid != pid
                && self.procs.live(proc.pid).is_ok()
                && !proc.native
                && !proc.stopped
                && proc.domain.is_some()
                && proc.gives_from <= now
                && usage(proc).resident >= SMALL
                && !waits(proc.pid)
        });
        let most = others.max_by_key(|proc| usage(proc).resident);
        let own = self.procs.get(pid).map_or(0, |proc| usage(proc).resident);
        match most {
            Some(most) if !has_some || own < usage(most).resident / 4 * 3 => Some(most.pid),
            _ => has_some.then_some(pid),
        }
    }

    /// Nobody has small memory to give. Pages of objects leave, or somebody ends.
    fn last_resort(&mut self, pid: Pid, call: &mut Call, wanted: u64) -> Tried {
        let volatile = &mut self.tree.files_mut().memory().volatile;
        let Any::Relieve(op) = call.any else { return Err(Errno::EINVAL) };
        let core = self.procs.core_of(self.caller.tid);
        if op.tries <= UNLUCKY && volatile.make_memory(wanted, core) {
            return count(0);
        }
        let others_end = self.procs.iter().any(|proc| matches!(proc.state, State::Ending));
        if !others_end {
            let Some((victim, pages)) = self.victim() else { return Err(Errno::ENOMEM) };
            self.end_for_memory(victim, pages);
            if self.procs.live(pid).is_err() {
                return Ok(Outcome::Never);
            }
        }
        call.kept = ENDED;
        Ok(Outcome::Block(self.clock.now() + ENDING_NS))
    }

    fn end_for_memory(&mut self, victim: Pid, pages: u64) {
        if let Ok(proc) = self.procs.get(victim) {
            let name = String::from_utf8_lossy(&proc.name);
            libos::log!(
                "unixd: out of memory: killed process {victim} ({name}), {} KiB, oom_score_adj {}",
                pages * PAGE_KIB,
                proc.oom_adjust
            );
        }
        self.life().post(victim, SIGKILL, from_kernel());
    }

    /// The process that weighs most, and its pages. Not the first one, and none that must not.
    fn victim(&self) -> Option<(Pid, u64)> {
        let total = oom::total(&self.system);
        // With one that runs in another's memory no memory goes.
        let all = self.procs.iter().filter(|proc| {
            let has_own = proc.pid != INIT && proc.guest.is_none();
            has_own && self.procs.live(proc.pid).is_ok() && proc.session().is_ok()
        });
        let weighed = all.filter_map(|proc| {
            let private = self.descs.private_pages(&self.tree, proc.pid);
            let weight = oom::weight(proc, private, total)?;
            Some((weight, proc.pid, usage(proc).resident + private))
        });
        weighed.max().map(|(_, pid, pages)| (pid, pages))
    }
}
