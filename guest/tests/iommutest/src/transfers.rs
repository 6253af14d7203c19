//! What a device may do, and where it is refused.

use crate::edu::MOST;
use crate::lab::{seen, set_word, slot, word, Lab, FREE, OBJECT, POOL, REST, SHOWN, SPACE};
use crate::Test;
use libos::captypes::invocations::DeviceFault;
use libos::captypes::CapType::DeviceSpace;
use libos::function::FunctionCap;
use libos::morsel::{MorselCap, PoolCap};
use libos::vspace::{R, RW};
use libos::{Cap, PAGE};
use testkit::{check, good, Outcome};

pub const TESTS: &[Test] = &[
    ("both_ways", both_ways),
    ("large_pages", large_pages),
    ("nothing_is_populated_for_a_device", nothing_is_populated),
    ("holes_that_were_read", holes),
    ("addresses_that_are_not_mapped", not_mapped),
    ("read_only", read_only),
    ("blocked", blocked),
    ("another_space", another_space),
];

/// What the program writes the device reads, and the other way.
fn both_ways(lab: &mut Lab) -> Outcome {
    good!(lab.furnish(RW));
    (0..MOST / 8).for_each(|n| set_word(seen(5) + 8 * n, 0x1000 + n));
    good!(OBJECT.populate(9, 1, false));
    good!(lab.edu.fetch(5 * PAGE, MOST));
    good!(lab.edu.store(9 * PAGE + 1024, MOST));
    check!((0..MOST / 8).all(|n| word(seen(9) + 1024 + 8 * n) == 0x1000 + n));
    check!((0..128).all(|n| word(seen(9) + 8 * n) == 0) && word(seen(9) + 1024 + MOST) == 0);
    // Over the border of two pages.
    good!(OBJECT.populate(20, 2, false));
    good!(lab.edu.store(21 * PAGE - 1024, MOST));
    check!((0..MOST / 8).all(|n| word(seen(21) - 1024 + 8 * n) == 0x1000 + n));
    check!(good!(lab.fault()).is_none());
    Ok(())
}

fn large_pages(lab: &mut Lab) -> Outcome {
    good!(lab.furnish(RW));
    good!(OBJECT.populate(512, 512, true));
    set_word(seen(512 + 300), 77);
    check!(good!(lab.fetches((512 + 300) * PAGE)));
    check!(good!(lab.stores((512 + 511) * PAGE)) && word(seen(512 + 511)) == 77);
    Ok(())
}

/// Only what was there before: devices do not wait.
fn nothing_is_populated(lab: &mut Lab) -> Outcome {
    good!(lab.furnish(RW));
    set_word(seen(0), 1);
    check!(good!(lab.fetches(0)));
    let free = good!(POOL.pool_info()).free;
    for page in [1, 511, 512, (1 << 18) - 1] {
        check!(!good!(lab.stores(page * PAGE)) && !good!(lab.fetches(page * PAGE)));
    }
    check!(good!(POOL.pool_info()).free == free);
    good!(OBJECT.populate(1, 1, false));
    // What the device has read in vain is not what it had before.
    check!(good!(lab.fetches(0)) && good!(lab.stores(PAGE)) && word(seen(1)) == 1);
    Ok(())
}

/// A hole that the program has read shows the constant zeros, which a device cannot write to.
fn holes(lab: &mut Lab) -> Outcome {
    good!(lab.furnish(RW));
    set_word(seen(0), 5);
    check!(good!(lab.fetches(0)));
    check!(word(seen(3)) == 0);
    check!(!good!(lab.stores(3 * PAGE)));
    check!(word(seen(3)) == 0 && word(seen(4)) == 0);
    good!(OBJECT.populate(7, 1, false));
    check!(good!(lab.stores(7 * PAGE)) && word(seen(7)) == 5);
    check!(good!(lab.fetches(3 * PAGE)));
    check!(good!(lab.stores(7 * PAGE)) && word(seen(7)) == 0);
    Ok(())
}

