//! Memory that a pager in another domain serves: here the test is the pager, and its peers map.

use crate::peer::{parcel, Handle, Order, Result as Obeyed, PAGER};
use crate::setup::Lab;
use crate::Test;
use alloc::vec::Vec;
use libos::abi::slots::{DISPATCHER, SELF_EP};
use libos::frame::{Frame, FrameRequest};
use libos::interface::OwnedCap;
use libos::memory::{self, pager, Error, Map, Object, PageSize, SharedFrame, VRegion};
use libos::vspace::{R, RW};
use libos::{domain, invoke, log, op, Cap, CapAddr, CapType, Rights, Status, PAGE};
use testkit::{check, good, Outcome, Rng};

pub const TESTS: &[Test] = &[
    ("served_pages_come_when_touched", touched),
    ("served_pages_are_taken_back", taken_back),
    ("served_large_pages", large_pages),
    ("served_two_domains", two_domains),
    ("served_pager_misbehaves", misbehaves),
    ("served_pager_is_gone", gone),
    ("served_at_random", random),
];

/// Words of a page.
const WORDS: u64 = PAGE / 8;

/// What word `index` of the object is before anybody writes it.
fn word(index: u64) -> u64 {
    index.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1
}

/// How a pager answers that does what it should not.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Manner {
    Good,
    Refuses(Status),
    SmallFrame,
    NoFrame,
    NeverWritable,
}

/// A page that the pager has in memory, and sees itself.
struct Present {
    object: Object<SharedFrame>,
    region: VRegion,
    written: bool,
}

/// Computes its pages, and keeps what was written to.
struct Pager {
    size: PageSize,
    present: Vec<Option<Present>>,
    /// The words of pages that were written to and are not in memory.
    kept: Vec<Option<Vec<u64>>>,
    manner: Manner,
    /// Calls for reading, and for writing.
    calls: [u64; 2],
}

impl Pager {
    fn new(pages: usize, size: PageSize) -> Pager {
        Pager {
            size,
            present: (0..pages).map(|_| None).collect(),
            kept: (0..pages).map(|_| None).collect(),
            manner: Manner::Good,
            calls: [0; 2],
        }
    }

    /// Words of a page that are looked at: of a large one the first of each small one.
    fn step(&self) -> u64 {
        if self.size == PageSize::Base {
            1
        } else {
            WORDS
        }
    }

    fn bring(&mut self, page: usize) -> Result<&mut Present, Error> {
        if self.present[page].is_none() {
            let object = Object::new(SharedFrame::new(self.size.bytes(), self.size)?);
            let region = memory::map(&object, Map::default().size(self.size))?;
            let words: *mut u64 = region.as_ptr();
            let kept = self.kept[page].take();
            let first = page as u64 * (self.size.bytes() / 8);
            for index in (0..self.size.bytes() / 8).step_by(self.step() as usize) {
                let at = (index / self.step()) as usize;
                let value = kept.as_ref().map_or(word(first + index), |words| words[at]);
                // SAFETY: inside of the region, which is mapped and writable.
                unsafe { words.add(index as usize).write_volatile(value) };
            }
            self.present[page] = Some(Present { object, region, written: kept.is_some() });
        }
        self.present[page].as_mut().ok_or(Error::NoPage)
    }

    /// Takes a page back from everybody.
    fn evict(&mut self, page: usize) -> Result<(), Error> {
        let Some(Present { object, region, written }) = self.present[page].take() else {
            return Ok(());
        };
        object.manage(|object, pages| object.revoke(pages))?;
        if written {
            let words: *const u64 = region.as_ptr();
            let all = (0..self.size.bytes() / 8).step_by(self.step() as usize);
            // SAFETY: inside of the region, which is mapped.
            self.kept[page] =
                Some(all.map(|at| unsafe { words.add(at as usize).read() }).collect());
        }
        Ok(())
    }

