//! What domains of this core ask for, and what the other monitors say.

use crate::jobs::{Jobs, Origin};
use crate::peers::{peer, Peers, WORDS};
use crate::tickets::{Outcome, Tickets};
use alloc::collections::BTreeMap;
use libos::abi::layout::PAGE;
use libos::cores::{monitor, WORDS_BYTES};
use libos::interface::OwnedCap;
use libos::vspace::{Window, R};
use libos::{domain, log, Status};
use ump::interface::{Kind, Packet};
use ump::wire::Text;

/// Messages of one core that are served before those of the next.
const AT_ONCE: usize = 16;

/// A call to another monitor.
enum Pending {
    /// So many rounds are left, of some that began then.
    Ping { ticket: u32, left: u32, since: u64 },
    /// A program there.
    Spawn { ticket: u32 },
}

/// Everything that this monitor knows.
pub struct State {
    /// The other monitors.
    pub peers: Peers,
    tickets: Tickets,
    jobs: Jobs,
    /// By core and number.
    pending: BTreeMap<(u32, u16), Pending>,
    window: Option<Window>,
}

fn now() -> u64 {
    // SAFETY: reads a counter.
    unsafe { core::arch::x86_64::_rdtsc() }
}

impl State {
    /// Nothing has happened yet.
    pub fn new(peers: Peers) -> State {
        let (tickets, jobs) = (Tickets::default(), Jobs::default());
        State { peers, tickets, jobs, pending: BTreeMap::new(), window: None }
    }

    /// Does what the other monitors have sent. Was there anything?
    pub fn serve_peers(&mut self) -> bool {
        let mut any = false;
        for core in 0..self.peers.cores {
            for _ in 0..AT_ONCE {
                let Some(packet) = self.peers.receive(core) else { break };
                any = true;
                self.serve_peer(core, &packet);
            }
        }
        self.peers.settle() | any
    }

    fn serve_peer(&mut self, core: u32, packet: &Packet) {
        let done = match packet.kind {
            Kind::Reply => {
                peer::Reply::decode(packet).map(|reply| self.replied(core, packet, reply))
            }
            _ => peer::Request::decode(packet).map(|request| self.requested(core, packet, request)),
        };
        if done.is_err() {
            log!("monitor {}: core {core} sent what is no message", self.peers.core);
        }
    }

    fn requested(&mut self, core: u32, packet: &Packet, request: peer::Request) {
        match request {
            peer::Request::ping { value } => {
                self.peers.send(core, peer::Reply::ping(Ok(value)).encode(packet.call));
            }
            peer::Request::spawn { words } => {
                let origin = Origin::Peer(core, packet.call);
                if let Err(error) = self.jobs.add(words, origin) {
                    self.job_ended(origin, Err(error));
                }
            }
        }
    }

    fn replied(&mut self, core: u32, packet: &Packet, reply: peer::Reply) {
        let Some(pending) = self.pending.remove(&(core, packet.call)) else { return };
        match (pending, reply) {
            (Pending::Ping { ticket, left, since }, peer::Reply::ping(value)) => {
                let outcome = match value {
                    Ok(value) if value == u64::from(left) => Ok(now() - since),
                    _ => Err(Status::Invalid),
                };
                if outcome.is_ok() && left > 1 {
                    self.send_ping(core, ticket, left - 1, since);
                } else {
                    self.tickets.settle(ticket, outcome);
                }
            }
            (Pending::Spawn { ticket }, peer::Reply::spawn(result)) => {
                self.tickets.settle(ticket, result.map_err(error));
            }
            (Pending::Ping { ticket, .. } | Pending::Spawn { ticket }, _) => {
                self.tickets.settle(ticket, Err(Status::Invalid));
            }
        }
    }

    fn send_ping(&mut self, core: u32, ticket: u32, left: u32, since: u64) {
        let request = peer::Request::ping { value: u64::from(left) };
        if let Err(error) = self.call(core, request, Pending::Ping { ticket, left, since }) {
            self.tickets.settle(ticket, Err(error));
        }
    }

