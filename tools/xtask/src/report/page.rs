//! The page: everything in one file, nothing from a network.

use super::breakdown::{self, Breakdown};
use super::chart::{bars, by_case, by_size, is_best, Figure, WIDTH};
use super::live::{Events, Live};
use super::svg::STYLE;
use super::table::{table, table_of, Cell};
use super::{memory, tree};
use crate::compare::questions;
use crate::results::{grouped, Clock, Measurement, Question, System};
use maud::{html, Markup, PreEscaped, DOCTYPE};

const PAGE_STYLE: &str = include_str!("page.css");

/// What stands around everything, in every page.
pub fn document(title: &str, content: Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                style { (PreEscaped(STYLE)) "\n" (PreEscaped(PAGE_STYLE)) }
            }
            body { main { h1 { (title) } (content) } }
        }
    }
}

/// The whole page.
pub fn page(all: &[Measurement], live: &Live, breakdown: &[Breakdown]) -> Markup {
    let content = html! {
        (introduction(all))
        (of_clock(all, Clock::Instructions, "Instructions"))
        (of_clock(all, Clock::Wall, "Wall time"))
        (of_running_system(live, breakdown))
    };
    document("Tessera beside Linux", content)
}

fn introduction(all: &[Measurement]) -> Markup {
    html! {
        p {
            "The same static programs in the same emulator. ↓ stands where lower is better, ↑ where \
             higher is; the best of the systems is bold, in figures and tables. A ratio below 1 means \
             that Tessera does better: of rates it is turned round. Instructions are those of the program, its library and the kernel together, \
             counted by the emulator; they repeat exactly. Wall time is that of the emulator, which \
             has neither the caches nor the TLB of a processor. Where a paper prints a number for the \
             same, it stands beside ours: cycles of its authors' machine, so that shapes may be \
             compared and heights may not."
        }
        (machines(all.iter()))
    }
}

/// Figures and numbers of one clock, if it measured anything.
fn of_clock(all: &[Measurement], clock: Clock, title: &str) -> Markup {
    let own: Vec<&Measurement> = all.iter().filter(|one| one.question.clock == clock).collect();
    if own.is_empty() {
        return html! {};
    }
    html! {
        h2 { (title) }
        (summary(&own))
        div.figures.measured { @for figure in figures(&own, WIDTH) { figure { (figure.inline()) } } }
        details open { summary { "All numbers" } (numbers(all, clock)) }
    }
}

fn of_running_system(live: &Live, breakdown: &[Breakdown]) -> Markup {
    let narrow = |picture: Markup| html! { figure.narrow { (picture) } };
    html! {
        h2 { "Where the kernel is involved" }
        p { "What Tessera's CPU driver counts during one operation of a shell." }
        (events(&live.events))
        @if !breakdown.is_empty() {
            h2 { "Where the instructions go" }
            p {
                "Of what a shell's programs left user mode for, by a function trace of the kernel, the \
                 library and the servers; without the program itself, and without what other \
                 processes did meanwhile."
            }
            div.measured { (narrow(breakdown::picture(breakdown))) }
            (breakdown::table(breakdown))
        }
        h2 { "The memory of a process" }
        p {
            "The regions of " code { "cat" } " as its own library keeps them. Heights grow with the \
             logarithm of the size."
        }
        (narrow(memory::picture(&live.maps)))
        @if let Some(picture) = tree::picture(&live.capabilities) {
            h2 { "The capabilities of a running system" }
            p {
                "Every distinct capability to memory of the first core while a shell runs a program, below \
                 what it was made from, and behind the colon in whose slots it and its copies are: processes \
                 with their numbers, servers, and init, the first domain. Those of one type and the same owners \
                 below the same parents are drawn as one."
            }
            (narrow(picture))
            @if let Some(table) = tree::owners(&live.capabilities) {
                p {
                    "How many capabilities each of them has, and the memory of its Frames. What several have, \
                     a page that a fork shares or a frame between a process and its server, counts for each."
                }
                (table)
            }
        }
    }
}

/// Where and from which commit the measurements are.
pub fn machines<'a>(all: impl Iterator<Item = &'a Measurement>) -> Markup {
    let mut lines: Vec<String> = all
        .filter(|one| one.system != System::Paper)
        .map(|one| format!("{}; commit {}", one.provenance.machine, one.provenance.commit))
        .collect();
    lines.sort();
    lines.dedup();
    html! { ul.faint { @for line in &lines { li { (line) } } } }
}

