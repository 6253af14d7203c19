//! Reading good archives, and archives that are damaged in every way one can think of.

use bootarchive::{entries, find, Damage, Kind};

fn add(archive: &mut Vec<u8>, path: &str, mode: u32, data: &[u8]) {
    let fields = [7, mode, 1, 2, 1, 99, data.len() as u32, 0, 0, 4, 5, path.len() as u32 + 1, 0];
    archive.extend(b"070701");
    for field in fields {
        archive.extend(format!("{field:08x}").bytes());
    }
    archive.extend(path.bytes());
    archive.push(0);
    archive.resize(archive.len().next_multiple_of(4), 0);
    archive.extend(data);
    archive.resize(archive.len().next_multiple_of(4), 0);
}

fn sample() -> Vec<u8> {
    let mut archive = Vec::new();
    add(&mut archive, "boot", 0o040755, b"");
    add(&mut archive, ".pad", 0o100000, &[0; 300]);
    add(&mut archive, "boot/init", 0o100755, b"contents");
    add(&mut archive, "link", 0o120777, b"boot/init");
    add(&mut archive, "null", 0o020666, b"");
    add(&mut archive, "TRAILER!!!", 0, b"");
    archive
}

#[test]
fn every_kind_is_read() {
    let archive = sample();
    let all: Vec<_> = entries(&archive).map(Result::unwrap).collect();
    let kinds: Vec<_> = all.iter().map(|entry| entry.kind()).collect();
    assert_eq!(kinds, [Kind::Directory, Kind::File, Kind::Symlink, Kind::Other]);
    let init = find(&archive, "boot/init").unwrap().unwrap();
    assert_eq!((init.data, init.mode, init.uid, init.gid), (&b"contents"[..], 0o100755, 1, 2));
    assert_eq!((init.mtime, init.device), (99, (4, 5)));
    assert_eq!(&archive[init.offset..][..init.data.len()], b"contents");
    assert_eq!(find(&archive, "boot"), Ok(None));
    assert_eq!(find(&archive, ".pad"), Ok(None));
}

#[test]
fn what_follows_the_trailer_does_not_matter() {
    let mut archive = sample();
    archive.extend([0xff; 5000]);
    assert!(entries(&archive).all(|entry| entry.is_ok()));
}

#[test]
fn every_truncation_is_an_error_that_ends_the_entries() {
    let archive = sample();
    let trailer = archive.len() - 124;
    for len in 0..archive.len() {
        let results: Vec<_> = entries(&archive[..len]).collect();
        let (last, before) = results.split_last().expect("at least the error");
        assert!(before.iter().all(Result::is_ok));
        assert!(matches!(last, Err(Damage::Truncated { at }) if *at < len + 4), "{len} {last:?}");
        assert!(len <= trailer || before.len() == 4);
    }
}

#[test]
fn no_bytes_make_the_reader_panic_or_run_for_ever() {
    let archive = sample();
    let mut random = fastrand::Rng::with_seed(0x2545_f491_4f6c_dd1d);
    let digits = b"0123456789abcdefF\0\xff ";
    for _ in 0..20_000 {
        let mut broken = archive.clone();
        for _ in 0..1 + random.usize(..6) {
            let at = random.usize(..broken.len());
            broken[at] = digits[random.usize(..digits.len())];
        }
        broken.truncate(1 + random.usize(..broken.len()));
        assert!(entries(&broken).count() <= broken.len() / 110 + 1);
        let _ = find(&broken, "boot/init");
    }
}

#[test]
fn the_largest_numbers_are_refused() {
    for field in [6, 11] {
        let mut archive = sample();
        archive[6 + 8 * field..14 + 8 * field].copy_from_slice(b"ffffffff");
        assert_eq!(entries(&archive).next(), Some(Err(Damage::Truncated { at: 0 })));
    }
}

/// The reader is part of the kernel, which has no numbers of Linux but these.
#[test]
fn kinds_are_those_of_linux() {
    use linux_raw_sys::general::{S_IFCHR, S_IFDIR, S_IFLNK, S_IFMT, S_IFREG};
    let known = [(S_IFREG, Kind::File), (S_IFDIR, Kind::Directory), (S_IFLNK, Kind::Symlink)];
    for (mode, kind) in known.into_iter().chain([(S_IFCHR, Kind::Other), (S_IFMT, Kind::Other)]) {
        let mut archive = Vec::new();
        add(&mut archive, "x", mode | !S_IFMT, b"");
        let first = entries(&archive).next().and_then(Result::ok).map(|entry| entry.kind());
        assert_eq!(first, Some(kind), "{mode:o}");
    }
}
