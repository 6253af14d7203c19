//! Name spaces of process ids.
//!
//! Inside of this server a process, a thread, a group and a session have one id: the number that they have in the first name
//! space. In every other one that it is in, its own and those around that, it has a number besides, which is what programs there
//! see. Requests are translated when they come ([`Procs::with_ids`]) and answers when they go ([`Procs::as_seen`]); what goes
//! otherwise, as signals and texts do, says whose eyes it is for ([`Procs::number_for`]).

use crate::procs::{Pid, Proc, Procs, INIT, PID_MAX};
use crate::spaces::Lease;
use crate::threads::Tid;
use crate::wait::{Outcome, Tried};
use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use credentials::{Capability, UserSpace};
use unixproto::ops::{Locked, Process};
use unixproto::scheduling::USER;
use unixproto::signals::{SigInfo, SIGCHLD, SI_KERNEL, SI_SIGIO, SI_TIMER};
use unixproto::{op, ops, Any, Errno, Reply, Words};

/// Name spaces may be inside each other this deep, the first not counted.
pub const LEVELS_MAX: u32 = 32;
/// After the last number, they begin again behind this one.
const RESERVED: Pid = 300;
/// The inner id that nobody ever has: what a number means that means nobody.
const NOBODY: Pid = i32::MAX as Pid;

/// A name space of process ids that is not the first.
pub struct PidSpace {
    /// Its number as programs see it, which is never used again.
    pub number: u64,
    /// How many are around it, the first not counted, and itself.
    level: u32,
    /// The one in which it was made; `None`: the first.
    pub parent: Option<Rc<PidSpace>>,
    /// The user name space that it belongs to.
    pub owner: Option<Rc<UserSpace>>,
    /// The number that was given last.
    last: Cell<Pid>,
    /// Its process 1, once there is one.
    init: Cell<Option<Pid>>,
    /// That one has ended: nobody comes in any more.
    is_closed: Cell<bool>,
    /// That one has ended before the others, and is told of when they have.
    waits: Cell<bool>,
    /// Processes in it, and in those inside of it, that are no zombies.
    running: Cell<usize>,
    /// What its numbers mean.
    names: RefCell<BTreeMap<Pid, Pid>>,
    /// Its place in the count of who has made it.
    _kept: Rc<Lease>,
}

impl core::fmt::Debug for PidSpace {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "pid:[{}]", self.number)
    }
}

/// A name space; `None`: the first.
pub type Space = Option<Rc<PidSpace>>;

/// Are they the same?
pub fn is_same(one: &Space, other: &Space) -> bool {
    match (one, other) {
        (None, None) => true,
        (Some(one), Some(other)) => Rc::ptr_eq(one, other),
        _ => false,
    }
}

/// A name space and those around it, from the inside.
fn outwards(space: &Space) -> impl Iterator<Item = &Rc<PidSpace>> {
    core::iter::successors(space.as_ref(), |space| space.parent.as_ref())
}

/// Is a name space another one, or inside of it?
pub fn is_in(space: &Space, outer: &Space) -> bool {
    match outer {
        None => true,
        Some(outer) => outwards(space).any(|space| Rc::ptr_eq(space, outer)),
    }
}

impl PidSpace {
    /// Begins one inside of another.
    ///
    /// # Errors
    /// `ENOSPC`: there would be too many inside each other.
    pub fn begin(
        parent: &Space,
        owner: Option<Rc<UserSpace>>,
        number: impl FnOnce() -> Result<(u64, Rc<Lease>), Errno>,
    ) -> Result<Rc<PidSpace>, Errno> {
        let level = 1 + parent.as_ref().map_or(0, |parent| parent.level);
        if level > LEVELS_MAX {
            return Err(Errno::ENOSPC);
        }
        let (number, kept) = number()?;
        Ok(Rc::new(PidSpace {
            number,
            level,
            parent: parent.clone(),
            owner,
            last: Cell::new(0),
            init: Cell::new(None),
            is_closed: Cell::new(false),
            waits: Cell::new(false),
            running: Cell::new(0),
            names: RefCell::default(),
            _kept: kept,
        }))
    }