/// The figures of some measurements of one clock: of each benchmark one for each case with sizes,
/// and one for all other cases.
pub fn figures(own: &[&Measurement], width: f64) -> Vec<Figure> {
    let mut figures = Vec::new();
    for benchmark in names(own) {
        let of: Vec<&Measurement> =
            own.iter().filter(|one| one.question.benchmark == benchmark).copied().collect();
        let title = benchmark.replace('_', " ");
        let (sized, single): (Vec<_>, Vec<_>) =
            of.into_iter().partition(|one| one.question.at.is_some());
        let mut cases: Vec<&str> = Vec::new();
        for one in &sized {
            if !cases.contains(&one.question.case.as_str()) {
                cases.push(&one.question.case);
            }
        }
        if is_paper_figure(benchmark) {
            figures.extend(figure_of_paper(&title, &sized, width));
            cases.clear();
        }
        for case in cases {
            let of_case: Vec<_> =
                sized.iter().filter(|one| one.question.case == case).copied().collect();
            figures.push(by_size(&format!("{title}: {case}"), &of_case, width));
        }
        if !single.is_empty() {
            figures.push(bars(&title, &single, width));
        }
    }
    figures
}

/// Figures of the papers (`./x bench papers`, `./x bench sfb`) show their cases side by side.
fn is_paper_figure(benchmark: &str) -> bool {
    ["G12-", "G18-", "SFB-"].iter().any(|paper| benchmark.starts_with(paper))
}

/// A figure for each unit.
fn figure_of_paper(title: &str, sized: &[&Measurement], width: f64) -> Vec<Figure> {
    let mut units: Vec<&str> = Vec::new();
    for one in sized {
        if !units.contains(&one.question.unit.as_str()) {
            units.push(&one.question.unit);
        }
    }
    let of_unit = |unit: &str| {
        let own: Vec<_> = sized.iter().filter(|one| one.question.unit == unit).copied().collect();
        let title = match units.len() {
            1 => title.to_owned(),
            _ => format!("{title}: {unit}"),
        };
        by_case(&title, &own, width)
    };
    units.iter().map(|unit| of_unit(unit)).collect()
}

/// The benchmarks, in their order.
fn names<'a>(own: &[&'a Measurement]) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for one in own {
        if !names.contains(&one.question.benchmark.as_str()) {
            names.push(&one.question.benchmark);
        }
    }
    names
}

/// A line for each benchmark that Linux did, too: how its ratios to Linux are spread; means are geometric.
fn summary(own: &[&Measurement]) -> Markup {
    const COLUMNS: [&str; 5] = ["benchmark", "least", "mean", "greatest", "to Linux, THP"];
    let row = |benchmark: &str| {
        let of = |system| ratios(own, benchmark, system);
        let (plain, huge) = (of(System::Linux), of(System::LinuxThp));
        let least = plain.iter().copied().min_by(f64::total_cmp);
        let greatest = plain.iter().copied().max_by(f64::total_cmp);
        let ratios = [least, mean(&plain), greatest, mean(&huge)].map(ratio_cell);
        std::iter::once(Cell::new(benchmark.replace('_', " "))).chain(ratios).collect()
    };
    let compared = |benchmark: &&str| {
        let mut systems = [System::Linux, System::LinuxThp].into_iter();
        systems.any(|system| !ratios(own, benchmark, system).is_empty())
    };
    let rows: Vec<Vec<Cell>> = names(own).into_iter().filter(compared).map(row).collect();
    html! {
        @if !rows.is_empty() {
            p {
                "Ratios to Linux without huge pages, with their geometric mean, and the mean to \
                 Linux with them."
            }
            (table_of(&COLUMNS, rows))
        }
    }
}

/// What Tessera's medians cost in units of those of `system`.
fn ratios(own: &[&Measurement], benchmark: &str, system: System) -> Vec<f64> {
    let of = |system: System| own.iter().filter(move |one| one.system == system);
    let pairs = of(System::Tessera).filter(|one| one.question.benchmark == benchmark);
    pairs
        .filter_map(|one| {
            let other = of(system).find(|other| other.question == one.question)?;
            one.question.better.cost(one.median()?, other.median()?)
        })
        .collect()
}

/// The geometric mean.
fn mean(ratios: &[f64]) -> Option<f64> {
    let sum: f64 = ratios.iter().map(|ratio| ratio.ln()).sum();
    (!ratios.is_empty()).then(|| (sum / ratios.len() as f64).exp())
}

fn ratio_cell(ratio: Option<f64>) -> Cell {
    let Some(ratio) = ratio else { return Cell::nothing() };
    Cell::new(format_args!("{ratio:.2}")).marked("better", ratio < 1.0)
}

/// Everything that figures show, a row for each question and a column for each system.
fn numbers(all: &[Measurement], clock: Clock) -> Markup {
    let own: Vec<&Measurement> = all.iter().filter(|one| one.question.clock == clock).collect();
    let mut systems: Vec<System> = own.iter().map(|one| one.system).collect();
    systems.extend([System::Tessera, System::Linux]);
    systems.sort();
    systems.dedup();
    let row = |question: &Question| {
        let answer = |system: System| {
            own.iter().find(|one| one.question == *question && one.system == system).copied()
        };
        let median = |system| answer(system).and_then(Measurement::median);
        let others = [System::Linux, System::LinuxThp].into_iter().filter_map(median);
        let ratio = match (median(System::Tessera), question.better.best(others)) {
            (Some(own), Some(linux)) => question.better.cost(own, linux),
            _ => None,
        };
        let cell = |system: System| match answer(system) {
            Some(one) => match one.median() {
                Some(median) => Cell::new(grouped(median)).marked("best", is_best(one, &own)),
                None => Cell::new("not supported").marked("faint", true),
            },
            None => Cell::nothing(),
        };
        let mut cells = vec![Cell::new(question)];
        cells.extend(systems.iter().map(|&system| cell(system)));
        cells.push(unit_cell(question));
        cells.push(ratio_cell(ratio));
        cells
    };
    let mut columns = vec!["operation".to_owned()];
    columns.extend(systems.iter().map(|system| system.title().to_owned()));
    columns.extend(["unit", "to better Linux"].map(str::to_owned));
    table(&columns, questions(all, clock).into_iter().map(row).collect())
}

