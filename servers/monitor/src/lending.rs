//! Memory that one core's server lends to that of another.
//!
//! ```text
//! server   monitor              monitor of the lender      server of the lender
//!   │ borrow ──►│ lend ───────────────►│ rings ──────────────►│ next_wish
//!   │           │                      │◄─── ceded ───────────│  (out of its pool, and of its home)
//!   │           │◄── moved ── to all ──│
//!   │           │──────────── answers ►│
//!   │◄── rings ─│◄── lent ─────────────│
//!   │ borrowed, and adopts
//! ```
//!
//! All monitors know the new home before anything is made of the memory there. A server that waits for memory itself lends none, so that
//! no two wait for one another; who is refused for that asks again, a little later.

use crate::local::{error, Pending, State};
use crate::peers::{cores, peer};
use alloc::collections::VecDeque;
use libos::abi::slots::MEMD;
use libos::cores::{BORROWED, WISHED};
use libos::{invoke, op, Status};

/// Address, bytes and attributes.
type Lent = (u64, u64, u16);

/// Who wishes: its core, and the number of its call.
type Borrower = (u32, u16);

/// What is under way.
#[derive(Default)]
pub struct Lending {
    asking: Option<Asking>,
    /// Who lent something last.
    last: u32,
    wishes: VecDeque<(Borrower, u64)>,
    /// Whose wish the server has taken.
    serving: Option<Borrower>,
    moving: Option<Moving>,
}

/// What this core's server has asked for.
struct Asking {
    bytes: u64,
    /// The set of cores that have not been asked.
    untried: u64,
    /// Somebody has waited for memory itself.
    busy: bool,
    answer: Option<Result<Lent, Status>>,
}

/// Memory that was ceded, until all know it.
struct Moving {
    to: Borrower,
    what: Lent,
    /// Those who have not answered.
    untold: u64,
}

impl Lending {
    /// The next core to be asked, and for how much.
    fn next_lender(&mut self) -> Option<(u32, u64)> {
        let asking = self.asking.as_mut()?;
        let last = self.last;
        let is_last = asking.untried >> last & 1 != 0;
        let core = if is_last { last } else { cores(asking.untried).next()? };
        asking.untried &= !(1 << core);
        Some((core, asking.bytes))
    }
}

impl State {
    /// The memory server asks for so much.
    pub(crate) fn begin_borrow(&mut self, bytes: u64) -> Result<(), Status> {
        if self.lending.asking.is_some() {
            return Err(Status::WrongState);
        }
        let untried = self.peers.online & !(1 << self.peers.core);
        self.lending.asking = Some(Asking { bytes, untried, busy: false, answer: None });
        while let Some((borrower, _)) = self.lending.wishes.pop_front() {
            self.refuse(borrower, Status::WrongState);
        }
        self.ask_next();
        Ok(())
    }

    fn ask_next(&mut self) {
        while let Some((core, bytes)) = self.lending.next_lender() {
            if self.call(core, peer::Request::lend { bytes }, Pending::Lend).is_ok() {
                return;
            }
        }
        let busy = self.lending.asking.as_ref().is_some_and(|asking| asking.busy);
        self.answer_server(Err(if busy { Status::WrongState } else { Status::NoMemory }));
    }

    fn answer_server(&mut self, answer: Result<Lent, Status>) {
        if let Some(asking) = &mut self.lending.asking {
            asking.answer = Some(answer);
        }
        ring(BORROWED);
    }

    /// What came of it.
    pub(crate) fn end_borrow(&mut self) -> Result<Lent, Status> {
        let asking = self.lending.asking.as_ref().ok_or(Status::WrongState)?;
        let answer = asking.answer.ok_or(Status::Again)?;
        self.lending.asking = None;
        answer
    }

    /// Another core has lent something, or not.
    pub(crate) fn lent(&mut self, core: u32, answer: Result<[u64; 3], u64>) {
        match answer {
            Ok([base, bytes, attrs]) => {
                self.lending.last = core;
                self.answer_server(Ok((base, bytes, attrs as u16)));
            }
            Err(word) => {
                if let Some(asking) = &mut self.lending.asking {
                    asking.busy |= error(word) == Status::WrongState;
                }
                self.ask_next();
            }
        }
    }

    /// Another core wishes so much.
    pub(crate) fn wished(&mut self, core: u32, call: u16, bytes: u64) {
        if self.lending.asking.is_some() {
            return self.refuse((core, call), Status::WrongState);
        }
        self.lending.wishes.push_back(((core, call), bytes));
        ring(WISHED);
    }

    fn refuse(&mut self, (core, call): Borrower, why: Status) {
        let reply = peer::Reply::lend(Err(why.to_word()));
        self.peers.send(core, reply.encode(call));
    }

    /// The server takes the next wish. It gets no other until this one is granted or refused.
    pub(crate) fn take_wish(&mut self) -> Result<u64, Status> {
        let Lending { wishes, serving, moving, .. } = &mut self.lending;
        if serving.is_some() || moving.is_some() {
            return Err(Status::Empty);
        }
        let (borrower, bytes) = wishes.pop_front().ok_or(Status::Empty)?;
        *serving = Some(borrower);
        Ok(bytes)
    }

    /// The server has ceded this for the wish that it took.
    pub(crate) fn give(&mut self, what: Lent) -> Result<(), Status> {
        let to = self.lending.serving.take().ok_or(Status::WrongState)?;
        let (base, bytes, _) = what;
        if bytes == 0 {
            self.refuse(to, Status::NoMemory);
            return Ok(());
        }
        self.protocol.rehome(base..base.saturating_add(bytes), to.0);
        let mut untold = 0;
        for core in cores(self.peers.online & !(1 << self.peers.core)) {
            let request = peer::Request::moved { base, bytes, to: to.0 };
            match self.call(core, request, Pending::Moved) {
                Ok(()) => untold |= 1 << core,
                // Calls that may be open at a time: nobody else makes so many.
                Err(error) => libos::log!("monitor: core {core} is not told: {error:?}"),
            }
        }
        self.lending.moving = Some(Moving { to, what, untold });
        self.told(None);
        Ok(())
    }

    /// A core knows what has moved.
    pub(crate) fn told(&mut self, core: Option<u32>) {
        let Some(moving) = &mut self.lending.moving else { return };
        moving.untold &= !core.map_or(0, |core| 1 << core);
        if moving.untold != 0 {
            return;
        }
        let (to, (base, bytes, attrs)) = (moving.to, moving.what);
        self.lending.moving = None;
        let reply = peer::Reply::lend(Ok([base, bytes, u64::from(attrs)]));
        self.peers.send(to.0, reply.encode(to.1));
        if !self.lending.wishes.is_empty() {
            ring(WISHED);
        }
    }

    /// Another core has moved memory.
    pub(crate) fn heard_of_move(&mut self, core: u32, call: u16, memory: (u64, u64), to: u32) {
        let (base, bytes) = memory;
        self.protocol.rehome(base..base.saturating_add(bytes), to);
        self.peers.send(core, peer::Reply::moved(Ok(0)).encode(call));
    }
}

/// Notifies the memory server, which lives as long as the monitor.
fn ring(bits: u64) {
    let _ = invoke(MEMD, op::Notify { bits });
}
