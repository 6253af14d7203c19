//! Name spaces: of users, of mounts, of host names, of System V objects and message queues, of [process ids](crate::pids), and of
//! [networks, control groups and times](crate::otherspaces).

use crate::apart::Before;
use crate::descs::{Handles, Object};
use crate::inet::{Slot, Sockets};
use crate::nodes::Tree;
use crate::otherspaces::{self, EndedNets, Groups, Net, Times};
use crate::pids::{self, PidSpace, Space};
use crate::procs::{Pid, Proc, Procs, STANDS};
use crate::system::System;
use crate::threads::Tid;
use crate::voices::Speaker;
use crate::volumes::Spot;
use crate::wait::{count, done, Call, Tried};
use alloc::collections::BTreeMap;
use alloc::rc::{Rc, Weak};
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use credentials::{Capability, Credentials, UserSpace};
use files::Claim;
use memfs::{Attr, Cred, Fs, Ino};
use mounttable::SpaceId;
use piecewise::{Limits, Shares};
use unixproto::files::O_RDONLY;
use unixproto::{op, ops, Errno};

/// Name spaces that there may be, but for those of mounts.
pub const SPACES_MAX: usize = 2048;
/// Bytes of a host name.
pub const NAME_MAX: usize = 64;
/// The first numbers, which programs know from Linux.
const FIRST_PIDS: u64 = 0xefff_fffc;
const FIRST_USER: u64 = 0xefff_fffd;
const FIRST_HOSTS: u64 = 0xefff_fffe;
/// That of the first of System V objects, which owns what has no other.
pub const FIRST_IPC: u64 = 0xefff_ffff;
const FIRST_MOUNTS: u64 = 0xf000_0000;
/// Numbers of others begin here.
const OTHERS: u64 = 0xf000_0100;
/// Those of mount name spaces, which have numbers of their own, here.
const OTHER_MOUNTS: u64 = 0xf800_0000;

/// `CLONE_*`.
pub mod flag {
    pub const FS: u32 = 0x200;
    pub const FILES: u32 = 0x400;
    pub const SYSVSEM: u32 = 0x4_0000;
    pub const NEWNS: u32 = 0x2_0000;
    pub const NEWTIME: u32 = 0x80;
    pub const NEWCGROUP: u32 = 0x200_0000;
    pub const NEWUTS: u32 = 0x400_0000;
    pub const NEWIPC: u32 = 0x800_0000;
    pub const NEWUSER: u32 = 0x1000_0000;
    pub const NEWPID: u32 = 0x2000_0000;
    pub const NEWNET: u32 = 0x4000_0000;
    /// All kinds.
    pub const SPACES: u32 =
        NEWNS | NEWUTS | NEWIPC | NEWUSER | NEWPID | NEWNET | NEWCGROUP | NEWTIME;
    /// `CLONE_THREAD`, `CLONE_SIGHAND`, `CLONE_VM`.
    pub const OF_THREADS: u32 = 0x1_0000 | 0x800 | 0x100;
}

/// The kinds, with their names in `/proc/PID/ns`.
pub const KINDS: [(&str, u32); 10] = [
    ("cgroup", flag::NEWCGROUP),
    ("ipc", flag::NEWIPC),
    ("mnt", flag::NEWNS),
    ("net", flag::NEWNET),
    ("pid", flag::NEWPID),
    ("pid_for_children", flag::NEWPID),
    ("time", flag::NEWTIME),
    ("time_for_children", flag::NEWTIME),
    ("user", flag::NEWUSER),
    ("uts", flag::NEWUTS),
];

/// Host and domain name of who is in a name space.
#[derive(Debug)]
pub struct Hosts {
    /// Its number as programs see it.
    pub number: u64,
    /// The user name space that it belongs to.
    owner: u64,
    names: RefCell<[Vec<u8>; 2]>,
    /// Its place in the count of who has made it.
    _kept: Option<Rc<Lease>>,
}

