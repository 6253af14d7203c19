//! Directories that are read when somebody looks.

use memfs::{
    Attr, Attributes, Cred, Dir, Fs, Ino, Known, Lower, Node, Unread, FIRST_COOKIE, UNREAD,
};
use piecewise::Limits;
use unixproto::Errno;

const ATTR: Attr = Attr { mode: 0o755, cred: Cred::ROOT, now: 5 };

fn lower(name: &[u8], node: Node<()>, nlink: u32, known: Known) -> Lower<()> {
    let attributes = Attributes { mode: 0o750, uid: 7, gid: 8, atime: 1, mtime: 2, ctime: 3 };
    let unread = matches!(node, Node::Dir(_)).then_some(Unread { place: 64, bytes: 100 });
    Lower { name: name.to_vec(), node, attributes, nlink, unread, known }
}

fn file() -> Node<()> {
    Node::File { size: 9, content: () }
}

fn dir() -> Node<()> {
    Node::Dir(Dir::new(Ino(0)))
}

/// A tree with a root that is still to be read.
fn unread(inodes: usize) -> Fs<()> {
    let mut fs = Fs::new(Limits::of(inodes), ATTR);
    fs.set_unread(fs.root(), Unread { place: 4096, bytes: 300 }).unwrap();
    // As the image says: one directory is in it.
    fs.get_mut(fs.root()).unwrap().nlink = 3;
    fs
}

/// A file with two names there and a third below, and a directory.
fn all() -> Vec<Lower<()>> {
    vec![
        lower(b"a", file(), 3, Known::No),
        lower(b"b", file(), 3, Known::Before(0)),
        lower(b"d", dir(), 2, Known::No),
    ]
}

#[test]
fn who_looks_is_answered_when_it_was_read() {
    let mut fs = unread(100);
    let root = fs.root();
    assert_eq!(fs.lookup(root, b"a"), Err(UNREAD));
    assert_eq!((fs.wanted(), fs.wanted()), (Some(root), None));
    assert_eq!(fs.lookup(root, b".."), Ok(Some(root)));
    assert!(!fs.get(root).unwrap().dir().unwrap().is_empty());
    let made = fs.read_in(root, all()).unwrap();
    assert_eq!((made.len(), made[0]), (3, made[1]));
    assert_eq!(fs.lookup(root, b"b"), Ok(Some(made[0])));
    let inode = fs.get(made[0]).unwrap();
    assert_eq!((inode.mode, inode.uid, inode.gid, inode.mtime), (0o750, 7, 8, 2));
    // The names that nobody has read yet count.
    for name in [b"a", b"b"] {
        fs.unlink(root, name, &Cred::ROOT, 6).unwrap();
    }
    assert_eq!(fs.get(made[0]).unwrap().nlink, 1);
    assert_eq!(fs.lookup(root, b"a"), Ok(None));
    // One that is still to be read is not empty, and can be moved.
    assert_eq!(fs.rmdir(root, b"d", &Cred::ROOT, 6), Err(Errno::ENOTEMPTY));
    fs.rename(root, b"d", root, b"e", 0, &Cred::ROOT, 6).unwrap();
    let below = fs.lookup(root, b"e").unwrap().unwrap();
    assert_eq!(below, made[2]);
    assert!(matches!(fs.look_in(below), Err(UNREAD)));
    assert_eq!(fs.wanted(), Some(below));
    let read = fs.read_in(below, vec![lower(b"c", file(), 3, Known::As(made[0]))]).unwrap();
    assert_eq!(read, [made[0]]);
    fs.validate().unwrap();
    let names: Vec<_> =
        fs.look_in(below).unwrap().entries(FIRST_COOKIE).map(|entry| entry.name.to_vec()).collect();
    assert_eq!(names, [b"c"]);
    fs.unlink(below, b"c", &Cred::ROOT, 6).unwrap();
    assert!(fs.get(made[0]).is_err());
    fs.rmdir(root, b"e", &Cred::ROOT, 6).unwrap();
    assert_eq!(fs.used(), 1);
    fs.validate().unwrap();
}

#[test]
fn without_room_nothing_is_read() {
    // The root, and one more.
    let mut fs = unread(2);
    let root = fs.root();
    assert_eq!(fs.read_in(root, all()), Err(Errno::ENOSPC));
    assert_eq!((fs.used(), fs.lookup(root, b"a")), (1, Err(UNREAD)));
    let mut fs = unread(3);
    assert_eq!(fs.read_in(root, all()).map(|made| made.len()), Ok(3));
}
