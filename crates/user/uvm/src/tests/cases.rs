//! Cases with names.

use super::kernel::WHOLE;
use super::*;
use crate::map::Flags;
use crate::mmap::MapRequest;
use crate::types::Prot;
use crate::Placement;
use crate::{ObjectId, RemapFlags};

const RW: Prot = Prot(3);

fn dirty(world: &mut World, pages: u64) -> u64 {
    let request = MapRequest::anonymous(pages * PAGE, RW);
    let both = &mut world.processes[0];
    let start = both.real.mmap(&mut both.backend, &request).unwrap() / PAGE;
    both.model.enter(start, pages, RW, request.flags, None);
    (start..start + pages).for_each(|page| assert!(world.touch(0, page, Access::Write).is_ok()));
    start
}

#[test]
fn fork_copies_nothing_and_n_writes_copy_n_pages() {
    let mut world = World::new();
    let start = dirty(&mut world, 2000);
    world.fork(0);
    assert_eq!(world.kernel.borrow().page_copies, 0);
    for n in 0..10 {
        world.touch(1, start + n * 199, Access::Write).unwrap();
    }
    assert_eq!(world.kernel.borrow().page_copies, 10);
    (start..start + 2000).for_each(|page| assert!(world.touch(1, page, Access::Read).is_ok()));
    assert_eq!(world.kernel.borrow().page_copies, 10);
    world.exit(1);
    (start..start + 2000).for_each(|page| assert!(world.touch(0, page, Access::Write).is_ok()));
    assert_eq!(world.kernel.borrow().page_copies, 10, "the last owner never copies");
    world.check();
    world.finish();
}

#[test]
fn an_eager_fork_copies_all_and_no_write_does() {
    let mut world = World::new();
    let start = dirty(&mut world, 2000);
    let both = &mut world.processes[0];
    // What may not be touched is copied, too, and not to be seen.
    both.real.mprotect(&mut both.backend, (start + 5) * PAGE, 10 * PAGE, Prot::NONE).unwrap();
    both.model.protect(start + 5, start + 15, Prot::NONE).unwrap();
    both.real.copy_at_forks(true);
    world.fork(0);
    world.check();
    assert_eq!(world.kernel.borrow().page_copies, 2000);
    for both in &mut world.processes {
        both.real.mprotect(&mut both.backend, (start + 5) * PAGE, 10 * PAGE, RW).unwrap();
        both.model.protect(start + 5, start + 15, RW).unwrap();
    }
    for page in start..start + 2000 {
        let both = &world.processes[0];
        let is_hidden = (5..15).contains(&(page - start));
        let is_writable = both.backend.look_up(page, Access::Write).is_some();
        assert_eq!(is_writable, !is_hidden, "the parent has no fault at {page}");
        world.touch(1, page, Access::Write).unwrap();
        world.touch(0, page, Access::Write).unwrap();
    }
    assert_eq!(world.kernel.borrow().page_copies, 2000);
    // A child of the child copies as well; one that does not is as any.
    world.fork(1);
    assert_eq!(world.kernel.borrow().page_copies, 4000);
    world.processes[2].real.copy_at_forks(false);
    world.fork(2);
    assert_eq!(world.kernel.borrow().page_copies, 4000);
    world.check();
    world.finish();
}

#[test]
fn what_an_eager_fork_has_no_memory_for_is_copied_when_written_to() {
    for left in 0..12 {
        let mut world = World::new();
        let start = dirty(&mut world, 20);
        world.processes[0].real.copy_at_forks(true);
        world.processes[0].backend.left = Some(left);
        world.fork(0);
        world.processes[0].backend.left = None;
        world.check();
        for which in 0..world.processes.len() {
            for page in start..start + 20 {
                let _ = world.touch(which, page, Access::Write);
            }
        }
        world.check();
        world.exact = false;
        world.finish();
    }
}

#[test]
fn what_is_read_behind_written_pages_of_a_small_region_is_writable_at_once() {
    let is_own = |pages: u64, read: &[u64]| {
        let mut world = World::new();
        let both = &mut world.processes[0];
        let request = MapRequest::anonymous(pages * PAGE, RW);
        let start = both.real.mmap(&mut both.backend, &request).unwrap() / PAGE;
        let mut touch = |n: u64, access| {
            both.real.fault(&mut both.backend, (start + n) * PAGE, access).unwrap();
            both.backend.look_up(start + n, Access::Write).is_some()
        };
        // The second one, so that no page read follows the last fault.
        assert!(touch(0, Access::Write) && touch(7, Access::Write));
        read.iter().map(|&n| touch(n, Access::Read)).collect::<Vec<bool>>()
    };
    assert_eq!(
        is_own(16, &[1, 2, 4]),
        [true, true, false],
        "the second page in a row, and one more"
    );
    assert_eq!(is_own(16, &[8]), [false], "not where writing in order goes on");
    assert_eq!(is_own(32, &[1]), [false], "a large region");
}

