//! Few pages of a MiB: pairs, and how chunks become dense.

use super::*;
use crate::map::Flags;
use crate::mmap::{MapRequest, Placement};
use crate::pairs::{EACH, SHELVES};
use crate::types::Prot;
use crate::RemapFlags;

const RW: Prot = Prot(3);
const CHUNK: u64 = 256;
/// The first chunk that is wholly inside the address space, and how many there are.
const FIRST: u64 = 1;
const CHUNKS: u64 = 9;

/// A world in which all of these chunks are mapped.
fn mapped() -> World {
    let mut world = World::new();
    map(&mut world, FIRST * CHUNK, CHUNKS * CHUNK);
    world
}

fn map(world: &mut World, start: u64, pages: u64) {
    let both = &mut world.processes[0];
    let anonymous = MapRequest::anonymous(pages * PAGE, RW);
    let request = MapRequest { addr: start * PAGE, placement: Placement::Fixed, ..anonymous };
    both.real.mmap(&mut both.backend, &request).unwrap();
    both.model.enter(start, pages, RW, Flags::default(), None);
}

/// Page `n` of a chunk. Neighbours are not touched one after the other.
fn page(chunk: u64, n: u64) -> u64 {
    (FIRST + chunk) * CHUNK + n * 37 % CHUNK
}

/// Writes without looking at everything.
fn fill(world: &mut World, page: u64) {
    let _ = world.touch(0, page, Access::Write);
}

fn write(world: &mut World, which: usize, page: u64) {
    world.touch(which, page, Access::Write).unwrap();
    world.check();
}

fn is_sparse(world: &World, which: usize, chunk: u64) -> bool {
    world.processes[which].real.amap().chunk(FIRST + chunk).unwrap().is_sparse()
}

fn pairs(world: &World, which: usize) -> u32 {
    world.processes[which].real.amap().shelves().used()
}

#[test]
fn few_pages_in_many_chunks_take_one_cnode() {
    let mut world = mapped();
    for chunk in 0..CHUNKS {
        (0..3).for_each(|n| write(&mut world, 0, page(chunk, n)));
    }
    assert_eq!((pairs(&world, 0) as u64, world.kernel.borrow().cnodes()), (3 * CHUNKS, 1));
    let both = &mut world.processes[0];
    both.real.munmap(&mut both.backend, FIRST * CHUNK * PAGE, CHUNKS * CHUNK * PAGE).unwrap();
    both.model.unmap(FIRST * CHUNK, (FIRST + CHUNKS) * CHUNK);
    assert_eq!(pairs(&world, 0), 0);
    world.check();
    world.finish();
}

#[test]
fn a_chunk_becomes_dense_as_it_is() {
    let mut world = mapped();
    for n in 0..12 {
        write(&mut world, 0, page(0, n));
        assert!(is_sparse(&world, 0, 0));
    }
    // Not all of them are mapped, nor writable.
    let both = &mut world.processes[0];
    for (n, prot) in [(2, Prot::NONE), (5, Prot::READ)] {
        both.real.mprotect(&mut both.backend, page(0, n) * PAGE, PAGE, prot).unwrap();
        both.model.protect(page(0, n), page(0, n) + 1, prot).unwrap();
    }
    world.check();
    write(&mut world, 0, page(0, 12));
    assert!(!is_sparse(&world, 0, 0));
    assert_eq!(pairs(&world, 0), 0);
    for n in [0, 1, 5, 12] {
        world.touch(0, page(0, n), Access::Read).unwrap();
    }
    world.check();
    world.finish();
}

#[test]
fn a_sequential_program_gets_dense_chunks() {
    let mut world = mapped();
    (0..3 * CHUNK).for_each(|n| fill(&mut world, FIRST * CHUNK + n));
    world.check();
    assert!((0..3).all(|chunk| !is_sparse(&world, 0, chunk)));
    world.finish();
}

