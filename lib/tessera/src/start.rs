//! From the first instruction to the main function, and its end.

use crate::env::Args;
use crate::process::{exit, ExitCode, Termination};
use crate::{env, io, unix};
use core::panic::PanicInfo;
use libos::abi::slots::UNIXD;
use libos::runtime::{self, Start};
use libos::Cap;

/// Exit status after a panic.
const PANICKED: ExitCode = ExitCode(101);

/// A main function, with or without arguments.
pub trait Main<A> {
    /// Calls it.
    fn call(self) -> ExitCode;
}

impl<F: FnOnce() -> R, R: Termination> Main<()> for F {
    fn call(self) -> ExitCode {
        self().report()
    }
}

impl<F: FnOnce(Args) -> R, R: Termination> Main<(Args,)> for F {
    fn call(self) -> ExitCode {
        self(env::args()).report()
    }
}

/// Runs `main` and ends the program with its status.
pub fn run<A>(start: Start, main: impl Main<A>) -> ! {
    let [arguments, bytes, ..] = start.args;
    if arguments == libos::abi::layout::NATIVE_ARGUMENTS {
        // SAFETY: whoever made this process has mapped its arguments there, read-only, for good.
        unsafe { env::set(arguments as *const u8, bytes as usize) };
        // A part on another core has none.
        if UNIXD.identify().is_ok() {
            unix::attach();
        }
    }
    exit(main.call())
}

/// Says on standard error where and why, and ends the program.
pub fn panicked(info: &PanicInfo) -> ! {
    if !unix::is_process() {
        runtime::panicked(info);
    }
    io::flush();
    crate::eprintln!("{info}");
    if env::var("TESSERA_BACKTRACE").is_some() {
        runtime::return_addresses(|address| crate::eprintln!("  at {address:#x}"));
    }
    exit(PANICKED)
}