#[test]
fn a_read_of_the_page_of_the_stack_pointer_is_taken_for_a_write() {
    let mut world = World::new();
    let both = &mut world.processes[0];
    let mut map = |prot| {
        let request = MapRequest { prot, ..MapRequest::anonymous(4 * PAGE, RW) };
        both.real.mmap(&mut both.backend, &request).unwrap()
    };
    let (writable, constant) = (map(RW), map(Prot::READ));
    let mut foreseen = |addr, access, sp| both.real.foreseen(addr, access, sp);
    assert_eq!(foreseen(writable + 8, Access::Read, writable + 4000), Access::Write);
    assert_eq!(foreseen(writable + 8, Access::Exec, writable + 8), Access::Exec);
    assert_eq!(foreseen(writable + 8, Access::Read, writable + PAGE), Access::Read);
    assert_eq!(foreseen(constant + 8, Access::Read, constant + 8), Access::Read);
    assert_eq!(foreseen(8, Access::Read, 8), Access::Read, "nothing is mapped there");
}

#[test]
fn the_child_as_last_owner_never_copies() {
    let mut world = World::new();
    let start = dirty(&mut world, 600);
    world.fork(0);
    world.touch(0, start, Access::Write).unwrap();
    world.exit(0);
    (start..start + 600).for_each(|page| assert!(world.touch(0, page, Access::Write).is_ok()));
    assert_eq!(world.kernel.borrow().page_copies, 1);
    world.check();
    world.finish();
}

#[test]
fn sequential_touching_takes_few_faults() {
    let mut world = World::new();
    let both = &mut world.processes[0];
    let at = both.real.mmap(&mut both.backend, &MapRequest::anonymous(256 * PAGE, RW)).unwrap();
    let mut faults = 0;
    for page in at / PAGE..at / PAGE + 256 {
        if both.backend.look_up(page, Access::Write).is_none() {
            both.real.fault(&mut both.backend, page * PAGE, Access::Write).unwrap();
            faults += 1;
        }
    }
    assert!(faults < 24, "{faults} faults");
}

#[test]
fn a_shorter_object_has_no_page_behind_its_end() {
    const PAGES: u64 = 300;
    const LEFT: u64 = 100;
    for (flags, kept) in [(Flags::SHARED, 0), (Flags::default(), 0), (Flags::SHARED, 37)] {
        let mut world = World::new();
        let both = &mut world.processes[0];
        let object = Some((ObjectId::new(2), kept * PAGE));
        let request = MapRequest { flags, object, ..MapRequest::anonymous(PAGES * PAGE, RW) };
        let start = both.real.mmap(&mut both.backend, &request).unwrap() / PAGE;
        let (whole, left) = (start..start + PAGES, start + LEFT - kept);
        for page in whole.clone() {
            let access = if page % 3 == 0 { Access::Write } else { Access::Read };
            both.real.fault(&mut both.backend, page * PAGE, access).unwrap();
        }
        world.kernel.borrow_mut().objects.get_mut(&2).unwrap().truncate(LEFT as usize);
        both.real.object_cut(&mut both.backend, ObjectId::new(2), LEFT).unwrap();
        both.real.validate();
        for page in whole {
            let there = both.backend.look_up(page, Access::Read).is_some();
            assert_eq!(there, page < left, "page {}", page - start);
            let fault = both.real.fault(&mut both.backend, page * PAGE, Access::Write);
            assert_eq!(fault.is_ok(), page < left, "page {}: {fault:?}", page - start);
        }
    }
}

#[test]
fn an_object_that_takes_the_place_of_its_only_mapping_stays() {
    let mut world = World::new();
    let both = &mut world.processes[0];
    let object = ObjectId::new(0);
    let mut request =
        MapRequest { object: Some((object, 0)), ..MapRequest::anonymous(8 * PAGE, RW) };
    request.addr = both.real.mmap(&mut both.backend, &request).unwrap();
    request.placement = Placement::Fixed;
    request.object = Some((object, 3 * PAGE));
    both.real.mmap(&mut both.backend, &request).unwrap();
    assert_eq!(both.backend.released, []);
    request.object = None;
    both.real.mmap(&mut both.backend, &request).unwrap();
    assert_eq!(both.backend.released, [object]);
}

#[test]
fn a_new_program_finds_nothing_of_the_old_one() {
    let mut world = World::new();
    let start = dirty(&mut world, 700);
    world.fork(0);
    world.touch(1, start, Access::Write).unwrap();
    for which in 0..2 {
        let both = &mut world.processes[which];
        both.real.clear(&mut both.backend).unwrap();
        both.model.unmap(LOW, HIGH);
        assert!(both.backend.present_pages().is_empty());
        both.real.set_mmap_top(TOP * PAGE);
        both.real.limits.stack = 64 * PAGE;
    }
    world.check();
    dirty(&mut world, 300);
    world.check();
    world.finish();
}

