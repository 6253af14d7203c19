//! Debian's kernel package: found with apt, downloaded and unpacked, never installed.

use super::{Driver, NEWEST};
use crate::project::Project;
use crate::setup;
use anyhow::{bail, ensure, Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

/// Linux 6.1 is the kernel of Debian 12, with support until 2028.
const SERIES: &str = "linux-image-6.1.";
const FLAVOUR: &str = "-cloud-amd64";

/// What its kernel has as modules and needs for a device of the emulator's, in the order in which they are loaded, from the folder of all drivers on.
const BUS: [&str; 5] = [
    "virtio/virtio_ring.ko",
    "virtio/virtio.ko",
    "virtio/virtio_pci_modern_dev.ko",
    "virtio/virtio_pci_legacy_dev.ko",
    "virtio/virtio_pci.ko",
];
const DISK: [&str; 1] = ["block/virtio_blk.ko"];
const NETWORK: [&str; 3] = ["../net/core/failover.ko", "net/net_failover.ko", "net/virtio_net.ko"];

/// Seconds that apt may take.
const PATIENCE: &str = "120";

/// The kernel of `package` ([`NEWEST`] stands for the newest one of the series), from the last time
/// or downloaded now.
pub fn kernel(project: &Project, package: &str) -> Result<PathBuf> {
    find(project, package, &[])
}

/// The modules that drive devices, in the order in which they are loaded.
pub fn modules(project: &Project, package: &str, drivers: &[Driver]) -> Result<Vec<PathBuf>> {
    let own = |driver: &Driver| match driver {
        Driver::Disk => &DISK[..],
        Driver::Network => &NETWORK[..],
    };
    let bus = if drivers.is_empty() { &[][..] } else { &BUS[..] };
    let all = bus.iter().chain(drivers.iter().flat_map(own));
    let names: Vec<_> = all.map(|path| PathBuf::from("modules").join(name_of(path))).collect();
    let kernel = find(project, package, &names)?;
    Ok(names.iter().map(|name| kernel.with_file_name(name)).collect())
}

fn name_of(module: &str) -> &str {
    module.rsplit('/').next().unwrap_or(module)
}

/// The kernel, with these files beside it.
fn find(project: &Project, package: &str, beside: &[PathBuf]) -> Result<PathBuf> {
    let folder = project.state().join("linux").join(package);
    let kernel = folder.join("vmlinuz");
    let is_there = || kernel.exists() && beside.iter().all(|file| folder.join(file).exists());
    if is_there() {
        return Ok(kernel);
    }
    ensure!(
        setup::in_path("apt-get") && setup::in_path("dpkg-deb"),
        "there is no Linux kernel to compare with: it comes from Debian's packages, and this system \
         has no apt; put a kernel image at {}",
        kernel.display()
    );
    // Whoever comes second in this call finds what the first has fetched.
    static FETCHING: Mutex<()> = Mutex::new(());
    let _one = FETCHING.lock().unwrap_or_else(PoisonError::into_inner);
    if is_there() {
        return Ok(kernel);
    }
    eprintln!(
        "x: downloading Debian's Linux kernel to compare with (it is unpacked, not installed)"
    );
    let scratch = Scratch::new(&project.state())?;
    fetch(package, &scratch.0, &folder, &kernel)
        .with_context(|| format!("no Linux kernel to compare with ({package})"))?;
    Ok(kernel)
}

/// An empty folder that nobody else uses, neither another call nor another thread of this one; gone when
/// dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new(parent: &Path) -> Result<Scratch> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = parent.join(format!("linux.{}.{number}", std::process::id()));
        fs::create_dir_all(parent)
            .and_then(|()| fs::create_dir(&folder))
            .with_context(|| format!("cannot make {}", folder.display()))?;
        Ok(Scratch(folder))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn fetch(package: &str, scratch: &Path, folder: &Path, kernel: &Path) -> Result<()> {
    let unpacked = scratch.join("unpacked");
    fs::create_dir_all(&unpacked)?;
    let archive = match download(package, scratch) {
        Ok(archive) => archive,
        // The lists may be missing or old; but what they do not know needs no second look.
        Err(_) if package == NEWEST || newest().is_err() => {
            setup::apt_get("update", &[]);
            download(package, scratch)?
        }
        Err(error) => return Err(error),
    };
    let unpack = Command::new("dpkg-deb").arg("-x").arg(&archive).arg(&unpacked).output()?;
    let complaint = String::from_utf8_lossy(&unpack.stderr).into_owned();
    ensure!(unpack.status.success(), "{} cannot be unpacked: {complaint}", archive.display());
    let image = only_file(&unpacked.join("boot"), "vmlinuz-")?;
    fs::create_dir_all(folder.join("modules"))?;
    let drivers = only_file(&unpacked.join("lib/modules"), "")?.join("kernel/drivers");
    for module in BUS.iter().chain(&DISK).chain(&NETWORK) {
        // A kernel that has it built in has no such file, and needs none.
        let (from, to) = (drivers.join(module), folder.join("modules").join(name_of(module)));
        match from.exists() {
            true => fs::rename(from, to)?,
            false => fs::write(to, [])?,
        }
    }
    fs::rename(image, kernel)?;
    Ok(())
}

/// Downloads the package to `folder`; where it is.
fn download(package: &str, folder: &Path) -> Result<PathBuf> {
    let name = match package {
        NEWEST => newest()?,
        _ => package.to_owned(),
    };
    let output = Command::new("timeout")
        .args([PATIENCE, "apt-get", "-q", "-o", "Acquire::http::Timeout=20", "download", &name])
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .context("cannot start apt-get")?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    let reason =
        complaint.lines().find(|line| line.starts_with("E:")).unwrap_or("it took too long");
    ensure!(output.status.success(), "apt-get download {name}: {reason}");
    only_file(folder, "linux-image-")
}

/// The package with the highest numbers.
fn newest() -> Result<String> {
    let output = Command::new("apt-cache").args(["pkgnames", SERIES]).output()?;
    let names = String::from_utf8(output.stdout)?;
    match newest_of(names.lines()) {
        Some(name) => Ok(name.to_owned()),
        None => bail!("apt knows no package {SERIES}*{FLAVOUR}; it is Debian 12's"),
    }
}

fn newest_of<'a>(names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let numbers = |name: &str| -> Vec<u32> {
        name.split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse().ok()).collect()
    };
    names.filter(|name| name.ends_with(FLAVOUR)).max_by_key(|name| numbers(name))
}

