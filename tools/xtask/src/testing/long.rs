//! Cases that take long: a run of all tests does a third of them, each day another.

use super::Case;

const DAYS: usize = 3;

/// Suites all of whose cases do.
const SUITES: [&str; 5] = ["bench", "debian", "map", "monitors", "processors"];

/// What takes more than 12 seconds of a job elsewhere, on a machine with two cores; of programs and scripts each way to run them.
const NAMES: &[&str] = &[
    "cli/new_program",
    "cli/watch",
    "cores/hostile-requests",
    "cores/kept-busy",
    "disk/killed",
    "disk/many",
    "events/all",
    "linux/fanotify",
    "linux/fuzz_requests",
    "linux/grown_tables",
    "linux/hostile_badge",
    "linux/hostile_fanotify",
    "linux/hostile_ipc_spaces",
    "linux/hostile_listeners",
    "linux/hostile_names",
    "linux/hostile_network",
    "linux/hostile_pid_spaces",
    "linux/hostile_processes",
    "linux/hostile_realtime",
    "linux/leases",
    "linux/lent_memory",
    "linux/limits_enforced",
    "linux/many_files",
    "linux/oom",
    "linux/pageout",
    "linux/pageout_env",
    "linux/passing",
    "linux/paths_again",
    "linux/race_files",
    "linux/random_fork",
    "linux/stream_order",
    "linux/swap",
    "linux/swap_killed",
    "linux/timestamping",
    "linux/userfaultfd",
    "morsel/crash",
    "morsel/crash-atomic",
    "morsel/crash-atomic-memory",
    "morsel/crash-memory",
    "morsel/race",
    "morsel/race-8",
    "persistent/power-cut",
    "persistent/snapshots-power-cut",
    "share/at-once",
    "share/many",
    "shell/leaks",
    "shell/memory",
    "shell/no_space",
    "shell/sort_20mb",
];

/// What needs all programs built with probes, which takes longest of all: on the same day.
const WITH_PROBES: [&str; 4] =
    ["bench/cores-remote", "trace/many_cores", "trace/no_probes", "trace/pipeline"];

/// Leaves out those whose day is another.
pub fn of_day(cases: Vec<Case>, day: usize) -> Vec<Case> {
    let mut turn = day;
    let comes = |case: &Case| {
        if WITH_PROBES.contains(&&*case.name) {
            return day % DAYS == 1;
        }
        let is_long = is_long(&case.name);
        turn += usize::from(is_long);
        !is_long || turn % DAYS < 1
    };
    cases.into_iter().filter(comes).collect()
}

fn is_long(name: &str) -> bool {
    let suite = name.split('/').next().unwrap_or_default();
    let own = name.split('.').next().unwrap_or_default();
    SUITES.contains(&suite) || NAMES.contains(&own)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(cases: Vec<Case>) -> Vec<String> {
        cases.into_iter().map(|case| case.name).collect()
    }

    #[test]
    fn what_takes_long_comes_each_third_day() {
        let all = [
            "host/",
            "bench/mdb",
            "linux/oom.gcc",
            "linux/at.gcc",
            "map/uncached",
            "trace/pipeline",
        ];
        let cases = || all.map(|name| Case::several(name.into(), |_| Vec::new())).into();
        let days: Vec<Vec<String>> = (7..7 + DAYS).map(|day| names(of_day(cases(), day))).collect();
        for name in all {
            let times = days.iter().filter(|day| day.iter().any(|own| own == name)).count();
            let is_seldom = is_long(name) || name.starts_with("trace/");
            assert_eq!(times, if is_seldom { 1 } else { DAYS }, "{name}");
        }
    }
}