#[test]
fn brk_keeps_away_from_mappings() {
    let mut world = World::new();
    let both = &mut world.processes[0];
    both.real.set_brk_start(LOW * PAGE + 100);
    let end = both.real.brk(&mut both.backend, LOW * PAGE + 3 * PAGE);
    assert_eq!(end, LOW * PAGE + 3 * PAGE);
    let request = MapRequest { addr: (LOW + 8) * PAGE, ..MapRequest::anonymous(PAGE, RW) };
    assert_eq!(both.real.mmap(&mut both.backend, &request), Ok((LOW + 8) * PAGE));
    assert_eq!(both.real.brk(&mut both.backend, (LOW + 8) * PAGE), end);
    assert_eq!(both.real.brk(&mut both.backend, (LOW + 7) * PAGE), (LOW + 7) * PAGE);
    assert_eq!(both.real.brk(&mut both.backend, 0), (LOW + 7) * PAGE);
    let text = both
        .real
        .maps_text(&both.backend, crate::Detail::Lines, |_| Default::default(), &[])
        .unwrap();
    assert!(text.lines().next().unwrap().ends_with("[heap]"), "{text}");
}

#[test]
fn a_killed_process_leaves_its_relatives_bit_by_bit() {
    // Whatever is gone already when its relative writes, in whatever order it went.
    for (order, gone) in (0..14).flat_map(|order| (0..6).map(move |gone| (order, gone))) {
        let mut world = World::new();
        let start = dirty(&mut world, 400);
        world.fork(0);
        world.kill(order % 2);
        for step in 0..gone {
            world.remains[0].shrink(order / 2 * (step + 1));
        }
        for page in [0, 150, 300].map(|n| start + n) {
            world.touch(0, page, Access::Write).unwrap();
            world.check();
        }
        while world.remains[0].shrink(order) {
            world.touch(0, start + 151, Access::Write).unwrap();
            world.check();
        }
        world.finish();
    }
}

#[test]
fn who_left_the_cnode_may_have_the_pages_still() {
    // More than are given to a child one by one. Both stay alive: the child leaves the CNode of the MiB
    // by a write to another page of it, with copies of all its Frames.
    const MANY: u64 = 100;
    let mut world = World::new();
    let start = dirty(&mut world, MANY);
    world.fork(0);
    world.touch(1, start + 90, Access::Write).unwrap();
    for page in start..start + MANY {
        world.touch(0, page, Access::Write).unwrap();
        world.touch(1, page, Access::Read).unwrap();
        world.check();
    }
    // The same the other way round.
    let mut world = World::new();
    let start = dirty(&mut world, MANY);
    world.fork(0);
    world.touch(0, start + 90, Access::Write).unwrap();
    for page in start..start + MANY {
        world.touch(1, page, Access::Write).unwrap();
        world.touch(0, page, Access::Read).unwrap();
        world.check();
    }
    world.finish();
}

#[test]
fn populating_ends_inside_an_entry() {
    let mut world = World::new();
    let both = &mut world.processes[0];
    let start = both.real.mmap(&mut both.backend, &MapRequest::anonymous(9 * PAGE, RW)).unwrap();
    let first = start / PAGE;
    both.real.populate_lenient(&mut both.backend, first + 2, first + 5);
    for page in first..first + 9 {
        let there = both.backend.look_up(page, Access::Write).is_some();
        assert_eq!(there, (first + 2..first + 5).contains(&page), "page {}", page - first);
    }
}

#[test]
fn a_large_object_is_mapped_by_one_entry() {
    let mut world = World::new();
    let both = &mut world.processes[0];
    let request = MapRequest {
        placement: Placement::HintAligned,
        flags: Flags::SHARED,
        object: Some((ObjectId::new(WHOLE), 0)),
        ..MapRequest::anonymous(OBJECTS[3] * PAGE, RW)
    };
    // Only all of it.
    let part = MapRequest { len: (OBJECTS[3] - 1) * PAGE, ..request };
    let start = both.real.mmap(&mut both.backend, &part).unwrap();
    assert!(both.backend.giants().is_empty());
    both.real.munmap(&mut both.backend, start, part.len).unwrap();
    let start = both.real.mmap(&mut both.backend, &request).unwrap() / PAGE;
    both.model.enter(start, OBJECTS[3], RW, request.flags, Some((WHOLE, 0)));
    assert_eq!((both.backend.giants().len(), both.real.pmap().wholes()), (1, 1));
    // Nobody has faulted, and all can be used.
    assert_eq!(both.backend.present_pages().len() as u64, OBJECTS[3]);
    // What can go elsewhere does.
    let other = both.real.mmap(&mut both.backend, &MapRequest::anonymous(PAGE, RW)).unwrap() / PAGE;
    both.model.enter(other, 1, RW, Flags(0), None);
    assert_eq!(both.backend.giants().len(), 1);
    // The rights of a part.
    both.real.mprotect(&mut both.backend, start * PAGE, PAGE, Prot::READ).unwrap();
    both.model.protect(start, start + 1, Prot::READ).unwrap();
    assert!(both.backend.giants().is_empty());
    (start + 1..start + OBJECTS[3])
        .for_each(|page| assert!(world.touch(0, page, Access::Write).is_ok()));
    let both = &mut world.processes[0];
    assert_eq!(both.real.pmap().wholes(), 0, "neither region is one entry's");
    // All of it again.
    both.real.mprotect(&mut both.backend, start * PAGE, OBJECTS[3] * PAGE, RW).unwrap();
    both.model.protect(start, start + OBJECTS[3], RW).unwrap();
    both.real.munmap(&mut both.backend, start * PAGE, OBJECTS[3] * PAGE).unwrap();
    both.model.unmap(start, start + OBJECTS[3]);
    assert_eq!(both.real.mmap(&mut both.backend, &request).unwrap() / PAGE, start);
    both.model.enter(start, OBJECTS[3], RW, request.flags, Some((WHOLE, 0)));
    assert_eq!(both.backend.giants().len(), 1);
    // Something behind its end.
    let fixed = MapRequest {
        addr: (start + 1000) * PAGE,
        placement: Placement::FixedNoReplace,
        ..MapRequest::anonymous(PAGE, RW)
    };
    both.real.mmap(&mut both.backend, &fixed).unwrap();
    both.model.enter(start + 1000, 1, RW, Flags(0), None);
    assert!(both.backend.giants().is_empty());
    world.touch(0, start, Access::Write).unwrap();
    assert_eq!(world.processes[0].real.pmap().wholes(), 1, "the first region");
    world.check();
    world.finish();
}

