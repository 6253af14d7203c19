//! The table of processes.

use crate::alarms::Alarms;
use crate::apart::AllApart;
use crate::bequests::Bequest;
use crate::calls::Heard;
use crate::clock::SECOND;
use crate::cpuclocks::Wanted;
use crate::cputime::CpuTime;
use crate::domains::{Domain, Guest};
use crate::kin::{Family, Ids};
use crate::limits::Limits;
use crate::lines::Controls;
use crate::loans::Lent;
use crate::logins::Login;
use crate::morefds;
use crate::otherspaces::Times;
use crate::parcels::Parcels;
use crate::pids::{is_same, Named, Space};
use crate::queues::{Waiting, QUEUED_MAX};
use crate::scheduling::Scheduling;
use crate::spaces::InSpaces;
use crate::threads::{Thread, Tid};
use crate::tracees::Tracees;
use crate::voices::Voice;
use crate::volumes::Standing;
use crate::wait::Blocked;
use crate::window::Session;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use credentials::{CapSet, Capability, Credentials};
use memfs::{Cred, Ino};
use piecewise::{ByNumber, Shares};
use sigqueue::Queues;
use unixproto::Errno;

/// A process id. Ids come again; what a process may do hangs on its badge.
pub type Pid = u32;

/// The parent of those that have none: `unixd` itself, which reaps them.
pub const INIT: Pid = 1;
/// The process that the session is about.
pub const FIRST: Pid = 2;
/// Ids start again behind this one.
pub const PID_MAX: Pid = 32767;
/// Processes and threads that there may be.
pub const PROCESSES_MAX: usize = 4000;
/// Descriptions that one process may hold.
pub const HELD_MAX: usize = unixproto::limit::FILES_MOST as usize;

/// What processes in one memory may have in common, as `clone` says it: where they stand, descriptors, signal actions.
pub const COMMON: [u32; 3] = [0x200, 0x400, 0x800];
/// Place of the first of them.
pub const STANDS: usize = 0;
/// The place of descriptors in it.
pub const FILES: usize = 1;

/// Where a process is in its life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// Made by fork and not started.
    Building,
    /// Runs, or waits.
    Live,
    /// Has ended; its domain is being taken apart.
    Ending,
    /// Nothing is left but this entry, for its parent.
    Zombie,
}

/// An interval timer.
#[derive(Clone, Copy, Default)]
pub struct Timer {
    /// When it goes off, or is looked at; 0: it is off.
    pub deadline: u64,
    /// Its period.
    pub interval: u64,
    /// By a clock of processor time: what it waits for.
    pub wanted: Option<Wanted>,
}

/// What a parent may want to know about a child that stopped or goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum News {
    /// It stopped, by this signal.
    Stopped(u32),
    /// It goes on.
    Continued,
}

/// What a process executes.
#[derive(Default)]
pub struct Program {
    /// Path.
    pub exe: Vec<u8>,
    /// Arguments, with a NUL behind each.
    pub cmdline: Vec<u8>,
}

