//! A second domain, made of this program's own file, that does as it is told.
//!
//! It asks the test for orders: its call carries the result of the last one, the answer the next one
//! and perhaps a capability.

use crate::probe::{self, load, store, Unresolved};
use crate::setup::Lab;
use libos::abi::slots::{KERNEL, MEMD, SELF_EP};
use libos::interface::{self, Inbox, Incoming, OwnedCap, Packet, Payload};
use libos::ipc::{self, call, Caps};
use libos::memory::{
    self, pager, Error, ForeignTable, LazyFrame, Map, Object, OneFrame, PageSize, Prot, Served,
    VRegion,
};
use libos::runtime::{stop, Start};
use libos::spawn::{Child, SpawnError};
use libos::vspace::{R, RW};
use libos::{domain, frame::Frame, Cap, CapAddr, CapType, Place, Rights, Status, PAGE};

/// First argument of a start as a peer.
pub const PEER: u64 = 0x7065_6572;

/// Badge of requests to a pager that the test is itself.
pub const PAGER: u32 = 10;

/// What a peer can be told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// Maps the Frame that comes along, at once or lazily. Answers the address.
    MapFrame { writable: bool, lazy: bool },
    /// Maps the table that comes along. Answers the address.
    MapTable { writable: bool },
    /// Maps the object that a pager serves, whose endpoint comes along. Answers the address.
    MapServed { writable: bool, large: bool },
    /// Loads a word. Answers it.
    Load(u64),
    /// Stores a word.
    Store(u64, u64),
    /// Drops the region that was mapped last.
    Drop,
    /// Makes an entry of the table that came last for a Frame of its own.
    Insert(u64),
    /// Copies the capability that came last, and maps the copy.
    MapCopy,
    /// Ends.
    Stop,
}

impl Order {
    fn words(self) -> [u64; 6] {
        let [op, a, b] = match self {
            Order::MapFrame { writable, lazy } => [1, writable.into(), lazy.into()],
            Order::MapTable { writable } => [2, writable.into(), 0],
            Order::Load(va) => [3, va, 0],
            Order::Store(va, value) => [4, va, value],
            Order::Drop => [5, 0, 0],
            Order::Insert(page) => [6, page, 0],
            Order::MapCopy => [7, 0, 0],
            Order::Stop => [8, 0, 0],
            Order::MapServed { writable, large } => [9, writable.into(), large.into()],
        };
        [op, a, b, 0, 0, 0]
    }

    fn of(words: &[u64; 6]) -> Order {
        let [op, a, b, ..] = *words;
        match op {
            1 => Order::MapFrame { writable: a != 0, lazy: b != 0 },
            2 => Order::MapTable { writable: a != 0 },
            3 => Order::Load(a),
            4 => Order::Store(a, b),
            5 => Order::Drop,
            6 => Order::Insert(a),
            7 => Order::MapCopy,
            9 => Order::MapServed { writable: a != 0, large: b != 0 },
            _ => Order::Stop,
        }
    }
}

/// What became of an order: a value, a refusal, or a fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Result {
    Done(u64),
    Refused,
    Fault { address: u64, write: bool, present: bool },
}

impl Result {
    fn words(self) -> [u64; 6] {
        match self {
            Result::Done(value) => [0, value, 0, 0, 0, 0],
            Result::Refused => [1, 0, 0, 0, 0, 0],
            Result::Fault { address, write, present } => {
                [2, address, write.into(), present.into(), 0, 0]
            }
        }
    }
    fn of(words: &[u64; 6]) -> Result {
        match *words {
            [0, value, ..] => Result::Done(value),
            [2, address, write, present, ..] => {
                Result::Fault { address, write: write != 0, present: present != 0 }
            }
            _ => Result::Refused,
        }
    }
}

impl From<Unresolved> for Result {
    fn from(fault: Unresolved) -> Self {
        let write = fault.access == memory::Access::Write;
        Result::Fault { address: fault.address, write, present: fault.present }
    }
}

