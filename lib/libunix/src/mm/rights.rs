//! Rights of pages that a thread takes and gives back without the lock of the library, where it runs.
//!
//! A thread that calls `mprotect` for the same pages again will do so more often: it watches who writes. It is lent their rights
//! ([`glance::Rights`]), and from then on says in a word what they are, and has [the kernel](op::ProtectHere) change the page tables on its own core: neither the
//! lock nor the home of the process is needed. Whoever has the lock and looks at these pages ends that first, as of [addresses](super::leases) that
//! are lent.

use super::{leases, Mm};
use crate::thread::{area, lock};
use abi::layout::PAGE;
use abi::Regs;
use captypes::invocations::MapFlags;
use captypes::op;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use glance::{Rights, MOST_PAGES};
use libos::invoke;
use uvm::Prot;

/// What there is for each thread.
pub struct LentRights {
    lent: Rights<AtomicU64>,
    /// The pages that it has asked about last: the first, and how many. With the lock, like what follows.
    last: [AtomicU64; 2],
    /// All rights that it has asked for there. Pages are lent while they have them: the kernel gives back only what home has given.
    asked: AtomicU32,
    /// How often it has to ask about the same pages until it is lent their rights, and how often it has.
    wanted: AtomicU32,
    seen: AtomicU32,
}

/// Bounds of `wanted`: twice as often after a time that was of little use.
const FEWEST: u32 = 2;
const MOST: u32 = 64;
/// It was of use if they were changed so often.
const WORTH: u64 = 8;

impl LentRights {
    /// Nothing is lent.
    pub const fn new() -> LentRights {
        LentRights {
            lent: Rights::new(AtomicU64::new(0), AtomicU64::new(0)),
            last: [const { AtomicU64::new(0) }; 2],
            asked: AtomicU32::new(0),
            wanted: AtomicU32::new(0),
            seen: AtomicU32::new(0),
        }
    }

    /// The pages whose rights are lent: the first, and how many. With the lock.
    pub fn pages(&self) -> Option<(u64, u64)> {
        self.lent.pages()
    }

    fn wanted(&self) -> u32 {
        self.wanted.load(Relaxed).max(FEWEST)
    }

    /// Ends it, if any are lent. With the lock.
    pub fn end(&self, mm: &mut Mm) {
        let Some(taken) = self.lent.take() else { return };
        let wanted = match taken.uses >= WORTH {
            true => FEWEST,
            false => (self.wanted() * 2).min(MOST),
        };
        self.wanted.store(wanted, Relaxed);
        let Mm { space, caps, .. } = mm;
        let pages = (taken.start, taken.start + taken.pages);
        space.end_lending_rights(caps, pages, Prot(taken.rights));
    }

    /// Is a thread that has asked for these rights of pages just now to be lent them?
    fn is_due(&self, pages: [u64; 2], rights: u32) -> bool {
        let is_again = self.last.iter().zip(pages).all(|(last, new)| last.load(Relaxed) == new);
        let (seen, asked) = match is_again {
            true => (self.seen.load(Relaxed).saturating_add(1), self.asked.load(Relaxed) | rights),
            false => (0, rights),
        };
        self.last.iter().zip(pages).for_each(|(last, new)| last.store(new, Relaxed));
        self.asked.store(asked, Relaxed);
        let is_due = seen >= self.wanted() && rights == asked;
        self.seen.store(if is_due { 0 } else { seen }, Relaxed);
        is_due
    }
}

/// `mprotect` of pages whose rights are lent to the caller.
pub fn own_mprotect(own: &LentRights, regs: &Regs) -> Option<u64> {
    let (at, bytes, rights) = (regs.rdi, regs.rsi, regs.rdx);
    /// What can be read, and written to, or executed, or both.
    const READ: u64 = Prot::READ.0 as u64;
    if rights & READ == 0 || rights > 7 || !at.is_multiple_of(PAGE) {
        return None;
    }
    let changed = own.lent.change(at / PAGE, bytes.div_ceil(PAGE), rights as u8)?;
    let bytes = bytes.next_multiple_of(PAGE);
    let change = op::ProtectHere { at, bytes, flags: MapFlags(rights as u32) };
    invoke(area::own_dispatcher(), change).ok()?;
    own.lent.is(changed).then_some(0)
}

/// The calling thread has changed the rights of these bytes: perhaps it is lent them, to do so again.
#[inline]
pub fn changed(mm: &mut Mm, addr: u64, len: u64, prot: Prot) {
    if lock::is_shared() {
        changed_by_thread(mm, addr, len, prot);
    }
}

#[inline(never)]
fn changed_by_thread(mm: &mut Mm, addr: u64, len: u64, prot: Prot) {
    let (start, pages) = (addr / PAGE, len.div_ceil(PAGE));
    let own = leases::own_rights();
    if !own.is_due([start, pages], prot.0.into()) || pages == 0 || pages > MOST_PAGES {
        return;
    }
    if !mm.userfaults.is_empty() {
        return;
    }
    // Those of other pages, which it does not ask about any more.
    if own.pages().is_some() {
        leases::end_rights(mm, own);
    }
    // Without memory for it all is as it is without.
    let Ok(Some(prot)) = mm.space.lend_rights(start, start + pages) else { return };
    own.lent.give(start, pages, prot.0);
    leases::note_given();
}
