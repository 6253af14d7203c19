//! POSIX message queues.
//!
//! A queue is a file without a name in the tree, for its owner, mode and times; its name is here. Its messages are here, too: as many
//! and as long as was said when it was made, which its user has room for from the beginning.

use crate::descs::Object;
use crate::effects::Effects;
use crate::nodes::Node;
use crate::open::Opening;
use crate::procs::{Pid, Procs};
use crate::threads::Tid;
use crate::wait::{count, done, Call, Outcome, Tried, Waiters};
use crate::watches::Source;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::vec::Vec;
use credentials::Capability;
use files::Claim;
use memfs::{Attr, Ino};
use messages::{Message, Queue, Wanted};
use piecewise::{Limits, Shares};
use unixproto::files::*;
use unixproto::mqueue::*;
use unixproto::ops::{QueueMessage, QueueState};
use unixproto::signals::{SigInfo, SI_MESGQ};
use unixproto::{op, Any, Errno};

/// Queues that there may be in a name space for who is not privileged (`queues_max`).
const QUEUES_MOST: usize = 256;
/// Queues that there may be in all.
const QUEUES_ALL: usize = 1024;
/// Memory for messages.
const BYTES_ALL: usize = 32 << 20;
/// What a message costs besides its bytes, and what each of its priorities does.
const OVERHEAD: u64 = 48;
/// Bytes of a file that is a queue, as `stat` tells them.
const FILE_BYTES: u64 = 80;
/// Longest name.
const NAME_MOST: usize = 255;
const READABLE: u16 = POLLIN | POLLRDNORM;
const WRITABLE: u16 = POLLOUT | POLLWRNORM;

/// Who is told that a message has come to an empty queue.
struct Notice {
    pid: Pid,
    /// By this signal; 0: by none.
    signal: u32,
    value: u64,
}

/// A queue.
struct MessageQueue {
    /// The name space that it is in.
    space: u64,
    /// Who has made it, and what he has room for.
    user: u32,
    cost: usize,
    /// Most messages, and most bytes of one.
    most: u64,
    size: u64,
    /// A message of a higher priority is of a lower kind.
    messages: Queue,
    notice: Option<Notice>,
    senders: Waiters,
    receivers: Waiters,
    lookers: Waiters,
}

impl MessageQueue {
    fn is_full(&self) -> bool {
        self.messages.len() as u64 >= self.most
    }

    fn state(&self, flags: u32) -> QueueState {
        let count = self.messages.len() as u64;
        QueueState { flags: flags & O_NONBLOCK, most: self.most, size: self.size, count }
    }

    /// Somebody waits for a message, and not only did so once.
    fn has_receiver(&self, procs: &Procs) -> bool {
        let waits = |tid: Tid| {
            let blocked = procs.blocked(tid);
            blocked.is_some_and(|blocked| matches!(blocked.call.any, Any::QueueReceive(_)))
        };
        self.receivers.iter().any(waits)
    }
}

/// All of them.
pub struct MessageQueues {
    queues: BTreeMap<Ino, MessageQueue>,
    /// By name space and name.
    names: BTreeMap<(u64, Box<[u8]>), Ino>,
    counts: Shares,
    memory: Shares,
}

impl Default for MessageQueues {
    fn default() -> MessageQueues {
        let shares = |all| Shares::new(Limits::of(all));
        let (queues, names) = Default::default();
        MessageQueues { queues, names, counts: shares(QUEUES_ALL), memory: shares(BYTES_ALL) }
    }
}

impl MessageQueues {
    fn get(&mut self, ino: Ino) -> Result<&mut MessageQueue, Errno> {
        self.queues.get_mut(&ino).ok_or(Errno::EBADF)
    }

    /// A file has gone: nobody has it open, and it has no name any more.
    pub fn gone(&mut self, ino: Ino) {
        if let Some(queue) = self.queues.remove(&ino) {
            self.counts.give_back(queue.user, 1);
            self.memory.give_back(queue.user, queue.cost);
        }
    }

