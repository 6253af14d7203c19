//! Memory that two domains see, and that one takes away from the other.

use crate::peer::{parcel, Handle, Order, Result};
use crate::probe::{load, store};
use crate::setup::Lab;
use crate::Test;
use libos::frame::Frame;
use libos::memory::{self, Error, Map, Object, PageSize, SharedFrame, SharedTable, NONE};
use libos::vspace::{R, RW};
use libos::{log, PAGE};
use testkit::{check, good, Outcome, Rng};

pub const TESTS: &[Test] = &[
    ("share_frame_read_only", frame_read_only),
    ("share_frame_writable", frame_writable),
    ("share_frame_copies_are_revoked", copies),
    ("share_table", table),
    ("share_table_read_only", table_read_only),
    ("share_and_revoke_at_random", random),
];

const LARGE: u64 = 2 << 20;

fn fault(address: u64, write: bool, present: bool) -> Result {
    Result::Fault { address, write, present }
}

/// The address in a result.
fn address(result: Result) -> core::result::Result<u64, Error> {
    match result {
        Result::Done(va) => Ok(va),
        _ => Err(Error::NotMapped),
    }
}

fn frame_read_only(lab: &mut Lab) -> Outcome {
    let peer = good!(Handle::start(lab));
    let object = Object::new(good!(SharedFrame::new(4 * PAGE, PageSize::Base)));
    let region = good!(memory::map(&object, Map::default()));
    check!(store(region.start() + PAGE, 5) == Ok(()));
    let to = good!(parcel());
    good!(good!(object.with(|object| object.share(R, to))));
    let map = Order::MapFrame { writable: false, lazy: false };
    let va = good!(address(good!(peer.order_with(map, to)))) + PAGE;
    check!(good!(peer.order(Order::Load(va))) == Result::Done(5));
    check!(store(region.start() + PAGE, 6) == Ok(()));
    check!(good!(peer.order(Order::Load(va))) == Result::Done(6));
    check!(good!(peer.order(Order::Store(va, 1))) == fault(va, true, true));
    // A second capability, which the peer cannot map writable either.
    let to = good!(parcel());
    good!(good!(object.with(|object| object.share(R, to))));
    let map = Order::MapFrame { writable: true, lazy: false };
    check!(good!(peer.order_with(map, to)) == Result::Refused);
    good!(object.manage(|object, pages| object.revoke(pages)));
    check!(good!(peer.order(Order::Load(va))) == fault(va, false, false));
    // The owner has it as before.
    check!(load(region.start() + PAGE) == Ok(6) && store(region.start(), 1) == Ok(()));
    check!(good!(peer.order(Order::Drop)) == Result::Done(0));
    good!(peer.end());
    Ok(())
}

fn frame_writable(lab: &mut Lab) -> Outcome {
    let peer = good!(Handle::start(lab));
    let object = Object::new(good!(SharedFrame::new(2 * LARGE, PageSize::Large)));
    let region = good!(memory::map(&object, Map::default().size(PageSize::Large)));
    for lazy in [false, true] {
        let to = good!(parcel());
        good!(good!(object.with(|object| object.share(RW, to))));
        let map = Order::MapFrame { writable: true, lazy };
        let va = good!(address(good!(peer.order_with(map, to))));
        check!(good!(peer.order(Order::Store(va + LARGE + 8, 77))) == Result::Done(0));
        check!(load(region.start() + LARGE + 8) == Ok(77));
        // A part of the owner's region is read-only, and stays so.
        good!(region.protect(LARGE, PAGE, R));
        good!(object.manage(|object, pages| object.revoke(pages)));
        check!(
            good!(peer.order(Order::Store(va + LARGE + 8, 1)))
                == fault(va + LARGE + 8, true, false)
        );
        check!(good!(peer.order(Order::Load(va))) == fault(va, false, false));
        check!(load(region.start() + LARGE + 8) == Ok(77));
        check!(store(region.start() + LARGE + 8, 1).is_err());
        check!(store(region.start() + LARGE + PAGE, 1) == Ok(()));
        good!(region.protect(LARGE, PAGE, RW));
    }
    good!(peer.end());
    Ok(())
}

/// What a peer makes of a capability is revoked with it.
fn copies(lab: &mut Lab) -> Outcome {
    let a = good!(Handle::start(lab));
    let object = Object::new(good!(SharedFrame::new(PAGE, PageSize::Base)));
    let region = good!(memory::map(&object, Map::default()));
    check!(store(region.start(), 12) == Ok(()));
    let to = good!(parcel());
    good!(good!(object.with(|object| object.share(R, to))));
    let map = Order::MapFrame { writable: false, lazy: false };
    let first = good!(address(good!(a.order_with(map, to))));
    let second = good!(address(good!(a.order(Order::MapCopy))));
    check!(good!(a.order(Order::Load(second))) == Result::Done(12));
    good!(object.manage(|object, pages| object.revoke(pages)));
    for va in [first, second] {
        check!(good!(a.order(Order::Load(va))) == fault(va, false, false));
    }
    check!(good!(a.order(Order::MapCopy)) == Result::Refused);
    check!(load(region.start()) == Ok(12));
    good!(a.end());
    Ok(())
}

