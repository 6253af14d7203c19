//! Invocations of Pools and Morsels.

use super::{handlers, run, survived, Outcome};
use crate::cap::lookup::{free_slot, slot_to_change, used_slot};
use crate::driver::CpuDriver;
use crate::morsels::forming::Forming;
use crate::object::DcbRef;
use crate::operations::{chunks, morsels, raising, store};
use captypes::invocations::{MorselOp, PoolOp, Value};
use captypes::{op, Place, Status};
use mdb::RawCap;

/// Of Pools.
#[inline(never)]
pub(super) fn dispatch(local: &mut CpuDriver, dcb: DcbRef, op: PoolOp) -> Outcome {
    match op {
        PoolOp::FormatPool => format(local, dcb),
        PoolOp::RecoverPool => recover(local, dcb),
        PoolOp::CreateMorsel => create(local, dcb),
        PoolOp::MakeMorsel => make(local, dcb),
        PoolOp::CreateMeta => create_meta(local, dcb),
        PoolOp::OpenMorsel => open(local, dcb),
        PoolOp::NextMorsel => next(local, dcb),
        PoolOp::PoolInfo => pool_info(local, dcb),
        PoolOp::FormatVolatile => format_volatile(local, dcb),
        PoolOp::AddChunk => add_chunk(local, dcb),
        PoolOp::RemoveChunk => remove_chunk(local, dcb),
        PoolOp::AddSlots => add_slots(local, dcb),
        PoolOp::PageOut => page_out(local, dcb),
        PoolOp::PageIn => page_in(local, dcb),
        PoolOp::SlotOf => slot_of(local, dcb),
        PoolOp::LookOver => look_over(local, dcb),
    }
}

/// Of Morsels.
#[inline(never)]
pub(super) fn dispatch_morsel(local: &mut CpuDriver, dcb: DcbRef, op: MorselOp) -> Outcome {
    local.caps.budget.begin();
    let outcome = match op {
        MorselOp::PopulateMorsel => populate(local, dcb),
        MorselOp::DiscardMorsel => discard(local, dcb),
        MorselOp::PartMorsel => part(local, dcb),
        MorselOp::GrowMorsel => grow(local, dcb),
        MorselOp::AdviseMorsel => advise(local, dcb),
        MorselOp::LimitMorsel => limit(local, dcb),
        MorselOp::ExtendMorsel => extend(local, dcb),
        MorselOp::AllowRaising => allow_raising(local, dcb),
        MorselOp::SnapshotMorsel => snapshot(local, dcb),
        MorselOp::CommitMorsel => commit(local, dcb),
        MorselOp::ReleaseCommit => release_commit(local, dcb),
        MorselOp::DestroyMorsel => destroy(local, dcb),
        MorselOp::MorselInfo => info(local, dcb),
        MorselOp::ReadMorsel => read(local, dcb),
        MorselOp::WriteMorsel => write(local, dcb),
        MorselOp::WriteBackMorsel => write_back(local, dcb),
        MorselOp::SurveyMorsel => survey(local, dcb),
    };
    survived(local, dcb, outcome)
}

fn form(local: &mut CpuDriver, pool: &RawCap, what: Forming, domain: u32) -> Result<(), Status> {
    if domain > 1 {
        return Err(Status::Invalid);
    }
    if pool.base & (captypes::place::POOL_BYTES - 1) != 0 {
        return Err(Status::OutOfRange);
    }
    let CpuDriver { core, forming, sched, .. } = local;
    let extent = crate::morsels::in_one_piece(pool.base, pool.word);
    forming.step(*core, extent, what, domain == 1, sched)
}

/// A pool whose pages come and go.
fn form_volatile(
    local: &mut CpuDriver,
    pool: &RawCap,
    first: u64,
    pages: u64,
) -> Result<(), Status> {
    let extent = crate::morsels::apart(pool.base, pool.word, first, pages)?;
    let CpuDriver { core, forming, sched, .. } = local;
    forming.step(*core, extent, Forming::Volatile, false, sched)
}

/// The capability that is invoked, as the table says.
fn of<I: captypes::Invocation>(dcb: DcbRef, target: Place) -> Result<RawCap, Status> {
    super::invoked::<I>(dcb, target)
}

