//! The end of the program.

use crate::{io, unix};
use core::fmt::Debug;
use libos::runtime;
use unixproto::op::Exit;
use unixproto::signals::exited;

/// An exit status, 0 to 255.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExitCode(pub u8);

impl ExitCode {
    /// All is well.
    pub const SUCCESS: ExitCode = ExitCode(0);
    /// Something went wrong.
    pub const FAILURE: ExitCode = ExitCode(1);
}

impl From<u8> for ExitCode {
    fn from(code: u8) -> Self {
        ExitCode(code)
    }
}

/// What a main function may return.
pub trait Termination {
    /// The exit status; says on standard error what went wrong.
    fn report(self) -> ExitCode;
}

impl Termination for () {
    fn report(self) -> ExitCode {
        ExitCode::SUCCESS
    }
}

impl Termination for ExitCode {
    fn report(self) -> ExitCode {
        self
    }
}

impl<T: Termination, E: Debug> Termination for Result<T, E> {
    fn report(self) -> ExitCode {
        match self {
            Ok(value) => value.report(),
            Err(error) => {
                crate::eprintln!("Error: {error:?}");
                ExitCode::FAILURE
            }
        }
    }
}

/// Ends the program. What was printed is written first; no destructors run.
pub fn exit(code: impl Into<ExitCode>) -> ! {
    let ExitCode(code) = code.into();
    io::flush();
    if !unix::is_process() {
        libos::cores::exit(code.into());
    }
    // There is no answer.
    let _ = unix::with(|session| session.call(Exit { status: exited(code.into()) }, &[], &[]));
    runtime::stop()
}
