//! The capability protocol: `capproto` between the other monitors and this core's CPU driver.
//!
//! Every step that the protocol asks of the CPU driver is one invocation of the Kernel capability. What
//! the protocol says to other monitors goes through the rings, a line each.

use crate::peers::{peer, Peers};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use capproto::{
    Attempt, CoreId, CpuDriver, Held, Message, Monitor, Need, Outside, Progress, Region, WireCap,
};
use core::ops::Range;
use libos::abi::slots::{KERNEL, SELF_EP};
use libos::captypes::invocations::{Asked, Held as Flags, Invocation, Need as Asks};
use libos::captypes::place::L2_BYTES;
use libos::{domain, invoke, log, op, Cap, CapAddr, CapType, Place, RamAttrs, Status};

/// An invocation that the kernel has handed on: the invoker's name, the number of the request.
type Invoker = (u64, u64);

/// Who waits for the end of a request.
#[derive(Clone, Copy)]
pub enum Client {
    /// Whoever invoked.
    Invoker(Invoker),
    /// This monitor, on account of something with this number.
    Own(u32),
}

/// What is asked for.
#[derive(Clone, Copy)]
pub enum Request {
    /// An invocation that the kernel has handed on.
    Redirected(Invoker),
    /// To delete what is in this slot.
    Delete(u64),
    /// To put a copy of what is in `slot` in a place on another core.
    Send { slot: u64, to: u8, place: u64 },
}

/// How a request ended.
pub enum Answer {
    /// The kernel has told the invoker.
    Settled,
    /// It is to be told this.
    Status(Result<(), Status>),
}

impl From<Result<(), Status>> for Answer {
    fn from(result: Result<(), Status>) -> Self {
        Answer::Status(result)
    }
}

/// The part of this core.
pub struct Protocol {
    monitor: Monitor<Request, Client>,
    world: World,
    /// Slots that are empty when a request for that has been done.
    emptied: Vec<CapAddr>,
}

/// What the protocol knows besides.
struct World {
    /// The memory that each core had at the start, by its place, but for the boot core, whose is the rest.
    homes: Vec<(Range<u64>, CoreId)>,
    /// The slots that invocations are about.
    slots: BTreeMap<Invoker, u64>,
    /// Own requests that have ended.
    ended: Vec<(u32, Result<(), Status>)>,
}

/// The world during one event.
struct Step<'a> {
    world: &'a mut World,
    peers: &'a mut Peers,
}

impl Protocol {
    /// Begins to take part: the kernel hands on what it cannot do alone. `left`: the notification that it
    /// has left something to be deleted.
    pub fn begin(core: u32, homes: Vec<Range<u64>>, left: u64) -> Result<Protocol, Status> {
        let node = domain::with(|domain| domain.make(CapType::L2CNode, L2_BYTES))?;
        let (endpoint, node) = (SELF_EP.into(), node.into());
        invoke(KERNEL, op::SetMonitor { endpoint, bits: left, left: node })?;
        let others = homes.into_iter().enumerate().skip(1).filter(|(_, home)| !home.is_empty());
        let mut homes: Vec<_> = others.map(|(core, home)| (home, CoreId(core as u8))).collect();
        homes.sort_unstable_by_key(|(home, _)| home.start);
        let world = World { homes, slots: BTreeMap::new(), ended: Vec::new() };
        Ok(Protocol { monitor: Monitor::new(CoreId(core as u8)), world, emptied: Vec::new() })
    }