handlers! {
    format(FormatPool) = |local, d, target, a| {
        form(local, &of::<op::FormatPool>(d, target)?, Forming::Format, a.domain)
    };
    recover(RecoverPool) = |local, d, target, a| {
        form(local, &of::<op::RecoverPool>(d, target)?, Forming::Recover, a.domain)
    };
    create(CreateMorsel) = |local, d, target, a| {
        let (pool, dst) = (of::<op::CreateMorsel>(d, target)?, free_slot(&local.caps, d, a.dst)?);
        morsels::create(local, &pool, a.order, dst).map(|value| Value { value })
    };
    make(MakeMorsel) = |local, d, target, a| {
        let (pool, dst) = (of::<op::MakeMorsel>(d, target)?, free_slot(&local.caps, d, a.dst)?);
        morsels::make(local, &pool, a.order, (a.limit, a.pages), dst)
    };
    create_meta(CreateMeta) = |local, d, target, a| {
        let pool = of::<op::CreateMeta>(d, target)?;
        morsels::create_meta(local, &pool, a.order, a.address).map(|value| Value { value })
    };
    open(OpenMorsel) = |local, d, target, a| {
        let (pool, dst) = (of::<op::OpenMorsel>(d, target)?, free_slot(&local.caps, d, a.dst)?);
        morsels::open(local, &pool, a.record, a.rights, dst)
    };
    next(NextMorsel) = |local, d, target, a| {
        morsels::next(local, &of::<op::NextMorsel>(d, target)?, a.record)
    };
    pool_info(PoolInfo) = |local, d, target, _| {
        morsels::pool_info(local, &of::<op::PoolInfo>(d, target)?)
    };
    format_volatile(FormatVolatile) = |local, d, target, a| {
        form_volatile(local, &of::<op::FormatVolatile>(d, target)?, a.first, a.pages)
    };
    add_chunk(AddChunk) = |local, d, target, a| {
        let pool = of::<op::AddChunk>(d, target)?;
        let memory = slot_to_change(&local.caps, d, a.memory)?;
        chunks::add(local, &pool, memory).map(|value| Value { value })
    };
    remove_chunk(RemoveChunk) = |local, d, target, _| {
        chunks::remove(local, &of::<op::RemoveChunk>(d, target)?).map(|value| Value { value })
    };
    add_slots(AddSlots) = |local, d, target, a| {
        store::add(local, &of::<op::AddSlots>(d, target)?, a.tree).map(|value| Value { value })
    };
    page_out(PageOut) = |local, d, target, a| {
        let (pool, buffer) = (of::<op::PageOut>(d, target)?, used_slot(d, a.buffer)?.cap());
        store::page_out(local, &pool, (a.record, a.page, a.pages), a.tree, (&buffer, a.offset))
    };
    page_in(PageIn) = |local, d, target, a| {
        let (pool, buffer) = (of::<op::PageIn>(d, target)?, used_slot(d, a.buffer)?.cap());
        store::page_in(local, &pool, (a.record, a.page, a.count), a.slot, (&buffer, a.offset))
    };
    slot_of(SlotOf) = |local, d, target, a| {
        store::slot_of(local, &of::<op::SlotOf>(d, target)?, a.record, a.page)
    };
    look_over(LookOver) = |local, d, target, a| {
        store::look_over(local, &of::<op::LookOver>(d, target)?, (a.record, a.page), a.rests)
    };
    populate(PopulateMorsel) = |local, d, target, a| {
        let cap = of::<op::PopulateMorsel>(d, target)?;
        morsels::populate(local, &cap, (a.first, a.count), a.large).map(|value| Value { value })
    };
    discard(DiscardMorsel) = |local, d, target, a| {
        let cap = of::<op::DiscardMorsel>(d, target)?;
        morsels::discard(local, &cap, (a.first, a.count)).map(|value| Value { value })
    };
    part(PartMorsel) = |local, d, target, a| {
        of::<op::PartMorsel>(d, target)?;
        let (from, dst) = (used_slot(d, target)?, free_slot(&local.caps, d, a.dst)?);
        morsels::part(local, from, a.first, a.order, dst)
    };
    grow(GrowMorsel) = |local, d, target, _| {
        morsels::grow(local, &of::<op::GrowMorsel>(d, target)?)
    };
    advise(AdviseMorsel) = |local, d, target, a| {
        morsels::advise(local, &of::<op::AdviseMorsel>(d, target)?, a.large)
    };
    limit(LimitMorsel) = |local, d, target, a| {
        morsels::limit(local, &of::<op::LimitMorsel>(d, target)?, a.bytes)
    };
    extend(ExtendMorsel) = |local, d, target, a| {
        let cap = of::<op::ExtendMorsel>(d, target)?;
        morsels::extend(local, &cap, a.bytes, a.first).map(|value| Value { value })
    };
    allow_raising(AllowRaising) = |local, d, target, a| {
        let cap = of::<op::AllowRaising>(d, target)?;
        raising::allow(local, &cap, a.pages).map(|value| Value { value })
    };
    snapshot(SnapshotMorsel) = |local, d, target, a| {
        let (cap, dst) = (of::<op::SnapshotMorsel>(d, target)?, free_slot(&local.caps, d, a.dst)?);
        morsels::snapshot(local, &cap, dst).map(|value| Value { value })
    };
    commit(CommitMorsel) = |local, d, target, _| {
        morsels::commit(local, &of::<op::CommitMorsel>(d, target)?)
    };
    release_commit(ReleaseCommit) = |local, d, target, _| {
        morsels::release_commit(local, &of::<op::ReleaseCommit>(d, target)?)
    };
    destroy(DestroyMorsel) = |local, d, target, _| {
        of::<op::DestroyMorsel>(d, target)?;
        morsels::destroy(local, slot_to_change(&local.caps, d, target)?)
    };
    info(MorselInfo) = |local, d, target, _| {
        morsels::info(local, &of::<op::MorselInfo>(d, target)?)
    };
    read(ReadMorsel) = |local, d, target, a| {
        let (cap, root) = (of::<op::ReadMorsel>(d, target)?, d.root.get());
        morsels::read(local, &cap, root, (a.offset, a.to, a.bytes))
    };
    write(WriteMorsel) = |local, d, target, a| {
        let (cap, root) = (of::<op::WriteMorsel>(d, target)?, d.root.get());
        morsels::write(local, &cap, root, (a.offset, a.from, a.bytes))
    };
    write_back(WriteBackMorsel) = |local, d, target, a| {
        let cap = of::<op::WriteBackMorsel>(d, target)?;
        morsels::write_back(local, &cap, (a.first, a.count)).map(|value| Value { value })
    };
    survey(SurveyMorsel) = |local, d, target, a| {
        morsels::survey(local, &of::<op::SurveyMorsel>(d, target)?, (a.first, a.count), a.until)
    };
}