fn only_file(folder: &Path, prefix: &str) -> Result<PathBuf> {
    let entries = fs::read_dir(folder).with_context(|| format!("{}", folder.display()))?;
    let mut files =
        entries.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix));
    let file = files.next().with_context(|| format!("the package has no {prefix}*"))?;
    Ok(file.path())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_at_once_do_not_share_a_folder() {
        let parent = std::env::temp_dir().join(format!("tessera-scratch.{}", std::process::id()));
        let first = Scratch::new(&parent).unwrap();
        let second = Scratch::new(&parent).unwrap();
        fs::write(second.0.join("archive"), "second").unwrap();
        assert_ne!(first.0, second.0);
        drop(first);
        assert_eq!(fs::read_to_string(second.0.join("archive")).unwrap(), "second");
        drop(second);
        assert_eq!(fs::read_dir(&parent).unwrap().count(), 0);
        fs::remove_dir(parent).unwrap();
    }

    #[test]
    fn newest_by_number() {
        let names = [
            "linux-image-6.1.0-9-cloud-amd64",
            "linux-image-6.1.0-56-cloud-amd64-unsigned",
            "linux-image-6.1.0-48-cloud-amd64",
            "linux-image-6.1.0-56-amd64",
        ];
        assert_eq!(newest_of(names.into_iter()), Some("linux-image-6.1.0-48-cloud-amd64"));
        assert_eq!(newest_of(std::iter::empty()), None);
    }
}
