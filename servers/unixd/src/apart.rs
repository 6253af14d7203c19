//! Threads that are apart: `unshare` and `setns` give one of several threads name spaces, and a root and working directory, of its own.
//!
//! What a process has is what those of its threads have that are not apart. While a request of one that is apart is served, its process
//! has what the thread has: whatever asks where the caller is finds that, and what the caller changes is its own. Nothing else is served
//! meanwhile; who asks for another thread asks [`Procs::spaces_of`] and [`Procs::stands_of`].

use crate::nodes::Tree;
use crate::procs::{Pid, Procs, STANDS};
use crate::spaces::InSpaces;
use crate::threads::Tid;
use crate::voices::Speaker;
use crate::volumes::Standing;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::Cell;
use core::sync::atomic::Ordering::Relaxed;
use memfs::{Hidden, Shown};
use unixproto::session::{own_umask, with_own_umask};
use unixproto::Errno;

/// Where threads stand that have it in common. It is held once, as of a process.
type Stands = Rc<Cell<Standing>>;

/// What a thread has that is apart.
struct Apart {
    /// Its name spaces; while it is served, those of its process.
    spaces: InSpaces,
    /// Where it stands, with the threads that it has made since then. `None`: with its process.
    stands: Option<Stands>,
    /// While it is served and stands by itself: where its process stands, and with which others.
    aside: (Standing, Pid),
}

/// All of them.
#[derive(Default)]
pub struct AllApart {
    /// By process and thread.
    all: BTreeMap<(Pid, Tid), Box<Apart>>,
    /// Whose request is being served.
    served: Option<(Pid, Tid)>,
}

/// How it was with a thread before it parted.
pub struct Before {
    was_apart: bool,
    /// If it stands somewhere else now: where it stood.
    stood: Option<Option<Stands>>,
}

impl AllApart {
    /// Is there none?
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Those of a process.
    fn of_process(&self, pid: Pid) -> impl Iterator<Item = (Tid, &Apart)> {
        self.all.range((pid, 0)..=(pid, Tid::MAX)).map(|((_, tid), one)| (*tid, &**one))
    }

    fn of(&self, pid: Pid, tid: Tid) -> Option<&Apart> {
        self.all.get(&(pid, tid)).map(|one| &**one)
    }

    /// The one that is served, if it is of this process.
    fn served_of(&self, pid: Pid) -> Option<&Apart> {
        let served = self.served.filter(|served| served.0 == pid)?;
        self.of(pid, served.1)
    }
}

impl Procs {
    /// The process of the caller has what the caller has, until [`Procs::leave_apart`].
    pub fn enter_apart(&mut self, caller: Speaker) {
        if self.apart.served.is_some() || self.apart.of(caller.pid, caller.tid).is_none() {
            return;
        }
        self.apart.served = Some((caller.pid, caller.tid));
        self.exchange_apart((caller.pid, caller.tid), true);
    }

    /// It has what it had again, and the caller what it has now.
    pub fn leave_apart(&mut self) {
        if let Some(whose) = self.apart.served.take() {
            self.exchange_apart(whose, false);
        }
    }

    fn exchange_apart(&mut self, whose: (Pid, Tid), enters: bool) {
        let Some(mut one) = self.apart.all.remove(&whose) else { return };
        if let Ok(proc) = self.get_mut(whose.0) {
            core::mem::swap(&mut proc.spaces, &mut one.spaces);
            match &one.stands {
                Some(stands) if enters => {
                    one.aside = (proc.stands, proc.common[STANDS]);
                    (proc.stands, proc.common[STANDS]) = (stands.get(), 0);
                }
                Some(stands) => {
                    stands.set(proc.stands);
                    (proc.stands, proc.common[STANDS]) = one.aside;
                }
                None => {}
            }
        }
        self.apart.all.insert(whose, one);
    }

