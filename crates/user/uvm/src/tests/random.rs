//! Random operations in a tree of processes.

use super::kernel::WHOLE;
use super::passing::Mode;
use super::*;
use crate::map::{Entry, Flags, GUARD_PAGES};
use crate::mmap::{MapRequest, Placement};
use crate::types::{Error, Prot, REGION_PAGES};
use crate::{Advice, ObjectId, RemapFlags};
use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};
use selfpaging::{Clock, Fifo, Optimal, Policy, Sampled};
use std::cell::Cell;
use std::rc::Rc;

#[derive(Clone, Debug)]
pub enum Op {
    Map {
        addr: u64,
        pages: u64,
        prot: u8,
        place: u8,
        object: Option<(u32, u64)>,
        shared: bool,
    },
    Unmap {
        addr: u64,
        pages: u64,
    },
    Protect {
        addr: u64,
        pages: u64,
        prot: u8,
    },
    /// Their rights are lent to a thread, which changes them.
    LendRights {
        addr: u64,
        pages: u64,
        prot: u8,
    },
    /// An object of the process's own is lent to a thread, which hides what shows it or not, with all that is there, and shows it again or not.
    LendMapped {
        pick: usize,
        hides: bool,
        shows: bool,
    },
    /// Every other page: many entries.
    Stripe {
        addr: u64,
        pages: u64,
        prot: u8,
    },
    Discard {
        addr: u64,
        pages: u64,
    },
    /// `MADV_DONTFORK`, `MADV_DOFORK`.
    ForkOrNot {
        addr: u64,
        pages: u64,
        fork: bool,
    },
    Remap {
        pick: usize,
        old: u64,
        new: u64,
    },
    Touch {
        addr: u64,
        access: u8,
    },
    TouchRun {
        addr: u64,
        pages: u64,
        access: u8,
    },
    /// Others take the Frames of an object away from all.
    TakeAway {
        object: u32,
    },
    /// The object that consists of page tables becomes larger.
    Lengthen {
        pages: u64,
    },
    /// Addresses are lent to a thread, which maps some of them; another operation there ends it.
    Lend {
        pages: u64,
        first: u64,
        mapped: u64,
    },
    /// Memory is short: pages go aside.
    Relieve {
        pages: u64,
        shared: bool,
    },
    /// A range may have few pages in memory, or none may any more.
    Limit {
        addr: u64,
        pages: u64,
        places: u32,
        policy: u8,
    },
    Fork,
    /// From now on pages are copied at each fork, or when they are written to.
    CopyAtForks {
        eager: bool,
    },
    /// Asks what was written to, and forgets it.
    ClearWritten,
    Exit,
    Kill,
    /// `mlock`, `MLOCK_ONFAULT`, `munlock`.
    Wire {
        addr: u64,
        pages: u64,
        on: bool,
        touch: bool,
    },
    /// `mlockall` with these flags, `munlockall` without any.
    WireAll {
        flags: u8,
    },
    /// `MADV_PAGEOUT`.
    PageOut {
        addr: u64,
        pages: u64,
    },
    /// A policy says which small memory goes where memory is short.
    Victims {
        policy: u8,
    },
    /// `MREMAP_FIXED`, `MREMAP_DONTUNMAP`.
    Transfer {
        pick: usize,
        old: u64,
        new: u64,
        to: Option<u64>,
        dont_unmap: bool,
    },
    /// A range is passed; or nobody may write to it until it is given away or recalled.
    Pass {
        addr: u64,
        pages: u64,
        mode: Option<Mode>,
    },
    Recall,
    Give {
        share: bool,
    },
    /// What was passed becomes private memory, here or elsewhere, as a copy or not.
    Take {
        pick: usize,
        skip: u64,
        pages: u64,
        addr: Option<u64>,
        prot: u8,
        takes: bool,
    },
    MapFile {
        pick: usize,
        addr: u64,
        prot: u8,
        place: u8,
        shared: bool,
    },
    Close {
        pick: usize,
    },
}

/// Ends what is lent: what the thread has mapped is there from now on.
fn end_lending(both: &mut Both) {
    let Some((start, pages, first, mapped)) = both.lent.take() else { return };
    both.real.end_lending(start, (first, mapped));
    both.model.unmap(start, start + pages);
    both.model.enter(first, mapped, Prot(3), Flags(0), None);
}

