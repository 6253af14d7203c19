//! `/proc`: nodes that are made up when somebody looks.

use crate::descs::Object;
use crate::inet;
use crate::lines::LineId;
use crate::made::TUNABLES;
use crate::morefds::ShownFd;
use crate::names::View;
use crate::nodes::Node;
use crate::procnet::FILES as NET;
use crate::procs::{Pid, Proc, INIT};
use crate::sockdiag::local_inode;
use crate::spaces::{InSpaces, Opened as OpenedSpace, KINDS};
use crate::threads::Tid;
use crate::volumes::{Spot, Standing};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use credentials::Credentials;
use memfs::Step;
use unixproto::files::*;
use unixproto::trace::command;
use unixproto::Errno;

/// Something in `/proc`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum ProcNode {
    /// `/proc`
    Root,
    /// `/proc/self`
    SelfLink,
    /// `/proc/mounts`
    MountsLink,
    /// `/proc/tessera`
    Tessera,
    /// A file that is about the system.
    System(&'static str),
    /// A file in `/proc/tessera`.
    TesseraFile(&'static str),
    /// `/proc/net`
    Net,
    /// A file in `/proc/net`.
    NetFile(&'static str),
    /// `/proc/sysvipc`
    SysvIpc,
    /// A file in `/proc/sysvipc`.
    SysvFile(&'static str),
    /// `/proc/1`
    Init,
    /// A file in `/proc/1`.
    InitFile(&'static str),
    /// `/proc/PID`
    Pid(Pid),
    /// A file in `/proc/PID`.
    File(Pid, &'static str),
    /// A link in `/proc/PID` or `/proc/PID/task/TID`.
    Link(Tid, &'static str),
    /// `/proc/PID/fd`
    Fds(Pid),
    /// `/proc/PID/fd/N`
    Fd(Pid, u32),
    /// A name space that is mounted somewhere, by its number among those.
    Bound(u32),
    /// What is told of descriptors, and of one.
    FdFacts(Pid),
    FdFact(Pid, u32),
    /// `/proc/PID/ns` or `/proc/PID/task/TID/ns`
    Spaces(Tid),
    /// A name space there.
    Space(Tid, &'static str),
    /// Something in `/proc/sys` or `/sys`.
    Made(u16),
    /// `/proc/thread-self`
    ThreadLink,
    /// `/proc/PID/task`
    Tasks(Pid),
    /// `/proc/PID/task/TID`
    Task(Pid, Tid),
    /// A file in `/proc/PID/task/TID`.
    TaskFile(Pid, Tid, &'static str),
}

use ProcNode::*;

const SYSTEM: [&str; 12] = [
    "cpuinfo",
    "filesystems",
    "loadavg",
    "meminfo",
    "partitions",
    "stat",
    "swaps",
    "uptime",
    "version",
    "vmstat",
    "cmdline",
    "locks",
];
const TESSERA: [&str; 6] = ["capabilities", "cores", "counters", "memory", "processes", "unixd"];
const SYSV: [&str; 3] = ["msg", "sem", "shm"];
const FILES: [&str; 28] = [
    "auxv",
    "cgroup",
    "clear_refs",
    "cmdline",
    "comm",
    "environ",
    "gid_map",
    "limits",
    "loginuid",
    "maps",
    "mem",
    "mountinfo",
    "mounts",
    "mountstats",
    "oom_adj",
    "oom_score",
    "oom_score_adj",
    "pagemap",
    "sessionid",
    "setgroups",
    "smaps",
    "smaps_rollup",
    "stat",
    "statm",
    "status",
    "timens_offsets",
    "uid_map",
    "wchan",
];
/// Those of them that `init` has, which is no process of this server's.
const INIT_FILES: [&str; 5] = ["cmdline", "comm", "stat", "statm", "status"];
/// Those of them that are for who may look into a process.
pub const PRIVATE: [&str; 8] =
    ["auxv", "clear_refs", "environ", "maps", "mem", "pagemap", "smaps", "smaps_rollup"];
/// Those of them that are there for each thread too.
const TASK_FILES: [&str; 23] = [
    "clear_refs",
    "cmdline",
    "comm",
    "environ",
    "limits",
    "mem",
    "mountinfo",
    "mounts",
    "mountstats",
    "stat",
    "statm",
    "status",
    "auxv",
    "maps",
    "pagemap",
    "smaps",
    "oom_adj",
    "oom_score",
    "oom_score_adj",
    "cgroup",
    "loginuid",
    "sessionid",
    "wchan",
];
/// What says who is ended when there is no memory.
pub const OOM_SET: [&str; 2] = ["oom_adj", "oom_score_adj"];
const LINKS: [&str; 3] = ["cwd", "exe", "root"];
/// `st_dev`.
pub const DEVICE: u64 = 3;
/// That of `/sys`.
pub const SYS_DEVICE: u64 = 7;
/// That of name spaces.
const SPACE_DEVICE: u64 = 6;
const DIRECTORY: u8 = 4;
const REGULAR: u8 = 8;
const SYMLINK: u8 = 10;

/// Name, type and inode number of an entry.
pub type Entry = (Vec<u8>, u8, u64);

/// In the inode numbers of `/proc/sys` and `/sys`.
const MADE: u64 = 1 << 44;

/// Where `/proc/mounts` leads.
const MOUNTS: &[u8] = b"self/mounts";

/// In the inode numbers of what is about a thread.
const THREAD: u64 = 1 << 40;
/// The same of a name space that is mounted.
const BOUND: u64 = 1 << 50;

/// Whose memory a node is, for its library: the process above 16 bits, and what it is asked for, or 0.
pub fn whose(node: Node) -> u64 {
    match node {
        Node::Proc(File(pid, _)) => (pid as u64) << 16 | u64::from(told(node).unwrap_or(0)),
        _ => 0,
    }
}

/// What a process is asked for that tells what is in one of its files, by number.
pub fn told(node: Node) -> Option<u32> {
    match node {
        Node::Proc(File(_, name)) => command::of_text(name.as_bytes()),
        _ => None,
    }
}

/// An inode number for a node.
pub fn inode(node: ProcNode) -> u64 {
    let in_pid = |pid: Pid, n: u64| (pid as u64) << 16 | n;
    match node {
        Root => 1,
        SelfLink => 2,
        Tessera => 3,
        ThreadLink => 4,
        MountsLink => 5,
        Made(number) => MADE | u64::from(number),
        Net => 6,
        SysvIpc => 7,
        SysvFile(name) => 128 + SYSV.iter().position(|n| *n == name).unwrap_or(0) as u64,
        NetFile(name) => 96 + NET.iter().position(|n| *n == name).unwrap_or(0) as u64,
        System(name) => 16 + SYSTEM.iter().position(|n| *n == name).unwrap_or(0) as u64,
        TesseraFile(name) => 64 + TESSERA.iter().position(|n| *n == name).unwrap_or(0) as u64,
        Init => in_pid(INIT, 0),
        InitFile(name) => inode(File(INIT, name)),
        Pid(pid) => in_pid(pid, 0),
        Fds(pid) => in_pid(pid, 1),
        File(pid, name) => {
            in_pid(pid, 16 + FILES.iter().position(|n| *n == name).unwrap_or(0) as u64)
        }
        Link(pid, name) => {
            in_pid(pid, 64 + LINKS.iter().position(|n| *n == name).unwrap_or(0) as u64)
        }
        FdFacts(pid) => in_pid(pid, 4),
        Fd(pid, fd) => in_pid(pid, 1000 + fd as u64),
        FdFact(pid, fd) => in_pid(pid, 1000 + unixproto::limit::FILES_MOST + fd as u64),
        Bound(number) => BOUND | u64::from(number),
        Tasks(pid) => in_pid(pid, 2),
        Spaces(pid) => in_pid(pid, 3),
        Space(pid, name) => {
            in_pid(pid, 96 + KINDS.iter().position(|kind| kind.0 == name).unwrap_or(0) as u64)
        }
        Task(_, tid) => THREAD | in_pid(tid, 0),
        TaskFile(_, tid, name) => THREAD | inode(File(tid, name)),
    }
}

fn known(names: &[&'static str], name: &[u8]) -> Option<&'static str> {
    names.iter().copied().find(|known| known.as_bytes() == name)
}

fn number(name: &[u8]) -> Option<u32> {
    let text = core::str::from_utf8(name).ok()?;
    let canonical = text.as_bytes().first().is_some_and(u8::is_ascii_digit);
    (canonical && (text.len() == 1 || !text.starts_with('0'))).then(|| text.parse().ok())?
}

/// The path of a node.
pub fn path_of(node: ProcNode) -> Vec<u8> {
    let text = match node {
        Root => String::from("/proc"),
        SelfLink => String::from("/proc/self"),
        Tessera => String::from("/proc/tessera"),
        Net => String::from("/proc/net"),
        NetFile(name) => format!("/proc/net/{name}"),
        System(name) => format!("/proc/{name}"),
        TesseraFile(name) => format!("/proc/tessera/{name}"),
        SysvIpc => String::from("/proc/sysvipc"),
        SysvFile(name) => format!("/proc/sysvipc/{name}"),
        Init => format!("/proc/{INIT}"),
        InitFile(name) => format!("/proc/{INIT}/{name}"),
        Pid(pid) => format!("/proc/{pid}"),
        File(pid, name) | Link(pid, name) => format!("/proc/{pid}/{name}"),
        Fds(pid) => format!("/proc/{pid}/fd"),
        Fd(pid, fd) => format!("/proc/{pid}/fd/{fd}"),
        FdFacts(pid) => format!("/proc/{pid}/fdinfo"),
        FdFact(pid, fd) => format!("/proc/{pid}/fdinfo/{fd}"),
        ThreadLink => String::from("/proc/thread-self"),
        MountsLink => String::from("/proc/mounts"),
        // Only the tree knows their names.
        Made(_) | Bound(_) => String::from("/proc"),
        Tasks(pid) => format!("/proc/{pid}/task"),
        Spaces(pid) => format!("/proc/{pid}/ns"),
        Space(pid, name) => format!("/proc/{pid}/ns/{name}"),
        Task(pid, tid) => format!("/proc/{pid}/task/{tid}"),
        TaskFile(pid, tid, name) => format!("/proc/{pid}/task/{tid}/{name}"),
    };
    text.into_bytes()
}

impl View<'_> {
    /// The process of a node, if it (still) is.
    pub fn proc_of(&self, node: ProcNode) -> Result<Option<&Proc>, Errno> {
        match node {
            Spaces(INIT) | Space(INIT, _) if self.number(INIT) != 0 => Ok(None),
            Link(tid, _) | Spaces(tid) | Space(tid, _) => match self.number(tid) {
                0 => Err(Errno::ENOENT),
                _ => {
                    let proc = self.procs.get(self.procs.leader(tid));
                    proc.map(Some).map_err(|_| Errno::ENOENT)
                }
            },
            Pid(pid)
            | File(pid, _)
            | Fds(pid)
            | Fd(pid, _)
            | FdFacts(pid)
            | FdFact(pid, _)
            | Tasks(pid) => match self.number(pid) {
                0 => Err(Errno::ENOENT),
                _ => self.procs.get(pid).map(Some).map_err(|_| Errno::ENOENT),
            },
            Task(pid, tid) | TaskFile(pid, tid, _) => match self.is_task(pid, tid) {
                true if self.number(tid) != 0 => self.procs.get(pid).map(Some),
                true => Err(Errno::ENOENT),
                false => Err(Errno::ENOENT),
            },
            _ => Ok(None),
        }
    }

    /// Has the process this thread? The first one has its place even after its end.
    fn is_task(&self, pid: Pid, tid: Tid) -> bool {
        let proc = self.procs.get(pid);
        proc.is_ok_and(|proc| tid == pid || proc.threads.contains(&tid))
    }

    /// Where `/proc/thread-self` leads.
    fn own_task(&self) -> Vec<u8> {
        let (pid, tid) = (self.number(self.caller.pid), self.number(self.caller.tid));
        format!("{pid}/task/{tid}").into_bytes()
    }

    /// The number of a process or thread in the name space of who looks; 0: it is not there.
    fn number(&self, id: Pid) -> Pid {
        self.procs.number_for(self.caller.pid, id)
    }

    /// What a node is, for a walk.
    pub fn proc_step(&self, node: ProcNode) -> Result<Step<Spot>, Errno> {
        self.proc_of(node)?;
        Ok(match node {
            Root | Tessera | Net | SysvIpc | Init | Pid(_) | Fds(_) | FdFacts(_) | Tasks(_)
            | Task(..) | Spaces(_) => Step::Dir,
            Space(pid, _) => {
                self.check_trace(pid)?;
                self.is_there(pid)?;
                Step::Other
            }
            Bound(_) => Step::Other,
            SelfLink => Step::Link(format!("{}", self.number(self.caller.pid)).into_bytes()),
            ThreadLink => Step::Link(self.own_task()),
            MountsLink => Step::Link(MOUNTS.to_vec()),
            Made(number) if self.tree.made().is_dir(number) => Step::Dir,
            Made(_) => Step::Other,
            System(_) | TesseraFile(_) | NetFile(_) | SysvFile(_) | InitFile(_) | File(..)
            | TaskFile(..) | FdFact(..) => Step::Other,
            Link(pid, name) => {
                self.check_trace(pid)?;
                self.is_there(pid)?;
                match name {
                    "cwd" => Step::Jump(self.stands_of(pid)?.cwd),
                    "root" => Step::Jump(self.stands_of(pid)?.root),
                    _ => Step::Named(self.exe(self.procs.leader(pid))?),
                }
            }
            Fd(pid, fd) => {
                self.check_trace(pid)?;
                let spot = match self.any_fd(pid, fd)? {
                    ShownFd::Desc(desc) => self.spot_of(self.descs.get(desc)?)?,
                    ShownFd::Own(_) => None,
                };
                spot.map_or(Step::Other, Step::Jump)
            }
        })
    }

    /// Where a thread stands.
    fn stands_of(&self, tid: Tid) -> Result<Standing, Errno> {
        self.procs.stands_of(self.procs.leader(tid), tid)
    }

    /// `EACCES` unless a process may look into another, or into a thread of it.
    pub fn check_trace(&self, other: Tid) -> Result<(), Errno> {
        if other == INIT {
            return match credentials::may_trace(self.who, &Credentials::ROOT, true) {
                true => Ok(()),
                false => Err(Errno::EACCES),
            };
        }
        let other = self.procs.get(self.procs.leader(other)).map_err(|_| Errno::ENOENT)?;
        let may = other.pid == self.caller.pid
            || credentials::may_trace(self.who, &other.who, other.dumpable);
        match may {
            true => Ok(()),
            false => Err(Errno::EACCES),
        }
    }

    /// May a process look for names in a directory?
    pub fn proc_enter(&self, dir: ProcNode) -> Result<(), Errno> {
        match dir {
            Fds(pid) | FdFacts(pid) => self.check_trace(pid),
            _ => Ok(()),
        }
    }

    /// The name space of a thread with a name.
    pub fn space(&self, tid: Tid, name: &str) -> Result<OpenedSpace, Errno> {
        let space = match tid {
            INIT => OpenedSpace::first(self.procs, self.tree, name),
            tid => OpenedSpace::of(self.procs, self.tree, tid, name),
        };
        space.ok_or(Errno::ENOENT)
    }

    /// What is opened at a name space in `/proc/PID/ns`.
    pub fn space_stat(&self, space: &OpenedSpace) -> Stat {
        let mode = S_IFREG | 0o444;
        Stat {
            dev: SPACE_DEVICE,
            ino: space.number(),
            nlink: 1,
            mode,
            blksize: 4096,
            ..Stat::default()
        }
    }

    /// `ENOENT` of a process that has ended: it stands nowhere.
    fn is_there(&self, tid: Tid) -> Result<(), Errno> {
        if tid == INIT {
            return Ok(());
        }
        match self.procs.get(self.procs.leader(tid))?.is_over() {
            true => Err(Errno::ENOENT),
            false => Ok(()),
        }
    }

    fn exe(&self, pid: Pid) -> Result<Vec<u8>, Errno> {
        match self.procs.get(pid)?.exe() {
            [] => Err(Errno::ENOENT),
            exe => Ok(exe.to_vec()),
        }
    }

    /// The description behind a file descriptor, as the process's library shows it.
    pub fn shown_fd(&self, pid: Pid, fd: u32) -> Result<u32, Errno> {
        match self.any_fd(pid, fd)? {
            ShownFd::Desc(desc) => Ok(desc),
            // Nothing that could be opened once more.
            ShownFd::Own(_) => Err(Errno::ENXIO),
        }
    }

    /// The same, where it may be something that the library keeps.
    pub fn any_fd(&self, pid: Pid, fd: u32) -> Result<ShownFd, Errno> {
        match self.procs.shown_fd(self.procs.get(pid)?, fd) {
            Some(ShownFd::Desc(desc)) if !self.descs.holds(pid, desc) => Err(Errno::ENOENT),
            found => found.ok_or(Errno::ENOENT),
        }
    }

    /// The node with a name in a directory.
    pub fn proc_lookup(&self, dir: ProcNode, name: &[u8]) -> Result<Option<ProcNode>, Errno> {
        self.proc_of(dir)?;
        if name == b"." {
            return Ok(Some(dir));
        }
        if name == b".." {
            return Ok(Some(match dir {
                Spaces(INIT) => Init,
                Spaces(tid) if self.procs.leader(tid) != tid => Task(self.procs.leader(tid), tid),
                Fds(pid) | FdFacts(pid) | Tasks(pid) | Spaces(pid) => Pid(pid),
                Task(pid, _) => Tasks(pid),
                Made(number) if number != TUNABLES => Made(self.tree.made().above(number)),
                _ => Root,
            }));
        }
        let node = match dir {
            Root => match name {
                b"self" => Some(SelfLink),
                b"thread-self" => Some(ThreadLink),
                b"mounts" => Some(MountsLink),
                b"sys" => Some(Made(TUNABLES)),
                b"tessera" => Some(Tessera),
                b"net" => Some(Net),
                b"sysvipc" => Some(SysvIpc),
                _ => known(&SYSTEM, name).map(System).or_else(|| self.numbered(number(name)?)),
            },
            Tessera => known(&TESSERA, name).map(TesseraFile),
            Made(dir) if self.tree.made().is_dir(dir) => {
                self.tree.made().lookup(dir, name).map(Made)
            }
            Net => known(&NET, name).map(NetFile),
            SysvIpc => known(&SYSV, name).map(SysvFile),
            Init if name == b"ns" => Some(Spaces(INIT)),
            Init => known(&INIT_FILES, name).map(InitFile),
            Pid(pid) if name == b"fd" => Some(Fds(pid)),
            Pid(pid) if name == b"fdinfo" => Some(FdFacts(pid)),
            Pid(pid) if name == b"task" => Some(Tasks(pid)),
            Pid(pid) if name == b"net" => self.is_in_net_of(pid, pid).then_some(Net),
            Pid(pid) if name == b"ns" => Some(Spaces(pid)),
            Spaces(pid) => {
                let found = KINDS.iter().find(|kind| kind.0.as_bytes() == name);
                found.map(|kind| Space(pid, kind.0))
            }
            Tasks(pid) => {
                let tid = number(name).map(|number| self.id(number));
                let tid = tid.filter(|tid| self.is_task(pid, *tid));
                tid.map(|tid| Task(pid, tid))
            }
            Task(pid, tid) => self.of_task((pid, tid), name),
            Pid(pid) => known(&FILES, name)
                .map(|name| File(pid, name))
                .or_else(|| known(&LINKS, name).map(|name| Link(pid, name))),
            Fds(pid) => {
                let fd = number(name).filter(|fd| self.any_fd(pid, *fd).is_ok());
                fd.map(|fd| Fd(pid, fd))
            }
            FdFacts(pid) => {
                let fd = number(name).filter(|fd| self.any_fd(pid, *fd).is_ok());
                fd.map(|fd| FdFact(pid, fd))
            }
            _ => return Err(Errno::ENOTDIR),
        };
        Ok(node)
    }

    /// What a thread has in its directory.
    fn of_task(&self, (pid, tid): (Pid, Tid), name: &[u8]) -> Option<ProcNode> {
        match name {
            b"fd" => Some(Fds(pid)),
            b"fdinfo" => Some(FdFacts(pid)),
            b"net" => self.is_in_net_of(pid, tid).then_some(Net),
            b"ns" => Some(Spaces(tid)),
            _ => known(&TASK_FILES, name)
                .map(|name| TaskFile(pid, tid, name))
                .or_else(|| known(&LINKS, name).map(|name| Link(tid, name))),
        }
    }

    /// Is a thread in the network of who looks? Of another one nothing is told.
    fn is_in_net_of(&self, pid: Pid, tid: Tid) -> bool {
        let place = |pid, tid| self.procs.spaces_of(pid, tid).map(InSpaces::net_number).ok();
        place(pid, tid) == place(self.caller.pid, self.caller.tid)
    }

    /// A process or a thread by its number. Threads are there, but not listed.
    fn numbered(&self, number: u32) -> Option<ProcNode> {
        let number = self.id(number);
        let leader = self.procs.leader(number);
        match self.procs.get(number) {
            _ if number == INIT => Some(Init),
            Ok(_) => Some(Pid(number)),
            Err(_) => self.is_task(leader, number).then_some(Task(leader, number)),
        }
    }

    /// What a number means in the name space of who looks.
    fn id(&self, number: u32) -> Pid {
        let own = self.procs.get(self.caller.pid);
        own.map_or(number, |own| self.procs.id_in(&own.pids, number))
    }

    /// Descriptors of a process from one on, some of them if there are very many.
    fn fds_from(&self, pid: Pid, first: u32) -> Result<Vec<u32>, Errno> {
        // More than anybody is told at once.
        const MOST: usize = 1024;
        let mut all = self.procs.shown_fds(self.procs.get(pid)?, first, MOST)?;
        all.retain(|fd| self.any_fd(pid, *fd).is_ok());
        Ok(all)
    }

    /// The entries of a directory; of descriptors, those from `first` on.
    pub fn proc_entries(&self, dir: ProcNode, first: u32) -> Result<Vec<Entry>, Errno> {
        self.proc_of(dir)?;
        let mut all: Vec<Entry> = Vec::new();
        let mut add = |name: &str, kind: u8, node: ProcNode| {
            all.push((name.as_bytes().to_vec(), kind, inode(node)));
        };
        add(".", DIRECTORY, dir);
        add("..", DIRECTORY, Root);
        match dir {
            Root => {
                SYSTEM.iter().for_each(|name| add(name, REGULAR, System(name)));
                add("self", SYMLINK, SelfLink);
                add("thread-self", SYMLINK, ThreadLink);
                add("mounts", SYMLINK, MountsLink);
                add("sys", DIRECTORY, Made(TUNABLES));
                add("tessera", DIRECTORY, Tessera);
                add("net", DIRECTORY, Net);
                add("sysvipc", DIRECTORY, SysvIpc);
                if self.number(INIT) != 0 {
                    add(&format!("{INIT}"), DIRECTORY, Init);
                }
                let mut seen: Vec<_> =
                    self.procs.iter().map(|proc| (self.number(proc.pid), proc.pid)).collect();
                // Programs count on their order.
                seen.sort_unstable();
                for (number, pid) in seen.into_iter().filter(|(number, _)| *number != 0) {
                    add(&format!("{number}"), DIRECTORY, Pid(pid));
                }
            }
            Tessera => TESSERA.iter().for_each(|name| add(name, REGULAR, TesseraFile(name))),
            SysvIpc => SYSV.iter().for_each(|name| add(name, REGULAR, SysvFile(name))),
            Net => NET.iter().for_each(|name| add(name, REGULAR, NetFile(name))),
            Init => {
                add("ns", DIRECTORY, Spaces(INIT));
                INIT_FILES.iter().for_each(|name| add(name, REGULAR, InitFile(name)));
            }
            Pid(pid) => {
                add("fd", DIRECTORY, Fds(pid));
                add("fdinfo", DIRECTORY, FdFacts(pid));
                add("task", DIRECTORY, Tasks(pid));
                add("ns", DIRECTORY, Spaces(pid));
                if self.is_in_net_of(pid, pid) {
                    add("net", DIRECTORY, Net);
                }
                FILES.iter().for_each(|name| add(name, REGULAR, File(pid, name)));
                LINKS.iter().for_each(|name| add(name, SYMLINK, Link(pid, name)));
            }
            Made(dir) if self.tree.made().is_dir(dir) => {
                for (name, is_dir, number) in self.tree.made().entries(dir) {
                    add(name, if is_dir { DIRECTORY } else { REGULAR }, Made(number));
                }
            }
            Tasks(pid) => {
                let others = self.procs.get(pid)?.threads.iter().copied();
                for tid in core::iter::once(pid).chain(others) {
                    add(&format!("{}", self.number(tid)), DIRECTORY, Task(pid, tid));
                }
            }
            Task(pid, tid) => {
                add("fd", DIRECTORY, Fds(pid));
                add("fdinfo", DIRECTORY, FdFacts(pid));
                add("ns", DIRECTORY, Spaces(tid));
                if self.is_in_net_of(pid, tid) {
                    add("net", DIRECTORY, Net);
                }
                LINKS.iter().for_each(|name| add(name, SYMLINK, Link(tid, name)));
                TASK_FILES.iter().for_each(|name| add(name, REGULAR, TaskFile(pid, tid, name)));
            }
            Spaces(pid) => KINDS.iter().for_each(|kind| add(kind.0, SYMLINK, Space(pid, kind.0))),
            Fds(pid) => {
                for fd in self.fds_from(pid, first)? {
                    add(&format!("{fd}"), SYMLINK, Fd(pid, fd));
                }
            }
            FdFacts(pid) => {
                for fd in self.fds_from(pid, first)? {
                    add(&format!("{fd}"), REGULAR, FdFact(pid, fd));
                }
            }
            _ => return Err(Errno::ENOTDIR),
        }
        Ok(all)
    }

    /// `stat` of a node. `boot_wall`: nanoseconds since 1970 at boot.
    pub fn proc_stat(&self, node: ProcNode, boot_wall: u64) -> Result<Stat, Errno> {
        let proc = self.proc_of(node)?;
        let mode = match node {
            Root | Tessera | Net | SysvIpc | Init | Pid(_) | Tasks(_) | Task(..) => S_IFDIR | 0o555,
            Made(number) if self.tree.made().is_dir(number) => S_IFDIR | 0o555,
            Made(number) if self.tree.made().is_written(number) => S_IFREG | 0o644,
            Fds(_) => S_IFDIR | 0o500,
            FdFacts(_) => S_IFDIR | 0o555,
            Spaces(_) => S_IFDIR | 0o511,
            SelfLink | ThreadLink | MountsLink | Link(..) | Space(..) => S_IFLNK | 0o777,
            Fd(..) => S_IFLNK | 0o700,
            File(_, "uid_map" | "gid_map" | "setgroups" | "timens_offsets") => S_IFREG | 0o644,
            File(_, "comm" | "loginuid") | TaskFile(_, _, "comm" | "loginuid") => S_IFREG | 0o644,
            File(_, "clear_refs") | TaskFile(_, _, "clear_refs") => S_IFREG | 0o200,
            File(_, name) | TaskFile(_, _, name) if OOM_SET.contains(&name) => S_IFREG | 0o644,
            TesseraFile("capabilities") | File(_, "auxv" | "environ") => S_IFREG | 0o400,
            TaskFile(_, _, "auxv" | "environ") => S_IFREG | 0o400,
            _ => S_IFREG | 0o444,
        };
        // A link that jumps is `stat`ed itself only where it was not followed.
        let size = match node {
            SelfLink => format!("{}", self.number(self.caller.pid)).len() as i64,
            ThreadLink => self.own_task().len() as i64,
            MountsLink => MOUNTS.len() as i64,
            _ => 0,
        };
        // What a process keeps to itself belongs to the administrator.
        let owner = proc.filter(|proc| proc.dumpable).map(|proc| &proc.who);
        let (uid, gid) = owner.map_or((0, 0), |who| (who.users.effective, who.groups.effective));
        let born = proc.map_or(0, |proc| proc.started) + boot_wall;
        let (time, nlink) = (born as i64, if mode & S_IFMT == S_IFDIR { 2 } else { 1 });
        Ok(Stat {
            dev: match node {
                Made(number) if !self.tree.made().is_tunable(number) => SYS_DEVICE,
                _ => DEVICE,
            },
            ino: inode(node),
            nlink,
            mode,
            uid,
            gid,
            size,
            blksize: 1024,
            atime: time,
            mtime: time,
            ctime: time,
            ..Stat::default()
        })
    }

    /// `readlink` of a node.
    pub fn proc_link(&self, node: ProcNode) -> Result<Vec<u8>, Errno> {
        match node {
            SelfLink => Ok(format!("{}", self.number(self.caller.pid)).into_bytes()),
            ThreadLink => Ok(self.own_task()),
            MountsLink => Ok(MOUNTS.to_vec()),
            Link(pid, name) => {
                self.check_trace(pid)?;
                self.is_there(pid)?;
                match name {
                    "cwd" => self.tree.path_of(self.stands_of(pid)?.cwd, self.root()?),
                    "root" => self.tree.path_of(self.stands_of(pid)?.root, self.root()?),
                    _ => self.exe(self.procs.leader(pid)),
                }
            }
            Space(pid, name) => {
                self.check_trace(pid)?;
                self.is_there(pid)?;
                Ok(self.space(pid, name)?.text())
            }
            Fd(pid, fd) => {
                self.check_trace(pid)?;
                match self.any_fd(pid, fd)? {
                    ShownFd::Desc(desc) => self.desc_path(desc),
                    ShownFd::Own(name) => Ok([b"anon_inode:", name.as_bytes()].concat()),
                }
            }
            _ => Err(Errno::EINVAL),
        }
    }

    /// How `/proc/PID/fd` names a description.
    pub fn desc_path(&self, id: u32) -> Result<Vec<u8>, Errno> {
        let desc = self.descs.get(id)?;
        if let (Object::Dir(_), Some(spot)) = (&desc.object, self.spot_of(desc)?) {
            return self.tree.path_of(spot, self.root()?);
        }
        if let Some(place) = &desc.place {
            let dir = Spot { mount: place.above, node: place.dir };
            let mut path = self.tree.path_in(dir, &place.name, self.root()?)?;
            let gone = matches!(desc.object, Object::File(ino)
                if self.tree.files().names().get(ino).map_or(true, |inode| inode.nlink == 0));
            if gone {
                path.extend_from_slice(b" (deleted)");
            }
            return Ok(path);
        }
        Ok(match &desc.object {
            Object::Pipe(pipe, _) => format!("pipe:[{}]", 1 + pipe).into_bytes(),
            Object::Tty(LineId::Console, _) => b"/dev/console".to_vec(),
            Object::Tty(LineId::Pty(number), _) => format!("/dev/pts/{number}").into_bytes(),
            Object::Master(..) => b"/dev/ptmx".to_vec(),
            Object::Stream(_) => b"pipe:[0]".to_vec(),
            Object::Counter(Kind::Timer, _) => b"anon_inode:[timerfd]".to_vec(),
            Object::Set(_) => b"anon_inode:[eventpoll]".to_vec(),
            Object::Socket(number) => format!("socket:[{}]", local_inode(*number)).into_bytes(),
            Object::Notices(_) => b"anon_inode:inotify".to_vec(),
            Object::Fanotify(_) => b"anon_inode:[fanotify]".to_vec(),
            Object::Inet(number) => format!("socket:[{}]", inet::inode(*number)).into_bytes(),
            Object::Signals(_) => b"anon_inode:[signalfd]".to_vec(),
            Object::Counter(Kind::Listener, _) => b"anon_inode:seccomp notify".to_vec(),
            Object::Counter(Kind::Process, _) => b"anon_inode:[pidfd]".to_vec(),
            Object::Counter(..) => b"anon_inode:[eventfd]".to_vec(),
            Object::Messages(ino) => [b"/", self.tree.called(*ino)].concat(),
            Object::File(ino) => [b"/memfd:", self.tree.called(*ino), b" (deleted)"].concat(),
            // All others have a place.
            Object::Dir(_) | Object::Device(..) => b"/memfd: (deleted)".to_vec(),
            Object::Disk { .. }
            | Object::Text(..)
            | Object::Path(_)
            | Object::Memory(..)
            | Object::Shared(_) => b"/memfd: (deleted)".to_vec(),
            Object::Space(space) => space.text(),
            Object::Making(_) => b"anon_inode:[fscontext]".to_vec(),
        })
    }
}
