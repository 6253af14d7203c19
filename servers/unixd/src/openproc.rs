//! Opening what is in `/proc`.

use crate::descs::Handles;
use crate::descs::Object;
use crate::lines::LineId;
use crate::nodes::Node;
use crate::open::Opening;
use crate::pathops::nameless;
use crate::procfs::ProcNode::{self, *};
use crate::procfs::{OOM_SET, PRIVATE};
use crate::procs::Pid;
use crate::proctext::Texts;
use crate::spaces::{map_text, Opened};
use credentials::Capability;
use unixproto::files::*;
use unixproto::trace::command;
use unixproto::{op, Errno};

impl Opening<'_> {
    fn texts(&self) -> Texts<'_> {
        let Opening { procs, system, load, .. } = self;
        let Handles { clock, tree, descs, terminal, sockets, locks, leases, .. } = &self.handles;
        Texts {
            reader: self.caller.pid,
            procs,
            descs,
            clock,
            terminal,
            system,
            tree,
            load,
            sockets: &sockets.inet,
            locals: &sockets.all,
            locks,
            leases,
        }
    }

    /// Opens a node.
    pub fn open_proc(&mut self, node: ProcNode, op: op::Open) -> Result<Object, Errno> {
        self.view()?.proc_of(node)?;
        if op.extra & OPEN_EXEC != 0 {
            return Err(Errno::EACCES);
        }
        let writes = op.flags & O_ACCMODE != O_RDONLY || op.flags & O_TRUNC != 0;
        match node {
            Made(number) if self.handles.tree.made().is_dir(number) => {
                match writes || op.flags & O_CREAT != 0 {
                    true => Err(Errno::EISDIR),
                    false => Ok(Object::Dir(Node::Proc(node))),
                }
            }
            Root | Tessera | Net | SysvIpc | Init | Pid(_) | Fds(_) | FdFacts(_) | Tasks(_)
            | Task(..) | Spaces(_) => {
                self.view()?.proc_enter(node)?;
                match writes || op.flags & O_CREAT != 0 {
                    true => Err(Errno::EISDIR),
                    false => Ok(Object::Dir(Node::Proc(node))),
                }
            }
            _ if op.flags & O_PATH != 0 => Ok(Object::Path(Node::Proc(node))),
            _ if op.flags & O_DIRECTORY != 0 => Err(Errno::ENOTDIR),
            SelfLink | ThreadLink | MountsLink | Link(..) => Err(Errno::ELOOP),
            Fd(owner, fd) if op.flags & O_NOFOLLOW == 0 => {
                let wanted = [memfs::READ, memfs::WRITE, memfs::READ | memfs::WRITE];
                let wanted = wanted.get((op.flags & O_ACCMODE) as usize).ok_or(Errno::EINVAL)?;
                self.reopen(owner, fd, *wanted)
            }
            Space(pid, name) if op.flags & O_NOFOLLOW == 0 => {
                self.view()?.check_trace(pid)?;
                if writes {
                    return Err(Errno::EPERM);
                }
                let space = self.view()?.space(pid, name)?;
                if let Opened::Mounts(space, _) = &space {
                    self.handles.tree.mounted_users().table.join(*space);
                }
                Ok(Object::Space(space))
            }
            Fd(..) | Space(..) => Err(Errno::ELOOP),
            Bound(_) if writes => Err(Errno::EPERM),
            Bound(number) => {
                let space = self.handles.tree.bound(number).ok_or(Errno::ENOENT)?;
                Ok(Object::Space(space.clone()))
            }
            Made(number) if op.flags & (O_PATH | O_DIRECTORY) == 0 => {
                let is_root = self.cred().uid == 0;
                if writes && !(self.handles.tree.made().is_written(number) && is_root) {
                    return Err(Errno::EACCES);
                }
                let text = self.texts().made_text(number, self.caller.pid);
                Ok(Object::Text(Node::Proc(node), text.into()))
            }
            _ if writes
                && !matches!(
                    node,
                    File(
                        _,
                        "clear_refs"
                            | "comm"
                            | "loginuid"
                            | "mem"
                            | "uid_map"
                            | "gid_map"
                            | "setgroups"
                            | "timens_offsets"
                    ) | TaskFile(_, _, "clear_refs" | "comm" | "loginuid" | "mem")
                )
                && !matches!(node, File(_, name) | TaskFile(_, _, name) if OOM_SET.contains(&name)) =>
            {
                Err(Errno::EACCES)
            }
            File(_, "clear_refs") | TaskFile(_, _, "clear_refs")
                if op.flags & O_ACCMODE != O_WRONLY
                    && !self.procs.get(self.caller.pid)?.has(Capability::DacOverride) =>
            {
                Err(Errno::EACCES)
            }
            FdFact(pid, fd) => {
                self.view()?.check_trace(pid)?;
                let text = self.fd_facts(pid, fd)?;
                Ok(Object::Text(Node::Proc(node), text.into_bytes().into()))
            }
            // It belongs to whom the process belongs to; of one that keeps to itself, to the administrator.
            File(_, "timens_offsets" | "loginuid") | TaskFile(_, _, "loginuid")
                if writes
                    && self.view()?.proc_stat(node, 0)?.uid != self.cred().uid
                    && !self.procs.get(self.caller.pid)?.has(Capability::DacOverride) =>
            {
                Err(Errno::EACCES)
            }
            // Where in memory things are is for nobody else to know.
            TesseraFile("capabilities")
                if !self.procs.get(self.caller.pid)?.has(Capability::SysAdmin) =>
            {
                Err(Errno::EACCES)
            }
            SysvFile(name) => {
                let space = self.ipc()?;
                let text = match name {
                    "msg" => self.messages.text(space),
                    "sem" => self.semaphores.text(space),
                    _ => self.handles.segments_text(space),
                };
                Ok(Object::Text(Node::Proc(node), text.into_bytes().into()))
            }
            File(pid, "mem") | TaskFile(pid, _, "mem") => {
                self.view()?.check_trace(pid)?;
                // Whatever thread it is named by, it is that of the process.
                let memory = Node::Proc(File(pid, "mem"));
                Ok(Object::Memory(memory, self.procs.get(pid)?.memory()))
            }
            File(pid, name @ ("uid_map" | "gid_map")) => {
                let groups = name == "gid_map";
                let (of, own) = (self.procs.get(pid)?, self.procs.get(self.caller.pid)?);
                let text = map_text(&of.who, &own.who, groups);
                Ok(Object::Text(Node::Proc(node), text.into()))
            }
            File(pid, name) | TaskFile(pid, _, name)
                if command::of_text(name.as_bytes()).is_some() =>
            {
                self.view()?.check_trace(pid)?;
                let text = Node::Proc(File(pid, name));
                Ok(Object::Memory(text, self.procs.get(pid)?.memory()))
            }
            File(pid, name) | TaskFile(pid, _, name) if PRIVATE.contains(&name) => {
                self.view()?.check_trace(pid)?;
                let text = self.texts().text(node)?;
                Ok(Object::Text(Node::Proc(node), text.into()))
            }
            _ => {
                let text = self.texts().text(node)?;
                Ok(Object::Text(Node::Proc(node), text.into()))
            }
        }
    }

    /// Opens what has no name through `/proc/PID/fd`.
    fn reopen(&mut self, owner: Pid, fd: u32, wanted: u32) -> Result<Object, Errno> {
        self.view()?.check_trace(owner)?;
        let desc = self.view()?.shown_fd(owner, fd)?;
        let object = &self.handles.descs.get(desc)?.object;
        nameless(self.handles.pipes, object).permits(&self.cred(), wanted)?;
        match object {
            // Pseudoterminals always have a name.
            Object::Tty(LineId::Console, _) => Ok(Object::Tty(LineId::Console, None)),
            Object::Stream(channel) => Ok(Object::Stream(*channel)),
            Object::Pipe(pipe, None) => Ok(Object::Pipe(*pipe, None)),
            _ => Err(Errno::EACCES),
        }
    }
}
