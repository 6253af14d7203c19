//! Cargo, as the bare-metal programs need it: with rustup's ready-made `core`, or, where rustup
//! cannot fetch that, with Debian's compiler building `core` from source.

use crate::project::{Project, BARE_METAL};
use crate::setup;
use anyhow::{bail, Context, Result};
use std::path::Path;
use std::process::{Command, Stdio};

/// Flags for both; what differs is in [`Part`].
const COMMON: &str = "-C force-frame-pointers=yes";

/// The two kinds of bare-metal programs. Each has its own target folder, since all its
/// dependencies are compiled with other flags.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Part {
    /// Linked into the top 2 GiB.
    Kernel,
    /// Linked anywhere in the lower half.
    User,
}

impl Part {
    pub fn target_folder(self) -> &'static str {
        match self {
            Part::Kernel => "target/kernel",
            Part::User => "target/user",
        }
    }

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

/// `cargo COMMAND` for bare-metal packages of `part`.
pub fn bare_metal(project: &Project, command: &str, part: Part) -> Result<Command> {
    let compiler = compiler()?;
    let mut cargo = host_with(compiler);
    let linker = match compiler {
        Compiler::Path => "",
        Compiler::Debian => " -C linker=ld.lld",
    };
    // Warnings are for `./x check`; who only wants to run a program need not see them.
    let warnings = if command == "build" { " -A warnings" } else { "" };
    cargo
        .current_dir(&project.root)
        .arg(command)
        .args(["--release", "--target", BARE_METAL])
        .arg("--target-dir")
        .arg(project.path(part.target_folder()))
        .env("RUSTFLAGS", format!("{COMMON} {}{linker}{warnings}", part.flags()));
    if compiler == Compiler::Debian {
        cargo.env("RUSTC_BOOTSTRAP", "1").args([
            "-Zbuild-std=core,alloc,compiler_builtins",
            "-Zbuild-std-features=compiler-builtins-mem",
        ]);
    }
    Ok(cargo)
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

fn compiler() -> Result<Compiler> {
    if runs("rustc") && has_target("rustc") {
        return Ok(Compiler::Path);
    }
    if runs("rustup") {
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
    setup::packages(
        &["rustc-web", "cargo-web", "rust-web-src"],
        "Debian's Rust and its library's source, because rustup's library could not be had",
        || Path::new("/usr/bin/cargo").exists() && source_of("/usr/bin/rustc"),
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
