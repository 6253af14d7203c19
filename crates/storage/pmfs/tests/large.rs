//! Many names in one directory: what an operation costs does not depend on how many, and space is used again.

use pmfs::{Area, Attr, Error, Fs, How, Mount, SetXattr, What};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

/// Memory that counts how often it is looked at.
struct Counting {
    words: RefCell<Vec<u64>>,
    loads: Cell<u64>,
    fences: Cell<u64>,
}

impl Counting {
    fn new(lines: usize) -> Counting {
        let words = RefCell::new(vec![0; 8 * lines]);
        Counting { words, loads: Cell::new(0), fences: Cell::new(0) }
    }
    /// Loads and fences of something.
    fn count<R>(&self, what: impl FnOnce() -> R) -> (u64, u64, R) {
        let (loads, fences) = (self.loads.get(), self.fences.get());
        let result = what();
        (self.loads.get() - loads, self.fences.get() - fences, result)
    }
}

impl Area for Counting {
    fn words(&self) -> u64 {
        self.words.borrow().len() as u64
    }
    fn load(&self, word: u64) -> u64 {
        self.loads.set(self.loads.get() + 1);
        self.words.borrow()[word as usize]
    }
    fn store(&self, word: u64, value: u64) {
        self.words.borrow_mut()[word as usize] = value;
    }
    fn write_back(&self, _: u64) {}
    fn fence(&self) {
        self.fences.set(self.fences.get() + 1);
    }
}

/// Returns how many steps it took, too.
fn mount(area: &Counting) -> (Fs<&Counting>, usize) {
    let mut mount = Mount::new(area, 5).expect("formatted");
    let mut steps = 1;
    while !mount.step(|_| true).expect("whole") {
        steps += 1;
    }
    (mount.finish().expect("done"), steps)
}

#[test]
fn an_operation_among_100_000_names_costs_as_much_as_among_ten() {
    const NAMES: u32 = 100_000;
    let area = Counting::new(300_000);
    pmfs::format(&area, Attr::default()).expect("large enough");
    let (mut fs, _) = mount(&area);
    let root = fs.root();
    let name = |n: u32| format!("name {n}").into_bytes();
    let mut most = (0, 0);
    for n in 0..NAMES {
        let create = || fs.create(root, &name(n), What::File(None), Attr::default(), 1);
        let (loads, fences, made) = area.count(create);
        made.expect("room");
        // One in 32 takes 64 more lines into use, which it looks at.
        most = (most.0.max(loads), most.1.max(fences));
    }
    assert!(most.0 <= 80 && most.1 == 2, "{most:?} loads and fences of a create");
    let (loads, (mut fs, steps)) = {
        let (loads, _, mounted) = area.count(|| mount(&area));
        (loads, mounted)
    };
    println!("a mount with {NAMES} names: {steps} steps, {loads} loads");
    assert!(loads < 30 * NAMES as u64 && loads / (steps as u64) < 20_000);
    assert_eq!(fs.read_dir(root, 0).expect("a directory").count(), NAMES as usize);
    for n in (0..NAMES).step_by(7) {
        let (loads, fences, found) = area.count(|| fs.lookup(root, &name(n)));
        assert!(found.expect("a directory").is_some() && loads <= 16 && fences == 0, "{loads}");
        let other = format!("other {n}").into_bytes();
        let rename = || fs.rename((root, &name(n)), (root, &other), How::Replace, 2);
        let (loads, fences, moved) = area.count(rename);
        assert!(moved.is_ok() && loads <= 48 && fences == 2, "{loads}");
        let (loads, fences, gone) = area.count(|| fs.unlink(root, &other, 3));
        assert!(gone.expect("there").is_some() && loads <= 48 && fences == 2, "{loads}");
    }
}

