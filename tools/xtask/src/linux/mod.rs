//! Linux in the same emulator: the peer that Tessera is compared with.
//!
//! The kernel is Debian's ([`package`]); the root file system is the one of the Tessera image, made
//! into an initramfs ([`initramfs`]); the machine is the same to the last option. `docs/compare.md`
//! says what each word of the command line is for.

mod initramfs;
mod package;

use crate::image::Image;
use crate::machine::{Boot, MachineOptions};
use crate::project::Project;
use crate::rootfs::RootImage;
use anyhow::{Context, Result};
use std::fs;
use std::path::PathBuf;

/// Where our first program is, out of the way of `ls /`.
const INIT: &str = "/run/.init";

/// Debian's newest 6.1 cloud kernel.
pub const NEWEST: &str = "newest";

/// Whether Linux may use transparent huge pages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum HugePages {
    Always,
    Never,
}

/// What a machine may have that its kernel has as modules.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Driver {
    /// For pages.
    Disk,
    Network,
}

/// A Linux kernel that can be booted, and the first program for it.
pub struct Linux {
    kernel: PathBuf,
    init: PathBuf,
    /// Of which its modules are.
    package: String,
}

impl Linux {
    /// The kernel of a Debian package (or [`NEWEST`]), which is downloaded if it is not there yet.
    pub fn find(project: &Project, package: &str) -> Result<Linux> {
        let kernel = package::kernel(project, package)?;
        let init = crate::compare::harness(project, "init")?;
        Ok(Linux { kernel, init, package: package.to_owned() })
    }

    /// A boot with the files of a Tessera image and of its root, and the file that it needs.
    pub fn boot(
        &self,
        project: &Project,
        (image, root): (&Image, Option<&RootImage>),
        huge_pages: HugePages,
        options: &MachineOptions,
    ) -> Result<(Boot, Image)> {
        let drivers = [
            options.swap.as_ref().map(|_| Driver::Disk),
            options.net.is_some().then_some(Driver::Network),
        ];
        let drivers: Vec<Driver> = drivers.into_iter().flatten().collect();
        let modules = package::modules(project, &self.package, &drivers);
        let modules = modules.with_context(|| format!("no {drivers:?} for Linux"))?;
        let initramfs = initramfs::from_image(
            project,
            image,
            root,
            (&self.init, &modules, options.swap.is_some()),
        )?;
        // The archive, and what is unpacked of it.
        options.check_memory(&initramfs.file, fs::metadata(&initramfs.file)?.len() >> 20)?;
        let mut boot = Boot::new(project, &initramfs.file, options)?;
        boot.kernel = self.kernel.clone();
        boot.command_line = command_line(huge_pages);
        if let Some(disk) = &boot.swap {
            disk.format()?;
        }
        Ok((boot, initramfs))
    }
}

/// Everything off that Tessera does not do, and every layout fixed.
fn command_line(huge_pages: HugePages) -> String {
    let huge_pages = match huge_pages {
        HugePages::Always => "always",
        HugePages::Never => "never",
    };
    format!(
        "rdinit={INIT} console=ttyS1 quiet panic=-1 mitigations=off init_on_alloc=0 audit=0 tsc=reliable \
         nokaslr norandmaps randomize_kstack_offset=off no5lvl cgroup_disable=memory \
         hardened_usercopy=off transparent_hugepage={huge_pages}"
    )
}
