//! Objects that a program hides, and whose pages it takes away, on the core where it is.
//!
//! What takes pages away is otherwise done where the capability is that is invoked: there are the entries that show pages one by one,
//! and it is known where the object is shown. Here an entry is known by the address at which it shows a table of the object, and home
//! has [allowed](captypes::op::AllowHiding) that it is hidden. So:
//!
//! ```text
//! claim the object ─► nobody shows single pages of it ─► entry not present ─► cores forget ─► walks have ended ─► pages go, step by step
//! ```
//!
//! * The claim is that of [`taking`](super::taking): no other core takes pages of it away, or shows one alone, as long as it is held.
//! * A processor that has come to the table before the entry was hidden has marked it as used. If it is not so marked, nobody has
//!   cached anything of it since all had forgotten it the last time. Those that can have are where dispatchers of the same home are: the table is home's, and
//!   so is each root that it is below.
//! * If no other entry shows the object, nothing of its pages is cached anywhere then, and no step needs to ask anybody. If others do,
//!   each step has all cores forget them, as [`discard`](super::morsels::discard) does.
//! * Each step is one walk, in which the entry is seen to be hidden still, at the address, in the address space that this core has loaded. What
//!   it leads to is the object's as long as the walk lasts: who ends an object waits for walks that have begun before. If home has taken
//!   the entry away, or somebody has shown it, the object stays as it is.

use crate::cores::{CoreId, ThisCore};
use crate::driver::CpuDriver;
use crate::morsels::{self, object_of, pool_of};
use crate::object::{DcbRef, SlotRef};
use crate::vspace::{
    allow_hiding, forget_tables_of, hidden_here, hide_here, may_hide_here, rest_here, show_here,
};
use captypes::Status;
use core::ops::Range;
use paging::ENTRIES;

type Result<T> = core::result::Result<T, Status>;

/// Steps in one event; each is a path down and some 64 pages.
const STEPS: u32 = 4;

/// Allows, or no longer, that what the Mapping in a slot shows is hidden; see [`captypes::op::AllowHiding`].
pub fn allow(cpu: &mut CpuDriver, mapping: SlotRef, allow: bool) -> Result<()> {
    allow_hiding(mapping, allow)?;
    let CpuDriver { core, sched, .. } = cpu;
    let is_first = || core.cores.pools().note_away(pool_of(object_of(&mapping.cap())), None);
    // On one core nobody else takes anything away.
    if allow && core.cores.are_many() && is_first() {
        // Who walks through tables without saying so, as until now nobody would have taken pages away meanwhile, has ended when it answers.
        morsels::forget_everything(*core, || sched.wait_for_others());
    }
    Ok(())
}

/// Shows what was hidden; see [`captypes::op::ShowHere`].
pub fn show(dcb: DcbRef, at: u64) -> Result<()> {
    show_here(dcb.root.get(), at)
}

/// Hides what an entry shows, and takes pages of it away; see [`captypes::op::HideHere`].
pub fn hide(cpu: &mut CpuDriver, dcb: DcbRef, at: u64, pages: Range<u32>) -> Result<u64> {
    if pages.end as usize > ENTRIES {
        return Err(Status::OutOfRange);
    }
    let place = (dcb.root.get(), dcb.home.get(), at);
    let (pools, id) = (cpu.core.cores.pools(), cpu.core.id);
    cpu.core.shared.pool_use.turn();
    let shown = may_hide_here(place.0, at).map(|entry| Shown::by(cpu.core, entry));
    cpu.core.shared.pool_use.turn();
    let shown = shown?.ok_or(Status::Unsupported)?;
    if !pools.taking(shown.object).take(id) {
        return Err(Status::Again);
    }
    let done = hide_claimed(cpu, place, shown, pages);
    pools.taking(shown.object).give_back();
    done
}

/// What an entry shows: an object, and its first page of those.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Shown {
    object: u64,
    first: u64,
}

impl Shown {
    fn by(core: ThisCore, entry: u64) -> Option<Shown> {
        let (pool, record, first) = morsels::shown_table(core.cores.pools(), entry)?;
        Some(Shown { object: morsels::object(pool, record), first })
    }
}

fn hide_claimed(
    cpu: &mut CpuDriver,
    (root, home, at): (u64, CoreId, u64),
    shown: Shown,
    pages: Range<u32>,
) -> Result<u64> {
    let CpuDriver { core, sched, .. } = cpu;
    let core = *core;
    let (object, number) = (shown.object, pool_of(shown.object));
    let shared = morsels::open_pool(core, number).ok_or(Status::Unsupported)?;
    let shows_single = || core.cores.iter().any(|(_, of)| of.pool_use.may_show_single(object));
    if core.cores.are_many() && !shared.reach.is_shared() || shows_single() {
        return Err(Status::Unsupported);
    }
    if hide_here(root, at)? {
        forget_tables_of(core, home, || sched.wait_for_others());
        rest_here(root, at);
    }
    // Who has come to the table by a fault before it was hidden fills it no more.
    morsels::settle(core, number, sched);
    let (mut next, end) = (u64::from(pages.start), u64::from(pages.end));
    let is_hidden = || {
        let entry = hidden_here(root, at);
        entry.and_then(|entry| Shown::by(core, entry)) == Some(shown)
    };
    morsels::with(core, number, sched, None, |objects| {
        let Ok(record) = objects.open(morsels::record_of(object)) else { return };
        objects.memory.set_hidden();
        for _ in 0..STEPS {
            let (from, to) = (shown.first + next, shown.first + end);
            match objects.discard_while(record, from, to, is_hidden) {
                Ok(reached) if next < end => next = reached - shown.first,
                _ => break,
            }
        }
    });
    Ok(next)
}
