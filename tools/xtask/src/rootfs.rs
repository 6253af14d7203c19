//! Root images: a folder of this machine, with what every root has, as memory that the machine only reads ([`rootimage`]).
//!
//! An image is made once for each state of the folder, and kept in the build folder.

use crate::compile::Built;
use crate::deb;
use crate::image::{applets, executable, is_command, DIRECTORIES, FILES};
use crate::progress::Progress;
use crate::project::Project;
use crate::setup;
use crate::tmpfiles::{self, Wanted};
use anyhow::{ensure, Context, Result};
use rootimage::{Builder, Entry, Image, Kind, Plan, Record, Source, What};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Most images that are kept, besides the one that was made last.
const KEPT: usize = 7;
/// Folders of which the machine has its own contents.
const OF_THE_MACHINE: [&str; 3] = ["dev", "proc", "sys"];
/// Most symbolic links on a way.
const LINKS_MAX: u32 = 40;

/// What a root is made of.
pub enum Folder {
    /// A folder that changes when its name does.
    Named(PathBuf),
    /// One that may change.
    Any(PathBuf),
    /// An image that was made of one.
    Image(PathBuf),
}

impl Folder {
    /// What is asked for by `--root` or `--deb`.
    ///
    /// # Errors
    /// The packages cannot be had.
    pub fn wanted(
        project: &Project,
        root: Option<&Path>,
        deb: &[String],
    ) -> Result<Option<Folder>> {
        match (root, deb) {
            (Some(folder), _) => Ok(Some(Folder::Any(folder.to_owned()))),
            (None, []) => Ok(None),
            (None, packages) => Ok(Some(Folder::Named(deb::root(project, packages)?))),
        }
    }

    fn path(&self) -> &Path {
        match self {
            Folder::Named(path) | Folder::Any(path) | Folder::Image(path) => path,
        }
    }
}

/// An image that was made.
pub struct RootImage {
    path: PathBuf,
    image: Image,
    file: File,
}

struct Bytes<'a>(&'a File);

impl Source for Bytes<'_> {
    fn read(&mut self, offset: u64, bytes: &mut [u8]) -> Option<()> {
        self.0.read_exact_at(bytes, offset).ok()
    }
}

impl RootImage {
    /// The image of a folder, made unless there is one.
    ///
    /// # Errors
    /// Something in the folder cannot be read, or there is no room for the image.
    pub fn prepare(project: &Project, built: &Built, folder: &Folder) -> Result<RootImage> {
        let at = || format!("{} cannot be made a root", folder.path().display());
        if let Folder::Image(path) = folder {
            return RootImage::open(path).with_context(at);
        }
        let busybox = setup::busybox()?;
        let store = project.state().join("roots");
        fs::create_dir_all(&store)?;
        let key = key(built, &busybox, folder).with_context(at)?;
        let path = store.join(format!("{key:016x}.img"));
        if let Ok(image) = RootImage::open(&path) {
            // So that those that are used are kept. Where that cannot be, it may have to be made again.
            let _ = File::options().append(true).open(&path)?.set_modified(SystemTime::now());
            return Ok(image);
        }
        let scratch = store.join(format!("{key:016x}.{}", std::process::id()));
        let made = make(&scratch, built, &busybox, folder.path());
        if let Err(error) = made.and_then(|()| Ok(fs::rename(&scratch, &path)?)) {
            // Half an image is of no use to anybody.
            let _ = fs::remove_file(&scratch);
            return Err(error).with_context(at);
        }
        remove_old(&store);
        RootImage::open(&path)
    }

    fn open(path: &Path) -> Result<RootImage> {
        let file = File::open(path)?;
        let bytes = file.metadata()?.len();
        let image = Image::open(&mut Bytes(&file), bytes)
            .map_err(|wrong| anyhow::anyhow!("{}: {}", path.display(), wrong.0))?;
        Ok(RootImage { path: path.to_owned(), image, file })
    }

    /// Where it is.
    pub fn file(&self) -> &Path {
        &self.path
    }

