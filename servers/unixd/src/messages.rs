//! System V messages: queues of messages, each of a kind by which it is received.

use crate::ipc::{Perm, Registry, PERM_BYTES};
use crate::open::Opening;
use crate::procs::Pid;
use crate::wait::{count, done, Call, Outcome, Tried, Waiters};
use alloc::string::String;
use core::fmt::Write;
use credentials::Capability;
use messages::{Message, Queue, Wanted, OVERHEAD};
use piecewise::{Limits, Shares};
use unixproto::ipc::*;
use unixproto::{op, Errno};

/// Queues that there may be (Linux: `MSGMNI` is 32,000).
pub const QUEUES_MOST: usize = 4096;
/// Memory for messages that nobody has received.
const BYTES_ALL: usize = 32 << 20;
/// Bytes in front of a message in the data area: its kind.
const KIND_BYTES: usize = 8;

/// A queue, and who waits there.
struct Shelf {
    queue: Queue,
    /// Bytes that its messages may have.
    most: usize,
    /// Seconds since 1970: of the last message sent, of the last one received, and of the last change by `msgctl`.
    times: [i64; 3],
    /// Who has sent the last one, and received it.
    pids: [Pid; 2],
    senders: Waiters,
    receivers: Waiters,
}

/// All queues.
pub struct Messages {
    queues: Registry<Shelf>,
    /// Memory of the messages, by who has made the queue.
    memory: Shares,
}

impl Default for Messages {
    fn default() -> Messages {
        let memory = Shares::new(Limits::of(BYTES_ALL));
        Messages { queues: Registry::new(QUEUES_MOST), memory }
    }
}

impl Messages {
    /// Name spaces have ended, and all that is in them goes. Nobody waits there any more.
    pub fn end_spaces(&mut self, ended: &[u64]) {
        for place in self.queues.places(ended) {
            let owner = self.queues.at(place).map_or(0, |entry| entry.perm.creator.0);
            if let Some(shelf) = self.queues.remove(place) {
                self.memory.give_back(owner, shelf.queue.memory());
            }
        }
    }

    /// What `/proc/sysvipc/msg` says.
    pub fn text(&self, space: u64) -> String {
        let mut text = String::from("       key      msqid perms      cbytes       qnum lspid lrpid   uid   gid  cuid  cgid      stime      rtime      ctime\n");
        for (place, entry) in self.queues.of(space) {
            let (Perm { key, owner, creator, mode, .. }, shelf) = (entry.perm, &entry.value);
            let (id, queue, [sent, received, changed]) =
                (self.queues.id(place), &shelf.queue, shelf.times);
            put!(
                text,
                "{key:10} {id:10}  {mode:4o}  {:10} {:10} {:5} {:5} ",
                queue.bytes(),
                queue.len(),
                shelf.pids[0],
                shelf.pids[1]
            );
            put!(text, "{:5} {:5} {:5} {:5} ", owner.0, owner.1, creator.0, creator.1);
            put_line!(text, "{sent:10} {received:10} {changed:10}");
        }
        text
    }
}

