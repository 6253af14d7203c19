//! As long as the turns of what a walk has passed are the same, another walk leads to the same.

use memfs::{walk, Attr, Cred, Found, Fs, Ino, Names, Node, Resolve, Step, Walk};
use piecewise::Limits;
use std::cell::RefCell;
use unixproto::Errno;

const STEPS: usize = 20_000;
const NAMES: [&[u8]; 4] = [b"a", b"b", b"c", b"l"];

/// A tree of which is noted what a walk passes.
struct Noted<'a> {
    fs: &'a Fs<()>,
    passed: RefCell<Passed>,
}

impl Noted<'_> {
    fn note(&self, ino: Ino) {
        self.passed.borrow_mut().push((ino, self.fs.get(ino).unwrap().turn()));
    }
}

impl Names for Noted<'_> {
    type Node = Ino;
    fn step(&self, node: Ino) -> Result<Step<Ino>, Errno> {
        let step = Names::step(self.fs, node)?;
        if matches!(step, Step::Link(_)) {
            self.note(node);
        }
        Ok(step)
    }
    fn enter(&self, dir: Ino, cred: &Cred) -> Result<(), Errno> {
        self.note(dir);
        Names::enter(self.fs, dir, cred)
    }
    fn lookup(&self, dir: Ino, name: &[u8]) -> Result<Option<Ino>, Errno> {
        Names::lookup(self.fs, dir, name)
    }
    fn may_follow(&self, dir: Ino, link: Ino, cred: &Cred) -> Result<(), Errno> {
        Names::may_follow(self.fs, dir, link, cred)
    }
}

type Led = (Ino, Vec<u8>, Ino);
type Passed = Vec<(Ino, u64)>;
/// As another user than the administrator? Following a link at the end? The path, where it led, and over what.
type Known = (bool, bool, Vec<u8>, Led, Passed);

/// Where a path leads, if it leads anywhere, and over what.
fn led(fs: &Fs<()>, cred: &Cred, follow: bool, path: &[u8]) -> Option<(Led, Passed)> {
    let noted = Noted { fs, passed: RefCell::default() };
    let resolve = Resolve::default();
    let how = Walk { root: fs.root(), start: fs.root(), cred: cred.clone(), follow, resolve };
    let Found { parent, name, node, .. } = walk(&noted, &how, path).ok()?;
    Some(((parent, name.to_vec(), node?), noted.passed.into_inner()))
}

fn path(random: &mut fastrand::Rng) -> Vec<u8> {
    let mut path = Vec::new();
    for n in 0..random.usize(1..5) {
        if n > 0 {
            path.push(b'/');
        }
        path.extend_from_slice(NAMES[random.usize(..NAMES.len())]);
    }
    path
}

#[test]
fn a_path_leads_where_it_led_while_the_turns_are_the_same() {
    let seed = std::env::var("TESSERA_SEED").ok().and_then(|it| it.parse().ok()).unwrap_or(226);
    println!("TESSERA_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let attr = |random: &mut fastrand::Rng| Attr {
        mode: [0o755, 0o700, 0o777, 0o1777, 0o711][random.usize(..5)],
        cred: [Cred::ROOT, Cred::user(7, 7)][random.usize(..2)].clone(),
        now: 5,
    };
    let root = Attr { mode: 0o755, cred: Cred::ROOT, now: 5 };
    let mut fs: Fs<()> = Fs::new(Limits::of(500), root);
    let mut known: Vec<Known> = Vec::new();
    let (mut same, mut other) = (0, 0);
    for step in 0..STEPS {
        let (one, two) = (path(&mut random), path(&mut random));
        let end = |fs: &Fs<()>, path: &[u8]| {
            let resolve = Resolve::default();
            let (root, cred) = (fs.root(), Cred::ROOT);
            walk(fs, &Walk { root, start: root, cred, follow: false, resolve }, path).ok()
        };
        if let Some(at) = end(&fs, &one) {
            let cred = [Cred::ROOT, Cred::user(7, 7)][random.usize(..2)].clone();
            let attr = attr(&mut random);
            // What is refused changes nothing.
            match random.usize(..10) {
                0 | 1 => _ = fs.mkdir(at.parent, &at.name, attr).ok(),
                2 => {
                    _ = fs
                        .create(at.parent, &at.name, Node::File { size: 0, content: () }, attr)
                        .ok()
                }
                3 => _ = fs.create(at.parent, &at.name, Node::Symlink(two.clone()), attr).ok(),
                4 => _ = fs.unlink(at.parent, &at.name, &cred, 6).ok(),
                5 => _ = fs.rmdir(at.parent, &at.name, &cred, 6).ok(),
                6 | 7 => {
                    if let Some(to) = end(&fs, &two) {
                        let flags = [0, unixproto::files::RENAME_EXCHANGE][random.usize(..2)];
                        let from = (at.parent, &at.name[..]);
                        _ = fs.rename(from.0, from.1, to.parent, &to.name, flags, &cred, 6).ok();
                    }
                }
                8 => _ = at.node.map(|ino| fs.set_mode(ino, attr.mode, &Cred::ROOT, 6)),
                _ => {
                    let (uid, gid) = (Some(7 * random.u32(..2)), Some(7 * random.u32(..2)));
                    _ = at.node.map(|ino| fs.set_owner(ino, uid, gid, &Cred::ROOT, 6));
                }
            }
        }
        known.retain(|(as_user, follow, path, then, passed)| {
            let turn = |ino| fs.get(ino).ok().map(|inode| inode.turn());
            if passed.iter().any(|&(ino, then)| turn(ino) != Some(then)) {
                other += 1;
                return false;
            }
            same += 1;
            let cred = if *as_user { Cred::user(7, 7) } else { Cred::ROOT };
            let now = led(&fs, &cred, *follow, path).map(|(led, _)| led);
            assert_eq!(now.as_ref(), Some(then), "step {step}: {}", String::from_utf8_lossy(path));
            true
        });
        let (as_user, follow, path) = (random.bool(), random.bool(), path(&mut random));
        let cred = if as_user { Cred::user(7, 7) } else { Cred::ROOT };
        if let Some((led, passed)) = led(&fs, &cred, follow, &path) {
            known.push((as_user, follow, path, led, passed));
        }
    }
    // Most stay the same for long, and none for ever.
    assert!(same > 10 * STEPS && other > STEPS / 10, "{same} the same, {other} others");
}