/// What lies behind the end of a mapping, in the same giant, belongs to who is mapped there, whatever the object gains.
#[test]
fn a_giant_makes_way() {
    [0, 330].into_iter().for_each(makes_way);
}

/// The object gains so many pages first.
fn makes_way(gained: u64) {
    let shared = |addr: u64| MapRequest {
        addr: addr * PAGE,
        placement: Placement::FixedNoReplace,
        flags: Flags::SHARED,
        object: Some((ObjectId::new(WHOLE), 0)),
        ..MapRequest::anonymous(OBJECTS[3] * PAGE, RW)
    };
    let (start, end) = (1024, 1024 + OBJECTS[3]);
    let fresh = || {
        let mut world = World::new();
        let both = &mut world.processes[0];
        both.real.mmap(&mut both.backend, &shared(start)).unwrap();
        both.model.enter(start, OBJECTS[3], RW, Flags::SHARED, Some((WHOLE, 0)));
        world.touch(0, start, Access::Write).unwrap();
        assert_eq!(world.processes[0].backend.giants().len(), 1);
        world.kernel.borrow_mut().lengthen(gained);
        world
    };
    let check = |mut world: World, page: u64| {
        world.touch(0, page, Access::Read).unwrap();
        world.touch(0, start, Access::Write).unwrap();
        assert!(world.processes[0].backend.giants().is_empty());
        world.check();
        world.finish();
    };

    let mut world = fresh();
    let both = &mut world.processes[0];
    let own = MapRequest { flags: Flags(0), object: None, len: PAGE, ..shared(end + 20) };
    both.real.mmap(&mut both.backend, &own).unwrap();
    both.model.enter(end + 20, 1, RW, Flags(0), None);
    check(world, end + 20);

    // Another object, of which a whole region could be shown by one entry, too.
    let mut world = fresh();
    let both = &mut world.processes[0];
    let object = Some((ObjectId::new(2), 0));
    let other = MapRequest { object, len: 600 * PAGE, ..shared(end + 20) };
    both.real.mmap(&mut both.backend, &other).unwrap();
    both.model.enter(end + 20, 600, RW, Flags::SHARED, Some((2, 0)));
    check(world, end + 20);

    // A stack above it that may grow into it.
    let mut world = fresh();
    let both = &mut world.processes[0];
    let own = MapRequest { addr: 2050 * PAGE, flags: Flags::GROWS_DOWN, ..own };
    both.real.mmap(&mut both.backend, &own).unwrap();
    both.model.enter(2050, 1, RW, Flags::GROWS_DOWN, None);
    check(world, 2047);

    // The heap.
    let mut world = fresh();
    let both = &mut world.processes[0];
    both.real.set_brk_start((end + 5) * PAGE);
    assert_eq!(both.real.brk(&mut both.backend, (end + 8) * PAGE), (end + 8) * PAGE);
    both.model.enter(end + 5, 3, RW, Flags(0), None);
    check(world, end + 7);

    // The mapping itself becomes longer, and so shows what the object has gained.
    let mut world = fresh();
    let both = &mut world.processes[0];
    let (old, new) = (OBJECTS[3] * PAGE, (OBJECTS[3] + 20) * PAGE);
    let flags = crate::RemapFlags::default();
    both.real.mremap(&mut both.backend, start * PAGE, old, new, flags).unwrap();
    both.model.enter(end, 20, RW, Flags::SHARED, Some((WHOLE, OBJECTS[3])));
    let there = if gained > 0 { Ok(()) } else { Err(FaultError::NoPage) };
    assert_eq!(world.touch(0, end + 19, Access::Write).map(drop), there);
    world.check();
    world.finish();
}

