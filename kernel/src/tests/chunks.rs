//! Pools whose pages come and go.

use super::machine::*;
use super::random::Random;
use crate::cap::CapExt;
use crate::morsels;
use captypes::invocations::MapFlags;
use captypes::{op, CapAddr, CapType, Status};
use pool::CHILD;
use std::collections::BTreeMap;

const RW: MapFlags = MapFlags::READ.or(MapFlags::WRITE);
const HEAD: CapAddr = CapAddr(40);
const MIB2: u64 = 2 << 20;
/// Of the RAM: here the head begins, and Chunks behind it.
const HEAD_AT: u64 = 1 << 20;
const CHUNKS: u64 = HEAD_AT + MIB2;
/// Tables and Frames.
const REST: u64 = CHUNKS + 5 * MIB2;
/// Pages of 2 MiB.
const PAGES: u64 = CHILD as u64;

fn at(slot: u32) -> CapAddr {
    CapAddr(slot)
}

/// A machine with the head of a pool, for all memory from its own on.
pub(super) fn machine() -> Machine {
    let mut m = Machine::new();
    m.retype(RAM, CapType::Pool, HEAD_AT, MIB2, 1, HEAD).unwrap();
    m.until_done(HEAD, op::FormatVolatile { first: FREE + HEAD_AT, pages: 0 }).unwrap();
    m
}

/// RAM of some times 2 MiB.
pub(super) fn ram(m: &mut Machine, first: u64, count: u64, slot: u32) {
    m.retype(RAM, CapType::Ram, CHUNKS + first * MIB2, count * MIB2, 1, at(slot)).unwrap();
}

fn add(m: &mut Machine, slot: u32) -> Result<u64, Status> {
    m.until_done(HEAD, op::AddChunk { memory: at(slot).into() }).map(|value| value.value)
}

fn remove(m: &mut Machine) -> Result<u64, Status> {
    m.until_done(HEAD, op::RemoveChunk {}).map(|value| value.value)
}

fn create(m: &mut Machine, order: u32, slot: u32) -> Result<u64, Status> {
    let dst = at(slot).into();
    m.until_done(HEAD, op::CreateMorsel { order, dst }).map(|value| value.value)
}

pub(super) fn populate(m: &mut Machine, slot: u32, first: u64, count: u64) -> Result<u64, Status> {
    let end = first + count;
    let mut first = first;
    while first < end {
        let args = op::PopulateMorsel { first, count: end - first, large: false };
        first = m.until_done(at(slot), args)?.value;
    }
    Ok(first)
}

fn discard(m: &mut Machine, slot: u32, first: u64, count: u64) {
    let (mut first, end) = (first, first + count);
    while first < end {
        let args = op::DiscardMorsel { first, count: end - first };
        first = m.until_done(at(slot), args).unwrap().value;
    }
}

/// Pages, free ones, and those of the head.
fn facts(m: &mut Machine) -> (u64, u64, u64) {
    let facts = m.call(HEAD, op::PoolInfo {}).unwrap();
    (facts.pages, facts.free, facts.own)
}

/// All that came home, in bytes.
fn collected(m: &mut Machine) -> u64 {
    let mut bytes = 0;
    loop {
        let home = m.call(KERNEL, op::CollectReclaimed {}).unwrap();
        let more = home.bytes0 + home.bytes1 + home.bytes2;
        bytes += more;
        if more == 0 {
            return bytes;
        }
    }
}