impl Hosts {
    /// The first one.
    pub fn first() -> Rc<Hosts> {
        let names = [b"tessera".to_vec(), b"(none)".to_vec()];
        Rc::new(Hosts { number: FIRST_HOSTS, owner: 0, names: RefCell::new(names), _kept: None })
    }
    /// The name of the host, or of the domain.
    pub fn name(&self, of_domain: bool) -> Vec<u8> {
        self.names.borrow()[usize::from(of_domain)].clone()
    }
    /// Sets it, if `who` may. `EPERM`, `EINVAL`.
    pub fn set_name(&self, of_domain: bool, name: &[u8], who: &Credentials) -> Result<(), Errno> {
        if !who.has_in(self.owner, Capability::SysAdmin) {
            return Err(Errno::EPERM);
        }
        if name.len() > NAME_MAX {
            return Err(Errno::EINVAL);
        }
        self.names.borrow_mut()[usize::from(of_domain)] = name.to_vec();
        Ok(())
    }
}

/// Numbers of name spaces that have ended, in which things may still be, and where their message queues are.
type Ended = Rc<RefCell<Vec<(u64, Option<QueueDir>)>>>;

/// A directory of message queues, with the number of its volume.
pub type QueueDir = (u32, Ino);

/// Where System V objects and POSIX message queues have their ids, keys and names. What is in it says so by its number, which comes
/// only once.
#[derive(Debug)]
pub struct Ipc {
    /// Its number as programs see it.
    pub number: u64,
    /// The user name space that it belongs to.
    pub owner: u64,
    /// Its place in the count of who has made it, and where its end is told.
    kept: Option<(Rc<Lease>, Ended)>,
    /// Where its message queues are, once it has had one.
    queues: Cell<Option<QueueDir>>,
}

impl Ipc {
    /// The first one, which never ends.
    pub fn first() -> Rc<Ipc> {
        Rc::new(Ipc { number: FIRST_IPC, owner: 0, kept: None, queues: Cell::new(None) })
    }

    /// The directory of its message queues, made when there is none yet, in which everybody may make some.
    ///
    /// # Errors
    /// `ENOSPC`: there is no room for it.
    pub fn queues<C: Default>(&self, names: &mut Fs<C>, now: i64) -> Result<QueueDir, Errno> {
        if let Some(found) = self.queues.get() {
            return Ok(found);
        }
        let made = names.make_queues(Attr { mode: 0o1777, cred: Cred::ROOT, now })?;
        self.queues.set(Some(made));
        Ok(made)
    }
}

impl Drop for Ipc {
    fn drop(&mut self) {
        if let Some((_, ended)) = &self.kept {
            ended.borrow_mut().push((self.number, self.queues.get()));
        }
    }
}

/// A name space that counts for a user as long as it is there.
#[derive(Debug)]
pub struct Lease {
    uid: u32,
    all: Rc<RefCell<Shares>>,
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.all.borrow_mut().give_back(self.uid, 1);
    }
}

/// What is given with numbers: name spaces of all kinds but mounts.
pub struct Numbers {
    last: Cell<u64>,
    all: Rc<RefCell<Shares>>,
    /// Those of System V objects that nobody is in any more, and that nobody has open.
    ended: Ended,
    /// The same of networks.
    ended_nets: EndedNets,
    /// Those of users that somebody is in or has open, by their numbers.
    users: RefCell<BTreeMap<u64, Weak<UserSpace>>>,
}

impl Default for Numbers {
    fn default() -> Self {
        let all = Rc::new(RefCell::new(Shares::new(Limits::of(SPACES_MAX))));
        Numbers {
            last: Cell::new(OTHERS),
            all,
            ended: Default::default(),
            ended_nets: Default::default(),
            users: Default::default(),
        }
    }
}

impl Numbers {
    /// Has one of System V objects or of networks ended?
    #[inline]
    pub fn has_ended(&self) -> bool {
        !self.ended.borrow().is_empty() || !self.ended_nets.borrow().is_empty()
    }

    /// Those of networks that have.
    pub fn take_ended_nets(&self) -> Vec<Slot> {
        self.ended_nets.take()
    }

    /// Those of System V objects that have, in order.
    pub fn take_ended(&self) -> Vec<(u64, Option<QueueDir>)> {
        let mut ended = self.ended.take();
        ended.sort_unstable();
        ended
    }

    /// A user name space has begun.
    fn note_user(&self, space: &Rc<UserSpace>) {
        let mut users = self.users.borrow_mut();
        users.retain(|_, one| one.strong_count() > 0);
        users.insert(space.number, Rc::downgrade(space));
    }