/// Does an operation leave alone what is lent, and what decides whether a stack grows there?
fn is_beside_lent(both: &Both, op: &Op) -> bool {
    let Some((start, pages, ..)) = both.lent else { return true };
    let is_beside = |addr: u64, n: u64| addr + n <= start || start + pages + GUARD_PAGES <= addr;
    match *op {
        Op::Map { place, .. } => matches!(place, 0 | 1 | 5 | 6),
        Op::Unmap { addr, pages }
        | Op::Protect { addr, pages, .. }
        | Op::Stripe { addr, pages, .. }
        | Op::Discard { addr, pages }
        | Op::TouchRun { addr, pages, .. } => is_beside(addr, pages),
        Op::Touch { addr, .. } => is_beside(addr, 1),
        Op::TakeAway { .. } | Op::Lengthen { .. } | Op::Close { .. } => true,
        _ => false,
    }
}

fn page() -> impl Strategy<Value = u64> {
    prop_oneof![
        LOW..HIGH,
        (0u64..200).prop_map(|n| LOW + 400 + n),
        (1u64..5).prop_map(|n| n * REGION_PAGES),
        (0u64..64).prop_map(|n| 1000 + n)
    ]
}

fn pages() -> impl Strategy<Value = u64> {
    prop_oneof![4 => 1u64..6, 2 => 1u64..60, 1 => 1u64..700, 1 => 800u64..1100]
}

fn prot() -> impl Strategy<Value = u8> {
    prop_oneof![6 => Just(3u8), 2 => Just(1u8), 1 => 0u8..8]
}

/// A process, an operation, and how many objects there is memory for meanwhile.
pub fn op() -> impl Strategy<Value = (usize, Op, Option<u32>)> {
    let object = prop_oneof![
        6 => Just(None),
        2 => (0..WHOLE, 0u64..50).prop_map(Some),
        1 => Just(Some((WHOLE, 0))),
        1 => (0u64..3).prop_map(|region| Some((WHOLE, region * REGION_PAGES / 2))),
    ];
    let map = (page(), pages(), prot(), 0u8..7, object, any::<bool>()).prop_map(
        |(addr, pages, prot, place, object, shared)| Op::Map {
            addr,
            pages,
            prot,
            place,
            object,
            shared,
        },
    );
    let lend = (1u64..300, 0u64..300, 0u64..300).prop_map(|(pages, first, mapped)| {
        let first = first % pages;
        Op::Lend { pages, first, mapped: mapped % (pages - first + 1) }
    });
    let op = prop_oneof![
        4 => map,
        2 => lend,
        2 => (page(), 1u64..40, prot()).prop_map(|(addr, pages, prot)| Op::LendRights { addr, pages, prot }),
        3 => (any::<usize>(), any::<bool>(), any::<bool>()).prop_map(|(pick, hides, shows)| {
            Op::LendMapped { pick, hides, shows }
        }),
        2 => (page(), pages()).prop_map(|(addr, pages)| Op::Unmap { addr, pages }),
        3 => (page(), pages(), prot()).prop_map(|(addr, pages, prot)| Op::Protect { addr, pages, prot }),
        1 => (page(), pages(), prot()).prop_map(|(addr, pages, prot)| Op::Stripe { addr, pages, prot }),
        1 => (page(), pages()).prop_map(|(addr, pages)| Op::Discard { addr, pages }),
        1 => (page(), pages(), any::<bool>()).prop_map(|(addr, pages, fork)| Op::ForkOrNot { addr, pages, fork }),
        1 => (any::<usize>(), 1u64..40, 1u64..80).prop_map(|(pick, old, new)| Op::Remap { pick, old, new }),
        10 => (page(), 0u8..3).prop_map(|(addr, access)| Op::Touch { addr, access }),
        6 => (page(), 1u64..80, 0u8..2).prop_map(|(addr, pages, access)| Op::TouchRun { addr, pages, access }),
        2 => (0u32..3).prop_map(|object| Op::TakeAway { object }),
        1 => (1u64..200).prop_map(|pages| Op::Lengthen { pages }),
        2 => (1u64..300, any::<bool>()).prop_map(|(pages, shared)| Op::Relieve { pages, shared }),
        3 => (page(), pages(), 0u32..40, 0u8..5).prop_map(|(addr, pages, places, policy)| {
            Op::Limit { addr, pages, places, policy }
        }),
        1 => Just(Op::ClearWritten),
        1 => any::<bool>().prop_map(|eager| Op::CopyAtForks { eager }),
        2 => Just(Op::Fork),
        1 => Just(Op::Exit),
        1 => Just(Op::Kill),
    ];
    let left = prop_oneof![12 => Just(None), 1 => (0u32..8).prop_map(Some)];
    (any::<usize>(), op, left)
}

