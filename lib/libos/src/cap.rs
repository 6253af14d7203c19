//! Operations on capabilities, as methods of the slots that hold them.
//!
//! `slot.retype(CapType::Frame, 0, 4096, 1, dst)` is `invoke(slot, op::Retype { … })`. `Again` is
//! repeated here, so that callers see only success and true errors. Whoever must stay responsive
//! in between invokes the operation itself.

use crate::invoke;
use captypes::invocations::{Copied, Identity, MapFlags, Part, StatusBits};
use captypes::place::L2_SLOTS;
use captypes::{op, CapAddr, CapType, ObjectKind, Place, Rights, Status};

/// Changes the rights of so many Mappings that it takes several invocations.
#[cold]
fn protect_halves(first: Place, count: u32, flags: MapFlags) -> Result<u32, Status> {
    let half = count / 2;
    let done = first.protect_many(half, flags)?;
    Ok(done + first.plus(half).protect_many(count - half, flags)?)
}

/// Repeats `step` while it answers `Again`.
#[inline(always)]
pub(crate) fn until_done<T>(mut step: impl FnMut() -> Result<T, Status>) -> Result<T, Status> {
    loop {
        match step() {
            Err(Status::Again) => {}
            done => return done,
        }
    }
}

/// A slot, by its address in the own CSpace or by its place in any.
pub trait Cap: Into<Place> + Copy {
    /// This slot as a place.
    #[inline(always)]
    fn place(self) -> Place {
        self.into()
    }

    /// [`op::Copy`]
    #[inline(always)]
    fn copy_to(self, dst: impl Into<Place>) -> Result<(), Status> {
        invoke(self, op::Copy { dst: dst.into() })
    }

    /// [`op::Mint`] without a badge.
    #[inline(always)]
    fn mint(self, dst: impl Into<Place>, rights: Rights) -> Result<(), Status> {
        invoke(self, op::Mint { dst: dst.into(), rights, badge: 0 })
    }

    /// [`op::Mint`] of an Endpoint.
    #[inline(always)]
    fn mint_badged(self, dst: impl Into<Place>, rights: Rights, badge: u32) -> Result<(), Status> {
        invoke(self, op::Mint { dst: dst.into(), rights, badge })
    }

    /// [`op::Move`]
    #[inline(always)]
    fn move_to(self, dst: impl Into<Place>) -> Result<(), Status> {
        invoke(self, op::Move { dst: dst.into() })
    }

    /// [`op::Retype`]
    #[inline(always)]
    fn retype(
        self,
        ty: impl Into<ObjectKind>,
        offset: u64,
        bytes: u64,
        count: u32,
        dst: impl Into<Place>,
    ) -> Result<(), Status> {
        let (ty, dst) = (ty.into(), dst.into());
        until_done(|| invoke(self, op::Retype { ty, offset, bytes, count, dst }))
    }

    /// [`op::RetypeMany`]; answers the number of objects.
    #[inline(always)]
    fn retype_many(self, dst: impl Into<Place>, parts: [Part; Part::MOST]) -> Result<u32, Status> {
        let [p0, p1, p2, p3, p4, p5, p6] = parts;
        let args = op::RetypeMany { dst: dst.into(), p0, p1, p2, p3, p4, p5, p6 };
        invoke(self, args).map(|done| done.count)
    }

    /// [`op::Resize`], on a root CNode, to its end.
    #[inline(always)]
    fn resize(self, root: impl Into<Place>) -> Result<(), Status> {
        let root = root.into();
        until_done(|| invoke(self, op::Resize { root }))
    }

    /// [`op::Compare`]: do both slots hold the same object?
    #[inline(always)]
    fn is_same(self, other: impl Into<Place>) -> Result<bool, Status> {
        invoke(self, op::Compare { other: other.into() }).map(|reply| reply.value == 1)
    }

    /// [`op::NewId`]: answers the number.
    #[inline(always)]
    fn new_id(self, dst: impl Into<Place>) -> Result<u64, Status> {
        invoke(self, op::NewId { dst: dst.into() }).map(|reply| reply.value)
    }

    /// [`op::RetypeCopy`]
    #[inline(always)]
    fn retype_copy(
        self,
        offset: u64,
        src: impl Into<Place>,
        dst: impl Into<Place>,
    ) -> Result<(), Status> {
        let (src, dst) = (src.into(), dst.into());
        invoke(self, op::RetypeCopy { offset, src, src_offset: 0, dst, bytes: 4096, alone: false })
    }

    /// [`op::Delete`], to its end.
    #[inline(always)]
    fn delete(self) -> Result<(), Status> {
        until_done(|| invoke(self, op::Delete {}))
    }

    /// Deletes what the slot holds, if anything, and what nobody will ask for. There is nothing to do about an
    /// error: an empty slot is as good as an emptied one, and a slot that stays full refuses what is
    /// put there next.
    #[inline(always)]
    fn discard(self) {
        let _ = self.delete();
    }

