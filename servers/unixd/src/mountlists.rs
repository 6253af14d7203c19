//! The tables of what is mounted: `mounts`, `mountinfo`, `mountstats`.

use crate::nodes::{Node, Tree};
use crate::volumes::{flag, Kind, Spot, Standing, Volume};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;
use mounttable::Follows;
use mounttable::Mount;

/// A mount as a process sees it.
struct Line<'a> {
    mount: &'a Mount<Node, Volume>,
    place: String,
}

/// A path as these tables have it: what would end a word is a number.
fn escaped(path: &[u8]) -> String {
    let mut text = Vec::new();
    for &byte in path {
        match byte {
            b' ' | b'\t' | b'\n' | b'\\' | b'#' => {
                text.extend(format!("\\{byte:03o}").into_bytes())
            }
            _ => text.push(byte),
        }
    }
    String::from_utf8_lossy(&text).into_owned()
}

fn source(volume: &Volume) -> String {
    match volume.source.is_empty() {
        true => String::from("none"),
        false => escaped(&volume.source),
    }
}

/// What is said of a mount itself.
fn own_options(flags: u32) -> String {
    let mut text = String::from(if flags & flag::RDONLY != 0 { "ro" } else { "rw" });
    for (bit, name) in [
        (flag::NOSUID, ",nosuid"),
        (flag::NODEV, ",nodev"),
        (flag::NOEXEC, ",noexec"),
        (flag::NOATIME, ",noatime"),
        (flag::NODIRATIME, ",nodiratime"),
        (flag::RELATIME, ",relatime"),
    ] {
        if flags & bit != 0 {
            text.push_str(name);
        }
    }
    text
}

/// What is said of what it shows.
fn options(tree: &Tree, volume: &Volume) -> String {
    let mut text = String::new();
    match volume.kind {
        Kind::Tmpfs(number, top) => {
            let names = tree.files().names();
            let ram = crate::caps::memory().1;
            let usual = ram / 4096 / 2;
            if let Some(found) = names.volume(number) {
                if found.pages_limit != usual && found.pages_limit != u64::MAX {
                    put!(text, ",size={}k", found.pages_limit * 4);
                }
                if found.inodes_limit != usual && found.inodes_limit != u64::MAX {
                    put!(text, ",nr_inodes={}", found.inodes_limit);
                }
            }
            if let Ok(inode) = names.get(top) {
                if inode.mode != 0o1777 {
                    put!(text, ",mode={:03o}", inode.mode);
                }
                for (name, id) in [("uid", inode.uid), ("gid", inode.gid)] {
                    if id != 0 {
                        put!(text, ",{name}={id}");
                    }
                }
            }
        }
        Kind::Pmem => text.push_str(",dax=always"),
        Kind::Host => text.push_str(",trans=virtio,version=9p2000.L"),
        Kind::Devpts => text.push_str(",mode=620,ptmxmode=000"),
        Kind::Root | Kind::Proc | Kind::Sys | Kind::Mqueue | Kind::Disk(_) => {}
    }
    text
}

fn lines<'a>(tree: &'a Tree, stands: &Standing) -> Vec<Line<'a>> {
    let mut lines = Vec::new();
    for id in tree.mounts().in_space(stands.space) {
        let Ok(mount) = tree.mounts().get(id) else { continue };
        let spot = Spot { mount: id, node: mount.root };
        let Ok(path) = tree.path_of(spot, stands.root) else { continue };
        // What the process cannot get to is not there for it.
        if path.first() == Some(&b'/') {
            lines.push(Line { mount, place: escaped(&path) });
        }
    }
    lines
}

/// The text of `mounts`.
pub fn mounts(tree: &Tree, stands: &Standing) -> String {
    let mut text = String::new();
    for Line { mount, place } in lines(tree, stands) {
        let volume = &mount.volume;
        let whole = if volume.read_only.get() { flag::RDONLY } else { 0 };
        put_line!(
            text,
            "{} {place} {} {}{} 0 0",
            source(volume),
            volume.kind_name(),
            own_options(mount.flags | whole),
            options(tree, volume)
        );
    }
    text
}

/// How a mount follows others, as the optional fields of `mountinfo` say it.
fn followed(follows: &Follows) -> String {
    let mut text = String::new();
    let Follows { group, master, is_unbindable } = *follows;
    for (name, number) in [("shared", group), ("master", master)] {
        if number != 0 {
            text += &format!(" {name}:{number}");
        }
    }
    if is_unbindable {
        text += " unbindable";
    }
    text
}

/// The text of `mountinfo`.
pub fn mount_info(tree: &Tree, stands: &Standing) -> String {
    let mut text = String::new();
    for Line { mount, place } in lines(tree, stands) {
        let volume = &mount.volume;
        let above = mount.at.and_then(|(above, _)| tree.mounts().get(above).ok());
        let above = above.map_or(1, |above| above.number);
        let (major, minor) =
            (volume.device >> 8 & 0xfff, volume.device & 0xff | volume.device >> 12 & !0xff);
        put_line!(
            text,
            "{} {above} {major}:{minor} {} {place} {}{} - {} {} {}{}",
            mount.number,
            escaped(&tree.path_in_volume(mount.root, volume)),
            own_options(mount.flags),
            followed(&mount.follows),
            volume.kind_name(),
            source(volume),
            if volume.read_only.get() { "ro" } else { "rw" },
            options(tree, volume)
        );
    }
    text
}

/// The text of `mountstats`.
pub fn mount_stats(tree: &Tree, stands: &Standing) -> String {
    let mut text = String::new();
    for Line { mount, place } in lines(tree, stands) {
        let volume = &mount.volume;
        put_line!(
            text,
            "device {} mounted on {place} with fstype {}",
            source(volume),
            volume.kind_name()
        );
    }
    text
}
