//! Descriptions that processes watch: they are told what changes there, instead of asking.
//!
//! A process says once which descriptions it watches, and is answered what is ready. From then on
//! every change is noted for it, and the header of its session counts how often its list of notes
//! began: a process that finds the count as it was knows, without a request, that all is as it was.
//! So waiting for many descriptions costs the same as waiting for one.
//!
//! A note says what is ready and which events came since the last one, also if they were ready
//! before: edge-triggered waiting needs that.

use crate::clock::Clock;
use crate::counters::Counters;
use crate::descs::Descs;
use crate::effects::Effects;
use crate::mqueues::MessageQueues;
use crate::notify::Instances;
use crate::peers::Watched;
use crate::pipes::Pipes;
use crate::procs::{Pid, Procs};
use crate::server::sets::{Sets, NESTS};
use crate::sockets::Sockets;
use crate::terminal::Terminal;
use crate::threads::Tid;
use crate::voices::Speaker;
use crate::wait::{count, done, Call, Tried, Waiters};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Release;
use memfs::Ino;
use unixproto::files::*;
use unixproto::session::DATA_BYTES;
use unixproto::Errno;

/// As many may watch the same pipe, or the terminal. Whoever comes later has to ask.
const WATCHERS_MAX: usize = 64;
/// As many threads of a process are notified when something comes: each costs whoever it comes from.
const SLEEPERS_MAX: usize = 16;
/// Bytes of an entry in the data area.
const ENTRY_BYTES: usize = 8;
/// State of what never makes anybody wait.
const ALWAYS_READY: u16 = POLLIN | POLLOUT | POLLRDNORM | POLLWRNORM;
/// What there is when data has come.
const READABLE: u16 = POLLIN | POLLRDNORM;

/// A process that watches a description.
struct Watcher {
    pid: Pid,
    desc: u32,
    /// What the process calls it.
    token: u32,
    /// `POLL*` bits that the process was told of, or will be.
    state: u16,
    /// Those that came since it was told.
    came: u16,
    /// It is in the process's list of notes.
    noted: bool,
    /// The number of this act of watching.
    number: u64,
}

/// Who watches a source.
pub enum Audience {
    /// Nobody.
    Nobody,
    /// A process, by one description.
    One(Watched),
    /// More than one.
    Many,
}

/// What can be watched.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Source {
    /// A pipe, by its number.
    Pipe(u32),
    /// The terminal of the machine and the streams, which share the serial port.
    Terminal,
    /// A pseudoterminal, by its number.
    Pty(u32),
    /// The master of one.
    Master(u32),
    /// A counter, by its number.
    Counter(u32),
    /// A set of `epoll`, by its number.
    Set(u32),
    /// A local socket, by its number.
    Socket(u32),
    /// Events of files, by the number of who watches them.
    Notices(u32),
    /// Events of files that were marked.
    Fanotify(u32),
    /// A POSIX message queue, by its file.
    Messages(Ino),
    /// A socket of the internet.
    Inet(u32),
    /// The signals of a process.
    Signals(Pid),
}

/// What descriptions refer to that are watched or polled.
#[derive(Clone, Copy)]
pub struct Sources<'a> {
    pub descs: &'a Descs,
    pub pipes: &'a Pipes,
    pub counters: &'a Counters,
    pub sets: &'a Sets,
    pub sockets: &'a Sockets,
    pub notify: &'a Instances,
    pub mqueues: &'a MessageQueues,
    pub clock: &'a Clock,
    pub terminal: &'a Terminal,
    pub procs: &'a Procs,
    /// The thread that looks. `None`: it is not known; what depends on it may be ready.
    pub looker: Option<Tid>,
}

