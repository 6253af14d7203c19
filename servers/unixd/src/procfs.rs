//! `/proc`: nodes that are made up when somebody looks.

use crate::descs::Object;
use crate::nodes::Node;
use crate::procs::{Pid, Proc};
use crate::server::Unixd;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;
use memfs::Step;
use unixproto::files::*;
use unixproto::{op, Errno};

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
}

use ProcNode::*;

const SYSTEM: [&str; 10] = [
    "cpuinfo",
    "filesystems",
    "loadavg",
    "meminfo",
    "mounts",
    "stat",
    "swaps",
    "uptime",
    "version",
    "cmdline",
];
const TESSERA: [&str; 4] = ["capabilities", "counters", "memory", "unixd"];
const FILES: [&str; 8] =
    ["cmdline", "comm", "environ", "maps", "mounts", "stat", "statm", "status"];
const LINKS: [&str; 3] = ["cwd", "exe", "root"];
const DIRECTORY: u8 = 4;
const REGULAR: u8 = 8;
const SYMLINK: u8 = 10;

/// Name, type and inode number of an entry.
pub type Entry = (Vec<u8>, u8, u64);

/// An inode number for a node.
fn inode(node: ProcNode) -> u64 {
    let in_pid = |pid: Pid, n: u64| (pid as u64) << 16 | n;
    match node {
        Root => 1,
        SelfLink => 2,
        Tessera => 3,
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
    };
    text.into_bytes()
}

impl Unixd {
    /// The process of a node, if it (still) is.
    fn proc_of(&self, node: ProcNode) -> Result<Option<&Proc>, Errno> {
        match node {
            Pid(pid) | File(pid, _) | Link(pid, _) | Fds(pid) | Fd(pid, _) => {
                self.procs.get(pid).map(Some).map_err(|_| Errno::ENOENT)
            }
            _ => Ok(None),
        }
    }

    /// What a node is, for a walk.
    pub fn proc_step(&self, caller: Pid, node: ProcNode) -> Result<Step<Node>, Errno> {
        self.proc_of(node)?;
        Ok(match node {
            Root | Tessera | Pid(_) | Fds(_) => Step::Dir,
            SelfLink => Step::Link(format!("{caller}").into_bytes()),
            System(_) | TesseraFile(_) | File(..) => Step::Other,
            Link(pid, "cwd") => Step::Jump(self.procs.get(pid)?.cwd),
            Link(_, "root") => Step::Jump(Node::Mem(self.fs.root())),
            Link(pid, _) => Step::Link(self.exe(pid)?),
            Fd(pid, fd) => {
                let desc = self.descs.get(self.shown_fd(pid, fd)?)?;
                match desc.object.node() {
                    Some(node) => Step::Jump(node),
                    None => Step::Other,
                }
            }
        })
    }

    fn exe(&self, pid: Pid) -> Result<Vec<u8>, Errno> {
        let exe = &self.procs.get(pid)?.exe;
        if exe.is_empty() {
            return Err(Errno::ENOENT);
        }
        Ok(exe.clone())
    }

