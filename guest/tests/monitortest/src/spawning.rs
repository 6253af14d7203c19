//! Parts of a program on all cores, and their exit statuses.

use crate::part::digits;
use crate::Test;
use alloc::vec::Vec;
use libos::cores::{self, Machine, Part, CRASHED};
use testkit::{check, fails, good, Outcome};

pub const TESTS: &[Test] = &[
    ("exit_statuses", exit_statuses),
    ("at_the_same_time", at_the_same_time),
    ("crashes", crashes),
    ("refused", refused),
    ("around_the_cores", around_the_cores),
];

const NAME: &str = "monitortest";

fn exit_statuses(machine: &Machine) -> Outcome {
    for core in 0..machine.count {
        let mut text = [0; 20];
        let part =
            good!(cores::spawn_on(core, &[NAME, "add", "40", digits(core.into(), &mut text)]));
        check!(good!(part.wait()) == 40 + u64::from(core));
    }
    Ok(())
}

fn at_the_same_time(machine: &Machine) -> Outcome {
    for _ in 0..2 {
        let start = |core| cores::spawn_on(core, &[NAME, "core"]);
        let parts: Vec<Part> = good!((0..machine.count).map(start).collect());
        for (core, part) in (0..).zip(parts) {
            check!(good!(part.wait()) == core);
        }
    }
    Ok(())
}

fn crashes(machine: &Machine) -> Outcome {
    for core in 0..machine.count.min(4) {
        check!(good!(good!(cores::spawn_on(core, &[NAME, "crash"])).wait()) == CRASHED);
        check!(good!(good!(cores::spawn_on(core, &[NAME, "add", "7"])).wait()) == 7);
    }
    Ok(())
}

fn refused(machine: &Machine) -> Outcome {
    for core in 0..machine.count.min(3) {
        fails!(NoSlot, good!(cores::spawn_on(core, &["there-is-no-such-program"])).wait());
        fails!(Invalid, good!(cores::spawn_on(core, &["root/etc/passwd"])).wait());
        fails!(OutOfRange, cores::spawn_on(core, &[NAME; 15]).map(|_| ()));
    }
    fails!(OutOfRange, cores::spawn_on(machine.count, &[NAME]).map(|_| ()));
    Ok(())
}

fn around_the_cores(machine: &Machine) -> Outcome {
    let rounds = u64::from(machine.count.min(8)) + 1;
    let mut text = [0; 20];
    let part = good!(cores::spawn_on(1, &[NAME, "chain", digits(rounds, &mut text)]));
    check!(good!(part.wait()) == (1 + rounds) % u64::from(machine.count));
    Ok(())
}
