//! Dispatchers of a domain that somebody supervises.
//!
//! A supervised dispatcher starts only those that its supervisor knows (`options::SUPERVISED`): a
//! process of the Linux personality asks `unixd` for each. Whoever is not supervised is asked nothing.

use crate::local::Local;
use crate::Cap;
use captypes::{CapAddr, Status};

/// How the supervisor of this domain is asked.
#[derive(Clone, Copy)]
pub struct Supervisor {
    /// Makes a dispatcher known that is not started yet. Its capability stays in its slot, without the
    /// right to revoke it. Answers a number, not 0.
    pub admit: fn(CapAddr) -> Result<u32, Status>,
    /// Ends the dispatcher with this number, wherever it is.
    pub end: fn(u32) -> Result<(), Status>,
}

static SUPERVISOR: Local<Option<Supervisor>> = Local::new(None);

/// This domain is supervised from now on.
pub fn set(supervisor: Supervisor) {
    SUPERVISOR.try_with(|own| *own = Some(supervisor));
}

fn own() -> Option<Supervisor> {
    SUPERVISOR.try_with(|own| *own).flatten()
}

/// What the supervisor knows a dispatcher by; 0 if there is no supervisor.
#[derive(Clone, Copy, Default, Debug)]
pub struct Known(u32);

/// Makes the dispatcher in a slot, which nobody else has, one that may be started.
pub fn admit(dispatcher: CapAddr) -> Result<Known, Status> {
    match own() {
        Some(supervisor) => (supervisor.admit)(dispatcher).map(Known),
        None => Ok(Known(0)),
    }
}

/// Ends the dispatcher in a slot, which is empty then.
pub fn end(dispatcher: CapAddr, known: Known) -> Result<(), Status> {
    if let (Some(supervisor), 1..) = (own(), known.0) {
        (supervisor.end)(known.0)?;
        // The supervisor revokes it, sooner or later.
        return match dispatcher.delete() {
            Err(Status::Empty) => Ok(()),
            other => other,
        };
    }
    dispatcher.delete()
}
