//! `tmpfiles.d`: folders, files and links that a system makes when it starts, as packages ask for them; among them the
//! sockets' folders of servers, which belong to these.
//!
//! Of the kinds of lines there are `d` and its relatives (a folder), `f` (a file) and `L` (a link); what is to be deleted,
//! or to have attributes that files do not have here, is left out, as is what is for one boot only.

use std::path::Path;
use std::{fs, io};

/// Where a system's packages have them.
const FOLDER: &str = "usr/lib/tmpfiles.d";

#[derive(Debug, PartialEq)]
pub enum Kind {
    Folder,
    File(String),
    Link(String),
}

/// A line.
#[derive(Debug, PartialEq)]
pub struct Wanted {
    pub kind: Kind,
    /// Without the first slash.
    pub path: String,
    /// `None`: as is usual.
    pub permissions: Option<u32>,
    pub uid: u32,
    pub gid: u32,
}

/// What the packages of a root ask for, what is above first.
///
/// # Errors
/// A file is there, and cannot be read.
pub fn wanted(root: &Path) -> io::Result<Vec<Wanted>> {
    let read = |path: &str| fs::read_to_string(root.join(path)).unwrap_or_default();
    let names = Names { users: read("etc/passwd"), groups: read("etc/group") };
    let Ok(folder) = fs::read_dir(root.join(FOLDER)) else { return Ok(Vec::new()) };
    let mut all = Vec::new();
    for file in folder {
        let path = file?.path();
        if path.extension().is_some_and(|end| end == "conf") {
            let text = fs::read_to_string(path)?;
            all.extend(text.lines().filter_map(|line| names.line(line)));
        }
    }
    all.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(all)
}

/// Names of users and groups, as in `/etc/passwd` and `/etc/group`.
struct Names {
    users: String,
    groups: String,
}

impl Names {
    /// TYPE PATH MODE USER GROUP AGE ARGUMENT; `None` if it asks for nothing that is made.
    fn line(&self, line: &str) -> Option<Wanted> {
        let mut words = line.split_whitespace();
        let (kind, path) = (words.next()?, words.next()?);
        let mut word = || words.next().filter(|word| *word != "-");
        let (mode, user, group) = (word(), word(), word());
        let _age = word();
        let argument = words.collect::<Vec<_>>().join(" ");
        // Signs that say how else a line is to be taken, for what is made anew all the same.
        let kind = match kind.trim_end_matches(['+', '-', '=', '~']) {
            "d" | "D" | "v" | "q" | "Q" => Kind::Folder,
            "f" | "F" => Kind::File(argument.replace("\\n", "\n")),
            "L" => Kind::Link(argument),
            // Comments, too, and what is in a credential (^), of which there are none.
            _ => return None,
        };
        // What systemd would have to put in (%b and the like) is left out.
        let path = path.strip_prefix('/').filter(|path| !path.contains('%'))?.trim_end_matches('/');
        let permissions = match mode {
            Some(mode) => Some(u32::from_str_radix(mode.trim_start_matches([':', '~']), 8).ok()?),
            None => None,
        };
        Some(Wanted {
            kind,
            path: path.into(),
            permissions,
            uid: id(&self.users, user)?,
            gid: id(&self.groups, group)?,
        })
    }
}

/// The third column of the line that begins with a name, or the name itself if it is a number; none is root's.
fn id(table: &str, name: Option<&str>) -> Option<u32> {
    let Some(name) = name.map(|name| name.trim_start_matches(':')) else { return Some(0) };
    let row = table.lines().find(|line| line.split(':').next() == Some(name));
    row.and_then(|row| row.split(':').nth(2)).unwrap_or(name).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let names = Names {
            users: "root:x:0:0::/:\npostgres:x:100:101::/:\n".into(),
            groups: "root:x:0:\npostgres:x:101:\n".into(),
        };
        let folder = names.line("d /run/postgresql/ 2775 postgres postgres - -").unwrap();
        assert_eq!(folder.kind, Kind::Folder);
        assert_eq!(folder.path, "run/postgresql");
        assert_eq!((folder.permissions, folder.uid, folder.gid), (Some(0o2775), 100, 101));
        let link = names.line("L+ /etc/mtab - - - - ../proc/self/mounts").unwrap();
        assert_eq!(link.kind, Kind::Link("../proc/self/mounts".into()));
        assert_eq!((link.permissions, link.uid), (None, 0));
        let file = names.line("f /run/motd 0644 7 - - one two").unwrap();
        assert_eq!((file.kind, file.uid), (Kind::File("one two".into()), 7));
        for line in [
            "# d /x",
            "",
            "r! /etc/lock",
            "d /run/%b",
            "d /run/x 9 - -",
            "d /x - nobody -",
            "f^ /etc/hosts - - - - network.hosts",
        ] {
            assert_eq!(names.line(line), None, "{line}");
        }
    }
}
