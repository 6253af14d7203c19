//! Requests of processes that come with capabilities, or are answered with some.

use crate::units::{self, Unit};
use crate::{ask, Homed, MOST_CAPS};
use captypes::invocations::options;
use libos::ipc::Caps;
use libos::{domain, Cap, CapAddr, CapType, Status};
use linuxdomain::owner;
use unixproto::home::{Carried, Item, Said, LATER_ERROR, THREAD_WORD};
use unixproto::ops::{error_words, op_number, Request};
use unixproto::{op, Errno, Words};

/// The word behind those of a request that sends a domain or a dispatcher: the number of the new unit.
const UNIT_WORD: usize = 4;

type Answer = Option<(Words, Caps)>;

fn refused(error: Errno) -> Answer {
    Some((error_words(error), Caps::NONE))
}

/// What a process is told of an error.
fn errno(status: Status) -> Errno {
    match status {
        Status::NoMemory | Status::NoSlot => Errno::ENOMEM,
        Status::NoRights => Errno::EPERM,
        _ => Errno::EINVAL,
    }
}

impl Homed {
    /// A request of a process of this core, with so many capabilities. The error is `unixd`'s or the monitor's: nothing goes on.
    pub fn request(&mut self, unit: u32, words: Words, caps: u32) -> Result<Answer, Status> {
        // Somebody has kept what belonged to a domain that is gone.
        if self.units.root(unit).is_err() {
            return Ok(refused(Errno::ESRCH));
        }
        const FORK: u16 = op::ForkCommit::OP;
        const BECOME: u16 = op::Become::OP;
        const REPLACE: u16 = op::Replace::OP;
        match (op_number(&words), caps) {
            (FORK | BECOME | REPLACE, 2) => self.take_domain(unit, words),
            (op::Thread::OP | op::ForkBeside::OP, 1) => self.take_thread(unit, words),
            (op::GrowRoot::OP, 1) => self.grow_root(unit),
            (FORK | BECOME | REPLACE, _) => Ok(refused(Errno::EINVAL)),
            (op::Thread::OP | op::ForkBeside::OP | op::GrowRoot::OP, _) => {
                Ok(refused(Errno::EINVAL))
            }
            (_, 0) => self.carry_plain(unit, words),
            _ => Ok(refused(Errno::EINVAL)),
        }
    }

    fn carry(&mut self, unit: u32, words: &Words) -> Result<(Words, Carried), Status> {
        let [a, b, c, d, e, _] = *words;
        let thread = words[THREAD_WORD] as u32;
        let mut answer = ask(Said::Carry { unit, thread, words: [a, b, c, d, e] })?;
        let carried = Carried::take(&mut answer);
        Ok((answer, carried))
    }

    /// The slots from which capabilities go with an answer.
    fn outbox(&self) -> CapAddr {
        self.inbox.plus(MOST_CAPS)
    }

    fn carry_plain(&mut self, unit: u32, words: Words) -> Result<Answer, Status> {
        let (answer, carried) = self.carry(unit, &words)?;
        match carried {
            Carried::Caps(count) => {
                let outbox = self.outbox();
                match self.post.receive_answer(count, outbox) {
                    Ok(()) => Ok(Some((answer, Caps::moved(outbox, count)))),
                    // A child that was killed at once, whose things have been taken back.
                    Err(_) => Ok(refused(Errno::EIO)),
                }
            }
            Carried::Later => Ok(refused(LATER_ERROR)),
            _ => Ok(Some((answer, Caps::NONE))),
        }
    }

    /// A domain that a process has made.
    fn take_domain(&mut self, unit: u32, mut words: Words) -> Result<Answer, Status> {
        let taken = units::take(self.inbox).and_then(|own| Ok((own, self.units.number()?)));
        let (own, number) = match taken {
            Ok(taken) => taken,
            Err(error) => return Ok(refused(errno(error))),
        };
        let is_native = words[0] as u16 == op::Replace::OP
            && op::Replace::decode(&words).is_ok_and(|replace| !replace.linux);
        let options = if is_native { 0 } else { options::LINUX };
        // What does not fit is found out before anybody goes on as it.
        if self.units.settle(number, own, options).is_err() {
            self.units.forget([Some(own.0), Some(own.1)]);
            return Ok(refused(Errno::EINVAL));
        }
        let sent = units::shown(own.0);
        if let Err(error) = sent.and_then(|copy| self.post.send(Item::Dispatcher, number, copy)) {
            self.units.forget([Some(own.0), Some(own.1)]);
            return Ok(refused(errno(error)));
        }
        words[UNIT_WORD] = number.into();
        let (answer, carried) = self.carry(unit, &words)?;
        let Carried::Taken { monitor } = carried else {
            self.units.forget([Some(own.0), Some(own.1)]);
            return Ok(Some((answer, Caps::NONE)));
        };
        self.units.add(number, Unit { dispatcher: own.0, root: Some(own.1), options });
        let may_start = !monitor || units::give_monitor(own.1).is_ok();
        let said = if may_start { self.units.start(number) } else { units::failed(number) };
        if said != Said::Next {
            self.report(said)?;
        }
        // Whoever goes on as another domain is not answered: it is taken apart.
        let is_replaced = op_number(&words) == op::Replace::OP;
        Ok((!is_replaced).then_some((answer, Caps::NONE)))
    }

    /// A dispatcher that a process has made for a new thread, or for a process in its memory.
    fn take_thread(&mut self, unit: u32, mut words: Words) -> Result<Answer, Status> {
        let taken = owner::check_sole(self.inbox, CapType::Dispatcher)
            .and_then(|()| self.units.watch(unit, self.inbox))
            .and_then(|()| Ok((domain::with(|domain| domain.slot())?, self.units.number()?)));
        let (dispatcher, number) = match taken {
            Ok(taken) => taken,
            Err(error) => return Ok(refused(errno(error))),
        };
        let moved = self.inbox.move_to(dispatcher).and_then(|()| units::shown(dispatcher));
        if let Err(error) = moved.and_then(|copy| self.post.send(Item::Dispatcher, number, copy)) {
            self.units.forget([Some(dispatcher), None]);
            return Ok(refused(errno(error)));
        }
        words[UNIT_WORD] = number.into();
        let (answer, carried) = self.carry(unit, &words)?;
        if carried != Carried::Thread {
            self.units.forget([Some(dispatcher), None]);
            return Ok(Some((answer, Caps::NONE)));
        }
        let outbox = self.outbox();
        self.units.add(number, Unit { dispatcher, root: None, options: 0 });
        let came = self.post.receive_answer(2, outbox);
        match came.and_then(|()| dispatcher.mint(outbox.plus(2), owner::OWN)) {
            Ok(()) => Ok(Some((answer, Caps::moved(outbox, 3)))),
            // The thread never runs, and goes with its process.
            Err(_) => Ok(refused(Errno::EAGAIN)),
        }
    }

    /// A larger root, which takes the place of the one that a process has.
    fn grow_root(&mut self, unit: u32) -> Result<Answer, Status> {
        let own = self.units.root(unit)?;
        let grown = owner::check_sole(self.inbox, CapType::L1CNode)
            .and_then(|()| owner::grow_root(own, self.inbox));
        match grown {
            Ok(()) => Ok(Some(([0; 6], Caps::NONE))),
            Err(Status::Again) => {
                libos::log!("homed: a process ends: it has too many capabilities to its root");
                self.report(units::failed(unit))?;
                Ok(None)
            }
            Err(error) => Ok(refused(errno(error))),
        }
    }
}
