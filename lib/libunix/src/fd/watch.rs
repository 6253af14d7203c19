//! What is ready, as the library knows it without asking.
//!
//! Pipes and terminals belong to `unixd`, which notes what changes there for those who watch them
//! (`Watch`, `Changes`): as long as the count of changes in the session's header stays, everything is
//! as it was. The objects of the library say themselves when something comes to them. Either way the
//! sets of `epoll` in which a file is are told ([`Fds::came`]).
//!
//! A forked child, and the child of a vfork, is another process for `unixd`: it has watched nothing
//! yet. What is known belongs to an *epoch*, which ends there.

use super::kinds::{with_kind, AnyFile};
use super::ops::{FileOps, Handle, SharedSet, READABLE};
use super::{rings, Fds, File};
use crate::errno::{Errno, Result};
use crate::process::Io;
use crate::server::{self, op};
use crate::sys::time;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Acquire;
use interest::{Member, Set};
use unixproto::files::{PollEntry, FOREVER};
use unixproto::session::DATA_BYTES;

/// Bytes of an entry in the data area.
const ENTRY_BYTES: usize = 8;
/// Sets may be members of sets, this deep.
const NESTS: u32 = 5;

/// What is known about a file.
#[derive(Clone, Default)]
pub struct Known {
    /// Since when `unixd` was asked to tell; of another epoch, it was not.
    epoch: u32,
    /// `unixd` does not tell: it has to be asked each time.
    refused: bool,
    /// What is ready, of each description.
    state: [u16; 2],
    /// The sets in which it is: the set's file, and its number there.
    sets: Vec<(u32, u32)>,
}

/// What is known about all files.
#[derive(Clone)]
pub struct Knowledge {
    epoch: u32,
    /// The count of changes in the header when they were last asked for.
    seen: u64,
    /// When the next timer expires.
    next_timer: u64,
    /// The files that are timers.
    timers: Vec<u32>,
}

impl Knowledge {
    /// Nothing is known.
    pub const fn new() -> Knowledge {
        Knowledge { epoch: 1, seen: u64::MAX, next_timer: FOREVER, timers: Vec::new() }
    }
}

/// What a file may look at to say what is ready.
pub struct Look<'a> {
    fds: &'a Fds,
    known: &'a Known,
    /// Its server was asked just now.
    asked: bool,
    /// Sets may be members of sets, so deep.
    nests: u32,
}

impl Look<'_> {
    /// What its server has told. `None`: it has to be asked.
    #[inline(always)]
    pub fn told(&self) -> Option<u16> {
        let Known { epoch, refused, state, .. } = self.known;
        let is_known = *epoch == self.fds.knowledge.epoch && (!refused || self.asked);
        is_known.then_some(state[0] | state[1])
    }

    /// The same of a socket, of which what comes may be lent.
    #[inline]
    pub fn of_stream(&self, desc: u32) -> Option<u16> {
        self.told().map(|told| self.fds.rings.with_ring(desc, told))
    }

    /// Whether one of a set is ready. `None`: a server has to be asked.
    #[inline(never)]
    pub fn set(&self, set: &Set) -> Option<u16> {
        if set.epoch != self.fds.knowledge.epoch {
            return None;
        }
        let mut all_known = true;
        for (_, member) in set.listed().take_while(|_| self.nests > 0) {
            let Ok(file) = self.fds.at(member.file) else { continue };
            match self.fds.state_within(file, self.asked, self.nests - 1) {
                Some(state) if member.report(state) != 0 => return Some(READABLE),
                Some(_) => {}
                None => all_known = false,
            }
        }
        all_known.then_some(0)
    }
}

impl File {
    /// Does its server know whether it is ready?
    pub fn is_watched(&self) -> bool {
        with_kind!(&self.kind, kind => kind.is_watched())
    }
    /// The set of files on which it depends whether it is ready.
    pub fn set(&self) -> Option<&SharedSet> {
        with_kind!(&self.kind, kind => kind.set())
    }
    /// When it becomes ready by itself.
    pub fn deadline(&self) -> Option<u64> {
        with_kind!(&self.kind, kind => kind.deadline())
    }
    fn shown(&self, which: usize, state: u16) -> u16 {
        with_kind!(&self.kind, kind => kind.shown(which, state))
    }
}

impl Fds {
    /// Another process: whatever was known is of the one before.
    pub fn forget_knowledge(&mut self) {
        self.knowledge.epoch = self.knowledge.epoch.wrapping_add(1).max(1);
        self.knowledge.seen = u64::MAX;
    }

    /// What is known is out of date.
    pub fn ask_anew(&mut self) {
        self.knowledge.seen = u64::MAX;
    }

