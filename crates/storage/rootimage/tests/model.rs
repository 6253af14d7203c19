//! Random trees: what is read is what was written, and damaged images are harmless.

use proptest::prelude::*;
use rootimage::{Builder, Entry, Image, Kind, Plan, Record, Source, What, PAGE, UNIT};
use std::collections::BTreeMap;

const REGULAR: u32 = 0o100_000;
const DIRECTORY: u32 = 0o040_000;
const SYMLINK: u32 = 0o120_000;
const DEVICE: u32 = 0o020_000;

struct Bytes(Vec<u8>);

impl Source for Bytes {
    fn read(&mut self, offset: u64, bytes: &mut [u8]) -> Option<()> {
        let from = usize::try_from(offset).ok()?;
        bytes.copy_from_slice(self.0.get(from..from.checked_add(bytes.len())?)?);
        Some(())
    }
}

/// What a path is in the naive model.
#[derive(Clone, Debug, PartialEq)]
enum Model {
    File { id: usize, data: Vec<u8> },
    Dir,
    Link(Vec<u8>),
    Device(u64),
}

#[derive(Clone, Debug)]
enum Step {
    File(u8, u8, u16),
    Dir(u8, u8),
    Link(u8, u8, Vec<u8>),
    Device(u8, u8, u64),
    Hard(u8, u8, u8),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        (any::<u8>(), 0..20u8, 0..9000u16)
            .prop_map(|(dir, name, size)| Step::File(dir, name, size)),
        (any::<u8>(), 0..20u8).prop_map(|(dir, name)| Step::Dir(dir, name)),
        (any::<u8>(), 0..20u8, prop::collection::vec(1..255u8, 1..60))
            .prop_map(|(dir, name, text)| Step::Link(dir, name, text)),
        (any::<u8>(), 0..20u8, any::<u64>()).prop_map(|(dir, name, n)| Step::Device(dir, name, n)),
        (any::<u8>(), 0..20u8, any::<u8>()).prop_map(|(dir, name, n)| Step::Hard(dir, name, n)),
    ];
    prop::collection::vec(step, 0..80)
}

fn record(mode: u32, n: u32) -> Record {
    Record {
        mode: mode | n & 0o7777,
        uid: n,
        gid: n * 3,
        mtime: -5 + i64::from(n),
        ..Record::default()
    }
}

fn name_of(n: u8) -> Vec<u8> {
    vec![b'a' + n; 1 + usize::from(n) * 13]
}

type Paths = BTreeMap<Vec<Vec<u8>>, Model>;

/// An image of what the steps make, and the paths that it must have.
fn image(steps: &[Step]) -> (Vec<u8>, Paths) {
    let mut builder = Builder::new(record(DIRECTORY, 0o755));
    let mut dirs = vec![(builder.root(), Vec::new())];
    let mut files: Vec<(usize, usize, Vec<u8>)> = Vec::new();
    let mut paths = Paths::new();
    for (id, step) in steps.iter().enumerate() {
        let (Step::File(dir, name, _) | Step::Dir(dir, name) | Step::Link(dir, name, _)) = step
        else {
            let (Step::Device(dir, name, _) | Step::Hard(dir, name, _)) = step else { continue };
            let (dir, at) = dirs[usize::from(*dir) % dirs.len()].clone();
            let path = [&at[..], &[name_of(*name)]].concat();
            if paths.contains_key(&path) {
                continue;
            }
            match step {
                Step::Device(_, _, number) => {
                    let what = What::Other(*number);
                    builder.add(dir, &name_of(*name), what, record(DEVICE, id as u32), None);
                    paths.insert(path, Model::Device(*number));
                }
                Step::Hard(_, _, which) if !files.is_empty() => {
                    let (node, id, data) = files[usize::from(*which) % files.len()].clone();
                    builder.link(dir, &name_of(*name), node);
                    paths.insert(path, Model::File { id, data });
                }
                _ => {}
            }
            continue;
        };
        let (dir, at) = dirs[usize::from(*dir) % dirs.len()].clone();
        let name = name_of(*name);
        let path = [&at[..], std::slice::from_ref(&name)].concat();
        if paths.contains_key(&path) {
            continue;
        }
        let n = id as u32;
        match step {
            Step::File(_, _, size) => {
                let data: Vec<u8> = (0..*size).map(|at| (at as usize + id) as u8).collect();
                let what = What::File(data.len() as u64);
                let node = builder.add(dir, &name, what, record(REGULAR, n), Some(id));
                files.push((node, id, data.clone()));
                paths.insert(path, Model::File { id, data });
            }
            Step::Dir(..) => {
                let node = builder.add(dir, &name, What::Dir, record(DIRECTORY, n), None);
                dirs.push((node, path.clone()));
                paths.insert(path, Model::Dir);
            }
            Step::Link(_, _, text) => {
                let what = What::Symlink(text.clone());
                builder.add(dir, &name, what, record(SYMLINK, n), None);
                paths.insert(path, Model::Link(text.clone()));
            }
            _ => unreachable!(),
        }
    }
    let Plan { files: placed, rest, size } = builder.finish();
    let mut bytes = vec![0; size as usize];
    for part in placed {
        let data = &files.iter().find(|file| file.1 == part.file).unwrap().2;
        assert_eq!(part.size, data.len() as u64);
        bytes[part.place as usize..][..data.len()].copy_from_slice(data);
    }
    for (place, data) in rest {
        bytes[place as usize..][..data.len()].copy_from_slice(&data);
    }
    (bytes, paths)
}

