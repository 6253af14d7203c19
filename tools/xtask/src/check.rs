//! `./x check` and `./x doc`: formatting, imports between folders, what the book names, lints and documentation of every
//! package.

use crate::compile::{for_all, packages};
use crate::project::Project;
use crate::toolchain::{bare_metal, check_tools, host, succeed, Part, Variant};
use crate::{book, layers, links, tables};
use anyhow::Result;
use std::process::Command;

/// Libraries for the machine itself.
const LIBRARIES: [&str; 4] = ["drivers", "libos", "linuxdomain", "tessera"];

/// Stops at the first thing that is not in order.
pub fn check(project: &Project) -> Result<()> {
    check_tools()?;
    let mut format = host(project);
    format.args(["fmt", "--all", "--check"]);
    step(format, "the check of the formatting (./x check; cargo fmt --all mends it)")?;
    layers::check(&project.root)?;
    links::check(&project.root)?;
    book::check(&project.root)?;
    tables::check(&project.root)?;
    let mut reference = host(project);
    reference.args(["test", "--quiet", "--package", "captypes", "--test", "reference"]);
    step(reference, "the reference of the capabilities (docs/capabilities.md)")?;
    let mut clippy = host(project);
    clippy.args(["clippy", "--quiet", "--all-targets", "--", "-D", "warnings"]);
    step(clippy, "clippy")?;
    let mut clippy = host(project);
    clippy.args([
        "clippy",
        "--quiet",
        "--package",
        "xtask",
        "--no-default-features",
        "--",
        "-D",
        "warnings",
    ]);
    step(clippy, "clippy for the small helper")?;
    let packages = packages(project)?;
    for part in [Part::Kernel, Part::User] {
        if let Some(mut clippy) = for_all(project, &packages, "clippy", part)? {
            clippy.args(["--quiet", "--", "-D", "warnings"]);
            step(clippy, "clippy for the bare-metal packages")?;
        }
    }
    document(project)
}

/// Fails on links that lead nowhere.
pub fn document(project: &Project) -> Result<()> {
    let mut doc = host(project);
    doc.args(["doc", "--quiet", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings");
    step(doc, "the documentation")?;
    let packages = packages(project)?;
    for part in [Part::Kernel, Part::User] {
        if let Some(mut doc) = for_all(project, &packages, "doc", part)? {
            doc.args(["--quiet", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings");
            step(doc, "the documentation of the bare-metal packages")?;
        }
    }
    // Programs name them, but no program is them.
    let mut doc = bare_metal(project, "doc", Part::User, Variant::Plain)?;
    doc.args(LIBRARIES.iter().flat_map(|name| ["--package", name]));
    doc.args(["--quiet", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings");
    step(doc, "the documentation of the libraries")
}

fn step(command: Command, what: &str) -> Result<()> {
    succeed(command, what)
}
