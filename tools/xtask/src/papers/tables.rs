//! Tables of what was measured, beside what the papers print.

use super::facts::{Facts, Key};
use crate::results::{grouped, Measurement};
use std::fmt::Write;

/// Measurements of a figure at this many sizes become a matrix.
const MATRIX: usize = 4;
const WIDTH: usize = 100;

/// The text for one figure: its title, its numbers, what the paper says and what differs. Empty if
/// nothing of it was measured.
pub fn figure(
    facts: &Facts,
    linux: &[Measurement],
    name: &str,
    title: &str,
    measured: &[Measurement],
) -> String {
    let own: Vec<_> = measured.iter().filter(|m| m.question.benchmark == name).collect();
    if own.is_empty() {
        return String::new();
    }
    let mut text = format!("{title}\n{}\n\n", "=".repeat(title.chars().count()));
    let sizes = sizes(&own);
    let (sized, mut rest): (Vec<_>, Vec<_>) =
        own.into_iter().partition(|m| sizes.len() >= MATRIX && m.question.at.is_some());
    let is_known = |m: &&Measurement| {
        let key = key(m);
        facts.paper(&key).is_some() || facts.aim(&key).is_some()
    };
    rest.extend(sized.iter().copied().filter(is_known));
    if !sized.is_empty() {
        text += &matrix(&sized, &sizes);
        text.push('\n');
    }
    if !rest.is_empty() {
        text += &rows(facts, linux, name, &rest);
        text.push('\n');
    }
    let of = |texts: &[(String, String)], label: &str| {
        let own = texts.iter().filter(|(figure, _)| figure == name);
        own.map(|(_, words)| wrap(&format!("{label}: {words}"))).collect::<String>()
    };
    text += &of(&facts.says, "The paper");
    text += &of(&facts.differs, "Differs");
    text
}

fn sizes(measured: &[&Measurement]) -> Vec<f64> {
    let mut sizes: Vec<_> =
        measured.iter().filter_map(|m| Some(m.question.at.as_ref()?.value)).collect();
    sizes.sort_by(f64::total_cmp);
    sizes.dedup();
    sizes
}

/// A row for each size, a column for each case.
fn matrix(measured: &[&Measurement], sizes: &[f64]) -> String {
    let mut cases: Vec<&str> = Vec::new();
    for m in measured {
        if !cases.contains(&m.question.case.as_str()) {
            cases.push(&m.question.case);
        }
    }
    let size_unit = measured[0].question.at.as_ref().map_or("", |size| size.unit.as_str());
    let widths: Vec<_> = cases.iter().map(|case| case.chars().count().max(9) + 2).collect();
    let mut text = format!("{size_unit:>12}");
    for (case, &width) in cases.iter().zip(&widths) {
        let _ = write!(text, "{case:>width$}");
    }
    text.push('\n');
    for &size in sizes {
        let _ = write!(text, "{:>12}", grouped(size));
        for (case, &width) in cases.iter().zip(&widths) {
            let value = measured.iter().find(|m| {
                m.question.case == *case
                    && m.question.at.as_ref().is_some_and(|at| at.value == size)
            });
            let shown = value.and_then(|m| m.median()).map_or("-".to_owned(), grouped);
            let _ = write!(text, "{shown:>width$}");
        }
        text.push('\n');
    }
    text
}

/// A row for each case and size, with Linux's and the paper's number and the aim.
fn rows(facts: &Facts, linux: &[Measurement], figure: &str, measured: &[&Measurement]) -> String {
    let mut text = format!(
        "{:<48}{:>14}  {:<17}{:>8}{:>10}  {:<18}{:>8}\n",
        "", "Tessera", "", "Linux", "paper", "", "aim"
    );
    let mut shown = Vec::new();
    for m in measured {
        let at = m.question.at.as_ref();
        let key = key(m);
        let label = match at {
            Some(size) => format!("{}, {} {}", key.case, grouped(size.value), size.unit),
            None => key.case.clone(),
        };
        let value = m.median().unwrap_or(f64::NAN);
        let paper = facts.paper(&key);
        let aim = facts.aim(&key);
        let row = format!(
            "{label:<48}{:>14}  {:<17}{:>8}{:>10}  {:<18}{:>8}  {}",
            grouped(value),
            m.question.unit,
            facts.linux(&key, linux).map_or(String::new(), grouped),
            paper.map_or(String::new(), |(value, _)| plain(value)),
            paper.map_or("", |(_, unit)| unit),
            aim.map_or(String::new(), grouped),
            aim.map_or("", |aim| verdict(value, aim)),
        );
        let _ = writeln!(text, "{}", row.trim_end());
        shown.push(key);
    }
    // What only the paper has.
    for (key, value, unit) in facts.papers.iter().filter(|(key, ..)| key.figure == figure) {
        if !shown.contains(key) {
            let label = match key.size {
                Some(size) => format!("{}, {}", key.case, grouped(size)),
                None => key.case.clone(),
            };
            let row =
                format!("{label:<48}{:>14}  {:<17}{:>8}{:>10}  {unit}", "", "", "", plain(*value));
            let _ = writeln!(text, "{row}");
        }
    }
    text
}