    /// The object's endpoint, in a slot from which it can be sent.
    fn endpoint() -> Result<CapAddr, Status> {
        let slot = parcel()?;
        SELF_EP.mint_badged(slot, Rights::SEND, PAGER)?;
        Ok(slot)
    }
}

fn status(error: Error) -> Status {
    match error {
        Error::Kernel(status) => status,
        _ => Status::NoMemory,
    }
}

impl pager::Server for Pager {
    fn describe(&mut self, _: u64) -> Result<(u64, u64), Status> {
        Ok((self.present.len() as u64 * self.size.bytes(), self.size.bytes()))
    }

    fn page(&mut self, _: u64, page: u64, write: bool) -> Result<OwnedCap, Status> {
        self.calls[usize::from(write)] += 1;
        let manner = self.manner;
        match manner {
            Manner::Refuses(status) => return Err(status),
            Manner::SmallFrame => {
                let wrong = FrameRequest::bytes(2 * PAGE).aligned(2 * PAGE);
                return Frame::with(wrong).map(|frame| OwnedCap::own(frame.into_cap()));
            }
            Manner::NoFrame => return OwnedCap::copy_of(SELF_EP),
            Manner::Good | Manner::NeverWritable => {}
        }
        let writable = write && manner == Manner::Good;
        let present = self.bring(page as usize).map_err(status)?;
        present.written |= writable;
        let slot = domain::with(|domain| domain.slot())?;
        let prot = if writable { RW } else { R };
        let shared = present.object.with(|object| object.share(prot, slot));
        shared.and_then(|shared| shared).map_err(status)?;
        Ok(OwnedCap::own(slot))
    }
}

/// Starts a peer that has the pager's object mapped, and where.
fn mapped(lab: &mut Lab, pager: &mut Pager, writable: bool) -> Result<(Handle, u64), Status> {
    let peer = Handle::start(lab)?;
    let large = pager.size == PageSize::Large;
    let order = Order::MapServed { writable, large };
    match peer.order_served(order, Some(Pager::endpoint()?), pager)? {
        Obeyed::Done(va) => Ok((peer, va)),
        _ => Err(Status::Invalid),
    }
}

fn fault(address: u64, write: bool, present: bool) -> Obeyed {
    Obeyed::Fault { address, write, present }
}

fn touched(lab: &mut Lab) -> Outcome {
    let mut pager = Pager::new(8, PageSize::Base);
    let (peer, va) = good!(mapped(lab, &mut pager, true));
    check!(pager.calls == [0, 0]);
    let at = |index: u64| va + index * 8;
    check!(good!(peer.order_served(Order::Load(at(1)), None, &mut pager)) == Obeyed::Done(word(1)));
    check!(
        good!(peer.order_served(Order::Load(at(511)), None, &mut pager)) == Obeyed::Done(word(511))
    );
    check!(pager.calls == [1, 0]);
    // The first write is told, and no other.
    check!(good!(peer.order_served(Order::Store(at(2), 22), None, &mut pager)) == Obeyed::Done(0));
    check!(good!(peer.order_served(Order::Store(at(3), 33), None, &mut pager)) == Obeyed::Done(0));
    check!(pager.calls == [1, 1]);
    check!(good!(peer.order_served(Order::Load(at(2)), None, &mut pager)) == Obeyed::Done(22));
    // A page that is written to first comes by one call.
    let seventh = 7 * WORDS;
    check!(
        good!(peer.order_served(Order::Store(at(seventh), 7), None, &mut pager)) == Obeyed::Done(0)
    );
    check!(
        good!(peer.order_served(Order::Load(at(seventh + 1)), None, &mut pager))
            == Obeyed::Done(word(seventh + 1))
    );
    check!(pager.calls == [1, 2]);
    // The pager sees what was written.
    let seen = pager.present[0].as_ref().map(|page| page.region.as_ptr::<u64>());
    // SAFETY: the region is mapped.
    check!(seen.map(|words| unsafe { words.add(3).read_volatile() }) == Some(33));
    // Behind the object there is nothing, and nobody is asked.
    let end = at(8 * WORDS);
    check!(
        good!(peer.order_served(Order::Load(end), None, &mut pager)) == fault(end, false, false)
    );
    check!(pager.calls == [1, 2]);
    check!(good!(peer.order_served(Order::Drop, None, &mut pager)) == Obeyed::Done(0));
    good!(peer.end());
    Ok(())
}

