//! The page that compares two measurements: what changed by more than the noise first.

use super::chart::{Figure, MARGIN, WIDTH};
use super::page::{document, machines, unit_cell};
use super::svg::{Anchor, Drawing};
use super::table::{table_of, Cell};
use crate::results::change::{changes, counterpart, pairs, Change};
use crate::results::{grouped, Clock, Measurement};
use anyhow::{ensure, Result};
use maud::{html, Markup};
use std::collections::BTreeSet;

/// Changes that are drawn; the table has all.
const DRAWN: usize = 40;

/// # Errors
///
/// Fails if no question was asked both times: then the files are not of the same benchmarks.
pub fn page(before: &[Measurement], after: &[Measurement]) -> Result<Markup> {
    let all = pairs(before, after);
    ensure!(!all.is_empty(), "the two files have no measurement in common");
    let changed = changes(before, after);
    let same: Vec<&Change> = all.iter().filter(|change| !change.beyond_noise).collect();
    let worse = changed.iter().filter(|change| change.worse).count();
    let better = changed.len() - worse;
    let content = html! {
        p {
            strong { (worse) " worse, " (better) " better" } ", "
            (same.len()) " the same but for the noise."
        }
        (other_machines(before, after))
        @if changed.is_empty() {
            p { "Nothing changed by more than the noise." }
        } @else {
            h2 { "Changed by more than the noise" }
            figure.narrow.measured { (figure(&changed).inline()) }
            (table(changed.iter()))
        }
        @if !same.is_empty() {
            h2 { "The same but for the noise" }
            (table(same.into_iter()))
        }
        (only("Only before", before, after))
        (only("Only after", after, before))
        h2 { "What this is" }
        p {
            "Medians, and what it costs after in units of before: below 1 is better, of rates (↑), \
             too. Counts differ by more than the noise if it is more than "
            (percent(Clock::Instructions)) "; times if it is more than " (percent(Clock::Wall))
            " and no sample of the one is among those of the other."
        }
        h3 { "Before" } (machines(before.iter()))
        h3 { "After" } (machines(after.iter()))
    };
    Ok(document("Before and after", content))
}

fn percent(clock: Clock) -> String {
    format!("{:.0} %", clock.tolerance() * 100.0)
}

/// What is to be known if not only the system changed.
fn other_machines(before: &[Measurement], after: &[Measurement]) -> Markup {
    let of = |all: &[Measurement], others: &[Measurement]| -> BTreeSet<String> {
        let common = all.iter().filter(|one| counterpart(one, others).is_some());
        common.map(|one| one.provenance.machine.clone()).collect()
    };
    let same = of(before, after) == of(after, before);
    html! {
        @if !same {
            p.warning {
                "The machines differ, see below: what changed may be theirs."
            }
        }
    }
}

/// Before and after of each, in numbers.
fn table<'a>(changes: impl Iterator<Item = &'a Change>) -> Markup {
    const COLUMNS: [&str; 6] = ["operation", "before", "after", "unit", "after / before", "change"];
    let median = |value: Option<f64>| match value {
        Some(value) => Cell::new(grouped(value)),
        None => Cell::new("not supported").marked("faint", true),
    };
    let row = |change: &Change| {
        let (word, class) = verdict(change);
        vec![
            Cell::new(name(change)),
            median(change.before),
            median(change.after),
            unit_cell(&change.question),
            Cell::new(factor(change)),
            Cell::new(word).marked(class, true),
        ]
    };
    table_of(&COLUMNS, changes.map(row).collect())
}

fn name(change: &Change) -> String {
    format!("{} on {}", change.question, change.system.title())
}

/// The same text in the figure and in the table.
fn factor(change: &Change) -> String {
    match (change.cost(), change.before, change.after) {
        (Some(cost), ..) if cost > 999.0 => "over 999".to_owned(),
        (Some(cost), ..) if cost < 0.01 => "below .01".to_owned(),
        (Some(cost), ..) => format!("{cost:.2}"),
        (None, _, None) => "gone".to_owned(),
        (None, None, _) => "new".to_owned(),
        _ => "-".to_owned(),
    }
}

fn verdict(change: &Change) -> (&'static str, &'static str) {
    match (change.beyond_noise, change.worse) {
        (false, _) => ("same", "faint"),
        (true, true) => ("worse", "loss"),
        (true, false) => ("better", "gain"),
    }
}