/// What is wired, leaves, moves and passes, as well.
pub fn any_op() -> impl Strategy<Value = (usize, Op, Option<u32>)> {
    let mode = || {
        prop_oneof![
            3 => Just(None),
            1 => Just(Some(Mode::Share)),
            1 => Just(Some(Mode::Copy)),
            1 => Just(Some(Mode::Donate))
        ]
    };
    let to = || prop_oneof![page().prop_map(Some), Just(None)];
    let pick = any::<usize>;
    let transfer = (pick(), pages(), pages(), to(), any::<bool>()).prop_map(
        |(pick, old, new, to, dont_unmap)| Op::Transfer {
            pick,
            old,
            new,
            to,
            dont_unmap: dont_unmap || to.is_none(),
        },
    );
    let take = (pick(), 0u64..50, 1u64..600, to(), prot(), any::<bool>()).prop_map(
        |(pick, skip, pages, addr, prot, takes)| Op::Take { pick, skip, pages, addr, prot, takes },
    );
    let map = (pick(), page(), prot(), 0u8..7, any::<bool>()).prop_map(
        |(pick, addr, prot, place, shared)| Op::MapFile { pick, addr, prot, place, shared },
    );
    let op_here = prop_oneof![
        4 => (page(), pages(), any::<bool>(), any::<bool>()).prop_map(|(addr, pages, on, touch)| {
            Op::Wire { addr, pages, on, touch }
        }),
        1 => (0u8..8).prop_filter("no such flags", |flags| *flags != 4).prop_map(|flags| Op::WireAll { flags }),
        2 => (page(), pages()).prop_map(|(addr, pages)| Op::PageOut { addr, pages }),
        1 => (0u8..4).prop_map(|policy| Op::Victims { policy }),
        3 => transfer,
        6 => (page(), prop_oneof![pages(), 64u64..1100], mode()).prop_map(|(addr, pages, mode)| Op::Pass { addr, pages, mode }),
        3 => Just(Op::Recall),
        3 => any::<bool>().prop_map(|share| Op::Give { share }),
        4 => take,
        2 => map,
        1 => pick().prop_map(|pick| Op::Close { pick }),
    ];
    let left = prop_oneof![20 => Just(None), 1 => (0u32..8).prop_map(Some)];
    prop_oneof![2 => op(), 1 => (any::<usize>(), op_here, left)]
}

fn access(n: u8) -> Access {
    [Access::Write, Access::Read, Access::Exec][n as usize % 3]
}

fn map(world: &mut World, which: usize, op: &Op) {
    let &Op::Map { addr, pages, prot, place, object, shared } = op else { return };
    let both = &mut world.processes[which];
    both.note_giants();
    let (placement, addr) = match place {
        0 | 1 => (Placement::Hint, 0),
        2 => (Placement::Hint, addr),
        3 => (Placement::Fixed, addr),
        5 | 6 => (Placement::HintAligned, 0),
        _ => (Placement::FixedNoReplace, addr),
    };
    let mut flags = if shared && object.is_some() { Flags::SHARED } else { Flags(0) };
    if object.is_none() && place == 2 && shared {
        flags = Flags::GROWS_DOWN;
    }
    let prot = Prot(prot);
    let request = MapRequest {
        addr: addr * PAGE,
        len: pages * PAGE - 7,
        prot,
        placement,
        flags,
        object: object.map(|(object, offset)| (ObjectId::new(object), offset * PAGE)),
    };
    let expected = match placement {
        Placement::HintAligned => both.aligned_place(pages, object),
        Placement::Hint if addr == 0 => both.model.find_space(pages).ok_or(Error::NoMemory),
        Placement::Hint => both.model.hint(addr, pages).ok_or(Error::NoMemory),
        _ if addr + pages > HIGH => Err(Error::NoMemory),
        Placement::FixedNoReplace if !both.model.is_free(addr, addr + pages) => Err(Error::Exists),
        _ => Ok(addr),
    };
    World::notes_file(both, object, true);
    let got = both.real.mmap(&mut both.backend, &request).map(|addr| addr / PAGE);
    World::notes_file(both, object, false);
    if both.was_refused(got) {
        return;
    }
    assert_eq!(got, expected, "{request:?}");
    if let Ok(start) = expected {
        both.model.unmap(start, start + pages);
        both.model.enter(start, pages, prot, flags.or(both.model.new_flags()), object);
    }
}

