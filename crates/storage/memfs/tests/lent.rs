//! A file that is lent is shown to nobody, and has the time at which it was changed.

use memfs::{Attr, Cred, Fs, Hidden, Ino, Node, Shown};
use piecewise::Limits;

const NOW: i64 = 1000;

fn file() -> (Fs<()>, Ino) {
    let attr = Attr { mode: 0o755, cred: Cred::ROOT, now: 0 };
    let mut fs: Fs<()> = Fs::new(Limits::of(10), attr.clone());
    let ino = fs.create(fs.root(), b"a", Node::File { size: 0, content: () }, attr).unwrap();
    fs.get_mut(ino).unwrap().modified(NOW);
    (fs, ino)
}

fn times(fs: &Fs<()>, ino: Ino) -> (i64, i64) {
    let inode = fs.get(ino).unwrap();
    (inode.mtime, inode.ctime)
}

#[test]
fn who_changes_it_or_is_shown_it_ends_the_loan() {
    let (mut fs, ino) = file();
    fs.show(ino, 3);
    assert!(!fs.lend(ino, 7), "somebody knows what it says");
    fs.get_mut(ino).unwrap();
    assert_eq!(fs.take_hidden(), Some(Hidden::Inode(ino, Shown::To(3))));
    assert!(fs.lend(ino, 7) && fs.lend(ino, 7));
    assert_eq!(fs.lent_to(ino), Some(Shown::Lent(7)));
    // It is lent until it is returned, and whoever is shown it meanwhile is told at once.
    fs.get_mut(ino).unwrap();
    assert_eq!(fs.take_hidden(), Some(Hidden::Inode(ino, Shown::Lent(7))));
    fs.show(ino, 3);
    assert_eq!(fs.take_hidden(), Some(Hidden::Inode(ino, Shown::To(3))));
    assert!(fs.lend(ino, 8) && fs.lend(ino, 7));
    assert_eq!(fs.lent_to(ino), Some(Shown::LentToMany));
    fs.get_mut(ino).unwrap();
    assert_eq!(fs.take_hidden(), Some(Hidden::Inode(ino, Shown::LentToMany)));
    fs.returned(ino);
    assert_eq!((fs.lent_to(ino), fs.take_hidden()), (None, None));
    // It goes.
    assert!(fs.lend(ino, 7));
    fs.unlink(fs.root(), b"a", &Cred::ROOT, NOW).unwrap();
    assert!(fs.has_hidden());
    while let Some(hidden) = fs.take_hidden() {
        assert_eq!(hidden, Hidden::Inode(ino, Shown::Lent(7)));
    }
    fs.changed(ino, NOW, NOW);
    fs.returned(ino);
}

#[test]
fn a_time_is_believed_between_the_loan_and_now() {
    let (mut fs, ino) = file();
    for (said, now, is) in [
        (0, 5000, NOW),
        // Before it was lent; meanwhile; later than now, twice.
        (NOW - 1, 5000, NOW),
        (2000, 5000, 2000),
        (i64::MAX, 5000, 5000),
        (i64::MIN, 6000, 5000),
        (7000, 6000, 6000),
    ] {
        assert!(fs.lend(ino, 7));
        fs.changed(ino, said, now);
        fs.returned(ino);
        assert_eq!((times(&fs, ino), fs.lent_to(ino)), ((is, is), None));
        // Nobody has it to change.
        fs.changed(ino, now, now);
        assert_eq!(times(&fs, ino), (is, is));
    }
    // What was set to a later time stays so.
    fs.get_mut(ino).unwrap().ctime = 9000;
    assert!(fs.lend(ino, 7));
    fs.changed(ino, 8000, 8500);
    assert_eq!(times(&fs, ino), (8000, 9000));
}

#[test]
fn a_read_is_believed_between_the_last_one_and_now() {
    let (mut fs, ino) = file();
    fs.get_mut(ino).unwrap().atime = NOW + 500;
    for (said, now, is) in [
        (0, 5000, NOW + 500),
        (2000, 5000, 2000),
        (1900, 5000, 2000),
        (i64::MAX, 6000, 6000),
        (i64::MIN, 7000, 6000),
    ] {
        assert!(fs.lend(ino, 7));
        fs.accessed(ino, said, now);
        assert_eq!((fs.get(ino).unwrap().atime, times(&fs, ino)), (is, (NOW, NOW)));
        fs.returned(ino);
        // Nobody has it to read.
        fs.accessed(ino, now + 1, now + 1);
        assert_eq!(fs.get(ino).unwrap().atime, is);
    }
}
