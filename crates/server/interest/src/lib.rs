//! The sets of `epoll`.
//!
//! A set has a list of the members that may have something to report: those that were added or
//! changed, those to which something came since they were found without, and, of the level-triggered
//! ones, those that had something the last time. Only these are looked at when somebody waits, so the
//! others cost nothing, however many they are.
//!
//! A member is the file that the descriptor named when it was added, and leaves with that file, not
//! with the descriptor. What numbers files have is the business of whoever keeps the set: a process its
//! own, or `unixd` one that processes share.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

use alloc::collections::VecDeque;
#[cfg(test)]
use alloc::vec::Vec;
use tables::{NoMemory, Slab, Sparse};

/// Why a set is not changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// It has this member.
    Exists,
    /// It does not have this member.
    Missing,
    /// The member was added with `EPOLLEXCLUSIVE`, or is to get it, and cannot be changed, or cannot have it.
    Exclusive,
    /// There is no memory.
    NoMemory,
}

macro_rules! refused {
    ($($errno:ty)*) => { $(
        impl From<Refused> for $errno {
            fn from(refused: Refused) -> $errno {
                match refused {
                    Refused::Exists => <$errno>::EEXIST,
                    Refused::Missing => <$errno>::ENOENT,
                    Refused::Exclusive => <$errno>::EINVAL,
                    Refused::NoMemory => <$errno>::ENOMEM,
                }
            }
        }
    )* };
}
refused!(linuxabi::errno::Errno unixproto::Errno);

/// A result as `epoll_ctl` tells it.
pub type Result<T> = core::result::Result<T, Refused>;

/// `EPOLLET`.
const EDGE: u32 = 1 << 31;
/// `EPOLLONESHOT`.
const ONESHOT: u32 = 1 << 30;
/// `EPOLLEXCLUSIVE`.
const EXCLUSIVE: u32 = 1 << 28;
/// What may be asked for together with it: readable, writable, the events that are always reported, `EPOLLWAKEUP`, `EPOLLET`.
const WITH_EXCLUSIVE: u32 = 0x5 | ALWAYS | 1 << 29 | EDGE | EXCLUSIVE;
/// What is no event: the two above, `EPOLLWAKEUP` and `EPOLLEXCLUSIVE`.
const FLAGS: u32 = 0xf << 28;
/// Events that are always reported.
pub const ALWAYS: u32 = 0x18;

/// Checks events of `EPOLL_CTL_ADD` (`is_new`) or `EPOLL_CTL_MOD`, before anything is known of the member but whether it is a set.
///
/// # Errors
/// [`Refused::Exclusive`].
pub fn check_events(events: u32, is_new: bool, is_set: bool) -> Result<()> {
    match events & EXCLUSIVE != 0 && (!is_new || is_set || events & !WITH_EXCLUSIVE != 0) {
        true => Err(Refused::Exclusive),
        false => Ok(()),
    }
}

/// One of a set.
#[derive(Clone, Copy)]
pub struct Member {
    pub fd: i32,
    /// The file that the descriptor named when it was added.
    pub file: u32,
    /// What it waits for, and how.
    pub events: u32,
    /// What the program wants to be told.
    pub data: u64,
    /// It is in the list of those to be looked at.
    pub listed: bool,
}

impl Member {
    /// Which of these events it reports.
    pub fn report(&self, events: u16) -> u32 {
        match self.events & !FLAGS {
            0 => 0,
            _ => events as u32 & self.events & !FLAGS,
        }
    }
}

/// In the list, where one was that has left it.
const GONE: u32 = u32::MAX;
/// So many of these are not worth tidying up.
const FEW: usize = 16;

/// A member, and where it is in the list, if it is there.
#[derive(Clone, Copy)]
struct Entry {
    member: Member,
    place: u64,
}

/// A set.
#[derive(Clone, Default)]
pub struct Set {
    members: Slab<Option<Entry>>,
    /// By descriptor and file.
    numbers: Sparse<u32, 4>,
    list: List,
    /// What the library knows was of this time when all were last listed.
    pub epoch: u32,
}

/// Numbers of those to be looked at, in order. There is room for all members.
#[derive(Clone, Default)]
struct List {
    all: VecDeque<u32>,
    /// The place of the first: each that comes has the next.
    first: u64,
    /// How many have left, and still have their places.
    gone: usize,
}

impl List {
    fn len(&self) -> usize {
        self.all.len() - self.gone
    }

    /// Adds one. Answers its place.
    fn push(&mut self, number: u32) -> u64 {
        self.all.push_back(number);
        self.first + self.all.len() as u64 - 1
    }

    /// Takes the first.
    fn pop(&mut self) -> Option<u32> {
        loop {
            let number = self.all.pop_front()?;
            self.first += 1;
            if number != GONE {
                return Some(number);
            }
            self.gone -= 1;
        }
    }

