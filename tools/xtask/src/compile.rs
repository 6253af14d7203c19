//! Builds everything that goes into the machine, if its sources have changed.

use crate::map;
use crate::progress::Progress;
use crate::project::Project;
use crate::toolchain::{bare_metal, host, Part, Variant};
use anyhow::{bail, ensure, Context, Result};
use serde_json::Value;
use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::io::{BufRead, BufReader, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

/// Folders whose contents decide what is built, and how.
const SOURCES: [&str; 9] = [
    "tools/xtask",
    "kernel",
    "crates",
    "lib",
    "servers",
    "guest",
    "Cargo.toml",
    "Cargo.lock",
    "rust-toolchain.toml",
];

/// A program that runs in user mode: its name in the image and its executable.
#[derive(Clone, Debug, PartialEq)]
pub struct UserProgram {
    pub image_path: String,
    pub file: PathBuf,
    /// Boots on its own as a test (`[package.metadata.tessera] test = true`).
    pub is_test: bool,
    /// Only tests and benchmarks need it.
    pub is_extra: bool,
}

/// How much is built.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scope {
    /// What running programs needs.
    System,
    /// What tests and benchmarks boot, too.
    Everything,
}

/// What a build left behind.
#[derive(Clone, Debug)]
pub struct Built {
    pub variant: Variant,
    pub scope: Scope,
    pub kernel: PathBuf,
    pub programs: Vec<UserProgram>,
}

/// Builds what is out of date.
pub fn build(project: &Project, scope: Scope) -> Result<Built> {
    let built = build_variant(project, scope, Variant::Plain)?;
    Ok(match map::variant() {
        Variant::Plain => built,
        other => Built { kernel: build_kernel(project, other)?, ..built },
    })
}

/// The same, with or without places for probes.
pub fn build_variant(project: &Project, scope: Scope, variant: Variant) -> Result<Built> {
    let suffix = match variant {
        Variant::Plain => "",
        Variant::Traced => ".traced",
        Variant::Counted | Variant::Cached | Variant::Uncached => {
            bail!("only the kernel is another")
        }
    };
    let record = |scope| {
        let name = if scope == Scope::System { "built" } else { "built.all" };
        project.state().join(format!("{name}{suffix}"))
    };
    let now = fingerprint(project);
    let kernel = project.kernel(variant);
    // Who has built everything has built the system.
    let scopes = [scope, Scope::Everything];
    let recalled = scopes.into_iter().find_map(|scope| {
        fs::read_to_string(record(scope)).ok().and_then(|text| recall(&text, now))
    });
    if let Some(mut programs) = recalled {
        programs.retain(|program| scope == Scope::Everything || !program.is_extra);
        if kernel.exists() && programs.iter().all(|program| program.file.exists()) {
            return Ok(Built { variant, scope, kernel, programs });
        }
    }
    let mut packages = packages(project)?;
    packages.retain(|package| scope == Scope::Everything || !package.is_extra());
    ensure!(
        packages.iter().any(|package| package.part == Part::Kernel),
        "there is no kernel to build in {}",
        project.path("kernel").display()
    );
    let with = if variant == Variant::Traced { ", with probes" } else { "" };
    if !kernel.exists() && !std::io::stderr().is_terminal() {
        eprintln!("x: building the kernel, the servers and the programs{with} (first use only)");
    }
    let progress =
        Progress::new(&format!("building the kernel, the servers and the programs{with}"), 0);
    // Each has a time when it waits for a single crate.
    let parts = thread::scope(|scope| {
        let compile = |part| compile(project, &packages, part, variant, &progress);
        let user = scope.spawn(move || compile(Part::User));
        [compile(Part::Kernel), user.join().unwrap_or_else(|_| bail!("the build panicked"))]
    });
    drop(progress);
    parts.into_iter().collect::<Result<()>>()?;
    let programs = packages.into_iter().filter_map(|package| package.program(project, variant));
    let built = Built { variant, scope, kernel, programs: programs.collect() };
    // As it was before the build: what has been changed meanwhile may not be in it.
    let record = record(scope);
    fs::write(&record, remember(&built.programs, now))
        .with_context(|| format!("cannot write {}", record.display()))?;
    Ok(built)
}

/// Builds a kernel of another variant, to boot the usual programs, and says where it is.
pub fn build_kernel(project: &Project, variant: Variant) -> Result<PathBuf> {
    let progress = Progress::new("building another kernel", 0);
    compile(project, &packages(project)?, Part::Kernel, variant, &progress)?;
    Ok(project.kernel(variant))
}

fn compile(
    project: &Project,
    packages: &[Package],
    part: Part,
    variant: Variant,
    progress: &Progress,
) -> Result<()> {
    let names: Vec<_> = packages.iter().filter(|package| package.part == part).collect();
    if names.is_empty() {
        return Ok(());
    }
    let mut cargo = bare_metal(project, "build", part, variant)?;
    cargo.args(["--quiet", "--message-format=json-render-diagnostics"]);
    for package in names {
        cargo.args(["--package", &package.name]);
    }
    let child = cargo.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let mut child = child.context("cannot start cargo")?;
    for line in child.stdout.take().map(BufReader::new).into_iter().flat_map(BufRead::lines) {
        // What cannot be read is only not shown.
        let message: Value =
            line.ok().and_then(|line| serde_json::from_str(&line).ok()).unwrap_or_default();
        if let (Some(name), Some(false)) =
            (message["target"]["name"].as_str(), message["fresh"].as_bool())
        {
            progress.at(name);
            progress.advance();
        }
    }
    match child.wait().context("cargo has gone")?.success() {
        true => Ok(()),
        false if part == Part::Kernel => bail!("the kernel does not build"),
        false => bail!("the programs for user mode do not build"),
    }
}

