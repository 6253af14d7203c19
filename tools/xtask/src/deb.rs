//! A root file system of Debian's packages, with what they depend on, as apt itself resolves it.
//!
//! Nothing is installed on this machine: the packages are downloaded once, and unpacked to a folder. Of what their
//! maintainer scripts do, this is done: the layout that base-files makes, commands that have alternatives get one, and there
//! are the users and groups that every system has, and those that the packages make, with what says how they [log in](crate::pam).

use crate::pam;
use crate::progress::Progress;
use crate::project::Project;
use crate::scripts::{alternatives, commands, system_users, Alternative, SystemUser};
use crate::setup;
use anyhow::{bail, ensure, Context, Result};
use std::fs::{self, File, Permissions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{symlink, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Folders that are links to those in `/usr`.
const MERGED: [&str; 4] = ["bin", "sbin", "lib", "lib64"];
/// Files of which `/usr/share` has what they are at first, and their names in `/etc`.
const MASTERS: [(&str, &str); 7] = [
    ("base-passwd/passwd.master", "etc/passwd"),
    ("base-passwd/group.master", "etc/group"),
    ("base-files/profile", "etc/profile"),
    ("base-files/motd", "etc/motd"),
    ("base-files/dot.profile", "root/.profile"),
    ("base-files/dot.bashrc", "root/.bashrc"),
    ("libc-bin/nsswitch.conf", "etc/nsswitch.conf"),
];
/// Folders that base-files' script makes, and their permissions.
const FOLDERS: [(&str, u32); 8] = [
    ("mnt", 0o755),
    ("srv", 0o755),
    ("opt", 0o755),
    ("etc/opt", 0o755),
    ("var/opt", 0o755),
    ("media", 0o755),
    ("var/mail", 0o2775),
    ("run/lock", 0o1777),
];
/// Links that it makes; folders in their places that are empty give way.
const LINKS: [(&str, &str); 5] = [
    ("var/run", "/run"),
    ("var/lock", "/run/lock"),
    ("var/spool/mail", "../mail"),
    ("usr/local/man", "share/man"),
    ("etc/dpkg/origins/default", "debian"),
];
/// What is below `/usr/local`.
const LOCAL: [&str; 9] =
    ["share", "share/man", "bin", "games", "lib", "include", "sbin", "src", "etc"];
/// What every root has, whatever it is for: its layout, names of users, the locale `C.UTF-8`, and how terminals are spoken to.
const ALWAYS: [&str; 4] = ["base-files", "base-passwd", "libc-bin", "ncurses-base"];

/// A folder with these packages and all that they depend on.
///
/// # Errors
/// There is no apt, or it does not know a package, or cannot fetch one; it says why.
pub fn root(project: &Project, packages: &[String]) -> Result<PathBuf> {
    ensure!(
        setup::in_path("apt-get") && setup::in_path("dpkg-deb"),
        "--deb takes Debian's packages, and this system has no apt; --root takes any folder"
    );
    let store = project.state().join("deb");
    let apt = Apt::new(&store, packages)?;
    let files = apt.resolve()?;
    let mut key = DefaultHasher::new();
    (&files, include_str!("deb.rs"), include_str!("pam.rs"), include_str!("scripts.rs"))
        .hash(&mut key);
    let folder = store.join(format!("root.{:016x}", key.finish()));
    if folder.exists() {
        return Ok(folder);
    }
    apt.fetch(&files)?;
    let scratch = store.join(format!("new.{}", std::process::id()));
    if scratch.exists() {
        remove(&scratch)?;
    }
    eprintln!("x: unpacking {} packages (nothing is installed on this machine)", files.len());
    let unpacked = unpack(&apt.archives, &files, &scratch);
    if let Err(error) = unpacked.and_then(|()| Ok(fs::rename(&scratch, &folder)?)) {
        // Half a root is of no use to anybody.
        let _ = remove(&scratch);
        // Another was at it at the same time, and was faster: it has the same.
        if !folder.exists() {
            return Err(error);
        }
    }
    Ok(folder)
}

/// apt, as if nothing were installed.
struct Apt<'a> {
    packages: Vec<&'a str>,
    archives: PathBuf,
    options: Vec<String>,
}

impl<'a> Apt<'a> {
    fn new(store: &Path, packages: &'a [String]) -> Result<Apt<'a>> {
        let archives = store.join("archives");
        fs::create_dir_all(archives.join("partial"))?;
        let status = store.join("status");
        File::create(&status)?;
        let options = [
            format!("Dir::State::status={}", status.display()),
            format!("Dir::Cache::archives={}", archives.display()),
            "Debug::NoLocking=1".into(),
            "APT::Sandbox::User=root".into(),
            "APT::Install-Recommends=0".into(),
            "Acquire::http::Timeout=20".into(),
            "Acquire::Retries=2".into(),
        ];
        let options = options.into_iter().flat_map(|option| ["-o".to_owned(), option]).collect();
        let packages = packages.iter().map(String::as_str).chain(ALWAYS).collect();
        Ok(Apt { packages, archives, options })
    }

    fn command(&self, more: &[&str]) -> Command {
        let mut command = Command::new("apt-get");
        command.args(&self.options).args(["-y", "-q"]).args(more).arg("install");
        command.args(&self.packages).env("DEBIAN_FRONTEND", "noninteractive").stdin(Stdio::null());
        command
    }

    /// The names of all files that are needed, as apt said the last time, if its lists have not changed since.
    fn resolve(&self) -> Result<Vec<String>> {
        let known = || Some(self.archives.join(format!("../known.{:016x}", self.state()?)));
        if let Some(said) = known().and_then(|file| fs::read_to_string(file).ok()) {
            return Ok(said.lines().map(str::to_owned).collect());
        }
        let files = self.resolve_now()?;
        // If the lists were missing they are others now. What cannot be noted is asked for again.
        if let Some(file) = known() {
            let _ = fs::write(file, files.join("\n"));
        }
        Ok(files)
    }

    /// A number that is another one for other packages, and after a change of what apt knows about packages.
    fn state(&self) -> Option<u64> {
        const KNOWLEDGE: [&str; 3] =
            ["/var/lib/apt/lists", "/etc/apt/sources.list.d", "/etc/apt/preferences.d"];
        let mut state = DefaultHasher::new();
        (&self.packages, include_str!("deb.rs")).hash(&mut state);
        let changed = |path: &Path| {
            let what = fs::metadata(path).ok()?;
            Some((what.mtime(), what.mtime_nsec(), what.len()))
        };
        for folder in KNOWLEDGE {
            let mut names: Vec<PathBuf> =
                fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path()).collect();
            names.sort();
            names.iter().for_each(|path| (path, changed(path)).hash(&mut state));
        }
        changed(Path::new("/etc/apt/sources.list")).hash(&mut state);
        Some(state.finish())
    }

    fn resolve_now(&self) -> Result<Vec<String>> {
        match self.ask() {
            Ok(files) => Ok(files),
            // The lists may be missing or old.
            Err(first) => {
                eprintln!("x: asking apt for its lists of packages");
                setup::apt_get("update", &[]);
                self.ask().map_err(|_| first)
            }
        }
    }

    fn ask(&self) -> Result<Vec<String>> {
        // With downloads that are there already, nothing would be named.
        let nowhere =
            format!("Dir::Cache::archives={}", self.archives.join("partial/none").display());
        let output = self.command(&["-qq", "--print-uris", "-o", &nowhere]).output()?;
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        if !output.status.success() {
            let said = complaint.lines().find(|line| line.starts_with("E:")).unwrap_or("it failed");
            bail!("apt cannot find {}: {said}", self.packages.join(" "));
        }
        // 'URI' FILE SIZE HASH
        let said = String::from_utf8(output.stdout)?;
        let mut files: Vec<String> =
            said.lines().filter_map(|line| Some(line.split(' ').nth(1)?.to_owned())).collect();
        files.sort();
        ensure!(!files.is_empty(), "apt names no packages: {said}");
        Ok(files)
    }

    fn fetch(&self, files: &[String]) -> Result<()> {
        let missing = || files.iter().filter(|file| !self.archives.join(file).exists()).count();
        if missing() == 0 {
            return Ok(());
        }
        // Another call of this tool may want the same: apt would mix what two of them receive, since it is told to take no locks of its own.
        let one = File::create(self.archives.join("../lock"))?;
        one.lock().context("cannot wait for another download")?;
        if missing() == 0 {
            return Ok(());
        }
        eprintln!("x: downloading {} packages from Debian", missing());
        let progress = Progress::new("downloading packages", missing() as u64);
        let mut apt = self.command(&["--download-only", "-o", "APT::Keep-Downloaded-Packages=1"]);
        let mut child = apt.stdout(Stdio::piped()).spawn().context("cannot start apt-get")?;
        let said = child.stdout.take().context("a pipe")?;
        for line in BufReader::new(said).lines() {
            // Get:N PLACE SUITE ARCHITECTURE PACKAGE …
            let line = line?;
            let mut words = line.split(' ');
            if words.next().is_some_and(|first| first.starts_with("Get:")) {
                progress.at(words.nth(3).unwrap_or_default());
                progress.advance();
            }
        }
        drop(progress);
        ensure!(
            child.wait()?.success() && missing() == 0,
            "apt-get could not download the packages: is there a network?"
        );
        Ok(())
    }
}

fn remove(folder: &Path) -> Result<()> {
    // Some packages have folders that nobody may write to.
    let _ = Command::new("chmod").args(["-R", "u+rwX"]).arg(folder).status();
    Ok(fs::remove_dir_all(folder)?)
}

fn unpack(archives: &Path, files: &[String], root: &Path) -> Result<()> {
    fs::create_dir_all(root)?;
    for name in MERGED {
        fs::create_dir_all(root.join("usr").join(name))?;
        symlink(format!("usr/{name}"), root.join(name))?;
    }
    let (mut scripts, mut before) = (Vec::new(), Vec::new());
    for file in files {
        let archive = archives.join(file);
        let mut dpkg = Command::new("dpkg-deb")
            .arg("--fsys-tarfile")
            .arg(&archive)
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start dpkg-deb")?;
        let contents = dpkg.stdout.take().context("a pipe")?;
        let mut tar = Command::new("tar");
        tar.args(["-x", "-p", "--keep-directory-symlink", "--no-same-owner", "-C"]).arg(root);
        let unpacked = tar.stdin(contents).status().context("cannot start tar")?;
        ensure!(dpkg.wait()?.success() && unpacked.success(), "{file} cannot be unpacked");
        for (name, all) in [("postinst", &mut scripts), ("preinst", &mut before)] {
            let script = Command::new("dpkg-deb").arg("-I").arg(&archive).arg(name).output()?;
            all.push(String::from_utf8_lossy(&script.stdout).into_owned());
        }
    }
    lay_out(root)?;
    before.extend_from_slice(&scripts);
    add_users(root, &before)?;
    pam::set_up(root)?;
    scripts.iter().try_for_each(|script| enable_parts(root, script))?;
    let java = java_commands(root)?;
    scripts
        .iter()
        .flat_map(|script| alternatives(script))
        .chain(java)
        .try_for_each(|it| it.link(root))
}

/// Does what base-files, and libc-bin for the names of users and hosts, do when they are installed.
fn lay_out(root: &Path) -> Result<()> {
    for name in LOCAL {
        fs::create_dir_all(root.join("usr/local").join(name))?;
    }
    for (name, permissions) in FOLDERS {
        let folder = root.join(name);
        if !folder.exists() {
            fs::create_dir_all(&folder)?;
            fs::set_permissions(&folder, Permissions::from_mode(permissions))?;
        }
    }
    for (name, target) in LINKS {
        let link = root.join(name);
        // A folder with something in it stays, as it does there.
        let is_free = match fs::symlink_metadata(&link) {
            Err(_) => link.parent().is_some_and(Path::exists),
            Ok(what) => what.is_dir() && fs::remove_dir(&link).is_ok(),
        };
        if is_free {
            symlink(target, link)?;
        }
    }
    for (master, name) in MASTERS {
        let (from, to) = (root.join("usr/share").join(master), root.join(name));
        if from.exists() && !to.exists() {
            fs::copy(from, to)?;
        }
    }
    Ok(())
}

/// Parts of Apache that a package's script has it use.
fn enable_parts(root: &Path, script: &str) -> Result<()> {
    const KINDS: [(&str, &str); 3] =
        [("a2enmod", "mods"), ("a2enconf", "conf"), ("a2ensite", "sites")];
    let apache = root.join("etc/apache2");
    for line in commands(script) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let Some((command, names)) = words.split_first() else { continue };
        let Some((_, kind)) = KINDS.iter().find(|(name, _)| name == command) else { continue };
        let names = names.iter().filter(|name| !name.starts_with('-') && !name.contains('$'));
        let mut wanted: Vec<String> = names.map(|name| (*name).to_owned()).collect();
        while let Some(name) = wanted.pop() {
            for end in ["load", "conf"] {
                let file = format!("{name}.{end}");
                let (from, to) = (format!("{kind}-available"), format!("{kind}-enabled"));
                let Ok(text) = fs::read_to_string(apache.join(&from).join(&file)) else { continue };
                let link = apache.join(&to).join(&file);
                if fs::symlink_metadata(&link).is_err() {
                    fs::create_dir_all(apache.join(&to))?;
                    symlink(format!("../{from}/{file}"), link)?;
                    let needs = text.lines().filter_map(|line| line.strip_prefix("# Depends:"));
                    wanted.extend(needs.flat_map(str::split_whitespace).map(str::to_owned));
                }
            }
        }
    }
    Ok(())
}

