//! Streams of a guest that means harm.

use super::*;
use std::fs;
use std::os::unix::fs::{symlink, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A folder that goes away, in which `inside` is where everything is to go, and `outside/secret` is not.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("x-out-test.{}.{number}", std::process::id()));
        fs::create_dir_all(path.join("inside")).unwrap();
        fs::create_dir_all(path.join("outside")).unwrap();
        fs::write(path.join("outside/secret"), "secret").unwrap();
        Folder(path)
    }

    fn inside(&self) -> PathBuf {
        self.0.join("inside")
    }

    /// Nothing has happened outside.
    fn check(&self) {
        let names = |path: &Path| {
            let mut names: Vec<_> =
                fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            names.sort();
            names
        };
        assert_eq!(names(&self.0), ["inside", "outside"]);
        assert_eq!(names(&self.0.join("outside")), ["secret"]);
        assert_eq!(fs::read(self.0.join("outside/secret")).unwrap(), b"secret");
    }

    /// Receives a stream for `--out PATTERN:inside/`.
    fn receive(&self, pattern: &str, stream: &[u8]) -> Vec<String> {
        let export = format!("{pattern}:{}/", self.inside().display());
        receive(stream, &[super::super::parse(&export).unwrap()])
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A stream that is being written.
struct Stream(Vec<u8>);

impl Stream {
    fn new() -> Stream {
        Stream(MAGIC.to_vec())
    }

    fn record(mut self, kind: Kind, path: &str, text: &str) -> Stream {
        let (lengths, mode) = ((path.len() as u32, text.len() as u32), 0o4751);
        let header = Header { path: lengths.0, text: lengths.1, mode, ..Header::of(kind, 0) };
        self.0.extend(header.to_bytes());
        self.0.extend(path.bytes().chain(text.bytes()));
        self
    }

    fn file(mut self, path: &str, size: u64, runs: &[(u64, &[u8])]) -> Stream {
        let header = Header {
            path: path.len() as u32,
            mode: 0o4751,
            size,
            mtime: 1_234_567_890_123_456_789,
            ..Header::of(Kind::File, 0)
        };
        self.0.extend(header.to_bytes());
        self.0.extend(path.bytes());
        for &(offset, bytes) in runs {
            self.0.extend(Run { offset, bytes: bytes.len() as u64 }.to_bytes());
            self.0.extend(bytes);
        }
        self.0.extend(Run::END.to_bytes());
        self
    }

    fn end(self) -> Vec<u8> {
        self.record(Kind::End, "", "").0
    }
}

#[test]
fn files_come_with_holes_modes_and_times() {
    let folder = Folder::new();
    let stream = Stream::new()
        .record(Kind::Match, "/root/d", "")
        .record(Kind::Directory, "", "")
        .file("a b", 1 << 20, &[(0, b"one"), (4096, b"two")])
        .record(Kind::Symlink, "link", "a b");
    assert_eq!(folder.receive("d", &stream.end()), [""; 0]);
    let file = folder.inside().join("d/a b");
    let (data, metadata) = (fs::read(&file).unwrap(), fs::metadata(&file).unwrap());
    assert_eq!((&data[..3], &data[4096..4099], data.len()), (&b"one"[..], &b"two"[..], 1 << 20));
    assert_eq!(metadata.permissions().mode() & 0o7777, 0o751, "no program as another user");
    assert_eq!((metadata.mtime(), metadata.mtime_nsec()), (1_234_567_890, 123_456_789));
    assert_eq!(fs::read_link(folder.inside().join("d/link")).unwrap(), Path::new("a b"));
    folder.check();
}

#[test]
fn paths_that_lead_out_are_refused() {
    let good = || Stream::new().record(Kind::Match, "/root/d", "").record(Kind::Directory, "", "");
    for path in ["../x", "a/../../x", "/etc/x", "..", ".", "a//b", "a/", "a\0b"] {
        for stream in [
            good().file(path, 1, &[(0, b"x")]),
            good().record(Kind::Directory, path, ""),
            good().record(Kind::Symlink, path, "x"),
        ] {
            let folder = Folder::new();
            let problems = folder.receive("d", &stream.end());
            assert!(problems.iter().any(|text| text.contains("protocol")), "{path}: {problems:?}");
            folder.check();
        }
    }
    for path in ["/root/../d", "/root/d/", "root/d", "/etc/d", "/root/.", "/root/e", ""] {
        let folder = Folder::new();
        let stream = Stream::new().record(Kind::Match, path, "").file("", 1, &[(0, b"x")]);
        assert_eq!(folder.receive("d", &stream.end()).len(), 1, "{path}");
        assert_eq!(fs::read_dir(folder.inside()).unwrap().count(), 0, "{path}");
        folder.check();
    }
}

#[test]
fn no_link_is_followed() {
    let folder = Folder::new();
    let target = folder.0.join("outside");
    let to = target.to_str().unwrap();
    let stream = Stream::new()
        .record(Kind::Match, "/root/d", "")
        .record(Kind::Directory, "", "")
        .record(Kind::Symlink, "out", to)
        .file("out/secret", 1, &[(0, b"x")])
        .file("out/new", 1, &[(0, b"x")])
        .record(Kind::Symlink, "out/link", "x")
        .record(Kind::Directory, "out", "")
        .record(Kind::Directory, "out/deep", "")
        .record(Kind::Symlink, "file", &format!("{to}/secret"))
        .file("file", 1, &[(0, b"x")])
        .file("good", 1, &[(0, b"x")]);
    let problems = folder.receive("d", &stream.end());
    assert_eq!(problems.len(), 5, "{problems:?}");
    folder.check();
    // A link that has a file's name is replaced.
    assert_eq!(fs::read(folder.inside().join("d/file")).unwrap(), b"x");
    assert_eq!(fs::read(folder.inside().join("d/good")).unwrap(), b"x");
    assert!(fs::symlink_metadata(folder.inside().join("d/file")).unwrap().is_file());
}

#[test]
fn links_of_an_earlier_run_are_not_followed() {
    let folder = Folder::new();
    symlink(folder.0.join("outside"), folder.inside().join("d")).unwrap();
    let stream = Stream::new()
        .record(Kind::Match, "/root/d", "")
        .record(Kind::Directory, "", "")
        .file("secret", 1, &[(0, b"x")]);
    assert_eq!(folder.receive("d", &stream.end()).len(), 2);
    folder.check();
    let as_it = format!("d:{}", folder.inside().join("d").display());
    assert!(super::super::parse(&as_it).is_err());
}

#[test]
fn files_and_folders_do_not_take_each_others_place() {
    let folder = Folder::new();
    fs::create_dir_all(folder.inside().join("d/folder/in")).unwrap();
    fs::write(folder.inside().join("d/file"), "old").unwrap();
    let stream = Stream::new()
        .record(Kind::Match, "/root/d", "")
        .record(Kind::Directory, "", "")
        .file("folder", 1, &[(0, b"x")])
        .record(Kind::Directory, "file", "")
        .file("file/x", 1, &[(0, b"x")])
        .file("new", 1, &[(0, b"x")]);
    let problems = folder.receive("d", &stream.end());
    assert_eq!(problems.len(), 3, "{problems:?}");
    assert!(problems[0].contains("here is a folder of that name"), "{problems:?}");
    assert_eq!(fs::read(folder.inside().join("d/file")).unwrap(), b"old");
    let names = fs::read_dir(folder.inside().join("d")).unwrap().count();
    assert_eq!(names, 3, "nothing unfinished stays");
    folder.check();
}

#[test]
fn a_stream_that_ends_early_leaves_whole_files_only() {
    let stream = Stream::new()
        .record(Kind::Match, "/root/d", "")
        .record(Kind::Directory, "", "")
        .file("a", 3, &[(0, b"abc")])
        .file("b", 3, &[(0, b"abc")])
        .end();
    for length in 0..stream.len() {
        let folder = Folder::new();
        let problems = folder.receive("d", &stream[..length]);
        assert_eq!(problems.len(), 1, "{length}: {problems:?}");
        assert!(problems[0].contains("ended before"), "{problems:?}");
        for file in fs::read_dir(folder.inside().join("d")).into_iter().flatten().flatten() {
            assert_eq!(fs::read(file.path()).unwrap(), b"abc", "{length}");
        }
    }
}

#[test]
fn contents_beyond_the_size_are_refused() {
    let runs: [&[(u64, &[u8])]; 4] =
        [&[(0, b"abcd")], &[(u64::MAX, b"abc")], &[(2, b"ab")], &[(1, b"ab"), (0, b"a")]];
    for runs in runs {
        let folder = Folder::new();
        let stream = Stream::new().record(Kind::Match, "/root/d", "").file("", 3, runs);
        let problems = folder.receive("d", &stream.end());
        assert!(problems[0].contains("protocol"), "{problems:?}");
        assert_eq!(fs::read_dir(folder.inside()).unwrap().count(), 0);
    }
}

/// Whatever bytes come, nothing happens outside, and it ends.
#[test]
fn damaged_streams_do_no_harm() {
    let stream = Stream::new()
        .record(Kind::Match, "/root/d", "")
        .record(Kind::Directory, "", "")
        .record(Kind::Symlink, "out", "../../outside")
        .file("out/secret", 3, &[(0, b"abc")])
        .record(Kind::Skipped, "fifo", "")
        .file("b", 3, &[(0, b"abc")])
        .end();
    let folder = Folder::new();
    let mut state = 1u64;
    let mut random = |most: usize| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize % most
    };
    for _ in 0..2000 {
        let mut damaged = stream.clone();
        for _ in 0..1 + random(4) {
            let at = MAGIC.len() + random(stream.len() - MAGIC.len());
            damaged[at] = [0, 1, b'.', b'/', 0xff, random(256) as u8][random(6)];
        }
        folder.receive("d", &damaged);
        folder.check();
        fs::remove_dir_all(folder.inside()).unwrap();
        fs::create_dir(folder.inside()).unwrap();
    }
}

#[test]
fn names_come_to_the_terminal_without_control_characters() {
    let folder = Folder::new();
    let stream = Stream::new()
        .record(Kind::Match, "/root/d", "")
        .record(Kind::Directory, "", "")
        .record(Kind::Skipped, "\x1b[2Jx", "");
    let problems = folder.receive("d", &stream.end());
    assert!(problems.len() == 1 && !problems[0].contains('\x1b'), "{problems:?}");
}