    /// The description behind a file descriptor, as the process's library shows it.
    fn shown_fd(&self, pid: Pid, fd: u32) -> Result<u32, Errno> {
        let proc = self.procs.get(pid)?;
        let cell = proc.session()?.header().fds.get(fd as usize).ok_or(Errno::ENOENT)?;
        let desc = cell.load(Relaxed);
        if proc.holds(desc) {
            Ok(desc)
        } else {
            Err(Errno::ENOENT)
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
                Root => Node::Mem(self.fs.root()),
                Fds(pid) => Node::Proc(Pid(pid)),
                _ => Node::Proc(Root),
            }));
        }
        let node = match dir {
            Root => match name {
                b"self" => Some(SelfLink),
                b"tessera" => Some(Tessera),
                _ => known(&SYSTEM, name)
                    .map(System)
                    .or_else(|| number(name).filter(|pid| self.procs.get(*pid).is_ok()).map(Pid)),
            },
            Tessera => known(&TESSERA, name).map(TesseraFile),
            Pid(pid) if name == b"fd" => Some(Fds(pid)),
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
                add("tessera", DIRECTORY, Tessera);
                for proc in self.procs.iter() {
                    add(&format!("{}", proc.pid), DIRECTORY, Pid(proc.pid));
                }
            }
            Tessera => TESSERA.iter().for_each(|name| add(name, REGULAR, TesseraFile(name))),
            Pid(pid) => {
                add("fd", DIRECTORY, Fds(pid));
                FILES.iter().for_each(|name| add(name, REGULAR, File(pid, name)));
                LINKS.iter().for_each(|name| add(name, SYMLINK, Link(pid, name)));
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

    /// `stat` of a node.
    pub fn proc_stat(&self, caller: Pid, node: ProcNode) -> Result<Stat, Errno> {
        let proc = self.proc_of(node)?;
        let mode = match node {
            Root | Tessera | Pid(_) => S_IFDIR | 0o555,
            Fds(_) => S_IFDIR | 0o500,
            SelfLink | Link(..) => S_IFLNK | 0o777,
            Fd(..) => S_IFLNK | 0o700,
            _ => S_IFREG | 0o444,
        };
        // A link that jumps is `stat`ed itself only where it was not followed.
        let size = match node {
            SelfLink => format!("{caller}").len() as i64,
            _ => 0,
        };
        let (uid, gid) = proc.map_or((0, 0), |proc| (proc.ids[1], proc.ids[4]));
        let born = proc.map_or(0, |proc| proc.started) + self.clock.boot_wall();
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
    pub fn proc_link(&self, caller: Pid, node: ProcNode) -> Result<Vec<u8>, Errno> {
        match node {
            SelfLink => Ok(format!("{caller}").into_bytes()),
            Link(pid, "cwd") => self.path_of(self.procs.get(pid)?.cwd),
            Link(_, "root") => Ok(b"/".to_vec()),
            Link(pid, _) => self.exe(pid),
            Fd(pid, fd) => self.desc_path(self.shown_fd(pid, fd)?),
            _ => Err(Errno::EINVAL),
        }
    }

    /// How `/proc/PID/fd` names a description.
    fn desc_path(&self, id: u32) -> Result<Vec<u8>, Errno> {
        let desc = self.descs.get(id)?;
        if let Object::Dir(node) = desc.object {
            return self.path_of(node);
        }
        if let Some(place) = &desc.place {
            let mut path = self.path_in(place.dir, &place.name)?;
            let gone = matches!(desc.object, Object::File(ino)
                if self.fs.get(ino).map_or(true, |inode| inode.nlink == 0));
            if gone {
                path.extend_from_slice(b" (deleted)");
            }
            return Ok(path);
        }
        Ok(match &desc.object {
            Object::Pipe(pipe, _) => format!("pipe:[{}]", 1 + pipe).into_bytes(),
            Object::Tty(_) => b"/dev/console".to_vec(),
            Object::Stream => b"pipe:[0]".to_vec(),
            _ => b"/memfd: (deleted)".to_vec(),
        })
    }

    /// Opens a node.
    pub fn open_proc(&mut self, pid: Pid, node: ProcNode, op: op::Open) -> Result<Object, Errno> {
        self.proc_of(node)?;
        let writes = op.flags & O_ACCMODE != O_RDONLY;
        match node {
            Root | Tessera | Pid(_) | Fds(_) if writes || op.flags & O_CREAT != 0 => {
                Err(Errno::EISDIR)
            }
            Root | Tessera | Pid(_) | Fds(_) => Ok(Object::Dir(Node::Proc(node))),
            _ if op.flags & O_PATH != 0 => Ok(Object::Path(Node::Proc(node))),
            _ if op.flags & O_DIRECTORY != 0 => Err(Errno::ENOTDIR),
            SelfLink | Link(..) => Err(Errno::ELOOP),
            Fd(owner, fd) if op.flags & O_NOFOLLOW == 0 => self.reopen(pid, owner, fd),
            Fd(..) => Err(Errno::ELOOP),
            _ if writes && !matches!(node, File(_, "comm")) => Err(Errno::EACCES),
            _ => {
                let text = self.proc_text(node)?;
                Ok(Object::Text(Node::Proc(node), text.into()))
            }
        }
    }

    /// Opens what has no name through `/proc/PID/fd`.
    fn reopen(&mut self, pid: Pid, owner: Pid, fd: u32) -> Result<Object, Errno> {
        let _ = pid;
        let desc = self.descs.get(self.shown_fd(owner, fd)?)?;
        match &desc.object {
            Object::Tty(_) => Ok(Object::Tty(None)),
            Object::Stream => Ok(Object::Stream),
            Object::Pipe(pipe, None) => Ok(Object::Pipe(*pipe, None)),
            _ => Err(Errno::EACCES),
        }
    }
}
