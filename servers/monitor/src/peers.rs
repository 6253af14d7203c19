//! The rings to the other monitors, and what is said there.
//!
//! The memory is the same Frame on all cores: page `i * cores + j` is the ring from core i to core j, and
//! on page `i * cores + i` core i says that it sleeps, once for all who send to it.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use libos::abi::layout::PAGE;
use libos::abi::slots::{CHANNELS, KERNEL};
use libos::vspace::RW;
use libos::{domain, invoke, log, op, Cap, Status};
use ump::interface::{Packet, CALLS};
use ump::wire::Text;
use ump::{Receiver, Ring, SendError, Sender, Sleeper};

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
    }
}

/// A ring in each direction.
struct Peer {
    sender: Sender<'static>,
    receiver: Receiver<'static>,
    /// What the ring had no room for.
    queue: VecDeque<Packet>,
    /// Where it says that it sleeps.
    sleeper: &'static Sleeper,
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
    sleeper: &'static Sleeper,
}

impl Peers {
    /// Maps the memory, for good.
    pub fn map(core: u32, cores: u32, online: u64) -> Result<Peers, Status> {
        let bytes = u64::from(cores) * u64::from(cores) * PAGE;
        if CHANNELS.identify()?.bytes != bytes || core >= cores {
            return Err(Status::OutOfRange);
        }
        let base = domain::with(|domain| domain.map(CHANNELS.into(), 0, bytes, RW))?;
        let ring = |from: u32, to: u32| -> &'static Ring {
            let page = u64::from(from) * u64::from(cores) + u64::from(to);
            // SAFETY: mapped for good; a ring is a page of atomics, of which all bytes are valid.
            unsafe { &*((base + page * PAGE) as *const Ring) }
        };
        let peer = |other: u32| {
            (other != core && online >> other & 1 != 0).then(|| Peer {
                sender: Sender::new(ring(core, other)),
                receiver: Receiver::new(ring(other, core)),
                queue: VecDeque::new(),
                sleeper: ring(other, other).sleeper(),
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
            sleeper: ring(core, core).sleeper(),
        })
    }

    /// Where this monitor says that it sleeps.
    pub fn sleeper(&self) -> &'static Sleeper {
        self.sleeper
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
            self.flush(core);
        }
    }

    /// The next message from `core`.
    pub fn receive(&mut self, core: u32) -> Option<Packet> {
        let peer = self.peer(core)?;
        let message = match peer.receiver.try_recv() {
            Ok(message) => message?,
            Err(ump::Broken) => return self.give_up(core),
        };
        peer.received = true;
        self.traffic.1 += 1;
        Packet::from_message(&message).ok().or_else(|| self.give_up(core))
    }

    /// After a round of receiving: sends what there was no room for, and wakes those who sleep and have
    /// something to do now. Has anything been sent?
    pub fn settle(&mut self) -> bool {
        (0..self.cores).fold(false, |any, core| self.flush(core) | self.wake(core) | any)
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

    fn wake(&mut self, core: u32) -> bool {
        let Some(peer) = self.peer(core) else { return false };
        // It may wait for room, or for what was sent.
        let wanted = core::mem::take(&mut peer.received) && peer.receiver.release();
        if (core::mem::take(&mut peer.sent) || wanted) && peer.sleeper.must_wake() {
            let _ = invoke(KERNEL, op::RingCore { core });
        }
        wanted
    }

    /// Is there anything to do? To be asked after the announcement that this monitor sleeps.
    pub fn is_ready(&mut self) -> bool {
        self.peers.iter_mut().flatten().any(|peer| {
            let mut room = |packet: &Packet| peer.sender.room_for(packet.body.words().len());
            let can_send = peer.queue.front().is_some_and(|packet| room(packet) != Ok(false));
            can_send || peer.receiver.peek().is_some()
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
        None
    }
}
