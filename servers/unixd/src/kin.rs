//! Which processes belong together: children of a parent, members of a group.
//!
//! What one process does costs the same however many others there are that have nothing to do with it.

use crate::procs::Pid;
use alloc::vec::Vec;

/// Ids, in order. Those of new processes are mostly the largest, which come and go without moving others.
#[derive(Default)]
pub struct Ids(Vec<Pid>);

impl Ids {
    /// Adds one.
    pub fn add(&mut self, pid: Pid) {
        if let Err(at) = self.0.binary_search(&pid) {
            self.0.insert(at, pid);
        }
    }
    /// Takes one out.
    pub fn remove(&mut self, pid: Pid) {
        if let Ok(at) = self.0.binary_search(&pid) {
            self.0.remove(at);
        }
    }
    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = Pid> + '_ {
        self.0.iter().copied()
    }
}

/// The processes of a group, and of a session with the same id.
#[derive(Default)]
pub struct Family {
    /// The members of the group.
    pub members: Ids,
    /// How many are in the group, and how many in the session.
    pub count: usize,
}