#[test]
fn space_is_used_again() {
    let area = Counting::new(64 + 40);
    pmfs::format(&area, Attr::default()).expect("large enough");
    let (mut fs, _) = mount(&area);
    let (root, long) = (fs.root(), [b'n'; 255]);
    let free = fs.space().free;
    for round in 0..1000 {
        // An inode and a name of five lines.
        let mut made = 0u8;
        while let Ok(ino) =
            fs.create(root, &name_of(made), What::File(None), Attr::default(), round)
        {
            assert_eq!(fs.stat(ino).map(|stat| stat.links), Ok(1));
            made += 1;
        }
        assert_eq!(made, 6, "39 lines, each file has 6");
        assert_eq!(
            fs.create(root, b"n", What::Symlink(&long), Attr::default(), 1),
            Err(Error::NoSpace)
        );
        let inode = fs.lookup(root, &name_of(0)).expect("a directory").expect("there");
        assert_eq!(fs.set_xattr(inode, b"a", &[1; 48 + 56 * 2 - 1], SetXattr::Any, 1), Ok(()));
        assert_eq!(fs.set_xattr(inode, b"b", b"", SetXattr::Any, 1), Err(Error::NoSpace));
        assert_eq!(fs.space().free, 0);
        (0..made).for_each(|n| assert!(fs.unlink(root, &name_of(n), 1).is_ok_and(|g| g.is_some())));
        assert_eq!(fs.space().free, free);
    }
}

fn name_of(number: u8) -> [u8; 255] {
    let mut name = [b'n'; 255];
    name[254] = b'0' + number;
    name
}

/// Who reads a directory while others change it, and after a restart, sees once what is there all the time.
#[test]
fn what_stays_is_listed_once() {
    for seed in 0..200 {
        let mut random = fastrand::Rng::with_seed(seed);
        let area = Counting::new(2000);
        pmfs::format(&area, Attr::default()).expect("large enough");
        let (mut fs, _) = mount(&area);
        let root = fs.root();
        let stays = |n: u32| format!("stays {n}").into_bytes();
        let comes = |n: u32| format!("comes {n}").into_bytes();
        for n in 0..60 {
            let name = if random.bool() { stays(n) } else { comes(n) };
            fs.create(root, &name, What::Fifo, Attr::default(), 1).expect("room");
        }
        let (mut seen, mut next) = (BTreeMap::new(), 0);
        loop {
            let some: Vec<_> =
                fs.read_dir(root, next).expect("a directory").take(random.usize(1..9)).collect();
            let Some(last) = some.last() else { break };
            next = last.next;
            some.into_iter().for_each(|entry| *seen.entry(entry.name).or_insert(0) += 1);
            for _ in 0..5 {
                let name = comes(random.u32(..80));
                match fs.unlink(root, &name, 1) {
                    Ok(gone) => assert!(gone.is_some()),
                    Err(_) => drop(fs.create(root, &name, What::Fifo, Attr::default(), 1)),
                }
            }
            if random.u8(..4) == 0 {
                fs = mount(&area).0;
            }
        }
        for n in (0..60).map(stays) {
            let is_there = fs.lookup(root, &n).expect("a directory").is_some();
            assert_eq!(seen.get(&n).copied().unwrap_or(0), is_there as u32, "seed {seed}");
        }
    }
}

#[test]
fn limits_of_attributes() {
    let area = Counting::new(30_000);
    pmfs::format(&area, Attr::default()).expect("large enough");
    let (mut fs, _) = mount(&area);
    let file = fs.create_unnamed(What::File(None), Attr::default()).expect("room");
    let value = vec![7; pmfs::XATTR_MAX];
    for n in 0..pmfs::XATTRS_MAX {
        let value = &value[..if n < 8 { value.len() } else { n }];
        let name = format!("user.{n}").into_bytes();
        assert_eq!(fs.set_xattr(file, &name, value, SetXattr::Create, 1), Ok(()));
    }
    assert_eq!(fs.set_xattr(file, b"user.one more", b"", SetXattr::Any, 1), Err(Error::NoSpace));
    assert_eq!(fs.set_xattr(file, b"user.1", b"", SetXattr::Replace, 1), Ok(()));
    assert_eq!(fs.xattr(file, b"user.2"), Ok(Some(value.clone())));
    assert_eq!(fs.xattr(file, b"user.one more"), Ok(None));
    // All are gone by one record.
    assert!(fs.release(file).is_some());
    assert_eq!(fs.space().free, 30_000 - 64 - 1);
}
