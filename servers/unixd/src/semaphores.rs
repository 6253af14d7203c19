//! System V semaphores: sets of counters, of which a call changes several at once, or waits until it can.

use crate::effects::Effects;
use crate::ipc::{Perm, Registry, PERM_BYTES};
use crate::open::Opening;
use crate::procs::Pid;
use crate::threads::Tid;
use crate::wait::{count, done, Call, Outcome, Tried, Waiters};
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;
use unixproto::files::FOREVER;
use unixproto::ipc::*;
use unixproto::{op, Errno};

/// Sets that there may be (Linux: `SEMMNI` is 32,000).
const SETS_MOST: usize = 4096;
/// Semaphores that there may be in all of them (Linux: `SEMMNS` is much more).
const ALL_MOST: usize = 256_000;

/// A semaphore.
#[derive(Clone, Copy, Default)]
struct Semaphore {
    value: i32,
    /// Who has changed it last.
    pid: Pid,
}

/// A set of them.
struct Set {
    semaphores: Vec<Semaphore>,
    /// Seconds since 1970: of the last operation, and of the last change by `semctl`.
    times: [i64; 2],
    /// What is to be added when a process ends.
    undo: BTreeMap<(Pid, u16), i32>,
    waiters: Waiters,
    /// On which one a thread waits, and whether for zero.
    waits: BTreeMap<Tid, (u16, bool)>,
}

/// One of the operations of a call.
#[derive(Clone, Copy)]
struct Operation {
    number: u16,
    by: i32,
    flags: u32,
}

impl Operation {
    fn all(bytes: &[u8]) -> Vec<Operation> {
        let parse = |bytes: &[u8; SEMBUF_BYTES]| {
            let word = |at: usize| i16::from_le_bytes([bytes[at], bytes[at + 1]]);
            let (number, flags) = (word(0) as u16, u32::from(word(4) as u16));
            Operation { number, by: word(2).into(), flags }
        };
        bytes.as_chunks().0.iter().map(parse).collect()
    }
}

/// Why operations are not done.
enum Blocked {
    /// Not now, because of this one.
    By(Operation),
    Error(Errno),
}

impl Set {
    fn get(&self, number: u32) -> Result<Semaphore, Errno> {
        self.semaphores.get(number as usize).copied().ok_or(Errno::EINVAL)
    }

    /// Does all operations, or none.
    fn operate(&mut self, all: &[Operation], pid: Pid) -> Result<(), Blocked> {
        let mut values: Vec<i32> = self.semaphores.iter().map(|one| one.value).collect();
        let mut undo: BTreeMap<u16, i32> = BTreeMap::new();
        for operation in all {
            let &Operation { number, by, flags } = operation;
            let value = &mut values[usize::from(number)];
            if by == 0 && *value != 0 || *value + by < 0 {
                return Err(Blocked::By(*operation));
            }
            *value += by;
            if *value > VALUE_MOST {
                return Err(Blocked::Error(Errno::ERANGE));
            }
            if flags & SEM_UNDO != 0 {
                *undo.entry(number).or_default() -= by;
            }
        }
        for (number, by) in &undo {
            let known = self.undo.get(&(pid, *number)).copied().unwrap_or(0);
            if !(-VALUE_MOST - 1..=VALUE_MOST).contains(&(known + by)) {
                return Err(Blocked::Error(Errno::ERANGE));
            }
        }
        for (number, by) in undo {
            *self.undo.entry((pid, number)).or_default() += by;
        }
        self.undo.retain(|_, by| *by != 0);
        for (one, value) in self.semaphores.iter_mut().zip(values) {
            one.value = value;
        }
        for operation in all {
            self.semaphores[usize::from(operation.number)].pid = pid;
        }
        Ok(())
    }

    /// How many wait on one.
    fn waiting(&self, number: u32, for_zero: bool) -> usize {
        let is = |(on, zero): &&(u16, bool)| u32::from(*on) == number && *zero == for_zero;
        self.waits.values().filter(is).count()
    }

