//! `splice`, `tee`, `vmsplice`: bytes pass between pipes and files without passing through the process that wants that.
//!
//! Whoever moves bytes waits until there are some and there is room for them, and then moves what it can.

use super::Unixd;
use crate::descs::{Desc, Object};
use crate::morsels::Mapped;
use crate::wait::{count, Call, Tried};
use unixproto::files::{splice, O_APPEND, PIPE_BYTES_MOST};
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
        let mut bytes = (op.bytes.min(PIPE_BYTES_MOST)) as usize;
        if bytes == 0 {
            return Ok(0);
        }
        for end in [from, to] {
            if let End::Pipe(pipe) = end {
                self.pipes.pull_waiting(pipe, &mut self.procs, &mut self.fx);
            }
        }
        if let End::Pipe(pipe) = from {
            bytes = bytes.min(self.pipes.filled(pipe, caller, !from_waits)?);
        }
        if let End::Pipe(pipe) = to {
            let wanted = (!to_waits, bytes);
            bytes = bytes.min(self.pipes.vacant(pipe, caller, wanted, &mut self.fx)?);
        }
        let moved = match (from, to) {
            (End::Pipe(pipe), to) => self.empty(pipe, to, (op.at, bytes)),
            (End::File(desc), End::Pipe(pipe)) => self.fill(desc, pipe, (op.at, bytes)),
            (_, End::Pipe(pipe)) => {
                let data = self.procs.a(caller, call).map_err(Err)?;
                let data = &data[..bytes.min(data.len())];
                self.pipes.add_bytes(pipe, bytes, &mut self.fx, |to| Ok(spread([data, &[]], to)))
            }
            _ => Err(Errno::EINVAL),
        };
        let moved = moved.map_err(Err)?;
        if let (End::Pipe(pipe), 0) = (from, op.flags & splice::KEEP) {
            self.pipes.skip(pipe, moved, &mut self.fx);
        }
        Ok(moved)
    }

    /// Copies what a pipe has to something else. It stays there. Answers how many bytes have come there.
    fn empty(&mut self, pipe: u32, to: End, (at, bytes): (u64, usize)) -> Result<usize, Errno> {
        let lifted = self.pipes.lift(pipe)?;
        let data = lifted.front(bytes);
        let moved = match to {
            End::Pipe(to) => {
                self.pipes.add_bytes(to, bytes, &mut self.fx, |to| Ok(spread(data, to)))
            }
            End::File(desc) => self.contents().deliver(desc, at, &data.map(Mapped::from)),
            End::Data => {
                let data = data.concat();
                let data = &data[..data.len().min(DATA_BYTES)];
                self.procs.put(self.caller, data).map(|()| data.len())
            }
            End::Nowhere => Ok(bytes),
        };
        self.pipes.put_back(pipe, lifted);
        moved
    }

    /// Copies a part of a file to a pipe.
    fn fill(&mut self, desc: u32, pipe: u32, (at, bytes): (u64, usize)) -> Result<usize, Errno> {
        let mut lifted = self.pipes.lift(pipe)?;
        let moved = lifted.add(bytes, |to| self.contents().fetch(desc, at, to));
        self.pipes.put_back(pipe, lifted);
        if moved.is_ok_and(|bytes| bytes > 0) {
            self.pipes.filled_anew(pipe, &mut self.fx);
        }
        moved
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
}

/// Copies bytes that lie in two places to two others, as many as there is room for. Returns how many.
fn spread(from: [&[u8]; 2], to: [&mut [u8]; 2]) -> usize {
    let mut bytes = 0;
    let [mut first, mut second] = from;
    for mut to in to {
        while !to.is_empty() && (!first.is_empty() || !second.is_empty()) {
            if first.is_empty() {
                first = core::mem::take(&mut second);
            }
            let n = first.len().min(to.len());
            let (part, rest) = core::mem::take(&mut to).split_at_mut(n);
            part.copy_from_slice(&first[..n]);
            (to, first) = (rest, &first[n..]);
            bytes += n;
        }
    }
    bytes
}
