//! The texts of `/proc` that are about the system.

use crate::clock::SECOND;
use crate::cpuinfo;
use crate::procs::Proc;
use crate::procstatus::in_one_line;
use crate::proctext::{in_ticks, Texts};
use crate::swap;
use alloc::format;
use alloc::string::String;
use captypes::invocations::Counter;
use core::fmt::Write;
use unixproto::files::FILE_SYSTEMS;

/// KiB of a page.
pub const PAGE_KIB: u64 = 4;

impl Texts<'_> {
    /// The text of a file in `/proc` itself.
    pub fn system_text(&self, name: &str) -> String {
        match name {
            "cpuinfo" => cpuinfo::text(idle_ticks().count(), self.clock.hz()),
            "filesystems" => {
                let line = |(name, has_device): &(&str, bool)| match has_device {
                    true => format!("\t{name}\n"),
                    false => format!("nodev\t{name}\n"),
                };
                FILE_SYSTEMS.iter().map(line).collect()
            }
            "loadavg" => {
                let (running, all) = self.procs.running();
                format!("{} {running}/{all} {}\n", self.load, self.procs.last_pid())
            }
            "locks" => self.locks_text(),
            "meminfo" => self.meminfo(),
            "partitions" => self.tree.partitions(),
            "stat" => self.stat_text(),
            "swaps" => swaps(),
            "vmstat" => {
                let swap::Facts { ins, outs, .. } = swap::facts();
                format!("pswpin {ins}\npswpout {outs}\n")
            }
            "uptime" => {
                let idle = idle_ticks().map(|ticks| self.clock.ns(ticks)).sum();
                let now = self.clock.now();
                let up = self.procs.get(self.reader).map_or(now, |own| own.since_boot(now));
                let [up, idle] = [up, idle].map(|ns| (ns / SECOND, in_ticks(ns) % 100));
                format!("{}.{:02} {}.{:02}\n", up.0, up.1, idle.0, idle.1)
            }
            "version" => String::from("Linux version 6.1.0-tessera (Tessera) #1 SMP\n"),
            _ => String::from("\n"),
        }
    }

    /// What is not there, swap and huge pages among it, is zero. Of pages that several processes have, each of
    /// them counts its own.
    fn meminfo(&self) -> String {
        let (free, _) = crate::caps::memory();
        let files = self.tree.files().names().iter();
        let cached = files.map(|(_, inode)| match &inode.node {
            memfs::Node::File { content, .. } => content.extents().allocated(),
            _ => 0,
        });
        let cached = self.tree.in_pool() + cached.sum::<u64>();
        let (total, swap) = (self.system.ram() >> 10, swap::facts());
        // Large private memory is files to this server alone.
        let private = self.procs.iter().map(|proc| self.descs.private_pages(self.tree, proc.pid));
        let private = (private.sum::<u64>() * PAGE_KIB).min(total);
        let (free, cached) = (free >> 10, (cached >> 10).saturating_sub(private));
        let in_all = |of: fn(&Usage) -> u64| -> u64 {
            let pages = self.procs.iter().map(|proc| of(&usage(proc)) * PAGE_KIB).sum::<u64>();
            pages.min(total)
        };
        let anonymous = (in_all(|usage| usage.resident) + private).min(total);
        let locked = in_all(|usage| usage.locked);
        let mut text = String::new();
        for (name, value) in [
            ("MemTotal", total),
            ("MemFree", free),
            ("MemAvailable", free),
            ("Buffers", 0),
            ("Cached", cached),
            ("SwapCached", 0),
            ("Active", anonymous + cached),
            ("Inactive", 0),
            ("Active(anon)", anonymous + cached),
            ("Inactive(anon)", 0),
            ("Active(file)", 0),
            ("Inactive(file)", 0),
            ("Unevictable", locked),
            ("Mlocked", locked),
            ("SwapTotal", swap.total >> 10),
            ("SwapFree", swap.free >> 10),
            ("Dirty", 0),
            ("Writeback", 0),
            ("AnonPages", anonymous),
            ("Mapped", in_all(|usage| usage.files)),
            ("Shmem", cached),
            ("KReclaimable", 0),
            ("Slab", 0),
            ("SReclaimable", 0),
            ("SUnreclaim", 0),
            ("KernelStack", 0),
            ("PageTables", in_all(|usage| usage.tables)),
            ("NFS_Unstable", 0),
            ("Bounce", 0),
            ("WritebackTmp", 0),
            ("CommitLimit", total),
            ("Committed_AS", in_all(|usage| usage.data.saturating_add(usage.stack))),
            ("VmallocTotal", 0),
            ("VmallocUsed", 0),
            ("VmallocChunk", 0),
            ("Percpu", 0),
            ("AnonHugePages", 0),
            ("ShmemHugePages", 0),
            ("ShmemPmdMapped", 0),
        ] {
            let name = format!("{name}:");
            put_line!(text, "{name:<15} {value:>8} kB");
        }
        for name in ["HugePages_Total:", "HugePages_Free:", "HugePages_Rsvd:", "HugePages_Surp:"] {
            put_line!(text, "{name:<15} {:>8}", 0);
        }
        put_line!(text, "Hugepagesize:       2048 kB");
        text
    }

    fn stat_text(&self) -> String {
        let now = in_ticks(self.clock.now());
        let (mut lines, mut all) = (String::new(), [0; 3]);
        for (core, ticks) in (0..).zip(idle_ticks()) {
            let of = |counter| libos::log::counter_of(core, counter).unwrap_or(0);
            let sampled = [Counter::UserTicks, Counter::SystemTicks].map(of);
            let [user, system] = sampled.map(|ticks| in_ticks(self.clock.ns(ticks)));
            let idle = in_ticks(self.clock.ns(ticks)).min(now);
            put_line!(lines, "cpu{core} {user} 0 {system} {idle} 0 0 0 0 0 0");
            all = [all[0] + user, all[1] + system, all[2] + idle];
        }
        let [user, system, idle] = all;
        let boot = self.clock.boot_wall() / SECOND;
        let counter = |which| libos::log::counter(which).unwrap_or(0);
        let (running, _) = self.procs.running();
        format!(
            "cpu  {user} 0 {system} {idle} 0 0 0 0 0 0\n{lines}intr {}\nctxt {}\n\
             btime {boot}\nprocesses {}\nprocs_running {running}\nprocs_blocked 0\n",
            counter(Counter::Interrupts),
            counter(Counter::Switches),
            self.procs.made(),
        )
    }

    /// `/proc/tessera/processes`: a line of names, and one of numbers for each process, with its name last.
    pub fn processes(&self) -> String {
        let mut text = String::from(
            "pid ppid uid state threads cpu_ms mapped resident files faults copies tables \
             shared_tables home name\n",
        );
        for proc in self.procs.iter() {
            let usage = self.usage(proc);
            put_line!(
                text,
                "{} {} {} {} {} {} {} {} {} {} {} {} {} {} {}",
                proc.pid,
                proc.parent,
                proc.who.users.real,
                self.procs.letter(proc, proc.pid),
                self.procs.threads_of(proc.pid).len().max(1),
                self.procs.cpu(self.clock, proc).ns / (SECOND / 1000),
                usage.mapped,
                usage.resident,
                usage.files,
                usage.faults,
                usage.copies,
                usage.tables,
                usage.shared_tables,
                self.procs.unit_of(proc.pid).map_or(0, |unit| unit.core),
                in_one_line(&String::from_utf8_lossy(self.procs.name_of(proc.pid))),
            );
        }
        text
    }
}

