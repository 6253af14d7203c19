//! Which pieces of small memory go aside, by policy.

use super::kernel::{Moved, Store};
use super::World;
use crate::aside::PIECE;
use crate::types::{Access, Prot, PAGE, REGION_PAGES};
use crate::{Flags, MapRequest, Placement};
use selfpaging::{Clock, Fifo, Policy, Sampled};

const RW: Prot = Prot(3);
const START: u64 = REGION_PAGES - PIECE;
const PIECES: u64 = 6;

/// A world with six pieces in two tables, all of which were used.
fn world(policy: Option<Box<dyn Policy>>) -> World {
    let mut world = World::with_own();
    let both = &mut world.processes[0];
    both.backend.store = Some(Store::default());
    let request = MapRequest {
        addr: START * PAGE,
        placement: Placement::Fixed,
        ..MapRequest::anonymous(PIECES * PIECE * PAGE, RW)
    };
    both.real.mmap(&mut both.backend, &request).unwrap();
    both.model.enter(START, PIECES * PIECE, RW, Flags(0), None);
    if let Some(policy) = policy {
        both.real.choose_victims(policy).unwrap();
    }
    for page in START..START + PIECES * PIECE {
        world.touch(0, page, Access::Write).unwrap();
        world.processes[0].backend.note_use(page);
    }
    world
}

/// Some page of a piece is used.
fn use_piece(world: &mut World, piece: u64) {
    let page = START + piece * PIECE + 11 * piece;
    world.touch(0, page, Access::Read).unwrap();
    world.processes[0].backend.note_use(page);
}

/// Memory is short: which piece goes.
fn relieve(world: &mut World) -> Vec<u64> {
    let both = &mut world.processes[0];
    assert_eq!(both.real.relieve(&mut both.backend, PIECE, false), PIECE);
    let log = std::mem::take(&mut both.backend.store.as_mut().unwrap().log);
    world.check();
    log.into_iter()
        .map(|(page, moved)| {
            assert_eq!(moved, Moved::Out);
            (page - START) / PIECE
        })
        .collect()
}

/// Each time memory is short, some pieces were used before; the piece that goes.
fn run(policy: Option<Box<dyn Policy>>, used: &[&[u64]]) -> Vec<Vec<u64>> {
    let mut world = world(policy);
    let gone = used.iter().map(|pieces| {
        pieces.iter().for_each(|&piece| use_piece(&mut world, piece));
        relieve(&mut world)
    });
    let gone = gone.collect();
    world.finish();
    gone
}

#[test]
fn policies_choose_pieces() {
    // All are met, and count as used, the first time.
    let used: [&[u64]; 5] = [&[], &[1], &[1, 3], &[5], &[]];
    let of = |policy: Box<dyn Policy>| run(Some(policy), &used).concat();
    assert_eq!(of(Box::new(Fifo::new())), [0, 1, 2, 3, 4]);
    // The fourth time the hand takes the marks of 5 and 1, and that of 3 it has taken before.
    assert_eq!(of(Box::new(Clock::new())), [0, 2, 4, 3, 5]);
    // By then 1 and 3 were last used at the same time.
    assert_eq!(of(Box::new(Sampled::new())), [0, 2, 4, 1, 3]);
}

/// Without a policy what goes aside stays in memory until somebody else wants it.
#[test]
fn without_a_policy_nothing_leaves() {
    let gone = run(None, &[&[], &[1]]);
    assert_eq!(gone.concat(), []);
}

/// A piece that may not go is passed by, and asked for again when it may.
#[test]
fn what_may_not_go_is_passed_by() {
    let mut world = world(Some(Box::new(Fifo::new())));
    world.wire(0, (START, 2 * PIECE), true, false);
    assert_eq!(relieve(&mut world), [2]);
    world.wire(0, (START, PIECE), false, false);
    assert_eq!(relieve(&mut world), [3]);
    let both = &mut world.processes[0];
    let (addr, bytes) = ((START + 4 * PIECE) * PAGE, 2 * PIECE * PAGE);
    both.real.munmap(&mut both.backend, addr, bytes).unwrap();
    both.model.unmap(START + 4 * PIECE, START + 6 * PIECE);
    assert_eq!(relieve(&mut world), [0]);
    let both = &mut world.processes[0];
    assert_eq!(both.real.relieve(&mut both.backend, PIECE, false), 0);
    world.finish();
}

/// What is locked, and aside since before it was, does not leave with others of its piece.
#[test]
fn what_is_locked_stays_beside_what_leaves() {
    let mut world = world(Some(Box::new(Fifo::new())));
    assert_eq!(relieve(&mut world), [0]);
    for page in START..START + PIECE {
        world.touch(0, page, Access::Read).unwrap();
    }
    let half = PIECE / 2;
    world.wire(0, (START, half), true, true);
    // The other half becomes small memory again.
    let both = &mut world.processes[0];
    let request = MapRequest {
        addr: (START + half) * PAGE,
        placement: Placement::Fixed,
        ..MapRequest::anonymous(half * PAGE, RW)
    };
    both.real.mmap(&mut both.backend, &request).unwrap();
    both.model.unmap(START + half, START + PIECE);
    both.model.enter(START + half, half, RW, Flags(0), None);
    for page in START + half..START + PIECE {
        world.touch(0, page, Access::Write).unwrap();
    }
    let both = &mut world.processes[0];
    both.backend.hide(true);
    let all = both.real.amap().pages();
    assert_eq!(both.real.relieve(&mut both.backend, all, false), all);
    let out = both.backend.all_out();
    both.own_what_is_own();
    let both = &mut world.processes[0];
    for page in START..START + PIECE {
        let entry = *both.real.map().at(page).unwrap();
        let at = (entry.object.unwrap(), entry.object_page(page));
        assert_eq!(out.contains(&at), page >= START + half, "page {page}");
    }
    world.check();
    world.finish();
}