    /// Is there a process 1, or was there one?
    pub fn has_begun(&self) -> bool {
        self.init.get().is_some()
    }
    /// The number of the user name space that it belongs to, 0 for the first.
    pub fn owner_number(&self) -> u64 {
        self.owner.as_ref().map_or(0, |owner| owner.number)
    }
    /// Its process 1.
    pub fn init(&self) -> Option<Pid> {
        self.init.get()
    }
    /// What a number means.
    fn meaning(&self, number: Pid) -> Option<Pid> {
        self.names.borrow().get(&number).copied()
    }
    /// All that have a number in it.
    fn ids(&self) -> Vec<Pid> {
        self.names.borrow().values().copied().collect()
    }
    /// A number that nobody has.
    fn free_number(&self) -> Result<Pid, Errno> {
        let names = self.names.borrow();
        for _ in 0..PID_MAX {
            let last = self.last.get();
            let next = if last >= PID_MAX { RESERVED } else { last + 1 };
            self.last.set(next);
            if !names.contains_key(&next) {
                return Ok(next);
            }
        }
        Err(Errno::EAGAIN)
    }
}

/// The numbers of an id that is in other name spaces than the first.
pub struct Named {
    /// The innermost.
    space: Rc<PidSpace>,
    /// Its number in each, from the outermost on.
    numbers: Vec<Pid>,
}

impl Named {
    fn number_in(&self, space: &PidSpace) -> Option<Pid> {
        let number = *self.numbers.get(space.level as usize - 1)?;
        // The one of that level around this one may be another.
        let mut own = Some(&self.space);
        while let Some(one) = own.filter(|one| one.level > space.level) {
            own = one.parent.as_ref();
        }
        own.is_some_and(|own| core::ptr::eq(&**own, space)).then_some(number)
    }
}

impl Procs {
    /// Is everybody in the first name space, and every thread where its process is?
    #[inline]
    pub fn is_plain(&self) -> bool {
        self.named.is_empty() && self.apart.is_empty()
    }

    /// The number of a process, thread, group or session in a name space; 0: it is not there.
    pub fn number_in(&self, space: &Space, id: Pid) -> Pid {
        match space {
            None => id,
            Some(space) => {
                self.named.get(&id).and_then(|named| named.number_in(space)).unwrap_or(0)
            }
        }
    }

    /// The same in that of a process.
    pub fn number_for(&self, viewer: Pid, id: Pid) -> Pid {
        match self.get(viewer) {
            Ok(proc) => self.number_in(&proc.pids, id),
            Err(_) => id,
        }
    }

    /// The numbers of an id, from a name space to that of a process, which is inside of it: 0 where it has none.
    pub fn numbers_of(&self, proc: &Proc, from: &Space, id: Pid) -> Vec<Pid> {
        let mut all: Vec<Pid> = Vec::new();
        let mut space = &proc.pids;
        loop {
            all.push(self.number_in(space, id));
            match space {
                Some(inner) if !is_same(space, from) => space = &inner.parent,
                _ => break,
            }
        }
        all.reverse();
        all
    }

    /// What a number means in a name space. What means nobody is an id that nobody has.
    pub fn id_in(&self, space: &Space, number: Pid) -> Pid {
        match space {
            None => number,
            Some(space) => space.meaning(number).unwrap_or(NOBODY),
        }
    }

    /// Gives an id its numbers, in the name space of its process and all around that. Those of the innermost ones may be `chosen`.
    ///
    /// # Errors
    /// `ENOMEM`: the process 1 of one of them has ended. `EAGAIN`: there are no more numbers. `EEXIST`: somebody has a chosen one.
    pub fn give_numbers(&mut self, pid: Pid, id: Tid, chosen: &[Pid]) -> Result<(), Errno> {
        let Some(space) = self.get(pid)?.pids.clone() else { return Ok(()) };
        let own = Some(space.clone());
        let mut numbers = Vec::with_capacity(space.level as usize);
        for one in outwards(&own) {
            if one.is_closed.get() {
                return Err(Errno::ENOMEM);
            }
            numbers.push(match chosen.get(numbers.len()) {
                None => one.free_number()?,
                Some(number) if one.meaning(*number).is_some() => return Err(Errno::EEXIST),
                Some(number) => *number,
            });
        }
        for (one, &number) in outwards(&own).zip(&numbers) {
            one.names.borrow_mut().insert(number, id);
            if pid == id {
                one.running.set(one.running.get() + 1);
                if !one.has_begun() {
                    one.init.set(Some(pid));
                }
            }
        }
        numbers.reverse();
        self.named.insert(id, Named { space, numbers });
        Ok(())
    }

