//! Images made, looked at and checked by the tools of e2fsprogs, with what is done here in between. Without these tools nothing is tested.

mod client;

use client::{Client, Image};
use ninep::Changes;
use std::process::Command;

/// Is there what makes and checks images?
fn has_tools() -> bool {
    let found = ["mkfs.ext4", "e2fsck", "debugfs"].iter().all(|tool| {
        let path = format!("{}:/sbin:/usr/sbin", std::env::var("PATH").unwrap_or_default());
        std::env::split_paths(&path).any(|folder| folder.join(tool).is_file())
    });
    if !found {
        eprintln!("skipped: no e2fsprogs");
    }
    found
}

#[test]
fn files_written_here_are_read_by_debugfs() {
    if !has_tools() {
        return;
    }
    let image = Image::make("read", 64, &[]);
    let mut client = Client::mount(&image).unwrap();
    let data: Vec<u8> = (0..1_000_000u32).flat_map(u32::to_le_bytes).collect();
    client.mkdir("d", 0o755).unwrap();
    client.put("d/file", &data).unwrap();
    client.symlink("d/short", "file").unwrap();
    client.symlink("d/long", &"x".repeat(200)).unwrap();
    client.link("d/file", "other").unwrap();
    client.rename("other", "d/third").unwrap();
    // A hole in front.
    client.write_at("sparse", 10_000_000, b"end").unwrap();
    client.mkdir("d/e", 0o700).unwrap();
    client.rename("d/e", "f").unwrap();
    assert_eq!(client.rename("d", "d/g"), Err(22));
    assert_eq!(client.rmdir("d"), Err(39));
    assert_eq!(client.get("d/third").unwrap(), data);
    client.end().unwrap();
    image.check();
    let dumped = image.path.with_extension("dumped");
    image.debugfs(&format!("dump /d/third {}", dumped.display()));
    assert_eq!(std::fs::read(&dumped).unwrap(), data);
    assert!(image.debugfs("stat /sparse").contains("Size: 10000003"));
    assert!(image.debugfs("stat /d/short").contains("Fast link dest: \"file\""));
    assert!(image.debugfs("stat /d/third").contains("Links: 2"));
}

#[test]
fn many_files_in_one_folder() {
    if !has_tools() {
        return;
    }
    let image = Image::make("many", 64, &[]);
    let mut client = Client::mount(&image).unwrap();
    client.mkdir("d", 0o755).unwrap();
    let count = 10_000;
    for number in 0..count {
        client.put(&format!("d/file{number:05}"), b"").unwrap();
    }
    let mut names = client.list("d").unwrap();
    names.sort();
    assert_eq!(names.len(), count + 2);
    assert!(names.windows(2).all(|pair| pair[0] != pair[1]));
    for number in (0..count).step_by(2) {
        client.unlink(&format!("d/file{number:05}")).unwrap();
    }
    assert_eq!(client.list("d").unwrap().len(), count / 2 + 2);
    client.end().unwrap();
    image.check();
    // What was left is found by another mount, and removed.
    let mut client = Client::mount(&image).unwrap();
    for number in (1..count).step_by(2) {
        client.unlink(&format!("d/file{number:05}")).unwrap();
    }
    client.rmdir("d").unwrap();
    client.end().unwrap();
    image.check();
}

#[test]
fn a_full_disk_says_so_and_stays_whole() {
    if !has_tools() {
        return;
    }
    let image = Image::make("full", 16, &[]);
    let mut client = Client::mount(&image).unwrap();
    let block = vec![7; 12288];
    let mut at = 0;
    let error = loop {
        match client.write_at("big", at, &block) {
            Ok(()) => at += block.len() as u64,
            Err(error) => break error,
        }
    };
    assert_eq!(error, 28);
    assert!(at > 5_000_000, "{at} bytes");
    assert_eq!(client.write_at("other", 0, &block), Err(28));
    client.unlink("big").unwrap();
    client.write_at("other", 0, &block).unwrap();
    client.end().unwrap();
    image.check();
}

