//! Figures of measurements: lines over sizes, bars for what has no size.

use super::svg::{Anchor, Drawing};
use crate::results::{grouped, Clock, Measurement, System};
use maud::Markup;

pub const WIDTH: f64 = 640.0;

/// A finished figure.
pub struct Figure {
    pub title: String,
    drawing: Drawing,
    height: f64,
}

impl Figure {
    pub fn inline(&self) -> Markup {
        self.drawing.inline(WIDTH, self.height, &self.title)
    }

    pub fn standalone(&self) -> Markup {
        self.drawing.standalone(WIDTH, self.height, &self.title)
    }
}

/// Where a line chart lies in its figure.
const LEFT: f64 = 84.0;
const RIGHT: f64 = WIDTH - 20.0;
const TOP: f64 = 66.0;
const BOTTOM: f64 = 290.0;
const HEIGHT: f64 = 340.0;

/// One axis with a logarithmic scale.
struct Axis {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Axis {
    /// An axis on which all values have a place, between two places of the drawing.
    fn around(values: impl Iterator<Item = f64>, from: f64, to: f64) -> Axis {
        let (low, high) = values
            .filter(|value| *value > 0.0)
            .fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(value), high.max(value)));
        match low <= high {
            // A single value goes to the middle.
            true if low == high => Axis { low: low / 2.0, high: high * 2.0, from, to },
            true => Axis { low, high, from, to },
            false => Axis { low: 1.0, high: 10.0, from, to },
        }
    }

    /// Ends at tick marks below and above all values.
    fn rounded(self) -> Axis {
        let low = steps().rev().find(|step| *step <= self.low).unwrap_or(self.low);
        let high = steps().find(|step| *step >= self.high).unwrap_or(self.high);
        Axis { low, high, ..self }
    }

    fn place(&self, value: f64) -> f64 {
        let share = (value.max(self.low) / self.low).ln() / (self.high / self.low).ln();
        self.from + share * (self.to - self.from)
    }

    /// Round numbers, few enough that they do not crowd.
    fn ticks(&self) -> Vec<f64> {
        let inside: Vec<f64> =
            steps().filter(|step| (self.low..=self.high).contains(step)).collect();
        match inside.len() {
            0..=7 => inside,
            _ => inside.into_iter().filter(|step| step.log10().fract().abs() < 1e-9).collect(),
        }
    }
}

/// 1, 2 and 5 times the powers of ten.
fn steps() -> impl DoubleEndedIterator<Item = f64> {
    (-3..=15).flat_map(|power| [1.0, 2.0, 5.0].map(|digit| digit * 10f64.powi(power)))
}

/// 1,234,567 as 1.2 M.
fn short(value: f64) -> String {
    let scaled = |unit: f64, letter: &str| {
        let text = format!("{:.1}", value / unit);
        format!("{}{letter}", text.strip_suffix(".0").unwrap_or(&text))
    };
    match value {
        v if v >= 1e9 => scaled(1e9, " G"),
        v if v >= 1e6 => scaled(1e6, " M"),
        v if v >= 1e4 => scaled(1e3, " k"),
        v => grouped(v),
    }
}

fn heading(drawing: &mut Drawing, title: &str, unit: &str, systems: &[System]) {
    drawing.text(12.0, 20.0, Anchor::Start, "title", title);
    let mut x = 12.0;
    for system in systems {
        drawing.rectangle([x, 32.0, 12.0, 12.0], &format!("{} fill", system.slug()), "");
        drawing.text(x + 17.0, 43.0, Anchor::Start, "", system.title());
        x += 34.0 + 8.0 * system.title().chars().count() as f64;
    }
    drawing.text(WIDTH - 12.0, 43.0, Anchor::End, "faint", unit);
}

fn systems_of(measurements: &[&Measurement]) -> Vec<System> {
    let mut systems: Vec<System> =
        measurements.iter().filter(|one| one.is_supported()).map(|one| one.system).collect();
    systems.sort();
    systems.dedup();
    systems
}

/// What the vertical axis means.
fn unit_of(measurement: &Measurement) -> String {
    let unit = &measurement.question.unit;
    let better = match measurement.question.better {
        crate::results::Direction::Lower => "lower is better",
        crate::results::Direction::Higher => "higher is better",
    };
    format!("{unit}, {better}")
}

