//! A folder of this machine inside the emulated one: `./x run --share DIR`.
//!
//! The emulator serves it by 9P, as the user who runs it. What is made belongs to that user, whoever made it inside: so it needs no
//! rights, and leaves nothing that its owner cannot remove.

use crate::nvdimm::with_commas;
use anyhow::{bail, ensure, Context, Result};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

/// What a user says of it: `DIR[:ro]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Wish {
    folder: PathBuf,
    read_only: bool,
}

/// Takes an option apart.
pub fn parse(text: &str) -> Result<Wish> {
    let (folder, read_only) = match text.strip_suffix(":ro") {
        // A folder may be called so.
        Some(_) if Path::new(text).is_dir() => (text, false),
        Some(folder) => (folder, true),
        None => (text, false),
    };
    ensure!(!folder.is_empty(), "the name of a folder is missing");
    Ok(Wish { folder: folder.into(), read_only })
}

/// A folder that is there.
pub struct Folder {
    path: PathBuf,
    read_only: bool,
}

impl Folder {
    /// Finds the folder.
    pub fn open(wish: &Wish) -> Result<Folder> {
        let named = || format!("--share {}", wish.folder.display());
        let path = fs::canonicalize(&wish.folder).with_context(named)?;
        ensure!(path.is_dir(), "{}: this is not a folder", named());
        if fs::read_dir(&path).is_err() {
            bail!("{}: it cannot be read", named());
        }
        Ok(Folder { path, read_only: wish.read_only })
    }

    /// Words of the kernel's command line.
    pub fn command_line(&self) -> String {
        let how = if self.read_only { "ro" } else { "rw" };
        let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
        format!(" share={how} share_uid={} share_gid={}", uid.as_raw(), gid.as_raw())
    }

    /// The emulator's options. `iommu`: there is one.
    pub fn arguments(&self, iommu: bool) -> Vec<OsString> {
        let mut backend = OsString::from("local,id=share,security_model=none,multidevs=remap");
        if self.read_only {
            backend.push(",readonly=on");
        }
        backend.push(",path=");
        backend.push(with_commas(&self.path));
        // Else a device of this kind goes round the IOMMU.
        let platform = if iommu { ",iommu_platform=on" } else { "" };
        let device = format!(
            "virtio-9p-pci,fsdev=share,mount_tag=share,disable-legacy=on,vectors=1{platform}"
        );
        vec!["-fsdev".into(), backend, "-device".into(), device.into()]
    }
}
