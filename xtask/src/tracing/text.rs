//! What a trace says, as text.

use crate::results::grouped;
use ::trace::dump::Dump;
use ::trace::profile::{label, who, Row, Tree};
use ::trace::timeline::{Name, Timeline};
use std::fmt::Write;

/// What the times of a trace are.
pub fn unit(dump: &Dump) -> &'static str {
    match dump.counts_instructions {
        true => "instructions",
        false => "ticks of the time-stamp counter",
    }
}

fn number(value: u64) -> String {
    grouped(value as f64)
}

/// How much there is, and what was left out.
pub fn summary(dump: &Dump, timeline: &Timeline) -> String {
    let programs: u64 = timeline.dispatchers.iter().map(|dispatcher| dispatcher.program).sum();
    let mut text = format!(
        "{} events on {} core{}; times are in {}\n\
         {} busy, of these {} in programs without probes; {} idle\n\
         {} were taken off for each event\n",
        number(timeline.events as u64),
        dump.cores.len(),
        if dump.cores.len() == 1 { "" } else { "s" },
        unit(dump),
        number(timeline.busy()),
        number(programs),
        number(timeline.idle),
        number(timeline.probe_cost),
    );
    if timeline.lost > 0 {
        let lost = number(timeline.lost);
        let _ = writeln!(text, "the buffers were full: {lost} later events are missing");
    }
    if timeline.strays > 0 {
        let strays = number(timeline.strays as u64);
        let _ = writeln!(text, "{strays} events did not fit to what was before them");
    }
    text
}

/// Functions, or kinds of episodes, in a table.
pub fn table<'a>(dump: &Dump, heading: &str, rows: impl Iterator<Item = &'a Row>) -> String {
    let mut text = format!(
        "{:>12} {:>16} {:>16} {:>12}  {heading}\n",
        "calls", "own time", "with callees", "median call"
    );
    for row in rows {
        let _ = writeln!(
            text,
            "{:>12} {:>16} {:>16} {:>12}  {}",
            number(row.count as u64),
            number(row.own),
            number(row.total),
            row.median().map_or("-".into(), number),
            label(dump, row.name)
        );
    }
    text
}

/// Is this a row of an episode?
pub fn is_episode(row: &Row) -> bool {
    matches!(row.name, Name::Episode(_))
}

/// A call tree: time with callees, own time, name.
pub fn tree(dump: &Dump, timeline: &Timeline, tree: &Tree) -> String {
    let mut text = format!("{:>14} {:>12}  \n", "with callees", "own time");
    let whose = who(dump, timeline, tree.dispatcher);
    branch(&mut text, dump, timeline, tree, &[], &whose);
    let elsewhere = tree.elsewhere();
    if elsewhere > 0 {
        let _ =
            writeln!(text, "{:>14} {:>12}  by others, while this waited", number(elsewhere), "");
    }
    text
}

fn branch(
    text: &mut String,
    dump: &Dump,
    timeline: &Timeline,
    tree: &Tree,
    above: &[bool],
    whose: &str,
) {
    let lines: String = match above.split_last() {
        None => String::new(),
        Some((last, before)) => {
            let bars = before.iter().map(|more| if *more { "│ " } else { "  " });
            bars.collect::<String>() + if *last { "├─" } else { "└─" }
        }
    };
    let own = who(dump, timeline, tree.dispatcher);
    let marked =
        if own == whose && !above.is_empty() { String::new() } else { format!("  [{own}]") };
    let times = if tree.count > 1 { format!("  ×{}", tree.count) } else { String::new() };
    let name = label(dump, tree.name);
    let (total, time) = (number(tree.total), number(tree.own));
    let _ = writeln!(text, "{total:>14} {time:>12}  {lines}{name}{times}{marked}");
    for (n, child) in tree.children.iter().enumerate() {
        let mut next = above.to_vec();
        next.push(n + 1 < tree.children.len());
        branch(text, dump, timeline, child, &next, &own);
    }
}
