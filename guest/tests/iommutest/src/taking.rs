//! What was a device's is taken away, by each way there is.

use crate::lab::{seen, set_word, slot, word, Lab, FREE, OBJECT, POOL, SHOWN, SPACE, VIEW};
use crate::Test;
use libos::captypes::invocations::{Counter, DeviceFault};
use libos::captypes::CapType::Pool;
use libos::function::FunctionCap;
use libos::morsel::{MorselCap, PoolCap};
use libos::vspace::RW;
use libos::{Cap, Place, PAGE};
use testkit::{check, fails, good, Outcome};

pub const TESTS: &[Test] = &[
    ("unmapped", unmapped),
    ("deleted", deleted),
    ("revoked", revoked),
    ("discarded", discarded),
    ("behind_the_limit", behind_the_limit),
    ("snapshot", snapshot),
    ("committed", committed),
    ("destroyed", destroyed),
    ("pool_is_gone", pool_is_gone),
    ("parts", parts),
    ("grown", grown),
    ("invalidated_once", once),
];

const SECRET: u64 = 0x5ec2e7;

/// The device may read page 0 and write to page 1, and the IOMMU knows it.
fn begin(lab: &mut Lab) -> Outcome {
    good!(lab.furnish(RW));
    set_word(seen(0), 1);
    set_word(seen(1), 0);
    check!(good!(lab.fetches(0)) && good!(lab.stores(PAGE)) && word(seen(1)) == 1);
    set_word(seen(0), SECRET);
    set_word(seen(1), 2);
    Ok(())
}

/// The device reads and writes nothing of these pages, and knows nothing new: what it has read before it shows in page 1
/// of the object when that is mapped again.
fn refused(lab: &mut Lab) -> Outcome {
    check!(!good!(lab.stores(PAGE)) && !good!(lab.fetches(0)));
    Ok(())
}

fn unchanged_and_secret(lab: &mut Lab) -> Outcome {
    check!(word(seen(1)) == 2);
    good!(SPACE.map(0, 1, OBJECT, 0, RW, SHOWN));
    check!(good!(lab.stores(PAGE)) && word(seen(1)) != SECRET);
    Ok(())
}

fn unmapped(lab: &mut Lab) -> Outcome {
    begin(lab)?;
    good!(SHOWN.unmap(0, 1, Place::NULL));
    fails!(Empty, SHOWN.identify());
    refused(lab)?;
    unchanged_and_secret(lab)
}

fn deleted(lab: &mut Lab) -> Outcome {
    begin(lab)?;
    good!(SHOWN.delete());
    refused(lab)?;
    unchanged_and_secret(lab)
}

/// With the Mapping of the program, by whoever has all of the object.
fn revoked(lab: &mut Lab) -> Outcome {
    begin(lab)?;
    good!(OBJECT.revoke());
    fails!(Empty, SHOWN.identify());
    fails!(Empty, VIEW.identify());
    refused(lab)?;
    good!(crate::lab::PDPT.map(0, 1, OBJECT, 0, RW, VIEW));
    unchanged_and_secret(lab)
}

/// A page that is taken away goes to the next object that wants one.
fn discarded(lab: &mut Lab) -> Outcome {
    begin(lab)?;
    good!(OBJECT.discard_pages(0, 2));
    // The frames that were the device's, among others.
    let other = slot(FREE);
    good!(POOL.create_morsel(2, other));
    good!(other.populate(0, 64, false));
    refused(lab)?;
    let mut value = 0u64;
    let to = core::ptr::from_mut(&mut value) as u64;
    for page in 0..64 {
        check!(good!(other.read_morsel(page * PAGE, to, 8)).bytes == 8 && value == 0);
    }
    check!(word(seen(0)) == 0 && word(seen(1)) == 0);
    set_word(seen(1), 0);
    check!(good!(lab.stores(PAGE)) && word(seen(1)) != SECRET);
    Ok(())
}

fn behind_the_limit(lab: &mut Lab) -> Outcome {
    begin(lab)?;
    good!(OBJECT.populate(0, 20, false));
    check!(good!(lab.stores(19 * PAGE)) && word(seen(19)) == 1);
    good!(OBJECT.set_limit(10 * PAGE));
    check!(!good!(lab.stores(19 * PAGE)) && !good!(lab.fetches(10 * PAGE)));
    fails!(OutOfRange, OBJECT.populate(10, 1, false));
    check!(good!(lab.fetches(0)) && good!(lab.stores(9 * PAGE)) && word(seen(9)) == SECRET);
    good!(OBJECT.set_limit(1 << 30));
    check!(word(seen(19)) == 0);
    Ok(())
}

