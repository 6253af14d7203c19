//! Where things are.

use crate::toolchain::{Part, Variant};
use anyhow::{Context, Result};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// The target of everything that runs inside the machine.
pub const BARE_METAL: &str = "x86_64-unknown-none";

/// The working copy.
#[derive(Clone)]
pub struct Project {
    pub root: PathBuf,
}

impl Project {
    /// The one that `./x` belongs to.
    pub fn find() -> Result<Project> {
        let root = match std::env::var_os("TESSERA_ROOT") {
            Some(root) => PathBuf::from(root),
            None => Path::new(env!("CARGO_MANIFEST_DIR"))
                .ancestors()
                .nth(2)
                .unwrap_or(Path::new("/"))
                .into(),
        };
        let project = Project { root };
        fs::create_dir_all(project.state())
            .with_context(|| format!("cannot create {}", project.state().display()))?;
        Ok(project)
    }

    pub fn path(&self, relative: &str) -> PathBuf {
        self.root.join(relative)
    }

    /// Images, logs and what the tool remembers between two calls.
    pub fn state(&self) -> PathBuf {
        self.path("target/tessera")
    }

    pub fn kernel(&self, variant: Variant) -> PathBuf {
        self.released(Part::Kernel, variant).join("kernel")
    }

    fn released(&self, part: Part, variant: Variant) -> PathBuf {
        self.path(variant.target_folder(part)).join(BARE_METAL).join("release")
    }

    /// The executable of a package that runs in user mode.
    pub fn user_program(&self, name: &str, variant: Variant) -> PathBuf {
        self.released(Part::User, variant).join(name)
    }

    /// A new log for one boot of several in one call; those of the last few calls are kept.
    pub fn new_system_log(&self, system: &str) -> Result<PathBuf> {
        let logs = self.state().join("runs");
        fs::create_dir_all(&logs).with_context(|| format!("cannot create {}", logs.display()))?;
        remove_old_logs(&logs);
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Ok(logs.join(format!("{}.{number}.{system}.log", std::process::id())))
    }

    /// A new log for a boot that is not a test. `kernel.log` becomes a link to it; the logs of the
    /// last few calls of this tool are kept.
    pub fn new_kernel_log(&self) -> Result<PathBuf> {
        let logs = self.state().join("runs");
        fs::create_dir_all(&logs).with_context(|| format!("cannot create {}", logs.display()))?;
        remove_old_logs(&logs);
        let name = format!("{}.log", std::process::id());
        // Renamed, so that of two calls at the same time neither finds no link or one in its way.
        let link = logs.join(format!("{}.link", std::process::id()));
        let _ = fs::remove_file(&link);
        symlink(Path::new("runs").join(&name), &link)
            .and_then(|()| fs::rename(&link, self.state().join("kernel.log")))
            .with_context(|| format!("cannot write {}", self.state().display()))?;
        Ok(logs.join(name))
    }
}

/// Deletes the logs of calls that have ended, but for the newest.
fn remove_old_logs(folder: &Path) {
    const KEPT: usize = 10;
    let Ok(folder) = fs::read_dir(folder) else { return };
    let ended = |path: &Path| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let pid = name.split('.').next().unwrap_or_default();
        !Path::new("/proc").join(pid).exists()
    };
    let mut old: Vec<_> = folder
        .flatten()
        .filter(|file| ended(&file.path()))
        .map(|file| (file.metadata().and_then(|metadata| metadata.modified()).ok(), file.path()))
        .collect();
    old.sort();
    for (_, log) in old.iter().rev().skip(KEPT) {
        // Another call may do this at the same time.
        let _ = fs::remove_file(log);
    }
}
