//! The texts of `/proc/PID` and `/proc/PID/task/TID`.
//!
//! `maps`, `smaps`, `auxv` and `environ` are told by the library of the process itself when they are read. `smaps_rollup` of the
//! process that reads is its library's; of others it is without shares.

use crate::cputime::CpuTime;
use crate::made::{first_cores, list_of, mask_of};
use crate::mountlists::{mount_info, mount_stats, mounts};
use crate::oom;
use crate::procs::{Pid, Proc, Procs, State};
use crate::procsystem::{idle_ticks, Usage, PAGE_KIB};
use crate::proctext::{in_ticks, Texts};
use crate::threads::Tid;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;
use core::sync::atomic::Ordering::Relaxed;
use credentials::{Credentials, Forgone, Ids};
use unixproto::limit;
use unixproto::Errno;

/// Name and unit of each resource limit.
const LIMITS: [(&str, &str); 16] = [
    ("Max cpu time", "seconds"),
    ("Max file size", "bytes"),
    ("Max data size", "bytes"),
    ("Max stack size", "bytes"),
    ("Max core file size", "bytes"),
    ("Max resident set", "bytes"),
    ("Max processes", "processes"),
    ("Max open files", "files"),
    ("Max locked memory", "bytes"),
    ("Max address space", "bytes"),
    ("Max file locks", "locks"),
    ("Max pending signals", "signals"),
    ("Max msgqueue size", "bytes"),
    ("Max nice priority", ""),
    ("Max realtime priority", ""),
    ("Max realtime timeout", "us"),
];

