//! The protocol's view of a core: every step is an invocation of the monitor.

use super::node::{home, Node, SHARE};
use crate::tests::machine::FIRST;
use capproto::{
    Attempt, CoreId, CpuDriver, Held, Message, Monitor, Need, Outside, Progress, Region, WireCap,
};
use captypes::invocations::{received, Asked, Held as Flags, Need as Asks};
use captypes::{op, CapType, Place, RamAttrs, Status};
use std::collections::{BTreeMap, VecDeque};
use std::vec::Vec;

/// An invocation that waits: the invoker's address, and the number of the request.
pub type Client = (u64, u64);

/// What monitors are asked for.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Request {
    /// An invocation that the kernel has handed on.
    Redirected(Client),
    /// To delete what the kernel has left in this slot.
    Left(u64),
    /// To put a copy of what is in `slot` in a place on another core.
    Send { slot: u64, to: u8, place: u64 },
}

/// How a request ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// The kernel has answered.
    Settled,
    /// The monitor answers.
    Status(Result<(), Status>),
}

impl From<Result<(), Status>> for Answer {
    fn from(result: Result<(), Status>) -> Self {
        Answer::Status(result)
    }
}

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
    pub monitor: Monitor<Request, Client>,
    /// The slots that redirected invocations are about.
    slots: BTreeMap<Client, u64>,
}

/// A core during one step of its monitor.
struct World<'a> {
    node: &'a mut Node,
    slots: &'a mut BTreeMap<Client, u64>,
    wires: &'a mut Wires,
}

fn progress(result: Result<(), Status>) -> Progress {
    match result {
        Ok(()) => Progress::Done,
        Err(Status::Again) => Progress::Again,
        Err(other) => panic!("a step of the protocol was refused: {other:?}"),
    }
}

fn head(cap: &WireCap) -> u64 {
    u64::from(cap.ty)
        | u64::from(cap.rights) << 8
        | u64::from(cap.attrs) << 16
        | u64::from(cap.aux) << 32
}

macro_rules! step {
    ($world:ident, $op:ident, $cap:ident $(, $field:ident: $value:expr)*) => {
        $world.node.kernel(op::$op {
            head: head($cap), base: $cap.base, size: $cap.size, $($field: $value),*
        })
    };
}

impl World<'_> {
    fn held_at(&mut self, slot: u64) -> Option<(WireCap, Flags)> {
        let held = self.node.kernel(op::HeldAt { slot }).ok()?;
        let wire = held.cap();
        let cap = WireCap {
            ty: wire.head as u8,
            rights: wire.rights(),
            attrs: wire.attrs(),
            aux: wire.aux(),
            base: wire.base,
            size: wire.size,
        };
        Some((cap, held))
    }

    /// What an invocation that came to no end needs.
    fn asked(&mut self, asked: Asked) -> Attempt<Answer> {
        let need = match asked.need {
            Asks::Nothing => return Attempt::Done(Answer::Settled),
            Asks::Unlocked => return Attempt::Locked,
            Asks::Delete => Need::Delete,
            Asks::Revoke => Need::Revoke,
            Asks::Retype => {
                let tree = self.held_at(asked.slot).map_or(0, |(cap, _)| cap.region().tree);
                let part = Region { tree, base: asked.base, end: asked.base + asked.bytes };
                Need::Retype { part }
            }
        };
        let (cap, _) = self.held_at(asked.slot).expect("what the kernel asks for is there");
        Attempt::Remote { cap, need }
    }

    fn proceed(&mut self, client: Client, checked: bool) -> Attempt<Answer> {
        match self.node.kernel(op::Proceed { client: client.0, ticket: client.1, checked }) {
            Ok(asked) => {
                self.slots.insert(client, asked.slot);
                self.asked(asked)
            }
            Err(Status::Empty) => Attempt::Done(Answer::Settled),
            Err(other) => panic!("cannot proceed: {other:?}"),
        }
    }

    fn slot_of(&self, request: &Request) -> u64 {
        match request {
            Request::Redirected(client) => self.slots.get(client).copied().unwrap_or(0),
            Request::Left(slot) | Request::Send { slot, .. } => *slot,
        }
    }
}