fn prot(writable: bool) -> Prot {
    if writable {
        RW
    } else {
        R
    }
}

/// The peer itself.
#[derive(Default)]
struct Peer {
    region: Option<VRegion>,
    cap: CapAddr,
}

/// The main function of a start as a peer.
pub fn main() -> ! {
    probe::install();
    let mut peer = Peer::default();
    let mut last = Result::Done(0);
    loop {
        let slot = domain::with(|domain| domain.slot()).expect("a peer has slots");
        let order = call(SELF_EP, last.words(), Caps::NONE, slot).expect("the test is there");
        if order.caps() == 1 {
            peer.cap = slot;
        } else {
            domain::free_or_lose_slot(slot);
        }
        last = peer.obey(Order::of(&order.words));
    }
}

impl Peer {
    fn obey(&mut self, order: Order) -> Result {
        let done = |result: core::result::Result<u64, Unresolved>| {
            result.map_or_else(Result::from, Result::Done)
        };
        let mapped =
            |result: core::result::Result<u64, Error>| result.map_or(Result::Refused, Result::Done);
        match order {
            Order::MapFrame { writable, lazy } => mapped(self.map_frame(writable, lazy)),
            Order::MapTable { writable } => mapped(self.map_table(writable)),
            Order::MapServed { writable, large } => mapped(self.map_served(writable, large)),
            Order::Load(va) => done(load(va)),
            Order::Store(va, value) => done(store(va, value).map(|()| 0)),
            Order::Drop => {
                self.region = None;
                Result::Done(0)
            }
            Order::Insert(page) => match self.insert(page) {
                Ok(()) => Result::Done(0),
                Err(_) => Result::Refused,
            },
            Order::MapCopy => mapped(self.map_copy()),
            Order::Stop => stop(),
        }
    }

    fn map_frame(&mut self, writable: bool, lazy: bool) -> core::result::Result<u64, Error> {
        let frame = Frame::from_cap(self.cap)?;
        let map = Map::default().prot(prot(writable));
        let region = if lazy {
            memory::map(&Object::new(LazyFrame::of(frame)), map)?
        } else {
            memory::map(&Object::new(OneFrame::of(frame)), map)?
        };
        let va = region.start();
        self.region = Some(region);
        Ok(va)
    }

    fn map_table(&mut self, writable: bool) -> core::result::Result<u64, Error> {
        let object = Object::new(ForeignTable::of(self.cap)?);
        let region = memory::map(&object, Map::default().prot(prot(writable)))?;
        let va = region.start();
        self.region = Some(region);
        Ok(va)
    }

    fn map_served(&mut self, writable: bool, large: bool) -> core::result::Result<u64, Error> {
        let object = Object::new(Served::of(OwnedCap::own(self.cap))?);
        let size = if large { PageSize::Large } else { PageSize::Base };
        let region = memory::map(&object, Map::default().prot(prot(writable)).size(size))?;
        let va = region.start();
        self.region = Some(region);
        Ok(va)
    }

    fn insert(&mut self, page: u64) -> core::result::Result<(), Status> {
        let (frame, mapping) =
            domain::with(|domain| Ok((domain.make(CapType::Frame, PAGE)?, domain.slot()?)))?;
        self.cap.map(page as u32, 1, frame, 0, RW, mapping)
    }

    fn map_copy(&mut self) -> core::result::Result<u64, Error> {
        let copy = domain::with(|domain| domain.slot())?;
        self.cap.copy_to(copy)?;
        let frame = Frame::from_cap(copy)?;
        let region = memory::map(&Object::new(OneFrame::of(frame)), Map::default().prot(R))?;
        Ok(region.leak())
    }
}

/// A peer, as the test sees it.
pub struct Handle {
    child: Child,
    root: CapAddr,
    dispatcher: CapAddr,
}

/// A slot of the test program from which a capability goes along with an order.
pub fn parcel() -> core::result::Result<CapAddr, Status> {
    domain::with(|domain| domain.slot())
}