/// The sources that somebody has, who may use his other parts meanwhile.
macro_rules! sources {
    ($of:expr, $looker:expr) => {
        $crate::watches::Sources {
            descs: &$of.descs,
            pipes: &$of.pipes,
            counters: &$of.counters,
            sets: &$of.sets,
            sockets: &$of.sockets,
            notify: &$of.notify,
            mqueues: &$of.mqueues,
            clock: &$of.clock,
            terminal: &$of.terminal,
            procs: &$of.procs,
            looker: $looker,
        }
    };
}
pub(crate) use sources;

impl Sources<'_> {
    /// `POLL*` bits of a description.
    pub fn ready(&self, pid: Pid, id: u32) -> u16 {
        match self.descs.holds(pid, id) {
            true => self.state(id, NESTS),
            false => POLLNVAL,
        }
    }

    /// The same as who watches it is told: he looks himself into what he has lent.
    fn told(&self, pid: Pid, id: u32) -> u16 {
        match self.descs.of(pid, id).map(|desc| &desc.object) {
            Ok(crate::descs::Object::Socket(number)) => self.sockets.told_of(*number),
            _ => self.ready(pid, id),
        }
    }

    /// The same, whoever holds it. Sets that are members of sets are looked at `nests` deep.
    pub fn state(&self, id: u32, nests: u32) -> u16 {
        use crate::descs::Object;
        let Ok(desc) = self.descs.get(id) else { return POLLNVAL };
        match desc.object {
            Object::Set(number) => self.sets.ready(number, self, nests),
            Object::Socket(number) => self.sockets.ready(number),
            Object::Notices(number) => self.notify.ready(number),
            Object::Fanotify(number) => self.notify.fans.ready(number),
            Object::Messages(ino) => self.mqueues.ready(ino),
            Object::Inet(number) => self.sockets.inet.of(number).ready(number),
            Object::Pipe(pipe, _) => self.pipes.ready(pipe, desc.flags),
            Object::Tty(line, _) => self.terminal.tty_ready(line),
            Object::Master(number, _) => self.terminal.ptys.master_ready(number),
            Object::Stream(channel) => self.terminal.stream_ready(channel),
            Object::Counter(_, number) => self.counters.ready(number, self.clock.now()),
            Object::Signals(set) => match self.looker {
                Some(tid) if self.procs.pending_for(tid) & set == 0 => 0,
                _ => POLLIN,
            },
            Object::File(_) | Object::Dir(_) | Object::Device(..) => ALWAYS_READY,
            Object::Shared(_) | Object::Space(_) | Object::Making(_) => ALWAYS_READY,
            Object::Disk { .. } => ALWAYS_READY,
            Object::Text(..) | Object::Path(_) | Object::Memory(..) => ALWAYS_READY,
        }
    }

    /// What can be watched of a description.
    fn of(&self, pid: Pid, id: u32) -> Result<Option<Source>, Errno> {
        Ok(self.descs.of(pid, id)?.object.source(pid))
    }
}

/// Those who watch a source.
#[derive(Default)]
struct Watchers {
    list: Vec<Watcher>,
}

impl Watchers {
    fn find(&mut self, pid: Pid, desc: u32) -> Option<&mut Watcher> {
        self.list.iter_mut().find(|one| one.pid == pid && one.desc == desc)
    }
    fn add(&mut self, watcher: Watcher) -> Result<(), Errno> {
        if let Some(known) = self.find(watcher.pid, watcher.desc) {
            (known.token, known.state) = (watcher.token, watcher.state);
            known.number = watcher.number;
            return Ok(());
        }
        if self.list.len() >= WATCHERS_MAX {
            return Err(Errno::ENOSPC);
        }
        self.list.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        self.list.push(watcher);
        Ok(())
    }
}

/// What a process has to do with it.
#[derive(Default)]
struct Watching {
    /// How many descriptions it watches.
    count: usize,
    /// Those that have changed. There is room for all.
    notes: Vec<u32>,
    /// Its threads that wait for a change.
    waiters: Waiters,
    /// Those that sleep in the library at times, and are notified then.
    sleepers: Vec<Tid>,
}