#[test]
fn a_pool_grows_when_it_is_empty_and_gives_back_what_is_free() {
    let mut m = machine();
    assert_eq!(m.call(HEAD, op::PoolInfo {}), Err(Status::WrongState));
    assert_eq!(create(&mut m, 0, 60), Err(Status::WrongState));
    assert_eq!(remove(&mut m), Err(Status::Empty));
    let again = op::FormatVolatile { first: FREE + HEAD_AT, pages: 0 };
    assert_eq!(m.call(HEAD, again), Err(Status::WrongState));
    ram(&mut m, 0, 1, 70);
    assert_eq!(add(&mut m, 70), Ok(FREE + CHUNKS));
    // But for the directory.
    assert_eq!(facts(&mut m), (PAGES + 512, PAGES - 1, 512));
    create(&mut m, 2, 60).unwrap();
    let free = facts(&mut m).1;
    assert_eq!(populate(&mut m, 60, 0, free - 1), Ok(free - 1));
    assert_eq!(populate(&mut m, 60, 600, 2), Err(Status::NoMemory));
    ram(&mut m, 1, 2, 71);
    assert_eq!(add(&mut m, 71), Ok(FREE + CHUNKS + MIB2));
    assert_eq!(populate(&mut m, 60, 600, 2), Ok(602));
    assert_eq!(remove(&mut m), Err(Status::Empty));
    discard(&mut m, 60, 512, 1 << 17);
    assert_eq!(remove(&mut m), Ok(FREE + CHUNKS + MIB2));
    assert!(m.slot(at(71)).cap().is(CapType::Ram));
    assert_eq!(remove(&mut m), Err(Status::Empty));
    assert_eq!(facts(&mut m).0, PAGES + 512);
    // It is RAM like any other, and may come back.
    m.retype(at(71), CapType::Frame, 4096, 4096, 1, at(72)).unwrap();
    assert_eq!(add(&mut m, 71), Err(Status::HasDescendants));
    m.delete(at(72)).unwrap();
    assert_eq!(add(&mut m, 71), Ok(FREE + CHUNKS + MIB2));
    assert_eq!(facts(&mut m).0, 3 * PAGES + 512);
}

#[test]
fn only_free_ram_of_the_range_comes() {
    let mut m = machine();
    ram(&mut m, 0, 1, 70);
    m.call(at(70), op::Copy { dst: at(71).into() }).unwrap();
    assert_eq!(add(&mut m, 70), Err(Status::HasDescendants));
    m.delete(at(71)).unwrap();
    m.make(CapType::Frame, REST, 4096, 72);
    for other in [at(72), RAM, HEAD, VSPACE, KERNEL] {
        let memory = other.into();
        assert_eq!(m.call(HEAD, op::AddChunk { memory }), Err(Status::WrongType));
    }
    m.retype(RAM, CapType::Ram, CHUNKS + MIB2 + 4096, MIB2, 1, at(73)).unwrap();
    assert_eq!(add(&mut m, 73), Err(Status::OutOfRange));
    m.delete(at(73)).unwrap();
    collected(&mut m);
    m.retype(RAM, CapType::Ram, CHUNKS + MIB2, MIB2 / 2, 1, at(73)).unwrap();
    assert_eq!(add(&mut m, 73), Err(Status::OutOfRange));
    assert_eq!(add(&mut m, 90), Err(Status::Empty));
    assert_eq!(add(&mut m, 70), Ok(FREE + CHUNKS));
    // It is there, and nothing else can be done with it.
    assert_eq!(add(&mut m, 70), Err(Status::WrongState));
    assert_eq!(m.call(at(70), op::Copy { dst: at(74).into() }), Err(Status::WrongType));
    assert_eq!(m.retype(at(70), CapType::Frame, 0, 4096, 1, at(74)), Err(Status::WrongType));
    assert_eq!(m.retype(RAM, CapType::Frame, CHUNKS, 4096, 1, at(74)), Err(Status::HasDescendants));
    m.call(at(70), op::Move { dst: at(75).into() }).unwrap();
    assert!(create(&mut m, 0, 60).is_ok());
}

