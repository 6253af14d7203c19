//! `epoll`: a set of descriptors, polled as a whole when somebody waits.
//!
//! Edge-triggered entries behave like level-triggered ones: programs that drain what they are told
//! about get right results, though they may be told more often.

use crate::errno::{Errno, Result};
use alloc::vec::Vec;

/// `EPOLLET`.
const EDGE: u32 = 1 << 31;
/// `EPOLLONESHOT`.
const ONESHOT: u32 = 1 << 30;
/// Events that are always reported.
const ALWAYS: u32 = 0x18;

/// One descriptor of the set.
#[derive(Clone, Copy)]
pub struct Item {
    pub fd: i32,
    /// The file that the descriptor named when it was added: if it names another one now, the
    /// entry is dead.
    pub file: u32,
    events: u32,
    pub data: u64,
}

/// A set.
#[derive(Clone, Default)]
pub struct Epoll {
    pub items: Vec<Item>,
}

impl Epoll {
    fn position(&self, fd: i32, file: u32) -> Option<usize> {
        self.items.iter().position(|i| i.fd == fd && i.file == file)
    }

    /// `EPOLL_CTL_ADD`.
    pub fn add(&mut self, fd: i32, file: u32, events: u32, data: u64) -> Result<()> {
        self.items.retain(|i| i.fd != fd || i.file == file);
        if self.position(fd, file).is_some() {
            return Err(Errno::EEXIST);
        }
        self.items.push(Item { fd, file, events, data });
        Ok(())
    }

    /// `EPOLL_CTL_MOD`.
    pub fn modify(&mut self, fd: i32, file: u32, events: u32, data: u64) -> Result<()> {
        let index = self.position(fd, file).ok_or(Errno::ENOENT)?;
        self.items[index] = Item { fd, file, events, data };
        Ok(())
    }

    /// `EPOLL_CTL_DEL`.
    pub fn remove(&mut self, fd: i32, file: u32) -> Result<()> {
        let index = self.position(fd, file).ok_or(Errno::ENOENT)?;
        self.items.remove(index);
        Ok(())
    }
}

impl Item {
    /// Events to poll for; nothing for a one-shot entry that has fired.
    pub fn wanted(&self) -> u16 {
        self.events as u16
    }

    /// Has the entry been disabled?
    pub fn disabled(&self) -> bool {
        self.events & !(ONESHOT | EDGE) == 0
    }

    /// What to report, given what is ready.
    pub fn report(&mut self, revents: u16) -> u32 {
        let events = revents as u32 & (self.events | ALWAYS);
        if events != 0 && self.events & ONESHOT != 0 {
            self.events &= ONESHOT | EDGE;
        }
        events
    }
}
