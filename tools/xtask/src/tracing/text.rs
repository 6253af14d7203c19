//! What a trace says, as text.

use crate::results::grouped;
use ::trace::dump::Dump;
use ::trace::profile::{label, shares, short, who, Row, Tree};
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
    if dump.begins_with_program {
        text +=
            "from the first program on; ./x run --trace-boot shows the start of the system too\n";
    }
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
            short(&label(dump, row.name))
        );
    }
    text
}

/// Whose time it was.
pub fn processes(dump: &Dump, timeline: &Timeline) -> String {
    let mut text = format!(
        "{:>12} {:>12} {:>12} {:>12} {:>8} {:>8}  who\n",
        "all", "program", "library", "kernel", "faults", "calls"
    );
    for share in shares(dump, timeline) {
        let times = [share.total(), share.program, share.library, share.kernel].map(number);
        let [all, program, library, kernel] = times;
        let _ = writeln!(
            text,
            "{all:>12} {program:>12} {library:>12} {kernel:>12} {:>8} {:>8}  {}",
            number(share.faults as u64),
            number(share.calls as u64),
            share.who
        );
    }
    text
}

/// Is this a row of an episode?
pub fn is_episode(row: &Row) -> bool {
    matches!(row.name, Name::Episode(_))
}

/// A call tree: time with callees, own time, name; calls more than `depth` levels down are not shown.
pub fn tree(dump: &Dump, timeline: &Timeline, tree: &Tree, depth: usize) -> String {
    let mut text = format!("{:>14} {:>12}\n", "with callees", "own time");
    let whose = who(dump, timeline, tree.dispatcher);
    Branches { dump, timeline, depth }.write(&mut text, tree, &[], &whose);
    let elsewhere = tree.elsewhere();
    if elsewhere > 0 {
        let _ =
            writeln!(text, "{:>14} {:>12}  by others, while this waited", number(elsewhere), "");
    }
    text
}

/// Writes the lines of a tree.
struct Branches<'a> {
    dump: &'a Dump,
    timeline: &'a Timeline,
    depth: usize,
}

impl Branches<'_> {
    /// `above`: for each level, whether more comes there below this line. `whose`: who did what is one
    /// level up.
    fn write(&self, text: &mut String, tree: &Tree, above: &[bool], whose: &str) {
        let lines: String = match above.split_last() {
            None => String::new(),
            Some((last, before)) => {
                let bars = before.iter().map(|more| if *more { "│ " } else { "  " });
                bars.collect::<String>() + if *last { "├─" } else { "└─" }
            }
        };
        let own = who(self.dump, self.timeline, tree.dispatcher);
        let mut name = short(&label(self.dump, tree.name));
        if tree.count > 1 {
            name += &format!("  ×{}", tree.count);
        }
        if own != whose || above.is_empty() {
            name += &format!("  [{own}]");
        }
        let is_cut = above.len() == self.depth && !tree.children.is_empty();
        if is_cut {
            name += "  …";
        }
        let (total, time) = (number(tree.total), number(tree.own));
        let _ = writeln!(text, "{total:>14} {time:>12}  {lines}{name}");
        if is_cut {
            return;
        }
        for (n, child) in tree.children.iter().enumerate() {
            let next = [above, &[n + 1 < tree.children.len()]].concat();
            self.write(text, child, &next, &own);
        }
    }
}