    /// The caller, one of several threads, is apart from here on, and is served as such; `stands`: it stands by itself, too.
    ///
    /// # Errors
    /// `ESRCH`: the process is gone.
    pub fn part(
        &mut self,
        tree: &mut Tree,
        caller: Speaker,
        stands: bool,
    ) -> Result<Before, Errno> {
        let Speaker { pid, tid } = caller;
        let proc = self.get(pid)?;
        let (spaces, here) = (proc.spaces.clone(), (proc.stands, proc.common[STANDS]));
        let was_apart = self.apart.of(pid, tid).is_some();
        let new = || Box::new(Apart { spaces, stands: None, aside: here });
        let one = self.apart.all.entry((pid, tid)).or_insert_with(new);
        self.apart.served = Some((pid, tid));
        if !stands || one.stands.as_ref().is_some_and(|stands| Rc::strong_count(stands) == 1) {
            return Ok(Before { was_apart, stood: None });
        }
        if one.stands.is_none() {
            one.aside = here;
        }
        tree.hold_standing(&here.0);
        let stood = one.stands.replace(Rc::new(Cell::new(here.0)));
        self.get_mut(pid)?.common[STANDS] = 0;
        if stood.is_none() {
            self.set_own_umask(tid, Some(self.umask_of(tid)));
        }
        // What is known of paths is known to all threads.
        self.hide(Hidden::Ways(Shown::To(pid)));
        self.hide_attributes(pid);
        Ok(Before { was_apart, stood: Some(stood) })
    }

    /// The caller has not parted after all. Answers where nobody stands any more.
    pub fn rejoin(&mut self, caller: Speaker, before: Before) -> Option<Standing> {
        let Speaker { pid, tid } = caller;
        let one = self.apart.all.get_mut(&(pid, tid))?;
        let mut left = None;
        if let Some(stood) = before.stood {
            left = one.stands.take().map(|stands| stands.get());
            let aside = one.aside;
            let is_with_process = stood.is_none();
            one.stands = stood;
            if is_with_process {
                self.set_own_umask(tid, None);
                let proc = self.get_mut(pid).ok()?;
                (proc.stands, proc.common[STANDS]) = aside;
            }
        }
        if !before.was_apart {
            self.apart.served = None;
            self.apart.all.remove(&(pid, tid));
        }
        left
    }

    /// A thread that the caller has made is where the caller is.
    pub fn inherit_apart(&mut self, caller: Speaker, made: Tid) {
        let Some(one) = self.apart.of(caller.pid, caller.tid) else { return };
        let Ok(spaces) = self.spaces_of(caller.pid, caller.tid).cloned() else { return };
        let (stands, aside) = (one.stands.clone(), one.aside);
        if stands.is_some() {
            self.set_own_umask(made, Some(self.umask_of(caller.tid)));
        }
        self.apart.all.insert((caller.pid, made), Box::new(Apart { spaces, stands, aside }));
    }

    /// A thread has ended. Answers where nobody stands any more.
    pub fn end_apart(&mut self, pid: Pid, tid: Tid) -> Option<Standing> {
        if self.apart.served == Some((pid, tid)) {
            self.leave_apart();
        }
        let one = self.apart.all.remove(&(pid, tid))?;
        Rc::into_inner(one.stands?).map(Cell::into_inner)
    }

    /// The caller alone of all threads goes on, and its process is where it is. Answers where nobody stands any more.
    pub fn take_over_apart(&mut self, caller: Speaker) -> Vec<Standing> {
        let umask = self.umask_of(caller.tid);
        let Speaker { pid, tid } = caller;
        let all = self.apart.of_process(pid).map(|(tid, _)| tid);
        let others: Vec<Tid> = all.filter(|other| *other != tid).collect();
        let ended = others.into_iter().filter_map(|other| self.end_apart(pid, other));
        let mut left: Vec<_> = ended.collect();
        self.enter_apart(caller);
        if let Some(one) = self.apart.all.remove(&(pid, tid)) {
            self.apart.served = None;
            left.extend(one.stands.is_some().then_some(one.aside.0));
        }
        if let Ok(session) = self.get(pid).and_then(|proc| proc.session()) {
            session.header().umask.store(umask, Relaxed);
        }
        left
    }

