//! POSIX message queues.
//!
//! A queue is a file, for its owner, mode and times, in a directory that each name space of System V objects has for them, and which can
//! be mounted. Its messages are here: as many and as long as was said when it was made, which its user has room for from the beginning.

use crate::descs::{Handles, Object};
use crate::effects::Effects;
use crate::nodes::Node;
use crate::open::Opening;
use crate::procs::{Pid, Procs};
use crate::spaces::QueueDir;
use crate::threads::Tid;
use crate::wait::{count, done, Call, Outcome, Tried, Waiters};
use crate::watches::Source;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;
use credentials::Capability;
use files::Claim;
use inet::Number;
use memfs::{Attr, Ino};
use messages::{Message, Queue, Wanted};
use piecewise::{Limits, Shares};
use unixproto::files::*;
use unixproto::mqueue::*;
use unixproto::ops::{QueueMessage, QueueState};
use unixproto::signals::{SigInfo, SI_MESGQ};
use unixproto::{limit, op, Any, Errno};

/// Queues that there may be in a name space for who is not privileged (`queues_max`).
const QUEUES_MOST: usize = 256;
/// Queues that there may be in all.
const QUEUES_ALL: usize = 1024;
/// Memory for messages.
const BYTES_ALL: usize = 32 << 20;
/// What a message costs besides its bytes, and what each of its priorities does.
const OVERHEAD: u64 = 48;
/// Longest name.
const NAME_MOST: usize = 255;
const READABLE: u16 = POLLIN | POLLRDNORM;
const WRITABLE: u16 = POLLOUT | POLLWRNORM;

/// Who is told that a message has come to an empty queue.
struct Notice {
    pid: Pid,
    how: How,
}

/// How that is told.
#[derive(Clone, Copy)]
enum How {
    /// It is only known to whoever reads the queue as a file.
    Nothing,
    /// By a signal, 0 for none, with a value.
    Signal(u32, u64),
    /// By bytes that come to a socket of netlink.
    Bytes(Number, [u8; COOKIE_BYTES]),
}

/// Why bytes come, in the last of them (`NOTIFY_WOKENUP`, `NOTIFY_REMOVED`).
const CAME: u8 = 1;
const REMOVED: u8 = 2;

/// What is to be said to a socket.
pub type Word = (Number, Vec<u8>);

impl How {
    fn word(self, why: u8) -> Option<Word> {
        let How::Bytes(number, mut cookie) = self else { return None };
        cookie[COOKIE_BYTES - 1] = why;
        Some((number, cookie.to_vec()))
    }
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
    counts: Shares,
    memory: Shares,
}