/// What an object gains is not seen behind the end of a mapping; what the mapping has of it is.
#[test]
fn nothing_is_seen_behind_the_end_of_a_mapping() {
    let request = |pages: u64| MapRequest {
        addr: 1024 * PAGE,
        placement: Placement::FixedNoReplace,
        flags: Flags::SHARED,
        object: Some((ObjectId::new(WHOLE), 0)),
        ..MapRequest::anonymous(pages * PAGE, RW)
    };
    let (start, end) = (1024, 1024 + OBJECTS[3] + 50);
    let mut world = World::new();
    let both = &mut world.processes[0];
    both.real.mmap(&mut both.backend, &request(OBJECTS[3] + 50)).unwrap();
    both.model.enter(start, OBJECTS[3] + 50, RW, Flags::SHARED, Some((WHOLE, 0)));
    world.touch(0, start, Access::Write).unwrap();
    assert_eq!(world.processes[0].backend.giants().len(), 1);
    // Up to the end of the mapping nothing happens.
    world.kernel.borrow_mut().lengthen(50);
    assert_eq!(world.touch(0, end - 1, Access::Write).map(drop), Ok(()));
    assert_eq!(world.processes[0].real.pmap().wholes(), 1);
    // Then nobody sees more than is mapped, whoever has it mapped.
    world.kernel.borrow_mut().lengthen(50);
    world.check();
    assert_eq!(world.touch(0, end, Access::Read).map(drop), Err(FaultError::NotMapped));
    assert_eq!(world.touch(0, end - 1, Access::Write).map(drop), Ok(()));
    assert_eq!(world.touch(0, start, Access::Read).map(drop), Ok(()));
    assert!(world.processes[0].backend.giants().is_empty());
    world.check();
    world.finish();
}

/// A large page has no table that a region could be mapped by: its pages are mapped one by one where the giant has gone.
#[test]
fn a_part_of_a_large_page_has_rights_of_its_own() {
    let mut world = World::new();
    let both = &mut world.processes[0];
    both.backend.has_large = true;
    let request = MapRequest {
        placement: Placement::HintAligned,
        flags: Flags::SHARED,
        object: Some((ObjectId::new(WHOLE), 0)),
        ..MapRequest::anonymous(OBJECTS[3] * PAGE, RW)
    };
    let start = both.real.mmap(&mut both.backend, &request).unwrap() / PAGE;
    both.model.enter(start, OBJECTS[3], RW, request.flags, Some((WHOLE, 0)));
    assert_eq!(both.backend.giants().len(), 1);
    both.real.mprotect(&mut both.backend, (start + 7) * PAGE, PAGE, Prot::READ).unwrap();
    both.model.protect(start + 7, start + 8, Prot::READ).unwrap();
    for page in [0, 6, 7, 8, 511, 512, 719] {
        assert_eq!(world.touch(0, start + page, Access::Read).map(drop), Ok(()));
        let written = world.touch(0, start + page, Access::Write).map(drop);
        assert_eq!(written, if page == 7 { Err(FaultError::NoAccess) } else { Ok(()) });
    }
    assert_eq!(world.processes[0].real.pmap().wholes(), 0);
    world.check();
    world.finish();
}

/// What is asked for in large pages is cut where they end, and nowhere else.
#[test]
fn nothing_cuts_a_large_page() {
    let mut world = World::new();
    let both = &mut world.processes[0];
    let request =
        MapRequest { flags: Flags::LARGE_PAGES, ..MapRequest::anonymous(2 * 512 * PAGE, RW) };
    let Both { real, backend: b, .. } = both;
    let start = real.mmap(b, &request).unwrap() / PAGE;
    assert_eq!(start % 512, 0);
    let end = start + 1024;
    let at = |page: u64| page * PAGE;
    for (from, to) in [(0, 1), (1, 512), (1, 513), (511, 1024), (512, 1023)] {
        let (from, bytes) = (at(start + from), at(to - from));
        assert_eq!(real.munmap(b, from, bytes), Err(Error::Invalid));
        assert_eq!(real.mprotect(b, from, bytes, Prot::READ), Err(Error::Invalid));
        assert_eq!(real.madvise(b, from, bytes, crate::Advice::Fork(false)), Err(Error::Invalid));
        assert_eq!(real.set_locked((from, bytes), true), Ok(()));
        real.populate_lenient(b, from / PAGE, (from + bytes).div_ceil(PAGE));
        let fixed = MapRequest {
            addr: from,
            placement: Placement::Fixed,
            ..MapRequest::anonymous(bytes, RW)
        };
        assert_eq!(real.mmap(b, &fixed), Err(Error::NoMemory));
        assert_eq!(real.map().entries().count(), 1, "pages {from} on");
    }
    let flags = crate::RemapFlags { may_move: true, ..crate::RemapFlags::default() };
    assert_eq!(real.mremap(b, at(start), at(512), at(1025), flags), Err(Error::Invalid));
    assert_eq!(real.mremap(b, at(start + 1), at(512), at(512), flags), Err(Error::Invalid));
    assert_eq!(real.mremap(b, at(start), at(1024), at(1), flags), Ok(at(start)));
    assert!(real.map().is_covered(start, start + 512) && real.map().is_free(start + 512, end));
    assert_eq!(real.munmap(b, at(start), at(512)), Ok(()));
    world.finish();
}

