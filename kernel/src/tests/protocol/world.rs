//! What the protocol is connected to here: the CPU driver, by invocations of the monitor, and wires.

use super::node::{home, Node, SHARE};
use crate::cores::Cores;
use crate::tests::machine::FIRST;
use capproto::{Client, CoreId, Links, Message, Region, Request, Site as Protocol};
use captypes::invocations::{received, Invocation};
use captypes::{Label, Place, Status};
use std::collections::{BTreeMap, VecDeque};
use std::vec::Vec;

/// Messages on their way, in order between any two cores.
#[derive(Default)]
pub struct Wires(pub BTreeMap<(u8, u8), VecDeque<Message>>);

impl Wires {
    /// The pairs of cores between which something is on its way.
    pub fn busy(&self) -> Vec<(u8, u8)> {
        self.0.iter().filter(|(_, queue)| !queue.is_empty()).map(|(&pair, _)| pair).collect()
    }
}

/// One core with its monitor.
pub struct Site {
    pub node: Node,
    pub protocol: Protocol,
}

/// A core during one step of its monitor.
struct World<'a> {
    node: &'a mut Node,
    wires: &'a mut Wires,
}

impl Links for World<'_> {
    fn invoke<I: Invocation>(&mut self, step: I) -> Result<I::Reply, Status> {
        self.node.kernel(step)
    }

    fn refused(&mut self, step: Label, error: Status) {
        // The place of a copy may have been taken.
        assert!(
            step == Label::InsertCopy,
            "core {}: {step:?} was refused: {error:?}",
            self.node.id
        );
    }

    fn send(&mut self, to: CoreId, message: Message) {
        // As it would cross a channel.
        let message = Message::decode(&message.encode()).expect("what was encoded");
        self.wires.0.entry((self.node.id, to.0)).or_default().push_back(message);
    }

    fn ended(&mut self, _: u32, result: Result<(), Status>) {
        // What was to be sent may have gone, or stay where it is; its place may have been taken, or gone, its pool be closed.
        let expected = [
            Status::Empty,
            Status::WrongType,
            Status::Occupied,
            Status::NoSlot,
            Status::WrongState,
        ];
        assert!(
            result.is_ok() || result.is_err_and(|error| expected.contains(&error)),
            "{result:?}"
        );
    }
}

/// The core whose memory this is.
pub fn home_of(region: Region) -> Option<CoreId> {
    if !region.is_memory() {
        return Some(CoreId(0));
    }
    let core = (region.base.checked_sub(FIRST)? / SHARE) as u8;
    let home = home(core);
    (home.start <= region.base && region.end <= home.end).then_some(CoreId(core))
}

impl Site {
    pub fn new(id: u8, cores: u8, shared: Cores) -> Site {
        let homes = (0..cores).map(home).collect();
        Site { node: Node::new(id, shared), protocol: Protocol::new(CoreId(id), homes) }
    }

    fn split<'a>(&'a mut self, wires: &'a mut Wires) -> (&'a mut Protocol, World<'a>) {
        (&mut self.protocol, World { node: &mut self.node, wires })
    }

    /// The monitor looks for requests, and takes one. Was there any?
    pub fn receive(&mut self, wires: &mut Wires) -> bool {
        let (protocol, mut world) = self.split(wires);
        if protocol.take_left(&mut world) {
            return true;
        }
        let Some((flags, words)) = world.node.poll() else { return false };
        if flags & received::REDIRECTED != 0 {
            protocol.redirected(&mut world, words);
        }
        true
    }

    /// Somebody sends what is in a slot to another core.
    pub fn send(&mut self, wires: &mut Wires, slot: u64, to: u8, place: Place) {
        let (protocol, mut world) = self.split(wires);
        let request = Request::Send { slot, to: CoreId(to), place: place.0 };
        protocol.request(&mut world, Some(Client::Own(0)), request);
    }

    /// A message arrives.
    pub fn deliver(&mut self, wires: &mut Wires, from: u8) {
        let message = wires.0.get_mut(&(from, self.node.id)).and_then(VecDeque::pop_front);
        if let Some(message) = message {
            let (protocol, mut world) = self.split(wires);
            protocol.message(&mut world, CoreId(from), message);
        }
    }

    /// Goes on with what takes several steps.
    pub fn work(&mut self, wires: &mut Wires) -> bool {
        if !self.protocol.has_work() {
            return false;
        }
        let (protocol, mut world) = self.split(wires);
        protocol.work(&mut world);
        true
    }
}

/// Is it of a home's memory?
pub fn home_of_cap(cap: &mdb::RawCap) -> bool {
    let tree = captypes::Tree::Memory as u8;
    home_of(Region { tree, base: cap.base, end: cap.base + cap.word }).is_some()
}