impl Handle {
    /// Makes a peer and hears that it is there.
    pub fn start(lab: &mut Lab) -> core::result::Result<Handle, Status> {
        let mut built = None;
        let (root, dispatcher) = domain::with(|domain| {
            let (root, dispatcher) = (domain.slot()?, domain.slot()?);
            let (file, arena, window) = (lab.own_file, &mut domain.arena, &mut lab.window);
            built = Some(Child::build(file, root, dispatcher, arena, window));
            Ok((root, dispatcher))
        })?;
        let child = match built {
            Some(Ok(child)) => child,
            Some(Err(SpawnError::Status(status))) => return Err(status),
            _ => return Err(Status::Invalid),
        };
        child.give(MEMD, MEMD)?;
        // For its log.
        child.give(KERNEL, KERNEL)?;
        SELF_EP.mint_badged(child.slot(SELF_EP), Rights::SEND, 9)?;
        child.start([PEER, 0, 0, 0, 0], Place::NULL, &mut lab.window)?;
        ipc::recv(SELF_EP, Place::NULL)?;
        Ok(Handle { child, root, dispatcher })
    }

    /// Gives an order and waits for what becomes of it.
    pub fn order(&self, order: Order) -> core::result::Result<Result, Status> {
        self.send(order, Caps::NONE)
    }

    /// The same with the capability in `parcel`, which goes along and whose slot is free then.
    pub fn order_with(
        &self,
        order: Order,
        parcel: CapAddr,
    ) -> core::result::Result<Result, Status> {
        let result = self.send(order, Caps::moved(parcel, 1))?;
        domain::free_slot(parcel)?;
        Ok(result)
    }

    /// Gives an order, perhaps with the capability in `parcel`, and serves what the peers ask a pager until it was obeyed. The pager's
    /// endpoint is the test's own, with the badge [`PAGER`].
    pub fn order_served(
        &self,
        order: Order,
        parcel: Option<CapAddr>,
        pager: &mut impl pager::Server,
    ) -> core::result::Result<Result, Status> {
        self.give(order, parcel)?;
        Handle::obeyed(pager)
    }

    /// Gives an order, perhaps with the capability in `parcel`, and does not wait.
    pub fn give(&self, order: Order, parcel: Option<CapAddr>) -> core::result::Result<(), Status> {
        let caps = parcel.map_or(Caps::NONE, |slot| Caps::moved(slot, 1));
        ipc::reply(self.dispatcher, order.words(), caps)?;
        parcel.map_or(Ok(()), domain::free_slot)
    }

    /// Serves until a peer says what became of its order.
    pub fn obeyed(pager: &mut impl pager::Server) -> core::result::Result<Result, Status> {
        let (mut inbox, mut result) = (Inbox::new(), None);
        while result.is_none() {
            interface::wait_one(SELF_EP, &mut inbox, |incoming| {
                let Incoming::Request(from, mut request) = incoming else { return None };
                if from == PAGER.into() {
                    let answer = pager::dispatch(pager, from, &mut request);
                    return Some(answer.unwrap_or_else(Packet::error));
                }
                let kind = request.operation();
                result = <(u64, u64, u64)>::take(&mut request)
                    .ok()
                    .map(|(a, b, c)| Result::of(&[kind, a, b, c, 0, 0]));
                None
            })?;
        }
        result.ok_or(Status::Invalid)
    }

    fn send(&self, order: Order, caps: Caps) -> core::result::Result<Result, Status> {
        let answer = ipc::reply_recv(SELF_EP, Place::CALLER, order.words(), caps, Place::NULL)?;
        Ok(Result::of(&answer.words))
    }

    /// The end of the peer and of everything that only it had.
    pub fn end(self) -> core::result::Result<(), Status> {
        self.child.destroy()?;
        domain::free_slot(self.root)?;
        domain::free_slot(self.dispatcher)
    }
}

/// For the program's main function.
pub fn is_peer(start: &Start) -> bool {
    start.args[0] == PEER
}
