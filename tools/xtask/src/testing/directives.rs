//! What a test's source says about how to run it.
//!
//! Directives are lines `// KEY: VALUE` (in scripts `# KEY: VALUE`) in the comment at its start:
//!
//! | key | value |
//! |---|---|
//! | `deb` | Debian's packages that a script of `debian` needs |
//! | `build` | which of `gcc`, `pie`, `musl`, `dynamic` (default: all but the last) |
//! | `args` | arguments, separated by spaces |
//! | `long-args` | the same for when the test is asked for by its name; then it has an hour |
//! | `env` | one `KEY=VALUE`; may be repeated |
//! | `stdin` | text for standard input, with `\n` |
//! | `gives` | `requests`: standard input is the table of requests to `unixd`; `TESSERA_SEED` and `TESSERA_OPS` replace the first two arguments |
//! | `expect-status` | exit status (default 0) |
//! | `expect-stdout` | text, with `\n`; else the file NAME.out beside the source |
//! | `oracle` | `linux`: NAME.out is recorded from Linux by `./x test --record` |
//! | `cores`, `nodes` | the machine's |
//! | `mem` | the machine's; with cores that the test does not ask for it has 8 MiB more for each, about what that takes for itself |
//! | `nvdimm` | bytes of persistent memory, which was never used |
//! | `boots` | how often the machine is started, with the same persistent memory: a script sees what it has left there (default 1) |
//! | `swap` | bytes of a disk for pages that leave memory |
//! | `swap-errors` | what of that fails: `write after 100` (requests), `read of 2048` (a sector) |
//! | `timeout` | seconds after which it counts as hung, however slow the machine is (default 120) |
//! | `runs` | `when its suite is asked for`: a run of all tests leaves it out |
//! | `kernel` | further words of the kernel's command line; `check=1` checks its invariants at the end |
//! | `keeps` | bytes that the servers may keep after the session (default 0: all memory comes back) |
//! | `shell` | which of `sh`, `bash` runs a script (default `sh`) |

use crate::machine::{parse_size, MachineOptions};
use anyhow::{bail, Context, Result};
use std::time::Duration;

/// A test that takes a second on a quiet machine may take half a minute beside others on a loaded one.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(120);

/// What a core takes for its kernel's database, its servers and their reserve, about.
const CORE_MIB: u64 = 8;

/// A build with shared libraries: the way most programs are made, but not what most tests are about.
pub const DYNAMIC: &str = "dynamic";
/// All of them.
pub const BUILDS: [&str; 4] = ["gcc", "pie", "musl", DYNAMIC];

#[derive(Clone, Debug, Default)]
pub struct Directives {
    pub builds: Vec<String>,
    pub shells: Vec<String>,
    pub packages: Vec<String>,
    pub arguments: Vec<String>,
    pub long_arguments: Option<Vec<String>>,
    pub environment: Vec<String>,
    pub stdin: Vec<u8>,
    /// See `gives`.
    pub gives_requests: bool,
    pub expected_status: Option<i32>,
    pub expected_stdout: Option<Vec<u8>>,
    pub linux_is_oracle: bool,
    pub timeout: Option<Duration>,
    pub memory: Option<String>,
    pub cores: Option<u32>,
    pub nodes: Option<u32>,
    /// Bytes of persistent memory, as on the command line.
    pub nvdimm: Option<String>,
    /// How often the machine is started.
    pub boots: Option<u32>,
    /// It takes long: a run of all tests leaves it out.
    pub when_asked: bool,
    /// A disk for pages that leave memory, as on the command line.
    pub swap: Option<String>,
    /// What it fails to do.
    pub swap_errors: Option<String>,
    /// Features that the processor lacks.
    pub without: Vec<String>,
    pub command_line: String,
    pub kept: u64,
}

const KEYS: [&str; 23] = [
    "deb",
    "build",
    "args",
    "long-args",
    "env",
    "stdin",
    "expect-status",
    "expect-stdout",
    "oracle",
    "mem",
    "cores",
    "nodes",
    "nvdimm",
    "boots",
    "swap",
    "swap-errors",
    "timeout",
    "runs",
    "shell",
    "kernel",
    "keeps",
    "gives",
    "why",
];

