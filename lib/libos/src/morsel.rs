//! Pools and morsels, as methods of the slots that hold them. What takes long is repeated here until it is done.

use crate::cap::until_done;
use crate::{invoke, Cap, PAGE};
pub use captypes::invocations::PagedOut;
use captypes::invocations::{Copied, LookedOver, Made, MorselFacts, PoolFacts, Surveyed, Value};
use captypes::{op, CapAddr, Place, Rights, Status};

/// What survives when the power fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Persistence {
    /// Everything that was stored, or nothing is meant to.
    Caches,
    /// What was written back.
    Memory,
}

/// A slot with a Pool.
pub trait PoolCap: Cap {
    /// [`op::FormatPool`]
    fn format_pool(self, persistence: Persistence) -> Result<(), Status> {
        until_done(|| invoke(self, op::FormatPool { domain: persistence as u32 }))
    }

    /// [`op::RecoverPool`]
    fn recover_pool(self, persistence: Persistence) -> Result<(), Status> {
        until_done(|| invoke(self, op::RecoverPool { domain: persistence as u32 }))
    }

    /// [`op::CreateMorsel`]: the number of its record.
    fn create_morsel(self, order: u32, dst: impl Into<Place>) -> Result<u32, Status> {
        let dst = dst.into();
        until_done(|| invoke(self, op::CreateMorsel { order, dst })).map(record)
    }

    /// [`op::MakeMorsel`]
    fn make_morsel(
        self,
        order: u32,
        limit: u64,
        pages: u64,
        dst: impl Into<Place>,
    ) -> Result<Made, Status> {
        let dst = dst.into();
        until_done(|| invoke(self, op::MakeMorsel { order, limit, pages, dst }))
    }

    /// [`op::CreateMeta`]: the number of the meta morsel's record.
    fn create_meta(self, order: u32, address: u64) -> Result<u32, Status> {
        until_done(|| invoke(self, op::CreateMeta { order, address })).map(record)
    }

    /// [`op::OpenMorsel`]
    fn open_morsel(self, record: u32, rights: Rights, dst: impl Into<Place>) -> Result<(), Status> {
        invoke(self, op::OpenMorsel { record, rights, dst: dst.into() })
    }

    /// [`op::NextMorsel`]; `None` if there is none.
    fn next_morsel(self, record: u32) -> Result<Option<MorselFacts>, Status> {
        match until_done(|| invoke(self, op::NextMorsel { record })) {
            Err(Status::Empty) => Ok(None),
            found => found.map(Some),
        }
    }

    /// [`op::FormatVolatile`]
    fn format_volatile(self, first: u64, pages: u64) -> Result<(), Status> {
        until_done(|| invoke(self, op::FormatVolatile { first, pages }))
    }

    /// [`op::AddChunk`]: the first address of the memory, by which [`remove_chunk`](Self::remove_chunk) names it.
    fn add_chunk(self, memory: impl Into<Place>) -> Result<u64, Status> {
        let memory = memory.into();
        until_done(|| invoke(self, op::AddChunk { memory })).map(|value| value.value)
    }

    /// [`op::RemoveChunk`]: the first address of the memory. The slot with which it was [added](Self::add_chunk) holds RAM again. `None` if
    /// nothing is free as a whole.
    fn remove_chunk(self) -> Result<Option<u64>, Status> {
        match until_done(|| invoke(self, op::RemoveChunk {})) {
            Err(Status::Empty) => Ok(None),
            found => found.map(|value| Some(value.value)),
        }
    }

    /// [`op::AddSlots`]: the number of the first.
    fn add_slots(self, tree: u64) -> Result<u64, Status> {
        until_done(|| invoke(self, op::AddSlots { tree })).map(|value| value.value)
    }

    /// [`op::PageOut`]
    fn page_out(
        self,
        record: u32,
        (page, pages): (u64, u64),
        tree: u64,
        (buffer, offset): (CapAddr, u64),
    ) -> Result<PagedOut, Status> {
        let buffer = buffer.into();
        until_done(|| invoke(self, op::PageOut { record, page, pages, tree, buffer, offset }))
    }

    /// [`op::PageIn`]: how many have come.
    fn page_in(
        self,
        record: u32,
        (page, count): (u64, u64),
        slot: u64,
        (buffer, offset): (CapAddr, u64),
    ) -> Result<u64, Status> {
        let buffer = buffer.into();
        until_done(|| invoke(self, op::PageIn { record, page, count, slot, buffer, offset }))
            .map(|value| value.value)
    }

    /// [`op::SlotOf`]
    fn slot_of(self, record: u32, page: u64) -> Result<u64, Status> {
        until_done(|| invoke(self, op::SlotOf { record, page })).map(|value| value.value)
    }

    /// [`op::LookOver`]
    fn look_over(self, record: u32, page: u64, rests: bool) -> Result<LookedOver, Status> {
        until_done(|| invoke(self, op::LookOver { record, page, rests }))
    }

    /// [`op::PoolInfo`]
    fn pool_info(self) -> Result<PoolFacts, Status> {
        invoke(self, op::PoolInfo {})
    }
}

impl<C: Cap> PoolCap for C {}

fn record(value: Value) -> u32 {
    value.value as u32
}

/// A slot with a Morsel.
pub trait MorselCap: Cap {
    /// [`op::PopulateMorsel`] of all of a range.
    fn populate(self, first: u64, count: u64, large: bool) -> Result<(), Status> {
        self.all(first, count, |first, count| {
            invoke(self, op::PopulateMorsel { first, count, large })
        })
    }