    fn wake(&mut self, fx: &mut Effects) {
        self.waiters.drain().for_each(|tid| fx.wake(tid));
    }
}

/// All sets.
pub struct Semaphores {
    sets: Registry<Set>,
    /// Semaphores in all of them.
    count: usize,
    /// Places of sets in which something is to be undone when a process ends.
    owing: BTreeMap<Pid, Vec<usize>>,
}

impl Default for Semaphores {
    fn default() -> Semaphores {
        Semaphores { sets: Registry::new(SETS_MOST), count: 0, owing: BTreeMap::new() }
    }
}

impl Semaphores {
    /// A process has ended: what it wanted undone is.
    pub fn ended(&mut self, pid: Pid, fx: &mut Effects) {
        // Another set may be there by now, in which there is nothing of it.
        for place in self.owing.remove(&pid).unwrap_or_default() {
            let Ok(entry) = self.sets.at_mut(place) else { continue };
            let set = &mut entry.value;
            let own: Vec<(u16, i32)> =
                set.undo.range((pid, 0)..=(pid, u16::MAX)).map(|(key, by)| (key.1, *by)).collect();
            for &(number, by) in &own {
                set.undo.remove(&(pid, number));
                if let Some(one) = set.semaphores.get_mut(usize::from(number)) {
                    one.value = (one.value + by).clamp(0, VALUE_MOST);
                    one.pid = pid;
                }
            }
            if !own.is_empty() {
                set.wake(fx);
            }
        }
    }

    /// Name spaces have ended, and all that is in them goes. Nobody waits there any more.
    pub fn end_spaces(&mut self, ended: &[u64]) {
        for place in self.sets.places(ended) {
            self.count -= self.sets.remove(place).map_or(0, |set| set.semaphores.len());
        }
    }

    /// What `/proc/sysvipc/sem` says.
    pub fn text(&self, space: u64) -> String {
        let mut text = String::from("       key      semid perms      nsems   uid   gid  cuid  cgid      otime      ctime\n");
        for (place, entry) in self.sets.of(space) {
            let (Perm { key, owner, creator, mode, .. }, set) = (entry.perm, &entry.value);
            let (id, count, [operated, changed]) =
                (self.sets.id(place), set.semaphores.len(), set.times);
            put!(text, "{key:10} {id:10}  {mode:4o} {count:10} ");
            put!(text, "{:5} {:5} {:5} {:5} ", owner.0, owner.1, creator.0, creator.1);
            put_line!(text, "{operated:10} {changed:10}");
        }
        text
    }

    /// A thread does not wait any more.
    pub fn give_up(&mut self, tid: Tid, id: u32) {
        if let Some(entry) = self.sets.anywhere_mut(id) {
            entry.value.waits.remove(&tid);
        }
    }
}

