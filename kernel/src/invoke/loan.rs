//! Invocations of Frames and Loans: lending, and what is done with what was lent.

use super::{handlers, run, survived, Outcome};
use crate::cap::lookup::{slots, slots_from, slots_to_change};
use crate::cap::CapExt;
use crate::driver::CpuDriver;
use crate::object::{DcbRef, SlotRun};
use crate::operations::loans::{copy_in, copy_out, lend, recall, Terms, Transfer};
use captypes::invocations::{FrameOp, LoanOp, Value};
use captypes::{op, CapType, Invocation, Place, Status};

/// Of Frames.
#[inline(always)]
pub(super) fn dispatch(local: &mut CpuDriver, dcb: DcbRef, op: FrameOp) -> Outcome {
    match op {
        FrameOp::Lend => lend_frames(local, dcb),
    }
}

/// Of Loans.
#[inline(always)]
pub(super) fn dispatch_loan(local: &mut CpuDriver, dcb: DcbRef, op: LoanOp) -> Outcome {
    match op {
        LoanOp::Recall => {
            local.caps.budget.begin();
            let outcome = recall_loans(local, dcb);
            survived(local, dcb, outcome)
        }
        LoanOp::CopyOut => copy_from_loan(local, dcb),
        LoanOp::CopyIn => copy_to_loan(local, dcb),
    }
}

handlers! {
    lend_frames(Lend) = |local, d, target, a| {
        let frames = slots(d, target, a.count)?;
        let own = slots_to_change(&local.caps, d, a.dst, a.count)?;
        let copies = match a.copies {
            Place::NULL => None,
            place => Some(slots_to_change(&local.caps, d, place, a.count)?),
        };
        let terms =
            Terms { offset: a.offset, bytes: a.bytes, rights: a.rights, lower: a.lower };
        lend(local, frames, terms, own, copies).map(|value| Value { value })
    };
    recall_loans(Recall) = |local, d, target, a| {
        recall(local, slots_to_change(&local.caps, d, target, a.count)?)
    };
    copy_from_loan(CopyOut) = |local, d, target, a| {
        let slots = run_of::<op::CopyOut>(d, target)?;
        let (root, bytes) = (d.root.get(), a.bytes);
        let transfer = Transfer { root, offset: a.offset, va: a.to, bytes };
        Ok(copy_out(local, slots, transfer))
    };
    copy_to_loan(CopyIn) = |local, d, target, a| {
        let slots = run_of::<op::CopyIn>(d, target)?;
        let (root, bytes) = (d.root.get(), a.bytes);
        let transfer = Transfer { root, offset: a.offset, va: a.from, bytes };
        Ok(copy_in(local, slots, transfer))
    };
}

/// The slots in which a run of Loans may be, that begins with one of which the operation may be done.
#[inline]
fn run_of<I: Invocation>(dcb: DcbRef, target: Place) -> Result<SlotRun, Status> {
    let slots = slots_from(dcb, target)?;
    let cap = slots.first().cap();
    if cap.is_null() {
        Err(Status::Empty)
    } else if !cap.is(CapType::Loan) {
        Err(Status::WrongType)
    } else if !cap.rights_set().has(I::NEEDS) {
        Err(Status::NoRights)
    } else {
        Ok(slots)
    }
}
