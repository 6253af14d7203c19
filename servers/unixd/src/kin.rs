//! Which processes belong together: children of a parent, members of a group.
//!
//! What one process does costs the same however many others there are that have nothing to do with it.

use crate::procs::Pid;
use alloc::collections::BTreeSet;
use core::ops::RangeInclusive;

/// Indexes of the table of processes.
#[derive(Default)]
pub struct Kin {
    /// Parent and child.
    children: BTreeSet<(Pid, Pid)>,
    /// Group and member.
    members: BTreeSet<(Pid, Pid)>,
}

/// All pairs that start with an id.
fn of(first: Pid) -> RangeInclusive<(Pid, Pid)> {
    (first, Pid::MIN)..=(first, Pid::MAX)
}

impl Kin {
    /// A new process.
    pub fn add(&mut self, pid: Pid, parent: Pid, group: Pid) {
        self.children.insert((parent, pid));
        self.members.insert((group, pid));
    }
    /// A process is gone.
    pub fn remove(&mut self, pid: Pid, parent: Pid, group: Pid) {
        self.children.remove(&(parent, pid));
        self.members.remove(&(group, pid));
    }
    /// A process has another parent.
    pub fn adopt(&mut self, pid: Pid, before: Pid, parent: Pid) {
        self.children.remove(&(before, pid));
        self.children.insert((parent, pid));
    }
    /// A process has another group.
    pub fn regroup(&mut self, pid: Pid, before: Pid, group: Pid) {
        self.members.remove(&(before, pid));
        self.members.insert((group, pid));
    }
    /// The children of a process, by id.
    pub fn children(&self, parent: Pid) -> impl Iterator<Item = Pid> + '_ {
        self.children.range(of(parent)).map(|pair| pair.1)
    }
    /// The members of a group, by id.
    pub fn members(&self, group: Pid) -> impl Iterator<Item = Pid> + '_ {
        self.members.range(of(group)).map(|pair| pair.1)
    }
}