impl Watching {
    fn reserve(&mut self) -> Result<(), Errno> {
        let more = (self.count + 1).saturating_sub(self.notes.len());
        self.notes.try_reserve(more).map_err(|_| Errno::ENOMEM)
    }
}

/// Who watches what.
#[derive(Default)]
pub struct Watches {
    sources: BTreeMap<Source, Watchers>,
    procs: BTreeMap<Pid, Watching>,
    /// How often somebody has begun to watch something.
    count: u64,
}

impl Watches {
    /// Returns `true` if nobody watches anything.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }

    /// Does anything depend on this?
    pub fn has(&self, source: Source) -> bool {
        self.sources.contains_key(&source)
    }

    /// Who watches this?
    pub fn audience(&self, source: Source) -> Audience {
        match self.sources.get(&source).map_or(&[][..], |watchers| &watchers.list) {
            [] => Audience::Nobody,
            &[Watcher { pid, desc, number, .. }] => Audience::One(Watched { pid, desc, number }),
            _ => Audience::Many,
        }
    }

    /// Does a thread of a process wait here until something changes?
    pub fn is_waiting(&self, pid: Pid, procs: &Procs) -> bool {
        let mut waiters = self.procs.get(&pid).into_iter().flat_map(|of| of.waiters.iter());
        waiters.any(|tid| procs.blocked(tid).is_some())
    }

    /// The caller is notified from now on, when it sleeps in its library.
    ///
    /// # Errors
    /// `ENOSPC`: too many threads of its process are.
    pub fn sleep_here(&mut self, caller: Speaker, procs: &Procs) -> Tried {
        let sleepers = &mut self.procs.entry(caller.pid).or_default().sleepers;
        sleepers.retain(|&tid| tid != caller.tid && procs.leader(tid) == caller.pid);
        if sleepers.len() >= SLEEPERS_MAX {
            return Err(Errno::ENOSPC);
        }
        sleepers.push(caller.tid);
        done(())
    }

    /// Has a process not been told of something yet?
    pub fn has_notes(&self, pid: Pid) -> bool {
        self.procs.get(&pid).is_some_and(|watching| !watching.notes.is_empty())
    }

    /// A thread waits until something changes that its process watches.
    pub fn wait(&mut self, caller: Speaker) {
        self.procs.entry(caller.pid).or_default().waiters.add(caller.tid);
    }

    /// The caller's process watches the descriptions in `a` from now on.
    pub fn watch(&mut self, on: Sources, procs: &Procs, caller: Speaker, call: &Call) -> Tried {
        let mut entries = procs.a(caller, call)?;
        for bytes in entries.chunks_exact_mut(ENTRY_BYTES) {
            let words: [u8; ENTRY_BYTES] = (&*bytes).try_into().map_err(|_| Errno::EINVAL)?;
            let words = u64::from_le_bytes(words);
            let (desc, token) = (words as u32, (words >> 32) as u32);
            let revents = on.ready(caller.pid, desc);
            let watched = self.watch_one(on, caller.pid, desc, token, revents);
            // That there are new signals is told, but which thread finds any it has to ask.
            let watched = watched.is_ok_and(|source| !matches!(source, Source::Signals(_)));
            let entry = PollEntry { desc: token, events: watched as u16, revents };
            bytes.copy_from_slice(&entry.to_bytes());
        }
        procs.put(caller, &entries)?;
        count(entries.len() / ENTRY_BYTES)
    }

    fn watch_one(
        &mut self,
        on: Sources,
        pid: Pid,
        desc: u32,
        token: u32,
        state: u16,
    ) -> Result<Source, Errno> {
        let source = on.of(pid, desc)?.ok_or(Errno::EPERM)?;
        let watching = self.procs.entry(pid).or_default();
        let watchers = self.sources.entry(source).or_default();
        let is_new = watchers.find(pid, desc).is_none();
        self.count += 1;
        let number = self.count;
        let watcher = Watcher { pid, desc, token, state, came: 0, noted: false, number };
        let room = if is_new { watching.reserve() } else { Ok(()) };
        let added = room.and_then(|()| watchers.add(watcher));
        if watchers.list.is_empty() {
            self.sources.remove(&source);
        }
        added?;
        watching.count += is_new as usize;
        Ok(source)
    }

