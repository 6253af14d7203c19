//! What domains of this core ask for, and what the other monitors say.

use crate::jobs::{Jobs, Origin};
use crate::mail::Mail;
use crate::peers::{cores, peer, Peers, WORDS};
use crate::protocol::Protocol;
use crate::tickets::{Outcome, Tickets};
use alloc::collections::BTreeMap;
use libos::abi::layout::PAGE;
use libos::abi::slots::KERNEL;
use libos::cores::{monitor, WORDS_BYTES};
use libos::interface::OwnedCap;
use libos::vspace::{Window, R};
use libos::{domain, invoke, log, op, CapAddr, Status};
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
    /// A slot there for a capability.
    Slot { ticket: u32, key: u64, cap: OwnedCap },
}

/// A capability on its way to another core.
struct Sending {
    ticket: u32,
    core: u32,
    place: u64,
    key: u64,
    cap: CapAddr,
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
    protocol: Protocol,
    mail: Mail,
    /// By the numbers under which the protocol knows them.
    sending: BTreeMap<u32, Sending>,
}

fn now() -> u64 {
    // SAFETY: reads a counter.
    unsafe { core::arch::x86_64::_rdtsc() }
}

impl State {
    /// Nothing has happened yet.
    pub fn new(peers: Peers, protocol: Protocol) -> State {
        State {
            peers,
            protocol,
            tickets: Tickets::default(),
            jobs: Jobs::default(),
            mail: Mail::default(),
            pending: BTreeMap::new(),
            sending: BTreeMap::new(),
            window: None,
        }
    }

    /// The kernel has handed on an invocation.
    pub fn redirected(&mut self, words: [u64; 6]) {
        self.protocol.redirected(&mut self.peers, words);
    }

    /// The kernel may have left something to be deleted.
    pub fn look_for_left(&mut self) {
        self.protocol.look_for_left(&mut self.peers);
    }

    /// Goes on with the protocol. Is there more to do?
    pub fn work(&mut self) -> bool {
        let mut any = self.protocol.work(&mut self.peers);
        while let Some((number, result)) = self.protocol.take_ended() {
            any = true;
            self.sent(number, result);
        }
        any
    }

    /// Does what the other monitors have sent. Was there anything?
    pub fn serve_peers(&mut self) -> bool {
        let mut any = false;
        for core in cores(self.peers.heard()) {
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
            peer::Request::protocol { words } => {
                self.protocol.message(&mut self.peers, core, &words);
            }
            // Said and heard at the start.
            peer::Request::home { .. } => {}
            peer::Request::slot {} => {
                let reply = peer::Reply::slot(self.mail.announce().map_err(Status::to_word));
                self.peers.send(core, reply.encode(packet.call));
            }
            peer::Request::arrived { place, key } => self.mail.arrived(place, key),
            peer::Request::withdrawn { place } => self.mail.withdraw(place),
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
            (Pending::Slot { ticket, key, cap }, peer::Reply::slot(Ok(place))) => {
                self.send_cap(Sending { ticket, core, place, key, cap: cap.into_cap() });
            }
            (Pending::Slot { ticket, cap, .. }, reply) => {
                let failed = match reply {
                    peer::Reply::slot(Err(word)) => error(word),
                    _ => Status::Invalid,
                };
                self.discard(cap.into_cap());
                self.tickets.settle(ticket, Err(failed));
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
        // Numbers come round again, and some calls last: as long as a program runs.
        let mut call = self.peers.new_call(core)?;
        for _ in 0..self.pending.len() {
            if !self.pending.contains_key(&(core, call)) {
                break;
            }
            call = self.peers.new_call(core)?;
        }
        if self.pending.contains_key(&(core, call)) {
            return Err(Status::NoMemory);
        }
        self.pending.insert((core, call), then);
        self.peers.send(core, request.encode(call));
        Ok(())
    }

    fn send_cap(&mut self, sending: Sending) {
        let Sending { ticket: number, core, place, cap, .. } = sending;
        self.sending.insert(number, sending);
        if let Err(error) = self.protocol.send(&mut self.peers, cap, core, place, number) {
            self.sent(number, Err(error));
        }
    }

    /// A capability has been sent, or not.
    fn sent(&mut self, number: u32, result: Result<(), Status>) {
        let Some(Sending { ticket, core, place, key, cap }) = self.sending.remove(&number) else {
            return;
        };
        let said = match result {
            Ok(()) => peer::Request::arrived { place, key },
            Err(_) => peer::Request::withdrawn { place },
        };
        self.peers.send(core, said.encode(0));
        self.discard(cap);
        self.tickets.settle(ticket, result.map(|()| 0));
    }

    /// The last capability on this core is not the monitor's alone to delete.
    fn discard(&mut self, cap: CapAddr) {
        self.protocol.discard(&mut self.peers, cap);
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

    fn ping(&mut self, _: u64, core: u32, rounds: u32) -> Result<u32, Status> {
        let ticket = self.tickets.new_ticket()?;
        match core == self.peers.core || rounds == 0 {
            true => self.tickets.settle(ticket, Ok(0)),
            false => self.send_ping(core, ticket, rounds, now()),
        }
        Ok(ticket)
    }

    fn spawn(&mut self, _: u64, core: u32, bytes: u32, words: OwnedCap) -> Result<u32, Status> {
        let words = self.words(&words, bytes)?;
        let ticket = self.tickets.new_ticket()?;
        let begun = self.begin_spawn(core, words, ticket);
        if begun.is_err() {
            self.tickets.cancel(ticket);
        }
        begun.map(|()| ticket)
    }

    fn result(&mut self, _: u64, ticket: u32, bell: OwnedCap, bit: u64) -> Result<u64, Status> {
        self.tickets.take(ticket, bell, bit)
    }

    fn send(&mut self, _: u64, core: u32, key: u64, cap: OwnedCap) -> Result<u32, Status> {
        let ticket = self.tickets.new_ticket()?;
        if core == self.peers.core {
            self.mail.put(key, cap);
            self.tickets.settle(ticket, Ok(0));
            return Ok(ticket);
        }
        let then = Pending::Slot { ticket, key, cap };
        let begun = self.call(core, peer::Request::slot {}, then);
        if begun.is_err() {
            self.tickets.cancel(ticket);
        }
        begun.map(|()| ticket)
    }

    fn expect(&mut self, _: u64, key: u64, bell: OwnedCap, bit: u64) -> Result<(), Status> {
        self.mail.expect(key, bell, bit)
    }

    fn take(&mut self, _: u64, key: u64) -> Result<OwnedCap, Status> {
        self.mail.take(key)
    }

    fn traffic(&mut self, _: u64) -> Result<(u64, u64), Status> {
        Ok(self.peers.traffic)
    }

    fn check(&mut self, _: u64) -> Result<bool, Status> {
        invoke(KERNEL, op::CheckInvariants {})?;
        Ok(self.protocol.is_quiet() && self.sending.is_empty())
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