/// What a measurement is of.
fn key(measurement: &Measurement) -> Key {
    let question = &measurement.question;
    Key {
        figure: question.benchmark.clone(),
        case: question.case.clone(),
        size: question.at.as_ref().map(|size| size.value),
    }
}

/// Met or missed.
pub fn verdict(value: f64, aim: f64) -> &'static str {
    if value <= aim {
        "met"
    } else {
        "missed"
    }
}

/// A paper's number as it prints it.
fn plain(value: f64) -> String {
    match value.abs() {
        size if size < 1.0 => format!("{value:.4}"),
        _ => grouped(value),
    }
}

/// Every aim with what was measured.
pub fn aims(facts: &Facts, measured: &[Measurement]) -> String {
    let mut text = String::from("Aims, in instructions\n=====================\n\n");
    for (key, aim) in &facts.aims {
        let found = measured.iter().find(|m| self::key(m) == *key);
        let size = key.size.map_or(String::new(), |size| format!(", {}", grouped(size)));
        let label = format!("{} {}{size}", key.figure, key.case);
        let (value, verdict) = match found.and_then(|m| m.median()) {
            Some(value) => (grouped(value), verdict(value, *aim)),
            None => ("-".to_owned(), "not measured"),
        };
        let _ = writeln!(text, "{label:<60}{value:>10}{:>10}  {verdict}", grouped(*aim));
    }
    text
}

/// Words in lines of a width, the first one with a dash.
fn wrap(words: &str) -> String {
    let (mut text, mut line) = (String::new(), String::from("-"));
    for word in words.split(' ') {
        if line.chars().count() + 1 + word.chars().count() > WIDTH {
            text += &line;
            text.push('\n');
            line = " ".to_owned();
        }
        line.push(' ');
        line += word;
    }
    text + &line + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::line::{parse_output, Defaults};
    use crate::results::{Clock, Provenance, System};

    fn measured(text: &str) -> Vec<Measurement> {
        let provenance = Provenance { machine: "q35".into(), commit: "1".into() };
        let (clock, system) = (Clock::Instructions, System::Tessera);
        let defaults = Defaults { benchmark: "t".into(), clock, system, provenance };
        parse_output(text, &defaults).unwrap()
    }

    #[test]
    fn rows_with_the_paper_and_aims() {
        let facts = Facts::parse(
            "title\tt\tA table\npaper\tt\tmap\t1\t1191\tcycles\naim\tt\tmap\t1\t600\n\
             aim\tt\tgone\t-\t1\npaper\tt\tother\t-\t0.0122\tGUPS\ndiffers\tt\tmuch\n",
        )
        .unwrap();
        let measured = measured("bench map 500 510 520 at=1:pages\n");
        let text = figure(&facts, &[], "t", "A table", &measured);
        for expected in
            ["map, 1 pages", "510", "1,191", "cycles", "600  met", "0.0122", "- Differs: much"]
        {
            assert!(text.contains(expected), "{expected} in\n{text}");
        }
        let text = aims(&facts, &measured);
        assert!(text.contains("met") && text.contains("not measured"), "{text}");
        assert_eq!(figure(&facts, &[], "u", "Another", &measured), "");
    }

    #[test]
    fn a_matrix_by_size() {
        let text: String = (1..6)
            .map(|n| format!("bench map {n}00 at={n}:pages\nbench unmap {n}5 at={n}:pages\n"))
            .collect();
        let text = figure(&Facts::default(), &[], "t", "A figure", &measured(&text));
        assert!(text.lines().any(|line| line.split_whitespace().eq(["5", "500", "55"])), "{text}");
    }

    #[test]
    fn wrapping() {
        let text = wrap(&"word ".repeat(60));
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH) && text.lines().count() > 2);
    }
}