/// Memory that grows is one mapping for the program, whatever becomes of its parts: objects of their own, and at most one with anons.
#[test]
fn memory_that_grows_stays_one_mapping() {
    use super::random::remap;
    let least = crate::own::OWN_LEAST / PAGE;
    for (small, in_place) in [(false, false), (true, false), (false, true), (true, true)] {
        let mut world = World::with_own();
        let both = &mut world.processes[0];
        let request = MapRequest::anonymous(least * PAGE, RW);
        let start = both.real.mmap(&mut both.backend, &request).unwrap() / PAGE;
        both.model.enter(start, least, RW, Flags(0), None);
        if !in_place {
            // Something is in the way.
            let wall = MapRequest {
                addr: (start + least) * PAGE,
                placement: Placement::FixedNoReplace,
                ..MapRequest::anonymous(PAGE, Prot(1))
            };
            both.real.mmap(&mut both.backend, &wall).unwrap();
            both.model.enter(start + least, 1, Prot(1), Flags(0), None);
        }
        world.touch(0, start, Access::Write).unwrap();
        let (mut at, mut pages) = (start, least);
        for _ in 0..3 {
            let more = if small { 3 } else { 40 };
            let real = &world.processes[0].real;
            let pick = real.map().entries().position(|entry| entry.start == at).unwrap();
            let before: Vec<_> = real.map().entries().copied().collect();
            remap(&mut world, 0, pick, pages, pages + more);
            let is_new =
                |page: u64| !before.iter().any(|entry| (entry.start..entry.end).contains(&page));
            let entries = world.processes[0].real.map().entries();
            let longest = entries.filter(|entry| entry.is_private_anonymous() && entry.prot == RW);
            at = longest.map(|entry| entry.start).min().unwrap();
            pages += more;
            assert!(is_new(at + pages - 1));
            for page in [at, at + least - 1, at + pages - 1] {
                world.touch(0, page, Access::Write).unwrap();
            }
            world.check();
        }
        world.finish();
    }
}

/// Memory of threads that ends inside a region is shown there by one entry, as long as nothing else can be seen by that.
#[test]
fn memory_of_threads_is_mapped_by_one_entry_as_far_as_it_goes() {
    let at = |page: u64| page * PAGE;
    let aligned = |pages, prot| MapRequest {
        placement: Placement::HintAligned,
        ..MapRequest::anonymous(pages * PAGE, prot)
    };
    let mut world = World::with_own_of(true);
    let Both { real, backend: b, .. } = &mut world.processes[0];
    // Reserved, and made usable piece by piece.
    let start = real.mmap(b, &aligned(700, Prot::NONE)).unwrap() / PAGE;
    assert_eq!(start % 512, 0);
    let region = start..start + 512;
    for end in [40, 80, 512] {
        real.mprotect(b, at(start), at(end), RW).unwrap();
        for page in [start, start + end - 1] {
            // Who sees the object by the entry has no fault.
            if b.look_up(page, Access::Write).is_none() {
                real.fault(b, at(page), Access::Write).unwrap();
            }
            assert!(b.look_up(page, Access::Write).is_some(), "{page}");
        }
        assert_eq!(b.wholes(), core::slice::from_ref(&region), "still the same one");
        assert_eq!(real.map().entries().filter(|entry| entry.prot == RW).count(), 1);
        assert_eq!(b.look_up(start + end, Access::Read), None);
        assert_eq!(real.fault(b, at(start + end), Access::Read), Err(FaultError::NoAccess));
    }
    // Its end goes: the object has pages there.
    real.munmap(b, at(start + 100), at(600)).unwrap();
    assert!(b.wholes().is_empty());
    real.fault(b, at(start), Access::Write).unwrap();
    assert!(b.wholes().is_empty() && b.look_up(start + 100, Access::Read).is_none());
    real.munmap(b, at(start), at(100)).unwrap();
    // Something is entered behind it.
    let start = real.mmap(b, &aligned(40, RW)).unwrap() / PAGE;
    real.fault(b, at(start), Access::Write).unwrap();
    let region = start..start + 512;
    assert_eq!(b.wholes(), core::slice::from_ref(&region));
    let beside = MapRequest {
        addr: at(start + 40),
        placement: Placement::FixedNoReplace,
        ..MapRequest::anonymous(PAGE, RW)
    };
    assert_eq!(real.mmap(b, &beside), Ok(at(start + 40)));
    assert!(b.wholes().is_empty());
    real.munmap(b, at(start), at(41)).unwrap();
    world.finish();
}

/// Small memory that makes room: what is used stays as long as there is something else, and nothing is lost.
#[test]
fn what_is_used_goes_aside_last() {
    use crate::aside::PIECE;
    let mut world = World::with_own();
    let start = REGION_PAGES;
    let both = &mut world.processes[0];
    both.backend.hot = Some(0);
    let request = MapRequest {
        addr: start * PAGE,
        placement: Placement::Fixed,
        ..MapRequest::anonymous(3 * PIECE * PAGE, RW)
    };
    both.real.mmap(&mut both.backend, &request).unwrap();
    both.model.enter(start, 3 * PIECE, Prot(3), Flags(0), None);
    for page in start..start + 3 * PIECE {
        world.touch(0, page, Access::Write).unwrap();
    }
    let is_aside = |world: &World, piece: u64| {
        let entry = world.processes[0].real.map().at(start + piece * PIECE).unwrap();
        entry.flags.has(Flags::OWN)
    };
    for expected in [[false, true, false], [false, true, true], [true, true, true]] {
        let both = &mut world.processes[0];
        assert_eq!(both.real.relieve(&mut both.backend, PIECE, false), PIECE);
        assert_eq!([0, 1, 2].map(|piece| is_aside(&world, piece)), expected);
        world.check();
        for page in start..start + 3 * PIECE {
            world.touch(0, page, Access::Read).unwrap();
        }
    }
    let both = &mut world.processes[0];
    assert_eq!(both.real.map().count(), 1, "what is aside is one entry");
    assert_eq!(both.real.relieve(&mut both.backend, PIECE, true), 0);
    world.finish();
}