fn can_travel(cap: &WireCap) -> bool {
    let home = RamAttrs(cap.attrs).has(RamAttrs::HOME);
    let own = |kind| matches!(kind, CapType::Kernel | CapType::PerfMon);
    !home && cap.kind().is_some_and(|kind| kind.can_be_copied() && !own(kind))
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

impl CpuDriver for World<'_> {
    type Request = Request;
    type Answer = Answer;

    fn home(&self, cap: &WireCap) -> Option<CoreId> {
        home_of(cap.region())
    }

    fn attempt(&mut self, request: &Request) -> Attempt<Answer> {
        match *request {
            Request::Redirected(client) => self.proceed(client, false),
            Request::Left(slot) => loop {
                match self.node.kernel(op::DeleteAt { slot }) {
                    Err(Status::Again) => {}
                    Ok(asked) => return self.asked(asked),
                    Err(other) => panic!("what was left cannot be deleted: {other:?}"),
                }
            },
            Request::Send { slot, to, place } => match self.held_at(slot) {
                Some((cap, _)) if can_travel(&cap) => {
                    Attempt::Remote { cap, need: Need::Send { to: CoreId(to), place } }
                }
                _ => Attempt::Done(Answer::Status(Err(Status::Empty))),
            },
        }
    }

    fn held(&mut self, request: &Request, cap: &WireCap) -> Option<Held> {
        if let Request::Redirected(client) = request {
            // Nobody waits for it any more.
            let dcb = self.node.clients.iter().position(|dcb| dcb.pa() == client.0)?;
            if !self.node.waits(dcb) {
                return None;
            }
        }
        let (now, held) = self.held_at(self.slot_of(request))?;
        let same = (now.ty, now.base, now.size) == (cap.ty, cap.base, cap.size);
        same.then_some(Held {
            owned: held.flags & Flags::OWNED != 0,
            alone: held.flags & Flags::ALONE != 0,
            remote_copies: held.flags & Flags::REMOTE_COPIES != 0,
            remote_descendants: held.flags & Flags::REMOTE_DESCENDANTS != 0,
        })
    }

    fn share(&mut self, cap: &WireCap) -> Progress {
        progress(step!(self, Share, cap))
    }

    fn retype(&mut self, request: &Request) -> Attempt<Answer> {
        let Request::Redirected(client) = *request else { panic!("only clients retype") };
        self.proceed(client, true)
    }

    fn revoke(&mut self, request: &Request, cap: &WireCap) -> Progress {
        let slot = self.slot_of(request);
        progress(step!(self, RevokeRest, cap, slot: slot))
    }

    fn disown(&mut self, cap: &WireCap) {
        step!(self, Disown, cap).unwrap();
    }

    fn delete_last(&mut self, _: &Request, cap: &WireCap) -> Progress {
        progress(step!(self, DeleteEverywhere, cap))
    }

    fn insert(&mut self, cap: &WireCap, place: u64) -> Result<(), Status> {
        step!(self, InsertCopy, cap, dst: Place(place))
    }

    fn in_use(&mut self, cap: &WireCap, part: Region) -> bool {
        let bytes = part.end - part.base;
        step!(self, InUse, cap, start: part.base, bytes: bytes).unwrap().value != 0
    }

    fn own(&mut self, cap: &WireCap) -> bool {
        step!(self, Own, cap).unwrap().value != 0
    }

    fn has_copy(&mut self, cap: &WireCap) -> bool {
        step!(self, HasCopy, cap).unwrap().value != 0
    }

    fn lock(&mut self, cap: &WireCap) {
        step!(self, Lock, cap).unwrap();
    }

    fn unlock(&mut self, cap: &WireCap) {
        step!(self, Unlock, cap).unwrap();
    }

    fn sweep(&mut self, cap: &WireCap) -> Progress {
        progress(step!(self, Sweep, cap))
    }

    fn first_cover(&mut self, region: Region) -> Option<Region> {
        let bytes = region.end - region.base;
        let span = self.node.kernel(op::FirstCover { start: region.base, bytes }).unwrap();
        (span.bytes != 0).then_some(Region {
            base: span.base,
            end: span.base + span.bytes,
            ..region
        })
    }

    fn give_back(&mut self, region: Region) {
        let bytes = region.end - region.base;
        self.node.kernel(op::GiveBack { start: region.base, bytes }).unwrap();
    }
}