    /// May the caller choose these numbers for a thread or process that will be in `space`, from the innermost name space on?
    /// With `is_new` that is one inside of it that will be made.
    ///
    /// # Errors
    /// `EINVAL`: there are not so many name spaces; it is no number, or the first process of one of them has another.
    /// `EPERM`: not without `CAP_SYS_ADMIN` or `CAP_CHECKPOINT_RESTORE` where a name space belongs.
    pub fn may_choose(
        &self,
        pid: Pid,
        (space, is_new): (&Space, bool),
        chosen: &[Pid],
    ) -> Result<(), Errno> {
        let who = &self.get(pid)?.who;
        // Who may make one may choose there.
        let made = is_new.then_some((false, None));
        let there = outwards(space).map(|one| (one.has_begun(), Some(one.owner.as_ref())));
        let mut all = made.into_iter().chain(there).chain(core::iter::once((true, Some(None))));
        for number in chosen {
            let (has_begun, owner) = all.next().ok_or(Errno::EINVAL)?;
            if !(1..=PID_MAX).contains(number) || *number != 1 && !has_begun {
                return Err(Errno::EINVAL);
            }
            let has = |capability| owner.is_none_or(|owner| who.has_over(owner, capability));
            if !has(Capability::SysAdmin) && !has(Capability::CheckpointRestore) {
                return Err(Errno::EPERM);
            }
        }
        Ok(())
    }

    /// The id that the choice of all numbers makes necessary.
    ///
    /// # Errors
    /// `EEXIST`: somebody has it.
    pub fn chosen_id(&self, space: (&Space, bool), chosen: &[Pid]) -> Result<Option<Pid>, Errno> {
        let levels = outwards(space.0).count() + usize::from(space.1);
        match chosen.get(levels) {
            Some(id) if *id == INIT || self.is_used(*id) => Err(Errno::EEXIST),
            other => Ok(other.copied()),
        }
    }

    /// An id is perhaps nobody's any more: then it has no numbers.
    #[inline]
    pub fn take_numbers(&mut self, id: Pid) {
        if !self.is_plain() && !self.is_used(id) {
            self.forget_numbers(id);
        }
    }

    #[cold]
    #[inline(never)]
    fn forget_numbers(&mut self, id: Pid) {
        let Some(Named { space, mut numbers }) = self.named.remove(&id) else { return };
        for one in outwards(&Some(space)) {
            if let Some(number) = numbers.pop() {
                one.names.borrow_mut().remove(&number);
            }
        }
    }

    /// The process 1 of the name space of a process, if there is one that has not ended.
    pub fn space_init(&self, proc: &Proc) -> Option<Pid> {
        proc.pids.as_ref()?.init().filter(|&init| self.live(init).is_ok())
    }

    /// Is a process the first of its name space, which is not the first one?
    pub fn is_space_init(&self, proc: &Proc) -> bool {
        proc.pids.as_ref().is_some_and(|space| space.init() == Some(proc.pid))
    }