/// A package with an executable for the machine.
pub struct Package {
    pub name: String,
    pub part: Part,
    /// `guest`, `servers` or `lib`, or `kernel`.
    folder: String,
    /// It is in `guest/tests`.
    in_tests: bool,
    is_test: bool,
    /// A native program to be run as a command (`[package.metadata.tessera] command = true`).
    is_command: bool,
}

impl Package {
    fn is_extra(&self) -> bool {
        self.in_tests || self.folder == "guest" && !self.is_command
    }

    fn program(self, project: &Project, variant: Variant) -> Option<UserProgram> {
        let image_path = match self.folder.as_str() {
            "kernel" => return None,
            _ if self.is_command => format!("root/bin/{}", self.name),
            "guest" => format!("boot/programs/{}", self.name),
            _ => format!("boot/{}", self.name),
        };
        let file = project.user_program(&self.name, variant);
        let is_extra = self.is_extra();
        Some(UserProgram { image_path, file, is_test: self.is_test, is_extra })
    }
}

/// Every package of the workspace that the machine runs.
pub fn packages(project: &Project) -> Result<Vec<Package>> {
    let mut cargo = host(project);
    cargo.args(["metadata", "--no-deps", "--format-version", "1"]);
    let output = cargo.stderr(Stdio::inherit()).output().context("cannot start cargo")?;
    ensure!(output.status.success(), "cargo cannot read the workspace");
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    let packages = metadata["packages"].as_array().context("cargo names no packages")?;
    let root = metadata["workspace_root"].as_str().context("cargo names no root")?;
    Ok(packages.iter().filter_map(|package| bare_metal_package(package, root)).collect())
}

fn bare_metal_package(package: &Value, root: &str) -> Option<Package> {
    let name = package["name"].as_str()?;
    let manifest = Path::new(package["manifest_path"].as_str()?).strip_prefix(root).ok()?;
    let folder = manifest.components().next()?.as_os_str().to_str()?;
    let part = match folder {
        "kernel" => Part::Kernel,
        "lib" | "servers" | "guest" => Part::User,
        _ => return None,
    };
    let targets = package["targets"].as_array()?;
    let is_bin = |target: &Value| target["kind"][0] == "bin" && target["name"] == name;
    if !targets.iter().any(is_bin) {
        return None;
    }
    let says = |key: &str| package["metadata"]["tessera"][key] == true;
    let (is_test, is_command) = (says("test"), says("command"));
    let in_tests = manifest.starts_with("guest/tests");
    let (name, folder) = (name.to_owned(), folder.to_owned());
    Some(Package { name, part, folder, in_tests, is_test, is_command })
}

/// Changes when this tool does.
pub fn own_version(project: &Project) -> u64 {
    let mut hasher = DefaultHasher::new();
    add_to_fingerprint(&project.path("tools/xtask"), &mut hasher);
    hasher.finish()
}

/// Changes when any source file is changed, added or removed. (Another version of this tool may build with other
/// flags.)
fn fingerprint(project: &Project) -> u64 {
    let mut hasher = DefaultHasher::new();
    for source in SOURCES {
        add_to_fingerprint(&project.path(source), &mut hasher);
    }
    hasher.finish()
}

fn add_to_fingerprint(path: &Path, hasher: &mut DefaultHasher) {
    let Ok(metadata) = fs::metadata(path) else { return };
    if metadata.is_file() {
        (path, metadata.len(), metadata.modified().ok()).hash(hasher);
        return;
    }
    let Ok(folder) = fs::read_dir(path) else { return };
    let mut children: Vec<_> = folder.flatten().map(|entry| entry.path()).collect();
    children.sort();
    for child in children {
        add_to_fingerprint(&child, hasher);
    }
}

/// The record of a build: the fingerprint, then a line for each program.
fn remember(programs: &[UserProgram], fingerprint: u64) -> String {
    let line = |program: &UserProgram| {
        let UserProgram { image_path, file, is_test, is_extra } = program;
        format!("{image_path}\t{is_test}\t{is_extra}\t{}\n", file.display())
    };
    format!("{fingerprint}\n{}", programs.iter().map(line).collect::<String>())
}

fn recall(text: &str, fingerprint: u64) -> Option<Vec<UserProgram>> {
    let (first, rest) = text.split_once('\n')?;
    if first.parse() != Ok(fingerprint) {
        return None;
    }
    let program = |line: &str| {
        let mut fields = line.splitn(4, '\t');
        let image_path = fields.next()?.to_owned();
        let mut flag = || fields.next()?.parse().ok();
        let (is_test, is_extra) = (flag()?, flag()?);
        Some(UserProgram { image_path, is_test, is_extra, file: fields.next()?.into() })
    };
    rest.lines().map(program).collect()
}

/// `cargo COMMAND` of all packages of `part`, for checks; `None` if there are none.
pub fn for_all(
    project: &Project,
    packages: &[Package],
    command: &str,
    part: Part,
) -> Result<Option<Command>> {
    if !packages.iter().any(|package| package.part == part) {
        return Ok(None);
    }
    let mut cargo = bare_metal(project, command, part, Variant::Plain)?;
    for package in packages.iter().filter(|package| package.part == part) {
        cargo.args(["--package", &package.name]);
    }
    Ok(Some(cargo))
}
