//! What a running Tessera tells about itself for the report.

use crate::compare::session::{Outcome, Session, Task};
use crate::program::Invocation;
use crate::results::{Clock, System};
use anyhow::{bail, Result};

/// Texts from `/proc` of one boot.
pub struct Live {
    /// `/proc/self/maps` of a process.
    pub maps: String,
    /// Names of the kernel's counters and by how much each operation raises them.
    pub events: Vec<Events>,
    /// `/proc/tessera/capabilities`, empty if there is no such file.
    pub capabilities: String,
}

/// What the kernel counted during one operation.
pub struct Events {
    pub operation: &'static str,
    pub counters: Vec<(String, i64)>,
}

/// Shell commands; each is done `TIMES` times between two looks at the counters.
const OPERATIONS: [(&str, &str); 3] = [
    ("a subshell: fork, exit, wait", "( : )"),
    ("a program: fork, exec, exit, wait", "busybox true"),
    ("a pipeline of two programs", "busybox true | busybox true"),
];
const TIMES: i64 = 10;

pub fn ask(session: &Session) -> Result<Live> {
    let mut script = String::from("echo @maps; /bin/cat /proc/self/maps; echo @events;");
    for command in std::iter::once(":").chain(OPERATIONS.map(|(_, command)| command)) {
        let loop_of = format!("i=0; while [ $i -lt {TIMES} ]; do {command}; i=$((i+1)); done;");
        script += &format!(
            "{loop_of} cat /proc/tessera/counters; {loop_of} echo @then; \
                            cat /proc/tessera/counters; echo @next;"
        );
    }
    script += "echo @capabilities; cat /proc/tessera/capabilities 2>/dev/null; true";
    let shell = ["sh", "-c", &script].map(String::from).to_vec();
    let task = Task::new(Invocation::new(shell, &[])?, Vec::new());
    let ended = match session.run(System::Tessera, Clock::Instructions, &task)? {
        Outcome::Ended(ended) => ended,
        Outcome::Failed { long, .. } => bail!("Tessera cannot be looked at: {long}"),
    };
    let text = String::from_utf8_lossy(&ended.output).into_owned();
    let part = |name: &str| {
        let from = text.split_once(&format!("@{name}\n")).map_or("", |(_, rest)| rest);
        from.to_owned()
    };
    let maps = part("maps").split("@events").next().unwrap_or_default().to_owned();
    Ok(Live { maps, events: events(&part("events")), capabilities: part("capabilities") })
}

/// Differences of the counters, less those of doing nothing.
fn events(text: &str) -> Vec<Events> {
    let mut differences = text.split("@next\n").filter_map(|part| {
        let (before, after) = part.split_once("@then\n")?;
        Some(counters(before, after))
    });
    let nothing = differences.next().unwrap_or_default();
    let operations = OPERATIONS.iter().zip(differences);
    operations
        .map(|((operation, _), all)| {
            let own = all.into_iter().map(|(name, count)| {
                let base = nothing.iter().find(|(other, _)| *other == name);
                let count = count - base.map_or(0, |(_, count)| *count);
                (name, (count + TIMES / 2).div_euclid(TIMES))
            });
            Events { operation, counters: own.collect() }
        })
        .collect()
}

fn counters(before: &str, after: &str) -> Vec<(String, i64)> {
    let parse = |line: &str| {
        let (name, value) = line.split_once(' ')?;
        Some((name.to_owned(), value.trim().parse::<i64>().ok()?))
    };
    let before: Vec<_> = before.lines().filter_map(parse).collect();
    let named = after.lines().filter_map(parse).filter_map(|(name, value)| {
        let (_, old) = before.iter().find(|(other, _)| *other == name)?;
        Some((name, value - old))
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_without_those_of_nothing() {
        let round = |from: i64, to: i64| format!("faults {from}\n@then\nfaults {to}\n@next\n");
        let text = round(0, 5) + &round(10, 115) + &round(200, 405) + &round(500, 505);
        let counts: Vec<_> = events(&text).iter().map(|one| one.counters[0].1).collect();
        assert_eq!(counts, [10, 20, 0]);
    }
}