    /// The one at a place leaves.
    fn leave(&mut self, place: u64) {
        let at = place.checked_sub(self.first).and_then(|at| self.all.get_mut(at as usize));
        if let Some(number) = at.filter(|number| **number != GONE) {
            *number = GONE;
            self.gone += 1;
        }
    }

    /// Are there more that have left than others?
    fn is_untidy(&self) -> bool {
        self.gone > FEW && self.gone > self.all.len() / 2
    }
}

const fn key(fd: i32, file: u32) -> u64 {
    (fd as u32 as u64) << 32 | file as u64
}

impl Set {
    /// `EPOLL_CTL_ADD`. Answers the member's number.
    pub fn add(&mut self, fd: i32, file: u32, events: u32, data: u64) -> Result<u32> {
        if self.numbers.get(key(fd, file)).is_some() {
            return Err(Refused::Exists);
        }
        let member = Member { fd, file, events: events | ALWAYS, data, listed: false };
        self.enter(member).map_err(|_| Refused::NoMemory)
    }

    fn enter(&mut self, member: Member) -> core::result::Result<u32, NoMemory> {
        let room = self.members.len() + 1 - self.list.len().min(self.members.len());
        self.list.all.try_reserve(room)?;
        let number = self.members.add(Some(Entry { member, place: 0 }))?;
        if let Err(error) = self.numbers.insert(key(member.fd, member.file), number) {
            self.members.remove(number);
            return Err(error);
        }
        self.list(number);
        Ok(number)
    }

    /// Takes over a member of another set, as it is there, but with `file` for its file. Returns its number.
    pub fn take_over(&mut self, member: Member, file: u32) -> Result<u32> {
        let number = self.add(member.fd, file, member.events, member.data)?;
        if let Some(Some(Entry { member: new, .. })) = self.members.get_mut(number) {
            new.events = member.events;
        }
        if !member.listed {
            self.unlist(number);
        }
        Ok(number)
    }

    /// `EPOLL_CTL_MOD`.
    pub fn modify(&mut self, fd: i32, file: u32, events: u32, data: u64) -> Result<()> {
        let number = *self.numbers.get(key(fd, file)).ok_or(Refused::Missing)?;
        if let Some(Some(Entry { member, .. })) = self.members.get_mut(number) {
            if member.events & EXCLUSIVE != 0 {
                return Err(Refused::Exclusive);
            }
            (member.events, member.data) = (events | ALWAYS, data);
        }
        self.list(number);
        Ok(())
    }

    /// The number of the member that a descriptor stands for.
    pub fn find(&self, fd: i32, file: u32) -> Result<u32> {
        self.numbers.get(key(fd, file)).copied().ok_or(Refused::Missing)
    }

    /// Takes a member out.
    pub fn remove(&mut self, number: u32) {
        let Some(member) = self.get(number).copied() else { return };
        self.unlist(number);
        self.numbers.remove(key(member.fd, member.file));
        self.members.remove(number);
    }

    /// The member with a number.
    pub fn get(&self, number: u32) -> Option<&Member> {
        self.members.get(number)?.as_ref().map(|entry| &entry.member)
    }

    /// All members with their numbers.
    pub fn members(&self) -> impl Iterator<Item = (u32, &Member)> {
        self.numbers.iter().filter_map(|(_, &number)| Some((number, self.get(number)?)))
    }

    /// Those to be looked at, in this order.
    pub fn listed(&self) -> impl Iterator<Item = (u32, &Member)> {
        self.list.all.iter().filter_map(|&number| Some((number, self.get(number)?)))
    }

    /// Is there none to be looked at?
    pub fn is_quiet(&self) -> bool {
        self.list.len() == 0
    }

    /// These events came to a member. Answers whether it is to be looked at for them.
    pub fn came(&mut self, number: u32, events: u16) -> bool {
        let reports = self.get(number).is_some_and(|member| member.report(events) != 0);
        if reports {
            self.list(number);
        }
        reports
    }

    /// Nobody knows anything about any of them.
    pub fn list_all(&mut self) {
        let Set { members, numbers, list, .. } = self;
        for (_, &number) in numbers.iter() {
            list_one(members, list, number);
        }
    }

    fn list(&mut self, number: u32) {
        list_one(&mut self.members, &mut self.list, number);
    }

    /// One is not to be looked at. That takes as long as it takes for one alone, however many are.
    fn unlist(&mut self, number: u32) {
        let Set { members, list, .. } = self;
        let Some(Some(Entry { member, place })) = members.get_mut(number) else { return };
        if !member.listed {
            return;
        }
        member.listed = false;
        list.leave(*place);
        if list.is_untidy() {
            list.all.retain(|number| *number != GONE);
            list.gone = 0;
            for (place, number) in (list.first..).zip(&list.all) {
                if let Some(Some(entry)) = members.get_mut(*number) {
                    entry.place = place;
                }
            }
        }
    }

