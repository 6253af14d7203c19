//! Small input and output through the data area.

use crate::clock::Clock;
use crate::descs::{Descs, Object};
use crate::detached;
use crate::made::Live;
use crate::names::View;
use crate::nodes::{Node, Tree};
use crate::oom;
use crate::procfs::{ProcNode, OOM_SET};
use crate::procs::Procs;
use crate::spaces::NAME_MAX;
use crate::voices::Speaker;
use crate::wait::{count, Call, Tried};
use credentials::Capability;
use unixproto::files::Kind;
use unixproto::Errno;

/// What requests to read and write work on, but for pipes and the terminal.
pub struct InOut<'a> {
    pub descs: &'a mut Descs,
    pub procs: &'a mut Procs,
    pub tree: &'a Tree,
    pub clock: &'a Clock,
    pub caller: Speaker,
}

impl InOut<'_> {
    /// Reads up to `bytes` of what can be read.
    pub fn read(&mut self, id: u32, bytes: usize) -> Tried {
        let caller = self.caller;
        let desc = self.descs.of(caller.pid, id)?;
        match &desc.object {
            Object::Text(_, text) => {
                let from = (desc.offset as usize).min(text.len());
                let part = &text[from..text.len().min(from + bytes)];
                self.procs.put(caller, part)?;
                let bytes = part.len();
                self.descs.of_mut(caller.pid, id)?.offset += bytes as u64;
                count(bytes)
            }
            Object::Making(making) => {
                detached::read(making, bytes, |text| self.procs.put(caller, text))
            }
            Object::Dir(_) => Err(Errno::EISDIR),
            Object::Device(Kind::Null, _) => count(0),
            Object::Path(_) => Err(Errno::EBADF),
            _ => Err(Errno::EINVAL),
        }
    }

    /// Writes byte string `a` to what can be written.
    pub fn write(&mut self, call: &mut Call, id: u32) -> Tried {
        match self.descs.of(self.caller.pid, id)?.object {
            Object::Text(node, _) => self.write_proc(call, node),
            Object::Device(..) => count(call.lengths.0),
            Object::Path(_) => Err(Errno::EBADF),
            _ => Err(Errno::EINVAL),
        }
    }

    /// Writes to a node of `/proc`: only names of threads can be written.
    fn write_proc(&mut self, call: &Call, node: Node) -> Tried {
        let Node::Proc(node) = node else { return Err(Errno::EINVAL) };
        let view = View::new(self.tree, self.procs, self.descs, self.caller)?;
        view.proc_of(node).map_err(|_| Errno::ESRCH)?;
        match node {
            ProcNode::File(owner, name @ ("uid_map" | "gid_map" | "setgroups")) => {
                let text = self.procs.a(self.caller, call)?;
                let (of, own) = (self.procs.get(owner)?, self.procs.get(self.caller.pid)?);
                let space = of.who.space.as_ref().ok_or(Errno::EPERM)?;
                match name {
                    "setgroups" => {
                        let deny = match text.trim_ascii_end() {
                            b"deny" => true,
                            b"allow" => false,
                            _ => return Err(Errno::EINVAL),
                        };
                        if !own.who.has_over(Some(space), Capability::SysAdmin) {
                            return Err(Errno::EPERM);
                        }
                        space.deny_groups(deny)?;
                    }
                    name => space.set_map(name == "gid_map", &text, &own.who)?,
                }
                // Whoever is in it has other ids now.
                let all = self.procs.select(|proc| proc.who.space.as_ref() == Some(space));
                all.into_iter().for_each(|pid| self.procs.publish(pid));
                count(call.lengths.0)
            }
            ProcNode::File(owner, "timens_offsets") => {
                let text = self.procs.a(self.caller, call)?;
                let (of, own) = (self.procs.get(owner)?, self.procs.get(self.caller.pid)?);
                // Nobody sets those of the first one, as Linux says it.
                let times = of.spaces.times_of_children.as_ref();
                let owner = times.map_or(0, |times| times.owner);
                if !own.who.has_in(owner, Capability::SysTime) {
                    return Err(Errno::EPERM);
                }
                count(times.ok_or(Errno::EACCES)?.set(&text, self.clock.now())?)
            }
            ProcNode::File(pid, name) | ProcNode::TaskFile(pid, _, name)
                if OOM_SET.contains(&name) =>
            {
                let text = self.procs.a(self.caller, call)?;
                let may = self.procs.get(self.caller.pid)?.has(Capability::SysResource);
                oom::set(self.procs.get_mut(pid)?, name == "oom_adj", &text, may)?;
                count(call.lengths.0)
            }
            ProcNode::File(owner, "loginuid") | ProcNode::TaskFile(_, owner, "loginuid") => {
                let text = self.procs.a(self.caller, call)?;
                self.procs.log_in(self.caller.tid, (owner, &text))?;
                count(call.lengths.0)
            }
            ProcNode::Made(number) => {
                let text = self.procs.a(self.caller, call)?;
                let of_domain = match self.tree.made().live(number) {
                    Some(Live::HostName) => false,
                    Some(Live::DomainName) => true,
                    _ => return count(self.tree.made().set(number, &text)?),
                };
                let name = text.split(|&byte| byte == b'\n' || byte == 0).next();
                let proc = self.procs.get(self.caller.pid)?;
                let mut name = name.unwrap_or_default();
                name = &name[..name.len().min(NAME_MAX)];
                proc.spaces.hosts.set_name(of_domain, name, &proc.who)?;
                count(call.lengths.0)
            }
            // As on Linux, to those of the own process.
            ProcNode::File(owner, _) | ProcNode::TaskFile(owner, ..)
                if owner != self.caller.pid =>
            {
                Err(Errno::EINVAL)
            }
            ProcNode::File(tid, _) | ProcNode::TaskFile(_, tid, _) => {
                let name = self.procs.a(self.caller, call)?;
                self.procs.set_name(tid, name);
                count(call.lengths.0)
            }
            _ => Err(Errno::EINVAL),
        }
    }
}