#[test]
fn pairs_are_copied_on_write() {
    for last in 0..2 {
        let mut world = mapped();
        for chunk in 0..CHUNKS {
            (0..4).for_each(|n| write(&mut world, 0, page(chunk, n)));
        }
        world.fork(0);
        world.check();
        assert_eq!(world.kernel.borrow().page_copies, 0);
        for chunk in 0..CHUNKS {
            write(&mut world, 1, page(chunk, 0));
            write(&mut world, 0, page(chunk, 1));
            world.touch(1, page(chunk, 2), Access::Read).unwrap();
            world.touch(0, page(chunk, 2), Access::Read).unwrap();
        }
        assert_eq!(world.kernel.borrow().page_copies, 2 * CHUNKS);
        world.exit(1 - last);
        for chunk in 0..CHUNKS {
            (0..4).for_each(|n| write(&mut world, 0, page(chunk, n)));
        }
        let copies = world.kernel.borrow().page_copies;
        assert_eq!(copies, 2 * CHUNKS, "the last owner never copies");
        world.finish();
    }
}

#[test]
fn a_fork_finds_dense_chunks_beside_sparse_ones() {
    // Few pages and many in the dense half of a region, and none at all that is mapped.
    for many in [14, 100, 250] {
        let mut world = mapped();
        for region in 0..4 {
            (0..many).for_each(|n| fill(&mut world, page(2 * region + 1, n)));
            (0..3).for_each(|n| write(&mut world, 0, page(2 * region + 2, n)));
        }
        for round in 0..2 {
            world.fork(0);
            world.check();
            for region in 0..4 {
                write(&mut world, 1, page(2 * region + 1, 0));
                write(&mut world, 0, page(2 * region + 2, round));
                write(&mut world, 1, page(2 * region + 2, 1 + round));
                world.touch(1, page(2 * region + 1, 3), Access::Read).unwrap();
                // Pairs beside a chunk that is shared.
                write(&mut world, round as usize % 2, page(0, region));
            }
        }
        world.kill(0);
        world.check();
        world.finish();
    }
}

#[test]
fn moved_pages_keep_their_pairs() {
    // Far away, to the same chunk, and to chunks that have few and many anons.
    let targets = [(5 * CHUNK + 7, 0), (5 * CHUNK + 200, 3), (128, 0), (7 * CHUNK + 9, 11)];
    for (to, there) in targets {
        let mut world = mapped();
        let both = &mut world.processes[0];
        let (from, to) = (FIRST * CHUNK, FIRST * CHUNK + to);
        both.real.munmap(&mut both.backend, to * PAGE, 100 * PAGE).unwrap();
        both.model.unmap(to, to + 100);
        (0..there).for_each(|n| fill(&mut world, (to & !255) - 1 - 2 * n));
        (0..there).for_each(|n| fill(&mut world, (to | 255) - 2 * n));
        for n in [3, 50, 51, 90] {
            write(&mut world, 0, from + n);
        }
        world.fork(0);
        let both = &mut world.processes[0];
        let flags = RemapFlags { may_move: true, fixed: Some(to * PAGE), dont_unmap: false };
        both.real.mremap(&mut both.backend, from * PAGE, 100 * PAGE, 100 * PAGE, flags).unwrap();
        for n in 0..100 {
            let page = both.model.pages.remove(&(from + n)).unwrap();
            both.model.pages.insert(to + n, page);
        }
        world.exact = false;
        world.check();
        for n in [3, 50, 51, 90] {
            world.touch(0, to + n, Access::Read).unwrap();
            write(&mut world, 0, to + n);
        }
        world.finish();
    }
}

#[test]
fn when_all_pairs_are_used_chunks_are_dense() {
    const PAIRS: u64 = SHELVES as u64 * EACH as u64;
    let kernel = Rc::new(RefCell::new(Kernel::default()));
    let mut backend = Process::new(kernel.clone());
    let mut space = Space::new(LOW * PAGE, (PAIRS + 9) * CHUNK * PAGE);
    let request = MapRequest::anonymous((PAIRS + 2) * CHUNK * PAGE, RW);
    let start = space.mmap(&mut backend, &request).unwrap() / PAGE;
    for chunk in 0..PAIRS + 1 {
        space.fault(&mut backend, (start + chunk * CHUNK) * PAGE, Access::Write).unwrap();
    }
    assert_eq!(space.amap().shelves().used() as u64, PAIRS);
    assert_eq!(kernel.borrow().cnodes(), SHELVES + 2);
    // A sparse chunk that gets one more page.
    space.fault(&mut backend, (start + 9) * PAGE, Access::Write).unwrap();
    assert_eq!(space.amap().shelves().used() as u64, PAIRS - 1);
    assert!(backend.look_up(start, Access::Write).is_some());
    assert!(backend.look_up(start + 9, Access::Write).is_some());
}