#[test]
fn a_head_describes_a_range() {
    let mut m = Machine::new();
    m.retype(RAM, CapType::Pool, HEAD_AT, MIB2, 1, HEAD).unwrap();
    let wrong = [
        (FREE + HEAD_AT + 4096, 0),
        (FREE + HEAD_AT, 511),
        (FREE + HEAD_AT, 1 << 18),
        (FREE + HEAD_AT, u64::MAX),
        (!(MIB2 - 1), 0),
        (1 << 52, 512),
    ];
    for (first, pages) in wrong {
        let format = op::FormatVolatile { first, pages };
        assert_eq!(m.until_done(HEAD, format), Err(Status::OutOfRange), "{first:x} {pages}");
    }
    // One of two chunks is behind its end.
    m.until_done(HEAD, op::FormatVolatile { first: FREE + CHUNKS, pages: 1023 }).unwrap();
    ram(&mut m, 0, 2, 70);
    assert_eq!(add(&mut m, 70), Err(Status::OutOfRange));
    m.delete(at(70)).unwrap();
    collected(&mut m);
    ram(&mut m, 0, 1, 70);
    assert_eq!(add(&mut m, 70), Ok(FREE + CHUNKS));
    // Another one may have the same range, but not the same memory.
    m.retype(RAM, CapType::Pool, CHUNKS + 2 * MIB2, MIB2, 1, at(41)).unwrap();
    m.until_done(at(41), op::FormatVolatile { first: FREE + HEAD_AT, pages: 0 }).unwrap();
    let memory = at(70).into();
    assert_eq!(m.call(at(41), op::AddChunk { memory }), Err(Status::WrongState));
    ram(&mut m, 1, 1, 71);
    m.until_done(at(41), op::AddChunk { memory: at(71).into() }).unwrap();
    let dst = at(61).into();
    m.until_done(at(41), op::CreateMorsel { order: 1, dst }).unwrap();
    create(&mut m, 1, 60).unwrap();
    // Each goes without the other.
    m.delete(HEAD).unwrap();
    assert!(m.is_empty(at(60)) && !m.is_empty(at(61)));
    m.delete(at(70)).unwrap();
    assert_eq!(m.call(at(41), op::PoolInfo {}).unwrap().pages, PAGES + 512);
    m.delete(at(71)).unwrap();
    assert!(m.is_empty(at(61)));
}

/// What a page had is gone when it comes to somebody else, of either size.
#[test]
fn pages_come_without_what_was_in_them() {
    let mut m = machine();
    ram(&mut m, 0, 2, 70);
    let base = FREE + CHUNKS;
    let word = |pa: u64| {
        crate::object::mem::PoolWord::at(pa).cell().load(std::sync::atomic::Ordering::Relaxed)
    };
    for pa in (base..base + 2 * MIB2).step_by(512) {
        let word = crate::object::mem::PoolWord::at(pa);
        word.cell().store(!0, std::sync::atomic::Ordering::Relaxed);
    }
    add(&mut m, 70).unwrap();
    create(&mut m, 2, 60).unwrap();
    let large = op::PopulateMorsel { first: 0, count: 512, large: true };
    assert_eq!(m.until_done(at(60), large).unwrap().value, 512);
    let free = facts(&mut m).1;
    populate(&mut m, 60, 512, free - 1).unwrap();
    let used = (base..base + 2 * MIB2).step_by(512).filter(|&pa| word(pa) == !0).count();
    assert!(used <= 2 * 8, "a page that is not the object's, and nothing else: {used}");
}

/// A pool with two Chunks, of which one is in use, an object, and an entry that shows it: they go in every order, and
/// all memory comes home, once.
#[test]
fn whatever_goes_first_all_memory_comes_home() {
    let parts = [HEAD, at(70), at(71), at(60), at(61)];
    for order in permutations(parts.len()) {
        let mut m = machine();
        m.make(CapType::Pdpt, REST, 4096, 41);
        m.make(CapType::Pd, REST + 0x1000, 4096, 42);
        m.map(VSPACE, 0, 1, at(41), RW, at(51)).unwrap();
        m.map(at(41), 1, 1, at(42), RW, at(52)).unwrap();
        ram(&mut m, 0, 1, 70);
        ram(&mut m, 1, 2, 71);
        add(&mut m, 70).unwrap();
        create(&mut m, 1, 60).unwrap();
        populate(&mut m, 60, 0, 10).unwrap();
        m.map(at(42), 1, 1, at(60), RW, at(61)).unwrap();
        add(&mut m, 71).unwrap();
        assert_eq!(collected(&mut m), 0);
        let (mut has_head, mut has_first) = (true, true);
        for part in order.iter().map(|&n| parts[n]) {
            let gone = m.delete(part);
            // The object and what shows it may have gone with the pool.
            let went_before = [at(60), at(61)].contains(&part) && gone == Err(Status::Empty);
            assert!(gone.is_ok() || went_before, "{order:?}: {gone:?}");
            (has_head, has_first) = (has_head && part != HEAD, has_first && part != at(70));
            // The directory is in the first Chunk.
            let is_closed = !has_head || !has_first;
            assert!(!is_closed || m.is_empty(at(60)) && m.is_empty(at(61)), "{order:?}");
            if has_head {
                let info = m.call(HEAD, op::PoolInfo {});
                assert_eq!(info.is_err(), is_closed, "{order:?}");
            }
        }
        assert_eq!(collected(&mut m), 4 * MIB2, "{order:?}");
        assert!(m.core.local.caps.db.iter(crate::cap::MORSELS).next().is_none());
        m.retype(RAM, CapType::Frame, HEAD_AT, 4 * MIB2, 1, at(80)).unwrap();
    }
}

