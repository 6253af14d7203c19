//! The capability protocol: `capproto` between the other monitors and this core's CPU driver.
//!
//! Every step that the protocol asks of the CPU driver is one invocation of the Kernel capability. What
//! the protocol says to other monitors goes through the rings, a line each.

use crate::peers::{peer, Peers};
use alloc::vec::Vec;
use capproto::{Client, CoreId, Links, Message, Request, Site};
use core::ops::Range;
use libos::abi::slots::{KERNEL, SELF_EP};
use libos::captypes::invocations::Invocation;
use libos::captypes::place::L2_BYTES;
use libos::captypes::Label;
use libos::{domain, invoke, log, op, Cap, CapAddr, CapType, Status};

/// The part of this core.
pub struct Protocol {
    site: Site,
    /// Own requests that have ended.
    ended: Vec<(u32, Result<(), Status>)>,
    /// Slots that are empty when a request for that has been done.
    emptied: Vec<CapAddr>,
}

/// What the part of this core is connected to.
struct World<'a> {
    peers: &'a mut Peers,
    ended: &'a mut Vec<(u32, Result<(), Status>)>,
}

impl Links for World<'_> {
    fn invoke<I: Invocation>(&mut self, step: I) -> Result<I::Reply, Status> {
        invoke(KERNEL, step)
    }

    fn refused(&mut self, step: Label, error: Status) {
        log!("monitor {}: {step:?} was refused: {error:?}", self.peers.core);
    }

    fn send(&mut self, to: CoreId, message: Message) {
        let request = peer::Request::protocol { words: message.encode() };
        self.peers.send(to.0.into(), request.encode(0));
    }

    fn ended(&mut self, number: u32, result: Result<(), Status>) {
        self.ended.push((number, result));
    }
}

impl Protocol {
    /// Begins to take part: the kernel hands on what it cannot do alone. `left`: the notification that it
    /// has left something to be deleted.
    pub fn begin(core: u32, homes: Vec<Range<u64>>, left: u64) -> Result<Protocol, Status> {
        let node = domain::with(|domain| domain.make(CapType::L2CNode, L2_BYTES))?;
        let (endpoint, node) = (SELF_EP.into(), node.into());
        invoke(KERNEL, op::SetMonitor { endpoint, bits: left, left: node })?;
        let site = Site::new(CoreId(core as u8), homes);
        Ok(Protocol { site, ended: Vec::new(), emptied: Vec::new() })
    }

    fn split<'a>(&'a mut self, peers: &'a mut Peers) -> (&'a mut Site, World<'a>) {
        (&mut self.site, World { peers, ended: &mut self.ended })
    }

    fn request(&mut self, peers: &mut Peers, client: Option<Client>, request: Request) {
        let (site, mut world) = self.split(peers);
        site.request(&mut world, client, request);
    }

    /// Memory has another home from now on.
    pub fn rehome(&mut self, memory: Range<u64>, core: u32) {
        self.site.rehome(memory, CoreId(core as u8));
    }

    /// The kernel has handed on an invocation.
    pub fn redirected(&mut self, peers: &mut Peers, words: [u64; 6]) {
        let (site, mut world) = self.split(peers);
        site.redirected(&mut world, words);
    }

    /// The kernel may have left something to be deleted.
    pub fn look_for_left(&mut self, peers: &mut Peers) {
        let (site, mut world) = self.split(peers);
        while site.take_left(&mut world) {}
    }

    /// Another monitor has said something.
    pub fn message(&mut self, peers: &mut Peers, from: u32, words: &[u64; capproto::WORDS]) {
        match Message::decode(words) {
            Ok(message) => {
                let (site, mut world) = self.split(peers);
                site.message(&mut world, CoreId(from as u8), message);
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
        let request = Request::Send { slot, to: CoreId(to as u8), place };
        self.request(peers, Some(Client::Own(number)), request);
        Ok(())
    }

    /// Deletes what is in an own slot, which is free afterwards.
    pub fn discard(&mut self, peers: &mut Peers, cap: CapAddr) {
        if let Ok(slot) = invoke(KERNEL, op::SlotAt { place: cap.into() }) {
            self.emptied.push(cap);
            self.request(peers, None, Request::Delete(slot.value));
        }
    }

    /// An own request that has ended, and how.
    pub fn take_ended(&mut self) -> Option<(u32, Result<(), Status>)> {
        self.ended.pop()
    }

    /// Is nothing going on: no operation, no lock, nobody waiting, nothing to be deleted?
    pub fn is_quiet(&self) -> bool {
        self.site.is_quiet() && self.emptied.is_empty()
    }

    /// Goes on with what takes several steps. Is there more?
    pub fn work(&mut self, peers: &mut Peers) -> bool {
        let (site, mut world) = self.split(peers);
        let more = site.work(&mut world);
        self.emptied.retain(|&slot| match slot.identify() {
            Err(Status::Empty) => domain::free_slot(slot).is_err(),
            _ => true,
        });
        more
    }
}
