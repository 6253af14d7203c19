//! What a thread speaks with: an endpoint whose badge is its own, and memory shared with this server.
//!
//! A badge is given once (crate `authority`); what came with it goes with its thread, see [`exits`](crate::exits).

use crate::caps::{errno, mint, Slots};
use crate::domains::{Domain, Guest};
use crate::ending::Ending;
use crate::homes::{self, Unit};
use crate::procs::Pid;
use crate::server::SCRATCH;
use crate::stock::Stock;
use crate::threads::Tid;
use crate::unclaimed::{Answer, Unclaimed};
use crate::window::{Session, Sessions};
use abi::slots::SELF_EP;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use authority::{Badge, Badges, Parts};
use libos::{Cap, CapAddr, Rights};
use unixproto::home::Errand;
use unixproto::Errno;

/// Rights of this server to an endpoint with a badge: it revokes it.
const SERVER: Rights = Rights::SEND.or(Rights::REVOKE);

/// A thread, and its process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Speaker {
    /// The process.
    pub pid: Pid,
    /// The thread.
    pub tid: Tid,
}

/// See the head of this file.
pub struct Voice {
    /// Under which its messages come.
    pub badge: Badge,
    /// What it shares with its library.
    pub session: Session,
    endpoint: Slots,
}

impl Voice {
    /// The endpoint is gone, and nobody has the session frame: that is what is left.
    pub fn emptied(self) -> Session {
        self.endpoint.emptied();
        self.session
    }
    /// The endpoint capability with the badge.
    pub fn endpoint(&self) -> CapAddr {
        self.endpoint.first()
    }
}

/// The voices of all threads: who has which, and what is being taken back.
#[derive(Default)]
pub struct Voices {
    /// Under which badges threads speak.
    badges: Badges<Speaker>,
    /// Session frames for new ones.
    sessions: Sessions,
    /// What is being taken apart, boxed so that much of it takes little room in one piece.
    ending: VecDeque<Going>,
    /// What stand-ins are taking apart.
    elsewhere: BTreeMap<Unit, Box<Ending>>,
}

/// What goes bit by bit.
enum Going {
    Ending(Box<Ending>),
    Unclaimed(Box<Unclaimed>),
}

/// What has come of one bit of it.
pub enum Gone {
    /// Nothing that anybody waits for.
    Part,
    /// Nothing is left of a process.
    Process(Pid),
    /// Nothing is left of what somebody sent, who is answered now.
    Sent(Answer),
}

impl Voices {
    /// Who speaks under a badge.
    #[inline]
    pub fn who(&self, badge: u64) -> Option<Speaker> {
        self.badges.who(badge)
    }

    /// Makes a voice for a thread that is not there yet, beside `others` processes. `EAGAIN`: there is
    /// too little memory, or no badge any more.
    pub fn equip(
        &mut self,
        stock: &mut Stock,
        others: usize,
        speaker: Speaker,
    ) -> Result<Voice, Errno> {
        if !stock.admits(others)? {
            return Err(Errno::EAGAIN);
        }
        let session = self.sessions.take()?;
        let endpoint = Slots::new(1)?;
        let badge = self.badges.give(speaker).ok_or(Errno::EAGAIN)?;
        if let Err(error) = SELF_EP.mint_badged(endpoint.first(), SERVER, badge.number()) {
            never_used(&mut self.badges, badge);
            return Err(errno(error));
        }
        Ok(Voice { badge, session, endpoint })
    }