/// A process.
pub struct Proc {
    /// Its id.
    pub pid: Pid,
    /// Who waits for it.
    pub parent: Pid,
    /// Its process group.
    pub pgid: Pid,
    /// Its session.
    pub sid: Pid,
    /// Where it is in its life.
    pub state: State,
    /// Wait status, once it is ending.
    pub status: u32,
    /// What its first thread speaks with, until it ends.
    pub voice: Option<Voice>,
    /// What runs it, from its start to its end. A live process without is the [guest](Self::guest) of one that has, or has a
    /// parent that acts as it.
    pub domain: Option<Domain>,
    /// What runs it in the memory of another process.
    pub guest: Option<Guest>,
    /// The processes that run in its memory.
    pub guests: Vec<Pid>,
    /// What it has in common with others, in the order of [`COMMON`]: those with the same number have the same; 0: nobody has.
    pub common: [Pid; 3],
    /// Its domain is a native one: it handles no signals, so that all default actions happen here.
    pub native: bool,
    /// Its descriptors that have no place in its header.
    pub more_fds: morefds::Fds,
    /// The name spaces that it is in, but for those below, of users and of mounts.
    pub spaces: InSpaces,
    /// That of times.
    pub times: Option<Rc<Times>>,
    /// The name space of its process id.
    pub pids: Space,
    /// Where it stands.
    pub stands: Standing,
    /// Name, for `/proc`.
    pub name: Vec<u8>,
    /// What it executes, if it has ever executed something. Forked children share it.
    pub program: Option<Rc<Program>>,
    /// What its first thread waits for.
    pub blocked: Option<Blocked>,
    /// Stopped by a signal: its dispatchers are suspended, but for those that are traced.
    pub stopped: bool,
    /// By which signal it was stopped last.
    pub stop_signal: u32,
    /// A signal has ended it that its parent, which acts as it, must be told of.
    pub killed: bool,
    /// What its parent has not heard yet.
    pub news: Option<News>,
    /// The parent waits until it executes a program or ends.
    pub vfork: bool,
    /// Its children.
    pub children: Ids,
    /// Its children of whom it may learn something, in order. Its room stays: mostly one comes and goes.
    pub told: Vec<Pid>,
    /// The child that it acts as, or once acted as.
    pub acts_as: Option<Pid>,
    /// `ITIMER_REAL` and the others.
    pub timers: [Timer; 3],
    /// Those that it has made.
    pub alarms: Alarms,
    /// When it started.
    pub started: u64,
    /// Processor time of its own dispatchers that have ended.
    pub cpu: CpuTime,
    /// Processor time of awaited children.
    pub children_cpu: CpuTime,
    /// Faults of awaited children, and, once it has ended, its own.
    pub children_faults: u64,
    /// The largest resident set of any of them, pages.
    pub children_peak: u64,
    /// What it may use at most.
    pub limits: Limits,
    /// Who it is, and what that allows.
    pub who: Credentials,
    /// What it leaves to a program that runs as somebody else, or was left.
    pub bequest: Option<Box<Bequest>>,
    /// How often its memory became another one.
    pub memories: u64,
    /// Supplementary groups of a `setgroups` of which not all parts have come.
    pub coming_groups: Vec<u32>,
    /// Others of the same user may look into it.
    pub dumpable: bool,
    /// Nobody has taken a descriptor of it, so that its library knows who holds what.
    pub may_keep: Cell<bool>,
    /// As whom somebody has logged in to start it.
    pub login: Login,
    /// `oom_score_adj`, and the least that it may be set to without privilege.
    pub oom_adjust: i16,
    pub oom_least: i16,
    /// It is not asked for memory before this time.
    pub gives_from: u64,
    /// Orphans among its descendants become its children.
    pub reaps: bool,
    /// Has executed a program since fork.
    pub execed: bool,
    /// By whom its calls may be decided about.
    pub heard_by: Vec<Rc<Heard>>,
    /// Its threads but for the first.
    pub threads: Vec<Tid>,
    /// The first thread has ended, while others go on.
    pub first_ended: bool,
    /// The core at which its next program is to have its home, once that is known.
    pub next_home: Cell<Option<NextHome>>,
    /// What it runs, where that is noted.
    pub run: Option<Run>,
    /// What that program is to go on with, while it is being made there.
    pub coming: Option<Box<Coming>>,
    /// Files that it writes to without asking.
    pub lent: Lent,
    /// How its first thread is scheduled.
    pub scheduling: Scheduling,
}

/// So long a choice of a home holds, if no program takes over: one that could not be executed leaves it behind.
const CHOICE_NS: u64 = 10 * SECOND;

/// Where a program is to begin.
#[derive(Clone, Copy)]
pub struct NextHome {
    pub core: u32,
    /// When that was chosen.
    pub chosen: u64,
    /// The file that is executed: of a script its own.
    pub file: u64,
}

/// A program that a process runs, of which it is noted how long it ran.
#[derive(Clone, Copy)]
pub struct Run {
    file: u64,
    /// What the process had used before, in nanoseconds.
    before: u64,
}