impl Texts<'_> {
    /// The text of a process, or of one of its threads.
    pub fn process_text(&self, pid: Pid, tid: Option<Tid>, name: &str) -> Result<Vec<u8>, Errno> {
        let proc = self.procs.get(pid).map_err(|_| Errno::ENOENT)?;
        let stands = || self.procs.stands_of(pid, tid.unwrap_or(pid));
        Ok(match name {
            "cmdline" => proc.cmdline().to_vec(),
            "comm" => {
                let mut text = self.procs.name_of(tid.unwrap_or(pid)).to_vec();
                text.push(b'\n');
                text
            }
            // There is one group of all.
            "cgroup" => b"0::/\n".to_vec(),
            "loginuid" | "sessionid" => {
                let reader = &self.procs.get(self.reader)?.who;
                format!("{}", proc.login.number(name, reader)).into_bytes()
            }
            // Where in the kernel it waits: Linux does not tell that those who may not look, nor of one that runs.
            "wchan" => b"0".to_vec(),
            "mounts" => mounts(self.tree, &stands()?).into_bytes(),
            "mountinfo" => mount_info(self.tree, &stands()?).into_bytes(),
            "mountstats" => mount_stats(self.tree, &stands()?).into_bytes(),
            "oom_score_adj" => format!("{}\n", proc.oom_adjust).into_bytes(),
            "oom_adj" => format!("{}\n", oom::coarse(proc.oom_adjust)).into_bytes(),
            "oom_score" => format!("{}\n", self.oom_score(proc)).into_bytes(),
            "stat" => self.process_stat(proc, tid).into_bytes(),
            "timens_offsets" => {
                crate::otherspaces::offsets_text(&proc.spaces.times_of_children).into_bytes()
            }
            "setgroups" => {
                let denies = proc.who.space.as_ref().is_some_and(|space| space.denies_groups());
                if denies { &b"deny\n"[..] } else { b"allow\n" }.to_vec()
            }
            "statm" => {
                let usage = self.usage(proc);
                let (resident, data) = (usage.resident + usage.files, usage.data + usage.stack);
                let (mapped, files, text) = (usage.mapped, usage.files, usage.text);
                format!("{mapped} {resident} {files} {text} 0 {data} 0\n").into_bytes()
            }
            "status" => self.process_status(proc, tid).into_bytes(),
            "limits" => process_limits(proc).into_bytes(),
            "smaps_rollup" => rollup(self.usage(proc)).into_bytes(),
            _ => Vec::new(),
        })
    }

    fn process_stat(&self, proc: &Proc, thread: Option<Tid>) -> String {
        let tid = thread.unwrap_or(proc.pid);
        let name = String::from_utf8_lossy(self.procs.name_of(tid));
        let used =
            thread.map_or_else(|| self.procs.cpu(self.clock, proc), |tid| self.thread_cpu(tid));
        let usage = self.usage(proc);
        let rss_limit = proc.session().map_or(u64::MAX, |session| {
            session.header().limits[limit::RSS as usize][0].load(Relaxed)
        });
        let (terminal, foreground) = match self.terminal.control(proc.sid) {
            Some((line, group)) => {
                (line.device(), group.map_or(-1, |group| self.number(group) as i64))
            }
            None => (0, -1),
        };
        // Of a process it is that of its first thread.
        let scheduling = self.procs.scheduling(tid).unwrap_or_default();
        let mut text = format!(
            "{} ({name}) {} {} {} {} {} {foreground} 0 {} {} 0 0 ",
            self.number(tid),
            self.procs.letter(proc, tid),
            self.number(proc.parent),
            self.number(proc.pgid),
            self.number(proc.sid),
            terminal,
            usage.faults,
            proc.children_faults,
        );
        put_line!(
            text,
            "{} {} {} {} {} {} {} 0 {} {} {} {} 0 0 0 0 0 0 0 0 0 0 0 0 17 0 {} {} 0 0 0 0 0 0 0 0 0 0 0",
            in_ticks(used.user()),
            in_ticks(used.system),
            in_ticks(proc.children_cpu.user()),
            in_ticks(proc.children_cpu.system),
            scheduling.shown_priority(),
            scheduling.nice,
            self.procs.threads_of(proc.pid).len().max(1),
            in_ticks(self.procs.get(self.reader).map_or(0, |own| own.since_boot(proc.started))),
            usage.mapped * 4096,
            usage.resident + usage.files,
            rss_limit,
            scheduling.priority,
            scheduling.policy,
        );
        text
    }

    fn process_status(&self, proc: &Proc, thread: Option<Tid>) -> String {
        let tid = thread.unwrap_or(proc.pid);
        let name = String::from_utf8_lossy(self.procs.name_of(tid));
        let state = match self.procs.letter(proc, tid) {
            'R' => "R (running)",
            'S' => "S (sleeping)",
            'T' => "T (stopped)",
            't' => "t (tracing stop)",
            _ => "Z (zombie)",
        };
        let who = &proc.who;
        let Credentials { users, groups, .. } = who;
        let threads = self.procs.threads_of(proc.pid).len().max(1);
        let mut text = String::new();
        put_line!(text, "Name:\t{}", in_one_line(&name));
        if proc.voice.is_some() {
            put_line!(text, "Umask:\t{:04o}", self.procs.umask_of(tid));
        }
        put_line!(
            text,
            "State:\t{state}\nTgid:\t{}\nNgid:\t0\nPid:\t{}\nPPid:\t{}",
            self.number(proc.pid),
            self.number(tid),
            self.number(proc.parent)
        );
        let tracer = self.procs.tracees.live(tid).map_or(0, |tracee| self.number(tracee.tracer));
        put_line!(text, "TracerPid:\t{tracer}");
        for (name, ids) in [("Uid", users), ("Gid", groups)] {
            let Ids { real, effective, saved, file } = ids;
            put_line!(text, "{name}:\t{real}\t{effective}\t{saved}\t{file}");
        }
        put_line!(text, "FDSize:\t{}", unixproto::session::SHOWN_FDS.next_multiple_of(64));
        put!(text, "Groups:\t");
        for (n, id) in who.others.ids().iter().enumerate() {
            put!(text, "{}{id}", if n > 0 { " " } else { "" });
        }
        put_line!(text, " ");
        let reader = self.procs.get(self.reader).map_or(None, |reader| reader.pids.clone());
        for (name, id) in
            [("NStgid", proc.pid), ("NSpid", tid), ("NSpgid", proc.pgid), ("NSsid", proc.sid)]
        {
            put!(text, "{name}:");
            for number in self.procs.numbers_of(proc, &reader, id) {
                put!(text, "\t{number}");
            }
            text.push('\n');
        }
        if proc.session().is_ok() {
            put_memory(&mut text, self.usage(proc));
        }
        put_line!(text, "CoreDumping:\t0\nTHP_enabled:\t0\nThreads:\t{threads}");
        if let Ok(session) = proc.session() {
            let header = session.header();
            let own = self.procs.session_of(tid).map_or(header, |session| session.header());
            let most = header.limits[limit::SIGPENDING as usize][0].load(Relaxed);
            let waiting = self.procs.signals_of_user(users.real);
            put_line!(text, "SigQ:\t{waiting}/{most}");
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
        let Forgone { mode, filters, .. } = who.forgone;
        put_line!(text, "Seccomp:\t{mode}\nSeccomp_filters:\t{filters}");
        self.put_places(&mut text, tid);
        text
    }

    /// The lines of `status` about where a thread may run, and its memory may be.
    fn put_places(&self, text: &mut String, tid: Tid) {
        /// Nodes that Debian's kernel could have.
        const NODES: usize = 1024;
        let cores = idle_ticks().count();
        let all = first_cores(cores);
        let chosen =
            self.procs.session_of(tid).map_or(0, |one| one.header().affinity.load(Relaxed));
        let cores_of = if chosen & all == 0 { all } else { chosen & all };
        put_line!(text, "Cpus_allowed:\t{}", mask_of(cores_of, cores));
        put_line!(text, "Cpus_allowed_list:\t{}", list_of(cores_of));
        put_line!(text, "Mems_allowed:\t{}\nMems_allowed_list:\t0", mask_of(1, NODES));
    }

    /// The number of a process, thread, group or session as who reads sees it.
    fn number(&self, id: Pid) -> Pid {
        self.procs.number_for(self.reader, id)
    }

    /// Processor time of a thread.
    fn thread_cpu(&self, tid: Tid) -> CpuTime {
        let runner = self.procs.runner_of(tid);
        runner.map_or_else(CpuTime::default, |one| CpuTime::of(one.dispatcher, self.clock))
    }
}