/// All paths of an image, each with its entry.
fn read(source: &mut Bytes) -> Result<BTreeMap<Vec<Vec<u8>>, Entry>, rootimage::Wrong> {
    let bytes = source.0.len() as u64;
    let image = Image::open(source, bytes)?;
    let (mut all, mut open) = (BTreeMap::new(), vec![(Vec::new(), *image.root())]);
    while let Some((path, dir)) = open.pop() {
        for entry in image.entries(source, &dir)? {
            let path = [&path[..], std::slice::from_ref(&entry.name)].concat();
            // A damaged image may have a directory that is below itself.
            if entry.record.kind() == Some(Kind::Dir) && path.len() < 4 {
                open.push((path.clone(), entry.record));
            }
            all.insert(path, entry);
            if all.len() > 10_000 {
                return Ok(all);
            }
        }
    }
    Ok(all)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn what_is_read_is_what_was_written(steps in steps()) {
        let (bytes, paths) = image(&steps);
        prop_assert!((bytes.len() as u64).is_multiple_of(UNIT));
        let mut source = Bytes(bytes);
        let shallow: Paths = paths.clone().into_iter().filter(|(path, _)| path.len() <= 4).collect();
        let found = read(&mut source).unwrap();
        prop_assert_eq!(found.len(), shallow.len());
        let mut links: BTreeMap<u32, usize> = BTreeMap::new();
        for (path, entry) in &found {
            let Entry { record, text, .. } = entry;
            let subs = paths.keys().filter(|p| p.len() == path.len() + 1 && p.starts_with(path));
            match &shallow[path] {
                Model::File { id, data } => {
                    let place = record.place as usize;
                    prop_assert_eq!(&source.0[place..place + data.len()], &data[..]);
                    prop_assert_eq!(record.size, data.len() as u64);
                    prop_assert_eq!(record.place % PAGE, 0);
                    let end = data.len().next_multiple_of(PAGE as usize);
                    prop_assert!(source.0[place + data.len()..place + end].iter().all(|&b| b == 0));
                    let same = paths.values().filter(|m| matches!(m, Model::File { id: other, .. } if other == id));
                    prop_assert_eq!(record.links as usize, same.count());
                    prop_assert_eq!(record.links > 1, record.link != 0);
                    if record.link != 0 {
                        prop_assert_eq!(*links.entry(record.link).or_insert(*id), *id);
                    }
                    prop_assert_eq!(record.uid, *id as u32);
                }
                Model::Dir => {
                    let below = subs.filter(|p| paths[*p] == Model::Dir).count();
                    prop_assert_eq!(record.links as usize, 2 + below);
                }
                Model::Link(expected) => prop_assert_eq!(text, expected),
                Model::Device(number) => prop_assert_eq!(record.device, *number),
            }
        }
    }

    #[test]
    fn damaged_images_are_harmless(
        steps in steps(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let (mut bytes, _) = image(&steps);
        // Most of it is zeros: what means something is in front of them.
        let used = bytes.iter().rposition(|&byte| byte != 0).unwrap_or(0) + 1;
        for (place, value) in damage {
            bytes[place.index(used)] ^= value;
        }
        let _ = read(&mut Bytes(bytes));
    }
}

#[test]
fn paths_are_found_through_links() {
    let mut builder: Builder<()> = Builder::new(record(DIRECTORY, 0));
    let dir = |builder: &mut Builder<()>, at, name: &[u8]| {
        builder.add(at, name, What::Dir, record(DIRECTORY, 7), None)
    };
    let link = |builder: &mut Builder<()>, at, name: &[u8], text: &[u8]| {
        builder.add(at, name, What::Symlink(text.to_vec()), record(SYMLINK, 0), None)
    };
    let root = builder.root();
    let usr = dir(&mut builder, root, b"usr");
    let bin = dir(&mut builder, usr, b"bin");
    link(&mut builder, root, b"bin", b"usr/bin");
    link(&mut builder, root, b"loop", b"/loop");
    link(&mut builder, bin, b"up", b"../../bin/./tool");
    builder.add(bin, b"tool", What::File(5), record(REGULAR, 9), Some(()));
    let Plan { rest, size, .. } = builder.finish();
    let mut bytes = vec![0; size as usize];
    for (place, data) in rest {
        bytes[place as usize..][..data.len()].copy_from_slice(&data);
    }
    let mut source = Bytes(bytes);
    let image = Image::open(&mut source, size).unwrap();
    let mut find = |path: &str, follow| {
        let found = image.find(&mut source, path.as_bytes(), follow).unwrap();
        found.map(|record| (record.kind().unwrap(), record.uid))
    };
    for path in ["/bin/tool", "/bin/up", "/usr/bin/tool", "/../bin/../bin/up", "bin/./tool"] {
        assert_eq!(find(path, true), Some((Kind::File, 9)), "{path}");
    }
    assert_eq!(find("/bin/up", false).unwrap().0, Kind::Symlink);
    assert_eq!(find("/bin", false).unwrap().0, Kind::Symlink);
    assert_eq!(find("/bin", true).unwrap().0, Kind::Dir);
    assert_eq!(find("/", true).unwrap().0, Kind::Dir);
    for path in ["/loop", "/loop/x", "/none", "/bin/tool/x", "/bin/none"] {
        assert_eq!(find(path, true), None, "{path}");
    }
    let mut real = |path: &str| image.real(&mut source, path.as_bytes()).unwrap();
    assert_eq!(real("/bin/tool"), b"/usr/bin/tool");
    assert_eq!(real("/bin"), b"/bin");
    assert_eq!(real("/bin/new/er"), b"/usr/bin/new/er");
    assert_eq!(real("/x/../bin/up"), b"/usr/bin/up");
}
