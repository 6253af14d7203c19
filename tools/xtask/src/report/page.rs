//! The page: everything in one file, nothing from a network.

use super::breakdown::{self, Breakdown};
use super::chart::{bars, by_case, by_size, Figure};
use super::live::{Events, Live};
use super::svg::STYLE;
use super::{memory, tree};
use crate::compare::questions;
use crate::results::{grouped, Clock, Measurement, Question, System};
use maud::{html, Markup, PreEscaped, DOCTYPE};

const PAGE_STYLE: &str = "\
:root{color-scheme:light dark}body{margin:0;background:var(--ground);color:var(--text);\
font:16px/1.5 system-ui,sans-serif}main{max-width:72rem;margin:auto;padding:1rem}\
h1,h2,h3{line-height:1.2}h2{margin-top:2.5rem}a{color:var(--linux)}p{max-width:44rem}\
.scroll{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums}\
th,td{padding:.25rem .75rem;border-bottom:1px solid var(--line);text-align:right;white-space:nowrap}\
th:first-child,td:first-child{text-align:left;padding-left:0}td:first-child{white-space:normal;min-width:9rem}\
.better{color:var(--tessera);font-weight:600}.faint{color:var(--faint)}\
.figures{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,26rem),1fr));gap:1.5rem}\
figure{margin:0}svg{width:100%;height:auto;display:block}svg .title{font-weight:600}\
pre{overflow-x:auto}details{margin:.5rem 0}";

/// The whole page.
pub fn page(all: &[Measurement], live: &Live, breakdown: &[Breakdown]) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "Tessera beside Linux" }
                style { (PreEscaped(STYLE)) "\n" (PreEscaped(PAGE_STYLE)) }
            }
            body { main {
                (introduction(all))
                (of_clock(all, Clock::Instructions, "Instructions"))
                (of_clock(all, Clock::Wall, "Wall time"))
                (of_running_system(live, breakdown))
            } }
        }
    }
}

fn introduction(all: &[Measurement]) -> Markup {
    html! {
        h1 { "Tessera beside Linux" }
        p {
            "The same static programs in the same emulator. A ratio below 1 means that Tessera \
             needs less. Instructions are those of the program, its library and the kernel together, \
             counted by the emulator; they repeat exactly. Wall time is that of the emulator, which \
             has neither the caches nor the TLB of a processor. Where a paper prints a number for the \
             same, it stands beside ours: cycles of its authors' machine, so that shapes may be \
             compared and heights may not."
        }
        (machines(all))
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
        div.figures { @for figure in figures(&own) { figure { (figure.inline()) } } }
        details { summary { "All numbers" } (table(all, clock)) }
    }
}

fn of_running_system(live: &Live, breakdown: &[Breakdown]) -> Markup {
    let narrow = |picture: Markup| html! { figure style="max-width:44rem" { (picture) } };
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
            (narrow(breakdown::picture(breakdown)))
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
                "Every distinct capability to memory while a shell runs a program, below what it was \
                 made from. Those of one type below the same parents are drawn as one."
            }
            (narrow(picture))
        }
    }
}

/// Where and from which commit the measurements are.
fn machines(all: &[Measurement]) -> Markup {
    let mut lines: Vec<String> = all
        .iter()
        .filter(|one| one.system != System::Paper)
        .map(|one| format!("{}; commit {}", one.provenance.machine, one.provenance.commit))
        .collect();
    lines.sort();
    lines.dedup();
    html! { ul.faint { @for line in &lines { li { (line) } } } }
}

/// The figures of some measurements of one clock: of each benchmark one for each case with sizes,
/// and one for all other cases.
pub fn figures(own: &[&Measurement]) -> Vec<Figure> {
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
            figures.extend(figure_of_paper(&title, &sized));
            cases.clear();
        }
        for case in cases {
            let of_case: Vec<_> =
                sized.iter().filter(|one| one.question.case == case).copied().collect();
            figures.push(by_size(&format!("{title}: {case}"), &of_case));
        }
        if !single.is_empty() {
            figures.push(bars(&title, &single));
        }
    }
    figures
}

/// Figures of the papers (`./x bench papers`) show their cases side by side.
fn is_paper_figure(benchmark: &str) -> bool {
    benchmark.starts_with("G12-") || benchmark.starts_with("G18-")
}

