//! Capabilities that go to `unixd` and come from there, by the monitors.

use crate::ask;
use captypes::invocations::NOTIFY_TIMER;
use libos::abi::layout::PAGE;
use libos::abi::slots::{DISPATCHER, MONITOR};
use libos::cores::monitor;
use libos::interface::{OwnedCap, Remote};
use libos::{domain, invoke, ipc, op, Cap, CapAddr, CapType, Place, Rights, Status};
use unixproto::home::{key, Item, Said, ERRANDS};

/// Notification bit: the monitor has something.
pub const MAIL: u64 = 2;
/// The core of `unixd`.
const SERVER_CORE: u32 = 0;
/// How long something may be under way that was sent, in ticks: some seconds. Monitors need microseconds.
const PATIENCE: u64 = 10_000_000_000;

/// How often something is tried that the monitors may keep from being done.
const MOST_TRIES: u32 = 100_000;

/// See the head of this file.
pub struct Post {
    monitor: monitor::Client,
    /// Where notifications are waited for while no request may be taken.
    bell: CapAddr,
    secret: u64,
    core: u32,
    /// `unixd` has said that there is something to do.
    errands: bool,
    /// Answers with capabilities that have come.
    answers: u32,
}

/// Puts something that has come in a slot. The monitors may still work on it, for some messages' time.
pub fn put(cap: &OwnedCap, to: CapAddr) -> Result<(), Status> {
    for _ in 0..MOST_TRIES {
        if cap.cap().move_to(to).is_ok() {
            return Ok(());
        }
        core::hint::spin_loop();
    }
    cap.cap().move_to(to)
}

impl Post {
    /// Makes this domain a client of its monitor.
    pub fn open(secret: u64, core: u32) -> Result<Post, Status> {
        let bell = domain::with(|domain| domain.make(CapType::Endpoint, PAGE))?;
        invoke(bell, op::Listen { bits: 0 })?;
        let slot = domain::with(|domain| domain.slot())?;
        bell.mint(slot, Rights::SEND)?;
        let own = monitor::Client(Remote(MONITOR)).open(OwnedCap::own(slot))?;
        let monitor = monitor::Client(Remote(own.into_cap()));
        Ok(Post { monitor, bell, secret, core, errands: false, answers: 0 })
    }

    /// Notification bits have come.
    pub fn noted(&mut self, bits: u64) {
        self.errands |= bits & ERRANDS != 0;
    }

    /// Has `unixd` something to be done since this was asked last?
    pub fn take_errands(&mut self) -> bool {
        core::mem::take(&mut self.errands)
    }

    /// Sends something to `unixd`. It is there when this returns. `PeerGone`: it does not come there.
    pub fn send(&mut self, item: Item, unit: u32, cap: OwnedCap) -> Result<(), Status> {
        let key = key(self.secret, self.core, item, unit, 0);
        let ticket = self.monitor.send(SERVER_CORE, key, cap)?;
        self.until(|monitor| monitor.result(ticket, MAIL))?;
        for _ in 0..MOST_TRIES {
            if ask(Said::Sent { item, unit })?[1] == 1 {
                return Ok(());
            }
        }
        Err(Status::PeerGone)
    }

    /// Waits for something that `unixd` has sent.
    pub fn receive(&mut self, item: Item, unit: u32, index: u32) -> Result<OwnedCap, Status> {
        let key = key(self.secret, self.core, item, unit, index);
        match self.monitor.take(key) {
            Err(Status::Again) => {}
            taken => return taken,
        }
        self.monitor.expect(key, MAIL)?;
        self.until(|monitor| monitor.take(key))
    }

    /// Puts what has come with an answer in slots from `first` on.
    pub fn receive_answer(&mut self, count: u32, first: CapAddr) -> Result<(), Status> {
        let answer = self.answers;
        self.answers = answer.wrapping_add(1);
        for index in 0..count {
            let cap = self.receive(Item::Answer, answer, index)?;
            put(&cap, first.plus(index))?;
        }
        Ok(())
    }

    /// Asks the monitor again whenever it has rung. `PeerGone`: for too long.
    fn until<T>(
        &mut self,
        ask: impl Fn(&monitor::Client) -> Result<T, Status>,
    ) -> Result<T, Status> {
        // SAFETY: reads a counter.
        let now = || unsafe { core::arch::x86_64::_rdtsc() };
        let deadline = now() + PATIENCE;
        loop {
            match ask(&self.monitor) {
                Err(Status::Again) if now() > deadline => return Err(Status::PeerGone),
                Err(Status::Again) => {}
                result => return result,
            }
            invoke(DISPATCHER, op::SetTimer { deadline: deadline + 1 })?;
            let message = ipc::recv(self.bell, Place::NULL)?;
            if message.is_notification() {
                self.noted(message.words[0] & !NOTIFY_TIMER);
            }
        }
    }
}
