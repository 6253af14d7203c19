//! TLB shootdown: how a core has others forget what they have cached of page tables.
//!
//! Each core has a [`Port`] that all may see. On it the core says which root page table its processor
//! has loaded, so that nobody is asked in vain; and there it is asked, and answered.
//!
//! ```text
//!  core that takes a right away               another core
//!  ────────────────────────────               ────────────
//!  changes entries                            change_root:  root ← CHANGING
//!  concerned: fence, reads hosts, roots                     loads CR3
//!  ask: what to forget → own port                           root ← the new one
//!       whom → `unanswered`
//!       own bit → their `askers` ─ interrupt ─►  answer:  takes `askers`
//!  waits until nobody is `unanswered`                       reads what each wants, forgets it
//!  (and answers others meanwhile)  ◄──────────────────────  own bit out of their `unanswered`
//! ```
//!
//! **Nobody is missed.** A core publishes that its root changes before it loads one, and the load is
//! a barrier; the other stores to entries and reads the roots with a barrier between. So either it
//! sees the root and asks, or the other's walks see what is in the tables now. In the same way, whoever
//! sends a dispatcher to another core says so before ([`Port::goes_to`]): only cores that were sent one
//! are looked at, however many there are.
//!
//! **Nobody walks what is gone.** A processor reads page tables on its own account, and writes
//! accessed bits, as long as their root is loaded. So a root is published until the next one *has*
//! been loaded, and who sees [`Port::root`] in between waits for the outcome. A table that no published
//! root reaches any more, and that all have answered for, may become anything else.
//!
//! **A core that walks by itself is a processor, too.** To copy for a dispatcher of another core, a kernel reads that core's tables
//! without having loaded their root. It says so before ([`Port::walk`]), as if it had; it caches what it finds as long as it
//! does so, and answers afterwards.
//!
//! **Nobody waits for ever.** Between being asked and answering, a core does only what is bounded, or
//! waits for others and answers meanwhile. A core waits for one set of answers at a time, so one port
//! for each is enough; there are no locks. Whoever asks a core that nobody asks at the moment
//! interrupts it; one that joins later needs not.
//!
//! The pure protocol is here, and its tests run it in [loom](https://docs.rs/loom); what to ask and of
//! whom is the kernel's `vspace::shootdown`. It has no processor context identifiers: only translations
//! of the root that is loaded are cached.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

mod pages;
mod sync;
#[cfg(test)]
mod tests;

pub use pages::{Forget, Pages, Request, MOST_RANGES};

use sync::{fence, relax, AtomicU64, Ordering};

/// Most cores.
pub const MAX_CORES: usize = 64;

/// Most roots that a core walks itself at the same time: from one address space to another.
pub const MOST_WALKS: usize = 2;

/// The root while it changes. No root is there: they are pages.
const CHANGING: u64 = 1;
/// Instead of a number of ranges: everything is to be forgotten.
const EVERYTHING: u64 = u64::MAX;

/// What a core shows the others.
pub struct Port {
    /// Physical address of the root page table that is loaded, 0 for the kernel's own, or
    /// [`CHANGING`]. Its core writes it.
    root: AtomicU64,
    /// Roots of other cores that the core walks itself, 0 for none. It writes them.
    walks: [AtomicU64; MOST_WALKS],
    /// The cores that want something of this one. Each sets its own bit; this one takes them all.
    askers: AtomicU64,
    /// The cores that this one waits for. It writes them when there are none; then each clears its own
    /// bit.
    unanswered: AtomicU64,
    /// What they are to forget: so many of `pages`, or [`EVERYTHING`]. Written by this core while
    /// nobody is unanswered, and published by its bit in `askers` of others.
    ranges: AtomicU64,
    pages: [AtomicU64; MOST_RANGES],
    /// The cores that dispatchers of this core, with its page tables, are at or were since they were all
    /// at home. Set by whoever sends one to a core, which may be another core that has one.
    hosts: AtomicU64,
}

impl Port {
    /// A core with the kernel's own root loaded, of which nobody wants anything.
    #[cfg(not(test))]
    pub const fn new() -> Port {
        Port {
            root: AtomicU64::new(0),
            walks: [const { AtomicU64::new(0) }; MOST_WALKS],
            askers: AtomicU64::new(0),
            unanswered: AtomicU64::new(0),
            ranges: AtomicU64::new(0),
            pages: [const { AtomicU64::new(0) }; MOST_RANGES],
            hosts: AtomicU64::new(0),
        }
    }

    /// A dispatcher with page tables of this core will go to `core`. To be called by whoever has it, before
    /// it goes.
    #[inline]
    pub fn goes_to(&self, core: usize) {
        // Once set it stays while a dispatcher is away.
        if self.hosts.load(Ordering::Relaxed) & bit(core) == 0 {
            self.hosts.fetch_or(bit(core), Ordering::SeqCst);
        }
    }

    /// All dispatchers with page tables of this core are at home, for this core to know.
    #[inline]
    pub fn all_are_home(&self) {
        self.hosts.store(0, Ordering::Relaxed);
    }

    /// Makes `root`, 0 for the kernel's own, the one that this core's processor has. `load` makes it so,
    /// and is a barrier for every access to memory (as loading CR3 is).
    #[inline]
    pub fn change_root(&self, root: u64, load: impl FnOnce()) {
        self.root.store(CHANGING, Ordering::Relaxed);
        load();
        self.root.store(root, Ordering::Release);
    }

    /// The root that the core has loaded, 0 for the kernel's own. While it changes this waits for the
    /// next, which takes a core a few instructions.
    #[inline]
    pub fn root(&self) -> u64 {
        loop {
            match self.root.load(Ordering::Acquire) {
                CHANGING => relax(),
                root => return root,
            }
        }
    }

