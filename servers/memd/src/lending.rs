//! Memory of other cores: borrowing some when there is too little here, and lending them what this one can spare.
//!
//! The monitors carry it ([`monitor`]); they wait for nobody, and this server waits for its monitor only.

use crate::collect_all_cycles;
use crate::homes::Homes;
use libos::abi::slots::{DISPATCHER, MONITOR};
use libos::cores::{monitor, WISHED};
use libos::interface::Remote;
use libos::{invoke, log, op, RamAttrs, Status};

/// What is borrowed at once is at least this part of what the server has: so the larger that is, the less often it asks.
const PART: u64 = 8;
/// A single request, or a question whether there is so much, moves no more: whoever asks names what he likes.
pub const MOST: u64 = 32 << 20;
/// So often all are asked, if some of them wait for memory, too.
const TRIES: usize = 64;

fn the_monitor() -> monitor::Client {
    monitor::Client(Remote(MONITOR))
}

/// Borrows memory, for a request of `bytes` that is granted where so much as `piece` is free in one, aligned to its size: none, if no memory of other cores
/// would help. Is there any more now?
pub fn borrow(homes: &mut Homes, bytes: u64, piece: u64) -> bool {
    let Some(units) = &homes.units else { return false };
    if piece > units.bytes {
        return false;
    }
    let wanted = (bytes.min(MOST) + homes.pool.reserve()).max(homes.pool.usage().total / PART);
    for _ in 0..TRIES {
        match ask(homes, wanted) {
            Ok(()) => return true,
            // Whoever waits for memory, too, has some to spare when it gets some.
            Err(Status::WrongState) => {
                let _ = invoke(DISPATCHER, op::Yield {});
            }
            Err(Status::NoMemory) => return false,
            Err(error) => {
                log!("memd: memory cannot be borrowed: {error:?}");
                return false;
            }
        }
    }
    false
}

fn ask(homes: &mut Homes, wanted: u64) -> Result<(), Status> {
    the_monitor().borrow(wanted)?;
    let mut heard = 0;
    let answer = loop {
        match the_monitor().borrowed() {
            Err(Status::Again) => heard |= invoke(DISPATCHER, op::Wait {})?.value,
            answer => break answer,
        }
    };
    let adopted = answer.and_then(|(base, bytes, attrs)| homes.adopt(base, bytes, RamAttrs(attrs)));
    if heard & WISHED != 0 {
        lend(homes);
    }
    adopted
}

/// Notification bits have come.
pub fn heard(homes: &mut Homes, bits: u64) {
    if bits & WISHED != 0 {
        lend(homes);
    }
}

/// Grants what other cores wish, as far as this one can spare it.
fn lend(homes: &mut Homes) {
    while let Ok(wished) = the_monitor().next_wish() {
        collect_all_cycles(homes);
        let (base, bytes, attrs) = homes.cede(wished).unwrap_or((0, 0, RamAttrs(0)));
        if let Err(error) = the_monitor().ceded(base, bytes, attrs.0) {
            log!("memd: {bytes:#x} bytes at {base:#x} are nobody's now: {error:?}");
        }
    }
}