/// What was moved away after it had gone aside is still in its pages of the object: what goes aside later where it was goes elsewhere, or
/// stays.
#[test]
fn what_was_moved_keeps_its_pages() {
    use crate::aside::PIECE;
    use crate::RemapFlags;
    let mut world = World::with_own();
    let (start, to) = (REGION_PAGES, 3 * REGION_PAGES);
    let enter = |world: &mut World| {
        let both = &mut world.processes[0];
        let request = MapRequest {
            addr: start * PAGE,
            placement: Placement::Fixed,
            ..MapRequest::anonymous(PIECE * PAGE, RW)
        };
        both.real.mmap(&mut both.backend, &request).unwrap();
        both.model.enter(start, PIECE, RW, Flags(0), None);
        for page in start..start + PIECE {
            world.touch(0, page, Access::Write).unwrap();
        }
        let both = &mut world.processes[0];
        both.backend.hot = Some(1);
        both.real.relieve(&mut both.backend, PIECE, false)
    };
    assert_eq!(enter(&mut world), PIECE);
    let both = &mut world.processes[0];
    let flags = RemapFlags { may_move: true, fixed: Some(to * PAGE), dont_unmap: false };
    let (addr, bytes) = (start * PAGE, PIECE * PAGE);
    both.real.mremap(&mut both.backend, addr, bytes, bytes, flags).unwrap();
    for page in 0..PIECE {
        let moved = both.model.pages.remove(&(start + page)).unwrap();
        both.model.pages.insert(to + page, moved);
    }
    enter(&mut world);
    for page in (start..start + PIECE).chain(to..to + PIECE) {
        world.touch(0, page, Access::Read).unwrap();
    }
    world.check();
    world.finish();
}

/// What a child has, too, goes aside only when nothing else is left, and the child keeps what it has.
#[test]
fn what_a_relative_has_goes_aside_last() {
    let mut world = World::with_own();
    let both = &mut world.processes[0];
    let request = MapRequest {
        addr: REGION_PAGES * PAGE,
        placement: Placement::Fixed,
        ..MapRequest::anonymous(3 * PAGE, RW)
    };
    both.real.mmap(&mut both.backend, &request).unwrap();
    both.model.enter(REGION_PAGES, 3, RW, Flags(0), None);
    for page in REGION_PAGES..REGION_PAGES + 3 {
        world.touch(0, page, Access::Write).unwrap();
    }
    world.fork(0);
    let both = &mut world.processes[0];
    both.backend.hot = Some(1);
    assert_eq!(both.real.relieve(&mut both.backend, 3, false), 0);
    assert_eq!(both.real.relieve(&mut both.backend, 3, true), 3);
    both.own_what_is_own();
    world.check();
    for which in [1, 0] {
        for page in REGION_PAGES..REGION_PAGES + 3 {
            world.touch(which, page, Access::Write).unwrap();
        }
    }
    world.check();
    world.finish();
}

/// An object that went with all that was aside is not asked for again, whatever has its number.
#[test]
fn what_goes_aside_anew_has_another_object() {
    use crate::aside::PIECE;
    let mut world = World::with_own();
    for _ in 0..2 {
        let both = &mut world.processes[0];
        both.backend.hot = Some(1);
        let request = MapRequest {
            addr: REGION_PAGES * PAGE,
            placement: Placement::Fixed,
            ..MapRequest::anonymous(PIECE * PAGE, RW)
        };
        both.real.mmap(&mut both.backend, &request).unwrap();
        both.model.enter(REGION_PAGES, PIECE, RW, Flags(0), None);
        for page in REGION_PAGES..REGION_PAGES + PIECE {
            world.touch(0, page, Access::Write).unwrap();
        }
        let both = &mut world.processes[0];
        assert_eq!(both.real.relieve(&mut both.backend, PIECE, false), PIECE);
        let (addr, bytes) = (REGION_PAGES * PAGE, PIECE * PAGE);
        both.real.munmap(&mut both.backend, addr, bytes).unwrap();
        both.model.unmap(REGION_PAGES, REGION_PAGES + PIECE);
        world.check();
    }
    world.finish();
}

/// What was written to is so as well where its table has gone since: with a fork, after which each makes its own.
#[test]
fn what_was_written_to_is_so_without_its_table() {
    let mut world = World::new();
    let start = dirty(&mut world, 1200);
    let both = &mut world.processes[0];
    both.real.clear_written(&mut both.backend);
    both.written.clear();
    for page in [3, 600, 1100] {
        world.touch(0, start + page, Access::Write).unwrap();
    }
    world.check_written();
    world.fork(0);
    for (which, page) in [(0, 4), (1, 5), (0, 601), (1, 1101)] {
        world.touch(which, start + page, Access::Write).unwrap();
    }
    world.check_written();
    world.exit(1);
    let both = &mut world.processes[0];
    both.real.munmap(&mut both.backend, (start + 512) * PAGE, 300 * PAGE).unwrap();
    both.model.unmap(start + 512, start + 812);
    world.check_written();
    world.check();
    world.finish();
}