    /// This core is going to read page tables below `roots`, 0 for none, which belong to cores that have sent a dispatcher here.
    /// It may use what it finds until the answer is dropped, and answers nobody meanwhile.
    #[must_use]
    pub fn walk(&self, roots: [u64; MOST_WALKS]) -> Walking<'_> {
        for (walk, root) in self.walks.iter().zip(roots) {
            walk.store(root, Ordering::Relaxed);
        }
        fence(Ordering::SeqCst);
        Walking(self)
    }

    /// Does the core have this root, which is not 0: has its processor loaded it, or does it walk it?
    pub fn has(&self, root: u64) -> bool {
        self.has_one(|loaded| loaded == root)
    }

    /// The same of one of some roots.
    pub fn has_one(&self, of: impl Fn(u64) -> bool) -> bool {
        let root = self.root();
        root != 0 && of(root) || self.walks_one(of)
    }

    /// Does it walk one of some roots?
    #[inline]
    fn walks_one(&self, of: impl Fn(u64) -> bool) -> bool {
        let mut walks = self.walks.iter().map(|walk| walk.load(Ordering::Acquire));
        walks.any(|root| root != 0 && of(root))
    }

    /// This core, number `me`, wants that the cores `whom`, a set that is not empty and without itself,
    /// forget `what`. `port` knows the others; `interrupt` is called for those that would not look.
    ///
    /// It may not ask again before [`is_answered`](Port::is_answered).
    pub fn ask<'a>(
        &self,
        me: usize,
        whom: u64,
        what: &Forget,
        port: impl Fn(usize) -> &'a Port,
        mut interrupt: impl FnMut(usize),
    ) {
        debug_assert!(self.is_answered() && whom != 0 && whom & bit(me) == 0);
        match what.pages() {
            Some(pages) => {
                for (place, range) in self.pages.iter().zip(pages) {
                    place.store(range.to_word(), Ordering::Relaxed);
                }
                self.ranges.store(pages.len() as u64, Ordering::Relaxed);
            }
            None => self.ranges.store(EVERYTHING, Ordering::Relaxed),
        }
        self.unanswered.store(whom, Ordering::Relaxed);
        for core in members(whom) {
            if port(core).askers.fetch_or(bit(me), Ordering::Release) == 0 {
                interrupt(core);
            }
        }
    }

    /// Have all answered?
    #[inline]
    pub fn is_answered(&self) -> bool {
        self.unanswered.load(Ordering::Acquire) == 0
    }

    /// Answers everybody who has asked this core, number `me`, after `forget` has done it. Returns how
    /// many there were.
    #[inline]
    pub fn answer<'a>(
        &self,
        me: usize,
        port: impl Fn(usize) -> &'a Port,
        forget: impl FnMut(Request),
    ) -> u32 {
        if self.askers.load(Ordering::Relaxed) == 0 {
            return 0;
        }
        self.answer_all(me, port, forget)
    }

    #[inline(never)]
    fn answer_all<'a>(
        &self,
        me: usize,
        port: impl Fn(usize) -> &'a Port,
        mut forget: impl FnMut(Request),
    ) -> u32 {
        let askers = self.askers.swap(0, Ordering::Acquire);
        for core in members(askers) {
            let asker = port(core);
            asker.for_each_request(&mut forget);
            asker.unanswered.fetch_and(!bit(me), Ordering::Release);
        }
        askers.count_ones()
    }

    fn for_each_request(&self, forget: &mut impl FnMut(Request)) {
        let ranges = self.ranges.load(Ordering::Relaxed);
        if ranges == EVERYTHING {
            return forget(Request::Everything);
        }
        for range in self.pages.iter().take(ranges as usize) {
            forget(Request::Pages(Pages::from_word(range.load(Ordering::Relaxed))));
        }
    }
}

/// A core reads page tables of others.
pub struct Walking<'a>(&'a Port);

impl Drop for Walking<'_> {
    fn drop(&mut self) {
        self.0.walks.iter().for_each(|walk| walk.store(0, Ordering::Release));
    }
}

impl Default for Port {
    fn default() -> Self {
        Self::new()
    }
}

/// The cores which have a root loaded, or walk one, that is `affected`, of those that have dispatchers of core `home`, and
/// without it; as a set. Entries that were changed before this call are seen by whoever is not in it.
pub fn concerned<'a>(
    home: usize,
    port: impl Fn(usize) -> &'a Port,
    affected: impl Fn(u64) -> bool,
) -> u64 {
    fence(Ordering::SeqCst);
    let hosts = port(home).hosts.load(Ordering::Relaxed) & !bit(home);
    members(hosts).fold(
        0,
        |set, core| {
            if port(core).has_one(&affected) {
                set | bit(core)
            } else {
                set
            }
        },
    )
}

/// All of the first `count` cores that have the root of somebody loaded, without `me`; as a set. Likewise.
pub fn running<'a>(me: usize, count: usize, port: impl Fn(usize) -> &'a Port) -> u64 {
    fence(Ordering::SeqCst);
    let others = (0..count).filter(|&core| core != me);
    others.filter(|&core| port(core).root() != 0).fold(0, |set, core| set | bit(core))
}

/// The set with one core.
#[inline]
const fn bit(core: usize) -> u64 {
    1 << core
}

/// The cores of a set.
fn members(mut set: u64) -> impl Iterator<Item = usize> {
    core::iter::from_fn(move || {
        let first = (set != 0).then(|| set.trailing_zeros() as usize);
        set &= set.wrapping_sub(1);
        first
    })
}
