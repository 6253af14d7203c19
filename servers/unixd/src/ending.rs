//! What somebody had that has ended, while it is taken back step by step.

use crate::caps::Slots;
use crate::domains::{Domain, Guest};
use crate::homes::Unit;
use crate::procs::Pid;
use crate::voices::{Speaker, Voice};
use crate::window::Session;
use authority::{Badges, Part, Parts, Step, Teardown};
use libos::{invoke, op, CapAddr, Status};

/// What somebody had that has ended, while it is taken back.
pub struct Ending {
    /// The process that ends with it.
    whose: Option<Pid>,
    teardown: Teardown,
    voice: Option<Voice>,
    domain: Option<Domain>,
    /// The dispatcher of a thread.
    thread: Option<Slots>,
    /// What a stand-in takes apart before.
    unit: Option<Unit>,
    /// Something went in an unexpected way: slots may not be empty.
    odd: bool,
}

impl Ending {
    /// Of a process: nobody speaks for it from here on.
    pub fn of_process(
        badges: &mut Badges<Speaker>,
        pid: Pid,
        parts: (Option<Voice>, Option<Domain>, Option<Guest>),
    ) -> Ending {
        let (voice, domain, guest) = parts;
        let parts = match (&domain, &guest) {
            (Some(_), _) => Parts::ALL,
            (None, Some(_)) => Parts::THREAD,
            (None, None) => Parts::VOICE,
        };
        let teardown = voice.as_ref().and_then(|voice| badges.end(voice.badge, parts));
        let teardown = teardown.unwrap_or_else(Teardown::of_domain);
        let (thread, unit) = match guest {
            Some(guest) => (Some(guest.dispatcher), guest.unit),
            None => (None, domain.as_ref().and_then(|domain| domain.unit)),
        };
        Ending { whose: Some(pid), teardown, voice, domain, thread, unit, odd: false }
    }

    /// Of what ran a process in the domain of another one, that goes on in its own.
    pub fn of_guest(guest: Guest) -> Ending {
        let teardown = Teardown::of_domain();
        let Guest { dispatcher, unit, .. } = guest;
        let thread = Some(dispatcher);
        Ending { whose: None, teardown, voice: None, domain: None, thread, unit, odd: false }
    }

    /// Of a thread other than the first.
    pub fn of_thread(
        badges: &mut Badges<Speaker>,
        voice: Voice,
        (dispatcher, unit): (Slots, Option<Unit>),
    ) -> Ending {
        let teardown = badges.end(voice.badge, Parts::THREAD).unwrap_or_else(Teardown::of_domain);
        Ending {
            whose: None,
            teardown,
            voice: Some(voice),
            domain: None,
            thread: Some(dispatcher),
            unit,
            odd: false,
        }
    }

    /// Of a domain that another one has replaced.
    pub fn of_domain(domain: Domain) -> Ending {
        let teardown = Teardown::of_domain();
        Ending {
            whose: None,
            teardown,
            voice: None,
            unit: domain.unit,
            domain: Some(domain),
            thread: None,
            odd: false,
        }
    }

    /// Of what spoke for a process, and maybe ran it, that goes on as something new.
    pub fn of_former(badges: &mut Badges<Speaker>, voice: Voice, domain: Option<Domain>) -> Ending {
        let parts = if domain.is_some() { Parts::ALL } else { Parts::VOICE };
        let teardown = badges.end(voice.badge, parts).unwrap_or_else(Teardown::of_domain);
        let (whose, thread, odd) = (None, None, false);
        let unit = domain.as_ref().and_then(|domain| domain.unit);
        Ending { whose, teardown, voice: Some(voice), domain, thread, unit, odd }
    }

    /// The slot with this server's capability to a part.
    fn slot(&self, part: Part) -> Option<CapAddr> {
        match part {
            Part::Dispatcher => match &self.thread {
                Some(dispatcher) => Some(dispatcher.first()),
                None => self.domain.as_ref().map(Domain::dispatcher),
            },
            Part::CSpace => self.domain.as_ref().map(Domain::cspace),
            Part::Session => self.voice.as_ref().map(|voice| voice.session.frame()),
            Part::Endpoint => self.voice.as_ref().map(Voice::endpoint),
        }
    }

    /// Does the next step. `true` if more of it is left.
    fn take_step(&mut self, step: Step) -> bool {
        let (Step::Revoke(part) | Step::Release(part)) = step;
        let Some(slot) = self.slot(part).filter(|slot| *slot != CapAddr::NULL) else {
            return false;
        };
        if self.unit.is_some()
            && step == Step::Revoke(part)
            && part != Part::Session
            && part != Part::Endpoint
        {
            // The stand-in has done so.
            return false;
        }
        let result = match step {
            Step::Revoke(_) => invoke(slot, op::Revoke {}),
            // What the process had is revoked now, and is kept for the next one.
            Step::Release(Part::Session) => Ok(()),
            Step::Release(_) => invoke(slot, op::Delete {}),
        };
        // It may be gone already, with the memory that it was made of.
        let expected = matches!(result, Ok(()) | Err(Status::Again | Status::Empty));
        self.odd |= !expected;
        result == Err(Status::Again)
    }

    /// Nothing is left: answers the session frame, for the next one.
    pub fn over(self) -> Option<Session> {
        if self.odd {
            return None;
        }
        if let Some(dispatcher) = self.thread {
            dispatcher.emptied();
        }
        if let Some(domain) = self.domain {
            domain.emptied();
        }
        self.voice.map(Voice::emptied)
    }

    /// One step. Returns `true` if the same one has to be done again, which may take long: others come
    /// first.
    pub fn go_on(&mut self) -> bool {
        let more = self.teardown.step().is_some_and(|step| self.take_step(step));
        self.teardown.done(more);
        more
    }

    /// Returns `true` if nothing is left to be done.
    pub fn is_done(&mut self, badges: &mut Badges<Speaker>) -> bool {
        self.teardown.finish(badges)
    }

    /// What a stand-in has to take apart before anything else goes on.
    pub fn unit(&self) -> Option<Unit> {
        self.unit
    }

    /// The copy of a dispatcher of another core goes: what is shared takes longer to be taken apart there.
    pub fn drop_copy(&self) {
        if let (Some(_), Some(slot)) = (self.unit, self.slot(Part::Dispatcher)) {
            let _ = invoke(slot, op::Delete {});
        }
    }

    /// The process that ends with it.
    pub fn whose(&self) -> Option<Pid> {
        self.whose
    }
}
