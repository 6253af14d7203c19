//! For tests and measurements that the kernel boots instead of `init`
//! (`init=boot/programs/NAME` on its command line).
//!
//! Such a program gets the whole machine. It says what it found on the kernel log, in lines that
//! `./x test` and `./x bench` read:
//!
//! ```text
//! @test NAME ok
//! @test NAME FAILED REASON
//! @bench NAME VALUE UNIT
//! @exit STATUS
//! ```

#![no_std]
#![warn(missing_docs)]

pub mod crowd;

/// The generator of all that is random in tests: a seed determines its numbers.
pub use fastrand::Rng;

use abi::layout::NATIVE_FRAME;
use abi::slots::{BOOT_RAM_L1, DISPATCHER};
use abi::DispatcherFrame;
use captypes::invocations::Counter;
pub use captypes::Status;
use captypes::{op, CapAddr};
use core::fmt;
use libos::ram::Arena;
use libos::runtime::{shutdown, Boot};
use libos::spawn::SpawnError;
use libos::{bringup, cmdline, domain, invoke, log, Cap};

/// Badge of the servers on the endpoint that is told of their faults.
const SERVERS: u32 = 1;

/// A file of the boot archive.
pub fn file(boot: &Boot, path: &str) -> Result<&'static [u8], Status> {
    let found = bootarchive::find(boot.archive(), path).map_err(|_| Status::Invalid)?;
    found.map(|entry| entry.data).ok_or(Status::NoSlot)
}

/// Starts the servers through which cores work together, as `init` does: `memd`, the monitor and
/// `spawnd`.
pub fn start_servers(boot: &Boot) -> Result<(), SpawnError> {
    let file = |path| file(boot, path);
    let mut window = bringup::prepare(boot)?;
    let mut memd = bringup::start_memd(boot, file("boot/memd")?, SERVERS, &mut window)?;
    bringup::start_monitor(boot, &mut memd, (0, 0), file("boot/monitor")?, SERVERS, &mut window)?;
    bringup::start_spawnd(boot, file("boot/spawnd")?, SERVERS, &mut window)
}

/// Starts these servers, runs tests, and ends the machine with their result.
pub fn run_with_servers(boot: &Boot, tests: impl FnOnce(&mut Runner)) -> ! {
    let mut runner = Runner::on(boot.cmdline());
    match start_servers(boot) {
        Ok(()) => tests(&mut runner),
        Err(error) => log!("@test prepare FAILED {error:?}"),
    }
    runner.finish()
}

/// The machine, as the first program gets it.
pub struct Machine {
    /// What the kernel says.
    pub boot: Boot,
    /// The largest RAM capability, of which the domain's arena is the first [`ARENA_BYTES`].
    pub ram: CapAddr,
    /// Physical address of its first byte.
    pub ram_base: u64,
    /// Its bytes.
    pub ram_bytes: u64,
}

/// Bytes of RAM that the domain's own arena gets.
pub const ARENA_BYTES: u64 = 32 << 20;

impl Machine {
    /// Takes the machine and gives the domain its arena.
    ///
    /// # Safety
    /// Only for the program that the kernel itself started, once.
    pub unsafe fn take() -> Result<Self, Status> {
        // SAFETY: by the caller's promise.
        let boot = unsafe { Boot::new() };
        let caps = (0..boot.info.ram_caps).map(|i| CapAddr::new(BOOT_RAM_L1, i));
        let sizes = caps.filter_map(|cap| Some((cap, cap.identify().ok()?)));
        let (ram, what) = sizes.max_by_key(|(_, what)| what.bytes).ok_or(Status::NoMemory)?;
        domain::with(|domain| {
            domain.arena = Arena::over(ram, 0, ARENA_BYTES.min(what.bytes / 2));
            Ok(())
        })?;
        Ok(Machine { boot, ram, ram_base: what.base, ram_bytes: what.bytes })
    }
}

