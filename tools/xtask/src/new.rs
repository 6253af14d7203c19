//! `./x new`: a package outside this repository that makes a native program.

use crate::project::Project;
use anyhow::{bail, ensure, Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Make a folder with a native program of your own: its source, tests, and all that cargo has to know
///
/// `cargo run --release` there builds the program and runs it on Tessera; `cargo unit` runs the tests of its library on
/// this machine. docs/native-programs.md says what a native program can do.
#[derive(clap::Args, Debug)]
pub struct NewOptions {
    /// The folder; its last name is the program's
    #[arg(value_name = "PATH")]
    path: PathBuf,
}

/// Its files, and where they go. Words between @ are filled in.
const FILES: [(&str, &str); 6] = [
    ("Cargo.toml", include_str!("../template/Cargo.toml.in")),
    (".cargo/config.toml", include_str!("../template/cargo/config.toml.in")),
    (".gitignore", "/target\n"),
    ("README.md", include_str!("../template/README.md.in")),
    ("src/lib.rs", include_str!("../template/src/lib.rs.in")),
    ("src/main.rs", include_str!("../template/src/main.rs.in")),
];

/// Does it.
pub fn new(project: &Project, options: &NewOptions) -> Result<i32> {
    let folder = &options.path;
    let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    check_name(name)?;
    ensure!(!folder.exists(), "{} is there already", folder.display());
    let root = fs::canonicalize(&project.root)?;
    let root = root.to_str().context("the path of this repository is no text")?;
    // It ends up in strings of TOML.
    ensure!(!root.contains(['"', '\\']), "cargo cannot be told of {root}: rename that folder");
    let (crate_name, host) = (name.replace('-', "_"), host_target()?);
    for (file, text) in FILES {
        let text = text
            .replace("@NAME@", name)
            .replace("@CRATE@", &crate_name)
            .replace("@HOST@", &host)
            .replace("@ROOT@", root);
        write(&folder.join(file), &text)?;
    }
    println!("{} is there. Try:\n", folder.display());
    println!("    cd {}\n    cargo run --release\n    cargo unit", folder.display());
    Ok(0)
}

/// What cargo takes for the name of a package, a program and a crate.
fn check_name(name: &str) -> Result<()> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic());
    if !begins || !name.chars().all(is_plain) {
        bail!(
            "{name:?} is no name for a program: letters, digits, - and _, beginning with a letter"
        );
    }
    let taken = ["tessera", "core", "alloc", "std", "test", "main"];
    ensure!(!taken.contains(&name), "{name} is the name of something else");
    Ok(())
}

/// The target of this machine's own programs.
fn host_target() -> Result<String> {
    let output = Command::new("rustc").arg("-vV").output().context("cannot run rustc")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc does not say what it compiles for")?.to_owned())
}

fn write(file: &Path, text: &str) -> Result<()> {
    let folder = file.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(file, text))
        .with_context(|| format!("cannot write {}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for good in ["a", "my-prog_2"] {
            assert!(check_name(good).is_ok(), "{good}");
        }
        for bad in ["", "2x", "-x", "a b", "a/b", "tessera", "ä"] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
    }
}