impl Opening<'_> {
    /// The name space in which the caller names System V objects and message queues.
    pub(crate) fn ipc(&self) -> Result<u64, Errno> {
        Ok(self.procs.get(self.caller.pid)?.spaces.ipc.number)
    }

    /// `msgget`.
    pub fn get_queue(&mut self, op: op::GetQueue) -> Tried {
        let all = &self.messages.queues;
        if let Some(place) = all.named(self.ipc()?, op.key, op.flags)? {
            let proc = self.procs.get(self.caller.pid)?;
            all.at(place)?.perm.permits(proc, op.flags & 0o777)?;
            return count(all.id(place) as usize);
        }
        let perm = self.perm(op.key, op.flags)?;
        all.room(perm.creator.0)?;
        let shelf = Shelf {
            queue: Queue::default(),
            most: QUEUE_BYTES_MOST,
            times: [0, 0, self.seconds()],
            pids: [0; 2],
            senders: Waiters::default(),
            receivers: Waiters::default(),
        };
        let all = &mut self.messages.queues;
        let place = all.add(perm, shelf).map_err(|_| Errno::ENOSPC)?;
        count(all.id(place) as usize)
    }

    /// `msgsnd`.
    pub fn send_message(&mut self, call: &mut Call, op: op::SendMessage) -> Tried {
        let text = self.procs.a(self.caller, call)?;
        if text.len() > MESSAGE_MOST || op.kind < 1 {
            return Err(Errno::EINVAL);
        }
        let now = self.seconds();
        // Of one that has waited, the queue may be gone.
        let gone = if call.kept != 0 { Errno::EIDRM } else { Errno::EINVAL };
        let space = self.ipc()?;
        let entry = self.messages.queues.get_mut(space, op.id).map_err(|_| gone)?;
        entry.perm.permits(self.procs.get(self.caller.pid)?, 0o222)?;
        let (owner, shelf) = (entry.perm.creator.0, &mut entry.value);
        if !shelf.queue.has_room(text.len(), shelf.most) {
            if op.flags & IPC_NOWAIT != 0 {
                return Err(Errno::EAGAIN);
            }
            shelf.senders.add(self.caller.tid);
            call.kept = 1;
            return Ok(Outcome::Block(0));
        }
        let cost = text.len() + OVERHEAD;
        if !self.messages.memory.has_room(owner, cost) {
            return Err(Errno::ENOMEM);
        }
        self.messages.memory.take(owner, cost);
        shelf.queue.add(Message { kind: op.kind, text: text.into() });
        shelf.times[0] = now;
        shelf.pids[0] = self.caller.pid;
        shelf.receivers.drain().for_each(|tid| self.handles.fx.wake(tid));
        done(())
    }

    /// `msgrcv`.
    pub fn receive_message(&mut self, call: &mut Call, op: op::ReceiveMessage) -> Tried {
        let now = self.seconds();
        let copies = op.flags & MSG_COPY != 0;
        if copies && (op.flags & MSG_EXCEPT != 0 || op.flags & IPC_NOWAIT == 0) {
            return Err(Errno::EINVAL);
        }
        let wanted = Wanted::of(op.kind, op.flags & MSG_EXCEPT != 0, copies);
        let gone = if call.kept != 0 { Errno::EIDRM } else { Errno::EINVAL };
        let space = self.ipc()?;
        let entry = self.messages.queues.get_mut(space, op.id).map_err(|_| gone)?;
        entry.perm.permits(self.procs.get(self.caller.pid)?, 0o444)?;
        let (owner, shelf) = (entry.perm.creator.0, &mut entry.value);
        let Some(place) = shelf.queue.find(wanted) else {
            if op.flags & IPC_NOWAIT != 0 {
                return Err(Errno::ENOMSG);
            }
            shelf.receivers.add(self.caller.tid);
            call.kept = 1;
            return Ok(Outcome::Block(0));
        };
        let found = shelf.queue.get(place).ok_or(Errno::ENOMSG)?;
        let bytes = found.text.len().min(op.bytes as usize);
        if bytes < found.text.len() && (copies || op.flags & MSG_NOERROR == 0) {
            // A copy is never cut.
            let is_cut = op.flags & MSG_NOERROR != 0;
            return Err(if is_cut { Errno::EINVAL } else { Errno::E2BIG });
        }
        let mut told = [0; KIND_BYTES + MESSAGE_MOST];
        told[..KIND_BYTES].copy_from_slice(&found.kind.to_le_bytes());
        told[KIND_BYTES..][..bytes].copy_from_slice(&found.text[..bytes]);
        self.procs.put(self.caller, &told[..KIND_BYTES + bytes])?;
        if copies {
            return count(bytes);
        }
        if let Some(taken) = shelf.queue.take(place) {
            self.messages.memory.give_back(owner, taken.text.len() + OVERHEAD);
        }
        shelf.times[1] = now;
        shelf.pids[1] = self.caller.pid;
        shelf.senders.drain().for_each(|tid| self.handles.fx.wake(tid));
        count(bytes)
    }

    /// `msgctl`.
    pub fn control_queue(&mut self, call: &Call, op: op::ControlQueue) -> Tried {
        match op.command {
            IPC_INFO | MSG_INFO => return self.message_info(op.command),
            MSG_STAT | MSG_STAT_ANY => {
                let place = op.id as usize;
                let entry = self.messages.queues.listed(self.ipc()?, place)?;
                if op.command == MSG_STAT {
                    entry.perm.permits(self.procs.get(self.caller.pid)?, 0o444)?;
                }
                let id = self.messages.queues.id(place);
                return self.tell_queue(place, id as usize);
            }
            IPC_STAT | IPC_SET | IPC_RMID => {}
            _ => return Err(Errno::EINVAL),
        }
        let place = self.messages.queues.place(self.ipc()?, op.id)?;
        let now = self.seconds();
        let given = self.procs.a(self.caller, call)?;
        let proc = self.procs.get(self.caller.pid)?;
        let entry = self.messages.queues.at_mut(place)?;
        let (perm, shelf) = (&mut entry.perm, &mut entry.value);
        match op.command {
            IPC_STAT => {
                perm.permits(proc, 0o444)?;
                return self.tell_queue(place, 0);
            }
            IPC_SET => {
                perm.owned_by(proc)?;
                let most = given.get(88..96).and_then(|bytes| bytes.first_chunk());
                let most = most.map(|bytes| u64::from_le_bytes(*bytes)).ok_or(Errno::EINVAL)?;
                if most > QUEUE_BYTES_MOST as u64 && !proc.has(Capability::SysResource) {
                    return Err(Errno::EPERM);
                }
                perm.set(&given)?;
                shelf.most = most as usize;
                shelf.times[2] = now;
            }
            _ => {
                perm.owned_by(proc)?;
                let owner = perm.creator.0;
                self.messages.memory.give_back(owner, shelf.queue.memory());
            }
        }
        // Whoever waits may not do so any more, finds room, or finds it gone.
        let fx = &mut self.handles.fx;
        shelf.senders.drain().chain(shelf.receivers.drain()).for_each(|tid| fx.wake(tid));
        if op.command == IPC_RMID {
            self.messages.queues.remove(place);
        }
        count(0)
    }

    /// Leaves `struct msqid_ds` in the data area.
    fn tell_queue(&mut self, place: usize, answer: usize) -> Tried {
        let entry = self.messages.queues.at(place)?;
        let Shelf { queue, most, times, pids, .. } = &entry.value;
        let mut bytes = [0; MSQID_BYTES];
        bytes[..PERM_BYTES].copy_from_slice(&entry.perm_bytes(0));
        let [sent, received, changed] = times.map(|time| time as u64);
        let [sender, receiver] = pids.map(u64::from);
        let (used, length) = (queue.bytes() as u64, queue.len() as u64);
        let words = [sent, received, changed, used, length, *most as u64, sender | receiver << 32];
        for (to, word) in bytes[PERM_BYTES..].chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        self.procs.put(self.caller, &bytes)?;
        count(answer)
    }

    /// What there may be, or what there is: `struct msginfo`.
    fn message_info(&mut self, command: u32) -> Tried {
        let (all, space) = (&self.messages.queues, self.ipc()?);
        let last = all.of(space).map(|(place, _)| place).max().unwrap_or(0);
        let sum =
            |of: fn(&Queue) -> usize| all.of(space).map(|(_, one)| of(&one.value.queue)).sum();
        let (pool, map, headers): (usize, usize, usize) = match command {
            MSG_INFO => (all.of(space).count(), sum(Queue::len), sum(Queue::bytes)),
            _ => (QUEUES_MOST * QUEUE_BYTES_MOST / 1024, QUEUE_BYTES_MOST, QUEUE_BYTES_MOST),
        };
        // msgpool, msgmap, msgmax, msgmnb, msgmni, msgssz, msgtql, msgseg
        let words = [pool, map, MESSAGE_MOST, QUEUE_BYTES_MOST, QUEUES_MOST, 16, headers, 0xffff];
        let mut bytes = [0; MSGINFO_BYTES];
        for (to, word) in bytes.chunks_exact_mut(4).zip(words) {
            to.copy_from_slice(&(word as u32).to_le_bytes());
        }
        self.procs.put(self.caller, &bytes)?;
        count(last)
    }
}
