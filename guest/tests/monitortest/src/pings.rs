//! All monitors answer.

use crate::Test;
use libos::cores::{self, Machine};
use libos::log;
use testkit::{check, fails, good, Outcome};

pub const TESTS: &[Test] = &[("all_answer", all_answer), ("no_such_core", no_such_core)];

const ROUNDS: u32 = 200;

fn all_answer(machine: &Machine) -> Outcome {
    for core in 1..machine.count {
        let (sent, received) = good!(cores::traffic());
        let ticks = good!(cores::ping(core, ROUNDS));
        let after = good!(cores::traffic());
        check!(after == (sent + u64::from(ROUNDS), received + u64::from(ROUNDS)));
        log!("@bench ping_core_{core} {} ticks", ticks / u64::from(ROUNDS));
    }
    Ok(())
}

fn no_such_core(machine: &Machine) -> Outcome {
    for core in [machine.count, 64, u32::MAX] {
        fails!(OutOfRange, cores::ping(core, 1));
    }
    check!(good!(cores::ping(0, 1)) == 0);
    Ok(())
}