    /// [`op::DiscardMorsel`] of all of a range.
    fn discard_pages(self, first: u64, count: u64) -> Result<(), Status> {
        self.all(first, count, |first, count| invoke(self, op::DiscardMorsel { first, count }))
    }

    /// [`op::WriteBackMorsel`] of all of a range.
    fn write_back(self, first: u64, count: u64) -> Result<(), Status> {
        self.all(first, count, |first, count| invoke(self, op::WriteBackMorsel { first, count }))
    }

    /// How many of these pages are there, in memory or in a store: [`op::SurveyMorsel`].
    fn count_pages(self, first: u64, count: u64) -> Result<u64, Status> {
        self.survey_pages(first, count).map(|seen| seen.pages + seen.out)
    }

    /// How many of these pages are there, and how many of them in large ones: [`op::SurveyMorsel`].
    fn survey_pages(self, first: u64, count: u64) -> Result<Surveyed, Status> {
        let end = first.saturating_add(count);
        let mut all = Surveyed { next: first, pages: 0, found: 0, large: 0, out: 0 };
        while all.next < end {
            let survey = op::SurveyMorsel { first: all.next, count: end - all.next, until: 0 };
            let seen = until_done(|| invoke(self, survey))?;
            (all.next, all.pages) = (seen.next, all.pages + seen.pages);
            all.large += seen.large;
            all.out += seen.out;
        }
        Ok(all)
    }

    /// The next of these pages that is there: [`op::SurveyMorsel`].
    fn next_page(self, first: u64, count: u64) -> Result<Option<u64>, Status> {
        self.next_of(first, count, 1)
    }

    /// The next of these pages that is not there: [`op::SurveyMorsel`].
    fn next_hole(self, first: u64, count: u64) -> Result<Option<u64>, Status> {
        self.next_of(first, count, 2)
    }

    #[doc(hidden)]
    fn next_of(self, first: u64, count: u64, until: u32) -> Result<Option<u64>, Status> {
        let (mut at, end) = (first, first.saturating_add(count));
        while at < end {
            let survey = op::SurveyMorsel { first: at, count: end - at, until };
            let seen = until_done(|| invoke(self, survey))?;
            if seen.found != 0 {
                return Ok(Some(seen.next));
            }
            at = seen.next;
        }
        Ok(None)
    }

    /// Repeats a step until it has looked at a range.
    #[doc(hidden)]
    fn all(
        self,
        first: u64,
        count: u64,
        step: impl Fn(u64, u64) -> Result<Value, Status>,
    ) -> Result<(), Status> {
        let (mut at, end) = (first, first.saturating_add(count));
        while at < end {
            at = until_done(|| step(at, end - at))?.value;
        }
        Ok(())
    }

    /// [`op::PartMorsel`]
    fn part(self, first: u64, order: u32, dst: impl Into<Place>) -> Result<(), Status> {
        let dst = dst.into();
        until_done(|| invoke(self, op::PartMorsel { first, order, dst }))
    }

    /// [`op::GrowMorsel`]
    fn grow(self) -> Result<(), Status> {
        until_done(|| invoke(self, op::GrowMorsel {}))
    }

    /// [`op::AdviseMorsel`]
    fn advise(self, large: bool) -> Result<(), Status> {
        until_done(|| invoke(self, op::AdviseMorsel { large }))
    }

    /// [`op::AllowRaising`]
    fn allow_raising(self, pages: u64) -> Result<u64, Status> {
        until_done(|| invoke(self, op::AllowRaising { pages })).map(|most| most.value)
    }

    /// [`op::LimitMorsel`]
    fn set_limit(self, bytes: u64) -> Result<(), Status> {
        until_done(|| invoke(self, op::LimitMorsel { bytes }))
    }

    /// [`op::SnapshotMorsel`]: the number of its record.
    fn snapshot(self, dst: impl Into<Place>) -> Result<u32, Status> {
        let dst = dst.into();
        until_done(|| invoke(self, op::SnapshotMorsel { dst })).map(record)
    }

    /// [`op::CommitMorsel`] of all that was stored before.
    fn commit(self) -> Result<(), Status> {
        let pages = self.morsel_info()?.limit.div_ceil(PAGE);
        self.write_back(0, pages)?;
        until_done(|| invoke(self, op::CommitMorsel {}))
    }

    /// [`op::ReleaseCommit`]
    fn release_commit(self) -> Result<(), Status> {
        until_done(|| invoke(self, op::ReleaseCommit {}))
    }

    /// [`op::DestroyMorsel`]
    fn destroy(self) -> Result<(), Status> {
        until_done(|| invoke(self, op::DestroyMorsel {}))
    }

    /// [`op::MorselInfo`]
    fn morsel_info(self) -> Result<MorselFacts, Status> {
        invoke(self, op::MorselInfo {})
    }

    /// [`op::ReadMorsel`]
    fn read_morsel(self, offset: u64, to: u64, bytes: u64) -> Result<Copied, Status> {
        until_done(|| invoke(self, op::ReadMorsel { offset, to, bytes }))
    }

    /// [`op::WriteMorsel`]
    fn write_morsel(self, offset: u64, from: u64, bytes: u64) -> Result<Copied, Status> {
        until_done(|| invoke(self, op::WriteMorsel { offset, from, bytes }))
    }
}

impl<C: Cap> MorselCap for C {}