#[test]
fn a_file_without_a_name_lives_while_it_is_known() {
    if !has_tools() {
        return;
    }
    let image = Image::make("nameless", 16, &[]);
    let mut client = Client::mount(&image).unwrap();
    client.put("file", &[1; 100_000]).unwrap();
    let free = client.free();
    let fid = client.walk("file").unwrap();
    client.unlink("file").unwrap();
    assert_eq!(client.read(fid, 99_990).unwrap(), [1; 10]);
    assert_eq!(client.free(), free);
    client.clunk(fid).unwrap();
    assert!(client.free() > free);
    // Another one, known when the machine ends.
    client.put("file", &[1; 100_000]).unwrap();
    client.walk("file").unwrap();
    client.unlink("file").unwrap();
    client.sync().unwrap();
    client.crash();
    let mut client = Client::mount(&image).unwrap();
    assert!(client.free() > free);
    client.end().unwrap();
    image.check();
}

#[test]
fn what_is_refused() {
    if !has_tools() {
        return;
    }
    let image = Image::make("refused", 16, &[]);
    let mut client = Client::mount(&image).unwrap();
    client.mkdir("d", 0o755).unwrap();
    client.put("f", b"x").unwrap();
    assert_eq!(client.mkdir("d", 0o755), Err(17));
    assert_eq!(client.mkdir("f/x", 0o755), Err(20));
    assert_eq!(client.unlink("d"), Err(21));
    assert_eq!(client.rmdir("f"), Err(20));
    assert_eq!(client.unlink("none"), Err(2));
    assert_eq!(client.link("d", "e"), Err(1));
    assert_eq!(client.link("f", "d"), Err(17));
    assert_eq!(client.rename("f", "d"), Err(21));
    assert_eq!(client.rename("d", "f"), Err(20));
    assert_eq!(client.mkdir(&"n".repeat(256), 0o755), Err(36));
    client.end().unwrap();
    image.check();
    let mut client = Client::mount_read_only(&image).unwrap();
    assert_eq!(client.put("g", b"x"), Err(30));
    assert_eq!(client.get("f").unwrap(), b"x");
    client.end().unwrap();
    image.check();
}

/// Random changes, against files of the host.
#[test]
fn random_changes_are_those_of_a_model() {
    if !has_tools() {
        return;
    }
    for seed in 0..4 {
        random_changes(seed);
    }
}

fn random_changes(seed: u64) {
    use std::collections::BTreeMap;
    let mut random = fastrand::Rng::with_seed(seed);
    let options: [&[&str]; 4] =
        [&[], &["-b", "1024"], &["-O", "^metadata_csum"], &["-O", "^has_journal"]];
    let image = Image::make(&format!("random{seed}"), 32, options[seed as usize % 4]);
    let mut client = Client::mount(&image).unwrap();
    let mut model: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    for step in 0..3000 {
        let name = format!("n{}", random.u32(..40));
        match random.u32(..100) {
            0..40 => {
                let offset = random.usize(..200_000);
                let data = vec![random.u8(..); random.usize(1..9000)];
                client.write_at(&name, offset as u64, &data).unwrap();
                let bytes = model.entry(name).or_default();
                if bytes.len() < offset + data.len() {
                    bytes.resize(offset + data.len(), 0);
                }
                bytes[offset..offset + data.len()].copy_from_slice(&data);
            }
            40..55 => {
                let size = random.usize(..200_000);
                let changes = Changes { size: Some(size as u64), ..Changes::default() };
                let done = client.set(&name, changes);
                match model.get_mut(&name) {
                    Some(bytes) => {
                        done.unwrap();
                        bytes.resize(size, 0);
                    }
                    None => assert_eq!(done, Err(2)),
                }
            }
            55..70 => {
                let done = client.unlink(&name);
                assert_eq!(done.is_ok(), model.remove(&name).is_some(), "step {step}");
            }
            70..85 => {
                let new = format!("n{}", random.u32(..40));
                let done = client.rename(&name, &new);
                match model.remove(&name) {
                    Some(bytes) => {
                        done.unwrap();
                        model.insert(new, bytes);
                    }
                    None => assert_eq!(done, Err(2)),
                }
            }
            85..87 => client.sync().unwrap(),
            87 => {
                client.end().unwrap();
                image.check();
                client = Client::mount(&image).unwrap();
            }
            _ => {
                let bytes = client.get(&name);
                assert_eq!(bytes.ok().as_ref(), model.get(&name), "{name} in step {step}");
            }
        }
    }
    let mut names = client.list("").unwrap();
    names.retain(|name| name.starts_with('n'));
    names.sort();
    assert_eq!(names, model.keys().cloned().collect::<Vec<_>>());
    for (name, bytes) in &model {
        assert_eq!(&client.get(name).unwrap(), bytes);
    }
    client.end().unwrap();
    image.check();
}

