//! A table for each figure: the three kernels side by side, what two of them gain, and what the paper's did.

use super::{gain_of, GAINING};
use crate::compare::table::Table;
use crate::map::Map;
use crate::papers::facts::{Facts, Key};
use crate::results::{grouped, Measurement};

/// What begins the names of the figures.
const PREFIX: &str = "SFB-";

/// All figures of which something was measured.
pub(super) fn render(facts: &Facts, all: &[Measurement]) -> String {
    let figures = facts.titles.iter().filter(|(name, _)| name.starts_with(PREFIX));
    figures.map(|(name, title)| figure(facts, name, title, all)).collect()
}

fn figure(facts: &Facts, name: &str, title: &str, all: &[Measurement]) -> String {
    let own: Vec<_> = all.iter().filter(|one| one.question.benchmark == name).collect();
    if own.is_empty() {
        return String::new();
    }
    let words =
        [title, "cores", "uncached", "cache", "direct", "cache +%", "paper", "direct +%", "paper"];
    let mut table = Table::new(words.map(String::from).to_vec());
    for (label, unit, cores) in rows(&own) {
        let value = |case: &str| find(&own, case, cores).and_then(|one| one.median());
        let shown = |value: Option<f64>| value.map_or(String::new(), grouped);
        let of_kernel = |map: Map| {
            value(&case_of(&label, map))
                .or_else(|| (map == Map::Uncached).then(|| value(&label)).flatten())
        };
        let mut row = vec![format!("{label} [{unit}]").trim_start().to_owned(), grouped(cores)];
        row.extend(Map::ALL.map(|map| shown(of_kernel(map))));
        for map in GAINING {
            let case = if label.is_empty() { gain_of(map) } else { label.clone() };
            let gain = value(&gain_of(map)).filter(|_| label.is_empty());
            row.push(gain.map_or(String::new(), |gain| format!("{gain:+.1}")));
            let key = Key { figure: name.to_owned(), case, size: Some(cores) };
            let paper = facts.paper(&key).filter(|_| label.is_empty() || map == Map::Cache);
            row.push(paper.map_or(String::new(), |(paper, _)| grouped(paper)));
        }
        table.row(row);
    }
    let mut text = table.render();
    let of = |texts: &[(String, String)], label: &str| -> String {
        let own = texts.iter().filter(|(figure, _)| figure == name);
        own.map(|(_, words)| format!("  {label}: {words}\n")).collect()
    };
    text += &of(&facts.says, "The paper");
    text += &of(&facts.differs, "Differs");
    text.push('\n');
    text
}

/// The case of a kernel in the rows with a label.
fn case_of(label: &str, map: Map) -> String {
    // Of counts the kernel comes first, of others last.
    match label {
        "" => map.name().to_owned(),
        "hits" | "misses" | "local" | "remote" => format!("{}, {label}", map.name()),
        other => format!("{other}, {}", map.name()),
    }
}

fn find<'a>(own: &[&'a Measurement], case: &str, cores: f64) -> Option<&'a Measurement> {
    own.iter().copied().find(|one| {
        one.question.case == case && one.question.at.as_ref().is_some_and(|at| at.value == cores)
    })
}

/// What the cases are about but for the kernels, the unit, and how many cores; gains are columns, and no rows.
fn rows(own: &[&Measurement]) -> Vec<(String, String, f64)> {
    let mut rows = Vec::new();
    for one in own.iter().filter(|one| !one.question.case.ends_with(", gain")) {
        let words = one.question.case.split(", ");
        let label: Vec<_> =
            words.filter(|word| Map::ALL.iter().all(|map| map.name() != *word)).collect();
        let cores = one.question.at.as_ref().map_or(0.0, |at| at.value);
        let row = (label.join(", "), one.question.unit.clone(), cores);
        if !rows.contains(&row) {
            rows.push(row);
        }
    }
    rows
}
