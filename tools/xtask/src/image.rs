//! The boot image: what the first domains are loaded from, and the Linux root file system.
//!
//! A cpio archive (see [`crate::cpio`]) in two parts. The base holds `boot/…` and `root/…` and is
//! kept from one start to the next; a small second part adds the files of one run: what is to be done
//! ([`Orders`]), the program, and what `--file` names.

use crate::compile::{self, Built, Scope};
use crate::cpio::Archive;
use crate::elf;
use crate::project::Project;
use crate::setup;
use crate::toolchain::Variant;
use anyhow::{ensure, Context, Result};
use std::collections::BTreeSet;
use std::fs::{self, File, Metadata};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

const DIRECTORIES: [(&str, u32); 18] = [
    ("bin", 0o755),
    ("dev", 0o755),
    ("etc", 0o755),
    ("home", 0o755),
    ("lib", 0o755),
    ("mnt", 0o755),
    ("proc", 0o555),
    ("root", 0o700),
    ("run", 0o755),
    ("sbin", 0o755),
    ("tmp", 0o1777),
    ("usr", 0o755),
    ("usr/bin", 0o755),
    ("usr/sbin", 0o755),
    ("usr/share", 0o755),
    ("var", 0o755),
    ("var/log", 0o755),
    ("var/tmp", 0o1777),
];

const FILES: [(&str, &str); 5] = [
    ("etc/passwd", "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n"),
    ("etc/group", "root:x:0:\ntty:x:5:\nnogroup:x:65534:\n"),
    ("etc/hostname", "tessera\n"),
    ("etc/hosts", "127.0.0.1 localhost tessera\n"),
    ("etc/profile", include_str!("profile.sh")),
];

/// The part that stays the same, and the paths in it.
pub struct Base {
    file: PathBuf,
    /// Absolute paths of the root file system.
    index: BTreeSet<String>,
}

impl Base {
    /// Makes it, unless the one from last time will do.
    pub fn prepare(project: &Project, built: &Built) -> Result<Base> {
        remove_stale_images(project);
        let busybox = setup::busybox()?;
        let bash = setup::find_in_path("bash-static");
        let name = match (built.variant, built.scope) {
            (Variant::Traced, Scope::System) => "base.traced",
            (Variant::Traced, Scope::Everything) => "base.all.traced",
            (_, Scope::System) => "base",
            (_, Scope::Everything) => "base.all",
        };
        let file = project.state().join(format!("{name}.cpio"));
        let index_file = project.state().join(format!("{name}.index"));
        let inputs: Vec<&Path> = (built.programs.iter().map(|program| program.file.as_path()))
            .chain([busybox.as_path()])
            .chain(bash.as_deref())
            .collect();
        let key = inputs_key(project, &inputs)?;
        let remembered = fs::read_to_string(&index_file).unwrap_or_default();
        if let (Some(index), true) = (remembered.strip_prefix(&key), file.exists()) {
            return Ok(Base { file, index: index.lines().map(String::from).collect() });
        }
        let temporary = project.state().join(format!("{name}.{}", std::process::id()));
        let index = write_base(&temporary, built, &busybox, bash.as_deref())
            .with_context(|| format!("cannot write {}", temporary.display()))?;
        // Not even an emulator that is starting sees half an image.
        fs::rename(&temporary, &file)?;
        let lines: String = index.iter().map(|path| format!("{path}\n")).collect();
        fs::write(&index_file, key + &lines)?;
        Ok(Base { file, index })
    }

    /// Whether the root file system has something at this absolute path.
    pub fn contains(&self, path: &str) -> bool {
        self.index.contains(path)
    }
}

/// Deletes what calls of this tool left behind that were killed.
fn remove_stale_images(project: &Project) {
    let Ok(folder) = fs::read_dir(project.state()) else { return };
    for file in folder.flatten() {
        let name = file.file_name().to_string_lossy().into_owned();
        let owner = name.strip_prefix("image.").and_then(|rest| rest.split('.').next());
        if owner.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            // Another call may do this at the same time.
            let _ = fs::remove_file(file.path());
        }
    }
}

