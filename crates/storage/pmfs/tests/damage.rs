//! Areas that these algorithms have not written, or something else after them: words are changed anywhere, and a mount refuses
//! what it finds, without having written to it, or it finds a whole tree, which can be used.

mod common;

use common::{attr, formatted, name, New, Op, Ref, World};
use pmfs::{Fs, Ino, Kind, Refused, What};
use powerfail::Image;

const IMAGES: u64 = 24_000;
const PAGES: usize = 4;
/// Lines of an area.
const LINES: u64 = PAGES as u64 * 64;

/// Something of each kind, and free lines that were used.
fn area() -> Image {
    let mut world = World::mount(formatted(PAGES), None, false).expect("formatted");
    let at = |path: &[u8]| Ref::Path(path.to_vec());
    let create = |dir: &[u8], name, new| Op::Create { dir: at(dir), name, new, attr: name };
    let xattr =
        |file: &[u8], name, length| Op::SetXattr { file: at(file), name, length, seed: 1, how: 0 };
    let mut ops = vec![
        create(&[], 0, New::Dir),
        create(&[0], 1, New::Dir),
        create(&[0, 1], 2, New::Dir),
        create(&[], 1, New::Dir),
        create(&[], 2, New::File(1)),
        create(&[0], 2, New::File(2)),
        create(&[0], 3, New::Empty),
        Op::Link { file: at(&[2]), dir: at(&[1]), name: 11 },
        Op::Link { file: at(&[2]), dir: at(&[0]), name: 7 },
        create(&[1], 4, New::Symlink(300, 1)),
        create(&[1], 5, New::Char(7)),
        create(&[1], 6, New::Socket),
        xattr(&[2], 1, 10),
        xattr(&[2], 2, 400),
        xattr(&[0], 1, 47),
    ];
    for number in 20..30 {
        ops.push(create(&[1], number, New::File(number as u32)));
        ops.push(xattr(&[1, number], 2, 100));
    }
    for number in (20..30).step_by(2) {
        ops.push(Op::Unlink { dir: at(&[1]), name: number });
    }
    // The last one is in the record.
    ops.push(Op::Rename { from: (at(&[]), 1), to: (at(&[0, 1, 2]), 11), how: 0 });
    ops.iter()
        .enumerate()
        .for_each(|(n, op)| assert!(op.run(&mut world, n as i64).is_ok(), "{op:?}"));
    world.image()
}

/// Removes everything below a directory.
fn empty<A: pmfs::Area>(fs: &mut Fs<A>, dir: Ino) {
    let entries: Vec<_> = fs.read_dir(dir, 0).expect("a directory").collect();
    for entry in entries {
        if entry.kind == Kind::Dir {
            empty(fs, entry.ino);
            assert!(fs.rmdir(dir, &entry.name, 1).expect("empty").is_some());
        } else {
            // It may have other names.
            let _ = fs.unlink(dir, &entry.name, 1).expect("there");
        }
    }
}

fn use_it(mut world: World) -> Result<(), String> {
    let tree = world.tree()?;
    let twice = World::mount(world.image(), None, false).map_err(|wrong| format!("{wrong:?}"))?;
    if (twice.tree()?, twice.fs.space()) != (tree, world.fs.space()) {
        return Err("mounting twice changes something".into());
    }
    let root = world.fs.root();
    empty(&mut world.fs, root);
    let attributes: Vec<_> = world.fs.xattrs(root).expect("there").collect();
    for attribute in attributes {
        world.fs.remove_xattr(root, &attribute, 1).map_err(|wrong| format!("{wrong:?}"))?;
    }
    let space = world.fs.space();
    if (space.inodes, space.free) != (1, LINES - 64 - 1) {
        return Err(format!("{space:?} when everything is removed"));
    }
    for number in 0..60 {
        let made = world.fs.create(root, &name(number), What::Dir, attr(number), 1);
        made.map_err(|wrong| format!("{wrong:?}"))?;
    }
    let again = World::mount(world.image(), None, false).map_err(|wrong| format!("{wrong:?}"))?;
    (again.tree()? == world.tree()?).then_some(()).ok_or("not as it was left".into())
}

#[test]
fn damaged_areas_are_refused_or_whole() {
    let area = area();
    let (mut refused, mut whole) = (0, 0);
    for seed in 0x7e55_e7a5_0000_0500..0x7e55_e7a5_0000_0500 + IMAGES {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut image = area.clone();
        (0..random.usize(1..4)).for_each(|_| damage(&mut random, &mut image));
        match World::mount(image, None, false) {
            Err(Refused::Damaged { .. } | Refused::Foreign | Refused::Version(_)) => refused += 1,
            Err(other) => panic!("seed {seed:#x}: {other:?}"),
            Ok(world) => {
                use_it(world).unwrap_or_else(|wrong| panic!("seed {seed:#x}: {wrong}"));
                whole += 1;
            }
        }
    }
    println!("{refused} refused, {whole} whole");
    assert!(refused > IMAGES / 8 && whole > IMAGES / 8);
}

/// A bit, a word, or a line; mostly where something is, for the rest is never looked at.
fn damage(random: &mut fastrand::Rng, image: &mut Image) {
    let word = |place: u64| (place / 512, (place % 512) as usize);
    let place = loop {
        let place = random.u64(..LINES * 8);
        let place = if random.bool() { place & !7 } else { place };
        let (page, n) = word(place);
        if image.load(page, n) != 0 || random.u8(..20) == 0 {
            break place;
        }
    };
    let (page, n) = word(place);
    let old = image.load(page, n);
    match random.u8(..5) {
        0 => image.store(page, n, old ^ 1 << random.u8(..64)),
        1 => image.store(page, n, random.u64(..)),
        // Another line, or something else that is small.
        2 => image.store(page, n, old & !(0xff << 32) | random.u64(64..LINES) << 32),
        3 => {
            let (from, at) = word(random.u64(64 * 8..LINES * 8));
            image.store(page, n, image.load(from, at));
        }
        _ => {
            let from = random.u64(64..LINES) * 8;
            for offset in 0..8 {
                let ((from, at), (page, n)) = (word(from + offset), word(place / 8 * 8 + offset));
                image.store(page, n, image.load(from, at));
            }
        }
    }
}

#[test]
fn nothing_at_all_is_foreign() {
    let nothing = World::mount(Image::new(PAGES + 1), None, false);
    assert_eq!(nothing.err(), Some(Refused::Foreign));
}

/// What is there is not written over.
#[test]
fn an_area_in_use_is_not_formatted() {
    let world = World::mount(area(), None, false).expect("whole");
    let before = world.image();
    assert_eq!(pmfs::format(&world.memory, attr(1)), Err(Refused::InUse));
    assert!(world.image() == before);
}

/// A lower number of lines in use hides what is behind; then nothing is mounted.
#[test]
fn lines_that_are_missing_are_noticed() {
    let image = area();
    for lines in 65..128 {
        let mut image = image.clone();
        image.store(0, 8, image.load(0, 8) & !0xffff_ffff | lines);
        let mounted = World::mount(image, None, false);
        assert!(matches!(mounted.err(), Some(Refused::Damaged { line: 1, .. })));
    }
}