    /// Has `unixd` more to tell than is known?
    pub fn has_changes(&self) -> bool {
        server::main_header().changes.load(Acquire) != self.knowledge.seen
    }

    /// When the next of the process's timers expires, on the monotonic clock.
    pub fn next_timer(&self) -> u64 {
        self.knowledge.next_timer
    }

    /// Does a set know of all its members that were to be looked at?
    pub fn is_current(&self, set: &Set) -> bool {
        set.epoch == self.knowledge.epoch
    }

    /// What is ready. `None`: `unixd` has to be asked, unless it was `asked` just now.
    #[inline(always)]
    pub fn state(&self, file: &File, asked: bool) -> Option<u16> {
        self.state_within(file, asked, NESTS)
    }

    #[inline(always)]
    fn state_within(&self, file: &File, asked: bool, nests: u32) -> Option<u16> {
        let look = Look { fds: self, known: &file.known, asked, nests };
        with_kind!(&file.kind, kind => kind.ready(&look))
    }

    /// Adds to `unknown` those files behind this one about which `unixd` has to be asked, with the
    /// events that are wanted of them.
    fn collect_unknown(
        &self,
        (index, events): (u32, u16),
        nests: u32,
        unknown: &mut Vec<(u32, u16)>,
    ) {
        let epoch = self.knowledge.epoch;
        let Ok(file) = self.at(index) else { return };
        if let Some(set) = file.set().cloned() {
            let mut set = set.borrow_mut();
            if set.epoch != epoch {
                set.epoch = epoch;
                set.list_all();
            }
            let wanted =
                |(_, member): (u32, &Member)| (member.file, member.report(u16::MAX) as u16);
            let members: Vec<(u32, u16)> = set.listed().map(wanted).collect();
            drop(set);
            for member in members.into_iter().take_while(|_| nests > 0) {
                self.collect_unknown(member, nests - 1, unknown);
            }
        } else if file.is_watched() && (file.known.epoch != epoch || file.known.refused) {
            unknown.push((index, events));
        }
    }

    /// Something came to a file: the sets in which it is are to look.
    pub fn came(&mut self, index: u32, events: u16) {
        let Some(Some(file)) = self.files.get_mut(index) else { return };
        if file.known.sets.is_empty() {
            return;
        }
        // Sets are not members of each other, so this file is not looked at meanwhile.
        let sets = core::mem::take(&mut file.known.sets);
        for &(set, number) in &sets {
            if self.set_at(set).is_some_and(|set| set.borrow_mut().came(number, events)) {
                self.came(set, READABLE);
            }
        }
        if let Some(Some(file)) = self.files.get_mut(index) {
            file.known.sets = sets;
        }
    }

    /// Lets a server have what is kept of a file, since other processes may use it from now on.
    pub fn share(io: &mut Io, index: u32) -> Result<()> {
        let file = io.fds.at(index)?;
        let handle = Handle { index, flags: file.flags };
        let before = file.descriptions();
        with_kind!(&file.kind, kind => {
            let kind = kind.handle();
            kind.share(io, handle)
        })?;
        if io.fds.descriptions_at(index)? != before {
            io.fds.show_all(index);
        }
        Ok(())
    }

    /// The descriptions of a file; 0 is none.
    pub fn descriptions_at(&self, index: u32) -> Result<[u32; 2]> {
        Ok(self.at(index)?.server().descriptions())
    }

    /// A file belongs to a server from now on: nothing is known of it, so its sets are to look.
    pub fn moved(&mut self, index: u32) {
        self.came(index, u16::MAX);
    }

    /// The file of the member that was added to a set by a descriptor, the `nth` of those. `None`: `unixd` has the set.
    ///
    /// # Errors
    ///
    /// `EBADF`; `EINVAL`: it is no set; `ENOENT`: there is no such member.
    pub fn own_member(&self, set: i32, fd: i32, nth: u32) -> Result<Option<u32>> {
        let file = self.get(set)?;
        if !matches!(file.kind, AnyFile::Epoll(_)) {
            return Err(Errno::EINVAL);
        }
        let Some(set) = file.set() else { return Ok(None) };
        let set = set.borrow();
        let mut of_it = set.members().filter(|(_, member)| member.fd == fd);
        of_it.nth(nth as usize).map(|(_, member)| Some(member.file)).ok_or(Errno::ENOENT)
    }

    fn set_at(&self, index: u32) -> Option<&SharedSet> {
        self.at(index).ok()?.set()
    }

    /// Notes a member of a set with the file, too.
    pub fn join(&mut self, index: u32, set: u32, number: u32) -> Result<()> {
        let file = self.files.get_mut(index).and_then(Option::as_mut).ok_or(Errno::EBADF)?;
        file.known.sets.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        file.known.sets.push((set, number));
        Ok(())
    }

