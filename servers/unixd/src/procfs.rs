//! `/proc`: nodes that are made up when somebody looks.

use crate::descs::Object;
use crate::lines::LineId;
use crate::names::View;
use crate::nodes::Node;
use crate::procs::{Pid, Proc};
use crate::threads::Tid;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;
use memfs::Step;
use unixproto::files::*;
use unixproto::Errno;

/// Something in `/proc`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProcNode {
    /// `/proc`
    Root,
    /// `/proc/self`
    SelfLink,
    /// `/proc/tessera`
    Tessera,
    /// A file that is about the system.
    System(&'static str),
    /// A file in `/proc/tessera`.
    TesseraFile(&'static str),
    /// `/proc/PID`
    Pid(Pid),
    /// A file in `/proc/PID`.
    File(Pid, &'static str),
    /// A link in `/proc/PID`.
    Link(Pid, &'static str),
    /// `/proc/PID/fd`
    Fds(Pid),
    /// `/proc/PID/fd/N`
    Fd(Pid, u32),
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

const SYSTEM: [&str; 11] = [
    "cpuinfo",
    "filesystems",
    "loadavg",
    "meminfo",
    "mounts",
    "partitions",
    "stat",
    "swaps",
    "uptime",
    "version",
    "cmdline",
];
const TESSERA: [&str; 6] = ["capabilities", "cores", "counters", "memory", "processes", "unixd"];
const FILES: [&str; 14] = [
    "auxv",
    "cmdline",
    "comm",
    "environ",
    "limits",
    "maps",
    "mem",
    "mountinfo",
    "mounts",
    "smaps",
    "smaps_rollup",
    "stat",
    "statm",
    "status",
];
/// Those of them that are for who may look into a process.
pub const PRIVATE: [&str; 6] = ["auxv", "environ", "maps", "mem", "smaps", "smaps_rollup"];
/// Those of them that are there for each thread too.
const TASK_FILES: [&str; 9] =
    ["cmdline", "comm", "environ", "limits", "mem", "mounts", "stat", "statm", "status"];
const LINKS: [&str; 3] = ["cwd", "exe", "root"];
const DIRECTORY: u8 = 4;
const REGULAR: u8 = 8;
const SYMLINK: u8 = 10;

/// Name, type and inode number of an entry.
pub type Entry = (Vec<u8>, u8, u64);

/// In the inode numbers of what is about a thread.
const THREAD: u64 = 1 << 40;

/// An inode number for a node.
pub fn inode(node: ProcNode) -> u64 {
    let in_pid = |pid: Pid, n: u64| (pid as u64) << 16 | n;
    match node {
        Root => 1,
        SelfLink => 2,
        Tessera => 3,
        ThreadLink => 4,
        System(name) => 16 + SYSTEM.iter().position(|n| *n == name).unwrap_or(0) as u64,
        TesseraFile(name) => 64 + TESSERA.iter().position(|n| *n == name).unwrap_or(0) as u64,
        Pid(pid) => in_pid(pid, 0),
        Fds(pid) => in_pid(pid, 1),
        File(pid, name) => {
            in_pid(pid, 16 + FILES.iter().position(|n| *n == name).unwrap_or(0) as u64)
        }
        Link(pid, name) => {
            in_pid(pid, 64 + LINKS.iter().position(|n| *n == name).unwrap_or(0) as u64)
        }
        Fd(pid, fd) => in_pid(pid, 1000 + fd as u64),
        Tasks(pid) => in_pid(pid, 2),
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
        System(name) => format!("/proc/{name}"),
        TesseraFile(name) => format!("/proc/tessera/{name}"),
        Pid(pid) => format!("/proc/{pid}"),
        File(pid, name) | Link(pid, name) => format!("/proc/{pid}/{name}"),
        Fds(pid) => format!("/proc/{pid}/fd"),
        Fd(pid, fd) => format!("/proc/{pid}/fd/{fd}"),
        ThreadLink => String::from("/proc/thread-self"),
        Tasks(pid) => format!("/proc/{pid}/task"),
        Task(pid, tid) => format!("/proc/{pid}/task/{tid}"),
        TaskFile(pid, tid, name) => format!("/proc/{pid}/task/{tid}/{name}"),
    };
    text.into_bytes()
}

impl View<'_> {
    /// The process of a node, if it (still) is.
    pub fn proc_of(&self, node: ProcNode) -> Result<Option<&Proc>, Errno> {
        match node {
            Pid(pid) | File(pid, _) | Link(pid, _) | Fds(pid) | Fd(pid, _) | Tasks(pid) => {
                self.procs.get(pid).map(Some).map_err(|_| Errno::ENOENT)
            }
            Task(pid, tid) | TaskFile(pid, tid, _) => match self.is_task(pid, tid) {
                true => self.procs.get(pid).map(Some),
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
        format!("{}/task/{}", self.caller.pid, self.caller.tid).into_bytes()
    }

    /// What a node is, for a walk.
    pub fn proc_step(&self, node: ProcNode) -> Result<Step<Node>, Errno> {
        self.proc_of(node)?;
        Ok(match node {
            Root | Tessera | Pid(_) | Fds(_) | Tasks(_) | Task(..) => Step::Dir,
            SelfLink => Step::Link(format!("{}", self.caller.pid).into_bytes()),
            ThreadLink => Step::Link(self.own_task()),
            System(_) | TesseraFile(_) | File(..) | TaskFile(..) => Step::Other,
            Link(pid, name) => {
                self.check_trace(pid)?;
                match name {
                    "cwd" => Step::Jump(self.procs.get(pid)?.cwd),
                    "root" => Step::Jump(self.tree.root()),
                    _ => Step::Link(self.exe(pid)?),
                }
            }
            Fd(pid, fd) => {
                self.check_trace(pid)?;
                let desc = self.descs.get(self.shown_fd(pid, fd)?)?;
                match desc.object.node() {
                    Some(node) => Step::Jump(node),
                    None => Step::Other,
                }
            }
        })
    }

    /// `EACCES` unless a process may look into another.
    pub fn check_trace(&self, other: Pid) -> Result<(), Errno> {
        let other = self.procs.get(other).map_err(|_| Errno::ENOENT)?;
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
            Fds(pid) => self.check_trace(pid),
            _ => Ok(()),
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
        let proc = self.procs.get(pid)?;
        let cell = proc.session()?.header().fds.get(fd as usize).ok_or(Errno::ENOENT)?;
        let desc = cell.load(Relaxed);
        match self.descs.holds(pid, desc) {
            true => Ok(desc),
            false => Err(Errno::ENOENT),
        }
    }

    /// The node with a name in a directory.
    pub fn proc_lookup(&self, dir: ProcNode, name: &[u8]) -> Result<Option<Node>, Errno> {
        self.proc_of(dir)?;
        if name == b"." {
            return Ok(Some(Node::Proc(dir)));
        }
        if name == b".." {
            return Ok(Some(match dir {
                Root => self.tree.root(),
                Fds(pid) | Tasks(pid) => Node::Proc(Pid(pid)),
                Task(pid, _) => Node::Proc(Tasks(pid)),
                _ => Node::Proc(Root),
            }));
        }
        let node = match dir {
            Root => match name {
                b"self" => Some(SelfLink),
                b"thread-self" => Some(ThreadLink),
                b"tessera" => Some(Tessera),
                _ => known(&SYSTEM, name).map(System).or_else(|| self.numbered(number(name)?)),
            },
            Tessera => known(&TESSERA, name).map(TesseraFile),
            Pid(pid) if name == b"fd" => Some(Fds(pid)),
            Pid(pid) if name == b"task" => Some(Tasks(pid)),
            Tasks(pid) => {
                let tid = number(name).filter(|tid| self.is_task(pid, *tid));
                tid.map(|tid| Task(pid, tid))
            }
            Task(pid, tid) => known(&TASK_FILES, name).map(|name| TaskFile(pid, tid, name)),
            Pid(pid) => known(&FILES, name)
                .map(|name| File(pid, name))
                .or_else(|| known(&LINKS, name).map(|name| Link(pid, name))),
            Fds(pid) => {
                let fd = number(name).filter(|fd| self.shown_fd(pid, *fd).is_ok());
                fd.map(|fd| Fd(pid, fd))
            }
            _ => return Err(Errno::ENOTDIR),
        };
        Ok(node.map(Node::Proc))
    }

    /// A process or a thread by its number. Threads are there, but not listed.
    fn numbered(&self, number: u32) -> Option<ProcNode> {
        let leader = self.procs.leader(number);
        match self.procs.get(number) {
            Ok(_) => Some(Pid(number)),
            Err(_) => self.is_task(leader, number).then_some(Task(leader, number)),
        }
    }

    /// All entries of a directory.
    pub fn proc_entries(&self, dir: ProcNode) -> Result<Vec<Entry>, Errno> {
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
                add("tessera", DIRECTORY, Tessera);
                for proc in self.procs.iter() {
                    add(&format!("{}", proc.pid), DIRECTORY, Pid(proc.pid));
                }
            }
            Tessera => TESSERA.iter().for_each(|name| add(name, REGULAR, TesseraFile(name))),
            Pid(pid) => {
                add("fd", DIRECTORY, Fds(pid));
                add("task", DIRECTORY, Tasks(pid));
                FILES.iter().for_each(|name| add(name, REGULAR, File(pid, name)));
                LINKS.iter().for_each(|name| add(name, SYMLINK, Link(pid, name)));
            }
            Tasks(pid) => {
                let others = self.procs.get(pid)?.threads.iter().copied();
                for tid in core::iter::once(pid).chain(others) {
                    add(&format!("{tid}"), DIRECTORY, Task(pid, tid));
                }
            }
            Task(pid, tid) => {
                TASK_FILES.iter().for_each(|name| add(name, REGULAR, TaskFile(pid, tid, name)));
            }
            Fds(pid) => {
                for fd in 0..unixproto::session::SHOWN_FDS as u32 {
                    if self.shown_fd(pid, fd).is_ok() {
                        add(&format!("{fd}"), SYMLINK, Fd(pid, fd));
                    }
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
            Root | Tessera | Pid(_) | Tasks(_) | Task(..) => S_IFDIR | 0o555,
            Fds(_) => S_IFDIR | 0o500,
            SelfLink | ThreadLink | Link(..) => S_IFLNK | 0o777,
            Fd(..) => S_IFLNK | 0o700,
            File(_, "comm") | TaskFile(_, _, "comm") => S_IFREG | 0o644,
            TesseraFile("capabilities") | File(_, "auxv" | "environ") => S_IFREG | 0o400,
            TaskFile(_, _, "environ") => S_IFREG | 0o400,
            _ => S_IFREG | 0o444,
        };
        // A link that jumps is `stat`ed itself only where it was not followed.
        let size = match node {
            SelfLink => format!("{}", self.caller.pid).len() as i64,
            ThreadLink => self.own_task().len() as i64,
            _ => 0,
        };
        // What a process keeps to itself belongs to the administrator.
        let owner = proc.filter(|proc| proc.dumpable).map(|proc| &proc.who);
        let (uid, gid) = owner.map_or((0, 0), |who| (who.users.effective, who.groups.effective));
        let born = proc.map_or(0, |proc| proc.started) + boot_wall;
        let (time, nlink) = (born as i64, if mode & S_IFMT == S_IFDIR { 2 } else { 1 });
        Ok(Stat {
            dev: 3,
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
            SelfLink => Ok(format!("{}", self.caller.pid).into_bytes()),
            ThreadLink => Ok(self.own_task()),
            Link(pid, name) => {
                self.check_trace(pid)?;
                match name {
                    "cwd" => self.tree.path_of(self.procs.get(pid)?.cwd),
                    "root" => Ok(b"/".to_vec()),
                    _ => self.exe(pid),
                }
            }
            Fd(pid, fd) => {
                self.check_trace(pid)?;
                self.desc_path(self.shown_fd(pid, fd)?)
            }
            _ => Err(Errno::EINVAL),
        }
    }

    /// How `/proc/PID/fd` names a description.
    pub fn desc_path(&self, id: u32) -> Result<Vec<u8>, Errno> {
        let desc = self.descs.get(id)?;
        if let Object::Dir(node) = desc.object {
            return self.tree.path_of(node);
        }
        if let Some(place) = &desc.place {
            let mut path = self.tree.path_in(place.dir, &place.name)?;
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
            Object::Socket(number) => format!("socket:[{}]", 1 + number).into_bytes(),
            Object::Signals(_) => b"anon_inode:[signalfd]".to_vec(),
            Object::Counter(Kind::Process, _) => b"anon_inode:[pidfd]".to_vec(),
            Object::Counter(..) => b"anon_inode:[eventfd]".to_vec(),
            // All others have a place.
            Object::File(_) | Object::Dir(_) | Object::Device(..) => b"/memfd: (deleted)".to_vec(),
            Object::Disk { .. }
            | Object::Text(..)
            | Object::Path(_)
            | Object::Memory(..)
            | Object::Shared(_) => b"/memfd: (deleted)".to_vec(),
        })
    }
}