impl Opening<'_> {
    /// `semget`.
    pub fn get_semaphores(&mut self, op: op::GetSemaphores) -> Tried {
        let all = &self.semaphores;
        if op.count > SEMAPHORES_MOST {
            return Err(Errno::EINVAL);
        }
        if let Some(place) = all.sets.named(self.ipc()?, op.key, op.flags)? {
            let entry = all.sets.at(place)?;
            if op.count as usize > entry.value.semaphores.len() {
                return Err(Errno::EINVAL);
            }
            entry.perm.permits(self.procs.get(self.caller.pid)?, op.flags & 0o777)?;
            return count(all.sets.id(place) as usize);
        }
        if op.count == 0 {
            return Err(Errno::EINVAL);
        }
        let perm = self.perm(op.key, op.flags)?;
        all.sets.room(perm.creator.0)?;
        if all.count + op.count as usize > ALL_MOST {
            return Err(Errno::ENOSPC);
        }
        let mut semaphores = Vec::new();
        semaphores.try_reserve_exact(op.count as usize).map_err(|_| Errno::ENOMEM)?;
        semaphores.resize(op.count as usize, Semaphore::default());
        let times = [0, self.seconds()];
        let (undo, waits) = <(BTreeMap<_, _>, BTreeMap<_, _>)>::default();
        let set = Set { semaphores, times, undo, waiters: Waiters::default(), waits };
        let all = &mut self.semaphores;
        let place = all.sets.add(perm, set).map_err(|_| Errno::ENOSPC)?;
        all.count += op.count as usize;
        count(all.sets.id(place) as usize)
    }

    /// `semop`, `semtimedop`.
    pub fn operate(&mut self, call: &mut Call, op: op::SemaphoreOps) -> Tried {
        let operations = Operation::all(&self.procs.a(self.caller, call)?);
        let (pid, tid, now) = (self.caller.pid, self.caller.tid, self.seconds());
        if operations.is_empty() || operations.len() > OPERATIONS_MOST {
            return Err(if operations.is_empty() { Errno::EINVAL } else { Errno::E2BIG });
        }
        let proc = self.procs.get(pid)?;
        // Of one that has waited, the set may be gone.
        let gone = if call.kept != 0 { Errno::EIDRM } else { Errno::EINVAL };
        let space = self.ipc()?;
        let entry = self.semaphores.sets.get_mut(space, op.id).map_err(|_| gone)?;
        let set = &mut entry.value;
        if operations.iter().any(|one| usize::from(one.number) >= set.semaphores.len()) {
            return Err(Errno::EFBIG);
        }
        let alters = operations.iter().any(|one| one.by != 0);
        entry.perm.permits(proc, if alters { 0o222 } else { 0o444 })?;
        set.waits.remove(&tid);
        match set.operate(&operations, pid) {
            Ok(()) => {
                set.times[0] = now;
                if alters {
                    set.wake(self.handles.fx);
                }
                if operations.iter().any(|one| one.flags & SEM_UNDO != 0) {
                    let place = self.semaphores.sets.place(space, op.id)?;
                    let owing = self.semaphores.owing.entry(pid).or_default();
                    if !owing.contains(&place) {
                        owing.push(place);
                    }
                }
                done(())
            }
            Err(Blocked::Error(error)) => Err(error),
            Err(Blocked::By(one)) if one.flags & IPC_NOWAIT != 0 || call.late => Err(Errno::EAGAIN),
            Err(Blocked::By(one)) => {
                set.waiters.add(tid);
                set.waits.insert(tid, (one.number, one.by == 0));
                call.kept = 1;
                let deadline = match op.ns {
                    FOREVER => 0,
                    ns => self.handles.clock.deadline(ns),
                };
                Ok(Outcome::Block(deadline))
            }
        }
    }

    /// `semctl`.
    pub fn control_semaphores(&mut self, call: &Call, op: op::ControlSemaphores) -> Tried {
        match op.command {
            IPC_INFO | SEM_INFO => return self.semaphore_info(op.command),
            SEM_STAT | SEM_STAT_ANY => {
                let place = op.id as usize;
                let entry = self.semaphores.sets.listed(self.ipc()?, place)?;
                if op.command == SEM_STAT {
                    entry.perm.permits(self.procs.get(self.caller.pid)?, 0o444)?;
                }
                let id = self.semaphores.sets.id(place);
                return self.tell_semaphores(place, id as usize);
            }
            _ => {}
        }
        let place = self.semaphores.sets.place(self.ipc()?, op.id)?;
        let (pid, now) = (self.caller.pid, self.seconds());
        let given = self.procs.a(self.caller, call)?;
        let proc = self.procs.get(pid)?;
        let entry = self.semaphores.sets.at_mut(place)?;
        let (perm, set) = (&mut entry.perm, &mut entry.value);
        match op.command {
            IPC_STAT => {
                perm.permits(proc, 0o444)?;
                return self.tell_semaphores(place, 0);
            }
            IPC_SET => {
                perm.owned_by(proc)?;
                perm.set(&given)?;
                set.times[1] = now;
            }
            IPC_RMID => {
                perm.owned_by(proc)?;
                set.wake(self.handles.fx);
                let gone = self.semaphores.sets.remove(place);
                self.semaphores.count -= gone.map_or(0, |set| set.semaphores.len());
            }
            GETVAL | GETPID | GETNCNT | GETZCNT => {
                perm.permits(proc, 0o444)?;
                let one = set.get(op.number)?;
                return count(match op.command {
                    GETVAL => one.value as usize,
                    GETPID => one.pid as usize,
                    GETNCNT => set.waiting(op.number, false),
                    _ => set.waiting(op.number, true),
                });
            }
            GETALL => {
                perm.permits(proc, 0o444)?;
                let values = set.semaphores.iter().map(|one| one.value as u16);
                let bytes: Vec<u8> = values.flat_map(u16::to_le_bytes).collect();
                self.procs.put(self.caller, &bytes)?;
                return count(bytes.len() / 2);
            }
            SETVAL => {
                perm.permits(proc, 0o222)?;
                set.get(op.number)?;
                if !(0..=VALUE_MOST).contains(&op.value) {
                    return Err(Errno::ERANGE);
                }
                let number = op.number as u16;
                set.semaphores[usize::from(number)] = Semaphore { value: op.value, pid };
                set.undo.retain(|(_, of), _| *of != number);
                set.times[1] = now;
                set.wake(self.handles.fx);
            }
            SETALL => {
                perm.permits(proc, 0o222)?;
                let values: Vec<u16> =
                    given.as_chunks().0.iter().map(|value| u16::from_le_bytes(*value)).collect();
                if values.len() != set.semaphores.len() {
                    return Err(Errno::EINVAL);
                }
                if values.iter().any(|&value| i32::from(value) > VALUE_MOST) {
                    return Err(Errno::ERANGE);
                }
                for (one, value) in set.semaphores.iter_mut().zip(values) {
                    *one = Semaphore { value: value.into(), pid };
                }
                set.undo.clear();
                set.times[1] = now;
                set.wake(self.handles.fx);
            }
            _ => return Err(Errno::EINVAL),
        }
        count(0)
    }

    /// Leaves `struct semid_ds` in the data area.
    fn tell_semaphores(&mut self, place: usize, answer: usize) -> Tried {
        let entry = self.semaphores.sets.at(place)?;
        let [operated, changed] = entry.value.times;
        let mut bytes = [0; SEMID_BYTES];
        bytes[..PERM_BYTES].copy_from_slice(&entry.perm_bytes(0));
        let count_of = entry.value.semaphores.len() as u64;
        for (at, value) in [(48, operated as u64), (64, changed as u64), (80, count_of)] {
            bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        self.procs.put(self.caller, &bytes)?;
        count(answer)
    }

    /// What there may be, or what there is: `struct seminfo`.
    fn semaphore_info(&mut self, command: u32) -> Tried {
        let (all, space) = (&self.semaphores, self.ipc()?);
        let last = all.sets.of(space).map(|(place, _)| place).max().unwrap_or(0);
        let used = || all.sets.of(space).map(|(_, set)| set.value.semaphores.len());
        let (used, undone) = match command {
            SEM_INFO => (used().count() as u32, used().sum::<usize>() as u32),
            _ => (20, VALUE_MOST as u32),
        };
        let (sets, most, operations) = (SETS_MOST as u32, SEMAPHORES_MOST, OPERATIONS_MOST as u32);
        let all_most = ALL_MOST as u32;
        // semmap, semmni, semmns, semmnu, semmsl, semopm, semume, semusz, semvmx, semaem
        let words = [
            all_most,
            sets,
            all_most,
            all_most,
            most,
            operations,
            operations,
            used,
            VALUE_MOST as u32,
            undone,
        ];
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.procs.put(self.caller, &bytes)?;
        count(last)
    }
}