    /// Calls `each` with the path of everything in it, without the first slash, a folder before what is in it; and with its
    /// contents, or the text of a link.
    pub fn walk(&self, mut each: impl FnMut(&str, &Record, &[u8]) -> io::Result<()>) -> Result<()> {
        let damaged = |wrong: rootimage::Wrong| anyhow::anyhow!("the root image: {}", wrong.0);
        let mut open = vec![(String::new(), *self.image.root())];
        while let Some((path, dir)) = open.pop() {
            let source = &mut Bytes(&self.file);
            for Entry { name, record, text } in self.image.entries(source, &dir).map_err(damaged)? {
                let path = format!("{path}{}", String::from_utf8_lossy(&name));
                let mut contents = text;
                if record.kind() == Some(Kind::File) {
                    contents.resize(record.size as usize, 0);
                    self.file.read_exact_at(&mut contents, record.place)?;
                }
                each(&path, &record, &contents)?;
                if record.kind() == Some(Kind::Dir) {
                    open.push((path + "/", record));
                }
            }
        }
        Ok(())
    }

    /// Is there something at an absolute path?
    pub fn contains(&self, path: &str) -> bool {
        let found = self.image.find(&mut Bytes(&self.file), path.as_bytes(), false);
        matches!(found, Ok(Some(_)))
    }

    /// Where a path really is, if folders that lead to it are links.
    pub fn real(&self, path: &str) -> String {
        let real = self.image.real(&mut Bytes(&self.file), path.as_bytes());
        real.map_or_else(|_| path.to_owned(), |real| String::from_utf8_lossy(&real).into_owned())
    }
}

/// Deletes the images that nobody has used for longest.
fn remove_old(store: &Path) {
    let Ok(folder) = fs::read_dir(store) else { return };
    let used = |entry: fs::DirEntry| Some((entry.metadata().ok()?.modified().ok()?, entry.path()));
    let mut all: Vec<_> = folder.flatten().filter_map(used).collect();
    all.sort();
    let many = all.len().saturating_sub(KEPT + 1);
    for (_, path) in &all[..many] {
        // Another call may do this at the same time; a machine that runs keeps what it has open.
        let _ = fs::remove_file(path);
    }
}

/// What an image depends on.
fn key(built: &Built, busybox: &Path, folder: &Folder) -> Result<u64> {
    let mut key = DefaultHasher::new();
    (
        include_str!("rootfs.rs"),
        include_str!("tmpfiles.rs"),
        include_str!("image.rs"),
        FILES,
        DIRECTORIES,
    )
        .hash(&mut key);
    let commands = built.programs.iter().filter(|program| is_command(program));
    for file in commands.map(|program| program.file.as_path()).chain([busybox]) {
        stamp(file, &fs::metadata(file)?, &mut key);
    }
    match folder {
        Folder::Named(path) | Folder::Image(path) => path.hash(&mut key),
        Folder::Any(path) => {
            path.hash(&mut key);
            add_folder(path, &mut key)?;
        }
    }
    Ok(key.finish())
}

/// All that changes when a file does.
fn stamp(path: &Path, what: &Metadata, key: &mut DefaultHasher) {
    (path, what.mode(), what.len(), what.ino(), what.nlink()).hash(key);
    (what.mtime(), what.mtime_nsec(), what.ctime(), what.ctime_nsec()).hash(key);
}

fn add_folder(folder: &Path, key: &mut DefaultHasher) -> Result<()> {
    for (path, what) in sorted(folder)? {
        stamp(&path, &what, key);
        if what.is_dir() {
            add_folder(&path, key)?;
        }
    }
    Ok(())
}

/// What is in a folder, by name.
fn sorted(folder: &Path) -> Result<Vec<(PathBuf, Metadata)>> {
    let at = || format!("{}", folder.display());
    let mut paths = (fs::read_dir(folder).with_context(at)?)
        .map(|entry| Ok(entry?.path()))
        .collect::<io::Result<Vec<_>>>()
        .with_context(at)?;
    paths.sort();
    let what = |path: PathBuf| {
        let what = fs::symlink_metadata(&path).with_context(|| format!("{}", path.display()))?;
        Ok((path, what))
    };
    paths.into_iter().map(what).collect()
}

/// What a file of the image is copied from.
enum Contents {
    Host(PathBuf),
    Bytes(Vec<u8>),
}

/// A root that is put together.
struct Root {
    builder: Builder<Contents>,
    /// Files of this machine with several names.
    linked: HashMap<(u64, u64), usize>,
}

fn record(kind: u32, permissions: u32, mtime: i64) -> Record {
    Record { mode: kind | permissions & 0o7777, mtime, ..Record::default() }
}

const FILE: u32 = 0o100_000;
const DIRECTORY: u32 = 0o040_000;
const SYMLINK: u32 = 0o120_000;