pub fn remap(world: &mut World, which: usize, pick: usize, old: u64, new: u64) {
    let both = &mut world.processes[which];
    let entries: Vec<_> = both.real.map().entries().copied().collect();
    if entries.is_empty() {
        return;
    }
    let entry = entries[pick % entries.len()];
    both.note_giants();
    let (start, mut end) = (entry.start, entry.end);
    // Memory of which some has become the process's own object is one mapping.
    let kind = |entry: &crate::map::Entry| (entry.prot, entry.flags.without(Flags::OWN));
    for next in entries.iter().filter(|next| next.start >= entry.end) {
        let is_alike = entry.is_private_anonymous() && next.is_private_anonymous();
        if end >= start + old || next.start != end || !is_alike || kind(next) != kind(&entry) {
            break;
        }
        end = next.end;
    }
    // More than one part that is none goes aside before, if there is room for it.
    let parts = entries.iter().filter(|part| start <= part.start && part.start < start + old);
    let others = parts.filter(|part| !part.flags.has(Flags::OWN)).count();
    let many = old > entry.end - start && old <= end - start && others > 1;
    let flags = RemapFlags { may_move: true, ..RemapFlags::default() };
    let got = both.real.mremap(&mut both.backend, start * PAGE, old * PAGE, new * PAGE, flags);
    both.own_what_is_own();
    let too_little = many || both.backend.left.is_some() || both.has_lost_anon(start, start + old);
    if both.was_refused(got) || got == Err(Error::NoMemory) && too_little {
        return;
    }
    let model = &mut both.model;
    if old >= new {
        // What is cut off must be addresses, mapped or not, as for munmap.
        let fits = old == new || start + old <= HIGH;
        assert_eq!(got, if fits { Ok(start * PAGE) } else { Err(Error::Invalid) });
        if fits {
            model.unmap(start + new, start + old);
        }
        return;
    }
    if old > end - start {
        return assert_eq!(got, Err(Error::Fault));
    }
    let first = model.pages[&start].clone();
    let grown = |from: u64| (0..new - old).map(move |n| from + n);
    let object_of = |page: u64| first.object.map(|(o, offset)| (o, offset + page));
    if old == end - start && start + new <= HIGH && model.hint(end, new - old) == Some(end) {
        assert_eq!(got, Ok(start * PAGE));
        for page in grown(end) {
            model.enter(page, 1, first.prot, first.flags, object_of(page - start));
        }
        return;
    }
    let is_own = entry.flags.has(Flags::OWN);
    let aligned = match old > entry.end - start {
        true => model.find_aligned(new, start),
        false if is_own => model.find_aligned(new, entry.object_page(start)),
        false => None,
    };
    let aligned = aligned.filter(|_| new >= model.table_least);
    let Some(to) = aligned.or_else(|| model.find_space(new)) else {
        return assert_eq!(got, Err(Error::NoMemory));
    };
    assert_eq!(got, Ok(to * PAGE));
    for n in 0..new {
        let page = match n < old {
            true => model.pages.remove(&(start + n)).unwrap(),
            false => model::Page { object: object_of(n), anon: None, ..first.clone() },
        };
        model.pages.insert(to + n, page);
    }
}

/// The next that is mapped, most often a part of it.
fn next_mapped(both: &Both, addr: u64, pages: u64) -> Option<(u64, u64)> {
    let entry = both.real.map().within(addr, HIGH).next()?;
    let pages = if pages.is_multiple_of(8) { pages } else { pages.min(entry.pages()) };
    Some((entry.start, pages))
}

pub fn step(world: &mut World, which: usize, op: &Op) {
    let which = which % world.processes.len();
    let both = &mut world.processes[which];
    both.backend.released.clear();
    if !both.is_beside_loan(op) {
        both.recall();
    }
    if !matches!(
        op,
        Op::Touch { .. } | Op::TouchRun { .. } | Op::Relieve { .. } | Op::PageOut { .. }
    ) {
        both.fresh.clear();
    }
    let before = both.before();
    make_step(world, which, op);
    world.forget_files();
    let is_there = !matches!(op, Op::Exit | Op::Kill);
    if let Some(both) = world.processes.get_mut(which).filter(|_| is_there) {
        both.check_wired(&before, op);
        let uses = |object: &&ObjectId| both.real.map().uses(**object);
        assert_eq!(both.backend.released.iter().find(uses), None, "released, and mapped");
    }
}

