//! The texts of `/proc`.

use crate::clock::{Clock, SECOND};
use crate::nodes::Tree;
use crate::procfs::ProcNode;
use crate::procs::{Pid, Proc, Procs, State};
use crate::system::System;
use crate::terminal::Terminal;
use crate::threads::Tid;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use captypes::invocations::Counter;
use captypes::op;
use core::fmt::Write;
use core::sync::atomic::Ordering::Relaxed;
use credentials::{Credentials, Ids};
use unixproto::Errno;

/// Clock ticks of a second, as programs count them.
const TICKS: u64 = 100;

/// What the texts are about.
#[derive(Clone, Copy)]
pub struct Texts<'a> {
    pub procs: &'a Procs,
    pub tree: &'a Tree,
    pub clock: &'a Clock,
    pub terminal: &'a Terminal,
    pub system: &'a System,
}

impl Texts<'_> {
    /// The text of a node.
    pub fn text(&self, node: ProcNode) -> Result<Vec<u8>, Errno> {
        match node {
            ProcNode::System(name) => Ok(self.system_text(name).into_bytes()),
            ProcNode::TesseraFile(name) => Ok(self.tessera_text(name).into_bytes()),
            ProcNode::File(pid, name) => self.process_text(pid, None, name),
            ProcNode::TaskFile(pid, tid, name) => self.process_text(pid, Some(tid), name),
            _ => Err(Errno::EINVAL),
        }
    }

    fn system_text(&self, name: &str) -> String {
        let uptime = self.clock.now();
        match name {
            "cpuinfo" => cpuinfo(idle_ticks().count()),
            "filesystems" => String::from("nodev\tproc\nnodev\ttmpfs\n"),
            "loadavg" => {
                format!("0.00 0.00 0.00 1/{} {}\n", self.procs.len(), self.procs.len() + 1)
            }
            "meminfo" => self.meminfo(),
            "mounts" => mounts(),
            "stat" => self.stat_text(),
            "swaps" => String::from("Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"),
            "uptime" => {
                let (seconds, hundredths) = (uptime / SECOND, uptime % SECOND / (SECOND / 100));
                format!("{seconds}.{hundredths:02} 0.00\n")
            }
            "version" => String::from("Linux version 6.1.0-tessera (Tessera) #1 SMP\n"),
            _ => String::from("\n"),
        }
    }

    fn meminfo(&self) -> String {
        let (free, _) = crate::caps::memory();
        let files = self.tree.files().names().iter();
        let cached = files.map(|(_, inode)| match &inode.node {
            memfs::Node::File { content, .. } => content.taken(),
            _ => 0,
        });
        let (total, free, cached) =
            (self.system.ram() >> 10, free >> 10, cached.sum::<u64>() >> 10);
        let mut text = String::new();
        for (name, value) in [
            ("MemTotal", total),
            ("MemFree", free),
            ("MemAvailable", free),
            ("Buffers", 0),
            ("Cached", cached),
            ("SwapCached", 0),
            ("Shmem", cached),
            ("SReclaimable", 0),
            ("SwapTotal", 0),
            ("SwapFree", 0),
        ] {
            let name = format!("{name}:");
            put_line!(text, "{name:<15} {value:>8} kB");
        }
        text
    }

    fn stat_text(&self) -> String {
        let now = self.clock.now() / (SECOND / TICKS);
        let (mut lines, mut all) = (String::new(), (0, 0));
        for (core, ticks) in idle_ticks().enumerate() {
            let idle = (self.clock.ns(ticks) / (SECOND / TICKS)).min(now);
            all = (all.0 + now - idle, all.1 + idle);
            put_line!(lines, "cpu{core} {} 0 0 {idle} 0 0 0 0 0 0", now - idle);
        }
        let boot = self.clock.boot_wall() / SECOND;
        format!(
            "cpu  {} 0 0 {} 0 0 0 0 0 0\n{lines}intr 0\nctxt 0\n\
             btime {boot}\nprocesses {}\nprocs_running 1\nprocs_blocked 0\n",
            all.0,
            all.1,
            self.procs.len()
        )
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
            }
            "capabilities" => text = crate::captree::text(),
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
                    let value = libos::log::counter(which).unwrap_or(0);
                    put_line!(text, "{} {value}", which.name());
                }
            }
            _ => {
                put_line!(text, "processes {}", self.procs.len());
                put_line!(text, "inodes {}", self.tree.files().names().used());
                for (name, error, count) in self.system.refused() {
                    put_line!(text, "refused_{name}_{} {count}", error.name());
                }
            }
        }
        text
    }

    /// The text of a process, or of one of its threads.
    fn process_text(&self, pid: Pid, tid: Option<Tid>, name: &str) -> Result<Vec<u8>, Errno> {
        let proc = self.procs.get(pid).map_err(|_| Errno::ENOENT)?;
        Ok(match name {
            "cmdline" => proc.cmdline().to_vec(),
            "comm" => {
                let mut text = self.procs.name_of(tid.unwrap_or(pid)).to_vec();
                text.push(b'\n');
                text
            }
            "mounts" => mounts().into_bytes(),
            "stat" => self.process_stat(proc, tid).into_bytes(),
            "statm" => {
                let (vm, rss) = pages(proc);
                format!("{vm} {rss} 0 0 0 {rss} 0\n").into_bytes()
            }
            "status" => self.process_status(proc, tid).into_bytes(),
            _ => Vec::new(),
        })
    }

    fn process_stat(&self, proc: &Proc, thread: Option<Tid>) -> String {
        let tid = thread.unwrap_or(proc.pid);
        let name = String::from_utf8_lossy(self.procs.name_of(tid));
        let used = thread
            .map_or_else(|| self.procs.cpu_ns(self.clock, proc), |tid| self.thread_cpu_ns(tid));
        let ticks = |ns: u64| ns / (SECOND / TICKS);
        let (vm, rss) = pages(proc);
        let owned = self.terminal.session() == Some(proc.sid);
        let foreground = match (owned, self.terminal.foreground()) {
            (true, Some(group)) => group as i64,
            _ => -1,
        };
        let faults = proc.session().map_or(0, |session| session.header().faults.load(Relaxed));
        let mut text = format!(
            "{} ({name}) {} {} {} {} {} {foreground} 0 {faults} {} 0 0 ",
            tid,
            self.letter(proc, tid),
            proc.parent,
            proc.pgid,
            proc.sid,
            if owned { 0x501 } else { 0 },
            proc.children_faults,
        );
        put_line!(
            text,
            "{} 0 {} 0 20 0 {} 0 {} {} {rss} 18446744073709551615 0 0 0 0 0 0 0 0 0 0 0 0 17 0 0 0 0 0 0 0 0 0 0 0 0 0 0",
            ticks(used),
            ticks(proc.children_ns),
            self.procs.threads_of(proc.pid).len().max(1),
            ticks(proc.started),
            vm * 4096,
        );
        text
    }

    fn process_status(&self, proc: &Proc, thread: Option<Tid>) -> String {
        let tid = thread.unwrap_or(proc.pid);
        let name = String::from_utf8_lossy(self.procs.name_of(tid));
        let state = match self.letter(proc, tid) {
            'R' => "R (running)",
            'S' => "S (sleeping)",
            'T' => "T (stopped)",
            _ => "Z (zombie)",
        };
        let Credentials { users, groups, .. } = &proc.who;
        let (vm, rss) = pages(proc);
        let threads = self.procs.threads_of(proc.pid).len().max(1);
        let mut text = String::new();
        put_line!(
            text,
            "Name:\t{name}\nState:\t{state}\nTgid:\t{}\nPid:\t{tid}\nPPid:\t{}",
            proc.pid,
            proc.parent
        );
        put_line!(text, "TracerPid:\t0");
        for (name, ids) in [("Uid", users), ("Gid", groups)] {
            let Ids { real, effective, saved, file } = ids;
            put_line!(text, "{name}:\t{real}\t{effective}\t{saved}\t{file}");
        }
        put_line!(
            text,
            "VmSize:\t{:>8} kB\nVmRSS:\t{:>8} kB\nThreads:\t{threads}",
            vm * 4,
            rss * 4
        );
        if let Ok(session) = proc.session() {
            let header = session.header();
            let own = self.procs.session_of(tid).map_or(header, |session| session.header());
            for (name, mask) in [
                ("SigPnd", own.own.set()),
                ("ShdPnd", header.pending.set()),
                ("SigBlk", own.blocked.load(Relaxed)),
                ("SigIgn", header.ignored.load(Relaxed)),
                ("SigCgt", header.caught.load(Relaxed)),
            ] {
                put_line!(text, "{name}:\t{mask:016x}");
            }
        }
        let who = &proc.who;
        for (name, caps) in [
            ("CapInh", who.inheritable),
            ("CapPrm", who.permitted),
            ("CapEff", who.effective),
            ("CapBnd", who.bounding),
            ("CapAmb", who.ambient),
        ] {
            put_line!(text, "{name}:\t{:016x}", caps.bits());
        }
        put_line!(text, "NoNewPrivs:\t{}", who.no_new_privileges as u32);
        text
    }

    /// Processor time of a thread.
    fn thread_cpu_ns(&self, tid: Tid) -> u64 {
        let usage =
            self.procs.dispatcher_of(tid).and_then(|it| libos::invoke(it, op::Usage {}).ok());
        usage.map_or(0, |usage| self.clock.ns(usage.value))
    }

    /// What a thread does.
    fn letter(&self, proc: &Proc, tid: Tid) -> char {
        match proc.state {
            State::Ending | State::Zombie => 'Z',
            // It has ended, while others go on.
            _ if tid == proc.pid && proc.first_ended => 'Z',
            _ if proc.stopped => 'T',
            _ if self.procs.blocked(tid).is_some() => 'S',
            _ if self.procs.sleeps(tid) => 'S',
            _ => 'R',
        }
    }
}