fn permutations(count: usize) -> Vec<Vec<usize>> {
    if count == 0 {
        return vec![Vec::new()];
    }
    let shorter = permutations(count - 1);
    let with = |order: &Vec<usize>, place| {
        let mut order = order.clone();
        order.insert(place, count - 1);
        order
    };
    shorter.iter().flat_map(|order| (0..count).map(move |place| with(order, place))).collect()
}

/// Whoever has the RAM above takes it back.
#[test]
fn revocation_takes_chunks_back() {
    for revoked in [70, 71] {
        let mut m = machine();
        // What the server was given, and what it makes of it.
        ram(&mut m, 0, 1, 80);
        ram(&mut m, 1, 4, 81);
        m.retype(at(81), CapType::Ram, 0, MIB2, 1, at(71)).unwrap();
        assert_eq!(add(&mut m, 81), Err(Status::HasDescendants));
        add(&mut m, 80).unwrap();
        add(&mut m, 71).unwrap();
        create(&mut m, 1, 60).unwrap();
        let taken = if revoked == 70 { RAM } else { at(81) };
        m.revoke(taken).unwrap();
        assert!(m.is_empty(at(71)));
        match revoked {
            70 => assert!(m.is_empty(HEAD) && m.is_empty(at(60)) && m.is_empty(at(80))),
            // It was free.
            _ => assert_eq!((facts(&mut m).0, m.is_empty(at(60))), (PAGES + 512, false)),
        }
    }
}

/// Is all of a Chunk free?
fn is_free(m: &mut Machine, base: u64) -> bool {
    let core = &mut m.core.local;
    let (number, shared) =
        morsels::around(core.core.cores.pools(), base).expect("it is the pool's");
    let (from, bytes) = (base - shared.base(), m_bytes(core, base));
    let children = (from / MIB2) as usize..((from + bytes) / MIB2) as usize;
    let free = morsels::with(core.core, number, &mut core.sched, None, |objects| {
        children.clone().all(|child| objects.pages.pool().is_all_free(child))
    });
    free.unwrap()
}

fn m_bytes(core: &crate::driver::CpuDriver, base: u64) -> u64 {
    let rank = CapType::Chunk.rank();
    let found = core.caps.db.surrounding(crate::cap::MEMORY, base, MIB2, rank);
    found.unwrap().cap().word
}

/// Random operations beside a model that counts pages.
#[test]
fn random_operations_with_chunks() {
    let seeds = 0x7e55_e7a5_0000_0400..0x7e55_e7a5_0000_0404u64;
    let (mut removed, mut full) = (0, 0);
    for seed in seeds {
        let (more, also) = random_operations(seed);
        (removed, full) = (removed + more, full + also);
    }
    assert!(removed > 20 && full > 3, "{removed} chunks removed, full {full} times");
}