/// Physical addresses are none of a device that is attached, nor is what lies behind the object.
fn not_mapped(lab: &mut Lab) -> Outcome {
    good!(lab.furnish(RW));
    set_word(seen(0), 0x5ec);
    check!(good!(lab.fetches(0)));
    let kernel = 2 << 20;
    let own = good!(lab.ram.identify()).base;
    for address in [kernel, own, 1 << 30, (3 << 30) + PAGE, (1 << 39) - PAGE] {
        check!(!good!(lab.stores(address)) && !good!(lab.fetches(address)));
    }
    // Further than tables of three levels reach.
    for address in [1 << 39, 1 << 46] {
        good!(lab.edu.store(address, 64));
        check!(good!(lab.is_refused(address, DeviceFault::WRITE, DeviceFault::TOO_FAR)));
        good!(lab.edu.fetch(address, 64));
        check!(good!(lab.is_refused(address, 0, DeviceFault::TOO_FAR)));
    }
    // All goes on.
    set_word(seen(1), 0);
    check!(good!(lab.fetches(0)) && good!(lab.stores(PAGE)) && word(seen(1)) == 0x5ec);
    Ok(())
}

fn read_only(lab: &mut Lab) -> Outcome {
    good!(lab.furnish(R));
    set_word(seen(0), 1);
    set_word(seen(1), 2);
    check!(good!(lab.fetches(0)) && !good!(lab.stores(PAGE)) && word(seen(1)) == 2);
    good!(SHOWN.protect(0, 1, RW));
    check!(good!(lab.stores(PAGE)) && word(seen(1)) == 1);
    set_word(seen(1), 3);
    good!(SHOWN.protect(0, 1, R));
    check!(!good!(lab.stores(PAGE)) && word(seen(1)) == 3 && good!(lab.fetches(0)));
    check!(good!(SHOWN.protect_many(1, RW)) == 1);
    check!(good!(lab.stores(PAGE)) && word(seen(1)) == 1);
    set_word(seen(1), 4);
    check!(good!(SHOWN.protect_many(1, R)) == 1);
    check!(!good!(lab.stores(PAGE)) && word(seen(1)) == 4);
    Ok(())
}

/// A function that is blocked, or whose space is gone, reaches nothing.
fn blocked(lab: &mut Lab) -> Outcome {
    good!(lab.furnish(RW));
    set_word(seen(0), 1);
    set_word(seen(1), 2);
    check!(good!(lab.fetches(0)) && good!(lab.stores(PAGE)) && word(seen(1)) == 1);
    let refused = |lab: &Lab| -> Outcome {
        set_word(seen(1), 3);
        for address in [PAGE, 2 << 20] {
            good!(lab.edu.store(address, 64));
            check!(good!(lab.is_refused(address, DeviceFault::WRITE, DeviceFault::NOT_ATTACHED)));
            good!(lab.edu.fetch(address, 64));
            check!(good!(lab.is_refused(address, 0, DeviceFault::NOT_ATTACHED)));
        }
        check!(word(seen(1)) == 3);
        Ok(())
    };
    good!(lab.function.block());
    refused(lab)?;
    good!(lab.function.attach(SPACE));
    check!(good!(lab.fetches(0)) && good!(lab.stores(PAGE)) && word(seen(1)) == 1);
    good!(SPACE.delete());
    refused(lab)
}

/// The same addresses, and another object.
fn another_space(lab: &mut Lab) -> Outcome {
    let (other, space, shown) = (slot(FREE), slot(FREE + 1), slot(FREE + 2));
    good!(lab.furnish(RW));
    good!(POOL.create_morsel(2, other));
    good!(other.populate(1, 1, false));
    good!(lab.ram.retype(DeviceSpace, REST, PAGE, 1, space));
    good!(space.map(0, 1, other, 0, RW, shown));
    set_word(seen(0), 1);
    set_word(seen(1), 2);
    check!(good!(lab.fetches(0)) && good!(lab.stores(PAGE)) && word(seen(1)) == 1);
    set_word(seen(1), 3);
    good!(lab.function.attach(space));
    check!(good!(lab.stores(PAGE)) && word(seen(1)) == 3);
    let mut value = 0u64;
    let to = core::ptr::from_mut(&mut value) as u64;
    check!(good!(other.read_morsel(PAGE, to, 8)).bytes == 8 && value == 1);
    // The first one's end is none of the device's business any more.
    good!(SPACE.delete());
    check!(good!(lab.stores(PAGE)));
    Ok(())
}