/// A snapshot is a consistent cut, of what devices write, too; they do not copy.
fn snapshot(lab: &mut Lab) -> Outcome {
    begin(lab)?;
    let copy = slot(FREE);
    good!(OBJECT.snapshot(copy));
    check!(!good!(lab.stores(PAGE)) && word(seen(1)) == 2);
    check!(good!(lab.fetches(0)));
    // The program's write copies the page, and then it is the object's own.
    set_word(seen(1), 3);
    check!(good!(lab.stores(PAGE)) && word(seen(1)) == SECRET);
    let mut value = 0u64;
    let to = core::ptr::from_mut(&mut value) as u64;
    check!(good!(copy.read_morsel(PAGE, to, 8)).bytes == 8 && value == 2);
    Ok(())
}

fn committed(lab: &mut Lab) -> Outcome {
    begin(lab)?;
    good!(OBJECT.commit());
    check!(!good!(lab.stores(PAGE)) && word(seen(1)) == 2);
    set_word(seen(1), 3);
    check!(good!(lab.stores(PAGE)) && word(seen(1)) == 1);
    Ok(())
}

fn destroyed(lab: &mut Lab) -> Outcome {
    begin(lab)?;
    good!(VIEW.delete());
    fails!(HasDescendants, OBJECT.destroy());
    check!(good!(lab.fetches(0)) && good!(lab.stores(PAGE)));
    good!(SHOWN.delete());
    good!(OBJECT.destroy());
    fails!(Empty, OBJECT.identify());
    refused(lab)
}

/// Its memory is other memory then.
fn pool_is_gone(lab: &mut Lab) -> Outcome {
    begin(lab)?;
    good!(POOL.delete());
    fails!(Empty, SHOWN.identify());
    refused(lab)?;
    good!(lab.ram.retype(Pool, 0, 8 << 20, 1, POOL));
    refused(lab)?;
    // The space is empty, and can be used for another object.
    good!(POOL.format_pool(libos::morsel::Persistence::Caches));
    good!(POOL.create_morsel(2, OBJECT));
    good!(OBJECT.populate(1, 1, false));
    good!(SPACE.map(0, 1, OBJECT, 0, RW, SHOWN));
    check!(good!(lab.stores(PAGE)));
    Ok(())
}

/// A part of a larger object, of which the rest is none of the device's.
fn parts(lab: &mut Lab) -> Outcome {
    let (large, part, shown) = (slot(FREE), slot(FREE + 1), slot(FREE + 2));
    begin(lab)?;
    good!(POOL.create_morsel(3, large));
    fails!(WrongLevel, SPACE.map(1, 1, large, 0, RW, shown));
    let first = 5 << 18;
    good!(large.populate(first + 7, 1, false));
    good!(large.part(first, 2, part));
    good!(SPACE.map(1, 1, part, 0, RW, shown));
    let at = (1 << 30) + 7 * PAGE;
    check!(good!(lab.stores(at)) && !good!(lab.stores(at + PAGE)));
    let mut value = 0u64;
    let to = core::ptr::from_mut(&mut value) as u64;
    check!(good!(large.read_morsel((first + 7) * PAGE, to, 8)).bytes == 8 && value == 1);
    good!(large.discard_pages(first, 16));
    check!(!good!(lab.stores(at)));
    // By who has all of it.
    good!(large.populate(first + 7, 1, false));
    check!(good!(lab.stores(at)));
    good!(large.revoke());
    check!(!good!(lab.stores(at)));
    Ok(())
}

/// What grows is shown as far as it was shown.
fn grown(lab: &mut Lab) -> Outcome {
    begin(lab)?;
    good!(OBJECT.grow());
    check!(good!(lab.stores(PAGE)) && word(seen(1)) == 1);
    good!(OBJECT.set_limit(2 << 30));
    good!(OBJECT.populate(1 << 18, 1, false));
    check!(!good!(lab.stores(1 << 30)));
    check!(good!(lab.fetches(0)) && good!(lab.stores(PAGE)) && word(seen(1)) == SECRET);
    good!(OBJECT.discard_pages(1, 1));
    check!(!good!(lab.stores(PAGE)));
    Ok(())
}

/// However many pages an event takes away, and none where no device has any.
fn once(lab: &mut Lab) -> Outcome {
    let flushes = || libos::log::counter(Counter::DeviceFlushes);
    begin(lab)?;
    good!(OBJECT.populate(0, 64, false));
    let before = good!(flushes());
    good!(SHOWN.protect(0, 1, RW));
    check!(good!(flushes()) == before + 1);
    good!(SHOWN.delete());
    check!(good!(flushes()) == before + 2);
    good!(lab.function.block());
    good!(lab.edu.store(0, 64));
    check!(good!(lab.is_refused(0, DeviceFault::WRITE, DeviceFault::NOT_ATTACHED)));
    Ok(())
}