    fn call(&mut self, core: u32, request: peer::Request, then: Pending) -> Result<(), Status> {
        let call = self.peers.new_call(core)?;
        if self.pending.contains_key(&(core, call)) {
            return Err(Status::NoMemory);
        }
        self.pending.insert((core, call), then);
        self.peers.send(core, request.encode(call));
        Ok(())
    }

    fn job_ended(&mut self, origin: Origin, outcome: Outcome) {
        match origin {
            Origin::Ticket(ticket) => self.tickets.settle(ticket, outcome),
            Origin::Peer(core, call) => {
                let reply = peer::Reply::spawn(outcome.map_err(Status::to_word));
                self.peers.send(core, reply.encode(call));
            }
        }
    }

    /// Name and arguments of a program, from the start of a Frame.
    fn words(&mut self, frame: &OwnedCap, bytes: u32) -> Result<Text<WORDS>, Status> {
        let mut text = [0; WORDS_BYTES];
        let text = text.get_mut(..bytes as usize).ok_or(Status::OutOfRange)?;
        let window = match &mut self.window {
            Some(window) => window,
            None => self.window.insert(domain::with(|domain| domain.window())?),
        };
        window.open(frame.cap(), 0, PAGE, R)?.read(0, text)?;
        let text = core::str::from_utf8(text).map_err(|_| Status::Invalid)?;
        Text::new(text).ok_or(Status::OutOfRange)
    }

    fn begin_spawn(&mut self, core: u32, words: Text<WORDS>, ticket: u32) -> Result<(), Status> {
        match core == self.peers.core {
            true => self.jobs.add(words, Origin::Ticket(ticket)),
            false => self.call(core, peer::Request::spawn { words }, Pending::Spawn { ticket }),
        }
    }
}

/// The error that another monitor reports.
fn error(word: u64) -> Status {
    Status::from_word(word).err().unwrap_or(Status::Invalid)
}

impl monitor::Server for State {
    fn machine(&mut self, _: u64) -> Result<(u32, u32, u64), Status> {
        Ok((self.peers.core, self.peers.cores, self.peers.online))
    }

    fn ping(
        &mut self,
        _: u64,
        core: u32,
        rounds: u32,
        bell: OwnedCap,
        bit: u64,
    ) -> Result<u32, Status> {
        let ticket = self.tickets.new_ticket(bell, bit)?;
        match core == self.peers.core || rounds == 0 {
            true => self.tickets.settle(ticket, Ok(0)),
            false => self.send_ping(core, ticket, rounds, now()),
        }
        Ok(ticket)
    }

    fn spawn(
        &mut self,
        _: u64,
        core: u32,
        bytes: u32,
        words: OwnedCap,
        bell: OwnedCap,
        bit: u64,
    ) -> Result<u32, Status> {
        let words = self.words(&words, bytes)?;
        let ticket = self.tickets.new_ticket(bell, bit)?;
        let begun = self.begin_spawn(core, words, ticket);
        if begun.is_err() {
            self.tickets.cancel(ticket);
        }
        begun.map(|()| ticket)
    }

    fn result(&mut self, _: u64, ticket: u32) -> Result<u64, Status> {
        self.tickets.take(ticket)
    }

    fn traffic(&mut self, _: u64) -> Result<(u64, u64), Status> {
        Ok(self.peers.traffic)
    }

    fn serve(&mut self, _: u64, bell: OwnedCap, bit: u64) -> Result<(), Status> {
        self.jobs.serve(bell, bit);
        Ok(())
    }

    fn next_job(&mut self, _: u64) -> Result<(u32, u32), Status> {
        self.jobs.next()
    }

    fn job_text(&mut self, _: u64, job: u32, piece: u32) -> Result<(u64, u64, u64, u64), Status> {
        self.jobs.piece(job, piece).map(|[a, b, c, d]| (a, b, c, d))
    }

    fn ended(&mut self, _: u64, job: u32, failed: u32, status: u64) -> Result<(), Status> {
        let origin = self.jobs.end(job).ok_or(Status::Empty)?;
        let outcome = if failed == 0 { Ok(status) } else { Err(error(u64::from(failed))) };
        self.job_ended(origin, outcome);
        Ok(())
    }
}