    /// The file is not that member any more.
    pub fn part(&mut self, index: u32, set: u32, number: u32) {
        if let Some(Some(file)) = self.files.get_mut(index) {
            if let Some(at) = file.known.sets.iter().position(|one| *one == (set, number)) {
                file.known.sets.swap_remove(at);
            }
        }
    }

    /// A file is gone: no set has it, and a set has no members.
    pub(super) fn leave_sets(&mut self, index: u32, file: &File) {
        for &(set, number) in &file.known.sets {
            if let Some(set) = self.set_at(set) {
                set.borrow_mut().remove(number);
            }
        }
        let members = |set: &SharedSet| -> Vec<(u32, u32)> {
            set.borrow().members().map(|(number, member)| (member.file, number)).collect()
        };
        for (member, number) in file.set().map(members).unwrap_or_default() {
            self.part(member, index, number);
        }
        self.knowledge.timers.retain(|timer| *timer != index);
    }

    /// Would the set at `index` be its own member, or be too deep, as a member of `set`?
    pub fn would_loop(&self, index: u32, set: u32) -> bool {
        self.depth_below(index, set, NESTS).is_none_or(|below| below + self.above(set, 0) >= NESTS)
    }

    /// How deep the sets in this one are. `None`: `forbidden` is one of them, or it is too deep.
    fn depth_below(&self, index: u32, forbidden: u32, left: u32) -> Option<u32> {
        let Some(set) = self.set_at(index) else { return Some(0) };
        if index == forbidden || left == 0 {
            return None;
        }
        let mut deepest = 0;
        for (_, member) in set.borrow().members() {
            deepest = deepest.max(self.depth_below(member.file, forbidden, left - 1)?);
        }
        Some(deepest + 1)
    }

    /// How many sets are above this one.
    fn above(&self, index: u32, depth: u32) -> u32 {
        let Ok(file) = self.at(index) else { return depth };
        let above = file.known.sets.iter().take_while(|_| depth < NESTS);
        above.map(|(set, _)| self.above(*set, depth + 1)).max().unwrap_or(depth)
    }

    /// A timer has been set.
    pub fn timer_set(&mut self, index: u32, deadline: u64) {
        if !self.knowledge.timers.contains(&index) {
            if self.knowledge.timers.try_reserve(1).is_err() {
                return;
            }
            self.knowledge.timers.push(index);
        }
        if deadline > 0 {
            self.knowledge.next_timer = self.knowledge.next_timer.min(deadline);
        }
    }

    /// Tells the sets of timers that have expired, and finds out which is the next.
    #[cold]
    fn expire(&mut self, now: u64) {
        let mut next = FOREVER;
        for at in 0..self.knowledge.timers.len() {
            let Some(&index) = self.knowledge.timers.get(at) else { break };
            match self.at(index).ok().and_then(File::deadline) {
                None => {}
                // It goes on when somebody reads it.
                Some(deadline) if deadline <= now => self.came(index, READABLE),
                Some(deadline) => next = next.min(deadline),
            }
        }
        self.knowledge.next_timer = next;
    }

    fn changed(&mut self, entry: PollEntry) {
        let (index, which) = (entry.desc >> 1, (entry.desc & 1) as usize);
        let Some(Some(file)) = self.files.get_mut(index) else { return };
        file.known.state[which] = file.shown(which, entry.revents);
        let came = file.shown(which, entry.events);
        if came != 0 {
            self.came(index, came);
        }
    }
}

/// Brings what is known up to date.
#[inline]
pub fn refresh(fds: &mut Fds) {
    // Before the changes are counted: of what is closed meanwhile those tell.
    rings::look_at_all(fds);
    let changes = server::main_header().changes.load(Acquire);
    if changes != fds.knowledge.seen {
        ask_for_changes(fds, changes);
    }
    if fds.knowledge.next_timer != FOREVER {
        let now = time::monotonic();
        if now >= fds.knowledge.next_timer {
            fds.expire(now);
        }
    }
}

#[cold]
fn ask_for_changes(fds: &mut Fds, changes: u64) {
    let Ok(answer) = server::call(op::Changes {}) else { return };
    fds.knowledge.seen = changes;
    for entry in entries(answer.count as usize) {
        fds.changed(entry);
    }
}

fn entries(count: usize) -> impl Iterator<Item = PollEntry> {
    let all = server::data(count.saturating_mul(ENTRY_BYTES));
    let entry = move |n| all.skip(n * ENTRY_BYTES).load().ok().map(PollEntry::from_bytes);
    (0..all.len() / ENTRY_BYTES).map_while(entry)
}