/// Pages of address space, and of memory.
fn pages(proc: &Proc) -> (u64, u64) {
    let Ok(session) = proc.session() else { return (0, 0) };
    let header = session.header();
    (header.vm_pages.load(Relaxed), header.rss_pages.load(Relaxed))
}

fn mounts() -> String {
    String::from("tessera / tmpfs rw,relatime 0 0\nproc /proc proc rw,relatime 0 0\n")
}

/// Of each core, the ticks during which it had nothing to do.
fn idle_ticks() -> impl Iterator<Item = u64> {
    (0..).map_while(|core| libos::log::counter_of(core, Counter::IdleTicks).ok())
}

fn cpuinfo(cores: usize) -> String {
    use core::arch::x86_64::__cpuid;
    let mut name = Vec::new();
    for leaf in 0x8000_0002..=0x8000_0004 {
        let part = __cpuid(leaf);
        for register in [part.eax, part.ebx, part.ecx, part.edx] {
            name.extend_from_slice(&register.to_le_bytes());
        }
    }
    name.retain(|&byte| byte != 0);
    let name = String::from_utf8_lossy(&name);
    let mut text = String::new();
    for core in 0..cores {
        put!(
            text,
            "processor\t: {core}\nvendor_id\t: unknown\nmodel name\t: {}\n\
             flags\t\t: fpu sse sse2\n\n",
            name.trim()
        );
    }
    text
}
