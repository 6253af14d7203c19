//! Descriptions that processes watch: they are told what changes there, instead of asking.
//!
//! A process says once which descriptions it watches, and is answered what is ready. From then on
//! every change is noted for it, and the header of its session counts how often its list of notes
//! began: a process that finds the count as it was knows, without a request, that all is as it was.
//! So waiting for many descriptions costs the same as waiting for one.
//!
//! A note says what is ready and which events came since the last one, also if they were ready
//! before: edge-triggered waiting needs that.

use crate::descs::Object;
use crate::procs::Pid;
use crate::server::Unixd;
use crate::wait::{count, Call, Tried, Waiters};
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Release;
use unixproto::files::*;
use unixproto::session::DATA_BYTES;
use unixproto::Errno;

/// As many may watch the same pipe, or the terminal. Whoever comes later has to ask.
const WATCHERS_MAX: usize = 64;
/// Bytes of an entry in the data area.
const ENTRY_BYTES: usize = 8;
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
}

/// Those who watch what descriptions refer to: a pipe, or the terminal.
#[derive(Default)]
pub struct Watchers {
    list: Vec<Watcher>,
    /// There are data that nobody was told of.
    data: bool,
}

impl Watchers {
    /// Data have come.
    pub fn data_came(&mut self) {
        self.data = !self.list.is_empty();
    }
    /// Does nobody watch?
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
    fn find(&mut self, pid: Pid, desc: u32) -> Option<&mut Watcher> {
        self.list.iter_mut().find(|one| one.pid == pid && one.desc == desc)
    }
    fn add(&mut self, watcher: Watcher) -> Result<(), Errno> {
        if let Some(known) = self.find(watcher.pid, watcher.desc) {
            (known.token, known.state) = (watcher.token, watcher.state);
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
pub struct Watching {
    /// How many descriptions it watches.
    count: usize,
    /// Those that have changed. There is room for all.
    notes: Vec<u32>,
    /// Its threads that wait for a change.
    waiters: Waiters,
}

impl Watching {
    /// Has it not been told of something yet?
    pub fn has_notes(&self) -> bool {
        !self.notes.is_empty()
    }
    fn reserve(&mut self) -> Result<(), Errno> {
        let more = (self.count + 1).saturating_sub(self.notes.len());
        self.notes.try_reserve(more).map_err(|_| Errno::ENOMEM)
    }
}

impl Unixd {
    /// The process watches the descriptions in `a` from now on.
    pub fn watch(&mut self, pid: Pid, call: &Call) -> Tried {
        let mut entries = self.a(pid, call)?;
        for bytes in entries.chunks_exact_mut(ENTRY_BYTES) {
            let words: [u8; ENTRY_BYTES] = (&*bytes).try_into().map_err(|_| Errno::EINVAL)?;
            let words = u64::from_le_bytes(words);
            let (desc, token) = (words as u32, (words >> 32) as u32);
            let revents = self.ready(pid, desc);
            let watched = self.watch_one(pid, desc, token, revents).is_ok();
            let entry = PollEntry { desc: token, events: watched as u16, revents };
            bytes.copy_from_slice(&entry.to_bytes());
        }
        self.put(pid, &entries)?;
        count(entries.len() / ENTRY_BYTES)
    }

    fn watch_one(&mut self, pid: Pid, desc: u32, token: u32, state: u16) -> Result<(), Errno> {
        let object = self.desc(pid, desc)?.object.clone();
        let is_new = self.watchers(&object).ok_or(Errno::EPERM)?.find(pid, desc).is_none();
        if is_new {
            self.procs.get_mut(pid)?.watching.reserve()?;
        }
        let watcher = Watcher { pid, desc, token, state, came: 0, noted: false };
        self.watchers(&object).ok_or(Errno::EPERM)?.add(watcher)?;
        self.procs.get_mut(pid)?.watching.count += is_new as usize;
        Ok(())
    }

    /// Tells a process what has changed.
    pub fn changes(&mut self, pid: Pid) -> Tried {
        let notes = &mut self.procs.get_mut(pid)?.watching.notes;
        let first = notes.len().saturating_sub(DATA_BYTES / ENTRY_BYTES);
        let mut entries = Vec::new();
        entries.try_reserve((notes.len() - first) * ENTRY_BYTES).map_err(|_| Errno::ENOMEM)?;
        let changed: Vec<u32> = notes.drain(first..).collect();
        if first > 0 {
            self.count_change(pid);
        }
        for desc in changed {
            let Ok(object) = self.desc(pid, desc).map(|desc| desc.object.clone()) else { continue };
            let Some(watcher) = self.watchers(&object).and_then(|all| all.find(pid, desc)) else {
                continue;
            };
            let (events, revents) = (watcher.came, watcher.state);
            (watcher.came, watcher.noted) = (0, false);
            let entry = PollEntry { desc: watcher.token, events, revents };
            entries.extend_from_slice(&entry.to_bytes());
        }
        self.put(pid, &entries)?;
        count(entries.len() / ENTRY_BYTES)
    }

    fn watchers(&mut self, object: &Object) -> Option<&mut Watchers> {
        match object {
            Object::Pipe(pipe, _) => self.pipes.watchers(*pipe),
            Object::Tty(_) | Object::Stream => Some(&mut self.terminal.watchers),
            _ => None,
        }
    }

    /// Something has happened to a pipe, or to the terminal.
    pub fn note(&mut self, object: &Object) {
        let Some(watchers) = self.watchers(object).filter(|all| !all.is_empty()) else { return };
        let data = core::mem::take(&mut watchers.data);
        let mut list = core::mem::take(&mut watchers.list);
        for watcher in &mut list {
            self.note_for(watcher, data);
        }
        if let Some(watchers) = self.watchers(object) {
            watchers.list = list;
        }
    }

    fn note_for(&mut self, watcher: &mut Watcher, data: bool) {
        let state = self.ready(watcher.pid, watcher.desc);
        let came = state & !watcher.state | if data { state & READABLE } else { 0 };
        if came == 0 && state == watcher.state {
            return;
        }
        watcher.state = state;
        watcher.came |= came;
        let Ok(proc) = self.procs.get_mut(watcher.pid) else { return };
        let watching = &mut proc.watching;
        let is_first = !watcher.noted && watching.notes.is_empty();
        if !watcher.noted {
            watching.notes.push(watcher.desc);
            watcher.noted = true;
        }
        let waiters = if came != 0 { watching.waiters.take() } else { Vec::new() };
        if is_first {
            self.count_change(watcher.pid);
        }
        self.wake(waiters);
    }

    fn count_change(&mut self, pid: Pid) {
        let session = self.procs.get(pid).and_then(|proc| proc.session());
        if let Ok(session) = session {
            session.header().changes.fetch_add(1, Release);
        }
    }

    /// The caller waits until something changes that its process watches.
    pub fn wait_for_change(&mut self, pid: Pid) {
        let speaker = self.speaker;
        if let Ok(proc) = self.procs.get_mut(pid) {
            proc.watching.waiters.add(speaker);
        }
    }

    /// A process lets a description go: it watches it no more.
    pub fn unwatch(&mut self, pid: Pid, desc: u32) {
        let Ok(object) = self.descs.get(desc).map(|desc| &desc.object) else { return };
        if !matches!(object, Object::Pipe(..) | Object::Tty(_) | Object::Stream) {
            return;
        }
        let object = object.clone();
        let Some(watchers) = self.watchers(&object) else { return };
        let is_it = |one: &Watcher| one.pid == pid && one.desc == desc;
        let Some(at) = watchers.list.iter().position(is_it) else { return };
        let watcher = watchers.list.swap_remove(at);
        let Ok(proc) = self.procs.get_mut(pid) else { return };
        proc.watching.count = proc.watching.count.saturating_sub(1);
        if watcher.noted {
            proc.watching.notes.retain(|noted| *noted != desc);
        }
    }
}
