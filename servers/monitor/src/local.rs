//! What is under way for domains of this core, and what the other monitors say.

use crate::clients::Clients;
use crate::jobs::{Jobs, Origin};
use crate::lending::Lending;
use crate::mail::Mail;
use crate::peers::{cores, peer, Peers, WORDS};
use crate::protocol::Protocol;
use crate::tickets::{Outcome, Tickets};
use alloc::collections::BTreeMap;
use libos::abi::layout::PAGE;
use libos::cores::{KILLED, WORDS_BYTES};
use libos::ephemeral::Window;
use libos::interface::{self, OwnedCap};
use libos::vspace::R;
use libos::{domain, log, Cap, CapAddr, CapType, Status};
use ump::interface::{Kind, Packet};
use ump::wire::Text;

/// Messages of one core that are served before those of the next.
const AT_ONCE: usize = 16;

/// A call to another monitor.
pub(crate) enum Pending {
    /// So many rounds are left, of some that began then.
    Ping { ticket: u32, left: u32, since: u64 },
    /// A program there.
    Spawn { ticket: u32 },
    /// A slot there for a capability of a client.
    Slot { ticket: u32, client: u32, key: u64, cap: OwnedCap },
    /// Memory, for the server of this core.
    Lend,
    /// It knows of memory that this core has lent.
    Moved,
}

/// A capability on its way to another core.
struct Sending {
    client: u32,
    core: u32,
    place: u64,
    key: u64,
    cap: OwnedCap,
}

/// Everything that this monitor knows.
pub struct State {
    /// The other monitors.
    pub peers: Peers,
    pub(crate) clients: Clients,
    pub(crate) tickets: Tickets,
    pub(crate) jobs: Jobs,
    /// By core and number.
    pending: BTreeMap<(u32, u16), Pending>,
    reader: Option<Reader>,
    pub(crate) protocol: Protocol,
    pub(crate) lending: Lending,
    pub(crate) mail: Mail,
    /// By the tickets, under whose numbers the protocol knows them.
    sending: BTreeMap<u32, Sending>,
}

pub(crate) fn now() -> u64 {
    // SAFETY: reads a counter.
    unsafe { core::arch::x86_64::_rdtsc() }
}

