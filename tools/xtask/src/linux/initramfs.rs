//! An initramfs with the files of a Tessera image.

use super::INIT;
use crate::cpio::{members, Archive};
use crate::image::Image;
use crate::project::Project;
use anyhow::{Context, Result};
use std::fs::{self, File};
use std::io::BufWriter;
use std::path::Path;

/// Where the description of what to run lies in a Tessera image, and where `init` reads it.
const ARGUMENTS: (&str, &str) = ("boot/args", "run/.args");

/// The root file system of `image` as Linux expects it, with `init` as the first program.
pub fn from_image(project: &Project, image: &Image, init: &Path) -> Result<Image> {
    let result = Image::temporary(project);
    let bytes =
        fs::read(&image.file).with_context(|| format!("cannot read {}", image.file.display()))?;
    let out = File::create(&result.file)
        .with_context(|| format!("cannot write {}", result.file.display()))?;
    let mut archive = Archive::continued_at(BufWriter::new(out), 0);
    for member in members(&bytes) {
        let path = match member.path.strip_prefix("root/") {
            Some(path) => path,
            None if member.path == ARGUMENTS.0 => ARGUMENTS.1,
            None => continue,
        };
        archive.copy(&member, path)?;
    }
    archive.file(INIT.trim_start_matches('/'), 0o755, 0, &fs::read(init)?)?;
    archive.finish()?;
    Ok(result)
}