fn make_step(world: &mut World, which: usize, op: &Op) {
    let forked = world.processes.len() > 1;
    let both = &mut world.processes[which];
    if !is_beside_lent(both, op) {
        end_lending(both);
    }
    match *op {
        // As long as what is new is locked, nothing is lent.
        Op::Lend { .. } if both.model.locks_new => {}
        Op::Lend { pages, first, mapped } => {
            both.note_giants();
            let got = both.real.lend(&mut both.backend, pages).map_err(Error::from);
            if both.was_refused(got) {
                return;
            }
            let start = both.model.find_space(pages);
            assert_eq!(got, Ok(start));
            if let Some(start) = start {
                both.model.enter(start, pages, Prot::NONE, Flags::LENT, None);
                both.lent = Some((start, pages, start + first, mapped));
            }
        }
        // What the thread has said last is what the pages have, and the tables allow no more.
        Op::LendRights { addr, pages, prot } => {
            let (end, prot) = (addr + pages, Prot(prot));
            let lent = both.real.lend_rights(addr, end).map_err(Error::from);
            if both.was_refused(lent) {
                return;
            }
            let Ok(Some(before)) = lent else { return };
            let part = both.real.map().at(addr).copied().unwrap();
            assert_eq!((part.start, part.end, part.prot), (addr, end, before));
            both.real.end_lending_rights(&mut both.backend, (addr, end), prot);
            assert_eq!(both.model.protect(addr, end, prot), Ok(()));
        }
        Op::LendMapped { pick, hides, shows } => {
            let map = both.real.map();
            let own: Vec<Entry> =
                map.entries().filter(|entry| entry.flags.has(Flags::OWN)).copied().collect();
            let Some(&Entry { start, end, object, .. }) = own.get(pick % own.len().max(1)) else {
                return;
            };
            if both.model.locks_new || !both.real.lend_mapped(&mut both.backend, start, end) {
                return;
            }
            assert!(both.real.map().at(start).is_some_and(|entry| entry.flags == Flags::LENT));
            if hides {
                both.backend.hide_whole(start, object.unwrap());
            }
            if hides && shows {
                both.backend.show_whole(start);
            }
            let is_mapped = !hides || shows;
            let ended = both.real.end_lending_mapped(&mut both.backend, start, is_mapped);
            assert_eq!(ended, object);
            if hides {
                world.exact &= !forked;
                both.model.unmap(start, end);
            }
            if hides && shows {
                both.model.enter(start, end - start, Prot(3), Flags(0), None);
            }
            if both.backend.refused {
                both.was_refused::<()>(Err(Error::NoMemory));
            }
            world.note("lend mapped");
        }
        Op::Map { place, .. } => {
            world.exact &= !(forked && place == 3);
            map(world, which, op);
        }
        Op::Unmap { addr, pages } => {
            let got = both.real.munmap(&mut both.backend, addr * PAGE, pages * PAGE);
            let fits = addr + pages <= HIGH;
            world.exact &= !forked;
            if both.was_refused(got) {
                return;
            }
            assert_eq!(got, if fits { Ok(()) } else { Err(Error::Invalid) });
            if fits {
                both.model.unmap(addr, addr + pages);
            }
        }
        Op::Protect { addr, pages, prot } => {
            let prot = Prot(prot);
            let got = both.real.mprotect(&mut both.backend, addr * PAGE, pages * PAGE, prot);
            if !both.was_refused(got) {
                assert_eq!(got, both.model.protect(addr, addr + pages, prot));
            }
        }
        Op::Stripe { addr, pages, prot } => {
            for page in (addr..addr + pages).step_by(2) {
                let got = both.real.mprotect(&mut both.backend, page * PAGE, PAGE, Prot(prot));
                if both.was_refused(got) {
                    return;
                }
                assert_eq!(got, both.model.protect(page, page + 1, Prot(prot)));
            }
        }
        Op::Discard { addr, pages } => {
            let advice = Advice::DontNeed { locked: false };
            let got = both.real.madvise(&mut both.backend, addr * PAGE, pages * PAGE, advice);
            let covered = (addr..addr + pages).all(|page| both.model.pages.contains_key(&page));
            world.exact &= !forked;
            if both.was_refused(got) {
                return;
            }
            let mut all = both.model.pages.range(addr..addr + pages);
            if let Some((&locked, _)) = all.find(|(_, page)| page.flags.has(Flags::LOCKED)) {
                assert_eq!(got, Err(Error::Invalid));
                return both.model.discard(addr, locked);
            }
            assert_eq!(got.is_ok(), covered);
            both.model.discard(addr, addr + pages);
        }
        Op::ForkOrNot { addr, pages, fork } => {
            let advice = Advice::Fork(fork);
            let got = both.real.madvise(&mut both.backend, addr * PAGE, pages * PAGE, advice);
            assert_eq!(got.is_ok(), both.model.dont_fork(addr, addr + pages, !fork));
        }
        Op::Remap { pick, old, new } => {
            remap(world, which, pick, old, new);
            world.exact &= !forked;
        }
        Op::Touch { addr, access: kind } => drop(world.touch(which, addr, access(kind))),
        Op::TouchRun { addr, pages, access: kind } => {
            for page in addr..addr + pages {
                let _ = world.touch(which, page, access(kind));
            }
        }
        Op::TakeAway { object } => {
            world.processes.iter_mut().for_each(|both| both.fresh.clear());
            world.processes.iter_mut().for_each(|both| both.backend.object_revoke(object));
        }
        Op::Relieve { pages, shared } => {
            let before = both.real.amap().pages();
            // Where a policy chooses, pieces leave, with what was aside before and is shown again.
            both.backend.hide(true);
            let gone = both.real.relieve(&mut both.backend, pages, shared);
            both.backend.hide(false);
            if !both.backend.refused {
                assert_eq!(both.real.amap().pages() + gone, before);
            }
            if !shared {
                // What another process has, too, has stayed.
                for (&page, at) in &both.model.pages {
                    let is_shared = at.anon.as_ref().is_some_and(|anon| Rc::strong_count(anon) > 1);
                    let entry = both.real.map().at(page).unwrap();
                    assert!(!is_shared || !entry.flags.has(Flags::OWN), "{page} is another's, too");
                }
            }
            both.own_what_is_own();
        }
        Op::Limit { addr, pages, places, policy } => {
            // The next that is mapped, or a part of it.
            let next = both.real.map().within(addr, HIGH).next();
            let Some(entry) = next.filter(|_| both.lent.is_none()) else { return };
            let (addr, pages) = (entry.start, pages.min(entry.pages()));
            let recorded = || Optimal::new((addr..addr + pages).collect::<Vec<_>>().into_iter());
            let policy: Box<dyn Policy> = match policy {
                0 => return both.real.limit_nothing(),
                1 => Box::new(Fifo::new()),
                2 => Box::new(Clock::new()),
                3 => Box::new(Sampled::new()),
                _ => Box::new(recorded().unwrap()),
            };
            both.backend.store.get_or_insert_default();
            // Much of what is there may not be limited, and it says so; nothing may be lost by either.
            let _ = both.real.limit(&mut both.backend, (addr * PAGE, pages * PAGE), places, policy);
            both.own_what_is_own();
        }
        Op::ClearWritten => {
            let both = &mut world.processes[which];
            both.real.clear_written(&mut both.backend);
            both.written.clear();
        }
        Op::CopyAtForks { eager } => both.real.copy_at_forks(eager),
        Op::Lengthen { pages } => {
            world.processes.iter_mut().for_each(|both| both.fresh.clear());
            world.kernel.borrow_mut().lengthen(pages);
        }
        Op::Wire { addr, pages, on, touch } => {
            if let Some(range) = next_mapped(both, addr, pages) {
                world.wire(which, range, on, touch);
            }
        }
        Op::WireAll { flags } => world.wire_all(which, flags),
        Op::PageOut { addr, pages } => {
            if let Some((addr, pages)) = next_mapped(both, addr, pages) {
                world.page_out(which, addr, pages);
            }
        }
        Op::Victims { policy } => {
            let policy: Box<dyn Policy> = match policy {
                0 => Box::new(Fifo::new()),
                1 => Box::new(Clock::new()),
                _ => Box::new(Sampled::new()),
            };
            both.real.choose_victims(policy).unwrap();
        }
        Op::Transfer { pick, old, new, to, dont_unmap } => {
            world.transfer(which, pick, (old, new), to, dont_unmap);
        }
        Op::Pass { addr, pages, mode } => {
            if let Some(range) = next_mapped(both, addr, pages) {
                world.pass(which, range, mode);
            }
        }
        Op::Recall => world.recall(which),
        Op::Give { share } => world.give(which, share),
        Op::Take { pick, skip, pages, addr, prot, takes } => {
            world.take(which, pick, (skip, pages), (addr, Prot(prot)), takes);
        }
        Op::MapFile { pick, .. } => {
            if let Some(op) = world.mapping_of(pick, op) {
                make_step(world, which, &op);
            }
        }
        Op::Close { pick } => world.close(pick),
        Op::Fork if world.processes.len() < 4 => world.fork(which),
        Op::Exit if forked => world.exit(which),
        Op::Kill if forked => world.kill(which),
        Op::Fork | Op::Exit | Op::Kill => {}
    }
}