    /// The name spaces of a thread.
    ///
    /// # Errors
    /// `ESRCH`: its process is gone.
    pub fn spaces_of(&self, pid: Pid, tid: Tid) -> Result<&InSpaces, Errno> {
        let proc = self.get(pid)?;
        Ok(match (self.apart.of(pid, tid), self.apart.served_of(pid)) {
            (Some(_), _) if self.apart.served == Some((pid, tid)) => &proc.spaces,
            (Some(one), _) | (None, Some(one)) => &one.spaces,
            (None, None) => &proc.spaces,
        })
    }

    /// Where a thread stands.
    ///
    /// # Errors
    /// `ESRCH`: its process is gone.
    pub fn stands_of(&self, pid: Pid, tid: Tid) -> Result<Standing, Errno> {
        let proc = self.get(pid)?;
        let own = self.apart.of(pid, tid).and_then(|one| one.stands.as_ref());
        let served = self.apart.served_of(pid).filter(|one| one.stands.is_some());
        Ok(match (own, served) {
            (Some(_), _) if self.apart.served == Some((pid, tid)) => proc.stands,
            (Some(stands), _) => stands.get(),
            (None, Some(served)) => served.aside.0,
            (None, None) => proc.stands,
        })
    }

    /// How many threads of its process stand where a thread stands.
    pub fn threads_standing_with(&self, pid: Pid, tid: Tid) -> usize {
        match self.apart.of(pid, tid).and_then(|one| one.stands.as_ref()) {
            Some(stands) => Rc::strong_count(stands),
            None => {
                let stands = |tid: &Tid| !self.stands_apart(pid, *tid);
                self.threads_of(pid).iter().filter(|tid| stands(tid)).count()
            }
        }
    }

    /// Does a thread stand elsewhere than its process, as far as that is known?
    pub fn stands_apart(&self, pid: Pid, tid: Tid) -> bool {
        self.apart.of(pid, tid).is_some_and(|one| one.stands.is_some())
    }

    /// Does any thread of a process?
    pub fn has_standing_apart(&self, pid: Pid) -> bool {
        self.apart.of_process(pid).any(|(_, one)| one.stands.is_some())
    }

    /// Changes where processes and threads stand, each standing once.
    pub fn each_standing(&mut self, mut change: impl FnMut(&mut Standing)) {
        let all = self.select(|proc| !proc.is_over());
        for pid in all {
            if let Ok(proc) = self.get_mut(pid) {
                change(&mut proc.stands);
            }
        }
        let served = self.apart.served;
        let mut seen: Vec<*const Cell<Standing>> = Vec::new();
        for (whose, one) in &mut self.apart.all {
            let Some(stands) = &one.stands else { continue };
            if served == Some(*whose) {
                // Its own is that of its process at the moment.
                seen.push(Rc::as_ptr(stands));
                change(&mut one.aside.0);
            }
        }
        for stands in self.apart.all.values().filter_map(|one| one.stands.as_ref()) {
            if seen.contains(&Rc::as_ptr(stands)) {
                continue;
            }
            seen.push(Rc::as_ptr(stands));
            let mut standing = stands.get();
            change(&mut standing);
            stands.set(standing);
        }
    }

    /// The mode creation mask of a thread, as its library says.
    pub fn umask_of(&self, tid: Tid) -> u32 {
        let header = self.session_of(tid).map(|session| session.header());
        if let Some(own) = header.ok().and_then(|header| own_umask(header.umask.load(Relaxed))) {
            return own;
        }
        let first = self.get(self.leader(tid)).and_then(|proc| proc.session());
        first.map_or(0, |session| session.header().umask.load(Relaxed) & 0o777)
    }

    /// Gives a thread a mask of its own, or has it use its process's. (The library may write to the same word, if it is the first
    /// thread's: it changes what it means to change and nothing else.)
    fn set_own_umask(&self, tid: Tid, own: Option<u32>) {
        if let Ok(session) = self.session_of(tid) {
            let change = |word| Some(with_own_umask(word, own));
            // It never refuses.
            let _ = session.header().umask.fetch_update(Relaxed, Relaxed, change);
        }
    }
}
