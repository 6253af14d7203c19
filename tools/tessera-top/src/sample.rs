//! What `/proc` says at one moment.

use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::fs;
use std::time::Instant;

/// A process, in pages, milliseconds and numbers since its start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Process {
    pub pid: u32,
    pub parent: u32,
    pub state: String,
    pub threads: u64,
    pub cpu_ms: u64,
    pub mapped: u64,
    pub resident: u64,
    pub files: u64,
    pub faults: u64,
    pub copies: u64,
    pub tables: u64,
    pub shared_tables: u64,
    pub name: String,
}

/// One moment.
#[derive(Clone)]
pub struct Sample {
    pub at: Instant,
    /// Seconds since boot.
    pub uptime: f64,
    pub load: String,
    /// Of each core, ticks of 10 ms in all, and of these without work.
    pub cores: Vec<(u64, u64)>,
    /// KiB, by the names of `/proc/meminfo`.
    pub memory: BTreeMap<String, u64>,
    /// Bytes, by the names of `/proc/tessera/memory`.
    pub server: BTreeMap<String, u64>,
    /// Of the kernel, since boot.
    pub counters: BTreeMap<String, u64>,
    pub processes: Vec<Process>,
}

impl Sample {
    /// # Errors
    ///
    /// This is not Tessera.
    pub fn take() -> Result<Sample> {
        let read = |path: &str| {
            fs::read_to_string(path).with_context(|| format!("{path} (is this Tessera?)"))
        };
        let uptime = read("/proc/uptime")?;
        let load = read("/proc/loadavg")?;
        Ok(Sample {
            at: Instant::now(),
            uptime: uptime.split(' ').next().and_then(|text| text.parse().ok()).unwrap_or(0.0),
            load: load.split(' ').take(3).collect::<Vec<_>>().join(" "),
            cores: cores(&read("/proc/stat")?),
            memory: pairs(&read("/proc/meminfo")?),
            server: pairs(&read("/proc/tessera/memory")?),
            counters: pairs(&read("/proc/tessera/counters")?),
            processes: processes(&read("/proc/tessera/processes")?),
        })
    }

    /// A counter; 0 if there is none of this name.
    pub fn counter(&self, name: &str) -> u64 {
        self.counters.get(name).copied().unwrap_or(0)
    }
}

/// Lines of a name and a number.
fn pairs(text: &str) -> BTreeMap<String, u64> {
    let pair = |line: &str| {
        let mut words = line.split_whitespace();
        let name = words.next()?.trim_end_matches(':');
        Some((name.to_owned(), words.next()?.parse().ok()?))
    };
    text.lines().filter_map(pair).collect()
}

/// The lines of `/proc/stat` about cores.
fn cores(text: &str) -> Vec<(u64, u64)> {
    let core = |line: &str| {
        let rest = line.strip_prefix("cpu")?;
        rest.chars().next()?.is_ascii_digit().then_some(())?;
        let ticks: Vec<u64> =
            rest.split(' ').skip(1).filter_map(|word| word.parse().ok()).collect();
        Some((ticks.iter().sum(), *ticks.get(3)?))
    };
    text.lines().filter_map(core).collect()
}

/// The first line names the columns; the last one is the name, which may have spaces.
fn processes(text: &str) -> Vec<Process> {
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().unwrap_or_default().split(' ').collect();
    let process = |line: &str| {
        let words: Vec<&str> = line.splitn(names.len(), ' ').collect();
        let word = |name: &str| Some(*words.get(names.iter().position(|known| *known == name)?)?);
        let number = |name: &str| word(name).and_then(|word| word.parse().ok()).unwrap_or(0);
        Some(Process {
            pid: word("pid")?.parse().ok()?,
            parent: number("ppid") as u32,
            state: word("state")?.to_owned(),
            threads: number("threads"),
            cpu_ms: number("cpu_ms"),
            mapped: number("mapped"),
            resident: number("resident"),
            files: number("files"),
            faults: number("faults"),
            copies: number("copies"),
            tables: number("tables"),
            shared_tables: number("shared_tables"),
            name: word("name")?.to_owned(),
        })
    };
    lines.filter_map(process).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_each_kind() {
        let found = processes("pid ppid state resident name\n7 2 R 12 a name\n8 x\n");
        let expected = Process {
            pid: 7,
            parent: 2,
            state: "R".into(),
            resident: 12,
            name: "a name".into(),
            ..Process::default()
        };
        assert_eq!(found, [expected]);
        assert_eq!(cores("cpu  9 0 0 9 0\ncpu0 5 0 0 15 0\nintr 5\n"), [(20, 15)]);
        let memory = pairs("MemFree:     12 kB\nfree 7\nnothing\n");
        assert_eq!((memory["MemFree"], memory["free"], memory.len()), (12, 7, 2));
    }
}