impl Outside for World<'_> {
    type Client = Client;

    fn send(&mut self, to: CoreId, message: Message) {
        // As it would cross a channel.
        let message = Message::decode(&message.encode()).expect("what was encoded");
        self.wires.0.entry((self.node.id, to.0)).or_default().push_back(message);
    }

    fn finish(&mut self, client: Client, answer: Answer) {
        self.slots.remove(&client);
        if let Answer::Status(result) = answer {
            let status = result.map_or_else(Status::to_word, |()| 0);
            let args = op::Finish { client: client.0, ticket: client.1, status };
            match self.node.kernel(args) {
                Ok(()) | Err(Status::Empty) => {}
                Err(other) => panic!("cannot finish: {other:?}"),
            }
        }
    }
}

impl Site {
    pub fn new(id: u8) -> Site {
        let monitor = Monitor::new(CoreId(id));
        Site { node: Node::new(id), monitor, slots: BTreeMap::new() }
    }

    fn split<'a>(
        &'a mut self,
        wires: &'a mut Wires,
    ) -> (&'a mut Monitor<Request, Client>, World<'a>) {
        let world = World { node: &mut self.node, slots: &mut self.slots, wires };
        (&mut self.monitor, world)
    }

    /// The monitor looks for requests, and takes one. Was there any?
    pub fn receive(&mut self, wires: &mut Wires) -> bool {
        let left = self.node.kernel(op::NextLeft {}).unwrap().value;
        if left != 0 {
            let (monitor, mut world) = self.split(wires);
            monitor.request(&mut world, None, Request::Left(left));
            return true;
        }
        let Some((flags, words)) = self.node.poll() else { return false };
        if flags & received::REDIRECTED != 0 {
            let client = (words[1], words[2]);
            self.slots.insert(client, words[3]);
            let (monitor, mut world) = self.split(wires);
            monitor.request(&mut world, Some(client), Request::Redirected(client));
        }
        true
    }

    /// Somebody sends what is in a slot to another core.
    pub fn send(&mut self, wires: &mut Wires, slot: u64, to: u8, place: Place) {
        let (monitor, mut world) = self.split(wires);
        monitor.request(&mut world, None, Request::Send { slot, to, place: place.0 });
    }

    /// A message arrives.
    pub fn deliver(&mut self, wires: &mut Wires, from: u8) {
        let message = wires.0.get_mut(&(from, self.node.id)).and_then(VecDeque::pop_front);
        if let Some(message) = message {
            let (monitor, mut world) = self.split(wires);
            monitor.message(&mut world, CoreId(from), message);
        }
    }

    /// Goes on with what takes several steps.
    pub fn work(&mut self, wires: &mut Wires) -> bool {
        if !self.monitor.has_work() {
            return false;
        }
        let (monitor, mut world) = self.split(wires);
        monitor.work(&mut world);
        true
    }
}

/// Is it of a home's memory?
pub fn home_of_cap(cap: &mdb::RawCap) -> bool {
    let tree = captypes::Tree::Memory as u8;
    home_of(Region { tree, base: cap.base, end: cap.base + cap.word }).is_some()
}