/// A bar for each change, to the left what is better and to the right what is worse, by the logarithm
/// of the factor.
fn figure(changed: &[Change]) -> Figure {
    let title = "Cost after / before";
    let mut drawing = Drawing::default();
    let room = WIDTH - 2.0 * MARGIN;
    let centre = WIDTH / 2.0;
    drawing.text(MARGIN, 20.0, Anchor::Start, "title", title);
    drawing.text(MARGIN, 40.0, Anchor::Start, "gain", "← lower is better");
    drawing.text(WIDTH - MARGIN, 40.0, Anchor::End, "loss", "worse →");
    let most = changed.iter().filter_map(Change::cost).map(|cost| cost.ln().abs());
    let most = most.fold(2f64.ln(), f64::max);
    let mut y = 66.0;
    let shown = changed.len().min(DRAWN);
    for change in &changed[..shown] {
        let (word, class) = verdict(change);
        let number = 76.0;
        let below = drawing.paragraph((MARGIN, y), room - number, "", &name(change));
        drawing.text(WIDTH - MARGIN, y, Anchor::End, class, &factor(change));
        let length = change.cost().map_or(room / 2.0, |cost| cost.ln().abs() / most * room / 2.0);
        let length = length.max(1.0);
        let x = if change.worse { centre } else { centre - length };
        let bar = [x, below - 11.0, length, 10.0];
        drawing.rectangle(bar, &format!("{class} fill"), &format!("{word}: {change}"));
        drawing.line((centre, below - 13.0), (centre, below + 1.0), "grid");
        y = below + 20.0;
    }
    if shown < changed.len() {
        let text = format!("and {} smaller ones, in the table", changed.len() - shown);
        y = drawing.paragraph((MARGIN, y), room, "faint", &text);
    }
    Figure::new(title, drawing, WIDTH, y - 8.0)
}

/// What one of the files alone answers.
fn only(title: &str, all: &[Measurement], others: &[Measurement]) -> Markup {
    let alone: Vec<String> = all
        .iter()
        .filter(|one| counterpart(one, others).is_none())
        .map(|one| format!("{} on {}", one.question, one.system.title()))
        .collect();
    html! {
        @if !alone.is_empty() {
            h2 { (title) }
            ul { @for one in &alone { li { (one) } } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::tests::measured;
    use crate::results::Direction;

    fn page_of(before: &[Measurement], after: &[Measurement]) -> String {
        page(before, after).unwrap().into_string()
    }

    #[test]
    fn what_changed_comes_first() {
        let before = [
            measured("same", &[1000.0]),
            measured("slower", &[100.0]),
            measured("faster", &[100.0]),
            measured("gone", &[5.0]),
            measured("dropped", &[7.0]),
        ];
        let mut rate = measured("rate", &[80.0]);
        rate.question.better = Direction::Higher;
        let half = Measurement { samples: vec![20.0], ..rate.clone() };
        let after = [
            measured("same", &[1001.0]),
            measured("slower", &[110.0]),
            measured("faster", &[50.0]),
            measured("gone", &[]),
            half,
        ];
        let mut before = before.to_vec();
        before.push(rate);
        let page = page_of(&before, &after);
        assert!(page.contains("3 worse, 1 better"), "{page}");
        let (changed, rest) = page.split_once("The same but for the noise</h2>").unwrap();
        let places = ["gone", "rate", "faster", "slower"].map(|case| changed.rfind(case));
        assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?}");
        assert!(rest.contains("mprotect: same") && !changed.contains("mprotect: same"));
        let (_, only) = rest.split_once("Only before").unwrap();
        assert!(only.contains("dropped") && !rest.contains("Only after"), "{rest}");
        // A quarter of a rate costs four times as much, in the figure and in the table.
        let (figure, table) = changed.split_once("</svg>").unwrap();
        for cost in ["4.00", "1.10", "0.50"] {
            assert!(figure.contains(&format!(">{cost}</text>")), "{cost}: {figure}");
            assert!(table.contains(&format!(">{cost}</td>")), "{cost}: {table}");
        }
        assert!(figure.contains("lower is better"), "{figure}");
        assert!(!page.contains("machines differ"), "{page}");
    }

    #[test]
    fn nothing_changed() {
        let one = [measured("one", &[3.0])];
        assert!(page_of(&one, &one).contains("Nothing changed by more than the noise"));
        assert!(page(&one, &[measured("other", &[3.0])]).is_err());
    }

    #[test]
    fn other_machines_are_told() {
        let before = [measured("one", &[3.0])];
        let mut after = before.clone();
        after[0].provenance.machine = "microvm <2>".into();
        let page = page_of(&before, &after);
        assert!(page.contains("machines differ") && page.contains("microvm &lt;2&gt;"), "{page}");
    }

    #[test]
    fn many_changes_fit() {
        let of = |value: f64| -> Vec<Measurement> {
            (0..60).map(|n| measured(&format!("case {n}"), &[value * f64::from(n + 2)])).collect()
        };
        let page = page_of(&of(1.0), &of(1e9));
        assert!(page.contains("and 20 smaller ones") && page.contains("case 59"), "{page}");
        let wide = page.split("width=\"").skip(1).filter_map(|rest| rest.split('"').next());
        let wide: Vec<f64> = wide.filter_map(|width| width.parse().ok()).collect();
        assert!(wide.len() >= 40 && wide.iter().all(|width| *width <= WIDTH / 2.0), "{wide:?}");
    }
}
