//! Where the instructions of an operation go: from a function trace of a shell at work.

use super::chart::{MARGIN, WIDTH};
use super::svg::{Anchor, Drawing};
use super::table::{table_of, Cell};
use crate::results::{grouped, Direction};
use crate::tracing;
use ::trace::dump::Dump;
use ::trace::profile::{matching, Tree, Trees};
use ::trace::timeline::{Name, Timeline};
use anyhow::{Context, Result};
use maud::Markup;
use std::fs;
use std::path::Path;

/// What a program leaves user mode for, and what that is called in a trace.
const OPERATIONS: [(&str, &[&str]); 4] = [
    ("a page fault", &["page fault"]),
    ("a fork", &tracing::command::FORKS),
    ("an exec", &["system call execve"]),
    ("a wait", &["system call wait4"]),
];

/// Parts of the system and the source files of them: the first whose beginning fits.
const PARTS: [(&str, &[&str]); 9] = [
    ("mapping database", &["crates/kernel/mdb/", "kernel/src/cap/db.rs"]),
    (
        "zeroing and copying",
        &[
            "kernel/src/object/mem.rs",
            "kernel/src/arch/x86_64/pages.rs",
            "library/compiler-builtins/",
        ],
    ),
    (
        "page tables, TLB",
        &["kernel/src/vspace/", "crates/kernel/paging/", "crates/kernel/shootdown/"],
    ),
    (
        "messages, scheduling",
        &[
            "kernel/src/dispatch/",
            "kernel/src/events/",
            "kernel/src/ipc/",
            "kernel/src/arch/",
            "crates/protocol/ump/",
        ],
    ),
    ("capabilities", &["kernel/src/", "crates/kernel/captypes/"]),
    ("UVM", &["crates/user/uvm/", "crates/user/pmap/"]),
    ("libunix", &["lib/libunix/", "lib/linuxdomain/"]),
    ("unixd", &["servers/unixd/", "crates/storage/", "crates/kernel/bootarchive/"]),
    ("the rest", &[""]),
];

/// An operation, the mean of all that were done.
pub struct Breakdown {
    operation: &'static str,
    times: usize,
    /// Instructions in each of [`PARTS`].
    parts: [f64; PARTS.len()],
}

impl Breakdown {
    fn total(&self) -> f64 {
        self.parts.iter().sum()
    }
}

/// Of a trace.
pub fn read(file: &Path) -> Result<Vec<Breakdown>> {
    let bytes = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    let dump = Dump::from_bytes(&bytes).with_context(|| format!("{}", file.display()))?;
    let timeline = Timeline::shown(&dump);
    let trees = Trees::new(&timeline);
    let of = |(operation, patterns): (&'static str, &[&str])| {
        let calls: Vec<_> =
            patterns.iter().flat_map(|pattern| matching(&dump, &timeline, pattern)).collect();
        let mut parts = [0.0; PARTS.len()];
        calls.iter().for_each(|&call| add(&mut parts, &dump, &timeline, &trees.of(call)));
        parts.iter_mut().for_each(|part| *part /= calls.len() as f64);
        (!calls.is_empty()).then_some(Breakdown { operation, times: calls.len(), parts })
    };
    Ok(OPERATIONS.into_iter().filter_map(of).collect())
}

/// The time of a tree, with what servers did for it, but not what other processes did meanwhile.
fn add(parts: &mut [f64], dump: &Dump, timeline: &Timeline, tree: &Tree) {
    parts[part_of(dump, tree.name)] += tree.own as f64;
    for child in &tree.children {
        let is_process = |id: usize| timeline.dispatchers[id].process.is_some();
        if child.dispatcher == tree.dispatcher || !child.dispatcher.is_some_and(is_process) {
            add(parts, dump, timeline, child);
        }
    }
}

fn part_of(dump: &Dump, name: Name) -> usize {
    let file = match name {
        Name::Function(number) => dump.functions.get(&number).map_or("", |found| &found.file),
        Name::Episode(_) => "",
    };
    let fits = |(_, beginnings): &(&str, &[&str])| {
        beginnings.iter().any(|beginning| file.starts_with(beginning))
    };
    PARTS.iter().position(fits).unwrap_or(PARTS.len() - 1)
}

