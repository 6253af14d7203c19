//! What a dynamic program of this machine needs beside itself: its dynamic linker and its libraries, as that
//! linker itself finds them here.

use crate::elf;
use crate::image::Addition;
use anyhow::{bail, ensure, Context, Result};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// All of it, each to the place where it is here. Nothing for a static program.
///
/// # Errors
/// It is no program that can run, or something that it needs is not here.
pub fn needs(program: &Path) -> Result<Vec<Addition>> {
    let name = program.display();
    let data = fs::read(program).with_context(|| format!("{name}"))?;
    let linker = elf::check(&data).map_err(|problem| anyhow::anyhow!("{name} {problem}"))?;
    let Some(linker) = linker else { return Ok(Vec::new()) };
    ensure!(
        Path::new(&linker).is_file(),
        "{name} is dynamically linked and needs the interpreter {linker}, which is not on this machine"
    );
    // Its search knows the cache and the folders of this machine, and runs nothing of the program.
    let output = Command::new(&linker)
        .arg("--list")
        .arg(program)
        .env_remove("LD_PRELOAD")
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start {linker}"))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        bail!("{name} needs libraries that are not on this machine: {}", complaint.trim());
    }
    let mut all = vec![addition(&linker)];
    for library in said.lines().filter_map(library) {
        let path = library.with_context(|| format!("{name} needs libraries: {}", said.trim()))?;
        if !all.iter().any(|known| known.guest == path) && Path::new(path).is_file() {
            all.push(addition(path));
        }
    }
    Ok(all)
}

fn addition(path: &str) -> Addition {
    Addition { host: path.into(), guest: path.into() }
}

/// The file of a line such as `libc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x…)`; `None` if the line names none,
/// and an error if it is not there.
fn library(line: &str) -> Option<Result<&str>> {
    let (_, place) = line.split_once(" => ")?;
    if place.trim() == "not found" {
        return Some(Err(anyhow::anyhow!("{}", line.trim())));
    }
    let path = place.rsplit_once(" (").map_or(place, |(path, _)| path);
    // musl's linker says `ldd` of itself.
    path.starts_with('/').then_some(Ok(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_linker() {
        let path = |line| library(line).map(|found| found.unwrap().to_owned());
        assert_eq!(path("\tlinux-vdso.so.1 (0x00007fff)"), None);
        assert_eq!(
            path("\tlibm.so.6 => /lib/libm.so.6 (0x00007f)").as_deref(),
            Some("/lib/libm.so.6")
        );
        assert_eq!(path("\tlibc.musl-x86_64.so.1 => ldd (0x7f)"), None);
        assert!(library("\tlibx.so.1 => not found").unwrap().is_err());
    }

    #[test]
    fn this_program_needs_its_c_library() {
        // Not by `/proc/self`: the one who looks is the linker.
        let all = needs(&std::env::current_exe().unwrap()).unwrap();
        assert!(all.iter().any(|it| it.guest.contains("/libc.so")), "{all:?}");
    }
}
