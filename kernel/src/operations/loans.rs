//! Lending, and its end; and the copies that borrowers have made.
//!
//! A borrower names bytes of a run of Loans, and addresses of its own. The kernel finds the pages by the tables
//! of the borrower, as the processor would, and copies from page to page: so a borrower sees no byte that was
//! not lent, and what it may not write to stays as it is.

use super::delete::{delete_slot, drop_slot};
use crate::cap::{attr, made_attrs, CapExt, CapSpace};
use crate::driver::CpuDriver;
use crate::morsels::while_walking;
use crate::object::{mem, SlotRun, Walk};
use captypes::invocations::{Copied, Count};
use captypes::{CapType, Rights, Status};
use mdb::RawCap;
use paging::PAGE;

/// Most bytes that one invocation copies.
const MOST_COPIED: u64 = 256 << 10;
/// Most Frames that one invocation lends, and most if entries must be looked for that show them.
const MOST_FRAMES: u32 = 128;
const MOST_LOWERED: u32 = 24;
/// Most Loans that begin in a Frame: whoever deletes it must pass over them.
const MOST_LOANS: u32 = 64;
/// Most Mappings, Loans and parts of its Frames that an invocation looks at to count those.
const MOST_PASSED: u32 = 512;

/// What is to be lent of the Frames in some slots.
#[derive(Clone, Copy)]
pub struct Terms {
    /// The first byte, in the first of them.
    pub offset: u64,
    /// How many.
    pub bytes: u64,
    pub rights: Rights,
    /// Do the entries that show them lose the right to write?
    pub lower: bool,
}

/// The attributes of what is lent of a Frame. Parts of that, too, are around a Loan by their range.
fn loan_attrs(frame: u16) -> u16 {
    let parts = frame & attr::REMOTE_DESCENDANTS != 0;
    made_attrs(frame) | if parts { attr::REMOTE_ANCESTORS } else { 0 }
}

impl Terms {
    /// The Loan of what is lent of the Frame `cap`, which has the bytes from `before` on of all Frames.
    fn loan(&self, cap: &RawCap, before: u64, serial: u32) -> RawCap {
        let start = self.offset.saturating_sub(before);
        let end = (self.offset + self.bytes - before).min(cap.word);
        RawCap {
            ty: CapType::Loan as u8,
            rights: self.rights.or(Rights::REVOKE).0,
            attrs: loan_attrs(cap.attrs),
            aux: serial,
            base: cap.base + start,
            word: end - start,
        }
    }

    /// The Loans of all Frames, which were checked.
    fn loans(self, frames: SlotRun, serial: u32) -> impl Iterator<Item = RawCap> + Clone {
        let mut before = 0;
        (0..frames.len()).map(move |n| {
            let cap = frames.get(n).cap();
            let loan = self.loan(&cap, before, serial);
            before += cap.word;
            loan
        })
    }
}

/// Lends a part of the Frames in `frames`; see [`captypes::op::Lend`].
pub fn lend(
    cpu: &mut CpuDriver,
    frames: SlotRun,
    terms: Terms,
    own: SlotRun,
    copies: Option<SlotRun>,
) -> Result<u64, Status> {
    check_frames(&mut cpu.caps, frames, terms)?;
    if !own.all_empty() || copies.is_some_and(|copies| !copies.all_empty()) {
        return Err(Status::Occupied);
    }
    if copies.is_some_and(|copies| copies.meets(own)) {
        return Err(Status::OutOfRange);
    }
    check_room(&cpu.caps, frames)?;
    let loans = terms.loans(frames, 0);
    let serial = cpu.caps.db.new_serial(loans.clone())?;
    if terms.lower && !cpu.vm.lower(&cpu.caps, loans) {
        return Err(Status::OutOfRange);
    }
    for (loan, n) in terms.loans(frames, serial).zip(0..) {
        cpu.caps.db.insert_loan(frames.get(n), loan, own.get(n), copies.map(|run| run.get(n)));
    }
    Ok(u64::from(serial))
}

/// May this be lent?
fn check_frames(caps: &mut CapSpace, frames: SlotRun, terms: Terms) -> Result<(), Status> {
    let both = Rights::READ.or(Rights::WRITE);
    if !terms.rights.has(Rights::READ) || !both.has(terms.rights) {
        return Err(Status::Invalid);
    }
    if frames.len() > if terms.lower { MOST_LOWERED } else { MOST_FRAMES } {
        return Err(Status::OutOfRange);
    }
    let (mut total, mut last) = (0, 0);
    for slot in frames.each() {
        let cap = slot.cap();
        if cap.is_null() {
            return Err(Status::Empty);
        }
        if !cap.is(CapType::Frame) {
            return Err(Status::WrongType);
        }
        if cap.attrs & attr::FOREIGN != 0 {
            return Err(Status::Unsupported);
        }
        if !cap.rights_set().has(terms.rights) {
            return Err(Status::NoRights);
        }
        caps.check_lock(slot)?;
        total += cap.word;
        last = cap.word;
    }
    let end = terms.offset.checked_add(terms.bytes).ok_or(Status::OutOfRange)?;
    let first = if frames.is_empty() { 0 } else { frames.first().cap().word };
    let inside = terms.bytes != 0 && terms.offset < first && end <= total && end > total - last;
    if inside {
        Ok(())
    } else {
        Err(Status::OutOfRange)
    }
}

