//! Pools that these algorithms have not written, or something else after them: words are changed anywhere, and recovery
//! refuses what it finds, or it was nothing that matters. It never leads out of the pool, nor to two owners. The inspection before
//! it, which can store nothing, refuses the same and nothing else.

mod common;

use common::{announced, audit, inspect, Op, World};
use morsel::{Domain, Refused};

const IMAGES: u64 = 60_000;

/// Frames 4 to 71; something of each kind.
fn pool() -> powerfail::Image {
    let world = World::new(72, Domain::Memory);
    world.morsels().format().expect("format");
    let ops = [
        Op::Create { id: 1, order: 2 },
        Op::Write { id: 1, page: 3, value: 5 },
        Op::Write { id: 1, page: 700, value: 5 },
        Op::Snapshot { id: 1, new: 2 },
        Op::Write { id: 2, page: 3, value: 5 },
        Op::Meta { id: 4, data: 5, order: 1 },
        Op::Write { id: 5, page: 9, value: 5 },
        Op::Part { id: 1, first: 512 },
        Op::Grow { id: 1 },
        Op::Destroy { id: 1 },
        Op::Doom { id: 2, steps: 1 },
        Op::Create { id: 1, order: 2 },
        Op::Write { id: 1, page: 3, value: 5 },
        Op::Snapshot { id: 1, new: 6 },
        Op::Commit { id: 6, new: 7 },
        Op::Write { id: 6, page: 4, value: 5 },
    ];
    ops.into_iter().for_each(|op| assert_eq!(op.run(&world), Ok(None), "{op:?}"));
    world.image()
}

#[test]
fn damaged_pools_are_refused_or_whole() {
    let pool = pool();
    let (mut refused, mut whole) = (0, 0);
    for seed in 0x7e55_e7a5_0000_0200..0x7e55_e7a5_0000_0200 + IMAGES {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut image = pool.clone();
        for _ in 0..random.usize(1..4) {
            let (frame, word) = place(&mut random, &image);
            let new = match random.u8(..3) {
                0 => image.load(frame, word) ^ 1 << random.u8(..64),
                1 => random.u64(..),
                _ => image.load(random.u64(common::HEAD..40), random.usize(..40)),
            };
            image.store(frame, word, new);
        }
        let (inspected, announced) = (inspect(&image), inspect(&image).map(|()| announced(&image)));
        let world = World::booted(image, Domain::Memory);
        match world.recover() {
            Err(wrong) => {
                assert_eq!(inspected, Err(Refused::Damaged), "seed {seed:#x}");
                assert_eq!(wrong, "recovery: Damaged", "seed {seed:#x}");
                refused += 1;
            }
            Ok(()) => {
                // It is as it was announced.
                let now = common::announced(&world.image());
                assert_eq!(announced, Ok(now), "seed {seed:#x}");
                let found = audit(&world).unwrap_or_else(|wrong| panic!("seed {seed:#x}: {wrong}"));
                for id in found.keys().filter(|id| found[*id].described_by.is_none()) {
                    let gone = Op::Destroy { id: *id }.run(&world);
                    assert_eq!(gone, Ok(None), "seed {seed:#x}: object {id}");
                }
                let left = audit(&world).unwrap_or_else(|wrong| panic!("seed {seed:#x}: {wrong}"));
                assert!(left.is_empty(), "seed {seed:#x}");
                whole += 1;
            }
        }
    }
    println!("{refused} refused, {whole} whole");
    assert!(refused > IMAGES / 8 && whole > IMAGES / 8);
}

/// Mostly where something is, for the rest is never looked at.
fn place(random: &mut fastrand::Rng, image: &powerfail::Image) -> (u64, usize) {
    loop {
        let words = if random.bool() { 40 } else { powerfail::PAGE };
        let place = (random.u64(common::HEAD..40), random.usize(..words));
        if image.load(place.0, place.1) != 0 || random.u8(..20) == 0 {
            return place;
        }
    }
}