/// Sizes and times of all that goes into the base, and the version of what makes it, as one line.
fn inputs_key(project: &Project, inputs: &[&Path]) -> Result<String> {
    let mut key = format!("{:x} ", compile::own_version(project));
    for file in inputs {
        let metadata = fs::metadata(file).with_context(|| format!("{}", file.display()))?;
        key += &format!("{}:{}:{} ", file.display(), metadata.len(), metadata.mtime_nsec());
        key += &format!("{}; ", metadata.mtime());
    }
    Ok(key + "\n")
}

fn write_base(
    file: &Path,
    built: &Built,
    busybox: &Path,
    bash: Option<&Path>,
) -> Result<BTreeSet<String>> {
    let mut out = BufWriter::new(File::create(file)?);
    let mut archive = Archive::continued_at(&mut out, 0);
    archive.directory("boot", 0o755)?;
    archive.directory("boot/programs", 0o755)?;
    let (commands, others): (Vec<_>, Vec<_>) =
        built.programs.iter().partition(|program| program.image_path.starts_with("root/"));
    for program in others {
        archive.file(&program.image_path, 0o755, 0, &executable(&program.file)?)?;
    }
    let mut root = Root { archive, index: BTreeSet::new() };
    root.archive.directory("root", 0o755)?;
    for (path, permissions) in DIRECTORIES {
        root.directory(path, permissions)?;
    }
    for (path, text) in FILES {
        root.file(path, 0o644, text.as_bytes())?;
    }
    root.file("bin/busybox", 0o755, &fs::read(busybox)?)?;
    for program in commands {
        let path = program.image_path.trim_start_matches("root/");
        root.file(path, 0o755, &executable(&program.file)?)?;
    }
    if let Some(bash) = bash {
        root.file("bin/bash", 0o755, &fs::read(bash)?)?;
    }
    root.applets(busybox)?;
    let index = root.index;
    out.flush()?;
    Ok(index)
}

/// A program of this project as the machine needs it. The archive stays in memory for good.
fn executable(file: &Path) -> Result<Vec<u8>> {
    let data = fs::read(file).with_context(|| format!("{}", file.display()))?;
    Ok(elf::without_sections(data))
}

struct Root<W: Write> {
    archive: Archive<W>,
    index: BTreeSet<String>,
}

impl<W: Write> Root<W> {
    fn directory(&mut self, path: &str, permissions: u32) -> io::Result<()> {
        self.index.insert(format!("/{path}"));
        self.archive.directory(&format!("root/{path}"), permissions)
    }

    fn file(&mut self, path: &str, permissions: u32, data: &[u8]) -> io::Result<()> {
        self.index.insert(format!("/{path}"));
        self.archive.file(&format!("root/{path}"), permissions, 0, data)
    }

    /// A symbolic link for every command that busybox knows, where it wants it.
    fn applets(&mut self, busybox: &Path) -> Result<()> {
        let output = Command::new(busybox).arg("--list-full").output()?;
        ensure!(output.status.success(), "{} does not list its commands", busybox.display());
        for path in String::from_utf8(output.stdout)?.lines() {
            let path = path.trim_start_matches('/');
            let known_folder =
                path.rsplit_once('/').is_some_and(|(at, _)| self.index.contains(&format!("/{at}")));
            if known_folder && self.index.insert(format!("/{path}")) {
                self.archive.symlink(&format!("root/{path}"), "/bin/busybox")?;
            }
        }
        Ok(())
    }
}

/// A file or folder of the host that one run gets, and its absolute path there.
#[derive(Clone, Debug, PartialEq)]
pub struct Addition {
    pub host: PathBuf,
    pub guest: String,
}