impl Procs {
    /// What a thread does.
    pub fn letter(&self, proc: &Proc, tid: Tid) -> char {
        match proc.state {
            State::Ending | State::Zombie => 'Z',
            // It has ended, while others go on.
            _ if tid == proc.pid && proc.first_ended => 'Z',
            _ if self.tracees.has_stopped(tid) => 't',
            _ if proc.stopped => 'T',
            _ if self.blocked(tid).is_some() => 'S',
            _ if self.sleeps(tid) => 'S',
            _ => 'R',
        }
    }

    /// How many threads run or could, and how many there are.
    pub fn running(&self) -> (u64, u64) {
        let (mut running, mut all) = (0, 0);
        for proc in self.iter() {
            for tid in self.threads_of(proc.pid) {
                all += 1;
                running += u64::from(self.letter(proc, tid) == 'R');
            }
        }
        (running, all)
    }

    /// How many threads of processes run or could, by the core that is their home, or is to be that of the program that they are executing.
    pub fn count_homes(&self, now_ns: u64, mut add: impl FnMut(u32, u32)) {
        for proc in self.iter().filter(|proc| proc.is_live()) {
            // It runs there soon.
            if let Some(next) = proc.next_home.get().filter(|next| next.holds(now_ns)) {
                add(next.core, 1);
                continue;
            }
            let runs = |tid: &Tid| self.letter(proc, *tid) == 'R';
            let others = proc.threads.iter().filter(|tid| runs(tid)).count() as u32;
            // Whoever acts as its child does nothing meanwhile.
            let acts = proc.acts_as.and_then(|child| self.get(child).ok());
            let acts = acts.is_some_and(|child| child.parent == proc.pid && child.is_acted());
            add(self.core_of(proc.pid), others + u32::from(!acts && runs(&proc.pid)));
        }
    }
}