    /// Name spaces have ended: the names of their queues are gone. Returns what they named.
    pub fn end_spaces(&mut self, ended: &[u64]) -> Vec<Ino> {
        let all = self.names.extract_if(.., |(space, _), _| ended.binary_search(space).is_ok());
        all.map(|(_, ino)| ino).collect()
    }

    /// A process closes a queue: it is not told of messages any more.
    pub fn closed(&mut self, ino: Ino, pid: Pid) {
        if let Some(queue) = self.queues.get_mut(&ino) {
            queue.notice.take_if(|notice| notice.pid == pid);
        }
    }

    /// `POLL*` bits.
    pub fn ready(&self, ino: Ino) -> u16 {
        let Some(queue) = self.queues.get(&ino) else { return POLLERR };
        let read = if queue.messages.is_empty() { 0 } else { READABLE };
        let write = if queue.is_full() { 0 } else { WRITABLE };
        read | write
    }

    /// A thread waits for something to happen to a queue.
    pub fn wait(&mut self, ino: Ino, tid: Tid) {
        if let Some(queue) = self.queues.get_mut(&ino) {
            queue.lookers.add(tid);
        }
    }

    /// What reading a queue as a file shows.
    fn text(&self, ino: Ino) -> Result<Box<[u8]>, Errno> {
        let queue = self.queues.get(&ino).ok_or(Errno::EBADF)?;
        let (how, signal, pid) = match queue.notice {
            Some(Notice { pid, signal: 0, .. }) => (SIGEV_NONE, 0, pid),
            Some(Notice { pid, signal, .. }) => (SIGEV_SIGNAL, signal, pid),
            None => (0, 0, 0),
        };
        let bytes = queue.messages.bytes();
        let text =
            format!("QSIZE:{bytes:<10} NOTIFY:{how:<5} SIGNO:{signal:<5} NOTIFY_PID:{pid:<6}\n");
        Ok(text.into_bytes().into())
    }
}

/// Bytes that a user needs for a queue.
fn cost(most: u64, size: u64) -> u64 {
    let nodes = most.min(PRIORITIES.into());
    most.saturating_mul(size).saturating_add((most + nodes).saturating_mul(OVERHEAD))
}

/// Is this what a queue can be called?
fn check_name(name: &[u8]) -> Result<(), Errno> {
    match name {
        [] => Err(Errno::ENOENT),
        b"." | b".." => Err(Errno::EACCES),
        _ if name.contains(&b'/') => Err(Errno::EACCES),
        _ if name.len() > NAME_MOST => Err(Errno::ENAMETOOLONG),
        _ => Ok(()),
    }
}

/// Wakes all that wait there.
fn wake(waiters: &mut Waiters, fx: &mut Effects) {
    waiters.drain().for_each(|tid| fx.wake(tid));
}

