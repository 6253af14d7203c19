//! `./x doctor`: what is there, what is missing, and whether it works.

use crate::kvm::{self, Kvm};
use crate::machine::QEMU;
use crate::project::Project;
use crate::{setup, toolchain};
use anyhow::Result;
use std::fmt::{self, Display};
use std::path::Path;
use std::process::{Command, Stdio};

/// What was found out about one thing.
enum Found {
    Good(String),
    /// Not there; whoever needs it installs it.
    Installable(String),
    /// Nothing runs without it, and this tool cannot install it here.
    Bad(String),
    /// Things run without it, but not as well.
    Worse(String),
}

impl Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let (word, text) = match self {
            Found::Good(text) => ("ok", text),
            Found::Installable(text) => ("missing", text),
            Found::Bad(text) => ("PROBLEM", text),
            Found::Worse(text) => ("note", text),
        };
        write!(f, "{word:<8}{text}")
    }
}

/// Prints all of it; 0 if programs can be run, else 1. Installs nothing.
pub fn doctor(project: &Project) -> Result<i32> {
    let all = [
        rust(),
        linker(),
        qemu(),
        accelerator(project),
        busybox(),
        tool("gcc", "C programs for the guest: ./x test, compare", "gcc"),
        tool("musl-gcc", "the same with another library: ./x test", "musl-tools"),
        tool("bash-static", "bash in the guest: ./x test", "bash-static"),
        tool("gdb", "./x run --gdb", "gdb"),
        room(project),
    ];
    all.iter().for_each(|found| println!("{found}"));
    let is_bad = all.iter().any(|found| matches!(found, Found::Bad(_)));
    println!(
        "{}",
        match is_bad {
            true => "./x run will not work before that is solved",
            false => "./x run works, or installs what is missing",
        }
    );
    Ok(i32::from(is_bad))
}

/// The first line that a program prints.
fn first_line(program: &str, argument: &str) -> Option<String> {
    let output = Command::new(program).arg(argument).stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().next().filter(|_| output.status.success()).map(str::to_owned)
}

/// What is missing, where packages can be installed or not.
fn missing(what: &str, packages: &str) -> Found {
    match setup::in_path("apt-get") {
        true => Found::Installable(format!("{what}: ./x installs {packages} when it is needed")),
        false => Found::Bad(format!("{what} is missing: install {packages}")),
    }
}

fn rust() -> Found {
    let version = first_line("rustc", "-V").or_else(|| first_line("/usr/bin/rustc", "-V"));
    match (version, toolchain::is_ready()) {
        (Some(version), true) => Found::Good(format!("{version}, for bare metal too")),
        (Some(version), false) => Found::Installable(format!(
            "the library of {version} for bare metal: ./x asks rustup, or installs Debian's compiler"
        )),
        (None, _) => missing("Rust", "Debian's rustc-web, cargo-web and rust-web-src"),
    }
}

fn linker() -> Found {
    match first_line("cc", "--version") {
        Some(version) => Found::Good(format!("{version} links what runs here")),
        None => missing("a C compiler, which Rust needs as linker", "gcc and libc6-dev"),
    }
}

fn qemu() -> Found {
    match first_line(QEMU, "--version") {
        Some(version) => Found::Good(version),
        None => missing("QEMU", "qemu-system-x86"),
    }
}

fn accelerator(project: &Project) -> Found {
    let slower = "the emulator interprets instructions (TCG), which is slower";
    match kvm::examine(project) {
        Kvm::Works => Found::Good("KVM: a guest ran on this machine's processor".into()),
        Kvm::Absent => Found::Worse(format!("KVM: there is no /dev/kvm; {slower}")),
        Kvm::Forbidden => Found::Worse(format!(
            "KVM: /dev/kvm may not be opened; join its group (kvm, mostly). Else {slower}"
        )),
        Kvm::Broken => Found::Worse(format!(
            "KVM: /dev/kvm is there, but a guest on it did not run (a virtual machine without nested \
             virtualisation?); {slower}"
        )),
        Kvm::Untried => Found::Worse("KVM: /dev/kvm is there; without QEMU it was not tried".into()),
    }
}

fn busybox() -> Found {
    match setup::find_busybox() {
        Some(file) => {
            Found::Good(format!("{}, static: the shell and tools of the guest", file.display()))
        }
        None => missing("a static busybox, the shell and tools of the guest", "busybox-static"),
    }
}

/// Something that only some commands need.
fn tool(program: &str, what: &str, package: &str) -> Found {
    match setup::find_in_path(program) {
        Some(file) => Found::Good(format!("{} ({what})", file.display())),
        None if program == "gdb" => {
            Found::Worse(format!("{program} ({what}): install it yourself"))
        }
        None => Found::Installable(format!(
            "{program} ({what}): ./x installs {package} when it is needed"
        )),
    }
}

/// Room for what is built, and memory for the machine.
fn room(project: &Project) -> Found {
    const NEEDED: u64 = 2 << 30;
    let free = free_bytes(&project.root);
    let text = format!("{:.1} GB free for what is built", free as f64 / 1e9);
    match free >= NEEDED {
        true => Found::Good(text),
        false => Found::Worse(format!("{text}, of 2 GB that all of it takes")),
    }
}

fn free_bytes(path: &Path) -> u64 {
    rustix::fs::statvfs(path).map_or(0, |stat| stat.f_bavail * stat.f_frsize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_found_is_said_in_a_line() {
        assert_eq!(Found::Good("x".into()).to_string(), "ok      x");
        assert_eq!(Found::Bad("x".into()).to_string(), "PROBLEM x");
        assert!(first_line("sh", "-c").is_none());
        assert!(free_bytes(Path::new("/")) > 0);
    }
}