/// Lines over the size, one for each system; all measurements are of one case.
pub fn by_size(title: &str, measurements: &[&Measurement]) -> Figure {
    let mut drawing = Drawing::default();
    let unit = measurements.first().map(|one| unit_of(one)).unwrap_or_default();
    let systems = systems_of(measurements);
    heading(&mut drawing, title, &unit, &systems);
    let size = |one: &Measurement| one.question.at.as_ref().map_or(0.0, |at| at.value.max(0.5));
    let sizes = measurements.iter().map(|one| size(one));
    let x = Axis::around(sizes, LEFT + 16.0, RIGHT - 24.0);
    let values = measurements.iter().filter_map(|one| one.median());
    let y = Axis::around(values, BOTTOM, TOP).rounded();
    for tick in y.ticks() {
        let at = y.place(tick);
        drawing.line((LEFT, at), (RIGHT, at), "grid");
        drawing.text(LEFT - 8.0, at + 4.0, Anchor::End, "faint", &short(tick));
    }
    label_sizes(&mut drawing, &x, measurements);
    // Where lines coincide, the first systems lie on top.
    for system in systems.into_iter().rev() {
        let class = system.slug();
        let mut own: Vec<&Measurement> =
            measurements.iter().filter(|one| one.system == system).copied().collect();
        own.sort_by(|left, right| size(left).total_cmp(&size(right)));
        let points: Vec<(f64, f64)> = own
            .iter()
            .filter_map(|one| Some((x.place(size(one)), y.place(one.median()?))))
            .collect();
        for one in &own {
            if let (Some((low, high)), Clock::Wall) = (one.range(), one.question.clock) {
                let at = x.place(size(one));
                let (low, high) = (y.place(low), y.place(high.min(y.high)));
                drawing.line((at, low), (at, high), &format!("{class} range"));
            }
        }
        drawing.polyline(&points, &format!("{class} stroke"));
        for (one, point) in own.iter().filter(|one| one.is_supported()).zip(&points) {
            let value = one.median().map(grouped).unwrap_or_default();
            let text = format!("{}: {value} {}", system.title(), one.question.unit);
            drawing.dot(*point, &format!("{class} fill"), &text);
        }
    }
    Figure { title: title.to_owned(), drawing, height: HEIGHT }
}

/// How many colours cases have; further ones begin again.
const SERIES: usize = 9;
/// Cases in a row of the legend.
const PER_ROW: usize = 3;

/// Lines over the size, one for each case; all measurements are of one unit. Tessera's have dots,
/// Linux's are dashed; the papers' numbers are rings without lines.
pub fn by_case(title: &str, measurements: &[&Measurement]) -> Figure {
    let mut drawing = Drawing::default();
    let unit = measurements.first().map(|one| unit_of(one)).unwrap_or_default();
    let mut cases: Vec<&str> = Vec::new();
    for one in measurements {
        if !cases.contains(&one.question.case.as_str()) {
            cases.push(&one.question.case);
        }
    }
    drawing.text(12.0, 20.0, Anchor::Start, "title", title);
    drawing.text(LEFT, 38.0, Anchor::Start, "faint", &unit);
    let systems = systems_of(measurements);
    let others = [(System::Linux, "dashed: Linux"), (System::Paper, "rings: the paper")];
    let others = others.iter().filter(|(system, _)| systems.contains(system));
    let others: Vec<&str> = others.map(|(_, text)| *text).collect();
    drawing.text(WIDTH - 12.0, 38.0, Anchor::End, "faint", &others.join("; "));
    let column = (WIDTH - 24.0) / PER_ROW as f64;
    for (number, case) in cases.iter().enumerate() {
        let x = 12.0 + column * (number % PER_ROW) as f64;
        let y = 48.0 + 18.0 * (number / PER_ROW) as f64;
        drawing.rectangle([x, y, 12.0, 12.0], &format!("series-{} fill", number % SERIES), "");
        drawing.text(x + 17.0, y + 11.0, Anchor::Start, "", case);
    }
    let top = 64.0 + 18.0 * cases.len().div_ceil(PER_ROW) as f64;
    let size = |one: &Measurement| one.question.at.as_ref().map_or(0.0, |at| at.value.max(0.5));
    let x = Axis::around(measurements.iter().map(|one| size(one)), LEFT + 16.0, RIGHT - 24.0);
    let y = Axis::around(measurements.iter().filter_map(|one| one.median()), BOTTOM, top).rounded();
    for tick in y.ticks() {
        let at = y.place(tick);
        drawing.line((LEFT, at), (RIGHT, at), "grid");
        drawing.text(LEFT - 8.0, at + 4.0, Anchor::End, "faint", &short(tick));
    }
    label_sizes(&mut drawing, &x, measurements);
    for (number, case) in cases.iter().enumerate().rev() {
        let class = format!("series-{}", number % SERIES);
        let points = |system: System| {
            let mut own: Vec<(f64, f64)> = measurements
                .iter()
                .filter(|one| one.question.case == *case && one.system == system)
                .filter_map(|one| Some((size(one), one.median()?)))
                .collect();
            own.sort_by(|left, right| left.0.total_cmp(&right.0));
            own
        };
        let place = |&(size, value): &(f64, f64)| (x.place(size), y.place(value));
        for (system, line) in [(System::Linux, "stroke dashed"), (System::Tessera, "stroke")] {
            let line = format!("{class} {line}");
            drawing.polyline(&points(system).iter().map(place).collect::<Vec<_>>(), &line);
        }
        for (system, dot) in [(System::Paper, "stroke"), (System::Tessera, "fill")] {
            for point in points(system) {
                let text = format!("{case}, {}: {}", system.title(), grouped(point.1));
                drawing.dot(place(&point), &format!("{class} {dot}"), &text);
            }
        }
    }
    Figure { title: title.to_owned(), drawing, height: HEIGHT }
}