/// Commands of Java, of which a table says where they are.
fn java_commands(root: &Path) -> Result<Vec<Alternative>> {
    let Ok(folder) = fs::read_dir(root.join("usr/lib/jvm")) else { return Ok(Vec::new()) };
    let mut all = Vec::new();
    for file in folder {
        let path = file?.path();
        if path.extension().is_some_and(|end| end == "jinfo") {
            // KIND NAME PATH
            let table = fs::read_to_string(path)?;
            let words = table.lines().map(|line| line.split(' ').collect::<Vec<_>>());
            all.extend(words.filter_map(|words| match words[..] {
                [_, name, target] if target.contains("/bin/") => Some(Alternative {
                    link: format!("/usr/bin/{name}"),
                    target: target.into(),
                    priority: 0,
                }),
                _ => None,
            }));
        }
    }
    Ok(all)
}

/// Adds the users and groups that packages make for themselves.
fn add_users(root: &Path, scripts: &[String]) -> Result<()> {
    /// The first id that Debian gives to such.
    const FIRST: u32 = 100;
    let (users, groups) = (root.join("etc/passwd"), root.join("etc/group"));
    let (Ok(mut passwd), Ok(mut group)) = (fs::read_to_string(&users), fs::read_to_string(&groups))
    else {
        return Ok(());
    };
    let all: Vec<_> = scripts.iter().flat_map(|script| system_users(script)).collect();
    // The group `users` has an id among those.
    let is_used = |id: &u32| {
        let ids = passwd.lines().chain(group.lines()).filter_map(|line| line.split(':').nth(2));
        ids.into_iter().any(|used| used == id.to_string())
    };
    let free: Vec<u32> = (FIRST..).filter(|id| !is_used(id)).take(all.len()).collect();
    for (id, SystemUser { name, home, shell }) in free.into_iter().zip(all) {
        let start = format!("{name}:");
        if !passwd.lines().any(|line| line.starts_with(&start)) {
            passwd += &format!("{name}:x:{id}:{id}:{name}:{home}:{shell}\n");
        }
        if !group.lines().any(|line| line.starts_with(&start)) {
            group += &format!("{name}:x:{id}:\n");
        }
    }
    fs::write(users, passwd)?;
    Ok(fs::write(groups, group)?)
}