    /// The user name space with a number, 0 for the first. `EPERM`: nobody is in it any more, nor in one inside of it.
    fn user(&self, number: u64) -> Result<Option<Rc<UserSpace>>, Errno> {
        match number {
            0 => Ok(None),
            _ => {
                let space = self.users.borrow().get(&number).and_then(Weak::upgrade);
                Ok(Some(space.ok_or(Errno::EPERM)?))
            }
        }
    }

    /// Something that is made and takes memory meanwhile, on a user's account like a name space. `ENOSPC`: that one has too many.
    pub fn lease(&self, uid: u32) -> Result<Rc<Lease>, Errno> {
        Ok(self.take(uid)?.1)
    }

    /// A number, on a user's account. `ENOSPC`: that one has too many.
    fn take(&self, uid: u32) -> Result<(u64, Rc<Lease>), Errno> {
        if !self.all.borrow().has_room(uid, 1) {
            return Err(Errno::ENOSPC);
        }
        self.all.borrow_mut().take(uid, 1);
        self.last.set(self.last.get() + 1);
        Ok((self.last.get(), Rc::new(Lease { uid, all: self.all.clone() })))
    }
}

/// The name spaces that a thread is in, but for those of which a process is in one: of users, of times and of process ids. Those of
/// mounts are known from where it stands.
#[derive(Clone)]
pub struct InSpaces {
    /// Its host name.
    pub hosts: Rc<Hosts>,
    /// Where its System V objects and message queues are.
    pub ipc: Rc<Ipc>,
    /// Which interfaces, ports and names of sockets there are for it.
    pub net: Option<Rc<Net>>,
    /// That of control groups.
    pub groups: Option<Rc<Groups>>,
    /// That of times of its children.
    pub times_of_children: Option<Rc<Times>>,
    /// That of process ids of its children.
    pub pids_of_children: Space,
}

impl InSpaces {
    /// The first ones.
    pub fn first() -> InSpaces {
        let (net, groups, times_of_children, pids_of_children) = Default::default();
        let (hosts, ipc) = (Hosts::first(), Ipc::first());
        InSpaces { hosts, ipc, net, groups, times_of_children, pids_of_children }
    }
    /// The number of that of networks.
    pub fn net_number(&self) -> u64 {
        self.net.as_ref().map_or(otherspaces::FIRST_NETS, |net| net.number)
    }
}

/// A name space that somebody has open.
#[derive(Clone)]
pub enum Opened {
    /// Held by [`mounttable::Mounts::join`].
    Mounts(SpaceId, u64),
    Hosts(Rc<Hosts>),
    Ipc(Rc<Ipc>),
    Net(Option<Rc<Net>>),
    Groups(Option<Rc<Groups>>),
    Times(Option<Rc<Times>>),
    Pids(Space),
    User(Option<Rc<UserSpace>>),
}

/// The number of a mount name space as programs see it.
fn mounts_number(tree: &Tree, space: SpaceId) -> u64 {
    match tree.mounts().space(space).map_or(1, |space| space.number) {
        1 => FIRST_MOUNTS,
        number => OTHER_MOUNTS + number,
    }
}