fn taken_back(lab: &mut Lab) -> Outcome {
    let mut pager = Pager::new(4, PageSize::Base);
    let (peer, va) = good!(mapped(lab, &mut pager, true));
    for (round, page) in [0, 3, 0, 3, 3].into_iter().enumerate() {
        let (at, value) = (va + page * PAGE + 8, round as u64 + 100);
        check!(
            good!(peer.order_served(Order::Store(at, value), None, &mut pager)) == Obeyed::Done(0)
        );
        good!(pager.evict(page as usize));
        // It comes again with what was in it, and read-only until it is written to.
        let calls = pager.calls;
        check!(good!(peer.order_served(Order::Load(at), None, &mut pager)) == Obeyed::Done(value));
        check!(pager.calls == [calls[0] + 1, calls[1]]);
        check!(
            good!(peer.order_served(Order::Load(at + 8), None, &mut pager))
                == Obeyed::Done(word(page * WORDS + 2))
        );
        check!(pager.calls == [calls[0] + 1, calls[1]]);
    }
    good!(peer.end());
    Ok(())
}

fn large_pages(lab: &mut Lab) -> Outcome {
    let unit = PageSize::Large.bytes();
    let mut pager = Pager::new(2, PageSize::Large);
    let (peer, va) = good!(mapped(lab, &mut pager, true));
    check!(va.is_multiple_of(unit));
    let at = |page: u64| va + page * PAGE;
    for page in [0, 511, 512, 700] {
        let expected = Obeyed::Done(word(page * WORDS));
        check!(good!(peer.order_served(Order::Load(at(page)), None, &mut pager)) == expected);
    }
    check!(pager.calls == [2, 0]);
    check!(
        good!(peer.order_served(Order::Store(at(1023), 5), None, &mut pager)) == Obeyed::Done(0)
    );
    check!(pager.calls == [2, 1]);
    good!(pager.evict(1));
    check!(good!(peer.order_served(Order::Load(at(1023)), None, &mut pager)) == Obeyed::Done(5));
    check!(
        good!(peer.order_served(Order::Load(at(511)), None, &mut pager))
            == Obeyed::Done(word(511 * WORDS))
    );
    check!(pager.calls == [3, 1]);
    good!(peer.end());
    Ok(())
}

fn two_domains(lab: &mut Lab) -> Outcome {
    let mut pager = Pager::new(2, PageSize::Base);
    let (writer, there) = good!(mapped(lab, &mut pager, true));
    let (reader, here) = good!(mapped(lab, &mut pager, false));
    check!(
        good!(reader.order_served(Order::Load(here), None, &mut pager)) == Obeyed::Done(word(0))
    );
    check!(good!(writer.order_served(Order::Store(there, 4), None, &mut pager)) == Obeyed::Done(0));
    check!(good!(reader.order_served(Order::Load(here), None, &mut pager)) == Obeyed::Done(4));
    // The region of the other one is for reading, whatever the pager would give.
    let calls = pager.calls;
    check!(
        good!(reader.order_served(Order::Store(here, 5), None, &mut pager))
            == fault(here, true, true)
    );
    check!(pager.calls == calls);
    good!(pager.evict(0));
    for (peer, va) in [(&reader, here), (&writer, there)] {
        check!(good!(peer.order_served(Order::Load(va), None, &mut pager)) == Obeyed::Done(4));
    }
    check!(pager.calls == [calls[0] + 2, calls[1]]);
    good!(reader.end());
    check!(good!(writer.order_served(Order::Store(there, 6), None, &mut pager)) == Obeyed::Done(0));
    good!(writer.end());
    Ok(())
}