impl Directives {
    /// Reads those of a source whose comments start with `mark`.
    pub fn parse(source: &str, mark: &str) -> Result<Directives> {
        let mut directives = Directives::default();
        let comment = source.lines().skip_while(|line| line.starts_with("#!"));
        for line in comment.map_while(|line| line.strip_prefix(mark)) {
            if let Some((key, value)) = line.trim().split_once(':') {
                if KEYS.contains(&key) {
                    directives.set(key, value.trim()).with_context(|| format!("in {line:?}"))?;
                }
            }
        }
        Ok(directives)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<()> {
        let list = || value.split(',').map(|word| word.trim().to_owned()).collect();
        match key {
            "build" => {
                self.builds = list();
                if let Some(unknown) = self.builds.iter().find(|it| !BUILDS.contains(&it.as_str()))
                {
                    bail!("there is no build {unknown:?}");
                }
            }
            "shell" => self.shells = list(),
            "deb" => self.packages = list(),
            "args" => self.arguments = words(value),
            "long-args" => self.long_arguments = Some(words(value)),
            "env" => self.environment.push(value.to_owned()),
            "stdin" => self.stdin = unescape(value),
            "expect-status" => self.expected_status = Some(value.parse()?),
            "expect-stdout" => self.expected_stdout = Some(unescape(value)),
            "boots" => self.boots = Some(value.parse()?),
            "oracle" if value == "linux" => self.linux_is_oracle = true,
            "gives" if value == "requests" => self.gives_requests = true,
            "keeps" => self.kept = value.parse()?,
            "kernel" => self.command_line = value.to_owned(),
            "runs" if value == "when its suite is asked for" => self.when_asked = true,
            "mem" => self.memory = Some(value.to_owned()),
            "cores" => self.cores = Some(value.parse()?),
            "nodes" => self.nodes = Some(value.parse()?),
            "nvdimm" => self.nvdimm = Some(value.to_owned()),
            "swap" => self.swap = Some(value.to_owned()),
            "swap-errors" => self.swap_errors = Some(value.to_owned()),
            "timeout" => self.timeout = Some(Duration::from_secs(value.parse()?)),
            "why" => {}
            _ => bail!("{key} cannot be {value:?}"),
        }
        Ok(())
    }

    /// Is the program to be tested in this build?
    pub fn wants(&self, build: &str) -> bool {
        self.builds.is_empty() && build != DYNAMIC
            || self.builds.iter().any(|wanted| wanted == build)
    }

    /// The machine to run on, with so many cores unless the test says.
    pub fn machine(&self, cores: u32) -> Result<MachineOptions> {
        let mut mem = parse_size(self.memory.as_deref().unwrap_or("512M"))?;
        if self.cores.is_none() {
            mem.mib += CORE_MIB * u64::from(cores.saturating_sub(1));
        }
        Ok(MachineOptions {
            cores: self.cores.unwrap_or(cores),
            nodes: self.nodes.unwrap_or(1),
            mem,
            without: self.without.clone(),
            ..MachineOptions::default()
        })
    }

    pub fn timeout(&self) -> Duration {
        self.timeout.unwrap_or(DEFAULT_TIMEOUT)
    }

    /// The test is asked for by its name: whoever does has time.
    pub fn lengthen(&mut self) {
        if let Some(arguments) = self.long_arguments.take() {
            self.arguments = arguments;
            self.timeout = Some(Duration::from_secs(3600));
        }
    }
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(String::from).collect()
}

fn unescape(text: &str) -> Vec<u8> {
    text.replace("\\n", "\n").replace("\\t", "\t").replace("\\0", "\0").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_first_comment_only() {
        let source = "// A test of things: many.\n// build: gcc, musl\n// stdin: a\\nb\n// oracle: linux\n\n// mem: 1G\n";
        let directives = Directives::parse(source, "//").unwrap();
        assert_eq!(directives.builds, ["gcc", "musl"]);
        assert_eq!(directives.stdin, b"a\nb");
        assert!(directives.linux_is_oracle && directives.memory.is_none());
        assert!(Directives::parse("# oracle: bsd\n", "#").is_err());
    }
}