    /// Those at the start of the list were looked at: the numbers of those that reported something
    /// are in `reported`, in the order of the list. With `keep` the others stay.
    pub fn looked(&mut self, count: usize, reported: impl Iterator<Item = u32>, keep: bool) {
        let mut reported = reported.peekable();
        for _ in 0..count {
            let Some(number) = self.list.pop() else { return };
            let Some(Some(Entry { member, .. })) = self.members.get_mut(number) else { continue };
            member.listed = false;
            let stays = if reported.next_if_eq(&number).is_some() {
                if member.events & ONESHOT != 0 {
                    member.events &= FLAGS;
                }
                member.events & (EDGE | ONESHOT) == 0
            } else {
                keep
            };
            if stays {
                self.list(number);
            }
        }
    }
}

fn list_one(members: &mut Slab<Option<Entry>>, list: &mut List, number: u32) {
    let Some(Some(Entry { member, place })) = members.get_mut(number) else { return };
    if !member.listed {
        member.listed = true;
        *place = list.push(number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IN: u32 = 1;
    const OUT: u32 = 4;

    fn listed(set: &Set) -> Vec<u32> {
        set.listed().map(|(number, _)| number).collect()
    }

    #[test]
    fn members_are_descriptor_and_file() {
        let mut set = Set::default();
        let one = set.add(3, 7, IN, 10).unwrap();
        assert_eq!(set.add(3, 7, IN, 10), Err(Refused::Exists));
        let other = set.add(3, 8, IN, 11).unwrap();
        assert_ne!(one, other);
        assert_eq!(set.find(3, 8), Ok(other));
        set.remove(one);
        assert_eq!(set.find(3, 7), Err(Refused::Missing));
        assert_eq!(listed(&set), [other]);
    }

    #[test]
    fn those_who_leave_the_list_leave_the_others_in_order() {
        let (mut set, mut model): (Set, Vec<u32>) = (Set::default(), Vec::new());
        let mut random = 1u32;
        let mut next = |most: usize| {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (random >> 8) as usize % most
        };
        let mut fds: Vec<(i32, u32)> = Vec::new();
        for step in 0..20_000 {
            match next(8) {
                0..3 => {
                    let number = set.add(step, 1, IN | EDGE, 0).unwrap();
                    fds.push((step, number));
                    model.push(number);
                }
                3..6 if !fds.is_empty() => {
                    let (_, number) = fds.swap_remove(next(fds.len()));
                    set.remove(number);
                    model.retain(|listed| *listed != number);
                }
                6 if !fds.is_empty() => {
                    let (_, number) = fds[next(fds.len())];
                    assert!(set.came(number, IN as u16));
                    if !model.contains(&number) {
                        model.push(number);
                    }
                }
                _ => {
                    let count = next(5).min(model.len());
                    set.looked(count, core::iter::empty(), false);
                    model.drain(..count);
                }
            }
            assert_eq!((listed(&set), set.is_quiet()), (model.clone(), model.is_empty()));
            // What has left takes no more room than what is there.
            assert!(set.list.all.len() <= 2 * model.len() + 2 * FEW + 2);
        }
    }

    #[test]
    fn level_stays_edge_and_one_shot_go() {
        let mut set = Set::default();
        let level = set.add(1, 1, IN, 0).unwrap();
        let edge = set.add(2, 2, IN | EDGE, 0).unwrap();
        let once = set.add(3, 3, IN | ONESHOT, 0).unwrap();
        let quiet = set.add(4, 4, IN, 0).unwrap();
        set.looked(4, [level, edge, once].into_iter(), false);
        assert_eq!(listed(&set), [level]);
        assert!(
            set.came(edge, IN as u16) && !set.came(once, IN as u16) && !set.came(quiet, OUT as u16)
        );
        assert_eq!(listed(&set), [level, edge]);
        set.modify(3, 3, IN | ONESHOT, 0).unwrap();
        assert_eq!(listed(&set), [level, edge, once]);
    }

    #[test]
    fn what_is_taken_over_is_as_it_was() {
        let mut set = Set::default();
        let edge = set.add(2, 2, IN | EDGE, 5).unwrap();
        let level = set.add(3, 3, OUT, 6).unwrap();
        set.looked(2, [edge, level].into_iter(), false);
        let mut other = Set::default();
        for number in [edge, level] {
            other.take_over(*set.get(number).unwrap(), 100 + number).unwrap();
        }
        let quiet = other.find(2, 100 + edge).unwrap();
        assert_eq!(listed(&other), [other.find(3, 100 + level).unwrap()]);
        assert!(other.came(quiet, IN as u16));
        assert_eq!(other.get(quiet).unwrap().data, 5);
    }
}
