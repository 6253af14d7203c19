//! Whose the slots are that capabilities are in.
//!
//! A slot is in a CNode or in a dispatcher. A dispatcher is a process's, of which this server knows it, or that of
//! a server: its faults are reported at `init`'s endpoint with a badge that only `init` gives. A root CNode is
//! whose dispatcher has it as its own; any other CNode is whose root it is in.

use crate::procs::{Pid, Procs};
use crate::procstatus::in_one_line;
use abi::slots::REPORT;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use libos::captypes::invocations::Identity;
use libos::{session, Cap, CapType};

/// A CNode that is in no root belongs to whom the CNode belongs in which it is, and so on; so deep.
const MOST_LEVELS: usize = 4;

/// A capability of the kernel's list.
pub struct Listed {
    /// What it is.
    pub cap: Identity,
    /// First addresses of the containers in which it and its copies are; 0: none of anybody's.
    pub held_in: Vec<u64>,
    /// There are more copies than those.
    pub more: bool,
}

impl Listed {
    fn badge(&self) -> u32 {
        (self.cap.relations >> 32) as u32
    }
}

/// A process, or 0, and a name: servers come first.
type Name = (Pid, String);
/// Dispatchers, by their addresses.
type Dispatchers = BTreeSet<u64>;

/// Whose each container is.
pub struct Owners {
    /// The dispatchers that have it.
    of: BTreeMap<u64, Dispatchers>,
    /// The names of dispatchers.
    names: BTreeMap<u64, Name>,
}

impl Owners {
    /// Looks who owns the containers among all that there is.
    pub fn find(all: &[Listed], procs: &Procs) -> Owners {
        let mut owners = Owners { of: BTreeMap::new(), names: process_names(procs) };
        let of_type = |ty| all.iter().filter(move |one| one.cap.ty == ty);
        for one in of_type(CapType::Dispatcher) {
            owners.of.insert(one.cap.base, [one.cap.base].into());
        }
        // Roots are those of dispatchers, and what is in roots is theirs; who else has a capability to it does
        // not matter.
        for (ty, above) in
            [(CapType::L1CNode, CapType::Dispatcher), (CapType::L2CNode, CapType::L1CNode)]
        {
            let above: BTreeSet<u64> = of_type(above).map(|one| one.cap.base).collect();
            of_type(ty).for_each(|one| owners.settle(one, |base| above.contains(&base)));
        }
        for _ in 0..MOST_LEVELS {
            of_type(CapType::L1CNode).for_each(|one| owners.settle(one, |_| true));
            of_type(CapType::L2CNode).for_each(|one| owners.settle(one, |_| true));
        }
        owners.name_servers(all);
        owners
    }

    /// A container belongs to the owners of those in which it is.
    fn settle(&mut self, container: &Listed, counts: impl Fn(u64) -> bool) {
        if self.of.contains_key(&container.cap.base) {
            return;
        }
        let mut owners = Dispatchers::new();
        for held in container.held_in.iter().filter(|held| counts(**held)) {
            owners.extend(self.of.get(held).into_iter().flatten());
        }
        if !owners.is_empty() {
            self.of.insert(container.cap.base, owners);
        }
    }

    fn name_servers(&mut self, all: &[Listed]) {
        let Ok(report) = REPORT.identify() else { return };
        for one in all.iter().filter(|one| (one.cap.ty, one.cap.base) == (report.ty, report.base)) {
            let name = match one.badge() {
                0 => Some("init"),
                badge => session::server_name(badge),
            };
            let Some(name) = name else { continue };
            for held in &one.held_in {
                // A server has the endpoint in a slot, too, and in its dispatcher where its faults go.
                let owners = self.of.get(held).cloned().unwrap_or_default();
                let own = one.badge() == 0 || owners.contains(held);
                for dispatcher in owners.into_iter().filter(|_| own) {
                    self.names.entry(dispatcher).or_insert_with(|| (0, name.into()));
                }
            }
        }
    }

    /// The names of the owners, with commas between.
    pub fn of(&self, one: &Listed) -> String {
        let mut names = BTreeSet::new();
        for held in &one.held_in {
            match self.of.get(held) {
                Some(owners) => names.extend(owners.iter().map(|one| self.name(*one))),
                None if *held == 0 => names.extend([(0, "kernel".into())]),
                None => names.extend([(Pid::MAX, format!("CNode@{held:#x}"))]),
            }
        }
        if one.more || names.is_empty() {
            names.insert((Pid::MAX, "+".into()));
        }
        names.into_iter().map(|(_, name)| name).collect::<Vec<String>>().join(",")
    }

    fn name(&self, dispatcher: u64) -> Name {
        let known = self.names.get(&dispatcher).cloned();
        known.unwrap_or_else(|| (Pid::MAX, format!("dispatcher@{dispatcher:#x}")))
    }
}

/// The dispatchers of all processes, which are called `PID:NAME`.
fn process_names(procs: &Procs) -> BTreeMap<u64, Name> {
    let mut names = BTreeMap::new();
    for proc in procs.iter().filter(|proc| !proc.is_acted()) {
        let name = in_one_word(&String::from_utf8_lossy(procs.name_of(proc.pid)));
        for tid in procs.threads_of(proc.pid) {
            let what = procs.dispatcher_of(tid).and_then(|dispatcher| dispatcher.identify().ok());
            if let Some(what) = what {
                names.insert(what.base, (proc.pid, format!("{}:{name}", proc.pid)));
            }
        }
    }
    names
}

/// A name without what ends a field or divides owners.
fn in_one_word(name: &str) -> String {
    in_one_line(name).replace(' ', "\\040").replace('\t', "\\011").replace(',', "\\054")
}