/// Learns what only `unixd` knows about these files, of which these events are wanted. Answers those
/// about which it has to be asked each time.
pub fn learn(fds: &mut Fds, files: impl Iterator<Item = (u32, u16)>) -> Result<Vec<(u32, u16)>> {
    let mut unknown = Vec::new();
    for file in files {
        fds.collect_unknown(file, NESTS, &mut unknown);
    }
    let epoch = fds.knowledge.epoch;
    let is_new = |fds: &Fds, file: u32| fds.at(file).is_ok_and(|f| f.known.epoch != epoch);
    let new: Vec<(u32, u16)> =
        unknown.iter().copied().filter(|&(file, _)| is_new(fds, file)).collect();
    for some in new.chunks(DATA_BYTES / ENTRY_BYTES / 2) {
        watch(fds, some)?;
    }
    let is_refused = |fds: &Fds, file: u32| fds.at(file).is_ok_and(|f| f.known.refused);
    unknown.retain(|&(file, _)| is_refused(fds, file));
    for some in unknown.chunks(DATA_BYTES / ENTRY_BYTES / 2) {
        ask(fds, some)?;
    }
    Ok(unknown)
}

/// The descriptions of a file, each with its token.
fn tokens(fds: &Fds, (index, _): (u32, u16)) -> impl Iterator<Item = (u32, u32)> {
    let descriptions = fds.at(index).map_or([0; 2], File::descriptions);
    let each = descriptions.into_iter().zip([index << 1, index << 1 | 1]);
    each.filter(|(desc, _)| *desc != 0)
}

/// Writes an entry for each description of these files. Answers the bytes.
fn put_entries(fds: &Fds, files: &[(u32, u16)], entry: fn(u32, u32, u16) -> PollEntry) -> usize {
    let each = |&file: &(u32, u16)| tokens(fds, file).map(move |one| (one, file.1));
    let all = files.iter().flat_map(each);
    let room = server::data(DATA_BYTES);
    let put = |(((desc, token), events), n): (((u32, u32), u16), usize)| {
        room.skip(n * ENTRY_BYTES).store(&entry(desc, token, events).to_bytes()).is_ok()
    };
    all.zip(0..DATA_BYTES / ENTRY_BYTES).map(put).take_while(|put| *put).count() * ENTRY_BYTES
}

/// Asks `unixd` to tell what changes with these files.
fn watch(fds: &mut Fds, files: &[(u32, u16)]) -> Result<()> {
    let pair = |desc, token: u32, _| PollEntry {
        desc,
        events: token as u16,
        revents: (token >> 16) as u16,
    };
    let bytes = put_entries(fds, files, pair);
    let answer = server::call_filled(op::Watch {}, bytes)?;
    let epoch = fds.knowledge.epoch;
    for entry in entries(answer.count as usize) {
        let (index, which) = (entry.desc >> 1, (entry.desc & 1) as usize);
        let Some(Some(file)) = fds.files.get_mut(index) else { continue };
        if which == 0 {
            (file.known.epoch, file.known.refused, file.known.state) = (epoch, false, [0; 2]);
        }
        file.known.refused |= entry.events == 0;
        file.known.state[which] = file.shown(which, entry.revents);
    }
    Ok(())
}

/// Asks what is ready with these files now.
fn ask(fds: &mut Fds, files: &[(u32, u16)]) -> Result<()> {
    let bytes = put_questions(fds, files);
    let request = op::Poll { ns: 0, watching: false };
    let answer = server::call_filled(request, bytes);
    if answer == Err(Errno::EINTR) {
        // Another thread has stirred this one, which looks again anyway.
        return Ok(());
    }
    answer?;
    let all: Vec<(u32, u32)> = files.iter().flat_map(|&file| tokens(fds, file)).collect();
    for ((_, token), entry) in all.into_iter().zip(entries(bytes / ENTRY_BYTES)) {
        let Some(Some(file)) = fds.files.get_mut(token >> 1) else { continue };
        let which = (token & 1) as usize;
        file.known.state[which] = file.shown(which, entry.revents);
    }
    Ok(())
}

fn put_questions(fds: &Fds, files: &[(u32, u16)]) -> usize {
    put_entries(fds, files, |desc, _, events| PollEntry { desc, events, revents: 0 })
}

/// Waits, at most `ns`, until something that is watched has changed or something about which `unixd`
/// has to be asked is ready. May come back for another reason.
pub fn wait(io: &mut Io, refused: &[(u32, u16)], ns: u64) -> Result<()> {
    let some = &refused[..refused.len().min(DATA_BYTES / ENTRY_BYTES / 2)];
    let bytes = put_questions(&io.fds, some);
    server::wait_filled(io, op::Poll { ns, watching: true }, bytes).map(|_| ())
}