fn table(lab: &mut Lab) -> Outcome {
    let peer = good!(Handle::start(lab));
    let object = Object::new(good!(SharedTable::new(PageSize::Base)));
    let region = good!(memory::map(&object, Map::default()));
    let at = |page: u64| region.start() + page * PAGE;
    check!(region.start() % LARGE == 0 && store(at(3), 3) == Ok(()));
    let to = good!(parcel());
    good!(good!(object.with(|object| object.share(RW, to))));
    let map = Order::MapTable { writable: true };
    let there = good!(address(good!(peer.order_with(map, to))));
    check!(good!(peer.order(Order::Load(there + 3 * PAGE))) == Result::Done(3));
    // What comes later is there without a word.
    let page = there + 500 * PAGE;
    check!(good!(peer.order(Order::Load(page))) == fault(page, false, false));
    check!(store(at(500), 500) == Ok(()));
    check!(good!(peer.order(Order::Load(page))) == Result::Done(500));
    check!(good!(peer.order(Order::Store(page, 501))) == Result::Done(0));
    check!(load(at(500)) == Ok(501));
    // And what goes is gone.
    let gone = good!(good!(object.with(|object| object.remove(500))));
    check!(good!(peer.order(Order::Load(page))) == fault(page, false, false));
    check!(good!(object.with(|object| object.insert(500, gone))) == Ok(()));
    check!(good!(peer.order(Order::Load(page))) == Result::Done(501));
    let small = good!(Frame::new(2 * PAGE));
    check!(good!(object.with(|object| object.insert(7, small))) == Err(Error::OutOfRange));
    // Parts of a shared table cannot be protected or unmapped by themselves.
    check!(region.protect(0, PAGE, R) == Err(Error::Shared));
    check!(region.unmap(0, PAGE) == Err(Error::Shared));
    good!(region.protect(0, LARGE, R));
    check!(store(at(3), 0).is_err() && load(at(3)) == Ok(3));
    good!(object.manage(|object, pages| object.revoke(pages)));
    check!(good!(peer.order(Order::Load(page))) == fault(page, false, false));
    check!(load(at(500)) == Ok(501) && store(at(500), 1).is_err());
    good!(region.protect(0, LARGE, RW));
    check!(store(at(500), 1) == Ok(()));
    good!(peer.end());
    Ok(())
}

fn table_read_only(lab: &mut Lab) -> Outcome {
    let peer = good!(Handle::start(lab));
    let object = Object::new(good!(SharedTable::new(PageSize::Base)));
    let region = good!(memory::map(&object, Map::default()));
    check!(store(region.start(), 9) == Ok(()));
    for writable in [true, false] {
        let to = good!(parcel());
        good!(good!(object.with(|object| object.share(R, to))));
        let mapped = good!(peer.order_with(Order::MapTable { writable }, to));
        if writable {
            check!(mapped == Result::Refused);
            continue;
        }
        let there = good!(address(mapped));
        check!(good!(peer.order(Order::Load(there))) == Result::Done(9));
        check!(good!(peer.order(Order::Store(there, 1))) == fault(there, true, true));
        // It cannot put anything in for others to read.
        check!(good!(peer.order(Order::Insert(17))) == Result::Refused);
        // Without rights the owner sees nothing, the peer does.
        good!(region.protect(0, LARGE, NONE));
        check!(load(region.start()).is_err());
        check!(good!(peer.order(Order::Load(there))) == Result::Done(9));
        good!(object.manage(|object, pages| object.revoke(pages)));
        check!(good!(peer.order(Order::Load(there))) == fault(there, false, false));
        good!(region.protect(0, LARGE, R));
        check!(load(region.start()) == Ok(9));
    }
    good!(peer.end());
    Ok(())
}

/// Sharing, revoking, loads and stores of both sides, in any order.
fn random(lab: &mut Lab) -> Outcome {
    log!("share_and_revoke_at_random: seed {:#x}", lab.seed);
    let mut random = Rng::with_seed(lab.seed);
    let peer = good!(Handle::start(lab));
    let object = Object::new(good!(SharedFrame::new(8 * PAGE, PageSize::Base)));
    let region = good!(memory::map(&object, Map::default()));
    let mut model = [0; 8];
    // Where the peer has it, and whether it may write.
    let mut there: Option<(u64, bool)> = None;
    for round in 1..lab.rounds / 10 {
        let page = random.u64(..8);
        match random.u64(..6) {
            0 if there.is_none() => {
                let (writable, lazy) = (random.u64(..2) == 0, random.u64(..2) == 0);
                let to = good!(parcel());
                let prot = if writable { RW } else { R };
                good!(good!(object.with(|object| object.share(prot, to))));
                let map = Order::MapFrame { writable, lazy };
                there = Some((good!(address(good!(peer.order_with(map, to)))), writable));
            }
            0 if random.u64(..4) == 0 => {
                good!(object.manage(|object, pages| object.revoke(pages)));
                if let Some((va, _)) = there.take() {
                    let at = va + page * PAGE;
                    check!(good!(peer.order(Order::Load(at))) == fault(at, false, false));
                    check!(good!(peer.order(Order::Drop)) == Result::Done(0));
                }
            }
            1 | 2 => {
                check!(store(region.start() + page * PAGE, round) == Ok(()));
                model[page as usize] = round;
            }
            3 => check!(load(region.start() + page * PAGE) == Ok(model[page as usize])),
            4 => {
                if let Some((va, _)) = there {
                    let value = good!(peer.order(Order::Load(va + page * PAGE)));
                    check!(value == Result::Done(model[page as usize]));
                }
            }
            _ => {
                if let Some((va, writable)) = there {
                    let at = va + page * PAGE;
                    let stored = good!(peer.order(Order::Store(at, round)));
                    if writable {
                        check!(stored == Result::Done(0));
                        model[page as usize] = round;
                    } else {
                        check!(
                            matches!(stored, Result::Fault { address, write: true, .. } if address == at)
                        );
                    }
                }
            }
        }
    }
    good!(peer.end());
    Ok(())
}
