//! The texts of `/proc`: of the system in [`procsystem`](crate::procsystem), of processes in
//! [`procstatus`](crate::procstatus).

use crate::clock::{Clock, SECOND};
use crate::descs::Descs;
use crate::inet::Sockets;
use crate::leases::AllLeases;
use crate::load::Load;
use crate::locks::AllLocks;
use crate::nodes::Tree;
use crate::peers::Ring;
use crate::procfs::ProcNode;
use crate::procs::{Pid, Procs};
use crate::procstatus::init_text;
use crate::swap;
use crate::system::System;
use crate::terminal::Terminal;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use captypes::invocations::Counter;
use core::fmt::Write;
use unixproto::Errno;

/// Clock ticks of a second, as programs count them.
pub const TICKS: u64 = 100;

/// What the texts are about.
#[derive(Clone, Copy)]
pub struct Texts<'a> {
    /// Who reads, whose numbers of processes they have.
    pub reader: Pid,
    pub procs: &'a Procs,
    pub descs: &'a Descs,
    pub tree: &'a Tree,
    pub clock: &'a Clock,
    pub terminal: &'a Terminal,
    pub system: &'a System,
    pub load: &'a Load,
    pub sockets: &'a Sockets,
    pub locals: &'a sockets::Sockets<Box<Ring>>,
    pub locks: &'a AllLocks,
    pub leases: &'a AllLeases,
}

impl Texts<'_> {
    /// The text of a node.
    pub fn text(&self, node: ProcNode) -> Result<Vec<u8>, Errno> {
        match node {
            ProcNode::System(name) => Ok(self.system_text(name).into_bytes()),
            ProcNode::NetFile(name) => Ok(self.net_text(name).into_bytes()),
            ProcNode::TesseraFile(name) => Ok(self.tessera_text(name).into_bytes()),
            ProcNode::InitFile(name) => Ok(init_text(name).into_bytes()),
            ProcNode::File(pid, name) => self.process_text(pid, None, name),
            ProcNode::TaskFile(pid, tid, name) => self.process_text(pid, Some(tid), name),
            _ => Err(Errno::EINVAL),
        }
    }

    fn tessera_text(&self, name: &str) -> String {
        let mut text = String::new();
        match name {
            "memory" => {
                let stats = crate::caps::memory_stats();
                for (name, value) in [
                    ("free", stats.free),
                    ("total", stats.total),
                    ("largest", stats.largest),
                    ("reserve", stats.reserve),
                ] {
                    put_line!(text, "{name} {value}");
                }
                if let Some(memory) = self.system.persistent_memory() {
                    put_line!(text, "persistent {}", memory.bytes);
                    put_line!(text, "persistent_address {}", memory.base);
                    put_line!(text, "persistent_caches {}", u8::from(memory.caches_persist));
                }
            }
            "capabilities" => text = crate::captree::text(self.procs),
            "processes" => text = self.processes(),
            "cores" => {
                for &which in Counter::ALL {
                    put!(text, "{}", which.name());
                    for value in (0..).map_while(|core| libos::log::counter_of(core, which).ok()) {
                        put!(text, " {value}");
                    }
                    text.push('\n');
                }
            }
            "counters" => {
                for &which in Counter::ALL {
                    // That of the own core is up to date; others tell theirs now and then.
                    let own = libos::log::counter(which).unwrap_or(0);
                    let others = (1..).map_while(|core| libos::log::counter_of(core, which).ok());
                    let value: u64 = match which {
                        // How long one core has had nothing to do says something, of several it does not.
                        Counter::IdleTicks => own,
                        _ => own + others.sum::<u64>(),
                    };
                    put_line!(text, "{} {value}", which.name());
                }
            }
            _ => {
                put_line!(text, "processes {}", self.procs.len());
                put_line!(text, "inodes {}", self.tree.files().names().used());
                if swap::is_there() {
                    put_line!(text, "swap_wait_ticks {}", swap::facts().waited);
                }
                for (name, error, count) in self.system.refused() {
                    put_line!(text, "refused_{name}_{} {count}", error.name());
                }
            }
        }
        text
    }
}

/// Nanoseconds in ticks as programs count them.
pub fn in_ticks(ns: u64) -> u64 {
    ns / (SECOND / TICKS)
}
