//! PostMark: Debian's package, unmodified. It is a dynamic program, and is started by naming the loader.

use crate::image::Addition;
use crate::project::Project;
use crate::setup;
use crate::testing::tracers::libraries;
use anyhow::{bail, Result};
use std::fs;
use std::path::Path;

/// Where it is in the guest.
pub(super) const PROGRAM: &str = "/usr/bin/postmark";

/// A configuration of the paper; file sizes (500 bytes to 9.77 KB) and blocks (512 bytes) are the program's own.
#[derive(Clone, Copy)]
pub(super) struct Configuration {
    pub files: u32,
    pub transactions: u32,
}

/// The three that the paper runs.
pub(super) const CONFIGURATIONS: [Configuration; 3] = [
    Configuration { files: 1000, transactions: 50_000 },
    Configuration { files: 20_000, transactions: 50_000 },
    Configuration { files: 20_000, transactions: 100_000 },
];

impl Configuration {
    /// So many times smaller.
    pub(super) fn divided(self, by: u32) -> Configuration {
        Configuration { files: (self.files / by).max(1), transactions: self.transactions / by }
    }

    /// What it is told.
    pub(super) fn commands(self) -> String {
        let Configuration { files, transactions } = self;
        format!(
            "set location /tmp\nset number {files}\nset transactions {transactions}\nrun\nquit\n"
        )
    }
}

/// Fetched, if it was not yet, with its libraries: to be put into the guest.
pub(super) fn additions(project: &Project) -> Result<Vec<Addition>> {
    let folder = setup::unpacked(&project.state(), "postmark", "the benchmark of the same name")?;
    let program = folder.join(PROGRAM.trim_start_matches('/'));
    if !program.exists() {
        bail!("the package has no {PROGRAM}");
    }
    let mut all = vec![Addition { host: program.clone(), guest: PROGRAM.into() }];
    for library in libraries(&program)? {
        let guest = library.display().to_string();
        all.push(Addition { host: library, guest });
    }
    Ok(all)
}

/// A file with what it is told.
pub(super) fn orders(folder: &Path, name: &str, orders: Configuration) -> Result<Addition> {
    let host = folder.join(name);
    fs::write(&host, orders.commands())?;
    Ok(Addition { host, guest: format!("/root/{name}") })
}

/// The megabytes that it says to have read and written.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub(super) struct Moved {
    pub read: f64,
    pub written: f64,
}

impl Moved {
    /// Reads one of its lines, such as `1.36 megabytes read (1.36 megabytes per second)`.
    pub(super) fn note(&mut self, line: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [value, unit, what, ..] = words[..] else { return };
        let each = match unit {
            "bytes" => 1e-6,
            "kilobytes" => 1e-3,
            "megabytes" => 1.0,
            _ => return,
        };
        let Ok(value) = value.parse::<f64>() else { return };
        match what {
            "read" => self.read = value * each,
            "written" => self.written = value * each,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_report_is_understood() {
        let mut moved = Moved::default();
        for line in [
            "\t243 read (243 per second)",
            "\t1.36 megabytes read (1.36 megabytes per second)",
            "\t450.00 kilobytes written (450.00 kilobytes per second)",
        ] {
            moved.note(line);
        }
        assert_eq!(moved, Moved { read: 1.36, written: 0.45 });
    }
}