impl Default for MessageQueues {
    fn default() -> MessageQueues {
        let shares = |all| Shares::new(Limits::of(all));
        let queues = BTreeMap::new();
        MessageQueues { queues, counts: shares(QUEUES_ALL), memory: shares(BYTES_ALL) }
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

    /// A process closes a queue: it is not told of messages any more. Answers what is to be said of that, if something is.
    pub fn closed(&mut self, ino: Ino, pid: Pid) -> Option<Word> {
        let queue = self.queues.get_mut(&ino)?;
        queue.notice.take_if(|notice| notice.pid == pid)?.how.word(REMOVED)
    }

    /// A socket goes: nothing is said to it any more, nor to who has its number next.
    pub fn socket_gone(&mut self, number: Number) {
        let says = |notice: &mut Notice| matches!(notice.how, How::Bytes(to, _) if to == number);
        for queue in self.queues.values_mut() {
            queue.notice.take_if(says);
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
            Some(Notice { pid, how: How::Nothing }) => (SIGEV_NONE, 0, pid),
            Some(Notice { pid, how: How::Signal(signal, _) }) => (SIGEV_SIGNAL, signal, pid),
            Some(Notice { pid, how: How::Bytes(..) }) => (SIGEV_THREAD, 0, pid),
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
        let dir = self.queue_dir()?;
        let ino = match self.names().lookup(dir, &name)? {
            None if op.flags & O_CREAT == 0 => return Err(Errno::ENOENT),
            None => self.make_mqueue((dir, &name), &attributes, (op.mode, op.limit))?,
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

    /// The directory of the queues that the caller sees.
    fn queue_dir(&mut self) -> Result<Ino, Errno> {
        let space = self.procs.get(self.caller.pid)?.spaces.ipc.clone();
        let now = self.handles.clock.wall();
        Ok(space.queues(self.handles.tree.files_mut().names_mut(), now)?.1)
    }

    /// A queue of which nothing is said but its name, as `open` makes it.
    pub fn new_queue(&mut self, dir: Ino, name: &[u8], mode: u32) -> Result<Ino, Errno> {
        let header = self.procs.session_of(self.caller.pid)?.header();
        let limit = header.limits[limit::MSGQUEUE as usize][0].load(Relaxed);
        self.make_mqueue((dir, name), &[], (mode, limit))
    }

    fn make_mqueue(
        &mut self,
        (dir, name): (Ino, &[u8]),
        attributes: &[u8],
        (mode, limit): (u32, u64),
    ) -> Result<Ino, Errno> {
        check_name(name)?;
        if self.stock.has_no_names(self.cred().uid) {
            return Err(Errno::ENOSPC);
        }
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
        if (queues.memory.of(user) as u64).saturating_add(bytes) > limit
            || !queues.memory.has_room(user, bytes as usize)
        {
            return Err(Errno::EMFILE);
        }
        if !queues.counts.has_room(user, 1) {
            return Err(Errno::ENOSPC);
        }
        let (cred, now) = (self.cred(), self.handles.clock.wall());
        let attr = Attr { mode: mode & 0o7777, cred, now };
        let names = self.handles.tree.files_mut().names_mut();
        let ino = names.create(dir, name, memfs::Node::Queue, attr)?;
        // Until its name is gone, so that this is heard of.
        self.handles.tree.hold(Node::Mem(ino));
        self.handles.tree.call(ino, name);
        let queues = &mut self.handles.mqueues;
        queues.counts.take(user, 1);
        queues.memory.take(user, bytes as usize);
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
        let dir = self.queue_dir()?;
        let ino = self.names().lookup(dir, &name)?.ok_or(Errno::ENOENT)?;
        let (cred, now) = (self.cred(), self.handles.clock.wall());
        self.handles.tree.files_mut().names_mut().unlink(dir, &name, &cred, now)?;
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
        let Some(Notice { pid, how }) = told else { return done(()) };
        if let How::Signal(signal @ 1.., value) = how {
            let uid = self.procs.real_user(self.caller.pid);
            let info =
                SigInfo { code: SI_MESGQ, pid: self.caller.pid, uid, value, ..Default::default() };
            fx.post(pid, signal, info);
        }
        self.say(how.word(CAME));
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
    pub fn notify_mqueue(&mut self, call: &Call, op: op::QueueNotify) -> Tried {
        let how = match op.how {
            _ if !op.on => How::Nothing,
            SIGEV_NONE => How::Nothing,
            SIGEV_SIGNAL if op.signal <= SIGNALS => How::Signal(op.signal, op.value),
            SIGEV_THREAD => {
                let number = self.route_socket(op.signal)?;
                let cookie = self.procs.a(self.caller, call)?;
                How::Bytes(number, cookie.try_into().map_err(|_| Errno::EINVAL)?)
            }
            _ => return Err(Errno::EINVAL),
        };
        let (ino, _) = self.mqueue(op.desc)?;
        let pid = self.caller.pid;
        if !op.on {
            let word = self.handles.mqueues.closed(ino, pid);
            self.say(word);
            return done(());
        }
        let queue = self.handles.mqueues.get(ino)?;
        if queue.notice.is_some() {
            return Err(Errno::EBUSY);
        }
        queue.notice = Some(Notice { pid, how });
        done(())
    }

    fn say(&mut self, word: Option<Word>) {
        self.handles.sockets.inet.say(word, self.handles.fx);
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

impl Handles<'_> {
    /// A name space has ended: the names of its queues are gone. Those that somebody has open stay until he closes them.
    pub fn end_queues(&mut self, (number, dir): QueueDir) {
        let names = self.tree.files_mut().names_mut();
        let entries = names.get(dir).and_then(|inode| inode.dir());
        let all: Vec<Ino> =
            entries.map_or_else(|_| Vec::new(), |dir| dir.entries(0).map(|it| it.ino).collect());
        names.drop_volume(number, dir);
        all.into_iter().for_each(|ino| self.release(Node::Mem(ino)));
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
