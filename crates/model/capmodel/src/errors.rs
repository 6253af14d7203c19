//! Which errors an operation may answer.
//!
//! The rules say what must hold for an operation, not in which order that is looked at. So the model
//! collects every condition that does not hold: the kernel may answer any of their errors, must
//! answer one of them, and must have changed nothing.

use captypes::Status;
use core::fmt;

/// A set of errors.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Errors(u32);

impl Errors {
    /// No error.
    pub const NONE: Errors = Errors(0);

    /// Only this one.
    pub fn one(status: Status) -> Errors {
        Errors(1 << status as u32)
    }
    /// Is there none?
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
    /// May the operation answer this status word?
    pub fn allows(self, word: u64) -> bool {
        word < 32 && self.0 >> word & 1 != 0
    }
    /// One more.
    pub fn add(&mut self, status: Status) {
        self.0 |= 1 << status as u32;
    }
}

impl fmt::Debug for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = Status::ALL.iter().filter(|&&status| self.allows(status as u64));
        f.debug_set().entries(all).finish()
    }
}

/// Conditions of one operation, looked at one after the other.
#[derive(Default)]
pub(crate) struct Check(Errors);

impl Check {
    /// The value, if there is one; its error is remembered.
    pub fn get<T>(&mut self, result: Result<T, Status>) -> Option<T> {
        result.map_err(|status| self.0.add(status)).ok()
    }
    /// What must hold, and the error if it does not.
    pub fn demand(&mut self, holds: bool, otherwise: Status) {
        if !holds {
            self.0.add(otherwise);
        }
    }
    /// Everything that did not hold.
    pub fn errors(&self) -> Errors {
        self.0
    }
    /// The value if all held. A value that is missing has left its error here.
    pub fn passed<T>(self, value: Option<T>) -> Result<T, Errors> {
        match value {
            Some(value) if self.0.is_empty() => Ok(value),
            _ => Err(self.0),
        }
    }
}