/// Waits until the first domains of the other cores have nothing to do any more: they have invoked
/// nothing for a while. For measurements of all cores together.
pub fn settle(boot: &Boot) -> Result<(), Status> {
    let invocations = || -> Result<u64, Status> {
        let others = (0..boot.info.cores).filter(|&core| core != boot.info.core);
        others.map(|core| log::counter_of(core, Counter::Invocations)).sum()
    };
    // SAFETY: every program's frame is mapped there, for good.
    let hz = unsafe { (*(NATIVE_FRAME as *const DispatcherFrame)).tsc_hz };
    let mut before = None;
    while boot.info.cores > 1 && before != Some(invocations()?) {
        before = Some(invocations()?);
        // SAFETY: reads a counter.
        let deadline = unsafe { core::arch::x86_64::_rdtsc() } + hz / 50;
        invoke(DISPATCHER, op::SetTimer { deadline })?;
        invoke(DISPATCHER, op::Wait {})?;
    }
    Ok(())
}

/// NUMA nodes with memory, by the RAM capabilities that the kernel gave its first program. One that
/// has given them away to a memory server sees one node.
pub fn nodes() -> u32 {
    let caps = (0..256).map(|i| CapAddr::new(BOOT_RAM_L1, i));
    let nodes = caps.map_while(|cap| cap.identify().ok()).map(|what| u32::from(what.attrs.node()));
    nodes.max().map_or(1, |highest| highest + 1)
}

/// Why a test failed.
pub struct Failure {
    /// Where.
    pub line: u32,
    /// What was expected.
    pub what: &'static str,
    /// What the kernel said, if it was that.
    pub status: Option<Status>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)?;
        match self.status {
            Some(status) => write!(f, " ({status:?})"),
            None => Ok(()),
        }
    }
}

/// A test's result.
pub type Outcome = Result<(), Failure>;

/// Fails the test unless the condition holds.
#[macro_export]
macro_rules! check {
    ($condition:expr) => {
        if !$condition {
            return Err($crate::Failure {
                line: line!(),
                what: stringify!($condition),
                status: None,
            });
        }
    };
}

/// What the kernel said, for errors that come from it.
pub trait AsStatus {
    /// Its status.
    fn status(&self) -> Option<Status>;
}

impl AsStatus for Status {
    fn status(&self) -> Option<Status> {
        Some(*self)
    }
}

impl AsStatus for libos::memory::Error {
    fn status(&self) -> Option<Status> {
        log!("{self}");
        match self {
            libos::memory::Error::Kernel(status) => Some(*status),
            _ => None,
        }
    }
}

/// The value of a `Result` that must be `Ok`; fails the test otherwise.
#[macro_export]
macro_rules! good {
    ($result:expr) => {
        match $result {
            Ok(value) => value,
            Err(error) => {
                return Err($crate::Failure {
                    line: line!(),
                    what: stringify!($result),
                    status: $crate::AsStatus::status(&error),
                })
            }
        }
    };
}

/// Fails the test unless the result is the error with this name.
#[macro_export]
macro_rules! fails {
    ($error:ident, $result:expr) => {
        match $result {
            Err($crate::Status::$error) => {}
            other => {
                return Err($crate::Failure {
                    line: line!(),
                    what: concat!(stringify!($result), " should fail with ", stringify!($error)),
                    status: other.err(),
                })
            }
        }
    };
}

/// Runs tests and ends the machine with their result.
#[derive(Default)]
pub struct Runner {
    failed: u32,
    only: Option<&'static str>,
}

impl Runner {
    /// Runs all tests, or those whose names contain the `test=` of the command line.
    pub fn on(cmdline: &'static str) -> Self {
        Runner { failed: 0, only: cmdline::option(cmdline, "test") }
    }

    /// Runs `test` and writes its line.
    pub fn run(&mut self, name: &str, test: impl FnOnce() -> Outcome) {
        if self.only.is_some_and(|only| !name.contains(only)) {
            return;
        }
        match test() {
            Ok(()) => log!("@test {name} ok"),
            Err(failure) => {
                self.failed += 1;
                log!("@test {name} FAILED {failure}");
            }
        }
    }

    /// Ends the machine: status 0 when nothing failed, else 1.
    pub fn finish(self) -> ! {
        shutdown(u32::from(self.failed > 0))
    }
}