    /// [`op::DeleteRange`], to its end, of any number of slots.
    #[inline(always)]
    fn delete_range(self, count: u32) -> Result<(), Status> {
        let first = self.place();
        for done in (0..count).step_by(L2_SLOTS as usize) {
            let count = (count - done).min(L2_SLOTS);
            until_done(|| invoke(first.plus(done), op::DeleteRange { count }))?;
        }
        Ok(())
    }

    /// [`op::Revoke`], to its end.
    #[inline(always)]
    fn revoke(self) -> Result<(), Status> {
        until_done(|| invoke(self, op::Revoke {}))
    }

    /// [`op::Identify`]
    #[inline(always)]
    fn identify(self) -> Result<Identity, Status> {
        invoke(self, op::Identify {})
    }

    /// [`op::CopyRange`]
    #[inline(always)]
    fn copy_range(self, dst: impl Into<Place>, count: u32, only: CapType) -> Result<u32, Status> {
        invoke(self, op::CopyRange { dst: dst.into(), count, only }).map(|done| done.count)
    }

    /// [`op::Lend`], on the first of some Frames. Answers the number of the Loans.
    #[inline(always)]
    fn lend(self, terms: op::Lend) -> Result<u64, Status> {
        invoke(self, terms).map(|reply| reply.value)
    }

    /// [`op::Recall`], on the first of some Loans, to its end.
    #[inline(always)]
    fn recall(self, count: u32) -> Result<(), Status> {
        until_done(|| invoke(self, op::Recall { count })).map(drop)
    }

    /// [`op::CopyOut`], on the first Loan of a run.
    #[inline(always)]
    fn copy_out(self, offset: u64, to: u64, bytes: u64) -> Result<Copied, Status> {
        invoke(self, op::CopyOut { offset, to, bytes })
    }

    /// [`op::CopyIn`], on the first Loan of a run.
    #[inline(always)]
    fn copy_in(self, offset: u64, from: u64, bytes: u64) -> Result<Copied, Status> {
        invoke(self, op::CopyIn { offset, from, bytes })
    }

    /// [`op::Map`], on a table.
    #[inline(always)]
    fn map(
        self,
        entry: u32,
        count: u32,
        src: impl Into<Place>,
        offset: u64,
        flags: MapFlags,
        mapping: impl Into<Place>,
    ) -> Result<(), Status> {
        let (src, mapping) = (src.into(), mapping.into());
        // While another core takes pages of a morsel away, it is not shown page by page.
        until_done(|| invoke(self, op::Map { entry, count, src, offset, flags, mapping }))
    }

    /// [`op::MapMany`], on a table.
    #[inline(always)]
    fn map_many(
        self,
        entry: u32,
        count: u32,
        src: impl Into<Place>,
        flags: MapFlags,
        mapping: impl Into<Place>,
    ) -> Result<u32, Status> {
        let (src, mapping) = (src.into(), mapping.into());
        invoke(self, op::MapMany { entry, count, src, flags, mapping }).map(|done| done.count)
    }

    /// [`op::Protect`], on a Mapping.
    #[inline(always)]
    fn protect(self, first: u32, count: u32, flags: MapFlags) -> Result<(), Status> {
        invoke(self, op::Protect { first, count, flags })
    }

    /// [`op::Replace`], on a Mapping.
    #[inline(always)]
    fn replace(self, src: impl Into<Place>, flags: MapFlags) -> Result<(), Status> {
        let src = src.into();
        until_done(|| invoke(self, op::Replace { src, flags }))
    }

    /// [`op::ProtectMany`], on the first of the Mappings, in as many invocations as it takes.
    #[inline(always)]
    fn protect_many(self, count: u32, flags: MapFlags) -> Result<u32, Status> {
        match invoke(self, op::ProtectMany { count, flags }) {
            Err(Status::OutOfRange) if count > 1 => protect_halves(self.place(), count, flags),
            other => other.map(|done| done.count),
        }
    }

    /// [`op::Unmap`], on a Mapping.
    #[inline(always)]
    fn unmap(self, first: u32, count: u32, rest: impl Into<Place>) -> Result<(), Status> {
        invoke(self, op::Unmap { first, count, rest: rest.into(), flags: MapFlags::default() })
    }

    /// [`op::ReadEntry`], on a table.
    #[inline(always)]
    fn read_entry(self, entry: u32) -> Result<u64, Status> {
        invoke(self, op::ReadEntry { entry }).map(|reply| reply.value)
    }

    /// [`op::ClearStatus`], on a table.
    #[inline(always)]
    fn clear_status(self, entry: u32, count: u32, bits: StatusBits) -> Result<u32, Status> {
        invoke(self, op::ClearStatus { entry, count, bits }).map(|done| done.count)
    }

    /// [`op::MapZero`], on a last-level table.
    #[inline(always)]
    fn map_zero(self, entry: u32, count: u32, flags: MapFlags) -> Result<u32, Status> {
        invoke(self, op::MapZero { entry, count, flags }).map(|done| done.count)
    }

    /// [`op::Notify`], on a Dispatcher or Endpoint.
    #[inline(always)]
    fn notify(self, bits: u64) -> Result<(), Status> {
        invoke(self, op::Notify { bits })
    }
}

impl Cap for CapAddr {}
impl Cap for Place {}
