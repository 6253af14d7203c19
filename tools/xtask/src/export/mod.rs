//! `--out`: files of the guest that are copied out when the session is over.

mod below;
mod receive;

use crate::program::{guest_path, WORKING_DIRECTORY};
use anyhow::{bail, ensure, Result};
use exportproto::glob::is_pattern;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

pub use receive::receive;

/// `GUEST[:HOST]` of `--out`.
#[derive(Clone, Debug, PartialEq)]
pub struct Export {
    /// As it was asked for.
    text: String,
    /// The pattern: an absolute path in the guest.
    pattern: String,
    /// Where it goes.
    place: Place,
}

/// Where what a pattern stands for goes.
#[derive(Clone, Debug, PartialEq)]
enum Place {
    /// To the same path below the present folder as it has below the guest's.
    SamePath,
    /// Under its own name into this folder.
    Into(PathBuf),
    /// To be this file or folder.
    As(PathBuf),
}

/// Reads `GUEST[:HOST]`.
pub fn parse(text: &str) -> Result<Export> {
    let (guest, host) = match text.split_once(':') {
        Some((guest, host)) => (guest, Some(host)),
        None => (text, None),
    };
    ensure!(!guest.is_empty(), "--out {text}: it needs a path in the guest");
    ensure!(!text.contains('\0'), "--out {text:?}: a path has no NUL");
    let pattern = guest_path(guest);
    ensure!(pattern != "/", "--out {text}: not everything can be copied; name a folder");
    let is_inside =
        pattern.strip_prefix(WORKING_DIRECTORY).is_some_and(|rest| rest.starts_with('/'));
    let place = match host {
        Some("") => bail!("--out {text}: behind the colon comes a place on this machine"),
        Some(host) => place(text, host, is_pattern(guest.as_bytes()))?,
        None if is_inside && !guest.starts_with('/') => Place::SamePath,
        None => Place::Into(".".into()),
    };
    Ok(Export { text: text.to_owned(), pattern, place })
}

/// As `cp` has it: into a folder, or to be what is named.
fn place(text: &str, host: &str, several: bool) -> Result<Place> {
    let path = Path::new(host);
    let found = path.symlink_metadata().ok();
    if several || host.ends_with('/') || path.file_name().is_none() {
        let is_folder = match path.metadata() {
            Ok(metadata) => metadata.is_dir(),
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        };
        ensure!(is_folder, "--out {text}: {host} is not a folder");
        return Ok(Place::Into(path.to_owned()));
    }
    match found {
        Some(found) if found.is_dir() => Ok(Place::Into(path.to_owned())),
        // The guest may have made it, in an earlier run.
        Some(found) if found.is_symlink() && path.is_dir() => {
            bail!("--out {text}: {host} is a symbolic link; to follow it, say {host}/")
        }
        _ => Ok(Place::As(path.to_owned())),
    }
}

/// The contents of [`exportproto::WANTED`].
pub fn encode(exports: &[Export]) -> Vec<u8> {
    exports.iter().flat_map(|export| export.pattern.bytes().chain([0])).collect()
}

impl Export {
    /// The folder that something of the guest goes to, and its names below; `None`: that is nothing that was
    /// asked for.
    fn place_of(&self, path: &[u8]) -> Option<(&Path, Vec<Vec<u8>>)> {
        let names: Vec<Vec<u8>> =
            exportproto::names(path.strip_prefix(b"/")?)?.map(<[u8]>::to_vec).collect();
        if !exportproto::glob::matches_path(self.pattern.as_bytes(), path) {
            return None;
        }
        let last = names.last()?.clone();
        Some(match &self.place {
            Place::SamePath => {
                let below = path.strip_prefix(WORKING_DIRECTORY.as_bytes())?.strip_prefix(b"/")?;
                let names = exportproto::names(below)?.map(<[u8]>::to_vec).collect();
                (Path::new("."), names)
            }
            Place::Into(folder) => (folder, vec![last]),
            Place::As(path) => {
                let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
                let name = path.file_name()?.as_bytes().to_vec();
                (folder.unwrap_or(Path::new(".")), vec![name])
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(text: &str, path: &str) -> Option<(String, String)> {
        let export = parse(text).unwrap();
        let (folder, names) = export.place_of(path.as_bytes())?;
        let names = String::from_utf8(names.join(&b'/')).unwrap();
        Some((folder.to_str().unwrap().to_owned(), names))
    }

    #[test]
    fn what_was_asked_for_has_a_place() {
        let cases = [
            ("a.csv", "/root/a.csv", ".", "a.csv"),
            ("out/a b.csv", "/root/out/a b.csv", ".", "out/a b.csv"),
            ("out/*.csv", "/root/out/x.csv", ".", "out/x.csv"),
            ("/tmp/log", "/tmp/log", ".", "log"),
            ("/root/out/a", "/root/out/a", ".", "a"),
            ("../tmp/log", "/tmp/log", ".", "log"),
            (".", "/root", ".", "root"),
            ("a:nonesuch/b", "/root/a", "nonesuch", "b"),
            ("a:b", "/root/a", ".", "b"),
            ("a:nonesuch/", "/root/a", "nonesuch/", "a"),
            ("/tmp/*:nonesuch", "/tmp/x", "nonesuch", "x"),
            ("a:..", "/root/a", "..", "a"),
        ];
        for (text, path, folder, names) in cases {
            let expected = Some((folder.to_owned(), names.to_owned()));
            assert_eq!(placed(text, path), expected, "{text}");
        }
    }

    #[test]
    fn what_was_not_asked_for_has_none() {
        for (text, path) in [
            ("*.csv", "/root/.profile"),
            ("*.csv", "/root/../x.csv"),
            ("*.csv", "/root/a/x.csv"),
            ("*", "/root/.."),
            ("a", "/etc/a"),
            ("a", "a"),
            ("a", "/root/a/"),
            ("a:b", "/root/c"),
        ] {
            assert_eq!(placed(text, path), None, "{text} {path}");
        }
    }

    #[test]
    fn wrong_ones_are_refused() {
        for wrong in ["", ":x", "a:", "/", "..", "a:/dev/null/"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
