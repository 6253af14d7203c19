//! The invariants of capabilities and page tables, checked in full. For tests, and for `init`.

use crate::dispatch::Local;
use captypes::Status;

/// Checks everything; a line in the log says what is broken.
pub fn check_and_log(local: &Local) -> Result<(), Status> {
    match local.db.check() {
        Ok(()) => Ok(()),
        Err(violation) => {
            crate::log!("the mapping database is broken: {violation:?}");
            Err(Status::Invalid)
        }
    }
}
