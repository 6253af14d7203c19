//! What of Frames is lent: who asks whether nobody else has a Frame, or whether its pages may go home, must know.
//!
//! A Loan is in the database, where its Frame is; that is the count (decision 49). So that nobody
//! looks there for nothing, a Frame's slot has a mark, [`attr::LENT`], which is set when it is lent and says that
//! there *may* be Loans. It is found to be wrong by whoever asks next, not by who ends the last Loan. One of the
//! copies of a Frame has it: when that goes, another gets it. Copies that are made later have it not, as
//! they ask nobody while there are two.
//!
//! This is enough for Frames with `WRITE_ALONE`, in which no others are. What is inside of another Frame, or
//! has one inside, may be lent by that one's capability: of those everything is asked of the database, once
//! a core has lent anything.

use super::alone::is_alone_kind;
use super::{attr, CapExt};
use crate::object::SlotRef;
use captypes::{CapType, Rights, Status};
use mdb::{Class, Policy, RawCap};
use paging::PAGE;

/// The number of the next act of lending of a core.
pub struct Serials(u64);

/// Numbers that are tried before somebody must try again.
const TRIED: u32 = 16;

impl Serials {
    /// Nothing was lent yet.
    pub(super) const fn new() -> Serials {
        Serials(0)
    }

    /// Was anything ever lent?
    #[inline(always)]
    pub(super) fn any(&self) -> bool {
        self.0 != 0
    }

    /// Begins with another number, as if so many had been used.
    #[cfg(test)]
    pub(crate) fn skip(&mut self, count: u64) {
        self.0 += count;
    }
}

/// The pages of which a Loan, or any other capability, has something.
pub fn pages_of(cap: &RawCap) -> (u64, u64) {
    let (base, len) = super::CapPolicy::range(cap);
    (base & !(PAGE - 1), (base + len).next_multiple_of(PAGE))
}

impl super::Db {
    /// Could any part of this memory be lent? Answered by looking at the capability alone.
    #[inline(always)]
    pub fn may_be_lent(&self, cap: &RawCap) -> bool {
        cap.attrs & attr::LENT != 0 || self.serials.any() && !is_alone_kind(cap.rights_set())
    }

    /// In which class everything is that keeps memory. What must look at leaves passes over Mappings, too: only
    /// where there are Loans.
    pub fn keepers(&self) -> Class {
        if self.serials.any() {
            Class::All
        } else {
            Class::Objects
        }
    }

    /// A slot with a Frame that has copies, and the mark, is about to be emptied.
    #[cold]
    #[inline(never)]
    pub(super) fn pass_on_mark(&self, slot: SlotRef) {
        if let Some(other) = self.a_copy(slot) {
            let cap = other.cap();
            other.set_rights(cap.rights, cap.attrs | attr::LENT);
        }
    }

    /// The end of a Loan that begins before `at` and has something of the page at `at`.
    pub fn loan_into(&self, at: u64) -> Option<u64> {
        if !self.serials.any() {
            return None;
        }
        // In the order of their beginnings: those that begin in the page itself are not looked at.
        let leaves = self.overlapping(super::MEMORY, at, PAGE, Class::Leaves);
        let mut before = leaves.map(|slot| slot.cap()).take_while(|cap| cap.base < at);
        before.find(|cap| cap.is(CapType::Loan)).map(|cap| pages_of(&cap).1)
    }

    /// The same as [`CapSpace::is_exclusive`](super::CapSpace::is_exclusive) asks of what has the mark: is a part of it lent? Else
    /// the mark goes.
    #[cold]
    #[inline(never)]
    pub(super) fn is_marked_lent(&self, slot: SlotRef) -> bool {
        let cap = slot.cap();
        // The bit means something else for others.
        if !cap.is(CapType::Frame) {
            return false;
        }
        let lent = self.has_loans(cap.base, cap.word);
        if !lent {
            slot.set_rights(cap.rights, cap.attrs & !attr::LENT);
        }
        lent
    }

    /// Is any part of a Frame lent, by whatever capability?
    #[inline(always)]
    pub(crate) fn is_lent(&self, slot: SlotRef) -> bool {
        self.serials.any() && self.find_loans(slot)
    }

    #[cold]
    #[inline(never)]
    fn find_loans(&self, slot: SlotRef) -> bool {
        let cap = slot.cap();
        cap.is(CapType::Frame) && self.has_loans(cap.base, cap.word)
    }

    /// A number for an act of lending of which all Loans are in `loans`: that there is none with it that begins and
    /// ends like one of them.
    pub(crate) fn new_serial(
        &mut self,
        loans: impl Iterator<Item = RawCap> + Clone,
    ) -> Result<u32, Status> {
        for _ in 0..TRIED {
            self.serials.0 += 1;
            let serial = self.serials.0 as u32;
            let is_used = |cap: RawCap| self.find(&RawCap { aux: serial, ..cap }).is_some();
            // The first four thousand millions are new.
            if self.serials.0 <= u64::from(u32::MAX) || !loans.clone().any(is_used) {
                return Ok(serial);
            }
        }
        Err(Status::Again)
    }

    /// Puts a Loan in the empty slot `dst`, of the Frame in `frame`, and a copy that cannot recall it in another.
    pub(crate) fn insert_loan(
        &mut self,
        frame: SlotRef,
        loan: RawCap,
        dst: SlotRef,
        copy: Option<SlotRef>,
    ) {
        self.insert_near(dst, loan, frame);
        let cap = frame.cap();
        frame.set_rights(cap.rights, cap.attrs | attr::LENT);
        if let Some(copy) = copy {
            let rights = Rights(loan.rights & !Rights::REVOKE.0);
            self.insert_copy(dst, copy, RawCap { rights: rights.0, ..loan });
        }
    }
}
