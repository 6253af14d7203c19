//! Programs of Debian's packages, as a user runs them: scripts of `guest/tests/debian`, by `./x run --deb`.
//!
//! NAME.out is what the same script prints on Linux in the same packages (`./x test --record debian/NAME`, as root: it
//! changes its root to the unpacked packages).

use super::directives::Directives;
use super::guest::difference;
use super::linux::sources;
use super::{feed, this_tool, Case, Context};
use crate::deb;
use crate::project::Project;
use anyhow::{bail, ensure, Context as _, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

/// A script that takes a minute on a quiet machine may take five beside other tests on a loaded one.
const TIMEOUT: Duration = Duration::from_secs(1200);

/// Most of a script's own words that a failure shows.
const COMPLAINT: usize = 4000;

/// A script, and what it says of itself.
pub struct Script {
    path: PathBuf,
    pub name: String,
    packages: Vec<String>,
    directives: Directives,
}

/// All scripts.
fn scripts(project: &Project) -> Result<Vec<Script>> {
    let paths = sources(&project.path("guest/tests/debian"), "sh")?;
    paths.iter().map(|path| Script::read(path)).collect()
}

impl Script {
    pub fn read(path: &Path) -> Result<Script> {
        let text = fs::read_to_string(path)?;
        let directives =
            Directives::parse(&text, "#").with_context(|| format!("{}", path.display()))?;
        ensure!(!directives.packages.is_empty(), "{} names no packages", path.display());
        Ok(Script {
            path: path.to_owned(),
            name: path.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
            packages: directives.packages.clone(),
            directives,
        })
    }

    fn expected(&self) -> PathBuf {
        self.path.with_extension("out")
    }

    /// The file that is the machine's persistent memory, if it has some.
    fn memory(&self) -> String {
        format!("{}.pmem", self.name)
    }

    fn file(&self) -> String {
        format!("{}.sh", self.name)
    }
}

pub fn cases(context: &Context) -> Result<Vec<Case>> {
    let case = |script: Script| {
        Case::single(format!("debian/{}", script.name), move |context| run(context, &script))
    };
    let asked = context.asks_for("debian");
    let runs = |script: &Script| asked || !script.directives.when_asked;
    Ok(scripts(&context.project)?.into_iter().filter(runs).map(case).collect())
}

fn run(context: &Context, script: &Script) -> Result<()> {
    let expected = fs::read(script.expected())?;
    // What an earlier run has left is not there.
    let memory = context.folder("debian")?.join(script.memory());
    if memory.exists() {
        fs::remove_file(&memory)?;
    }
    let (mut printed, mut said) = (Vec::new(), String::new());
    for boot in 1..=script.directives.boots.unwrap_or(1) {
        let output = start(context, script, &[])?;
        said = String::from_utf8_lossy(&output.stderr).into_owned();
        said.drain(..said.floor_char_boundary(said.len().saturating_sub(COMPLAINT)));
        let status = output.status;
        ensure!(status.success(), "boot {boot}: exit status {status}; it said: {said}");
        printed.extend(output.stdout);
    }
    if printed != expected {
        bail!("{}\nit said: {said}", difference(&expected, &printed));
    }
    Ok(())
}

/// Runs a script with arguments to its end.
pub fn start(context: &Context, script: &Script, arguments: &[&str]) -> Result<Output> {
    let timeout = script.directives.timeout.unwrap_or(TIMEOUT);
    let mut command = this_tool(context, &context.folder("debian")?)?;
    command.args(["run", "--deb", &script.packages.join(",")]);
    command.args(["--mem", script.directives.memory.as_deref().unwrap_or("1G")]);
    command.args(["--cores", &script.directives.cores.unwrap_or(context.cores).to_string()]);
    command.args(["--timeout", &timeout.as_secs().to_string()]);
    if let Some(bytes) = &script.directives.swap {
        command.args(["--swap", bytes]);
    }
    if let Some(bytes) = &script.directives.nvdimm {
        command.args(["--nvdimm", &format!("{}:{bytes}", script.memory())]);
    }
    command.args(["--file", &format!("{}:/root/{}", script.path.display(), script.file())]);
    command.args(["--", "/bin/sh", &format!("/root/{}", script.file())]).args(arguments);
    feed(&mut command, b"")
}

/// Writes anew what Linux prints for those scripts whose names contain `filter`.
pub fn record(project: &Project, filter: &str) -> Result<()> {
    for script in scripts(project)? {
        if !filter.is_empty() && !format!("debian/{}", script.name).contains(filter) {
            continue;
        }
        let root = deb::root(project, &script.packages)?;
        let copy = root.join("root").join(script.file());
        fs::copy(&script.path, &copy)?;
        let output = Command::new("unshare")
            .args(["--fork", "--pid", "--mount", "sh", "-c", IN_ROOT, "sh"])
            .args([root.as_path(), Path::new(&format!("/root/{}", script.file()))])
            .arg(script.directives.boots.unwrap_or(1).to_string())
            .output();
        fs::remove_file(copy)?;
        let output = output.context("cannot start unshare")?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{} on Linux: {}: {said}", script.name, output.status);
        fs::write(script.expected(), output.stdout)?;
        println!("recorded debian/{}", script.name);
    }
    Ok(())
}

/// The script runs over the packages, which stay as they are: what it writes lies in memory.
const IN_ROOT: &str = r#"
set -e
mount --make-rprivate /
mount -t tmpfs -o size=2G none /mnt
mkdir /mnt/upper /mnt/work /mnt/root
mount -t overlay -o lowerdir="$1",upperdir=/mnt/upper,workdir=/mnt/work none /mnt/root
mount -t proc none /mnt/root/proc
for device in null zero full random urandom tty; do touch /mnt/root/dev/$device; mount --bind /dev/$device /mnt/root/dev/$device; done
mkdir -p /mnt/root/dev/pts /mnt/root/dev/shm
mount -t devpts -o newinstance,ptmxmode=0666 none /mnt/root/dev/pts
ln -sf pts/ptmx /mnt/root/dev/ptmx
ln -sf /proc/self/fd /mnt/root/dev/fd
chmod 1777 /mnt/root/dev/shm
mkdir /mnt/root/pmem
# It is the root of the name space, and not only of the program: others can be made in it as on a machine of its own.
cd /mnt/root
mount --move . /
for boot in $(seq "$3"); do
    env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=linux \
        chroot . sh -c 'cd /root && exec "$@"' sh /bin/sh "$2"
done
"#;