/// The text of `init`, to whom the processes belong whose parents have ended. It is a native program: it has a place among the
/// processes, so that programs that look for the first one find it, but no memory and no descriptors that this server knows of.
pub fn init_text(name: &str) -> String {
    let text = match name {
        "cmdline" => "init\0",
        "comm" => "init\n",
        "stat" => {
            let limit = u64::MAX;
            return format!("1 (init) S 0 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 0 0 0 {limit} {}17 0 0 0 {}0\n", "0 ".repeat(12), "0 ".repeat(10));
        }
        "statm" => "0 0 0 0 0 0 0\n",
        _ => {
            "Name:\tinit\nState:\tS (sleeping)\nTgid:\t1\nNgid:\t0\nPid:\t1\nPPid:\t0\nTracerPid:\t0\nUid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\n\
             FDSize:\t0\nGroups:\t \nNStgid:\t1\nNSpid:\t1\nNSpgid:\t1\nNSsid:\t1\nCoreDumping:\t0\nTHP_enabled:\t0\nThreads:\t1\n"
        }
    };
    text.into()
}

/// A name as Linux shows it where nothing else may be in a line.
pub fn in_one_line(name: &str) -> String {
    name.replace('\\', "\\\\").replace('\n', "\\n")
}

/// The lines of `status` about memory.
fn put_memory(text: &mut String, usage: Usage) {
    for (name, pages) in [
        ("VmPeak", usage.most_mapped),
        ("VmSize", usage.mapped),
        ("VmLck", usage.locked),
        ("VmPin", 0),
        ("VmHWM", usage.most_resident + usage.files),
        ("VmRSS", usage.resident + usage.files),
        ("RssAnon", usage.resident),
        ("RssFile", usage.files - usage.shared_memory),
        ("RssShmem", usage.shared_memory),
        ("VmData", usage.data),
        ("VmStk", usage.stack),
        ("VmExe", usage.text),
        ("VmLib", 0),
        ("VmPTE", usage.tables),
        ("VmSwap", usage.out),
        ("HugetlbPages", 0),
    ] {
        put_line!(text, "{name}:\t{:>8} kB", pages * PAGE_KIB);
    }
}

fn rollup(usage: Usage) -> String {
    let mut text = String::new();
    for (name, pages) in [
        ("Rss:", usage.resident + usage.files),
        ("Anonymous:", usage.resident),
        ("Swap:", usage.out),
        ("Locked:", usage.locked),
    ] {
        put_line!(text, "{name:<15} {:>8} kB", pages * PAGE_KIB);
    }
    text
}

/// What this server enforces it says; of the rest only the process knows.
fn process_limits(proc: &Proc) -> String {
    let mut text = String::new();
    put_line!(text, "{:<25} {:<20} {:<20} {:<10}", "Limit", "Soft Limit", "Hard Limit", "Units");
    let Ok(session) = proc.session() else { return text };
    let claimed = &session.header().limits;
    for (which, ((name, unit), claimed)) in (0..).zip(LIMITS.iter().zip(claimed)) {
        put!(text, "{name:<25} ");
        let claimed = || claimed.each_ref().map(|word| word.load(Relaxed));
        for value in proc.limits.kept(which).unwrap_or_else(claimed) {
            match value {
                u64::MAX => put!(text, "{:<20} ", "unlimited"),
                value => put!(text, "{value:<20} "),
            }
        }
        match *unit {
            "" => text.push('\n'),
            unit => put_line!(text, "{unit:<10}"),
        }
    }
    text
}