    /// Tells the caller's process what has changed.
    pub fn changes(&mut self, on: Sources, procs: &Procs, caller: Speaker) -> Tried {
        let pid = caller.pid;
        let Some(watching) = self.procs.get_mut(&pid) else {
            procs.put(caller, &[])?;
            return count(0);
        };
        let notes = &mut watching.notes;
        let first = notes.len().saturating_sub(DATA_BYTES / ENTRY_BYTES);
        let mut entries = Vec::new();
        entries.try_reserve((notes.len() - first) * ENTRY_BYTES).map_err(|_| Errno::ENOMEM)?;
        let changed: Vec<u32> = notes.drain(first..).collect();
        if first > 0 {
            count_change(procs, pid);
        }
        for desc in changed {
            let Ok(Some(source)) = on.of(pid, desc) else { continue };
            let watchers = self.sources.get_mut(&source);
            let Some(watcher) = watchers.and_then(|all| all.find(pid, desc)) else { continue };
            let (events, revents) = (watcher.came, watcher.state);
            (watcher.came, watcher.noted) = (0, false);
            let entry = PollEntry { desc: watcher.token, events, revents };
            entries.extend_from_slice(&entry.to_bytes());
        }
        procs.put(caller, &entries)?;
        count(entries.len() / ENTRY_BYTES)
    }

    /// Something has happened to a source; `data`: data have come.
    pub fn note(
        &mut self,
        (source, data): (Source, bool),
        on: Sources,
        procs: &Procs,
        fx: &mut Effects,
    ) {
        let Some(watchers) = self.sources.get_mut(&source) else { return };
        for watcher in &mut watchers.list {
            let state = on.told(watcher.pid, watcher.desc);
            let came = state & !watcher.state | if data { state & READABLE } else { 0 };
            if came == 0 && state == watcher.state {
                continue;
            }
            watcher.state = state;
            watcher.came |= came;
            let Some(watching) = self.procs.get_mut(&watcher.pid) else { continue };
            let is_first = !watcher.noted && watching.notes.is_empty();
            if !watcher.noted {
                watching.notes.push(watcher.desc);
                watcher.noted = true;
            }
            if is_first {
                count_change(procs, watcher.pid);
            }
            if came != 0 {
                watching.waiters.drain().for_each(|tid: Tid| fx.wake(tid));
                watching.sleepers.retain(|&tid| procs.rouse(watcher.pid, tid));
            }
        }
    }

    /// A process lets a description go: it watches it no more.
    pub fn unwatch(&mut self, source: Source, pid: Pid, desc: u32) {
        let Some(watchers) = self.sources.get_mut(&source) else { return };
        let is_it = |one: &Watcher| one.pid == pid && one.desc == desc;
        let Some(at) = watchers.list.iter().position(is_it) else { return };
        let watcher = watchers.list.swap_remove(at);
        if watchers.list.is_empty() {
            self.sources.remove(&source);
        }
        let Some(watching) = self.procs.get_mut(&pid) else { return };
        watching.count = watching.count.saturating_sub(1);
        if watcher.noted {
            watching.notes.retain(|noted| *noted != desc);
        }
    }

    /// A process has ended.
    pub fn forget(&mut self, pid: Pid) {
        self.procs.remove(&pid);
    }
}

/// Has a process see in its header that its list of notes has begun.
fn count_change(procs: &Procs, pid: Pid) {
    if let Ok(session) = procs.get(pid).and_then(|proc| proc.session()) {
        session.header().changes.fetch_add(1, Release);
    }
}