impl Texts<'_> {
    /// What a process says of its memory, and what it need not say.
    pub fn usage(&self, proc: &Proc) -> Usage {
        let mut usage = usage(proc);
        let private = self.descs.private_pages(self.tree, proc.pid);
        usage.out = self.descs.private_out(self.tree, proc.pid);
        usage.resident += private.saturating_sub(usage.out);
        usage.most_resident = usage.most_resident.max(usage.resident);
        usage
    }
}

/// What a process says of its memory; see [`Memory`](unixproto::session::Memory).
#[derive(Clone, Copy, Default)]
pub struct Usage {
    pub mapped: u64,
    pub resident: u64,
    pub most_mapped: u64,
    pub most_resident: u64,
    pub faults: u64,
    pub copies: u64,
    pub files: u64,
    pub shared_memory: u64,
    pub data: u64,
    pub stack: u64,
    pub text: u64,
    pub locked: u64,
    pub tables: u64,
    pub shared_tables: u64,
    /// What has left memory: not what it says itself.
    pub out: u64,
}

/// `/proc/swaps`.
fn swaps() -> String {
    let mut text = String::from("Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n");
    if let Some((size, used, priority)) = swap::facts().listed {
        let (size, used) = (size >> 10, used >> 10);
        put_line!(
            text,
            "/dev/swap                               partition\t{size}\t\t{used}\t\t{priority}"
        );
    }
    text
}

/// What a process says of its memory; nothing once it is being taken apart. Whatever it says, one can
/// calculate with it.
pub fn usage(proc: &Proc) -> Usage {
    /// More than there is of anything.
    const MOST: u64 = 1 << 40;
    let Ok(session) = proc.session() else { return Usage::default() };
    let memory = &session.header().memory;
    let read = |word: &core::sync::atomic::AtomicU64| {
        word.load(core::sync::atomic::Ordering::Relaxed).min(MOST)
    };
    let (mapped, resident) = (read(&memory.mapped), read(&memory.resident));
    Usage {
        mapped,
        resident,
        most_mapped: read(&memory.most_mapped).max(mapped),
        most_resident: read(&memory.most_resident).max(resident),
        faults: read(&memory.faults),
        copies: read(&memory.copies),
        files: read(&memory.files),
        shared_memory: read(&memory.shared_memory).min(read(&memory.files)),
        data: read(&memory.data),
        stack: read(&memory.stack),
        text: read(&memory.text),
        locked: read(&memory.locked),
        tables: read(&memory.tables),
        shared_tables: read(&memory.shared_tables),
        out: 0,
    }
}

/// Of each core, the ticks during which it had nothing to do.
pub fn idle_ticks() -> impl Iterator<Item = u64> {
    (0..).map_while(|core| libos::log::counter_of(core, Counter::IdleTicks).ok())
}
