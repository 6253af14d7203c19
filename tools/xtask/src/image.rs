//! The boot image: what the first domains are loaded from, and the Linux root file system.
//!
//! A cpio archive (see [`crate::cpio`]) in two parts. The base holds `boot/…` and `root/…` and is
//! kept from one start to the next; a small second part adds the files of one run: what is to be done
//! ([`Orders`]), the program, and what `--file` names.
//!
//! The root is a few files and busybox, or [a folder of this machine](Base::of_folder), which reaches the machine as an image of
//! its own ([`crate::rootfs`]).

use crate::compile::{self, Built, Scope, UserProgram};
use crate::cpio::Archive;
use crate::elf;
use crate::project::Project;
use crate::rootfs::{Folder, RootImage};
use crate::setup;
use crate::toolchain::Variant;
use anyhow::{ensure, Context, Result};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fs::{self, File, Metadata};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

pub const DIRECTORIES: [(&str, u32); 18] = [
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

pub const FILES: [(&str, &str); 5] = [
    ("etc/passwd", "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n"),
    ("etc/group", "root:x:0:\ntty:x:5:\nnogroup:x:65534:\n"),
    ("etc/hostname", "tessera\n"),
    ("etc/hosts", "127.0.0.1 localhost tessera\n"),
    ("etc/profile", include_str!("profile.sh")),
];

/// The part that stays the same, and the paths in it.
pub struct Base {
    file: PathBuf,
    /// Absolute paths of the root file system, as far as it is in there.
    paths: BTreeSet<String>,
    /// The root file system, if it is a folder of this machine.
    root: Option<RootImage>,
    /// Deletes the file when this is dropped, unless that is to be kept.
    _temporary: Option<Image>,
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
            let paths = index.lines().map(String::from).collect();
            return Ok(Base { file, paths, root: None, _temporary: None });
        }
        let temporary = project.state().join(format!("{name}.{}", std::process::id()));
        let paths = write_base(&temporary, built, &busybox, bash.as_deref())
            .with_context(|| format!("cannot write {}", temporary.display()))?;
        // Not even an emulator that is starting sees half an image.
        fs::rename(&temporary, &file)?;
        let lines: String = paths.iter().map(|path| format!("{path}\n")).collect();
        fs::write(&index_file, key + &lines)?;
        Ok(Base { file, paths, root: None, _temporary: None })
    }

    /// One for a folder of this machine as its root.
    pub fn of_folder(project: &Project, built: &Built, folder: &Folder) -> Result<Base> {
        remove_stale_images(project);
        let root = RootImage::prepare(project, built, folder)?;
        let image = Image::temporary(project);
        let mut out = BufWriter::new(File::create(&image.file)?);
        Root::begin(&mut out, built)?;
        out.flush()?;
        let file = image.file.clone();
        Ok(Base { file, paths: BTreeSet::new(), root: Some(root), _temporary: Some(image) })
    }

    /// Whether the root file system has something at this absolute path.
    pub fn contains(&self, path: &str) -> bool {
        match &self.root {
            Some(root) => root.contains(path),
            None => self.paths.contains(path),
        }
    }

    /// Where a path really is, if a folder that leads to it is a link.
    fn real<'a>(&self, path: &'a str) -> Cow<'a, str> {
        match &self.root {
            Some(root) => Cow::Owned(root.real(path)),
            None => Cow::Borrowed(path),
        }
    }

    /// The image of its root, if that is a folder of this machine, with libraries of its own.
    pub fn root(&self) -> Option<&RootImage> {
        self.root.as_ref()
    }

    /// Variables that a program of such a root begins with: what needs no data, and many expect.
    pub fn environment(&self) -> Option<String> {
        self.root.is_some().then(|| "LANG=C.UTF-8".into())
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
pub fn inputs_key(project: &Project, inputs: &[&Path]) -> Result<String> {
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
    let mut root = Root::begin(&mut out, built)?;
    root.basics(built, busybox)?;
    if let Some(bash) = bash {
        root.file("bin/bash", 0o755, &fs::read(bash)?)?;
    }
    root.applets(busybox)?;
    let paths = root.paths;
    out.flush()?;
    Ok(paths)
}

/// Is it for the root file system?
pub fn is_command(program: &UserProgram) -> bool {
    program.image_path.starts_with("root/")
}

/// A program of this project as the machine needs it. The archive stays in memory for good.
pub fn executable(file: &Path) -> Result<Vec<u8>> {
    let data = fs::read(file).with_context(|| format!("{}", file.display()))?;
    Ok(elf::without_sections(data))
}

struct Root<W: Write> {
    archive: Archive<W>,
    paths: BTreeSet<String>,
}

impl<W: Write> Root<W> {
    /// What is not of the root file system.
    fn begin(out: W, built: &Built) -> Result<Root<W>> {
        let mut archive = Archive::continued_at(out, 0);
        archive.directory("boot", 0o755)?;
        archive.directory("boot/programs", 0o755)?;
        let always = |program: &&UserProgram| !is_command(program) && !is_server_of_device(program);
        for program in built.programs.iter().filter(always) {
            archive.file(&program.image_path, 0o755, 0, &executable(&program.file)?)?;
        }
        archive.directory("root", 0o755)?;
        Ok(Root { archive, paths: BTreeSet::new() })
    }

    /// What every root has, as far as it is not there.
    fn basics(&mut self, built: &Built, busybox: &Path) -> Result<()> {
        for (path, permissions) in DIRECTORIES {
            self.directory(path, permissions)?;
        }
        for (path, text) in FILES {
            self.file(path, 0o644, text.as_bytes())?;
        }
        self.file("bin/busybox", 0o755, &fs::read(busybox)?)?;
        for program in built.programs.iter().filter(|program| is_command(program)) {
            let path = program.image_path.trim_start_matches("root/");
            self.file(path, 0o755, &executable(&program.file)?)?;
        }
        Ok(())
    }

    /// Enters a path; `None` if there is something already.
    fn enter(&mut self, path: &str) -> Option<String> {
        self.paths.insert(format!("/{path}")).then(|| format!("root/{path}"))
    }

    fn directory(&mut self, path: &str, permissions: u32) -> io::Result<()> {
        match self.enter(path) {
            Some(path) => self.archive.directory(&path, permissions),
            None => Ok(()),
        }
    }

    fn file(&mut self, path: &str, permissions: u32, data: &[u8]) -> io::Result<()> {
        match self.enter(path) {
            Some(path) => self.archive.file(&path, permissions, 0, data),
            None => Ok(()),
        }
    }

    /// A symbolic link for every command that busybox knows, where it wants it.
    fn applets(&mut self, busybox: &Path) -> Result<()> {
        for path in applets(busybox)? {
            let folder = path.rsplit_once('/').map(|(at, _)| format!("/{at}"));
            if !folder.is_some_and(|folder| self.paths.contains(&folder)) {
                continue;
            }
            if let Some(path) = self.enter(&path) {
                self.archive.symlink(&path, "/bin/busybox")?;
            }
        }
        Ok(())
    }
}

/// Where busybox wants all commands that it knows, without the first slash.
pub fn applets(busybox: &Path) -> Result<Vec<String>> {
    let output = Command::new(busybox).arg("--list-full").output()?;
    ensure!(output.status.success(), "{} does not list its commands", busybox.display());
    let said = String::from_utf8(output.stdout)?;
    Ok(said.lines().map(|path| path.trim_start_matches('/').to_owned()).collect())
}

/// A file or folder of the host that one run gets, and its absolute path there.
#[derive(Clone, Debug, PartialEq)]
pub struct Addition {
    pub host: PathBuf,
    pub guest: String,
}

/// What serves a disk, and what serves the network. They stay in memory for good, so only machines that have such devices get them.
const DISK_SERVER: &str = "boot/diskd";
const NET_SERVER: &str = "boot/netd";

fn is_server_of_device(program: &UserProgram) -> bool {
    [DISK_SERVER, NET_SERVER].contains(&program.image_path.as_str())
}

fn server(built: &Built, path: &str) -> Option<PathBuf> {
    let program = built.programs.iter().find(|program| program.image_path == path)?;
    Some(program.file.clone())
}

/// The server of disks, for [`Orders`].
pub fn disk_server(built: &Built) -> Option<PathBuf> {
    server(built, DISK_SERVER)
}

/// That of the network.
pub fn net_server(built: &Built) -> Option<PathBuf> {
    server(built, NET_SERVER)
}

/// What the guest is to do.
#[derive(Default)]
pub struct Orders {
    /// The server of disks, if it has any.
    pub disk_server: Option<PathBuf>,
    /// The server of the network, if it has one.
    pub net_server: Option<PathBuf>,
    /// Where its names are known, if it has a network: the contents of `/etc/resolv.conf`.
    pub resolver: Option<String>,
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
        let servers = [(DISK_SERVER, &orders.disk_server), (NET_SERVER, &orders.net_server)];
        for (path, server) in servers {
            if let Some(server) = server {
                archive.file(path, 0o755, 0, &executable(server)?)?;
            }
        }
        if let Some(text) = &orders.resolver {
            let path = base.real("/etc/resolv.conf");
            archive.file(&format!("root{path}"), 0o644, 0, text.as_bytes())?;
        }
        let mut adder = Adder { archive, made: BTreeSet::new(), base };
        for addition in additions {
            adder.add(&addition.host, &base.real(&addition.guest))?;
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
