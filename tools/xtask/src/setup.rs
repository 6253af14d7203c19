//! Installs what is missing, and says so in one line.

use anyhow::{bail, ensure, Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

/// Says on standard error what is about to be installed, and why.
pub fn announce(what: &str, why: &str) {
    eprintln!("x: installing {what} ({why})");
}

/// Where `program` is, if it is in the path.
pub fn find_in_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}

pub fn in_path(program: &str) -> bool {
    find_in_path(program).is_some()
}

pub fn qemu() -> Result<()> {
    let present = || in_path(crate::machine::QEMU);
    packages(&["qemu-system-x86"], "the emulated machine", present)
}

/// Where a statically linked busybox is, if there is one.
pub fn find_busybox() -> Option<PathBuf> {
    ["/bin/busybox", "/usr/bin/busybox", "/usr/local/bin/busybox", "/sbin/busybox.static"]
        .map(PathBuf::from)
        .into_iter()
        .find(|file| is_static(file))
}

/// A statically linked busybox; where it is.
pub fn busybox() -> Result<PathBuf> {
    let present = || find_busybox().is_some();
    packages(&["busybox-static"], "the shell and tools of the image", present)?;
    match find_busybox() {
        Some(file) => Ok(file),
        None => bail!("there is no statically linked busybox in /bin or /usr/bin"),
    }
}

/// A C compiler for static programs.
pub fn c_compiler() -> Result<()> {
    packages(&["gcc", "libc6-dev"], "compiles C programs for the guest", || {
        in_path("gcc") && Path::new("/usr/include/stdio.h").exists()
    })
}

/// The same with another C library.
pub fn musl_compiler() -> Result<()> {
    packages(&["musl-tools"], "compiles C programs for the guest with another library", || {
        in_path("musl-gcc")
    })
}

/// What the tests need besides: C compilers for static programs, tools for disks, and a second shell.
pub fn test_tools() -> Result<()> {
    c_compiler()?;
    musl_compiler()?;
    packages(&["e2fsprogs"], "makes and checks the file systems of disks", || {
        ["/sbin", "/usr/sbin"].iter().any(|folder| Path::new(folder).join("mkfs.ext4").exists())
    })?;
    packages(&["bash-static"], "a shell that busybox's is compared with", || in_path("bash-static"))
}

fn is_static(file: &Path) -> bool {
    std::fs::read(file).is_ok_and(|data| crate::elf::check(&data) == Ok(None))
}

/// Installs Debian packages unless `present` says that there is nothing to do.
pub fn packages(names: &[&str], why: &str, present: impl Fn() -> bool) -> Result<()> {
    if present() {
        return Ok(());
    }
    let list = names.join(" ");
    if !in_path("apt-get") {
        bail!("please install {list} ({why}) by your system's own means");
    }
    announce(&list, why);
    if !apt_get("install", names) {
        apt_get("update", &[]);
        if !apt_get("install", names) {
            bail!("apt-get could not install {list}; it says why in: apt-get install {list}");
        }
    }
    match present() {
        true => Ok(()),
        false => bail!("{list} did not bring what is needed ({why})"),
    }
}

/// Debian's `package`, downloaded and unpacked to a folder in `parent`, but not installed; where that is.
pub fn unpacked(parent: &Path, package: &str, why: &str) -> Result<PathBuf> {
    // Whoever comes second in this call finds what the first has fetched.
    static FETCHING: Mutex<()> = Mutex::new(());
    let _one = FETCHING.lock().unwrap_or_else(PoisonError::into_inner);
    let (folder, scratch) = (parent.join(package), parent.join(format!("{package}.new")));
    if folder.exists() {
        return Ok(folder);
    }
    ensure!(in_path("apt-get"), "{package} comes from Debian's packages; there is no apt here");
    announce(package, &format!("{why}; unpacked only"));
    if scratch.exists() {
        fs::remove_dir_all(&scratch)?;
    }
    fs::create_dir_all(&scratch)?;
    if !download(&scratch, package)? {
        apt_get("update", &[]);
        ensure!(download(&scratch, package)?, "apt-get download {package}");
    }
    let archives = fs::read_dir(&scratch)?.map(|entry| Ok(entry?.path()));
    let archives = archives.collect::<Result<Vec<_>>>()?;
    let archive = archives.iter().find(|file| file.extension().is_some_and(|it| it == "deb"));
    let archive = archive.context("no package came")?;
    let unpacked = Command::new("dpkg-deb").arg("-x").arg(archive).arg(&scratch).status()?;
    ensure!(unpacked.success(), "{} cannot be unpacked", archive.display());
    fs::rename(&scratch, &folder)?;
    Ok(folder)
}

fn download(folder: &Path, package: &str) -> Result<bool> {
    let output = Command::new("timeout")
        .args(["120", "apt-get", "-q", "download", package])
        .current_dir(folder)
        .output()
        .context("cannot start apt-get")?;
    Ok(output.status.success())
}

/// Runs `apt-get ACTION NAMES` as root, in silence; whether it succeeded.
pub fn apt_get(action: &str, names: &[&str]) -> bool {
    let root = rustix::process::geteuid().is_root();
    let mut command = Command::new(if root { "env" } else { "sudo" });
    if !root {
        command.arg("env");
    }
    command.args(["DEBIAN_FRONTEND=noninteractive", "apt-get", "-y", "-q", action]);
    if action == "install" {
        // Another call of this tool may be installing something.
        command.args(["--no-install-recommends", "-o", "DPkg::Lock::Timeout=300"]).args(names);
    }
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}