/// The sizes under the axis, with the unit.
fn label_sizes(drawing: &mut Drawing, x: &Axis, measurements: &[&Measurement]) {
    let mut sizes: Vec<f64> =
        measurements.iter().filter_map(|one| Some(one.question.at.as_ref()?.value)).collect();
    sizes.sort_by(f64::total_cmp);
    sizes.dedup();
    let mut free_from = f64::MIN;
    for size in sizes {
        let (at, text) = (x.place(size.max(0.5)), grouped(size));
        let half = 4.2 * text.chars().count() as f64;
        drawing.line((at, BOTTOM), (at, BOTTOM + 5.0), "grid");
        if at - half > free_from {
            drawing.text(at, BOTTOM + 20.0, Anchor::Middle, "faint", &text);
            free_from = at + half;
        }
    }
    let unit = measurements.iter().find_map(|one| one.question.at.as_ref());
    let unit = unit.map(|at| at.unit.as_str()).unwrap_or_default();
    drawing.text((LEFT + RIGHT) / 2.0, BOTTOM + 41.0, Anchor::Middle, "faint", unit);
}

/// A group of bars for each case, one for each system; the cases may differ in unit, so every group
/// has its own scale.
pub fn bars(title: &str, measurements: &[&Measurement]) -> Figure {
    const BAR: f64 = 15.0;
    const VALUE_ROOM: f64 = 150.0;
    let mut drawing = Drawing::default();
    let unit = measurements.first().map(|one| unit_of(one)).unwrap_or_default();
    let common_unit = measurements.first().map_or("", |one| one.question.unit.as_str());
    heading(&mut drawing, title, &unit, &systems_of(measurements));
    let mut cases: Vec<&str> = Vec::new();
    for one in measurements {
        if !cases.contains(&one.question.case.as_str()) {
            cases.push(&one.question.case);
        }
    }
    let mut y = 74.0;
    for case in cases {
        drawing.text(12.0, y, Anchor::Start, "", case);
        y += 8.0;
        let own: Vec<_> = measurements.iter().filter(|one| one.question.case == case).collect();
        let most = own.iter().filter_map(|one| one.median()).fold(f64::MIN_POSITIVE, f64::max);
        for one in own {
            let class = one.system.slug();
            let Some(median) = one.median() else {
                let text = format!("{}: not supported", one.system.title());
                drawing.text(12.0, y + 12.0, Anchor::Start, "faint", &text);
                y += BAR + 3.0;
                continue;
            };
            let length = (median / most * (WIDTH - 24.0 - VALUE_ROOM)).max(2.0);
            drawing.rectangle([12.0, y, length, BAR], &format!("{class} fill"), one.system.title());
            let mut value = grouped(median);
            if one.question.unit != common_unit {
                value += &format!(" {}", one.question.unit);
            }
            drawing.text(12.0 + length + 6.0, y + 12.0, Anchor::Start, "faint", &value);
            y += BAR + 3.0;
        }
        y += 22.0;
    }
    Figure { title: title.to_owned(), drawing, height: y - 8.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes() {
        let axis = Axis::around([30.0, 700.0, 0.0].into_iter(), 0.0, 100.0).rounded();
        assert_eq!((axis.low, axis.high), (20.0, 1000.0));
        assert_eq!((axis.place(20.0), axis.place(1000.0)), (0.0, 100.0));
        assert_eq!(axis.ticks(), [20.0, 50.0, 100.0, 200.0, 500.0, 1000.0]);
        let wide = Axis::around([1.0, 1e6].into_iter(), 0.0, 1.0).rounded();
        assert_eq!(wide.ticks(), [1.0, 10.0, 100.0, 1e3, 1e4, 1e5, 1e6]);
        let single = Axis::around([5.0].into_iter(), 0.0, 100.0);
        assert!((single.place(5.0) - 50.0).abs() < 1e-9);
        assert_eq!(Axis::around(std::iter::empty(), 0.0, 1.0).ticks().len(), 4);
    }

    #[test]
    fn the_paper_has_rings() {
        let ours = crate::results::tests::measured("map", &[600.0]);
        let ours = Measurement { system: System::Tessera, ..ours };
        let paper = Measurement { system: System::Paper, samples: vec![1339.0], ..ours.clone() };
        let alone = by_case("figure", &[&ours]).inline().into_string();
        assert!(!alone.contains("rings") && !alone.contains("1,339"), "{alone}");
        let both = by_case("figure", &[&ours, &paper]).inline().into_string();
        assert!(both.contains("rings: the paper") && both.contains("map, paper: 1,339"), "{both}");
    }

    #[test]
    fn short_numbers() {
        let texts = [0.5, 7.0, 1234.0, 65536.0, 1e6, 2.34e9].map(short);
        assert_eq!(texts, ["0.50", "7", "1,234", "65.5 k", "1 M", "2.3 G"]);
    }
}