impl Opened {
    /// That of a thread with a name; `None`: there is no such kind, or no such thread.
    pub fn of(procs: &Procs, tree: &Tree, tid: Tid, name: &str) -> Option<Opened> {
        let pid = procs.leader(tid);
        let (proc, spaces) = (procs.get(pid).ok()?, procs.spaces_of(pid, tid).ok()?);
        Some(match name {
            "mnt" => {
                let space = procs.stands_of(pid, tid).ok()?.space;
                Opened::Mounts(space, mounts_number(tree, space))
            }
            "ipc" => Opened::Ipc(spaces.ipc.clone()),
            "uts" => Opened::Hosts(spaces.hosts.clone()),
            "net" => Opened::Net(spaces.net.clone()),
            "cgroup" => Opened::Groups(spaces.groups.clone()),
            "time" => Opened::Times(proc.times.clone()),
            "time_for_children" => Opened::Times(spaces.times_of_children.clone()),
            "pid" => Opened::Pids(proc.pids.clone()),
            "pid_for_children" => {
                // As on Linux, it is not there before it has a first process.
                let space = spaces.pids_of_children.clone();
                Opened::Pids(
                    Some(space).filter(|one| one.as_ref().is_none_or(|one| one.has_begun()))?,
                )
            }
            "user" => Opened::User(proc.who.space.clone()),
            _ => return None,
        })
    }
    /// The first one of a kind, as it is called; `None`: there is no such kind, or nobody is in it any more.
    pub fn first(procs: &Procs, tree: &Tree, name: &str) -> Option<Opened> {
        Some(match name {
            "mnt" => {
                let first = SpaceId(0);
                let number = mounts_number(tree, first);
                tree.mounts().space(first).filter(|_| number == FIRST_MOUNTS)?;
                Opened::Mounts(first, number)
            }
            "ipc" => {
                let mut all = procs.iter().map(|proc| &proc.spaces.ipc);
                Opened::Ipc(all.find(|ipc| ipc.number == FIRST_IPC)?.clone())
            }
            "uts" => {
                let mut all = procs.iter().map(|proc| &proc.spaces.hosts);
                Opened::Hosts(all.find(|hosts| hosts.number == FIRST_HOSTS)?.clone())
            }
            "net" => Opened::Net(None),
            "cgroup" => Opened::Groups(None),
            "time" | "time_for_children" => Opened::Times(None),
            "pid" | "pid_for_children" => Opened::Pids(None),
            "user" => Opened::User(None),
            _ => return None,
        })
    }
    /// Its number as programs see it.
    pub fn number(&self) -> u64 {
        match self {
            Opened::Mounts(_, number) => *number,
            Opened::Hosts(hosts) => hosts.number,
            Opened::Ipc(ipc) => ipc.number,
            Opened::Net(net) => net.as_ref().map_or(otherspaces::FIRST_NETS, |net| net.number),
            Opened::Groups(groups) => {
                groups.as_ref().map_or(otherspaces::FIRST_GROUPS, |groups| groups.number)
            }
            Opened::Times(times) => {
                times.as_ref().map_or(otherspaces::FIRST_TIMES, |times| times.number)
            }
            Opened::Pids(space) => space.as_ref().map_or(FIRST_PIDS, |space| space.number),
            Opened::User(space) => space.as_ref().map_or(FIRST_USER, |space| space.number),
        }
    }
    /// `CLONE_NEW*`.
    fn flag(&self) -> u32 {
        match self {
            Opened::Mounts(..) => flag::NEWNS,
            Opened::Hosts(_) => flag::NEWUTS,
            Opened::Ipc(_) => flag::NEWIPC,
            Opened::Net(_) => flag::NEWNET,
            Opened::Groups(_) => flag::NEWCGROUP,
            Opened::Times(_) => flag::NEWTIME,
            Opened::Pids(_) => flag::NEWPID,
            Opened::User(_) => flag::NEWUSER,
        }
    }
    /// The user name space that one of a network, of control groups or of times belongs to; others say that otherwise.
    fn owner(&self) -> u64 {
        match self {
            Opened::Net(net) => net.as_ref().map_or(0, |net| net.owner),
            Opened::Groups(groups) => groups.as_ref().map_or(0, |groups| groups.owner),
            Opened::Times(times) => times.as_ref().map_or(0, |times| times.owner),
            _ => 0,
        }
    }
    /// How links in `/proc/PID/ns` name it.
    pub fn text(&self) -> Vec<u8> {
        let name = KINDS.iter().find(|(_, flag)| *flag == self.flag()).map_or("", |kind| kind.0);
        alloc::format!("{name}:[{}]", self.number()).into_bytes()
    }
}