fn make(file: &Path, built: &Built, busybox: &Path, folder: &Path) -> Result<()> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_nanos() as i64;
    let mut root =
        Root { builder: Builder::new(record(DIRECTORY, 0o755, now)), linked: HashMap::new() };
    root.folder(folder, root.builder.root())?;
    for wanted in tmpfiles::wanted(folder)? {
        root.at_start(wanted, now);
    }
    root.basics(built, busybox, now)?;
    write(file, root.builder.finish())
}

/// An image with so many files more than every root has, 20 KiB of zeros each, a hundred to a folder: for measurements.
pub fn make_of_zeros(file: &Path, built: &Built, count: usize) -> Result<()> {
    let mut root =
        Root { builder: Builder::new(record(DIRECTORY, 0o755, 0)), linked: HashMap::new() };
    let (what, top) = (record(FILE, 0o644, 0), root.builder.root());
    let mut folder = top;
    for number in 0..count {
        if number % 100 == 0 {
            let name = format!("folder{}", number / 100);
            let above = record(DIRECTORY, 0o755, 0);
            folder = match root.builder.get(top, b"data") {
                Some(data) => root.builder.add(data, name.as_bytes(), What::Dir, above, None),
                None => {
                    let data = root.builder.add(top, b"data", What::Dir, above, None);
                    root.builder.add(data, name.as_bytes(), What::Dir, above, None)
                }
            };
        }
        root.builder.add(
            folder,
            format!("file{number}").as_bytes(),
            What::File(20 << 10),
            what,
            None,
        );
    }
    root.basics(built, &setup::busybox()?, 0)?;
    write(file, root.builder.finish())
}

impl Root {
    /// All that is in a folder of this machine. What is neither file nor folder nor link is left out, as are the contents of
    /// what the machine has itself.
    fn folder(&mut self, host: &Path, dir: usize) -> Result<()> {
        let is_top = dir == self.builder.root();
        for (path, what) in sorted(host)? {
            let name = path.file_name().map(OsStr::as_bytes).unwrap_or_default();
            let time = what.mtime() * 1_000_000_000 + what.mtime_nsec();
            if what.is_symlink() {
                let text = fs::read_link(&path)?.into_os_string().as_bytes().to_vec();
                self.builder.add(
                    dir,
                    name,
                    What::Symlink(text),
                    record(SYMLINK, 0o777, time),
                    None,
                );
            } else if what.is_dir() {
                let record = record(DIRECTORY, what.mode(), time);
                let below = self.builder.add(dir, name, What::Dir, record, None);
                let is_own = is_top && OF_THE_MACHINE.iter().any(|own| own.as_bytes() == name);
                if !is_own {
                    self.folder(&path, below)?;
                }
            } else if what.is_file() {
                self.host_file(dir, name, &path, &what, time);
            }
        }
        Ok(())
    }

    fn host_file(&mut self, dir: usize, name: &[u8], path: &Path, what: &Metadata, time: i64) {
        let place = (what.dev(), what.ino());
        if let Some(&known) = self.linked.get(&place) {
            return self.builder.link(dir, name, known);
        }
        let record = record(FILE, what.mode(), time);
        let contents = Some(Contents::Host(path.to_owned()));
        let node = self.builder.add(dir, name, What::File(what.len()), record, contents);
        if what.nlink() > 1 {
            self.linked.insert(place, node);
        }
    }

    /// Makes what a system makes when it starts. What is there stays, but for a folder's permissions and owner.
    fn at_start(&mut self, wanted: Wanted, now: i64) {
        let Wanted { kind, path, permissions, uid, gid } = wanted;
        let owned = |kind, usual| {
            let permissions = permissions.unwrap_or(usual);
            Record { uid, gid, ..record(kind, permissions, now) }
        };
        if let (tmpfiles::Kind::Folder, Some(node)) = (&kind, self.directory(path.as_bytes())) {
            if let Some(permissions) = permissions {
                self.builder.change(node, permissions, uid, gid);
            }
            return;
        }
        // Folders above that are missing are root's.
        for (end, _) in path.match_indices('/') {
            if let Some((dir, name)) = self.free(&path[..end]) {
                self.builder.add(dir, &name, What::Dir, record(DIRECTORY, 0o755, now), None);
            }
        }
        let Some((dir, name)) = self.free(&path) else { return };
        match kind {
            tmpfiles::Kind::Folder => {
                self.builder.add(dir, &name, What::Dir, owned(DIRECTORY, 0o755), None);
            }
            tmpfiles::Kind::File(text) => {
                let (what, text) = (What::File(text.len() as u64), Contents::Bytes(text.into()));
                self.builder.add(dir, &name, what, owned(FILE, 0o644), Some(text));
            }
            tmpfiles::Kind::Link(text) => {
                let text = What::Symlink(text.into());
                self.builder.add(dir, &name, text, owned(SYMLINK, 0o777), None);
            }
        }
    }

