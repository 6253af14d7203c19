//! Small input and output through the data area.

use crate::descs::{Descs, Object};
use crate::names::View;
use crate::nodes::{Node, Tree};
use crate::procfs::ProcNode;
use crate::procs::Procs;
use crate::voices::Speaker;
use crate::wait::{count, Call, Tried};
use unixproto::files::Kind;
use unixproto::Errno;

/// What requests to read and write work on, but for pipes and the terminal.
pub struct InOut<'a> {
    pub descs: &'a mut Descs,
    pub procs: &'a mut Procs,
    pub tree: &'a Tree,
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
