//! Waiting for several descriptions at once.

use crate::clock::Clock;
use crate::counters::Counters;
use crate::descs::{Descs, Object};
use crate::lines::LineId;
use crate::mqueues::MessageQueues;
use crate::notify::Instances;
use crate::pipes::Pipes;
use crate::procs::Procs;
use crate::server::sets::Sets;
use crate::sockets::Sockets;
use crate::terminal::Terminal;
use crate::threads::Tid;
use crate::voices::Speaker;
use crate::wait::{count, Call, Outcome, Tried};
use crate::watches::{sources, Watches};
use alloc::vec::Vec;
use unixproto::files::*;
use unixproto::{op, Errno};

/// What a request to poll works on.
pub struct Polling<'a> {
    pub descs: &'a Descs,
    pub pipes: &'a mut Pipes,
    pub counters: &'a mut Counters,
    pub sets: &'a mut Sets,
    pub sockets: &'a mut Sockets,
    pub notify: &'a mut Instances,
    pub mqueues: &'a mut MessageQueues,
    pub terminal: &'a mut Terminal,
    pub watches: &'a mut Watches,
    pub procs: &'a Procs,
    pub clock: &'a Clock,
    /// Threads whose next `Poll` is to end at once.
    pub stirred: &'a mut Vec<Tid>,
    pub caller: Speaker,
}

impl Polling<'_> {
    /// `poll`.
    pub fn poll(self, call: &Call, op: op::Poll) -> Tried {
        let caller = self.caller;
        let bytes = self.procs.a(caller, call)?;
        let mut set: Vec<PollEntry> = Vec::with_capacity(bytes.len() / 8);
        for chunk in bytes.chunks_exact(8) {
            let chunk = chunk.try_into().map_err(|_| Errno::EINVAL)?;
            set.push(PollEntry::from_bytes(chunk));
        }
        let sources = sources!(self, Some(caller.tid));
        let mut ready = 0;
        for entry in set.iter_mut().filter(|entry| entry.desc != 0) {
            let mask = entry.events | POLLERR | POLLHUP | POLLNVAL;
            entry.revents = sources.ready(caller.pid, entry.desc) & mask;
            ready += (entry.revents != 0) as usize;
        }
        if self.stirred.contains(&caller.tid) {
            self.stirred.retain(|tid| *tid != caller.tid);
            return Err(Errno::EINTR);
        }
        let has_changes = op.watching && self.watches.has_notes(caller.pid);
        if ready == 0 && !has_changes && op.ns != 0 && !call.late {
            for entry in &set {
                let Ok(desc) = self.descs.of(caller.pid, entry.desc) else { continue };
                match desc.object {
                    Object::Pipe(pipe, _) => self.pipes.wait(pipe, caller.tid),
                    Object::Set(number) => self.sets.wait(number, caller.tid),
                    Object::Socket(number) => self.sockets.wait(number, caller.tid),
                    Object::Notices(number) => self.notify.wait(number, caller.tid),
                    Object::Fanotify(number) => self.notify.fans.wait(number, caller.tid),
                    Object::Messages(ino) => self.mqueues.wait(ino, caller.tid),
                    Object::Inet(number) => self.sockets.inet.wait(number, caller.tid),
                    Object::Counter(_, number) => self.counters.wait(number, caller.tid),
                    Object::Tty(line, _) => self.terminal.wait(line, caller.tid),
                    Object::Stream(_) => self.terminal.wait(LineId::Console, caller.tid),
                    Object::Master(number, _) => self.terminal.ptys.wait(number, caller.tid),
                    // Whoever looks for signals watches those of its process.
                    Object::Signals(_) => {}
                    // They are always ready.
                    Object::File(_) | Object::Dir(_) | Object::Device(..) => {}
                    Object::Shared(_) | Object::Space(_) | Object::Making(_) => {}
                    Object::Disk { .. } => {}
                    Object::Text(..) | Object::Path(_) | Object::Memory(..) => {}
                }
            }
            if op.watching {
                self.watches.wait(caller);
            }
            return Ok(Outcome::Block(self.clock.deadline(op.ns)));
        }
        let answer: Vec<u8> = set.iter().flat_map(|entry| entry.to_bytes()).collect();
        self.procs.put(caller, &answer)?;
        count(ready)
    }
}
