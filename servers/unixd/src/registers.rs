//! Registers of devices that programs map: the timer's, which can only be read (`/dev/hpet`).

use crate::caps::mint;
use crate::server::SCRATCH;
use crate::wait::{Outcome, Tried};
use abi::layout::PAGE;
use abi::slots::TIMER;
use libos::ipc::Caps;
use libos::{Cap, Rights};
use unixproto::ops::Extent;
use unixproto::{Errno, Reply};

/// Does the machine have this timer?
pub fn are_there() -> bool {
    TIMER.identify().is_ok()
}

/// All of it: one page, which nobody takes back.
pub fn extent(write: bool) -> Tried {
    if write {
        return Err(Errno::EACCES);
    }
    mint(TIMER, SCRATCH, Rights::READ.or(Rights::EXEC))?;
    let all = Extent { layout: 0, start: 0, bytes: PAGE, size: PAGE, is_morsel: false };
    Ok(Outcome::WithCaps(all.encode(), Caps::moved(SCRATCH, 1)))
}
