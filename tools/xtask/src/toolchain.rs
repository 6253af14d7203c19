//! Cargo, as the bare-metal programs need it: with rustup's ready-made `core`, or, where rustup
//! cannot fetch that, with Debian's compiler building `core` from source.

use crate::project::{Project, BARE_METAL};
use crate::setup;
use anyhow::{bail, ensure, Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

/// The two kinds of bare-metal programs. Each has its own target folder, since all its
/// dependencies are compiled with other flags.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Part {
    /// Linked into the top 2 GiB.
    Kernel,
    /// Linked anywhere in the lower half.
    User,
}

/// What is built besides the usual.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Variant {
    Plain,
    /// With places for the probes of the function trace.
    Traced,
    /// A kernel that counts the instructions of its events; all else is as usual.
    Counted,
    /// A kernel without a direct map of the memory of programs; all else is as usual.
    Cached,
    /// One that keeps no mapping of such memory, either: what the other is compared with.
    Uncached,
}

impl Variant {
    /// Where what is built goes.
    pub fn target_folder(self, part: Part) -> &'static str {
        match (self, part) {
            (Variant::Plain, Part::Kernel) => "target/kernel",
            (Variant::Traced, Part::User) => "target/traced/user",
            (_, Part::User) => "target/user",
            (Variant::Cached, Part::Kernel) => "target/cached/kernel",
            (Variant::Uncached, Part::Kernel) => "target/uncached/kernel",
            (Variant::Counted, Part::Kernel) => "target/counted/kernel",
            (Variant::Traced, Part::Kernel) => "target/traced/kernel",
        }
    }

    /// The linker is told to keep the code of the probes, which nothing names before the tool
    /// patches calls of it into the image.
    fn flags(self) -> &'static str {
        match self {
            Variant::Plain => "",
            Variant::Counted => " --cfg tessera_events",
            Variant::Cached => " --cfg tessera_map_cache",
            Variant::Uncached => " --cfg tessera_map_cache --cfg tessera_map_uncached",
            Variant::Traced => {
                " --cfg tessera_trace -Z instrument-xray=always -C link-arg=--undefined=trace_probe"
            }
        }
    }
}

impl Part {
    /// Position-independent code reaches its own data wherever it is linked, which the small model's
    /// absolute addresses do not; the executable itself has a fixed address and no relocations.
    fn flags(self) -> &'static str {
        match self {
            Part::Kernel => "-C relocation-model=static -C code-model=kernel",
            Part::User => "-C relocation-model=pic -C code-model=small -C link-arg=--no-pie",
        }
    }
}

/// Which compiler makes bare-metal code.
#[derive(Clone, Copy, PartialEq)]
enum Compiler {
    /// The one in the path, which has the target.
    Path,
    /// Debian's, with the library's source.
    Debian,
}

impl Compiler {
    fn rustc(self) -> &'static str {
        match self {
            Compiler::Path => "rustc",
            Compiler::Debian => "/usr/bin/rustc",
        }
    }
}

/// `cargo COMMAND` for bare-metal packages of `part`.
pub fn bare_metal(
    project: &Project,
    command: &str,
    part: Part,
    variant: Variant,
) -> Result<Command> {
    let compiler = match variant {
        Variant::Traced => compiler_with_source()?,
        _ => compiler()?,
    };
    let mut cargo = host_with(compiler);
    let linker = match compiler {
        Compiler::Path => "",
        Compiler::Debian => " -C linker=ld.lld",
    };
    // Machine code that is there several times, for types of one layout, is there once: the archive with the programs is in memory for good. A
    // trace is to name functions as they are called.
    let folding = match (part, variant) {
        (Part::Kernel, _) | (_, Variant::Traced) => "",
        (Part::User, _) => " -C link-arg=--icf=all",
    };
    // Warnings are for `./x check`; who only wants to run a program need not see them.
    let warnings = if command == "build" { " -A warnings" } else { "" };
    cargo
        .current_dir(&project.root)
        .arg(command)
        .arg("--release")
        .arg("--target-dir")
        .arg(project.path(variant.target_folder(part)))
        .env(
            "RUSTFLAGS",
            format!("{}{}{linker}{folding}{warnings}", part.flags(), variant.flags()),
        );
    match variant {
        Variant::Traced => {
            cargo.arg("-Zjson-target-spec").arg("--target").arg(traced_target(project, compiler)?)
        }
        _ => cargo.args(["--target", BARE_METAL]),
    };
    if compiler == Compiler::Debian || variant == Variant::Traced {
        cargo.env("RUSTC_BOOTSTRAP", "1").args([
            "-Zbuild-std=core,alloc,compiler_builtins",
            "-Zbuild-std-features=compiler-builtins-mem",
        ]);
    }
    Ok(cargo)
}