/// The power fails between any two writes: what was synced is there, and the file system is whole after its journal was read.
#[test]
fn power_failures() {
    if !has_tools() {
        return;
    }
    for seed in 0..12 {
        let mut random = fastrand::Rng::with_seed(seed);
        let image = Image::make(&format!("power{seed}"), 16, &[]);
        let mut client = Client::mount(&image).unwrap();
        client.put("kept", &[5; 50_000]).unwrap();
        client.sync().unwrap();
        client.fails_after(random.usize(1..400));
        for step in 0..200 {
            let name = format!("n{}", random.u32(..20));
            let done = match random.u32(..4) {
                0 | 1 => client.put(&name, &vec![step as u8; random.usize(1..20_000)]),
                2 => client.unlink(&name),
                _ => client.sync(),
            };
            if client.has_failed() {
                break;
            }
            assert!(matches!(done, Ok(()) | Err(2)), "{done:?}");
        }
        client.crash();
        let mut client = Client::mount(&image).unwrap();
        assert_eq!(client.get("kept").unwrap(), [5; 50_000]);
        client.end().unwrap();
        image.check();
    }
}

/// Images of which anything was changed: errors, at worst a panic of the library, which is the end of a server. Nothing hangs.
#[test]
fn damaged_images_are_refused_or_read() {
    if !has_tools() {
        return;
    }
    let image = Image::make("damaged", 8, &["-O", "^metadata_csum"]);
    let mut client = Client::mount(&image).unwrap();
    client.mkdir("d", 0o755).unwrap();
    (0..50).for_each(|n| client.put(&format!("d/{n}"), &[1; 5000]).unwrap());
    client.end().unwrap();
    let whole = std::fs::read(&image.path).unwrap();
    let mut panics = 0;
    std::panic::set_hook(Box::new(|_| {}));
    let rounds = 400;
    for seed in 0..rounds {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut bytes = whole.clone();
        for _ in 0..random.usize(1..30) {
            // Mostly where the structures are.
            let most = if random.bool() { 400 * 1024 } else { bytes.len() };
            let at = random.usize(1024..most);
            bytes[at] = random.u8(..);
        }
        let used = std::panic::catch_unwind(|| {
            let Ok(mut client) = Client::over(bytes) else { return };
            let _ = client.list("");
            let _ = client.list("d");
            for n in 0..50 {
                let _ = client.get(&format!("d/{n}"));
                let _ = client.put(&format!("d/new{n}"), &[2; 5000]);
                let _ = client.unlink(&format!("d/{n}"));
            }
            let _ = client.end();
        });
        panics += u32::from(used.is_err());
    }
    let _ = std::panic::take_hook();
    eprintln!("{panics} panics in {rounds} damaged images");
    assert_eq!(panics, 0);
}

/// Runs a tool; its status and what it has said.
fn run(command: &mut Command) -> (i32, String) {
    let path = format!("{}:/sbin:/usr/sbin", std::env::var("PATH").unwrap_or_default());
    let output = command.env("PATH", path).output().expect("the tool runs");
    let text = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&text).into_owned())
}

/// The disk itself is read and written in any pieces, unless it is mounted.
#[test]
fn the_disk_is_a_file() {
    if !has_tools() {
        return;
    }
    let image = Image::make("whole", 8, &[]);
    let mut client = Client::mount(&image).unwrap();
    assert_eq!(client.write_disk(0, b"x"), Err(16));
    client.end().unwrap();
    let before = client.read_disk(4000, 1000).unwrap();
    assert_eq!(client.write_disk(4093, b"pieces"), Ok(6));
    let after = client.read_disk(4000, 1000).unwrap();
    assert_eq!(
        (&after[..93], &after[93..99], &after[99..]),
        (&before[..93], &b"pieces"[..], &before[99..])
    );
    let end = 8 << 20;
    assert_eq!(client.write_disk(end - 2, b"end"), Ok(2));
    assert_eq!(client.read_disk(end - 2, 10).unwrap(), b"en");
    assert_eq!(client.write_disk(end, b"end"), Err(28));
    assert_eq!(client.read_disk(end + 5, 10).unwrap(), b"");
}