/// How many Chunks were removed, and how often the pool was empty.
fn random_operations(seed: u64) -> (u32, u32) {
    let mut random = Random(seed);
    let mut m = machine();
    // By slot: first address and pages. The last are of two.
    let memory: BTreeMap<u32, (u64, u64)> =
        (0..3).map(|n| (70 + n, (n as u64, 1))).chain([(73, (3, 2))]).collect();
    let base_of = |slot: u32| FREE + CHUNKS + memory[&slot].0 * MIB2;
    memory.iter().for_each(|(&slot, &(first, count))| ram(&mut m, first, count, slot));
    let mut there: BTreeMap<u32, u64> = BTreeMap::new();
    let mut objects: BTreeMap<u32, std::collections::BTreeSet<u64>> = BTreeMap::new();
    let (mut has_records, mut removed, mut full) = (false, 0, 0);
    for n in 0..400 {
        let context = || format!("seed {seed:#x}, operation {n}");
        let slot = 70 + random.below(4) as u32;
        let object = 60 + random.below(8) as u32;
        let is_open = !there.is_empty();
        match random.below(10) {
            0 | 1 if there.is_empty() || random.below(3) == 0 => {
                let expected = match there.contains_key(&slot) {
                    true => Err(Status::WrongState),
                    false => Ok(base_of(slot)),
                };
                assert_eq!(add(&mut m, slot), expected, "{}", context());
                there.insert(slot, memory[&slot].1 * PAGES);
            }
            2 | 3 => {
                let free: Vec<_> = there.keys().copied().collect();
                let free: Vec<_> =
                    free.into_iter().filter(|&slot| is_free(&mut m, base_of(slot))).collect();
                match remove(&mut m) {
                    Ok(base) => {
                        let slot = free.iter().find(|&&slot| base_of(slot) == base);
                        let slot = *slot.unwrap_or_else(|| panic!("{}: {base:x}", context()));
                        assert!(m.slot(at(slot)).cap().is(CapType::Ram), "{}", context());
                        there.remove(&slot);
                        removed += 1;
                    }
                    Err(status) => {
                        assert_eq!((status, &free[..]), (Status::Empty, &[][..]), "{}", context())
                    }
                }
            }
            4 if !objects.contains_key(&object) => match create(&mut m, 1, object) {
                Ok(_) => {
                    has_records = true;
                    objects.insert(object, Default::default());
                }
                Err(status) => {
                    let expected = if is_open { Status::NoMemory } else { Status::WrongState };
                    assert_eq!(status, expected, "{}", context());
                    // The page of the records may have been made.
                    has_records |= is_open && facts(&mut m).1 == 0;
                }
            },
            5 if objects.contains_key(&object) => {
                m.until_done(at(object), op::DestroyMorsel {}).unwrap();
                objects.remove(&object);
            }
            6 | 7 => {
                let Some(pages) = objects.get_mut(&object) else { continue };
                let (first, count) = (random.below(512), 1 + random.below(299));
                let end = (first + count).min(512);
                match populate(&mut m, object, first, end - first) {
                    Ok(_) => pages.extend(first..end),
                    Err(status) => {
                        assert_eq!(status, Status::NoMemory, "{}", context());
                        assert_eq!(facts(&mut m).1, 0, "{}", context());
                        full += 1;
                        for page in first..end {
                            let look = op::SurveyMorsel { first: page, count: 1, until: 0 };
                            if m.call(at(object), look).unwrap().pages == 1 {
                                pages.insert(page);
                            }
                        }
                    }
                }
            }
            8 => {
                let Some(pages) = objects.get_mut(&object) else { continue };
                let (first, count) = (random.below(512), 1 + random.below(599));
                let end = (first + count).min(512);
                discard(&mut m, object, first, end - first);
                pages.retain(|page| !(first..end).contains(page));
            }
            _ if random.below(12) == 0 && there.contains_key(&slot) => {
                let free = is_free(&mut m, base_of(slot));
                m.delete(at(slot)).unwrap();
                there.remove(&slot);
                if !free {
                    assert!(objects.keys().all(|&slot| m.is_empty(at(slot))), "{}", context());
                    objects.clear();
                    // Its other memory is nobody's, and goes home.
                    let left = std::mem::take(&mut there);
                    left.keys().for_each(|&slot| m.delete(at(slot)).unwrap());
                    let again = op::FormatVolatile { first: FREE + HEAD_AT, pages: 0 };
                    m.until_done(HEAD, again).unwrap();
                    has_records = false;
                }
                collected(&mut m);
                for (&slot, &(first, count)) in &memory {
                    if m.is_empty(at(slot)) {
                        ram(&mut m, first, count, slot);
                    }
                }
            }
            _ => {}
        }
        if !there.is_empty() {
            let own: u64 = objects.values().map(|pages| 1 + pages.len() as u64).sum();
            let all: u64 = there.values().sum();
            let used = 1 + u64::from(has_records) + own;
            assert_eq!(facts(&mut m), (all + 512, all - used, 512), "{}", context());
        }
    }
    (removed, full)
}
