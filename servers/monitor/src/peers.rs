//! The rings to the other monitors, and what is said there.
//!
//! The memory is the same Frame on all cores: page `i * cores + j` is the ring from core i to core j, and
//! on page `i * cores + i` core i says that it sleeps, and those who send to it that they have.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::ops::Range;
use libos::abi::layout::PAGE;
use libos::abi::slots::{CHANNELS, DISPATCHER, KERNEL};
use libos::vspace::RW;
use libos::{domain, invoke, log, op, Cap, Status};
use ump::interface::{Packet, CALLS};
use ump::wire::Text;
use ump::{Board, Patience, Receiver, Ring, SendError, Sender, Sleeper};

/// So often the rings are looked at before this monitor sleeps.
pub const ROUNDS: u32 = 6;
/// Words of a program's name and arguments.
pub const WORDS: usize = libos::cores::WORDS_BYTES / 8;

ump::interface! {
    /// What monitors say to one another.
    pub mod peer {
        /// Answers the value.
        1 call ping(value: u64) -> u64;
        /// Runs a program: its name and arguments, a NUL behind each. Answered when it ends, with its
        /// exit status.
        2 call spawn(words: Text<WORDS>) -> u64;
        /// The capability protocol; see `protocol`.
        3 message protocol(words: [u64; capproto::WORDS]);
        /// The first thing that a monitor says: the memory that its core had at the start.
        4 message home(base: u64, bytes: u64);
        /// Makes a slot for a capability that will be sent: the word of its place.
        5 call slot() -> u64;
        /// The capability is there, for whoever knows the key; from this client.
        6 message arrived(place: u64, key: u64, client: u32);
        /// It will not come.
        7 message withdrawn(place: u64);
        /// A client has gone that has sent capabilities.
        8 message gone(client: u32);
        /// The program of the call of this number shall end.
        9 message kill(call: u16);
        /// Wishes so many bytes of memory, of which some are enough. Answered with address, bytes and attributes of what is the
        /// caller's core's from then on.
        10 call lend(bytes: u64) -> [u64; 3];
        /// The home of memory of which nobody has anything is another core from now on. Answers 0.
        11 call moved(base: u64, bytes: u64, to: u32) -> u64;
    }
}

/// A ring in each direction.
struct Peer {
    sender: Sender<'static>,
    receiver: Receiver<'static>,
    /// What the ring had no room for.
    queue: VecDeque<Packet>,
    /// Where it is told of messages.
    board: &'static Board,
    /// Something was sent, or received, since it was last asked whether it sleeps.
    sent: bool,
    received: bool,
    next_call: u16,
}

/// All of them.
pub struct Peers {
    /// This core.
    pub core: u32,
    /// How many cores there are.
    pub cores: u32,
    /// The set of those with a monitor.
    pub online: u64,
    /// Messages sent and received.
    pub traffic: (u64, u64),
    peers: Vec<Option<Peer>>,
    board: &'static Board,
    /// The set of those from whom there may be messages.
    heard: u64,
    /// The set of those for whom something waits, or that have not been told of what was done.
    busy: u64,
}

impl Peers {
    /// Maps the memory, for good.
    pub fn map(core: u32, cores: u32, online: u64) -> Result<Peers, Status> {
        let bytes = u64::from(cores) * u64::from(cores) * PAGE;
        if CHANNELS.identify()?.bytes != bytes || core >= cores {
            return Err(Status::OutOfRange);
        }
        let base = domain::with(|domain| domain.map(CHANNELS.into(), 0, bytes, RW))?;
        let page =
            |from: u32, to: u32| base + (u64::from(from) * u64::from(cores) + u64::from(to)) * PAGE;
        // SAFETY: mapped for good; a ring is a page of atomics, of which all bytes are valid.
        let ring = |from, to| -> &'static Ring { unsafe { &*(page(from, to) as *const Ring) } };
        // SAFETY: the same.
        let board = |of| -> &'static Board { unsafe { &*(page(of, of) as *const Board) } };
        let peer = |other: u32| {
            (other != core && online >> other & 1 != 0).then(|| Peer {
                sender: Sender::new(ring(core, other)),
                receiver: Receiver::new(ring(other, core)),
                queue: VecDeque::new(),
                board: board(other),
                sent: false,
                received: false,
                next_call: 0,
            })
        };
        let peers = (0..cores).map(peer).collect();
        Ok(Peers {
            core,
            cores,
            online,
            traffic: (0, 0),
            peers,
            board: board(core),
            heard: 0,
            busy: 0,
        })
    }

