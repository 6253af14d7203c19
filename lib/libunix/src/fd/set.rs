//! The sets of `epoll`.
//!
//! A set has a list of the members that may have something to report: those that were added or
//! changed, those to which something came since they were found without, and, of the level-triggered
//! ones, those that had something the last time. Only these are looked at when somebody waits, so the
//! others cost nothing, however many they are.
//!
//! A member is the file that the descriptor named when it was added, and leaves with that file, not
//! with the descriptor.

use crate::errno::{Errno, Result};
use alloc::collections::VecDeque;
use alloc::rc::Rc;
use core::cell::RefCell;
use tables::{NoMemory, Slab, Sparse};

/// `EPOLLET`.
const EDGE: u32 = 1 << 31;
/// `EPOLLONESHOT`.
const ONESHOT: u32 = 1 << 30;
/// What is no event: the two above, `EPOLLWAKEUP` and `EPOLLEXCLUSIVE`.
const FLAGS: u32 = 0xf << 28;
/// Events that are always reported.
const ALWAYS: u32 = 0x18;

/// One of a set.
#[derive(Clone, Copy)]
pub struct Member {
    pub fd: i32,
    /// The file that the descriptor named when it was added.
    pub file: u32,
    events: u32,
    /// What the program wants to be told.
    pub data: u64,
    /// It is in the list of those to be looked at.
    listed: bool,
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

/// A set, and whoever uses it.
pub type SharedSet = Rc<RefCell<Set>>;

/// A set.
#[derive(Clone, Default)]
pub struct Set {
    members: Slab<Option<Member>>,
    /// By descriptor and file.
    numbers: Sparse<u32, 4>,
    /// Numbers of those to be looked at. There is room for all members.
    list: VecDeque<u32>,
    /// What the library knows was of this time when all were last listed.
    pub epoch: u32,
}

const fn key(fd: i32, file: u32) -> u64 {
    (fd as u32 as u64) << 32 | file as u64
}

impl Set {
    /// `EPOLL_CTL_ADD`. Answers the member's number.
    pub fn add(&mut self, fd: i32, file: u32, events: u32, data: u64) -> Result<u32> {
        if self.numbers.get(key(fd, file)).is_some() {
            return Err(Errno::EEXIST);
        }
        let member = Member { fd, file, events: events | ALWAYS, data, listed: false };
        self.enter(member).map_err(|_| Errno::ENOMEM)
    }

    fn enter(&mut self, member: Member) -> core::result::Result<u32, NoMemory> {
        let room = self.members.len() + 1 - self.list.len().min(self.members.len());
        self.list.try_reserve(room)?;
        let number = self.members.add(Some(member))?;
        if let Err(error) = self.numbers.insert(key(member.fd, member.file), number) {
            self.members.remove(number);
            return Err(error);
        }
        self.list(number);
        Ok(number)
    }

    /// `EPOLL_CTL_MOD`.
    pub fn modify(&mut self, fd: i32, file: u32, events: u32, data: u64) -> Result<()> {
        let number = *self.numbers.get(key(fd, file)).ok_or(Errno::ENOENT)?;
        if let Some(Some(member)) = self.members.get_mut(number) {
            (member.events, member.data) = (events | ALWAYS, data);
        }
        self.list(number);
        Ok(())
    }

    /// The number of the member that a descriptor stands for.
    pub fn find(&self, fd: i32, file: u32) -> Result<u32> {
        self.numbers.get(key(fd, file)).copied().ok_or(Errno::ENOENT)
    }

    /// Takes a member out.
    pub fn remove(&mut self, number: u32) {
        let Some(member) = self.get(number).copied() else { return };
        if member.listed {
            self.list.retain(|listed| *listed != number);
        }
        self.numbers.remove(key(member.fd, member.file));
        self.members.remove(number);
    }

    /// The member with a number.
    pub fn get(&self, number: u32) -> Option<&Member> {
        self.members.get(number)?.as_ref()
    }

    /// All members with their numbers.
    pub fn members(&self) -> impl Iterator<Item = (u32, &Member)> {
        self.numbers.iter().filter_map(|(_, &number)| Some((number, self.get(number)?)))
    }

    /// Those to be looked at, in this order.
    pub fn listed(&self) -> impl Iterator<Item = (u32, &Member)> {
        self.list.iter().filter_map(|&number| Some((number, self.get(number)?)))
    }

    /// Is there none to be looked at?
    pub fn is_quiet(&self) -> bool {
        self.list.is_empty()
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

    /// Those at the start of the list were looked at: the numbers of those that reported something
    /// are in `reported`, in the order of the list. With `keep` the others stay.
    pub fn looked(&mut self, count: usize, reported: impl Iterator<Item = u32>, keep: bool) {
        let mut reported = reported.peekable();
        for _ in 0..count {
            let Some(number) = self.list.pop_front() else { return };
            let Some(Some(member)) = self.members.get_mut(number) else { continue };
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

fn list_one(members: &mut Slab<Option<Member>>, list: &mut VecDeque<u32>, number: u32) {
    let Some(Some(member)) = members.get_mut(number) else { return };
    if !member.listed {
        member.listed = true;
        list.push_back(number);
    }
}
