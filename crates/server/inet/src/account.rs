//! What users have of something, in all network name spaces together: whoever makes many of them has no more than in one.

use alloc::rc::Rc;
use core::cell::RefCell;
use piecewise::{Limits, Shares};

/// An account that several [`Inet`](crate::Inet)s write to.
#[derive(Clone)]
pub(crate) struct Account(Rc<RefCell<Shares>>);

impl Account {
    pub fn new(limits: Limits) -> Account {
        Account(Rc::new(RefCell::new(Shares::new(limits))))
    }

    /// May a user have `count` more?
    pub fn has_room(&self, user: u32, count: usize) -> bool {
        self.0.borrow().has_room(user, count)
    }

    /// A user has `count` more.
    pub fn take(&self, user: u32, count: usize) {
        self.0.borrow_mut().take(user, count);
    }

    /// A user has `count` less.
    pub fn give_back(&self, user: u32, count: usize) {
        self.0.borrow_mut().give_back(user, count);
    }

    /// How much all users have.
    #[cfg(test)]
    pub fn taken(&self) -> usize {
        self.0.borrow().taken()
    }
}
