//! `splice`, `tee`, `vmsplice`: bytes pass between pipes and files without passing through the process that wants that.
//!
//! Whoever moves bytes waits until there are some and there is room for them, and then moves what it can.

use super::Unixd;
use crate::descs::{Desc, Object};
use crate::wait::{count, Call, Tried};
use alloc::vec;
use alloc::vec::Vec;
use unixproto::files::{splice, O_APPEND, PIPE_BYTES};
use unixproto::session::DATA_BYTES;
use unixproto::{op, Errno};

/// Where bytes come from, or go to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// A pipe.
    Pipe(u32),
    /// A file or a disk, by its description.
    File(u32),
    /// The data area of the caller.
    Data,
    /// Nothing is done with them.
    Nowhere,
}

fn end_of(desc: &Desc, id: u32) -> Result<End, Errno> {
    match desc.object {
        Object::Pipe(pipe, _) => Ok(End::Pipe(pipe)),
        Object::File(_) | Object::Disk { .. } => Ok(End::File(id)),
        _ => Err(Errno::EINVAL),
    }
}

impl Unixd {
    /// Moves bytes; see [`op::Splice`].
    pub(super) fn splice(&mut self, call: &mut Call, op: op::Splice) -> Tried {
        // What a request waits for was moved by nobody yet.
        match self.splice_ready(call, op) {
            Ok(moved) => count(moved),
            Err(answer) => answer,
        }
    }

    fn splice_ready(&mut self, call: &mut Call, op: op::Splice) -> Result<usize, Tried> {
        let (from, from_waits) = self.source(op).map_err(Err)?;
        let (to, to_waits) = self.target(op).map_err(Err)?;
        let is_pipe = |end| matches!(end, End::Pipe(_));
        if from == to || !is_pipe(from) && !is_pipe(to) {
            return Err(Err(Errno::EINVAL));
        }
        let caller = self.caller;
        let mut bytes = (op.bytes.min(PIPE_BYTES)) as usize;
        if bytes == 0 {
            return Ok(0);
        }
        if let End::Pipe(pipe) = from {
            bytes = bytes.min(self.pipes.filled(pipe, caller, !from_waits)?);
        }
        if let End::Pipe(pipe) = to {
            let wanted = (!to_waits, bytes);
            bytes = bytes.min(self.pipes.vacant(pipe, caller, wanted, &mut self.fx)?);
        }
        let data = self.fetch(call, from, (op.at, bytes)).map_err(Err)?;
        let moved = self.deliver(to, op.at, &data).map_err(Err)?;
        if let (End::Pipe(pipe), 0) = (from, op.flags & splice::KEEP) {
            self.pipes.skip(pipe, moved, &mut self.fx);
        }
        Ok(moved)
    }

    /// What a description is, and whether the caller waits there.
    fn source(&self, op: op::Splice) -> Result<(End, bool), Errno> {
        if op.from == 0 {
            return Ok((End::Data, false));
        }
        let desc = self.descs.of(self.caller.pid, op.from)?;
        desc.readable()?;
        Ok((end_of(desc, op.from)?, op.flags & splice::NONBLOCK == 0 && !desc.nonblocking()))
    }

    fn target(&self, op: op::Splice) -> Result<(End, bool), Errno> {
        if op.to == 0 {
            let is_data = op.flags & splice::DATA != 0;
            return Ok((if is_data { End::Data } else { End::Nowhere }, false));
        }
        let desc = self.descs.of(self.caller.pid, op.to)?;
        desc.writable()?;
        let end = end_of(desc, op.to)?;
        if matches!(end, End::File(_)) && desc.flags & O_APPEND != 0 {
            return Err(Errno::EINVAL);
        }
        Ok((end, op.flags & splice::NONBLOCK == 0 && !desc.nonblocking()))
    }

    /// Up to so many bytes. Those of a pipe stay there.
    fn fetch(
        &mut self,
        call: &Call,
        from: End,
        (at, bytes): (u64, usize),
    ) -> Result<Vec<u8>, Errno> {
        match from {
            End::Pipe(pipe) => {
                let mut data = vec![0; bytes];
                self.pipes.peek(pipe, &mut data);
                Ok(data)
            }
            End::File(desc) => self.contents().fetch(desc, at, bytes),
            End::Data | End::Nowhere => {
                let mut data = self.procs.a(self.caller, call)?;
                data.truncate(bytes);
                Ok(data)
            }
        }
    }

    /// Answers how many of the bytes have come there.
    fn deliver(&mut self, to: End, at: u64, data: &[u8]) -> Result<usize, Errno> {
        match to {
            End::Pipe(pipe) => self.pipes.append(pipe, data, &mut self.fx),
            End::File(desc) => return self.contents().deliver(desc, at, data),
            End::Data => {
                let data = data.get(..data.len().min(DATA_BYTES)).unwrap_or_default();
                self.procs.put(self.caller, data)?;
                return Ok(data.len());
            }
            End::Nowhere => {}
        }
        Ok(data.len())
    }
}
