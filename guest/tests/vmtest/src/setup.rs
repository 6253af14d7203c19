//! A machine with a memory server, and what must be left when a test is over.

use libos::abi::slots::{KERNEL, MEMD};
use libos::captypes::invocations::Counter;
use libos::ephemeral::Window;
use libos::memd::stats;
use libos::runtime::Boot;
use libos::{bringup, domain, invoke, log, op, Status};
use testkit::{check, good, Failure, Outcome};

/// What tests get.
pub struct Lab {
    /// Of everything random.
    pub seed: u64,
    /// Random operations in one test.
    pub rounds: u64,
    /// For writing to Frames that are not mapped.
    pub window: Window,
    /// The ELF file of this program.
    pub own_file: &'static [u8],
}

/// What there is: everything that the test must give back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Census {
    /// Free bytes, with those that the runtime itself took since the start.
    free: u64,
    capabilities: u64,
}

fn census() -> Result<Census, Status> {
    let kept = domain::with(|domain| {
        domain.arena.release()?;
        Ok(domain.kept())
    })?;
    let free = stats(MEMD)?.free + kept.bytes;
    let all = libos::log::counter(Counter::Capabilities).unwrap_or(0);
    Ok(Census { free, capabilities: all - kept.caps })
}

impl Lab {
    /// Starts the memory server, which has all memory from then on.
    pub fn start(boot: &Boot) -> Result<Lab, Failure> {
        let window = bringup::prepare(boot);
        let failure = |what, status| Failure { line: line!(), what, status };
        let mut window = window.map_err(|status| failure("there is RAM", Some(status)))?;
        let file = bootarchive::find(boot.archive(), "boot/memd").ok().flatten();
        let file = file.ok_or(failure("there is boot/memd", None))?;
        bringup::start_memd(boot, file.data, 1, &mut window)
            .map_err(|_| failure("the memory server starts", None))?;
        let rounds = libos::cmdline::number(boot.cmdline(), "rounds").unwrap_or(20_000);
        let archive: &'static [u8] = boot.archive();
        let own = bootarchive::find(archive, "boot/programs/vmtest").ok().flatten();
        let own_file = own.map_or(&[][..], |entry| entry.data);
        Ok(Lab { seed: boot.seed(), rounds, window, own_file })
    }

    /// Runs a test, which must give back every byte and every capability.
    pub fn run(&mut self, test: fn(&mut Lab) -> Outcome) -> Outcome {
        let before = good!(census());
        test(self)?;
        good!(invoke(KERNEL, op::CheckInvariants {}));
        let after = good!(census());
        if before != after {
            log!("before {before:?}, after {after:?}");
        }
        check!(before == after);
        Ok(())
    }
}