    fn split<'a>(
        &'a mut self,
        peers: &'a mut Peers,
    ) -> (&'a mut Monitor<Request, Client>, Step<'a>) {
        (&mut self.monitor, Step { world: &mut self.world, peers })
    }

    fn request(&mut self, peers: &mut Peers, client: Option<Client>, request: Request) {
        let (monitor, mut step) = self.split(peers);
        monitor.request(&mut step, client, request);
    }

    /// The kernel has handed on an invocation.
    pub fn redirected(&mut self, peers: &mut Peers, words: [u64; 6]) {
        let [_, invoker, ticket, slot, ..] = words;
        let invoker = (invoker, ticket);
        self.world.slots.insert(invoker, slot);
        self.request(peers, Some(Client::Invoker(invoker)), Request::Redirected(invoker));
    }

    /// The kernel may have left something to be deleted.
    pub fn look_for_left(&mut self, peers: &mut Peers) {
        while let Ok(left) = invoke(KERNEL, op::NextLeft {}) {
            if left.value == 0 {
                return;
            }
            self.request(peers, None, Request::Delete(left.value));
        }
    }

    /// Another monitor has said something.
    pub fn message(&mut self, peers: &mut Peers, from: u32, words: &[u64; capproto::WORDS]) {
        match Message::decode(words) {
            Ok(message) => {
                let (monitor, mut step) = self.split(peers);
                monitor.message(&mut step, CoreId(from as u8), message);
            }
            Err(error) => log!("monitor {}: core {from} sent {error:?}", peers.core),
        }
    }

    /// Begins to put a copy of the capability in a slot of the monitor of another core. It ends with
    /// `number`; see [`Protocol::take_ended`].
    pub fn send(
        &mut self,
        peers: &mut Peers,
        cap: CapAddr,
        to: u32,
        place: u64,
        number: u32,
    ) -> Result<(), Status> {
        let slot = invoke(KERNEL, op::SlotAt { place: cap.into() })?.value;
        let request = Request::Send { slot, to: to as u8, place };
        self.request(peers, Some(Client::Own(number)), request);
        Ok(())
    }

    /// Deletes what is in an own slot, which is free afterwards.
    pub fn discard(&mut self, peers: &mut Peers, cap: CapAddr) {
        if let Ok(slot) = invoke(KERNEL, op::SlotAt { place: cap.into() }) {
            self.request(peers, None, Request::Delete(slot.value));
            self.emptied.push(cap);
        }
    }

    /// An own request that has ended, and how.
    pub fn take_ended(&mut self) -> Option<(u32, Result<(), Status>)> {
        self.world.ended.pop()
    }

    /// Is nothing going on: no operation, no lock, nobody waiting, nothing to be deleted?
    pub fn is_quiet(&self) -> bool {
        self.monitor.is_quiet() && self.world.slots.is_empty() && self.emptied.is_empty()
    }

    /// Goes on with what takes several steps. Is there more?
    pub fn work(&mut self, peers: &mut Peers) -> bool {
        if self.monitor.has_work() {
            let (monitor, mut step) = self.split(peers);
            monitor.work(&mut step);
        }
        self.emptied.retain(|&slot| match slot.identify() {
            Err(Status::Empty) => domain::free_slot(slot).is_err(),
            _ => true,
        });
        self.monitor.has_work()
    }
}

fn head(cap: &WireCap) -> u64 {
    u64::from(cap.ty)
        | u64::from(cap.rights) << 8
        | u64::from(cap.attrs) << 16
        | u64::from(cap.aux) << 32
}

/// One step of the CPU driver, with a capability and what else it needs.
macro_rules! step {
    ($op:ident, $cap:ident $(, $field:ident: $value:expr)*) => {
        kernel(op::$op { head: head($cap), base: $cap.base, size: $cap.size, $($field: $value),* })
    };
}

/// An invocation of the kernel that is not refused unless something is wrong.
fn kernel<I: Invocation>(step: I) -> Result<I::Reply, Status> {
    let result = invoke(KERNEL, step);
    if let Err(error) = result {
        if !matches!(error, Status::Again | Status::Empty) {
            log!("monitor: {:?} was refused: {error:?}", I::LABEL);
        }
    }
    result
}

fn progress(result: Result<(), Status>) -> Progress {
    match result {
        Err(Status::Again) => Progress::Again,
        _ => Progress::Done,
    }
}

fn is_one(result: Result<libos::captypes::invocations::Value, Status>) -> bool {
    result.is_ok_and(|reply| reply.value != 0)
}

fn held_at(slot: u64) -> Option<(WireCap, Flags)> {
    let held = invoke(KERNEL, op::HeldAt { slot }).ok()?;
    let wire = held.cap();
    let (ty, rights, attrs, aux) = (wire.head as u8, wire.rights(), wire.attrs(), wire.aux());
    Some((WireCap { ty, rights, attrs, aux, base: wire.base, size: wire.size }, held))
}

/// Each core has its own of some things.
fn can_travel(cap: &WireCap) -> bool {
    let home = RamAttrs(cap.attrs).has(RamAttrs::HOME);
    let own = |kind| matches!(kind, CapType::Kernel | CapType::PerfMon);
    !home && cap.kind().is_some_and(|kind| kind.can_be_copied() && !own(kind))
}

/// What an invocation that came to no end needs.
fn attempt_of(asked: Asked) -> Attempt<Answer> {
    let need = match asked.need {
        Asks::Nothing => return Attempt::Done(Answer::Settled),
        Asks::Unlocked => return Attempt::Locked,
        Asks::Delete => Need::Delete,
        Asks::Revoke => Need::Revoke,
        Asks::Retype => {
            let tree = held_at(asked.slot).map_or(0, |(cap, _)| cap.region().tree);
            let end = asked.base.saturating_add(asked.bytes);
            Need::Retype { part: Region { tree, base: asked.base, end } }
        }
    };
    match held_at(asked.slot) {
        Some((cap, _)) => Attempt::Remote { cap, need },
        None => Attempt::Done(Answer::Status(Err(Status::Empty))),
    }
}

impl Step<'_> {
    fn proceed(&mut self, invoker: Invoker, checked: bool) -> Attempt<Answer> {
        match kernel(op::Proceed { client: invoker.0, ticket: invoker.1, checked }) {
            Ok(asked) => {
                self.world.slots.insert(invoker, asked.slot);
                attempt_of(asked)
            }
            // It has gone.
            Err(_) => Attempt::Done(Answer::Settled),
        }
    }

    fn slot_of(&self, request: &Request) -> u64 {
        match request {
            Request::Redirected(invoker) => self.world.slots.get(invoker).copied().unwrap_or(0),
            Request::Delete(slot) | Request::Send { slot, .. } => *slot,
        }
    }
}