/// What a pager does wrong is a fault of the access, and no more than that.
fn misbehaves(lab: &mut Lab) -> Outcome {
    let mut pager = Pager::new(3, PageSize::Base);
    let (peer, va) = good!(mapped(lab, &mut pager, true));
    let (first, second) = (va, va + PAGE);
    let wrong = [Manner::Refuses(Status::OutOfRange), Manner::SmallFrame, Manner::NoFrame];
    for manner in wrong {
        pager.manner = manner;
        check!(
            good!(peer.order_served(Order::Load(first), None, &mut pager))
                == fault(first, false, false)
        );
        check!(
            good!(peer.order_served(Order::Store(first, 1), None, &mut pager))
                == fault(first, true, false)
        );
    }
    pager.manner = Manner::NeverWritable;
    check!(good!(peer.order_served(Order::Load(first), None, &mut pager)) == Obeyed::Done(word(0)));
    check!(
        good!(peer.order_served(Order::Store(first, 1), None, &mut pager))
            == fault(first, true, true)
    );
    check!(
        good!(peer.order_served(Order::Store(second, 1), None, &mut pager))
            == fault(second, true, false)
    );
    // And when it is good again, all is well.
    pager.manner = Manner::Good;
    for at in [first, second] {
        check!(good!(peer.order_served(Order::Store(at, 9), None, &mut pager)) == Obeyed::Done(0));
        check!(good!(peer.order_served(Order::Load(at), None, &mut pager)) == Obeyed::Done(9));
    }
    good!(peer.end());
    Ok(())
}

/// Nobody waits for a pager that has gone.
fn gone(lab: &mut Lab) -> Outcome {
    let mut pager = Pager::new(2, PageSize::Base);
    let peer = good!(Handle::start(lab));
    for turns in [0, 1, 20] {
        // An endpoint of its own, at which nobody receives.
        let endpoint = good!(domain::with(|domain| domain.make(CapType::Endpoint, PAGE)));
        let slot = good!(parcel());
        good!(endpoint.mint_badged(slot, Rights::SEND, PAGER));
        good!(peer.give(Order::MapServed { writable: true, large: false }, Some(slot)));
        for _ in 0..turns {
            good!(invoke(DISPATCHER, op::Yield {}));
        }
        good!(endpoint.revoke());
        good!(endpoint.delete());
        good!(domain::free_slot(endpoint));
        check!(good!(Handle::obeyed(&mut pager)) == Obeyed::Refused);
    }
    good!(peer.end());
    Ok(())
}

/// Loads and stores of two domains, and pages that are taken back, in any order.
fn random(lab: &mut Lab) -> Outcome {
    const PAGES: u64 = 6;
    log!("served_at_random: seed {:#x}", lab.seed);
    let mut random = Rng::with_seed(lab.seed);
    let mut pager = Pager::new(PAGES as usize, PageSize::Base);
    let peers = [good!(mapped(lab, &mut pager, true)), good!(mapped(lab, &mut pager, true))];
    // Two words of each page.
    let mut model: Vec<[u64; 2]> =
        (0..PAGES).map(|page| [word(page * WORDS), word(page * WORDS + 1)]).collect();
    for round in 1..lab.rounds / 10 {
        let (page, index) = (random.u64(..PAGES), random.u64(..2));
        let (peer, va) = &peers[random.usize(..2)];
        let at = va + page * PAGE + index * 8;
        let entry = &mut model[page as usize][index as usize];
        match random.u64(..4) {
            0 => good!(pager.evict(page as usize)),
            1 => {
                let stored = good!(peer.order_served(Order::Store(at, round), None, &mut pager));
                check!(stored == Obeyed::Done(0));
                *entry = round;
            }
            _ => {
                let loaded = good!(peer.order_served(Order::Load(at), None, &mut pager));
                check!(loaded == Obeyed::Done(*entry));
            }
        }
    }
    for (peer, _) in peers {
        good!(peer.end());
    }
    Ok(())
}