    /// Nobody speaks for a process from here on. Returns what is to be taken back of it.
    pub fn end_process(
        &mut self,
        pid: Pid,
        parts: (Option<Voice>, Option<Domain>, Option<Guest>),
    ) -> Ending {
        Ending::of_process(&mut self.badges, pid, parts)
    }
    /// Takes back what a process had that goes on with something new. Nobody speaks under the old badge from here on.
    pub fn end_former(&mut self, voice: Voice, domain: Option<Domain>) {
        let ending = Ending::of_former(&mut self.badges, voice, domain);
        self.take_back(ending);
    }
    /// Takes something back, bit by bit. What is on another core goes there first.
    pub fn take_back(&mut self, ending: Ending) {
        let ending = Box::new(ending);
        match ending.unit().filter(|unit| homes::has(unit.core)) {
            Some(unit) => {
                ending.drop_copy();
                homes::errand(unit.core, Errand::End(unit.number));
                self.elsewhere.insert(unit, ending);
            }
            None => self.ending.push_back(Going::Ending(ending)),
        }
    }
    /// Nothing of a unit is left on its core.
    pub fn has_gone(&mut self, unit: Unit) {
        if let Some(ending) = self.elsewhere.remove(&unit) {
            self.ending.push_back(Going::Ending(ending));
        }
    }
    /// There is no stand-in on a core any more, and with it all its dispatchers have gone.
    pub fn core_gone(&mut self, core: u32) {
        let units = self.elsewhere.keys().filter(|unit| unit.core == core);
        for unit in units.copied().collect::<Vec<_>>() {
            self.has_gone(unit);
        }
    }
    /// Takes back what a thread had.
    pub fn end_thread(&mut self, voice: Voice, dispatcher: Slots, unit: Option<Unit>) {
        let ending = Ending::of_thread(&mut self.badges, voice, (dispatcher, unit));
        self.take_back(ending);
    }
    /// Returns `true` if there is nothing to be taken back at the moment.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.ending.is_empty()
    }
    /// Returns `true` if nothing is to be taken back, wherever it is.
    pub fn is_over(&self) -> bool {
        self.ending.is_empty() && self.elsewhere.is_empty()
    }
    /// The endpoint of the stand-in of a core.
    pub fn of_standin(&mut self, core: u32) -> Result<Slots, Errno> {
        let endpoint = Slots::new(1)?;
        let speaker = Speaker { pid: homes::STANDIN, tid: core };
        let badge = self.badges.give(speaker).ok_or(Errno::EAGAIN)?;
        SELF_EP.mint_badged(endpoint.first(), SERVER, badge.number()).map_err(errno)?;
        Ok(endpoint)
    }
    /// Deletes what nobody took, bit by bit.
    #[cold]
    pub fn delete_later(&mut self, unclaimed: Unclaimed) {
        self.ending.push_back(Going::Unclaimed(Box::new(unclaimed)));
    }

    /// One step of what is to be taken back or deleted; nothing if there is none. What takes long gives way to
    /// the others.
    pub fn go_on(&mut self) -> Option<Gone> {
        let mut going = self.ending.pop_front()?;
        let (more, done) = match &mut going {
            Going::Ending(ending) => (ending.go_on(), ending.is_done(&mut self.badges)),
            Going::Unclaimed(unclaimed) => (unclaimed.go_on(), unclaimed.is_done()),
        };
        if !done {
            match more {
                true => self.ending.push_back(going),
                false => self.ending.push_front(going),
            }
            return Some(Gone::Part);
        }
        Some(match going {
            Going::Ending(ending) => self.has_ended(*ending),
            Going::Unclaimed(unclaimed) => unclaimed.answer.map_or(Gone::Part, Gone::Sent),
        })
    }

    fn has_ended(&mut self, ending: Ending) -> Gone {
        let whose = ending.whose();
        if let Some(session) = ending.over() {
            self.sessions.put_back(session);
        }
        whose.map_or(Gone::Part, Gone::Process)
    }
}

/// Puts copies of the endpoint and the session frame of a voice in the first two scratch slots, to
/// be sent to who shall speak with it.
pub fn show(voice: &Voice) -> Result<(), Errno> {
    mint(voice.endpoint(), SCRATCH, Rights::SEND)?;
    mint(voice.session.frame(), SCRATCH.plus(1), Rights::READ.or(Rights::WRITE))
}

/// A badge of which no capability was made is over at once.
fn never_used(badges: &mut Badges<Speaker>, badge: Badge) {
    let Some(mut teardown) = badges.end(badge, Parts::VOICE) else { return };
    while teardown.step().is_some() {
        teardown.done(false);
    }
    teardown.finish(badges);
}