/// Unit and direction, as figures have them.
pub fn unit_cell(question: &Question) -> Cell {
    let text = format!("{} {}", question.unit, question.better.arrow());
    Cell::new(text).marked("faint", true)
}

/// A row for each counter that moves.
fn events(events: &[Events]) -> Markup {
    let names: Vec<&str> = events
        .first()
        .map(|one| one.counters.iter().map(|(name, _)| name.as_str()).collect())
        .unwrap_or_default();
    let counts = |i: usize| -> Vec<i64> {
        events.iter().filter_map(|one| Some(one.counters.get(i)?.1)).collect()
    };
    let moving = names.into_iter().enumerate().map(|(i, name)| (name, counts(i)));
    let moving = moving.filter(|(_, counts)| counts.iter().any(|count| *count != 0));
    let rows = moving.map(|(name, counts)| {
        let counts = counts.into_iter().map(|count| Cell::new(grouped(count as f64)));
        std::iter::once(Cell::new(name.replace('_', " "))).chain(counts).collect()
    });
    let mut columns = vec!["events"];
    columns.extend(events.iter().map(|one| one.operation));
    table_of(&columns, rows.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::line::{parse_output, Defaults};
    use crate::results::Provenance;

    fn measured() -> Vec<Measurement> {
        let provenance = Provenance { machine: "q<35".into(), commit: "1234567".into() };
        let of = |system, text: &str| {
            let defaults = Defaults {
                benchmark: "fork".into(),
                clock: Clock::Instructions,
                system,
                provenance: provenance.clone(),
            };
            parse_output(text, &defaults).unwrap()
        };
        let mut all = of(
            System::Tessera,
            "bench exit 10 at=1:MiB\nbench exit 40 at=16:MiB\nbench copy 8\nbench threads not-supported\n",
        );
        all.extend(of(
            System::Linux,
            "bench exit 20 at=1:MiB\nbench exit 20 at=16:MiB\nbench copy 16\nbench threads 5\n",
        ));
        all
    }

    #[test]
    fn a_page_stands_alone() {
        let all = measured();
        let live = Live { maps: String::new(), events: Vec::new(), capabilities: String::new() };
        let page = page(&all, &live, &[]).into_string();
        assert_eq!(page.matches("<svg").count(), 3, "two figures and the memory");
        assert!(page.contains("not supported") && page.contains("q&lt;35"));
        assert!(!page.contains("<script") && !page.contains("src=") && !page.contains("href="));
        for one in ["svg", "figure", "table", "div", "tr", "td", "details", "ul"] {
            let (open, close) = (format!("<{one}"), format!("</{one}>"));
            let opened = page.matches(&format!("{open}>")).count()
                + page.matches(&format!("{open} ")).count();
            assert_eq!(opened, page.matches(&close).count(), "{one}");
        }
    }

    #[test]
    fn figures_and_tables_agree() {
        let rate = |system, value| {
            let mut one = crate::results::tests::measured("rate", &[value]);
            one.question.better = crate::results::Direction::Higher;
            one.question.at = None;
            Measurement { system, ..one }
        };
        let all =
            [rate(System::Tessera, 20.0), rate(System::Linux, 10.0), rate(System::Host, 1234.0)];
        let own: Vec<&Measurement> = all.iter().collect();
        let figure = figures(&own, WIDTH)[0].inline().into_string();
        let table = numbers(&all[..], Clock::Instructions).into_string();
        // Twice as much of what should be much is half the cost, and the best is bold in both.
        for text in ["class=\"best\">1,234<", ">20<", ">10<", "↑"] {
            assert!(
                figure.contains(text) && table.replace(" data-label=\"host\"", "").contains(text),
                "{text}: {figure} {table}"
            );
        }
        assert!(table.contains("class=\"better\"") && table.contains(">0.50</td>"), "{table}");
        assert_eq!(ratios(&own, "mprotect", System::Linux), [0.5]);
    }

    #[test]
    fn ratios_and_means() {
        let all = measured();
        let own: Vec<&Measurement> = all.iter().collect();
        assert_eq!(ratios(&own, "fork", System::Linux), [0.5, 2.0, 0.5]);
        assert!((mean(&[0.5, 2.0]).unwrap() - 1.0).abs() < 1e-12);
        assert_eq!(mean(&[]), None);
    }
}