/// What is new, or was moved, counts as written wherever it is, and nothing beside it.
#[test]
fn what_is_new_or_was_moved_counts_as_written() {
    let mut world = World::new();
    let start = dirty(&mut world, 600);
    let both = &mut world.processes[0];
    both.real.clear_written(&mut both.backend);
    let new = both.real.mmap(&mut both.backend, &MapRequest::anonymous(20 * PAGE, RW)).unwrap();
    let moved = RemapFlags { may_move: true, ..RemapFlags::default() };
    let to =
        both.real.mremap(&mut both.backend, start * PAGE, 300 * PAGE, 700 * PAGE, moved).unwrap();
    for (first, pages, written) in
        [(new / PAGE, 20, 20), (to / PAGE, 700, 700), (start + 300, 300, 0)]
    {
        let mut words = vec![0; pages];
        both.real.pagemap(&mut both.backend, first, &mut words);
        assert_eq!(
            words.iter().filter(|word| **word >> 55 & 1 != 0).count(),
            written,
            "at {first:#x}"
        );
    }
}

/// A large object that is mapped for nobody to use is not shown by an entry that shows all of it.
#[test]
fn what_nobody_may_use_is_no_giant() {
    for (prot, giants) in [(Prot::NONE, 0), (RW, 1)] {
        let mut world = World::new();
        let both = &mut world.processes[0];
        both.backend.has_large = true;
        let request = MapRequest {
            prot,
            placement: Placement::HintAligned,
            flags: Flags::SHARED,
            object: Some((ObjectId::new(WHOLE), 0)),
            ..MapRequest::anonymous(OBJECTS[3] * PAGE, RW)
        };
        let start = both.real.mmap(&mut both.backend, &request).unwrap() / PAGE;
        both.model.enter(start, OBJECTS[3], prot, request.flags, Some((WHOLE, 0)));
        assert_eq!(both.backend.giants().len(), giants);
        for page in [0, 600] {
            let read = world.touch(0, start + page, Access::Read).map(drop);
            assert_eq!(read, if giants == 0 { Err(FaultError::NoAccess) } else { Ok(()) });
        }
        world.check();
        world.finish();
    }
}

/// Locks go with the pages that `mremap` moves: what stays mapped behind them is not locked, and what was not locked is not new.
#[test]
fn locks_go_with_the_pages_that_move() {
    // Anons, and an object of the process's own.
    for pages in [20, 1100] {
        let mut world = World::with_own();
        let start = dirty(&mut world, pages);
        world.wire(0, (start, pages), true, true);
        // In the middle, where entries have to be divided.
        world.transfer(0, 0, (pages, pages), None, true);
        let both = &world.processes[0];
        let locked = |page| both.real.map().at(page).unwrap().flags.has(Flags::LOCKED);
        let moved = both.real.map().entries().find(|entry| entry.flags.has(Flags::LOCKED)).unwrap();
        assert_ne!(moved.start, start, "{pages}");
        assert_eq!((locked(start), moved.pages()), (false, pages));
        world.check();
        // What is mapped from now on is locked, and nothing else.
        world.wire_all(0, 0);
        world.wire_all(0, 2);
        let pick = world.processes[0].real.map().entries().count() - 1;
        world.transfer(0, pick, (10, 10), Some(LOW), false);
        let both = &world.processes[0];
        assert!(both.real.map().entries().all(|entry| !entry.flags.has(Flags::LOCKED)), "{pages}");
        world.check();
        world.finish();
    }
}

/// Copies of pages of a file that are apart and shown are hidden before a fork: what the child then changes, or the parent gives up, is
/// each one's own.
#[test]
fn what_is_apart_is_each_ones_own_after_a_fork() {
    let mut world = World::with_own();
    let both = &mut world.processes[0];
    let request = MapRequest {
        placement: Placement::HintAligned,
        object: Some((ObjectId::new(WHOLE), 0)),
        ..MapRequest::anonymous(64 * PAGE, RW)
    };
    let start = both.real.mmap(&mut both.backend, &request).unwrap() / PAGE;
    both.model.enter(start, 64, RW, Flags(0), Some((WHOLE, 0)));
    for page in start..start + 24 {
        world.touch(0, page, Access::Write).unwrap();
    }
    world.page_out(0, start, 64);
    for page in start..start + 24 {
        world.touch(0, page, Access::Read).unwrap();
    }
    world.check();
    world.fork(0);
    world.check();
    for (which, step) in [(1, 2), (0, 3)] {
        for page in (start..start + 24).step_by(step) {
            world.touch(which, page, Access::Write).unwrap();
        }
        for page in start..start + 24 {
            world.touch(which, page, Access::Read).unwrap();
        }
        world.check();
    }
    // What the parent had goes; the child has its own still.
    world.exit(0);
    for page in start..start + 24 {
        world.touch(0, page, Access::Read).unwrap();
    }
    world.check();
    world.finish();
}
