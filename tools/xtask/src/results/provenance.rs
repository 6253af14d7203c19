//! Where and with what something was measured.

use crate::machine::{MachineOptions, QEMU};
use crate::project::Project;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;
use std::process::Command;

/// What must be known to measure the same again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Provenance {
    /// The emulator, its processor, cores and memory, and for times the processor that it ran on.
    pub machine: String,
    /// The commit that was measured, with `-dirty` if files differed from it.
    pub commit: String,
}

impl Provenance {
    /// Of measurements in the emulator.
    pub fn emulated(project: &Project, options: &MachineOptions, kvm: bool) -> Provenance {
        let version = first_line(Command::new(QEMU).arg("--version"));
        let version = version.split_whitespace().skip_while(|word| *word != "version").nth(1);
        let accelerator = if kvm { "KVM" } else { "TCG" };
        let mut machine = format!(
            "QEMU {} {accelerator}, {} core{}, {} MiB",
            version.unwrap_or("?"),
            options.cores,
            if options.cores == 1 { "" } else { "s" },
            options.mem.mib
        );
        // Counts are the same wherever the emulator runs; times are not.
        machine += &match options.icount {
            true => ", icount".to_owned(),
            false => format!(", on {}", processor()),
        };
        Provenance { machine, commit: commit(&project.root) }
    }

    /// Of measurements on the machine that runs the emulator, without it.
    pub fn host(project: &Project) -> Provenance {
        Provenance { machine: processor(), commit: commit(&project.root) }
    }
}

/// The name that the processor of this machine gives itself.
fn processor() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let named = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    named.map_or("an unknown processor".to_owned(), |(_, name)| name.trim().to_owned())
}

fn commit(root: &Path) -> String {
    let git =
        |arguments: &[&str]| first_line(Command::new("git").current_dir(root).args(arguments));
    let short = git(&["rev-parse", "--short", "HEAD"]);
    let changed = git(&["status", "--porcelain", "--untracked-files=no"]);
    match (short.as_str(), changed.as_str()) {
        ("", _) => "unknown".to_owned(),
        (short, "") => short.to_owned(),
        (short, _) => format!("{short}-dirty"),
    }
}

/// What the command prints first; nothing if it fails.
fn first_line(command: &mut Command) -> String {
    let output = command.output().ok().filter(|output| output.status.success());
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    text.unwrap_or_default().lines().next().unwrap_or_default().trim().to_owned()
}
