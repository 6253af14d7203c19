//! An initramfs with the files of a Tessera image.

use super::INIT;
use crate::cpio::{members, Archive};
use crate::image::Image;
use crate::project::Project;
use crate::rootfs::RootImage;
use anyhow::{Context, Result};
use rootimage::Kind;
use std::fs::{self, File};
use std::io::BufWriter;
use std::path::{Path, PathBuf};

/// Where the description of what to run lies in a Tessera image, and where `init` reads it.
const ARGUMENTS: (&str, &str) = ("boot/args", "run/.args");

/// Where modules are that `init` loads, by their numbers.
const MODULES: &str = "run/.modules";

/// The root file system of `image` as Linux expects it, with `init` as the first program, and modules that it loads. `pages`: it gives pages
/// a disk.
pub fn from_image(
    project: &Project,
    image: &Image,
    root: Option<&RootImage>,
    (init, modules, pages): (&Path, &[PathBuf], bool),
) -> Result<Image> {
    let result = Image::temporary(project);
    let bytes =
        fs::read(&image.file).with_context(|| format!("cannot read {}", image.file.display()))?;
    let out = File::create(&result.file)
        .with_context(|| format!("cannot write {}", result.file.display()))?;
    let mut archive = Archive::continued_at(BufWriter::new(out), 0);
    if let Some(root) = root {
        // Files with several names become several files.
        root.walk(|path, record, contents| match record.kind() {
            Some(Kind::Dir) => archive.directory(path, record.mode & 0o7777),
            Some(Kind::Symlink) => archive.symlink(path, &String::from_utf8_lossy(contents)),
            Some(Kind::File) => {
                let time = u32::try_from(record.mtime / 1_000_000_000).unwrap_or(0);
                archive.file(path, record.mode & 0o7777, time, contents)
            }
            _ => Ok(()),
        })?;
    }
    for member in members(&bytes) {
        let path = match member.path.strip_prefix("root/") {
            Some(path) => path,
            None if member.path == ARGUMENTS.0 => ARGUMENTS.1,
            None => continue,
        };
        archive.copy(&member, path)?;
    }
    archive.file(INIT.trim_start_matches('/'), 0o755, 0, &fs::read(init)?)?;
    if !modules.is_empty() {
        archive.directory(MODULES, 0o755)?;
    }
    for (number, module) in modules.iter().enumerate() {
        archive.file(&format!("{MODULES}/{number}"), 0o644, 0, &fs::read(module)?)?;
    }
    if pages {
        archive.file(&format!("{MODULES}/paging"), 0o644, 0, &[])?;
    }
    archive.finish()?;
    Ok(result)
}