    /// The process 1 of a name space ends: nobody comes in any more. Answers who is in.
    pub fn close_space(&mut self, init: Pid) -> Vec<Pid> {
        let Ok(proc) = self.get(init) else { return Vec::new() };
        match &proc.pids {
            Some(space) if space.init() == Some(init) => {
                space.is_closed.set(true);
                let others = space.ids().into_iter();
                others.filter(|&id| id != init && self.live(id).is_ok()).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Is a process, which has ended, the first of a name space in which others have not? It is told of after them.
    pub fn awaits_others(&self, pid: Pid) -> bool {
        let Some(space) = self.get(pid).ok().and_then(|proc| proc.pids.as_ref()) else {
            return false;
        };
        let waits = space.init() == Some(pid) && space.running.get() > 1;
        if waits {
            space.waits.set(true);
        }
        waits
    }

    /// A process has become a zombie, or has gone without. Answers the first one of a name space that has waited for that.
    pub fn has_ended(&self, pid: Pid) -> Option<Pid> {
        let named = self.named.get(&pid)?;
        let mut told = None;
        for space in outwards(&Some(named.space.clone())) {
            space.running.set(space.running.get().saturating_sub(1));
            // The one inside is told of first, and only then have all ended in the one around it.
            if space.running.get() == 1 && space.waits.replace(false) {
                told = space.init();
            }
        }
        told
    }

    /// What somebody sees of a signal: who has sent it, by his number. Answers whether that one is outside of his name space, or this server.
    pub fn show_sender(&self, to: &Proc, signal: u32, info: &mut SigInfo) -> bool {
        if info.code == SI_KERNEL {
            return true;
        }
        let has_sender = match info.code {
            SI_TIMER | SI_SIGIO => false,
            1.. => signal == SIGCHLD,
            _ => true,
        };
        if !has_sender {
            return false;
        }
        info.pid = self.number_in(&to.pids, info.pid);
        info.pid == 0
    }

    /// A request with the ids that its numbers mean to its caller.
    #[cold]
    #[inline(never)]
    pub fn with_ids(&self, pid: Pid, mut any: Any) -> Any {
        let Ok(Some(space)) = self.get(pid).map(|proc| &proc.pids) else { return any };
        let mean = |number: &mut Pid| {
            if *number != 0 {
                *number = space.meaning(*number).unwrap_or(NOBODY);
            }
        };
        // Groups are negative.
        let mean_signed = |number: &mut i32| {
            if !matches!(*number, 0 | -1) {
                let meaning = space.meaning(number.unsigned_abs()).unwrap_or(NOBODY) as i32;
                *number = if *number < 0 { -meaning } else { meaning };
            }
        };
        match &mut any {
            Any::ForkCommit(op::ForkCommit { pid, .. })
            | Any::ForkWait(op::ForkWait { pid })
            | Any::ForkAbort(op::ForkAbort { pid })
            | Any::GetPgid(op::GetPgid { pid })
            | Any::GetSid(op::GetSid { pid })
            | Any::GetCaps(op::GetCaps { pid })
            | Any::LimitOf(op::LimitOf { pid, .. })
            | Any::SetLimitOf(op::SetLimitOf { pid, .. })
            | Any::ProcessorTime(op::ProcessorTime { pid })
            | Any::OpenProcess(op::OpenProcess { pid, .. })
            | Any::ThreadEnd(op::ThreadEnd { tid: pid })
            | Any::Stir(op::Stir { tid: pid })
            | Any::ThreadOf(op::ThreadOf { tid: pid })
            | Any::TraceAttach(op::TraceAttach { tid: pid, .. })
            | Any::Trace(op::Trace { tid: pid, .. })
            | Any::TraceMemory(op::TraceMemory { tid: pid, .. })
            | Any::AdviseOther(op::AdviseOther { pid, .. })
            | Any::SleepBy(op::SleepBy { of: pid, .. }) => mean(pid),
            Any::MakeTimer(op::MakeTimer { thread: one, of: other, .. })
            | Any::SetPgid(op::SetPgid { pid: one, pgid: other })
            | Any::KillThread(op::KillThread { pid: one, tid: other, .. })
            | Any::Compare(op::Compare { first: one, second: other, .. }) => {
                mean(one);
                mean(other);
            }
            Any::Wait(op::Wait { pid, .. }) | Any::Kill(op::Kill { pid, .. }) => mean_signed(pid),
            Any::Schedule(op) if op.which != USER => mean(&mut op.who),
            Any::SetOwner(op) => mean(&mut op.id),
            _ => {}
        }
        any
    }

    /// An answer with the numbers that the caller sees.
    #[cold]
    #[inline(never)]
    pub fn as_seen(&self, pid: Pid, any: &Any, outcome: Tried) -> Tried {
        let Ok(Some(_)) = self.get(pid).map(|proc| &proc.pids) else { return outcome };
        let seen = |words: Words| self.words_as_seen(pid, any, words);
        Ok(match outcome? {
            Outcome::Done(words) => Outcome::Done(seen(words)?),
            Outcome::WithCaps(words, caps) => Outcome::WithCaps(seen(words)?, caps),
            other => other,
        })
    }

    fn words_as_seen(&self, viewer: Pid, any: &Any, words: Words) -> Result<Words, Errno> {
        let shown = |id: Pid| self.number_for(viewer, id);
        Ok(match any {
            Any::Fork(_)
            | Any::ForkBeside(_)
            | Any::Thread(_)
            | Any::FutexFirst(_)
            | Any::ThreadOf(_)
            | Any::GetPgid(_)
            | Any::SetSid(_)
            | Any::GetSid(_)
            | Any::ProcessOf(_) => Process { pid: shown(Process::decode(&words)?.pid) }.encode(),
            Any::Attach(_) => {
                let answer = ops::Attached::decode(&words)?;
                ops::Attached { pid: shown(answer.pid), ..answer }.encode()
            }
            Any::Inherit(_) => {
                let answer = ops::Inherited::decode(&words)?;
                ops::Inherited { pid: shown(answer.pid), ..answer }.encode()
            }
            Any::GetOwner(_) => {
                let answer = ops::Owner::decode(&words)?;
                ops::Owner { id: shown(answer.id), ..answer }.encode()
            }
            Any::GetLock(_) => {
                let answer = Locked::decode(&words)?;
                let pid = u32::try_from(answer.pid).map_or(answer.pid, |pid| shown(pid) as i32);
                Locked { pid, ..answer }.encode()
            }
            _ => words,
        })
    }
}