/// Gives a process name spaces of its own.
///
/// # Errors
/// `EPERM`: it may not. `ENOSPC`: there are too many. Then it has what it had.
pub fn unshare(
    (procs, tree, nets, numbers): (&mut Procs, &mut Tree, &mut Sockets, &Numbers),
    pid: Pid,
    flags: u32,
) -> Result<(), Errno> {
    let proc = procs.get(pid)?;
    let mut who = proc.who.clone();
    if flags & flag::NEWUSER != 0 {
        // Who has another root could get out of it by what he may do then.
        let mount = tree.mounts().get(proc.stands.root.mount)?;
        let is_top = tree.mounts().space(proc.stands.space).map(|space| space.root)
            == Some(proc.stands.root.mount);
        if mount.root != proc.stands.root.node || !is_top {
            return Err(Errno::EPERM);
        }
        let (number, lease) = numbers.take(who.users.effective)?;
        who.enter_new(number, lease)?;
        who.space.iter().for_each(|space| numbers.note_user(space));
    }
    if flags & (flag::SPACES & !flag::NEWUSER) != 0 && !who.has_own(Capability::SysAdmin) {
        return Err(Errno::EPERM);
    }
    let (owner, uid) = (who.space_number(), who.users.effective);
    let hosts = match flags & flag::NEWUTS {
        0 => None,
        _ => {
            let (number, lease) = numbers.take(uid)?;
            let names = RefCell::new(proc.spaces.hosts.names.borrow().clone());
            Some(Rc::new(Hosts { number, owner, names, _kept: Some(lease) }))
        }
    };
    let ipc = match flags & flag::NEWIPC {
        0 => None,
        _ => {
            let (number, lease) = numbers.take(uid)?;
            let kept = Some((lease, numbers.ended.clone()));
            Some(Rc::new(Ipc { number, owner, kept, queues: Cell::new(None) }))
        }
    };
    let is_new = |kind| flags & kind != 0;
    let groups = match is_new(flag::NEWCGROUP) {
        true => Some(Groups::new(numbers.take(uid)?, owner)),
        false => None,
    };
    let times = match is_new(flag::NEWTIME) {
        true => Some(Times::new(numbers.take(uid)?, owner, &proc.spaces.times_of_children)),
        false => None,
    };
    let net = match is_new(flag::NEWNET) {
        true => Some(nets.begin(numbers.take(uid)?, owner, numbers.ended_nets.clone())?),
        false => None,
    };
    let pids_of_children = match flags & flag::NEWPID {
        0 => None,
        // Its children are in another one already, where it could not see them.
        _ if !pids::is_same(&proc.pids, &proc.spaces.pids_of_children) => {
            return Err(Errno::EINVAL)
        }
        _ => {
            let space = who.space.clone();
            Some(PidSpace::begin(&proc.pids, space, || numbers.take(uid))?)
        }
    };
    let mut stands = proc.stands;
    if flags & flag::NEWNS != 0 {
        let above = tree.mounts().space(stands.space).map_or(0, |space| space.owner);
        let mut held = Vec::new();
        let table = &mut tree.mounted_mut().table;
        let locks = above != owner;
        let copied = table.copy_space(stands.space, (owner, uid, locks), |node| held.push(node));
        for node in held {
            tree.hold_for_mount(node);
        }
        let (space, copies) = copied?;
        let old = stands;
        for spot in [&mut stands.root, &mut stands.cwd] {
            spot.mount = copies.get(&spot.mount).copied().unwrap_or(spot.mount);
        }
        stands.space = space;
        for (old, new) in [(old.root, stands.root), (old.cwd, stands.cwd)] {
            tree.hold_mount(new.mount);
            tree.release_mount(old.mount);
        }
        tree.leave_space(old.space);
    }
    let proc = procs.get_mut(pid)?;
    (proc.who, proc.stands) = (who, stands);
    if flags & (flag::NEWNS | flag::NEWUSER) != 0 {
        // It stands by itself from now on.
        proc.common[STANDS] = 0;
    }
    if let Some(hosts) = hosts {
        proc.spaces.hosts = hosts;
    }
    if let Some(ipc) = ipc {
        proc.spaces.ipc = ipc;
    }
    if pids_of_children.is_some() {
        proc.spaces.pids_of_children = pids_of_children;
    }
    if net.is_some() {
        proc.spaces.net = net;
    }
    if groups.is_some() {
        proc.spaces.groups = groups;
    }
    if times.is_some() {
        proc.spaces.times_of_children = times;
    }
    procs.hide_attributes(pid);
    procs.publish(pid);
    Ok(())
}

impl Proc {
    /// It has ended, and has nothing to do any more with what is kept for those who are in a name space.
    pub fn leave_spaces(&mut self) {
        if self.spaces.ipc.number != FIRST_IPC {
            self.spaces.ipc = Ipc::first();
        }
        self.spaces.net = None;
    }

    /// It is where its children would be, as to times.
    pub fn enter_times(&mut self) {
        if let Some(times) = &self.spaces.times_of_children {
            times.begin();
        }
        self.times.clone_from(&self.spaces.times_of_children);
    }

    /// What the clock that counts from boot says for it when the machine's says `now`.
    pub fn since_boot(&self, now: u64) -> u64 {
        otherspaces::since_boot(&self.times, now)
    }

    /// The slot of its sockets, and the user name space that they belong to.
    pub fn net_place(&self) -> (Slot, u64) {
        self.spaces.net.as_ref().map_or((0, 0), |net| (net.slot, net.owner))
    }
}

