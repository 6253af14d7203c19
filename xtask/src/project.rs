//! Where things are.

use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

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
            None => Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("/")).into(),
        };
        let project = Project { root };
        std::fs::create_dir_all(project.state())
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

    pub fn kernel(&self) -> PathBuf {
        self.path("target/kernel").join(BARE_METAL).join("release/kernel")
    }

    /// The executable of a package that runs in user mode.
    pub fn user_program(&self, name: &str) -> PathBuf {
        self.path("target/user").join(BARE_METAL).join("release").join(name)
    }

    /// The log of the last boot that was not a test.
    pub fn kernel_log(&self) -> PathBuf {
        self.state().join("kernel.log")
    }
}
