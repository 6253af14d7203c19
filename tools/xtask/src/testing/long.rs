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
    "linux/hostile_sock_diag",
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
    "net/survives",
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
    let mut of_suites = 0..;
    let comes = |case: &Case| match turn(&case.name, &mut of_suites) {
        Some(turn) => turn % DAYS == day % DAYS,
        None => true,
    };
    cases.into_iter().filter(comes).collect()
}

/// The days of a case, if it takes long. It does not depend on what else there is that day; `of_suites` numbers those of whole suites.
fn turn(name: &str, of_suites: &mut impl Iterator<Item = usize>) -> Option<usize> {
    if WITH_PROBES.contains(&name) {
        return Some(1);
    }
    let suite = name.split('/').next().unwrap_or_default();
    match SUITES.contains(&suite) {
        true => of_suites.next(),
        false => place(name),
    }
}

fn place(name: &str) -> Option<usize> {
    let own = name.split('.').next();
    NAMES.iter().position(|long| own == Some(long))
}

/// How many of its days came before this one: each day of what does not take long.
pub fn turns(name: &str, day: usize) -> usize {
    match place(name) {
        Some(_) => day / DAYS,
        None => day,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_long_comes_each_third_day() {
        const OFTEN: [&str; 3] = ["host/", "linux/at.gcc", "trace/wrong_files"];
        let seldom = ["bench/mdb", "linux/oom.gcc", "map/uncached", "trace/pipeline"];
        let all = OFTEN.into_iter().chain(seldom);
        let mut times = std::collections::BTreeMap::new();
        for day in 7..7 + DAYS {
            // What comes on some days only is no matter to the others.
            let more = (day % 2 == 0).then_some("linux/oom.homes");
            let names = more.into_iter().chain(all.clone());
            let cases = names.map(|name| Case::several(name.into(), |_| Vec::new())).collect();
            for case in of_day(cases, day) {
                *times.entry(case.name).or_insert(0) += 1;
            }
        }
        for name in all {
            let wanted = if OFTEN.contains(&name) { DAYS } else { 1 };
            assert_eq!(times.get(name), Some(&wanted), "{name}");
        }
    }
}
