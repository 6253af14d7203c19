//! What a thread speaks with: an endpoint whose badge is its own, and memory shared with this server.
//!
//! A badge is given once (crate `authority`); what came with it goes with its thread, see [`exits`](crate::exits).

use crate::caps::{errno, mint, Slots};
use crate::procs::Pid;
use crate::server::{Unixd, SCRATCH};
use crate::threads::Tid;
use crate::window::Session;
use abi::slots::SELF_EP;
use authority::{Badge, Badges, Parts};
use libos::{Cap, CapAddr, Rights};
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

impl Unixd {
    /// Makes a voice for a thread that is not there yet. `EAGAIN`: there is too little memory, or no
    /// badge any more.
    pub fn equip(&mut self, speaker: Speaker) -> Result<Voice, Errno> {
        if !self.stock.admits(self.procs.len())? {
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

    /// Puts copies of the endpoint and the session frame of a voice in the first two scratch slots, to
    /// be sent to who shall speak with it.
    pub fn show(&self, voice: &Voice) -> Result<(), Errno> {
        mint(voice.endpoint(), SCRATCH, Rights::SEND)?;
        mint(voice.session.frame(), SCRATCH.plus(1), Rights::READ.or(Rights::WRITE))
    }
}

/// A badge of which no capability was made is over at once.
fn never_used(badges: &mut Badges<Speaker>, badge: Badge) {
    let Some(mut teardown) = badges.end(badge, Parts::VOICE) else { return };
    while teardown.step().is_some() {
        teardown.done(false);
    }
    teardown.finish(badges);
}