/// A figure for each unit.
fn figure_of_paper(title: &str, sized: &[&Measurement]) -> Vec<Figure> {
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
        by_case(&title, &own)
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

/// A line for each benchmark: how its ratios to Linux are spread.
fn summary(own: &[&Measurement]) -> Markup {
    const COLUMNS: [&str; 5] =
        ["benchmark", "least", "geometric mean", "greatest", "mean to Linux, THP"];
    let row = |benchmark: &str| {
        let of = |system| ratios(own, benchmark, system);
        let (plain, huge) = (of(System::Linux), of(System::LinuxThp));
        let least = plain.iter().copied().min_by(f64::total_cmp);
        let greatest = plain.iter().copied().max_by(f64::total_cmp);
        html! {
            tr {
                td { (benchmark.replace('_', " ")) }
                @for ratio in [least, mean(&plain), greatest, mean(&huge)] { (ratio_cell(ratio)) }
            }
        }
    };
    html! {
        div.scroll { table {
            thead { tr { @for column in COLUMNS { th { (column) } } } }
            tbody { @for benchmark in names(own) { (row(benchmark)) } }
        } }
    }
}

/// Tessera's medians divided by those of `system`.
fn ratios(own: &[&Measurement], benchmark: &str, system: System) -> Vec<f64> {
    let of = |system: System| own.iter().filter(move |one| one.system == system);
    let pairs = of(System::Tessera).filter(|one| one.question.benchmark == benchmark);
    pairs
        .filter_map(|one| {
            let other = of(system).find(|other| other.question == one.question)?;
            let ratio = one.median()? / other.median()?;
            // Of a rate, more is better.
            Some(match one.question.better {
                crate::results::Direction::Lower => ratio,
                crate::results::Direction::Higher => 1.0 / ratio,
            })
        })
        .filter(|ratio| ratio.is_finite() && *ratio > 0.0)
        .collect()
}

/// The geometric mean.
fn mean(ratios: &[f64]) -> Option<f64> {
    let sum: f64 = ratios.iter().map(|ratio| ratio.ln()).sum();
    (!ratios.is_empty()).then(|| (sum / ratios.len() as f64).exp())
}

fn ratio_cell(ratio: Option<f64>) -> Markup {
    let Some(ratio) = ratio else { return html! { td { "-" } } };
    html! { td class=[(ratio < 1.0).then_some("better")] { (format_args!("{ratio:.2}")) } }
}

fn table(all: &[Measurement], clock: Clock) -> Markup {
    const SYSTEMS: [System; 3] = [System::Tessera, System::Linux, System::LinuxThp];
    let row = |question: &Question| {
        let answer =
            |system| all.iter().find(|one| one.question == *question && one.system == system);
        let median = |system| answer(system).and_then(Measurement::median);
        let others = SYSTEMS[1..].iter().filter_map(|&system| median(system));
        let ratio = match (median(System::Tessera), question.better.best(others)) {
            (Some(own), Some(linux)) if linux > 0.0 => Some(own / linux),
            _ => None,
        };
        html! {
            tr {
                td { (question) }
                @for system in SYSTEMS {
                    @match (answer(system), median(system)) {
                        (_, Some(median)) => td { (grouped(median)) },
                        (Some(_), None) => td.faint { "not supported" },
                        (None, None) => td { "-" },
                    }
                }
                td.faint { (question.unit) }
                (ratio_cell(ratio))
            }
        }
    };
    html! {
        div.scroll { table {
            thead { tr {
                th { "operation" }
                @for system in SYSTEMS { th { (system.title()) } }
                th { "unit" }
                th { "ratio to the better Linux" }
            } }
            tbody { @for question in questions(all, clock) { (row(question)) } }
        } }
    }
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
    html! {
        div.scroll { table {
            thead { tr {
                th { "events" }
                @for one in events { th { (one.operation) } }
            } }
            tbody {
                @for (name, counts) in moving {
                    tr {
                        td { (name.replace('_', " ")) }
                        @for count in counts { td { (grouped(count as f64)) } }
                    }
                }
            }
        } }
    }
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
    fn ratios_and_means() {
        let all = measured();
        let own: Vec<&Measurement> = all.iter().collect();
        assert_eq!(ratios(&own, "fork", System::Linux), [0.5, 2.0, 0.5]);
        assert!((mean(&[0.5, 2.0]).unwrap() - 1.0).abs() < 1e-12);
        assert_eq!(mean(&[]), None);
    }
}