/// What the guest is to do.
#[derive(Default)]
pub struct Orders {
    /// What it runs: the contents of `boot/args`.
    pub arguments: Vec<u8>,
    /// What it hands out at the end: the contents of [`exportproto::WANTED`], if there is anything.
    pub exports: Vec<u8>,
}

/// The image of one run. Its file is deleted when this is dropped.
pub struct Image {
    pub file: PathBuf,
}

impl Drop for Image {
    fn drop(&mut self) {
        // A file that stays behind is in the build folder and harms nobody.
        let _ = fs::remove_file(&self.file);
    }
}

impl Image {
    /// A name of its own for a file that is still to be written.
    pub fn temporary(project: &Project) -> Image {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("image.{}.{number}", std::process::id());
        Image { file: project.state().join(name) }
    }

    /// The base, the files with the orders, and `additions`.
    pub fn assemble(
        project: &Project,
        base: &Base,
        orders: &Orders,
        additions: &[Addition],
    ) -> Result<Image> {
        let image = Image::temporary(project);
        let offset = fs::copy(&base.file, &image.file)
            .with_context(|| format!("cannot write {}", image.file.display()))?;
        let out = BufWriter::new(File::options().append(true).open(&image.file)?);
        let mut archive = Archive::continued_at(out, offset);
        archive.file("boot/args", 0o644, 0, &orders.arguments)?;
        if !orders.exports.is_empty() {
            archive.file(exportproto::WANTED, 0o644, 0, &orders.exports)?;
        }
        let mut adder = Adder { archive, made: BTreeSet::new(), base };
        for addition in additions {
            adder.add(&addition.host, &addition.guest)?;
        }
        adder.archive.finish()?;
        Ok(image)
    }
}

struct Adder<'a, W: Write> {
    archive: Archive<W>,
    made: BTreeSet<String>,
    base: &'a Base,
}

impl<W: Write> Adder<'_, W> {
    fn add(&mut self, host: &Path, guest: &str) -> Result<()> {
        let metadata = fs::symlink_metadata(host)
            .and_then(|own| if own.is_symlink() { fs::metadata(host) } else { Ok(own) })
            .with_context(|| format!("{}", host.display()))?;
        self.parents(guest)?;
        if metadata.is_dir() {
            return self.add_folder(host, guest, &metadata);
        }
        ensure!(metadata.is_file(), "{} is neither a file nor a folder", host.display());
        let data = fs::read(host).with_context(|| format!("{}", host.display()))?;
        let permissions = metadata.permissions().mode() & 0o7777;
        let mtime = u32::try_from(metadata.mtime()).unwrap_or(0);
        Ok(self.archive.file(&format!("root{guest}"), permissions, mtime, &data)?)
    }

    fn add_folder(&mut self, host: &Path, guest: &str, metadata: &Metadata) -> Result<()> {
        self.make(guest, metadata.permissions().mode() & 0o7777)?;
        let folder = fs::read_dir(host).with_context(|| format!("{}", host.display()))?;
        let mut names =
            folder.map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<_>>>()?;
        names.sort();
        for name in names {
            let text = name.to_str().with_context(|| format!("{name:?} is not UTF-8"))?;
            let (host, guest) = (host.join(&name), format!("{guest}/{text}"));
            match fs::symlink_metadata(&host)?.is_symlink() {
                true => {
                    let target = fs::read_link(&host)?;
                    self.archive.symlink(&format!("root{guest}"), &target.to_string_lossy())?;
                }
                false => self.add(&host, &guest)?,
            }
        }
        Ok(())
    }

    /// The folders that lead to `guest`.
    fn parents(&mut self, guest: &str) -> Result<()> {
        for (at, _) in guest.match_indices('/').skip(1) {
            self.make(&guest[..at], 0o755)?;
        }
        Ok(())
    }

    fn make(&mut self, guest: &str, permissions: u32) -> Result<()> {
        if !self.base.contains(guest) && self.made.insert(guest.to_owned()) {
            self.archive.directory(&format!("root{guest}"), permissions)?;
        }
        Ok(())
    }
}