/// May each Frame have one Loan more? Of one that nobody else has, and of which nothing was lent, that is
/// known without a look.
fn check_room(caps: &CapSpace, frames: SlotRun) -> Result<(), Status> {
    let mut left = MOST_PASSED;
    for slot in frames.each() {
        let cap = slot.cap();
        if !caps.db.may_be_lent(&cap) && !caps.db.has_copies(slot) {
            continue;
        }
        let (mut loans, end) = (0, cap.base + cap.word);
        let mut next = caps.db.next_before(slot, end);
        while let Some(at) = next {
            loans += u32::from(at.cap().is(CapType::Loan));
            left -= 1;
            if loans == MOST_LOANS || left == 0 {
                return Err(Status::OutOfRange);
            }
            next = caps.db.next_before(at, end);
        }
    }
    Ok(())
}

/// Ends what the Loans in `slots` lend; see [`captypes::op::Recall`].
pub fn recall(cpu: &mut CpuDriver, slots: SlotRun) -> Result<Count, Status> {
    for slot in slots.each() {
        let cap = slot.cap();
        if !cap.is_null() && !cap.is(CapType::Loan) {
            return Err(Status::WrongType);
        }
        if !cap.is_null() && !cap.rights_set().has(Rights::REVOKE) {
            return Err(Status::NoRights);
        }
    }
    let (mut count, mut at) = (0, slots.next_filled(0));
    while at < slots.len() {
        let slot = slots.get(at);
        while let Some(copy) = cpu.caps.db.a_copy(slot) {
            if !cpu.caps.spend(1) {
                return Err(Status::Again);
            }
            drop_slot(&mut cpu.caps, &mut cpu.sched, copy);
        }
        delete_slot(cpu, slot)?;
        count += 1;
        at = slots.next_filled(at + 1);
    }
    Ok(Count { count })
}

/// What is to be copied between lent bytes and memory of a borrower.
#[derive(Clone, Copy)]
pub struct Transfer {
    /// The root of the borrower's tables.
    pub root: u64,
    /// The first byte in the run of Loans.
    pub offset: u64,
    /// The address of the borrower.
    pub va: u64,
    pub bytes: u64,
}

/// The rest of a run of Loans.
struct Lent {
    slots: SlotRun,
    /// Which slot is looked at, and what it holds.
    at: u32,
    cap: RawCap,
    /// What is still to be passed over in that.
    skip: u64,
    right: Rights,
}

impl Lent {
    fn new(slots: SlotRun, offset: u64, right: Rights) -> Lent {
        Lent { slots, at: 0, cap: slots.first().cap(), skip: offset, right }
    }

    /// Where the next byte is, and how many there are in the same page; `None` at the end of the run.
    #[inline]
    fn piece(&mut self) -> Option<(u64, u64)> {
        while self.skip >= self.cap.word {
            self.skip -= self.cap.word;
            self.at += 1;
            if self.at >= self.slots.len() {
                return None;
            }
            let next = self.slots.get(self.at).cap();
            let same = next.is(CapType::Loan) && next.aux == self.cap.aux;
            if !same || !next.rights_set().has(self.right) {
                // It stays at its end.
                self.slots = self.slots.part(0, self.at);
                return None;
            }
            self.cap = next;
        }
        let at = self.cap.base + self.skip;
        Some((at, (self.cap.word - self.skip).min(PAGE - at % PAGE)))
    }
}

/// Copies what was lent with `READ` to the borrower; see [`captypes::op::CopyOut`].
pub fn copy_out(cpu: &mut CpuDriver, slots: SlotRun, transfer: Transfer) -> Copied {
    let lent = Lent::new(slots, transfer.offset, Rights::READ);
    let mut walk = Walk::new(transfer.root, true);
    let _allowed = cpu.sched.vector_unit().borrow();
    while_walking(cpu.core, || {
        copy(lent, transfer, |va| walk.page(va), |theirs, own, n| mem::copy_bytes(own, theirs, n))
    })
}

/// Copies what the borrower has to what was lent with `WRITE`; see [`captypes::op::CopyIn`].
pub fn copy_in(cpu: &mut CpuDriver, slots: SlotRun, transfer: Transfer) -> Copied {
    let lent = Lent::new(slots, transfer.offset, Rights::WRITE);
    let mut walk = Walk::new(transfer.root, false);
    let _allowed = cpu.sched.vector_unit().borrow();
    while_walking(cpu.core, || copy(lent, transfer, |va| walk.page(va), mem::copy_bytes))
}

/// Piece by piece: `step` copies so many bytes between the lent ones and those of the borrower at
/// the physical address that `page` finds.
fn copy(
    mut lent: Lent,
    transfer: Transfer,
    mut page: impl FnMut(u64) -> Option<(u64, u64)>,
    step: impl Fn(u64, u64, u64),
) -> Copied {
    let limit = transfer.bytes.min(MOST_COPIED);
    let mut done = 0;
    while done < limit {
        let Some((theirs, there)) = lent.piece() else { return Copied { bytes: done, short: 1 } };
        let Some((own, here)) = page(transfer.va.wrapping_add(done)) else {
            return Copied { bytes: done, short: 2 };
        };
        let bytes = there.min(here).min(limit - done);
        step(theirs, own, bytes);
        lent.skip += bytes;
        done += bytes;
    }
    Copied { bytes: done, short: 0 }
}