/// A bar for each operation, all of the same length: shares, with the totals beside the names.
pub fn picture(all: &[Breakdown]) -> Markup {
    let mut drawing = Drawing::default();
    let room = WIDTH - 2.0 * MARGIN;
    let title = "Where the instructions go";
    drawing.text(MARGIN, 20.0, Anchor::Start, "title", title);
    let meaning = format!("instructions, {}; shares of all", Direction::Lower.words());
    drawing.text(MARGIN, 38.0, Anchor::Start, "faint", &meaning);
    let series = |n: usize| format!("series-{n}");
    let entries: Vec<(String, &str)> =
        PARTS.iter().enumerate().map(|(n, (part, _))| (series(n), *part)).collect();
    let mut y = drawing.legend((MARGIN, 48.0), room, &entries) + 20.0;
    for one in all {
        let total = one.total();
        let name = format!("{} (mean of {})", one.operation, one.times);
        drawing.text(MARGIN, y, Anchor::Start, "", &name);
        drawing.text(WIDTH - MARGIN, y, Anchor::End, "faint", &grouped(total.round()));
        let mut x = MARGIN;
        for (n, part) in one.parts.iter().enumerate().filter(|(_, part)| **part > 0.0) {
            let width = part / total * room;
            let text = format!("{}: {}", PARTS[n].0, grouped(part.round()));
            drawing.rectangle([x, y + 8.0, width, 22.0], &format!("{} fill", series(n)), &text);
            x += width;
        }
        y += 58.0;
    }
    drawing.inline(WIDTH, y - 14.0, title)
}

/// The same in numbers.
pub fn table(all: &[Breakdown]) -> Markup {
    let row = |name: &str, value: &dyn Fn(&Breakdown) -> f64| {
        let values = all.iter().map(|one| Cell::new(grouped(value(one).round())));
        std::iter::once(Cell::new(name)).chain(values).collect::<Vec<Cell>>()
    };
    let parts = PARTS.iter().enumerate().map(|(n, (part, _))| row(part, &|one| one.parts[n]));
    let rows = parts.chain([row("together", &Breakdown::total)]).collect();
    let heading = format!("instructions {}", Direction::Lower.arrow());
    let mut columns = vec![heading.as_str()];
    columns.extend(all.iter().map(|one| one.operation));
    table_of(&columns, rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::trace::dump::Function;

    #[test]
    fn functions_belong_to_parts() {
        let files = [
            ("crates/kernel/mdb/src/tree.rs", "mapping database"),
            ("kernel/src/cap/db.rs", "mapping database"),
            ("kernel/src/cap/retype.rs", "capabilities"),
            ("kernel/src/invoke/mod.rs", "capabilities"),
            ("kernel/src/vspace/map.rs", "page tables, TLB"),
            ("kernel/src/arch/x86_64/pages.rs", "zeroing and copying"),
            ("kernel/src/dispatch/mod.rs", "messages, scheduling"),
            ("kernel/src/events/mod.rs", "messages, scheduling"),
            ("crates/user/uvm/src/space.rs", "UVM"),
            ("library/alloc/src/vec/mod.rs", "the rest"),
            ("", "the rest"),
        ];
        let mut dump = Dump::default();
        for ((file, _), n) in files.iter().zip(0..) {
            // All of them methods of the same type, whose path says nothing.
            let name = "<kernel::driver::CpuDriver>::do_it".to_owned();
            dump.functions.insert(n, Function { image: 0, name, file: (*file).to_owned() });
        }
        for ((file, part), n) in files.iter().zip(0..) {
            assert_eq!(PARTS[part_of(&dump, Name::Function(n))].0, *part, "{file}");
        }
    }

    #[test]
    fn shares_fill_the_bar() {
        let mut parts = [0.0; PARTS.len()];
        (parts[0], parts[5]) = (300.0, 100.0);
        let one = Breakdown { operation: "a fork", times: 3, parts };
        let picture = picture(&[one]).into_string();
        assert!(picture.contains(">400</text>"), "{picture}");
        assert!(picture.contains("width=\"273.0\"") && picture.contains("width=\"91.0\""));
    }
}