impl Opening<'_> {
    /// `mq_open`.
    pub fn open_mqueue(&mut self, call: &Call, op: op::OpenMessages) -> Tried {
        self.room(1)?;
        let name = self.procs.a(self.caller, call)?;
        let attributes = self.procs.b(self.caller, call)?;
        check_name(&name)?;
        let space = self.ipc()?;
        let found = self.handles.mqueues.names.get(&(space, name[..].into())).copied();
        let ino = match found {
            None if op.flags & O_CREAT == 0 => return Err(Errno::ENOENT),
            None => self.make_mqueue(&name, &attributes, op)?,
            Some(_) if op.flags & (O_CREAT | O_EXCL) == O_CREAT | O_EXCL => {
                return Err(Errno::EEXIST)
            }
            Some(ino) => {
                let wanted = match op.flags & O_ACCMODE {
                    O_RDONLY => memfs::READ,
                    O_WRONLY => memfs::WRITE,
                    O_RDWR => memfs::READ | memfs::WRITE,
                    _ => return Err(Errno::EINVAL),
                };
                self.names().get(ino)?.permits(&self.cred(), wanted)?;
                ino
            }
        };
        self.handles.tree.hold(Node::Mem(ino));
        let flags = op.flags & (O_ACCMODE | O_NONBLOCK);
        self.opened(Object::Messages(ino), flags, None, Claim::None)
    }

    fn make_mqueue(
        &mut self,
        name: &[u8],
        attributes: &[u8],
        op: op::OpenMessages,
    ) -> Result<Ino, Errno> {
        let privileged = self.procs.get(self.caller.pid)?.has(Capability::SysResource);
        let space = self.ipc()?;
        let queues = &self.handles.mqueues;
        let there = queues.queues.values().filter(|queue| queue.space == space).count();
        if there >= QUEUES_MOST && !privileged {
            return Err(Errno::ENOSPC);
        }
        let word = |at: usize| {
            let bytes = attributes.get(8 * at..8 * at + 8).and_then(|bytes| bytes.first_chunk());
            bytes.map(|bytes| i64::from_le_bytes(*bytes))
        };
        let (most, size) = match (word(1), word(2)) {
            (Some(most), Some(size)) => (most, size),
            _ => (MESSAGES_USUAL as i64, BYTES_USUAL as i64),
        };
        let limits = match privileged {
            true => (MESSAGES_MOST as i64, BYTES_MOST as i64),
            false => (MESSAGES_USUAL as i64, BYTES_USUAL as i64),
        };
        if most <= 0 || size <= 0 || most > limits.0 || size > limits.1 {
            return Err(Errno::EINVAL);
        }
        let (most, size) = (most as u64, size as u64);
        let user = self.procs.real_user(self.caller.pid);
        let bytes = cost(most, size);
        if (queues.memory.of(user) as u64).saturating_add(bytes) > op.limit
            || !queues.memory.has_room(user, bytes as usize)
        {
            return Err(Errno::EMFILE);
        }
        if !queues.counts.has_room(user, 1) {
            return Err(Errno::ENOSPC);
        }
        let (cred, now) = (self.cred(), self.handles.clock.wall());
        let attr = Attr { mode: op.mode & 0o7777, cred, now };
        let ino = self.handles.tree.files_mut().create_unnamed(FILE_BYTES, attr)?;
        self.handles.tree.call(ino, name);
        let queues = &mut self.handles.mqueues;
        queues.counts.take(user, 1);
        queues.memory.take(user, bytes as usize);
        queues.names.insert((space, name.into()), ino);
        let queue = MessageQueue {
            space,
            user,
            cost: bytes as usize,
            most,
            size,
            messages: Queue::default(),
            notice: None,
            senders: Waiters::default(),
            receivers: Waiters::default(),
            lookers: Waiters::default(),
        };
        queues.queues.insert(ino, queue);
        Ok(ino)
    }

    /// `mq_unlink`.
    pub fn unlink_mqueue(&mut self, call: &Call) -> Tried {
        let name = self.procs.a(self.caller, call)?;
        check_name(&name)?;
        let name = (self.ipc()?, name[..].into());
        let ino = *self.handles.mqueues.names.get(&name).ok_or(Errno::ENOENT)?;
        self.names().get(ino)?.owned_by(&self.cred())?;
        self.handles.mqueues.names.remove(&name);
        self.handles.release(Node::Mem(ino));
        done(())
    }

    /// The queue of a description of the caller, and its flags. `EBADF`: it is something else.
    fn mqueue(&self, desc: u32) -> Result<(Ino, u32), Errno> {
        let desc = self.handles.descs.of(self.caller.pid, desc)?;
        match desc.object {
            Object::Messages(ino) => Ok((ino, desc.flags)),
            _ => Err(Errno::EBADF),
        }
    }

    /// `mq_timedsend`.
    pub fn send_mqueue(&mut self, call: &Call, op: op::QueueSend) -> Tried {
        let (ino, flags) = self.mqueue(op.desc)?;
        if flags & O_ACCMODE == O_RDONLY {
            return Err(Errno::EBADF);
        }
        if op.priority >= PRIORITIES {
            return Err(Errno::EINVAL);
        }
        let text = self.procs.a(self.caller, call)?;
        let fx = &mut self.handles.fx;
        let queue = self.handles.mqueues.get(ino)?;
        if text.len() as u64 > queue.size {
            return Err(Errno::EMSGSIZE);
        }
        if queue.is_full() {
            queue.senders.add(self.caller.tid);
            return wait(flags, call, op.deadline);
        }
        let told = if queue.messages.is_empty() && !queue.has_receiver(self.procs) {
            queue.notice.take()
        } else {
            None
        };
        let kind = i64::from(PRIORITIES - op.priority);
        queue.messages.add(Message { kind, text: text.into() });
        wake(&mut queue.receivers, fx);
        wake(&mut queue.lookers, fx);
        fx.changed(Source::Messages(ino), true);
        if let Some(Notice { pid, signal: signal @ 1.., value }) = told {
            let uid = self.procs.real_user(self.caller.pid);
            let info =
                SigInfo { code: SI_MESGQ, pid: self.caller.pid, uid, value, ..Default::default() };
            fx.post(pid, signal, info);
        }
        done(())
    }

    /// `mq_timedreceive`.
    pub fn receive_mqueue(&mut self, call: &Call, op: op::QueueReceive) -> Tried {
        let (ino, flags) = self.mqueue(op.desc)?;
        if flags & O_ACCMODE == O_WRONLY {
            return Err(Errno::EBADF);
        }
        let fx = &mut self.handles.fx;
        let queue = self.handles.mqueues.get(ino)?;
        if op.bytes < queue.size {
            return Err(Errno::EMSGSIZE);
        }
        let place = queue.messages.find(Wanted::UpTo(i64::MAX));
        let Some(message) = place.and_then(|place| queue.messages.take(place)) else {
            queue.receivers.add(self.caller.tid);
            return wait(flags, call, op.deadline);
        };
        wake(&mut queue.senders, fx);
        wake(&mut queue.lookers, fx);
        fx.changed(Source::Messages(ino), false);
        self.procs.put(self.caller, &message.text)?;
        let priority = PRIORITIES - message.kind as u32;
        done(QueueMessage { count: message.text.len() as u64, priority })
    }

    /// `mq_notify`.
    pub fn notify_mqueue(&mut self, op: op::QueueNotify) -> Tried {
        let (ino, _) = self.mqueue(op.desc)?;
        let pid = self.caller.pid;
        let queue = self.handles.mqueues.get(ino)?;
        if !op.on {
            queue.notice.take_if(|notice| notice.pid == pid);
            return done(());
        }
        if queue.notice.is_some() {
            return Err(Errno::EBUSY);
        }
        if op.signal > SIGNALS {
            return Err(Errno::EINVAL);
        }
        queue.notice = Some(Notice { pid, signal: op.signal, value: op.value });
        done(())
    }

    /// `mq_getsetattr`.
    pub fn state_of_mqueue(&mut self, op: op::QueueAttributes) -> Tried {
        let (ino, flags) = self.mqueue(op.desc)?;
        if op.set {
            let desc = self.handles.descs.of_mut(self.caller.pid, op.desc)?;
            desc.flags = desc.flags & !O_NONBLOCK | op.flags & O_NONBLOCK;
        }
        done(self.handles.mqueues.get(ino)?.state(flags))
    }

    /// Reads a queue as a file.
    pub fn read_mqueue(&mut self, id: u32, bytes: usize) -> Tried {
        let (ino, _) = self.mqueue(id)?;
        let text = self.handles.mqueues.text(ino)?;
        let desc = self.handles.descs.of_mut(self.caller.pid, id)?;
        let from = (desc.offset as usize).min(text.len());
        let part = &text[from..text.len().min(from.saturating_add(bytes))];
        desc.offset += part.len() as u64;
        self.procs.put(self.caller, part)?;
        count(part.len())
    }
}

/// Waits for room, or for a message, until a time.
fn wait(flags: u32, call: &Call, deadline: u64) -> Tried {
    match () {
        () if flags & O_NONBLOCK != 0 => Err(Errno::EAGAIN),
        () if call.late => Err(Errno::ETIMEDOUT),
        () => Ok(Outcome::Block(deadline)),
    }
}