/// One run of the test: a world, and operations in it.
fn run(
    (threads, leaves): (bool, bool),
    ops: &[(usize, Op, Option<u32>)],
) -> BTreeMap<&'static str, u64> {
    let mut world = World::with_own_of(threads);
    if leaves {
        // Its pages can leave, and a policy says which small memory does.
        let both = &mut world.processes[0];
        both.backend.store.get_or_insert_default();
        both.real.choose_victims(Box::new(Fifo::new())).unwrap();
    }
    for (which, op, left) in ops {
        let process = *which % world.processes.len();
        world.processes[process].backend.left = *left;
        world.exact &= left.is_none();
        step(&mut world, *which, op);
        world.processes.iter_mut().for_each(|both| both.backend.left = None);
        world.check();
        world.check_written();
        world.clear_away(*which);
        world.check();
    }
    world.finish()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]
    #[test]
    fn agrees_with_the_naive_model(
        threads in any::<bool>(),
        ops in proptest::collection::vec(op(), 1..60),
    ) {
        run((threads, false), &ops);
    }
}

/// The same with all operations. `TESSERA_SEED` repeats one, `TESSERA_STEPS` says how many operations.
#[test]
fn all_operations_agree_with_the_naive_model() {
    const STEPS: u64 = 20_000;
    /// What must have happened.
    const ALL: [&str; 18] = [
        "copy",
        "donate",
        "give",
        "import",
        "in",
        "lend",
        "lend mapped",
        "out",
        "pass a copy",
        "pass tables",
        "recall",
        "share",
        "take",
        "transfer",
        "transfer of an object",
        "transfer, and the range stays",
        "unwire",
        "wire",
    ];
    /// Worlds that are run with one generator.
    const ROUND: u32 = 100;
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let by_the_clock = || {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        u64::from(now.subsec_nanos()) ^ now.as_secs() << 30
    };
    let mut seed = number("TESSERA_SEED").unwrap_or_else(by_the_clock);
    let wanted = number("TESSERA_STEPS").unwrap_or(STEPS);
    println!("TESSERA_SEED={seed} TESSERA_STEPS={wanted}");
    let (steps, tally) = (Cell::new(0), RefCell::new(BTreeMap::<_, u64>::new()));
    while steps.get() < wanted {
        let config =
            ProptestConfig { cases: ROUND, failure_persistence: None, ..ProptestConfig::default() };
        let words = [seed, !seed, 1, 2].map(u64::to_le_bytes);
        let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &words.concat());
        let ops = proptest::collection::vec(any_op(), 1..160);
        let result = TestRunner::new_with_rng(config, rng).run(
            &(any::<(bool, bool)>(), ops),
            |(kind, ops)| {
                steps.set(steps.get() + ops.len() as u64);
                for (what, count) in run(kind, &ops) {
                    *tally.borrow_mut().entry(what).or_default() += count;
                }
                Ok(())
            },
        );
        if let Err(error) = result {
            panic!("TESSERA_SEED={seed} TESSERA_STEPS=1\n{error}");
        }
        seed = seed.wrapping_add(1);
    }
    println!("{} operations; {:?}", steps.get(), tally.borrow());
    let happened: Vec<_> = tally.borrow().keys().copied().collect();
    // Few do not meet all of it.
    assert!(wanted < 10 * STEPS || happened == ALL, "happened: {happened:?}");
}
