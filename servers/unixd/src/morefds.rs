//! Descriptors of processes that headers of sessions have no room for: what each names.
//!
//! A library tells of changes in its session's [`MoreFds`]; they are taken here when somebody looks, or there is no room for more. What it tells is
//! believed as far as what the process holds, and no further: it is shown, and nothing else hangs on it.

use crate::procs::{Pid, Proc, Procs, FILES, HELD_MAX};
use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::sync::atomic::Ordering::Relaxed;
use piecewise::{Limits, Shares};
use unixproto::session::{own, MoreFds, SHOWN_FDS};
use unixproto::Errno;

/// Those of all processes together.
const ALL: usize = 1 << 19;

/// How many each user has.
#[derive(Clone)]
pub struct Account(Rc<RefCell<Shares>>);

impl Default for Account {
    fn default() -> Account {
        Account(Rc::new(RefCell::new(Shares::new(Limits::of(ALL)))))
    }
}

/// Those of a process.
#[derive(Default)]
pub struct Fds(RefCell<Shown>);

#[derive(Default)]
struct Shown {
    all: BTreeMap<u32, u32>,
    /// Who has been charged for them.
    payer: Option<(u32, Account)>,
}

impl Shown {
    /// Those for which the user has no room are not shown.
    fn set(&mut self, (uid, account): (u32, &Account), fd: u32, names: u32) {
        if names == 0 {
            if self.all.remove(&fd).is_some() {
                self.pay(|shares, uid| shares.give_back(uid, 1));
            }
            return;
        }
        if let Some(place) = self.all.get_mut(&fd) {
            *place = names;
            return;
        }
        let (uid, account) = self.payer.get_or_insert_with(|| (uid, account.clone()));
        let mut shares = account.0.borrow_mut();
        if self.all.len() < HELD_MAX && shares.has_room(*uid, 1) {
            shares.take(*uid, 1);
            self.all.insert(fd, names);
        }
    }

    fn pay(&self, change: impl FnOnce(&mut Shares, u32)) {
        if let Some((uid, account)) = &self.payer {
            change(&mut account.0.borrow_mut(), *uid);
        }
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        self.pay(|shares, uid| shares.give_back(uid, self.all.len()));
    }
}

impl Fds {
    /// Takes what has been told, for a user.
    fn take(&self, told: &MoreFds, payer: (u32, &Account)) {
        let mut shown = self.0.borrow_mut();
        told.take(|fd, names| {
            if fd as usize >= SHOWN_FDS && fd <= i32::MAX as u32 {
                shown.set(payer, fd, names);
            }
        });
    }

    /// What a descriptor names.
    fn get(&self, fd: u32) -> Option<u32> {
        self.0.borrow().all.get(&fd).copied()
    }

    /// So many from a descriptor on.
    fn from(&self, first: u32, most: usize) -> Vec<(u32, u32)> {
        self.0.borrow().all.range(first..).take(most).map(|(fd, names)| (*fd, *names)).collect()
    }

    fn is_empty(&self) -> bool {
        self.0.borrow().all.is_empty()
    }

    /// The same of a child, for a user.
    fn inherited(&self, payer: (u32, &Account)) -> Fds {
        let (child, shown) = (Fds::default(), self.0.borrow());
        for (fd, names) in &shown.all {
            child.0.borrow_mut().set(payer, *fd, *names);
        }
        drop(shown);
        child
    }
}

/// What is shown of a descriptor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ShownFd {
    /// It names a description.
    Desc(u32),
    /// It names something that the process's library keeps, which `/proc` calls this.
    Own(&'static str),
}

impl Procs {
    /// Takes what a process has told of its descriptors, and answers where it is.
    fn fds_of<'a>(&self, proc: &'a Proc) -> Result<&'a Fds, Errno> {
        let payer = (proc.cred().uid, &self.shown_fds);
        proc.more_fds.take(proc.session()?.more_fds(), payer);
        Ok(&proc.more_fds)
    }

    /// The same of a process and of those who have descriptors in common with it.
    pub fn take_fds(&self, pid: Pid) -> Result<(), Errno> {
        let common = self.get(pid)?.common[FILES];
        let has = |proc: &&Proc| proc.pid == pid || common != 0 && proc.common[FILES] == common;
        // One that has ended has told nothing more.
        for proc in self.iter().filter(has) {
            let _ = self.fds_of(proc);
        }
        Ok(())
    }

    /// What a descriptor of a process names, as its library shows it; whether it holds that is to be seen.
    pub fn shown_fd(&self, proc: &Proc, fd: u32) -> Option<ShownFd> {
        let session = proc.session().ok()?;
        let names = match session.header().fds.get(fd as usize) {
            Some(cell) => cell.load(Relaxed),
            None => self.fds_of(proc).ok()?.get(fd)?,
        };
        Some(own::name(names).map_or(ShownFd::Desc(names), ShownFd::Own))
    }

    /// Descriptors of a process from one on, in order: at most so many, of which all need not be there any more.
    pub fn shown_fds(&self, proc: &Proc, first: u32, most: usize) -> Result<Vec<u32>, Errno> {
        let header = proc.session()?.header();
        let few =
            (first..SHOWN_FDS as u32).filter(|fd| header.fds[*fd as usize].load(Relaxed) != 0);
        let more = self.fds_of(proc)?.from(first, most);
        Ok(few.chain(more.into_iter().map(|(fd, _)| fd)).take(most).collect())
    }

    /// A child has the descriptors of its parent.
    pub fn inherit_fds(&mut self, parent: Pid, child: Pid) {
        // Without a session it has told nothing.
        let Ok(fds) = self.get(parent).and_then(|parent| self.fds_of(parent)) else { return };
        if fds.is_empty() {
            return;
        }
        let of_child = fds.inherited((self.cred(child).uid, &self.shown_fds));
        if let Ok(child) = self.get_mut(child) {
            child.more_fds = of_child;
        }
    }
}