    /// Where this monitor says that it sleeps.
    pub fn sleeper(&self) -> &'static Sleeper {
        self.board.sleeper()
    }

    /// The set of those from whom there may be messages.
    pub fn heard(&mut self) -> u64 {
        let others = self.online & !(1 << self.core);
        self.heard |= self.board.take() & others;
        self.heard
    }

    /// A number for a call to `core`, of which none that was made lately has the same.
    pub fn new_call(&mut self, core: u32) -> Result<u16, Status> {
        let peer = self.peer(core).ok_or(Status::OutOfRange)?;
        peer.next_call = (peer.next_call + 1) % CALLS;
        Ok(peer.next_call)
    }

    /// Sends, at once or as soon as there is room. A core without monitor hears nothing.
    pub fn send(&mut self, core: u32, packet: Packet) {
        self.traffic.0 += 1;
        if let Some(peer) = self.peer(core) {
            peer.queue.push_back(packet);
            self.busy |= 1 << core;
            self.flush(core);
        }
    }

    /// The next message from `core`.
    pub fn receive(&mut self, core: u32) -> Option<Packet> {
        let peer = self.peer(core)?;
        let message = match peer.receiver.try_recv() {
            Ok(Some(message)) => message,
            Ok(None) => {
                self.heard &= !(1 << core);
                return None;
            }
            Err(ump::Broken) => return self.give_up(core),
        };
        peer.received = true;
        self.busy |= 1 << core;
        self.traffic.1 += 1;
        Packet::from_message(&message).ok().or_else(|| self.give_up(core))
    }

    /// After a round of receiving: sends what there was no room for, and tells the others of that and
    /// of what was sent before. Was there anything to tell?
    pub fn settle(&mut self) -> bool {
        cores(self.busy).fold(false, |any, core| self.flush(core) | self.tell(core) | any)
    }

    fn flush(&mut self, core: u32) -> bool {
        let Some(peer) = self.peer(core) else { return false };
        let mut any = false;
        while let Some(packet) = peer.queue.front() {
            match peer.sender.try_send(packet.tag(), packet.body.words()) {
                Ok(()) => drop(peer.queue.pop_front()),
                Err(SendError::Full) => break,
                Err(_) => return self.give_up::<()>(core).is_some(),
            }
            (any, peer.sent) = (true, true);
        }
        any
    }

    fn tell(&mut self, core: u32) -> bool {
        let Some(peer) = self.peer(core) else { return false };
        // It may wait for room, or for what was sent.
        let wanted = core::mem::take(&mut peer.received) && peer.receiver.release();
        let told = core::mem::take(&mut peer.sent) || wanted;
        let (board, waits) = (peer.board, !peer.queue.is_empty());
        if !waits {
            self.busy &= !(1 << core);
        }
        if told && board.tell(self.core) {
            // Every core that has a board can be rung.
            let _ = invoke(KERNEL, op::RingCore { core });
        }
        told
    }

    /// Says what memory this core had at the start, and waits until all others have said the same: by
    /// the numbers of the cores. What they say afterwards stays in the rings.
    pub fn exchange_homes(&mut self, own: Range<u64>) -> Result<Vec<Range<u64>>, Status> {
        for core in 0..self.cores {
            let home = peer::Request::home { base: own.start, bytes: own.end - own.start };
            self.send(core, home.encode(0));
        }
        self.settle();
        let mut homes = alloc::vec![None; self.cores as usize];
        homes[self.core as usize] = Some(own);
        let mut patience = Patience::new(ROUNDS);
        loop {
            for core in 0..self.cores {
                let index = core as usize;
                if self.peers[index].is_none() {
                    homes[index].get_or_insert(0..0);
                } else if homes[index].is_none() {
                    let Some(packet) = self.receive(core) else { continue };
                    match peer::Request::decode(&packet) {
                        Ok(peer::Request::home { base, bytes }) => {
                            homes[index] = Some(base..base.saturating_add(bytes));
                        }
                        _ => drop(self.give_up::<()>(core)),
                    }
                }
            }
            if homes.iter().all(Option::is_some) {
                return Ok(homes.into_iter().flatten().collect());
            }
            if !patience.pause() {
                self.sleep_for_homes(&homes)?;
            }
        }
    }

    fn sleep_for_homes(&mut self, homes: &[Option<Range<u64>>]) -> Result<(), Status> {
        self.board.sleeper().announce();
        let mut missing = homes.iter().zip(&self.peers).filter(|(home, _)| home.is_none());
        if !missing.any(|(_, peer)| peer.as_ref().is_some_and(|p| p.receiver.peek().is_some())) {
            invoke(DISPATCHER, op::Wait {})?;
        }
        self.board.sleeper().cancel();
        Ok(())
    }

    /// Waits awake, until there is something to do or `patience` is at an end: was there something?
    pub fn wait_awhile(&mut self, patience: &mut Patience) -> bool {
        while patience.pause() {
            if self.is_ready() {
                return true;
            }
        }
        false
    }

    /// Is there anything to do? To be asked after the announcement that this monitor sleeps.
    pub fn is_ready(&mut self) -> bool {
        if self.heard != 0 || self.board.is_told() {
            return true;
        }
        cores(self.busy).any(|core| {
            let Some(peer) = self.peer(core) else { return false };
            let mut room = |packet: &Packet| peer.sender.room_for(packet.body.words().len());
            peer.queue.front().is_some_and(|packet| room(packet) != Ok(false))
        })
    }

    fn peer(&mut self, core: u32) -> Option<&mut Peer> {
        self.peers.get_mut(core as usize)?.as_mut()
    }

    /// What `core` has sent is nonsense: never hears from it again.
    fn give_up<T>(&mut self, core: u32) -> Option<T> {
        log!("monitor {}: core {core} talks nonsense", self.core);
        self.peers[core as usize] = None;
        self.online &= !(1 << core);
        self.heard &= !(1 << core);
        self.busy &= !(1 << core);
        None
    }
}

/// The members of a set, the lowest first.
pub fn cores(mut set: u64) -> impl Iterator<Item = u32> {
    core::iter::from_fn(move || {
        let first = set.trailing_zeros();
        set &= set.wrapping_sub(1);
        (first < u64::BITS).then_some(first)
    })
}