impl NextHome {
    /// Does it still hold?
    pub fn holds(&self, now: u64) -> bool {
        now.saturating_sub(self.chosen) < CHOICE_NS
    }
}

/// What a process is to go on with that is being made on another core.
pub struct Coming {
    /// The thread that waits for it.
    pub tid: Tid,
    pub voice: Voice,
    pub domain: Domain,
    /// Whether it is there, once that is known.
    pub is_there: Option<bool>,
}

impl Proc {
    /// Its session frame, until it ends.
    pub fn session(&self) -> Result<&Session, Errno> {
        self.voice.as_ref().map(|voice| &voice.session).ok_or(Errno::ESRCH)
    }
    /// Path of its program; empty if it has none.
    pub fn exe(&self) -> &[u8] {
        self.program.as_ref().map_or(&[], |program| &program.exe)
    }
    /// Its program is over, after so much processor time of the process. The one that its home was chosen for begins, or none.
    pub fn change_run(&mut self, used_ns: u64) {
        let next = self.next_home.take().map(|next| Run { file: next.file, before: used_ns });
        if let Some(run) = core::mem::replace(&mut self.run, next) {
            crate::homes::ended(run.file, used_ns.saturating_sub(run.before));
        }
    }
    /// Its arguments, with a NUL behind each.
    pub fn cmdline(&self) -> &[u8] {
        self.program.as_ref().map_or(&[], |program| &program.cmdline)
    }
    /// Does its parent act as it?
    pub fn is_acted(&self) -> bool {
        self.state == State::Live && self.domain.is_none() && self.guest.is_none()
    }
    /// Has it ended? Then it stands nowhere.
    pub fn is_over(&self) -> bool {
        matches!(self.state, State::Ending | State::Zombie)
    }
    /// Runs or waits: can be sent signals and ask for things.
    pub fn is_live(&self) -> bool {
        matches!(self.state, State::Live | State::Building)
    }
    /// On whose behalf it opens files.
    #[inline]
    pub fn cred(&self) -> Cred {
        cred_of(&self.who)
    }
    /// Which memory it has: another one after each program.
    pub fn memory(&self) -> u64 {
        self.started.wrapping_add(self.memories)
    }
    /// Is a (POSIX) capability effective?
    pub fn has(&self, capability: Capability) -> bool {
        self.who.has(capability)
    }
}

/// On whose behalf somebody opens files.
pub fn cred_of(who: &Credentials) -> Cred {
    let Credentials { users, groups, others, effective, space, .. } = who;
    // Files belong to the first user name space.
    let caps = if space.is_none() { *effective } else { CapSet::NONE };
    Cred { uid: users.file, gid: groups.file, groups: others.clone(), caps }
}

/// All processes.
pub struct Procs {
    table: ByNumber<Box<Proc>>,
    threads: ByNumber<Box<Thread>>,
    /// Threads that are traced.
    pub tracees: Tracees,
    /// Threads that are not where their processes are.
    pub apart: AllApart,
    /// Descriptors that are shown and have no place in headers, by user.
    pub shown_fds: morefds::Account,
    /// What is given and taken in parts.
    pub parcels: Parcels,
    /// Bytes of all bequests, by user.
    pub bequests: Shares,
    /// Signals that wait behind one that is in a header.
    pub queues: Queues<Waiting>,
    /// Groups and sessions.
    families: BTreeMap<Pid, Family>,
    /// The numbers of those that are in other name spaces of process ids than the first.
    pub named: BTreeMap<Pid, Named>,
    /// The children of [`INIT`].
    orphans: Ids,
    /// How [`INIT`] is scheduled, as far as it has been told.
    pub init: Scheduling,
    /// How many processes and threads there are of each real user id.
    users: Shares,
    last: Pid,
    /// Nanoseconds since 1970 when the time-stamp counter was zero, as processes are told.
    pub epoch: u64,
    /// How the layout of programs is chosen, as processes are told (`randomize_va_space`).
    pub randomizes: u32,
    /// The last number that said since when [paths lead](unixproto::session::ShownFiles::ways) where they lead.
    pub ways: Cell<u64>,
    /// Descriptions that processes [have kept](unixproto::session::ShownStat::keep), and are to be closed.
    pub left: RefCell<Vec<(Pid, u32)>>,
    /// Files that they [had lent](crate::loans), and when they have used them last, as they say.
    pub returned: RefCell<Vec<(Ino, unixproto::session::Uses)>>,
    /// There may be some of either.
    pub has_left: Cell<bool>,
    /// How many there have been.
    made: u64,
    /// How often somebody has logged in.
    logins: u32,
}