/// A description of the bare-metal target that lets the compiler keep places for probes free, which
/// it has for every x86-64 but allows only where it knows of a library for them. (Decision 12.)
fn traced_target(project: &Project, compiler: Compiler) -> Result<PathBuf> {
    let mut rustc = Command::new(compiler.rustc());
    rustc.env("RUSTC_BOOTSTRAP", "1").args(["-Zunstable-options", "--print=target-spec-json"]);
    let output = rustc.args(["--target", BARE_METAL]).stdin(Stdio::null()).output()?;
    ensure!(output.status.success(), "{} does not describe {BARE_METAL}", compiler.rustc());
    let mut target: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    target["supports-xray"] = true.into();
    let folder = project.path("target/traced");
    // Cargo names the target after the file.
    let file = folder.join(format!("{BARE_METAL}.json"));
    let text = serde_json::to_string_pretty(&target)?;
    if !fs::read_to_string(&file).is_ok_and(|old| old == text) {
        fs::create_dir_all(&folder)
            .and_then(|()| fs::write(&file, text))
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(file)
}

/// `cargo` for the host's own packages.
pub fn host(project: &Project) -> Command {
    let mut cargo = match runs("cargo") {
        true => host_with(Compiler::Path),
        false => host_with(Compiler::Debian),
    };
    cargo.current_dir(&project.root);
    cargo
}

fn host_with(compiler: Compiler) -> Command {
    match compiler {
        Compiler::Path => Command::new("cargo"),
        Compiler::Debian => {
            let mut cargo = Command::new("/usr/bin/cargo");
            cargo.env("RUSTC", "/usr/bin/rustc").env("RUSTDOC", "/usr/bin/rustdoc");
            cargo
        }
    }
}

/// Can bare-metal code be compiled with what is there?
pub fn is_ready() -> bool {
    runs("rustc") && has_target("rustc") || has_debian() && setup::in_path("ld.lld")
}

/// Is Debian's compiler there, with the source of its library?
fn has_debian() -> bool {
    Path::new("/usr/bin/cargo").exists() && source_of("/usr/bin/rustc")
}

/// A compiler that was looked for, and had. Whoever looks for it meanwhile waits.
struct Found(Mutex<Option<Compiler>>);

impl Found {
    const fn nothing() -> Found {
        Found(Mutex::new(None))
    }

    /// What was found before, or what `find` finds now: what it installs and says, it does so once.
    fn or(&self, find: impl FnOnce() -> Result<Compiler>) -> Result<Compiler> {
        let mut found = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if found.is_none() {
            *found = Some(find()?);
        }
        found.context("no compiler")
    }
}

fn compiler() -> Result<Compiler> {
    static FOUND: Found = Found::nothing();
    FOUND.or(find_compiler)
}

fn find_compiler() -> Result<Compiler> {
    if runs("rustc") && has_target("rustc") {
        return Ok(Compiler::Path);
    }
    // Once it has been installed, rustup need not be asked again for what it could not fetch.
    if runs("rustup") && !has_debian() {
        setup::announce(BARE_METAL, "rustup's library for programs without an operating system");
        let added = Command::new("timeout")
            .args(["120", "rustup", "target", "add", BARE_METAL])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        if added.is_ok_and(|status| status.success()) && has_target("rustc") {
            return Ok(Compiler::Path);
        }
    }
    debian()
}

/// A compiler with the source of its library.
fn compiler_with_source() -> Result<Compiler> {
    static FOUND: Found = Found::nothing();
    FOUND.or(find_compiler_with_source)
}

fn find_compiler_with_source() -> Result<Compiler> {
    // Debian's, which may be the one in the path, has no linker of its own.
    if runs("rustc") && source_of("rustc") && has_linker("rustc") {
        return Ok(Compiler::Path);
    }
    if runs("rustup") && !has_debian() {
        setup::announce("rust-src", "the source of Rust's library, to build it with probes");
        let mut rustup = Command::new("timeout");
        rustup.args(["300", "rustup", "component", "add", "rust-src"]);
        let output = rustup.stdin(Stdio::null()).output();
        if output.is_ok_and(|output| output.status.success()) && source_of("rustc") {
            return Ok(Compiler::Path);
        }
    }
    debian()
}

fn debian() -> Result<Compiler> {
    setup::packages(
        &["rustc-web", "cargo-web", "rust-web-src"],
        "Debian's Rust and its library's source, because rustup's library could not be had",
        has_debian,
    )?;
    setup::packages(&["lld"], "the linker for Debian's Rust", || setup::in_path("ld.lld"))?;
    Ok(Compiler::Debian)
}

/// Makes `cargo fmt` and `cargo clippy` work.
pub fn check_tools() -> Result<()> {
    let present = || runs("rustfmt") && runs("cargo-clippy");
    if !present() && runs("rustup") {
        setup::announce("rustfmt and clippy", "rustup's tools for the checks");
        let mut rustup = Command::new("timeout");
        rustup.args(["300", "rustup", "component", "add", "rustfmt", "clippy"]);
        let output = rustup.stdin(Stdio::null()).output();
        if output.is_ok_and(|output| output.status.success()) && present() {
            return Ok(());
        }
    }
    setup::packages(&["rustfmt-web", "rust-web-clippy"], "Debian's tools for the checks", present)
}

fn runs(program: &str) -> bool {
    Command::new(program)
        .arg("-V")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

fn library(rustc: &str) -> Option<std::path::PathBuf> {
    let output = Command::new(rustc).args(["--print", "sysroot"]).output().ok()?;
    let sysroot = String::from_utf8(output.stdout).ok()?;
    Some(Path::new(sysroot.trim()).join("lib/rustlib"))
}

fn has_target(rustc: &str) -> bool {
    library(rustc).is_some_and(|library| library.join(BARE_METAL).join("lib").is_dir())
}

/// Has it what the target's description names as the linker?
fn has_linker(rustc: &str) -> bool {
    let Some(library) = library(rustc) else { return false };
    let hosts = fs::read_dir(library).into_iter().flatten().flatten();
    hosts.into_iter().any(|host| host.path().join("bin/rust-lld").is_file())
}

fn source_of(rustc: &str) -> bool {
    library(rustc).is_some_and(|library| library.join("src/rust/library/core").is_dir())
}

/// Runs a command whose output is for people; an error names what failed.
pub fn succeed(mut command: Command, what: &str) -> Result<()> {
    let status = command
        .stdin(Stdio::null())
        .status()
        .with_context(|| format!("cannot start {}", command.get_program().to_string_lossy()))?;
    if !status.success() {
        bail!("{what} failed ({status})");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compiler_is_looked_for_once() {
        let found = Found::nothing();
        assert!(found.or(|| bail!("there is none")).is_err());
        assert!(found.or(|| Ok(Compiler::Debian)).unwrap() == Compiler::Debian);
        assert!(found.or(|| panic!("looked for again")).unwrap() == Compiler::Debian);
    }
}
