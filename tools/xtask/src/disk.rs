//! Disks of the emulated machine: files of this one, `./x run --disk FILE`.

use crate::nvdimm::with_commas;
use anyhow::{bail, ensure, Context, Result};
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};

/// Most disks of a machine.
const MOST: usize = 4;
/// A disk has whole sectors.
const SECTOR: u64 = 512;

/// What a user says of one: `FILE[:ro]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Wish {
    file: PathBuf,
    read_only: bool,
}

/// Takes an option apart.
pub fn parse(text: &str) -> Result<Wish> {
    let (file, read_only) = match text.strip_suffix(":ro") {
        // A file may be called so.
        Some(_) if Path::new(text).is_file() => (text, false),
        Some(file) => (file, true),
        None => (text, false),
    };
    ensure!(!file.is_empty(), "the name of a file is missing");
    Ok(Wish { file: file.into(), read_only })
}

/// A file as a disk, of this machine alone as long as this lives, unless it is only read.
pub struct Disk {
    path: PathBuf,
    read_only: bool,
    _lock: File,
}

impl Disk {
    /// Opens the files.
    pub fn open_all(wishes: &[Wish]) -> Result<Vec<Disk>> {
        ensure!(wishes.len() <= MOST, "a machine has at most {MOST} disks");
        wishes.iter().map(Disk::open).collect()
    }

    fn open(wish: &Wish) -> Result<Disk> {
        let named = || format!("--disk {}", wish.file.display());
        let what = fs::metadata(&wish.file).with_context(named)?;
        ensure!(what.is_file(), "{}: this is no regular file", named());
        let bytes = what.len();
        ensure!(
            bytes >= SECTOR,
            "{}: it is empty; truncate -s 64M makes room, mkfs.ext4 a file system",
            named()
        );
        ensure!(bytes.is_multiple_of(SECTOR), "{}: its size is no multiple of {SECTOR}", named());
        let open = OpenOptions::new().read(true).write(!wish.read_only).open(&wish.file);
        let lock = open.with_context(named)?;
        let is_free = if wish.read_only { lock.try_lock_shared() } else { lock.try_lock() };
        // A file system without locks has none.
        if let Err(fs::TryLockError::WouldBlock) = is_free {
            bail!("{}: another machine has it", named());
        }
        let path = std::path::absolute(&wish.file).with_context(named)?;
        Ok(Disk { path, read_only: wish.read_only, _lock: lock })
    }
}

/// Words of the kernel's command line.
pub fn command_line(disks: &[Disk]) -> String {
    match disks.len() {
        0 => String::new(),
        count => format!(" disks={count}"),
    }
}

/// The emulator's options. `iommu`: there is one. `rules`: of errors, for `blkdebug`.
pub fn arguments(disks: &[Disk], iommu: bool, rules: Option<&Path>) -> Vec<OsString> {
    let mut arguments = Vec::new();
    for (number, disk) in disks.iter().enumerate() {
        // The lock is taken here, and the emulator's own would be in its way.
        let mut drive = OsString::from(format!(
            "if=none,id=disk{number},format=raw,cache=writeback,file.locking=off"
        ));
        if disk.read_only {
            drive.push(",readonly=on");
        }
        match rules {
            None => drive.push(",file.driver=file,file.filename="),
            Some(rules) => {
                drive = OsString::from(format!(
                    "if=none,id=disk{number},format=raw,file.driver=blkdebug,file.config="
                ));
                drive.push(with_commas(rules));
                drive.push(",file.image.driver=file,file.image.filename=");
            }
        }
        drive.push(with_commas(&disk.path));
        // Else a device of this kind goes round the IOMMU.
        let platform = if iommu { ",iommu_platform=on" } else { "" };
        let device = format!(
            "virtio-blk-pci,drive=disk{number},disable-legacy=on,vectors=1{platform},werror=report,rerror=report"
        );
        arguments.extend(["-drive".into(), drive, "-device".into(), device.into()]);
    }
    arguments
}