impl Default for Procs {
    fn default() -> Self {
        Procs {
            table: ByNumber::default(),
            threads: ByNumber::default(),
            tracees: Tracees::default(),
            apart: Default::default(),
            shown_fds: Default::default(),
            parcels: Parcels::default(),
            bequests: Shares::new(piecewise::Limits::of(crate::bequests::ALL_MAX)),
            queues: Queues::new(QUEUED_MAX),
            families: BTreeMap::new(),
            named: BTreeMap::new(),
            orphans: Ids::default(),
            init: Scheduling::default(),
            users: Shares::new(piecewise::Limits::of(PROCESSES_MAX)),
            last: 0,
            randomizes: 0,
            epoch: 0,
            ways: Cell::new(0),
            left: RefCell::default(),
            returned: RefCell::default(),
            has_left: Cell::new(false),
            made: 0,
            logins: 0,
        }
    }
}

impl Procs {
    /// How many.
    pub fn len(&self) -> usize {
        self.table.len()
    }
    /// How many there have been.
    pub fn made(&self) -> u64 {
        self.made
    }
    /// Somebody logs in: the number of that.
    pub fn next_login(&mut self) -> u32 {
        self.logins = self.logins.wrapping_add(1);
        self.logins
    }
    /// The id that was given last.
    pub fn last_pid(&self) -> Pid {
        self.last
    }
    /// A process; `ESRCH`: there is none with this id.
    #[inline]
    pub fn get(&self, pid: Pid) -> Result<&Proc, Errno> {
        self.table.get(pid).map(|proc| &**proc).ok_or(Errno::ESRCH)
    }
    /// The same, to be changed.
    #[inline]
    pub fn get_mut(&mut self, pid: Pid) -> Result<&mut Proc, Errno> {
        self.table.get_mut(pid).map(|proc| &mut **proc).ok_or(Errno::ESRCH)
    }
    /// A process that has not ended.
    #[inline]
    pub fn live(&self, pid: Pid) -> Result<&Proc, Errno> {
        self.get(pid).and_then(|proc| if proc.is_live() { Ok(proc) } else { Err(Errno::ESRCH) })
    }
    /// All, by id.
    pub fn iter(&self) -> impl Iterator<Item = &Proc> {
        self.table.values().map(|proc| &**proc)
    }
    /// The ids of those for which `wanted` is true.
    pub fn select(&self, wanted: impl Fn(&Proc) -> bool) -> Vec<Pid> {
        self.iter().filter(|proc| wanted(proc)).map(|proc| proc.pid).collect()
    }
    /// The children of a process, by id.
    pub fn children(&self, parent: Pid) -> impl Iterator<Item = &Proc> {
        let children = match parent {
            INIT => Some(&self.orphans),
            _ => self.get(parent).ok().map(|proc| &proc.children),
        };
        children.into_iter().flat_map(Ids::iter).filter_map(|pid| self.get(pid).ok())
    }
    /// Those of them of whom it may learn something.
    pub fn with_news(&self, parent: Pid) -> impl Iterator<Item = &Proc> {
        let told = self.get(parent).map_or(&[][..], |proc| &proc.told);
        told.iter().filter_map(|&pid| self.get(pid).ok())
    }
    /// The processes of a group, by id.
    pub fn members(&self, group: Pid) -> impl Iterator<Item = &Proc> {
        let family = self.families.get(&group).into_iter();
        family.flat_map(|family| family.members.iter()).filter_map(|pid| self.get(pid).ok())
    }
    /// Who becomes the parent of what a process leaves: the nearest of its ancestors that wants that.
    pub fn reaper_of(&self, pid: Pid) -> Pid {
        let parent = |pid: &Pid| self.get(*pid).ok().map(|proc| proc.parent);
        let wants = |pid: &Pid| self.live(*pid).is_ok_and(|proc| proc.reaps);
        let Ok(proc) = self.get(pid) else { return INIT };
        // It stays in its name space, which has a first process of its own.
        let is_near = |pid: &Pid| self.get(*pid).is_ok_and(|near| is_same(&near.pids, &proc.pids));
        let mut near = core::iter::successors(parent(&pid), parent).take_while(is_near);
        near.find(wants).or_else(|| self.space_init(proc)).unwrap_or(INIT)
    }
    /// Gives a process another parent, who has learnt all of it that its first one has.
    pub fn set_parent(&mut self, pid: Pid, parent: Pid) {
        self.tell(pid, false);
        let Some(proc) = self.table.get_mut(pid) else { return };
        let before = core::mem::replace(&mut proc.parent, parent);
        self.change_children(before, |children| children.remove(pid));
        self.change_children(parent, |children| children.add(pid));
    }
    fn change_children(&mut self, parent: Pid, change: impl FnOnce(&mut Ids)) {
        if parent == INIT {
            change(&mut self.orphans);
        } else if let Some(proc) = self.table.get_mut(parent) {
            change(&mut proc.children);
        }
    }
    /// A parent may learn something of this process, or has learnt all.
    pub fn tell(&mut self, pid: Pid, news: bool) {
        let Some(parent) = self.table.get(pid).map(|proc| proc.parent) else { return };
        let Some(parent) = self.table.get_mut(parent) else { return };
        match (parent.told.binary_search(&pid), news) {
            (Err(at), true) => parent.told.insert(at, pid),
            (Ok(at), false) => drop(parent.told.remove(at)),
            _ => {}
        }
    }
    /// Counts a process, whose real user was `before`, as one of whose it is now.
    pub fn recount(&mut self, pid: Pid, before: u32) {
        let Some(proc) = self.table.get(pid) else { return };
        let (now, count) = (proc.who.users.real, 1 + proc.threads.len());
        if now != before {
            self.users.give_back(before, count);
            self.users.take(now, count);
        }
    }
    /// An id that is in use neither for a process nor for a group or session, nor `reserved`, for a new
    /// process or thread of a user; `wanted` is such a one. `EAGAIN`: that would be one too many.
    pub fn new_pid(
        &mut self,
        controls: &Controls,
        uid: u32,
        wanted: Option<Pid>,
    ) -> Result<Pid, Errno> {
        if !self.users.has_room(uid, 1) {
            return Err(Errno::EAGAIN);
        }
        if let Some(wanted) = wanted {
            self.take_numbers(wanted);
            return Ok(wanted);
        }
        for _ in 0..PID_MAX {
            self.last = if self.last >= PID_MAX { 300 } else { self.last.max(INIT) + 1 };
            let pid = self.last;
            if !self.is_used(pid) && !controls.has_in_foreground(pid) {
                // What a tracer has known of it last is forgotten.
                self.take_numbers(pid);
                return Ok(pid);
            }
        }
        Err(Errno::EAGAIN)
    }
    /// Is an id that of a process, a thread, a group or a session?
    pub fn is_used(&self, id: Pid) -> bool {
        let is_process = self.table.contains(id) || self.threads.contains(id);
        is_process || self.families.contains_key(&id) || self.tracees.get(id).is_some()
    }
    /// Adds one.
    pub fn add(&mut self, proc: Proc) {
        let pid = proc.pid;
        self.join(proc.pgid).members.add(pid);
        self.join(proc.sid);
        self.change_children(proc.parent, |children| children.add(pid));
        self.users.take(proc.who.users.real, 1);
        self.made += 1;
        self.table.insert(proc.pid, Box::new(proc));
    }
    /// Moves a process to another group, and to another session.
    pub fn set_family(&mut self, pid: Pid, pgid: Pid, sid: Pid) -> Result<(), Errno> {
        let proc = self.get_mut(pid)?;
        let before = (proc.pgid, proc.sid);
        (proc.pgid, proc.sid) = (pgid, sid);
        // The old ones are left last: they may be the new ones.
        if let Some(group) = self.families.get_mut(&before.0) {
            group.members.remove(pid);
        }
        self.join(pgid).members.add(pid);
        self.join(sid);
        self.leave(before.0, None);
        self.leave(before.1, None);
        Ok(())
    }
    fn join(&mut self, family: Pid) -> &mut Family {
        let family = self.families.entry(family).or_default();
        family.count += 1;
        family
    }
    /// `member`: a process that is not in the group any more either.
    fn leave(&mut self, id: Pid, member: Option<Pid>) {
        let Some(family) = self.families.get_mut(&id) else { return };
        if let Some(pid) = member {
            family.members.remove(pid);
        }
        family.count -= 1;
        if family.count == 0 {
            self.families.remove(&id);
            self.take_numbers(id);
        }
    }
    /// A thread that is not the first of its process.
    #[inline]
    pub fn thread(&self, tid: Tid) -> Option<&Thread> {
        self.threads.get(tid).map(|thread| &**thread)
    }
    /// The same, to be changed.
    pub fn thread_mut(&mut self, tid: Tid) -> Option<&mut Thread> {
        self.threads.get_mut(tid).map(|thread| &mut **thread)
    }
    /// What a thread waits for, to be changed.
    #[inline]
    pub fn blocked_mut(&mut self, tid: Tid) -> Option<&mut Option<Blocked>> {
        if let Some(thread) = self.threads.get_mut(tid) {
            return Some(&mut thread.blocked);
        }
        self.table.get_mut(tid).map(|proc| &mut proc.blocked)
    }
    /// The name of a thread.
    pub fn name_of(&self, tid: Tid) -> &[u8] {
        match (self.threads.get(tid), self.table.get(tid)) {
            (Some(thread), _) => &thread.name,
            (None, Some(proc)) => &proc.name,
            (None, None) => &[],
        }
    }
    /// Names a thread, by what of it is before a NUL, and not too long.
    pub fn set_name(&mut self, tid: Tid, mut name: Vec<u8>) {
        const LONGEST: usize = 15;
        let end = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
        name.truncate(end.min(LONGEST));
        match (self.threads.get_mut(tid), self.table.get_mut(tid)) {
            (Some(thread), _) => thread.name = name,
            (None, Some(proc)) => proc.name = name,
            (None, None) => {}
        }
    }
    /// Adds one.
    pub fn add_thread(&mut self, tid: Tid, thread: Box<Thread>) {
        let uid = self.real_user(thread.leader);
        self.users.take(uid, 1);
        self.threads.insert(tid, thread);
    }
    /// Takes one out.
    pub fn remove_thread(&mut self, tid: Tid) -> Option<Box<Thread>> {
        let thread = self.threads.remove(tid)?;
        self.thread_has_no_signals(tid);
        self.take_numbers(tid);
        let uid = self.real_user(thread.leader);
        self.users.give_back(uid, 1);
        Some(thread)
    }
    /// How many threads the processes of a real user have, those of processes that ended and were not
    /// waited for among them.
    pub fn threads_of_user(&self, uid: u32) -> u64 {
        self.users.of(uid) as u64
    }
    /// The real user id of a process.
    pub fn real_user(&self, pid: Pid) -> u32 {
        self.table.get(pid).map_or(0, |proc| proc.who.users.real)
    }
    /// On whose behalf a process opens files.
    pub fn cred(&self, pid: Pid) -> Cred {
        self.get(pid).map_or(Cred::user(u32::MAX, u32::MAX), Proc::cred)
    }
    /// Takes one out.
    pub fn remove(&mut self, pid: Pid) -> Option<Box<Proc>> {
        self.tell(pid, false);
        let proc = self.table.remove(pid)?;
        self.change_children(proc.parent, |children| children.remove(pid));
        self.users.give_back(proc.who.users.real, 1);
        self.leave(proc.pgid, Some(pid));
        self.leave(proc.sid, None);
        self.take_numbers(pid);
        Some(proc)
    }
}