impl CpuDriver for Step<'_> {
    type Request = Request;
    type Answer = Answer;

    fn home(&self, cap: &WireCap) -> Option<CoreId> {
        let region = cap.region();
        if !region.is_memory() {
            return Some(CoreId(0));
        }
        // The first that may touch it.
        let at = self.world.homes.partition_point(|(home, _)| home.end <= region.base);
        match self.world.homes.get(at) {
            Some((home, core)) if home.start < region.end => {
                (home.start <= region.base && region.end <= home.end).then_some(*core)
            }
            _ => Some(CoreId(0)),
        }
    }

    fn attempt(&mut self, request: &Request) -> Attempt<Answer> {
        match *request {
            Request::Redirected(invoker) => self.proceed(invoker, false),
            Request::Delete(slot) => loop {
                match kernel(op::DeleteAt { slot }) {
                    Err(Status::Again) => {}
                    Ok(asked) => return attempt_of(asked),
                    Err(error) => return Attempt::Done(Answer::Status(Err(error))),
                }
            },
            Request::Send { slot, to, place } => match held_at(slot) {
                Some((cap, _)) if can_travel(&cap) => {
                    Attempt::Remote { cap, need: Need::Send { to: CoreId(to), place } }
                }
                Some(_) => Attempt::Done(Answer::Status(Err(Status::WrongType))),
                None => Attempt::Done(Answer::Status(Err(Status::Empty))),
            },
        }
    }

    fn held(&mut self, request: &Request, cap: &WireCap) -> Option<Held> {
        let (now, held) = held_at(self.slot_of(request))?;
        let same = (now.ty, now.base, now.size) == (cap.ty, cap.base, cap.size);
        same.then_some(Held {
            owned: held.flags & Flags::OWNED != 0,
            alone: held.flags & Flags::ALONE != 0,
            remote_copies: held.flags & Flags::REMOTE_COPIES != 0,
            remote_descendants: held.flags & Flags::REMOTE_DESCENDANTS != 0,
        })
    }

    fn share(&mut self, cap: &WireCap) -> Progress {
        progress(step!(Share, cap))
    }

    fn retype(&mut self, request: &Request) -> Attempt<Answer> {
        match *request {
            Request::Redirected(invoker) => self.proceed(invoker, true),
            _ => Attempt::Done(Answer::Status(Err(Status::Invalid))),
        }
    }

    fn revoke(&mut self, request: &Request, cap: &WireCap) -> Progress {
        let slot = self.slot_of(request);
        progress(step!(RevokeRest, cap, slot: slot))
    }

    fn disown(&mut self, cap: &WireCap) {
        let _ = step!(Disown, cap);
    }

    fn delete_last(&mut self, _: &Request, cap: &WireCap) -> Progress {
        progress(step!(DeleteEverywhere, cap))
    }

    fn insert(&mut self, cap: &WireCap, place: u64) -> Result<(), Status> {
        step!(InsertCopy, cap, dst: Place(place))
    }

    fn in_use(&mut self, cap: &WireCap, part: Region) -> bool {
        is_one(step!(InUse, cap, start: part.base, bytes: part.end - part.base))
    }

    fn own(&mut self, cap: &WireCap) -> bool {
        is_one(step!(Own, cap))
    }

    fn has_copy(&mut self, cap: &WireCap) -> bool {
        is_one(step!(HasCopy, cap))
    }

    fn lock(&mut self, cap: &WireCap) {
        let _ = step!(Lock, cap);
    }

    fn unlock(&mut self, cap: &WireCap) {
        let _ = step!(Unlock, cap);
    }

    fn sweep(&mut self, cap: &WireCap) -> Progress {
        progress(step!(Sweep, cap))
    }

    fn first_cover(&mut self, region: Region) -> Option<Region> {
        let bytes = region.end - region.base;
        let span = kernel(op::FirstCover { start: region.base, bytes }).ok()?;
        let end = span.base.saturating_add(span.bytes);
        (span.bytes != 0).then_some(Region { base: span.base, end, ..region })
    }

    fn give_back(&mut self, region: Region) {
        let bytes = region.end - region.base;
        let _ = kernel(op::GiveBack { start: region.base, bytes });
    }
}

impl Outside for Step<'_> {
    type Client = Client;

    fn send(&mut self, to: CoreId, message: Message) {
        let request = peer::Request::protocol { words: message.encode() };
        self.peers.send(to.0.into(), request.encode(0));
    }

    fn finish(&mut self, client: Client, answer: Answer) {
        match (client, answer) {
            (Client::Invoker(invoker), answer) => {
                self.world.slots.remove(&invoker);
                let Answer::Status(result) = answer else { return };
                let status = result.map_or_else(Status::to_word, |()| 0);
                let _ = kernel(op::Finish { client: invoker.0, ticket: invoker.1, status });
            }
            (Client::Own(number), Answer::Status(result)) => {
                self.world.ended.push((number, result));
            }
            (Client::Own(number), Answer::Settled) => self.world.ended.push((number, Ok(()))),
        }
    }
}