    /// What every root has, as far as it is not there.
    fn basics(&mut self, built: &Built, busybox: &Path, now: i64) -> Result<()> {
        for (path, permissions) in DIRECTORIES {
            if let Some((dir, name)) = self.free(path) {
                let record = record(DIRECTORY, permissions, now);
                self.builder.add(dir, &name, What::Dir, record, None);
            }
        }
        for (path, text) in FILES {
            self.file(path, 0o644, text.as_bytes().to_vec(), now);
        }
        self.file("bin/busybox", 0o755, fs::read(busybox)?, now);
        for program in built.programs.iter().filter(|program| is_command(program)) {
            let path = program.image_path.trim_start_matches("root/");
            self.file(path, 0o755, executable(&program.file)?, now);
        }
        for path in applets(busybox)? {
            if let Some((dir, name)) = self.free(&path) {
                let text = What::Symlink(b"/bin/busybox".to_vec());
                self.builder.add(dir, &name, text, record(SYMLINK, 0o777, now), None);
            }
        }
        Ok(())
    }

    fn file(&mut self, path: &str, permissions: u32, data: Vec<u8>, now: i64) {
        if let Some((dir, name)) = self.free(path) {
            let (size, record) = (data.len() as u64, record(FILE, permissions, now));
            self.builder.add(dir, &name, What::File(size), record, Some(Contents::Bytes(data)));
        }
    }

    /// The directory and the name that a path leads to, if the one is there and the other is not.
    fn free(&self, path: &str) -> Option<(usize, Vec<u8>)> {
        let (above, name) = path.rsplit_once('/').unwrap_or(("", path));
        let dir = self.directory(above.as_bytes())?;
        let name = name.as_bytes().to_vec();
        self.builder.get(dir, &name).is_none().then_some((dir, name))
    }

    /// The directory that a path from the root leads to, links followed.
    fn directory(&self, path: &[u8]) -> Option<usize> {
        let (mut way, mut links) = (vec![self.builder.root()], 0);
        let parts = |path: &[u8]| -> Vec<Vec<u8>> {
            path.split(|&byte| byte == b'/').rev().map(<[u8]>::to_vec).collect()
        };
        let mut left = parts(path);
        while let Some(name) = left.pop() {
            let at = *way.last()?;
            match &name[..] {
                b"" | b"." => continue,
                b".." => {
                    way.truncate((way.len() - 1).max(1));
                    continue;
                }
                _ => {}
            }
            let node = self.builder.get(at, &name)?;
            match self.builder.look(node) {
                (Some(Kind::Dir), _) => way.push(node),
                (Some(Kind::Symlink), text) if links < LINKS_MAX => {
                    links += 1;
                    if text.first() == Some(&b'/') {
                        way.truncate(1);
                    }
                    left.extend(parts(text));
                }
                _ => return None,
            }
        }
        way.pop()
    }
}

fn write(path: &Path, plan: Plan<Contents>) -> Result<()> {
    eprintln!("x: making the root image ({} MiB), once", plan.size >> 20);
    let mut out = File::create(path).with_context(|| format!("{}", path.display()))?;
    out.set_len(plan.size)?;
    let progress = Progress::new("copying files to the root image", plan.files.len() as u64);
    for part in plan.files {
        out.seek(SeekFrom::Start(part.place))?;
        match part.file {
            Contents::Bytes(data) => out.write_all(&data)?,
            Contents::Host(host) => {
                let at = || format!("{}", host.display());
                let file = File::open(&host).with_context(at)?;
                // Through the kernel, which may share what lies on the same disk.
                let copied = io::copy(&mut file.take(part.size), &mut out).with_context(at)?;
                ensure!(copied == part.size, "{} has become smaller", host.display());
            }
        }
        progress.advance();
    }
    for (place, data) in plan.rest {
        out.write_all_at(&data, place)?;
    }
    Ok(())
}