impl State {
    /// Nothing has happened yet.
    pub fn new(peers: Peers, protocol: Protocol, clients: Clients) -> State {
        State {
            peers,
            protocol,
            lending: Lending::default(),
            clients,
            tickets: Tickets::default(),
            jobs: Jobs::default(),
            mail: Mail::default(),
            pending: BTreeMap::new(),
            sending: BTreeMap::new(),
            reader: None,
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

    /// Clients have gone, and what they had here goes, too.
    pub fn look_for_gone(&mut self) {
        while let Some((client, sent_to)) = self.clients.take_gone() {
            for ticket in self.tickets.take_all(client) {
                self.kill(ticket);
            }
            self.jobs.client_gone(client);
            self.mail.owner_gone(client);
            self.mail.sender_gone((self.peers.core, client));
            for core in cores(sent_to) {
                self.peers.send(core, peer::Request::gone { client }.encode(0));
            }
        }
    }

    /// Goes on with the protocol. Is there more to do?
    pub fn work(&mut self) -> bool {
        let mut any = false;
        while let Some(slot) = interface::take_undeleted() {
            any = true;
            self.protocol.discard(&mut self.peers, slot);
        }
        any |= self.protocol.work(&mut self.peers);
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
            peer::Request::arrived { place, key, client } => {
                let owner = self.mail.arrived(place, key, (core, client));
                self.tell(owner);
            }
            peer::Request::withdrawn { place } => self.mail.withdraw(place),
            peer::Request::gone { client } => self.mail.sender_gone((core, client)),
            peer::Request::spawn { words } => {
                let origin = Origin::Peer(core, packet.call);
                if let Err(error) = self.add_job(words, origin) {
                    self.job_ended(origin, Err(error));
                }
            }
            peer::Request::kill { call } => self.kill_job(Origin::Peer(core, call)),
            peer::Request::lend { bytes } => self.wished(core, packet.call, bytes),
            peer::Request::moved { base, bytes, to } => {
                self.heard_of_move(core, packet.call, (base, bytes), to);
            }
        }
    }

    /// Rings for a client, if there is one to be told.
    pub(crate) fn tell(&self, whom: Option<(u32, u64)>) {
        if let Some((client, bit)) = whom {
            self.clients.ring(client, bit);
        }
    }

    /// This is how it ended, for whoever waits for it.
    pub(crate) fn settle(&mut self, ticket: u32, outcome: Outcome) {
        let client = self.tickets.settle(ticket, outcome);
        self.tell(client);
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
                    self.settle(ticket, outcome);
                }
            }
            (Pending::Spawn { ticket }, peer::Reply::spawn(result)) => {
                self.settle(ticket, result.map_err(error));
            }
            (Pending::Slot { ticket, client, key, cap }, peer::Reply::slot(Ok(place))) => {
                self.send_cap(ticket, Sending { client, core, place, key, cap });
            }
            (Pending::Slot { ticket, .. }, reply) => {
                let failed = match reply {
                    peer::Reply::slot(Err(word)) => error(word),
                    _ => Status::Invalid,
                };
                self.settle(ticket, Err(failed));
            }
            (Pending::Lend, peer::Reply::lend(answer)) => self.lent(core, answer),
            (Pending::Lend, _) => self.lent(core, Err(Status::Invalid.to_word())),
            (Pending::Moved, _) => self.told(Some(core)),
            (Pending::Ping { ticket, .. } | Pending::Spawn { ticket }, _) => {
                self.settle(ticket, Err(Status::Invalid));
            }
        }
    }

    pub(crate) fn send_ping(&mut self, core: u32, ticket: u32, left: u32, since: u64) {
        let request = peer::Request::ping { value: u64::from(left) };
        if let Err(error) = self.call(core, request, Pending::Ping { ticket, left, since }) {
            self.settle(ticket, Err(error));
        }
    }

    pub(crate) fn call(
        &mut self,
        core: u32,
        request: peer::Request,
        then: Pending,
    ) -> Result<(), Status> {
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

    fn send_cap(&mut self, ticket: u32, sending: Sending) {
        let Sending { core, place, .. } = sending;
        let cap = sending.cap.cap();
        let is_wanted = self.clients.is_here(sending.client);
        self.sending.insert(ticket, sending);
        let begun = match is_wanted {
            true => self.protocol.send(&mut self.peers, cap, core, place, ticket),
            false => Err(Status::PeerGone),
        };
        if let Err(error) = begun {
            self.sent(ticket, Err(error));
        }
    }

    /// A capability has been sent, or not.
    fn sent(&mut self, ticket: u32, result: Result<(), Status>) {
        let Some(sending) = self.sending.remove(&ticket) else { return };
        let Sending { client, core, place, key, .. } = sending;
        let said = match result {
            Ok(()) => peer::Request::arrived { place, key, client },
            Err(_) => peer::Request::withdrawn { place },
        };
        self.peers.send(core, said.encode(0));
        if !self.clients.is_here(client) {
            // That was said before, too, but not behind this.
            self.peers.send(core, peer::Request::gone { client }.encode(0));
        }
        self.settle(ticket, result.map(|()| 0));
    }

    fn job_ended(&mut self, origin: Origin, outcome: Outcome) {
        match origin {
            Origin::Ticket(ticket) => self.settle(ticket, outcome),
            Origin::Peer(core, call) => {
                let reply = peer::Reply::spawn(outcome.map_err(Status::to_word));
                self.peers.send(core, reply.encode(call));
            }
        }
    }

    /// `spawnd` has ended a job.
    pub(crate) fn end_job(&mut self, job: u32, outcome: Outcome) -> Result<(), Status> {
        let origin = self.jobs.end(job).ok_or(Status::Empty)?;
        self.job_ended(origin, outcome);
        Ok(())
    }

    /// Name and arguments of a program, from the start of a Frame.
    pub(crate) fn words(&mut self, frame: &OwnedCap, bytes: u32) -> Result<Text<WORDS>, Status> {
        let mut text = [0; WORDS_BYTES];
        let text = text.get_mut(..bytes as usize).ok_or(Status::OutOfRange)?;
        let reader = match &mut self.reader {
            Some(reader) => reader,
            None => self.reader.insert(Reader::new()?),
        };
        reader.read(frame.cap(), text)?;
        let text = core::str::from_utf8(text).map_err(|_| Status::Invalid)?;
        Text::new(text).ok_or(Status::OutOfRange)
    }

    /// Begins to run a program on a core.
    pub(crate) fn begin_spawn(
        &mut self,
        core: u32,
        words: Text<WORDS>,
        ticket: u32,
    ) -> Result<(), Status> {
        match core == self.peers.core {
            true => self.add_job(words, Origin::Ticket(ticket)),
            false => self.call(core, peer::Request::spawn { words }, Pending::Spawn { ticket }),
        }
    }

    /// Begins to send a capability to another core.
    pub(crate) fn begin_send(
        &mut self,
        client: u32,
        core: u32,
        key: u64,
        cap: OwnedCap,
        ticket: u32,
    ) -> Result<(), Status> {
        let then = Pending::Slot { ticket, client, key, cap };
        self.call(core, peer::Request::slot {}, then)?;
        self.clients.sends_to(client, core);
        Ok(())
    }

    fn add_job(&mut self, words: Text<WORDS>, origin: Origin) -> Result<(), Status> {
        self.jobs.add(words, origin)?;
        self.tell(self.jobs.spawnd());
        Ok(())
    }

    /// Has the program of a ticket ended, if it is one and has not ended yet.
    pub(crate) fn kill(&mut self, ticket: u32) {
        let is_it =
            |pending: &Pending| matches!(pending, Pending::Spawn { ticket: t } if *t == ticket);
        let call = self.pending.iter().find(|(_, pending)| is_it(pending));
        match call.map(|(&call, _)| call) {
            Some((core, call)) => {
                self.peers.send(core, peer::Request::kill { call }.encode(0));
            }
            None => self.kill_job(Origin::Ticket(ticket)),
        }
    }

    fn kill_job(&mut self, origin: Origin) {
        if self.jobs.kill(origin) {
            return self.job_ended(origin, Ok(KILLED));
        }
        self.tell(self.jobs.spawnd());
    }

    /// Does the protocol rest here?
    pub(crate) fn is_quiet(&self) -> bool {
        self.protocol.is_quiet() && self.sending.is_empty()
    }

    /// What is under way to other cores, or asked of them.
    pub(crate) fn under_way(&self) -> usize {
        self.pending.len() + self.sending.len()
    }
}

/// Reads what clients write in Frames: from copies, for a client may take a Frame away at any time.
struct Reader {
    window: Window,
    page: CapAddr,
    copy: CapAddr,
}

impl Reader {
    fn new() -> Result<Reader, Status> {
        domain::with(|domain| {
            let page = domain.make(CapType::Ram, PAGE)?;
            Ok(Reader { window: domain.window()?, page, copy: domain.slot()? })
        })
    }

    fn read(&mut self, frame: CapAddr, text: &mut [u8]) -> Result<(), Status> {
        self.page.retype_copy(0, frame, self.copy)?;
        let read = self.window.open(self.copy, 0, PAGE, R).and_then(|view| view.read(0, text));
        self.copy.delete()?;
        read
    }
}

/// The error that another monitor reports.
pub(crate) fn error(word: u64) -> Status {
    Status::from_word(word).err().unwrap_or(Status::Invalid)
}