/// What requests about name spaces work on.
pub struct Spaces<'a> {
    pub handles: Handles<'a>,
    pub procs: &'a mut Procs,
    pub system: &'a System,
    pub caller: Speaker,
    /// The caller has left where its System V objects were: what it wanted undone there is.
    pub leaves: bool,
}

impl Spaces<'_> {
    fn proc(&self) -> Result<&Proc, Errno> {
        self.procs.get(self.caller.pid)
    }

    /// `unshare`.
    pub fn unshare(&mut self, flags: u32) -> Tried {
        use flag::*;
        if flags & !(FS | FILES | SYSVSEM | SPACES | OF_THREADS) != 0 {
            return Err(Errno::EINVAL);
        }
        let is_shared = !self.proc()?.threads.is_empty();
        // Threads of a process have this in common. (Linux gives one of them a copy of its descriptors.)
        if is_shared && flags & (OF_THREADS | NEWUSER | FILES) != 0 {
            return Err(Errno::EINVAL);
        }
        let is_apart = is_shared && flags & (SPACES | FS) != 0;
        let before = match is_apart {
            true => Some(self.part(flags & (FS | NEWNS) != 0)?),
            false => None,
        };
        let nets = &mut self.handles.sockets.inet;
        let all = (&mut *self.procs, &mut *self.handles.tree, nets, self.system.numbers());
        if let Err(error) = unshare(all, self.caller.pid, flags & SPACES) {
            before.into_iter().for_each(|before| self.rejoin(before));
            return Err(error);
        }
        let common = &mut self.procs.get_mut(self.caller.pid)?.common;
        for (with, flag) in common.iter_mut().zip([FS, FILES, 0]) {
            if flags & flag != 0 {
                *with = 0;
            }
        }
        // What several threads want undone stays theirs.
        self.leaves = flags & (SYSVSEM | NEWIPC) != 0 && !is_shared;
        done(())
    }

    /// The caller is apart from its process's other threads.
    fn part(&mut self, stands: bool) -> Result<Before, Errno> {
        self.procs.part(self.handles.tree, self.caller, stands)
    }

    /// It is not after all.
    fn rejoin(&mut self, before: Before) {
        if let Some(standing) = self.procs.rejoin(self.caller, before) {
            self.handles.leave(&standing);
        }
    }

    /// The name spaces of the caller, of which some will be others. It is apart then, if it is one of several threads.
    fn own(&mut self) -> Result<&mut InSpaces, Errno> {
        if !self.proc()?.threads.is_empty() {
            self.part(false)?;
        }
        Ok(&mut self.procs.get_mut(self.caller.pid)?.spaces)
    }

    /// `setns`.
    pub fn enter(&mut self, op: op::EnterSpace) -> Tried {
        let pid = self.caller.pid;
        match &self.handles.descs.of(pid, op.desc)?.object {
            Object::Space(space) => {
                if op.kinds != 0 && op.kinds != space.flag() {
                    return Err(Errno::EINVAL);
                }
                let space = space.clone();
                self.enter_one(&space)?;
            }
            Object::Counter(unixproto::files::Kind::Process, number) => {
                if op.kinds == 0 || op.kinds & !flag::SPACES != 0 {
                    return Err(Errno::EINVAL);
                }
                let of = self.handles.counters.process(*number)?;
                let (own, other) = (self.proc()?, self.procs.get(of)?);
                if other.is_over() {
                    return Err(Errno::ESRCH);
                }
                if of != pid && !credentials::may_trace(&own.who, &other.who, other.dumpable) {
                    return Err(Errno::EPERM);
                }
                let tree = &*self.handles.tree;
                let all = ["user", "uts", "ipc", "net", "cgroup", "time", "pid", "mnt"];
                let wanted = all.into_iter().filter_map(|name| {
                    Opened::of(self.procs, tree, of, name)
                        .filter(|space| op.kinds & space.flag() != 0)
                });
                for space in wanted.collect::<Vec<_>>() {
                    self.enter_one(&space)?;
                }
            }
            _ => return Err(Errno::EINVAL),
        }
        done(())
    }

    /// The name space that a description is.
    fn opened(&self, desc: u32) -> Result<&Opened, Errno> {
        match &self.handles.descs.of(self.caller.pid, desc)?.object {
            Object::Space(space) => Ok(space),
            _ => Err(Errno::ENOTTY),
        }
    }

    /// `NS_GET_PARENT`, `NS_GET_USERNS`.
    pub fn open_around(&mut self, op: op::OpenSpaceAround) -> Tried {
        let (pid, proc) = (self.caller.pid, self.proc()?);
        let is_own = |space: &Option<Rc<UserSpace>>| *space == proc.who.space;
        // The caller's, or inside of it.
        let seen = |space: Option<Rc<UserSpace>>| {
            let mut around = Some(&space);
            while let Some(one) = around.filter(|one| !is_own(one)) {
                around = one.as_ref().map(|one| &one.parent);
            }
            match around {
                Some(_) => Ok(Opened::User(space)),
                None => Err(Errno::EPERM),
            }
        };
        if let &Object::Inet(number) = &self.handles.descs.of(pid, op.desc)?.object {
            return self.open_net(number);
        }
        let around = match (self.opened(op.desc)?, op.is_parent) {
            (Opened::User(space), _) => seen(space.as_ref().ok_or(Errno::EPERM)?.parent.clone())?,
            (Opened::Pids(space), true) => {
                let parent = space.as_ref().ok_or(Errno::EPERM)?.parent.clone();
                if !pids::is_in(&parent, &proc.pids) {
                    return Err(Errno::EPERM);
                }
                Opened::Pids(parent)
            }
            (Opened::Pids(space), false) => {
                seen(space.as_ref().and_then(|space| space.owner.clone()))?
            }
            (_, true) => return Err(Errno::EINVAL),
            (Opened::Hosts(hosts), false) => seen(self.system.numbers().user(hosts.owner)?)?,
            (Opened::Ipc(ipc), false) => seen(self.system.numbers().user(ipc.owner)?)?,
            (Opened::Net(_) | Opened::Groups(_) | Opened::Times(_), false) => {
                let owner = self.opened(op.desc)?.owner();
                seen(self.system.numbers().user(owner)?)?
            }
            (&Opened::Mounts(space, _), false) => {
                let space = self.handles.tree.mounts().space(space).ok_or(Errno::EINVAL)?;
                seen(self.system.numbers().user(space.owner)?)?
            }
        };
        self.open_space(around)
    }

    /// `SIOCGSKNS`: the network name space of a socket.
    fn open_net(&mut self, number: inet::Number) -> Tried {
        let owner = self.handles.sockets.inet.owner_of(number);
        if !self.proc()?.who.has_in(owner, Capability::NetAdmin) {
            return Err(Errno::EPERM);
        }
        let ended = &self.system.numbers().ended_nets;
        let space = self.handles.sockets.inet.space_of(number, ended);
        self.open_space(Opened::Net(space))
    }

    fn open_space(&mut self, space: Opened) -> Tried {
        let (pid, uid) = (self.caller.pid, self.proc()?.cred().uid);
        self.handles.descs.room(pid, uid, 1)?;
        let object = Object::Space(space);
        let (kind, inode) = (object.kind() as u8, object.inode());
        let desc = self.handles.open((pid, uid), object, O_RDONLY, None, Claim::None)?;
        done(ops::Opened { desc, kind, inode, is_stored: false, is_large: false })
    }

    /// `NS_GET_NSTYPE`, `NS_GET_OWNER_UID`.
    pub fn fact(&self, op: op::SpaceFact) -> Tried {
        let space = self.opened(op.desc)?;
        let fact = match (op.is_owner, space) {
            (false, _) => space.flag(),
            (true, Opened::User(space)) => {
                let owner = space.as_ref().map_or(0, |space| space.owner);
                self.proc()?.who.shown(false, owner)
            }
            (true, _) => return Err(Errno::EINVAL),
        };
        count(fact as usize)
    }

    fn enter_one(&mut self, opened: &Opened) -> Result<(), Errno> {
        let pid = self.caller.pid;
        let proc = self.procs.get(pid)?;
        let may = |owner| proc.who.has_in(owner, Capability::SysAdmin);
        let may_both = |owner| match may(owner) && proc.who.has_own(Capability::SysAdmin) {
            true => Ok(()),
            false => Err(Errno::EPERM),
        };
        let is_shared = !proc.threads.is_empty();
        let with = proc.common[STANDS];
        let stands_too =
            |other: &Proc| other.pid != pid && other.common[STANDS] == with && !other.is_over();
        let stands_with_others = with != 0 && self.procs.iter().any(stands_too);
        match opened {
            Opened::Hosts(hosts) => {
                may_both(hosts.owner)?;
                self.own()?.hosts = hosts.clone();
            }
            Opened::Ipc(ipc) => {
                may_both(ipc.owner)?;
                self.own()?.ipc = ipc.clone();
                self.leaves = !is_shared;
            }
            Opened::Net(net) => {
                may_both(opened.owner())?;
                self.own()?.net = net.clone();
            }
            Opened::Groups(groups) => {
                may_both(opened.owner())?;
                self.own()?.groups = groups.clone();
            }
            Opened::Times(times) => {
                if is_shared {
                    return Err(Errno::EUSERS);
                }
                may_both(opened.owner())?;
                let proc = self.procs.get_mut(pid)?;
                proc.spaces.times_of_children = times.clone();
                proc.enter_times();
                self.procs.publish(pid);
            }
            Opened::Pids(space) => {
                let owner = space.as_ref().map_or(0, |space| space.owner_number());
                may_both(owner)?;
                // Nobody gets out of the one that he is in.
                if !pids::is_in(space, &proc.pids) {
                    return Err(Errno::EINVAL);
                }
                self.own()?.pids_of_children = space.clone();
            }
            Opened::User(space) => {
                if *space == proc.who.space || is_shared || stands_with_others {
                    return Err(Errno::EINVAL);
                }
                if space.is_none() || !proc.who.has_over(space.as_ref(), Capability::SysAdmin) {
                    return Err(Errno::EPERM);
                }
                let space = space.clone();
                self.procs.get_mut(pid)?.who.enter(space);
                self.procs.hide_attributes(pid);
                self.procs.publish(pid);
            }
            &Opened::Mounts(space, _) => {
                let found = self.handles.tree.mounts().space(space).ok_or(Errno::EINVAL)?;
                let own = proc.who.has_own(Capability::SysAdmin)
                    && proc.who.has_own(Capability::SysChroot);
                if !may(found.owner) || !own {
                    return Err(Errno::EPERM);
                }
                if stands_with_others || self.procs.threads_standing_with(pid, self.caller.tid) > 1
                {
                    return Err(Errno::EINVAL);
                }
                let mount = found.root;
                let tree = &mut *self.handles.tree;
                let root = tree.top(Spot { mount, node: tree.mounts().get(mount)?.root });
                let stands = crate::volumes::Standing { cwd: root, root, space };
                tree.hold_standing(&stands);
                let proc = self.procs.get_mut(pid)?;
                let old = core::mem::replace(&mut proc.stands, stands);
                self.procs.hide_attributes(pid);
                self.handles.leave(&old);
            }
        }
        Ok(())
    }

    /// `sethostname`, `setdomainname`.
    pub fn set_host_name(&mut self, call: &Call, op: op::SetHostName) -> Tried {
        let name = self.procs.a(self.caller, call)?;
        let proc = self.proc()?;
        proc.spaces.hosts.set_name(op.domain, &name, &proc.who)?;
        done(())
    }

    /// Host and domain name, each with a NUL behind.
    pub fn host_names(&mut self) -> Tried {
        let hosts = &self.proc()?.spaces.hosts;
        let mut names = hosts.name(false);
        names.push(0);
        names.extend(hosts.name(true));
        names.push(0);
        self.procs.put(self.caller, &names)?;
        count(names.len())
    }
}

/// The text of `uid_map` or `gid_map` of a process, as another one sees it.
pub fn map_text(of: &Credentials, reader: &Credentials, groups: bool) -> Vec<u8> {
    use core::fmt::Write;
    let mut text = alloc::string::String::new();
    let all = [credentials::Line { inside: 0, outside: 0, count: u32::MAX }];
    let lines = of.space.as_ref().map_or(all.to_vec(), |space| space.lines(groups));
    for line in lines {
        // Who is inside is told by the words of the one above.
        let outside = match &of.space {
            Some(space) if of.space == reader.space => match &space.parent {
                Some(above) => above.inside(groups, line.outside).unwrap_or(u32::MAX),
                None => line.outside,
            },
            _ => reader.shown(groups, line.outside),
        };
        put_line!(text, "{:10} {outside:10} {:10}", line.inside, line.count);
    }
    text.into_bytes()
}
