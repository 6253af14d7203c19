//! Figures of measurements: lines over sizes, bars for what has no size.

use super::svg::{Anchor, Drawing};
use crate::results::{grouped, Measurement, System};
use maud::Markup;

/// Of figures in a page: that of a phone, on which a letter is then as large as one of the page. On a
/// desk they stand side by side.
pub const WIDTH: f64 = 376.0;
/// Of figures in files of their own.
pub const WIDE: f64 = 640.0;
/// Left of everything and right of it.
pub const MARGIN: f64 = 6.0;

/// A finished figure.
pub struct Figure {
    pub title: String,
    drawing: Drawing,
    width: f64,
    height: f64,
}

impl Figure {
    pub fn new(title: &str, drawing: Drawing, width: f64, height: f64) -> Figure {
        Figure { title: title.to_owned(), drawing, width, height }
    }

    pub fn inline(&self) -> Markup {
        self.drawing.inline(self.width, self.height, &self.title)
    }

    pub fn standalone(&self) -> Markup {
        self.drawing.standalone(self.width, self.height, &self.title)
    }
}

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

/// Title, what is measured and which direction is better, and the legend; the place below.
fn heading<T: AsRef<str>>(
    drawing: &mut Drawing,
    width: f64,
    title: &str,
    notes: &[String],
    entries: &[(String, T)],
) -> f64 {
    let room = width - 2.0 * MARGIN;
    let mut y = drawing.paragraph((MARGIN, 20.0), room, "title", title);
    for note in notes {
        y = drawing.paragraph((MARGIN, y), room, "faint", note);
    }
    drawing.legend((MARGIN, y - 9.0), room, entries)
}

/// The systems that support any of it, with their colours.
fn systems_of(measurements: &[&Measurement]) -> Vec<System> {
    let mut systems: Vec<System> =
        measurements.iter().filter(|one| one.is_supported()).map(|one| one.system).collect();
    systems.sort();
    systems.dedup();
    systems
}

fn legend_of(systems: &[System]) -> Vec<(String, &'static str)> {
    systems.iter().map(|system| (system.slug().to_owned(), system.title())).collect()
}

/// Units and directions of measurements.
fn meanings(measurements: &[&Measurement]) -> Vec<String> {
    let mut meanings: Vec<String> = Vec::new();
    for meaning in measurements.iter().map(|one| meaning(one)) {
        if !meanings.contains(&meaning) {
            meanings.push(meaning);
        }
    }
    meanings
}

/// Those, and what the strokes of times are.
fn notes_of(measurements: &[&Measurement], mut notes: Vec<String>) -> Vec<String> {
    if measurements.iter().any(|one| has_spread(one)) {
        notes.push("strokes: the middle half of the samples".to_owned());
    }
    notes
}

fn meaning(measurement: &Measurement) -> String {
    format!("{}, {}", measurement.question.unit, measurement.question.better.words())
}

fn has_spread(measurement: &Measurement) -> bool {
    measurement.spread().is_some_and(|(low, high)| low < high)
}

fn cases_of<'a>(measurements: &[&'a Measurement]) -> Vec<&'a str> {
    let mut cases: Vec<&str> = Vec::new();
    for one in measurements {
        if !cases.contains(&one.question.case.as_str()) {
            cases.push(&one.question.case);
        }
    }
    cases
}

/// Is it the best of the systems that answer its question? A paper's machine is not one of them, and
/// one system alone is not the best.
pub fn is_best(measurement: &Measurement, all: &[&Measurement]) -> bool {
    let same = |one: &&&Measurement| {
        one.question == measurement.question && one.system != System::Paper && one.is_supported()
    };
    let medians: Vec<f64> = all.iter().filter(same).filter_map(|one| one.median()).collect();
    let compared = medians.len() > 1 && measurement.system != System::Paper;
    let best = measurement.question.better.best(medians.into_iter());
    compared && best.is_some() && best == measurement.median()
}

/// Where the lines of a chart lie, and what the places mean.
struct Plot {
    x: Axis,
    y: Axis,
    width: f64,
    bottom: f64,
}

fn size_of(measurement: &Measurement) -> f64 {
    measurement.question.at.as_ref().map_or(0.0, |at| at.value.max(0.5))
}

impl Plot {
    const LEFT: f64 = 58.0;
    const HEIGHT: f64 = 220.0;

    /// With room for all medians and what is drawn of their samples, from `top` on.
    fn new(measurements: &[&Measurement], width: f64, top: f64) -> Plot {
        let sizes = measurements.iter().map(|one| size_of(one));
        let x = Axis::around(sizes, Plot::LEFT + 14.0, width - MARGIN - 26.0);
        let spreads = measurements.iter().filter_map(|one| one.spread());
        let values = measurements.iter().filter_map(|one| one.median());
        let values = values.chain(spreads.flat_map(|(low, high)| [low, high]));
        let bottom = top + Plot::HEIGHT;
        Plot { x, y: Axis::around(values, bottom, top + 8.0).rounded(), width, bottom }
    }

    /// What all of it takes, with what is below the axis.
    fn height(&self) -> f64 {
        self.bottom + 50.0
    }

    /// Lines for values, and sizes with their unit below.
    fn draw_axes(&self, drawing: &mut Drawing, measurements: &[&Measurement]) {
        let right = self.width - MARGIN;
        for tick in self.y.ticks() {
            let at = self.y.place(tick);
            drawing.line((Plot::LEFT, at), (right, at), "grid");
            drawing.text(Plot::LEFT - 6.0, at + 4.0, Anchor::End, "faint", &short(tick));
        }
        let mut sizes: Vec<f64> =
            measurements.iter().filter_map(|one| Some(one.question.at.as_ref()?.value)).collect();
        sizes.sort_by(f64::total_cmp);
        sizes.dedup();
        let mut free_from = f64::MIN;
        for size in sizes {
            let (at, text) = (self.x.place(size.max(0.5)), grouped(size));
            let half = 4.4 * text.chars().count() as f64;
            drawing.line((at, self.bottom), (at, self.bottom + 5.0), "grid");
            let centre = at.min(right - half);
            if centre - half > free_from {
                drawing.text(centre, self.bottom + 20.0, Anchor::Middle, "faint", &text);
                free_from = centre + half;
            }
        }
        let unit = measurements.iter().find_map(|one| one.question.at.as_ref());
        let unit = unit.map(|at| at.unit.as_str()).unwrap_or_default();
        let middle = (Plot::LEFT + right) / 2.0;
        drawing.text(middle, self.bottom + 40.0, Anchor::Middle, "faint", unit);
    }

    fn place(&self, measurement: &Measurement) -> Option<(f64, f64)> {
        Some((self.x.place(size_of(measurement)), self.y.place(measurement.median()?)))
    }

    fn draw_spread(&self, drawing: &mut Drawing, measurement: &Measurement, class: &str) {
        if let Some((low, high)) = measurement.spread().filter(|_| has_spread(measurement)) {
            let ends = (self.y.place(low), self.y.place(high));
            drawing.whisker_up(self.x.place(size_of(measurement)), ends, class);
        }
    }
}

/// Lines over the size, one for each system; all measurements are of one case.
pub fn by_size(title: &str, measurements: &[&Measurement], width: f64) -> Figure {
    let mut drawing = Drawing::default();
    let systems = systems_of(measurements);
    let notes = notes_of(measurements, meanings(measurements));
    let top = heading(&mut drawing, width, title, &notes, &legend_of(&systems));
    let plot = Plot::new(measurements, width, top);
    plot.draw_axes(&mut drawing, measurements);
    // Where lines coincide, the first systems lie on top.
    for system in systems.into_iter().rev() {
        let class = system.slug();
        let mut own: Vec<&Measurement> =
            measurements.iter().filter(|one| one.system == system).copied().collect();
        own.sort_by(|left, right| size_of(left).total_cmp(&size_of(right)));
        let points: Vec<(f64, f64)> = own.iter().filter_map(|one| plot.place(one)).collect();
        drawing.polyline(&points, &format!("{class} stroke"));
        for one in own {
            plot.draw_spread(&mut drawing, one, class);
            let (Some(point), Some(median)) = (plot.place(one), one.median()) else { continue };
            let best = if is_best(one, measurements) { ", the best" } else { "" };
            let (value, unit) = (grouped(median), &one.question.unit);
            let text = format!("{}: {value} {unit}{best}", system.title());
            drawing.dot(point, &format!("{class} fill"), &text);
        }
    }
    Figure::new(title, drawing, width, plot.height())
}

/// How many colours cases have; further ones begin again.
const SERIES: usize = 9;

/// Lines over the size, one for each case; all measurements are of one unit. Tessera's have dots,
/// Linux's are dashed; the papers' numbers are rings without lines.
pub fn by_case(title: &str, measurements: &[&Measurement], width: f64) -> Figure {
    let mut drawing = Drawing::default();
    let cases = cases_of(measurements);
    let systems = systems_of(measurements);
    let others = [(System::Linux, "dashed: Linux"), (System::Paper, "rings: the paper")];
    let others = others.iter().filter(|(system, _)| systems.contains(system));
    let others: Vec<&str> = others.map(|(_, text)| *text).collect();
    let mut notes = notes_of(measurements, meanings(measurements));
    notes.extend((!others.is_empty()).then(|| others.join("; ")));
    let colour = |number: usize| format!("series-{}", number % SERIES);
    let entries: Vec<(String, &str)> =
        cases.iter().enumerate().map(|(number, case)| (colour(number), *case)).collect();
    let top = heading(&mut drawing, width, title, &notes, &entries);
    let plot = Plot::new(measurements, width, top);
    plot.draw_axes(&mut drawing, measurements);
    for (number, case) in cases.iter().enumerate().rev() {
        let class = colour(number);
        let of = |system: System| {
            let mut own: Vec<&Measurement> = measurements
                .iter()
                .filter(|one| one.question.case == *case && one.system == system)
                .copied()
                .collect();
            own.sort_by(|left, right| size_of(left).total_cmp(&size_of(right)));
            own
        };
        for (system, line) in [(System::Linux, "stroke dashed"), (System::Tessera, "stroke")] {
            let points: Vec<_> = of(system).iter().filter_map(|one| plot.place(one)).collect();
            drawing.polyline(&points, &format!("{class} {line}"));
            of(system).iter().for_each(|one| plot.draw_spread(&mut drawing, one, &class));
        }
        for (system, dot) in [(System::Paper, "stroke"), (System::Tessera, "fill")] {
            for one in of(system) {
                let (Some(point), Some(median)) = (plot.place(one), one.median()) else { continue };
                let text = format!("{case}, {}: {}", system.title(), grouped(median));
                drawing.dot(point, &format!("{class} {dot}"), &text);
            }
        }
    }
    Figure::new(title, drawing, width, plot.height())
}

/// A group of bars for each case, one for each system; the cases may differ in unit, so every group
/// has its own scale.
pub fn bars(title: &str, measurements: &[&Measurement], width: f64) -> Figure {
    const BAR: f64 = 15.0;
    let mut drawing = Drawing::default();
    let room = width - 2.0 * MARGIN;
    let systems = systems_of(measurements);
    let common = meanings(measurements);
    // Cases whose units or directions differ say their own.
    let alike = common.len() == 1;
    let notes = notes_of(measurements, if alike { common } else { Vec::new() });
    let mut y = heading(&mut drawing, width, title, &notes, &legend_of(&systems)) + 20.0;
    for case in cases_of(measurements) {
        let own: Vec<_> = measurements.iter().filter(|one| one.question.case == case).collect();
        y = drawing.paragraph((MARGIN, y), room, "", case);
        if let Some(one) = own.first().filter(|_| !alike) {
            y = drawing.paragraph((MARGIN, y), room, "faint", &meaning(one));
        }
        y -= 10.0;
        let reach = |one: &Measurement| Some(one.spread().map_or(one.median()?, |(_, high)| high));
        let most = own.iter().filter_map(|one| reach(one)).fold(f64::MIN_POSITIVE, f64::max);
        let medians = own.iter().filter_map(|one| one.median());
        let letters = medians.map(|median| grouped(median).len()).max().unwrap_or(0);
        let scale = (room - 9.0 * letters as f64 - 10.0) / most;
        for one in own {
            let Some(median) = one.median() else {
                let text = format!("{}: not supported", one.system.title());
                drawing.text(MARGIN, y + 12.0, Anchor::Start, "faint", &text);
                y += BAR + 3.0;
                continue;
            };
            let class = format!("{} fill", one.system.slug());
            let length = (median * scale).max(2.0);
            drawing.rectangle([MARGIN, y, length, BAR], &class, one.system.title());
            let mut end = length;
            if let Some((low, high)) = one.spread().filter(|_| has_spread(one)) {
                let ends = (MARGIN + low * scale, MARGIN + high * scale);
                drawing.whisker_across(ends, y + BAR / 2.0);
                end = end.max(high * scale);
            }
            let class = if is_best(one, measurements) { "best" } else { "faint" };
            let value = grouped(median);
            drawing.text(MARGIN + end + 6.0, y + 12.0, Anchor::Start, class, &value);
            y += BAR + 3.0;
        }
        y += 22.0;
    }
    Figure::new(title, drawing, width, y - 14.0)
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
        let alone = by_case("figure", &[&ours], WIDTH).inline().into_string();
        assert!(!alone.contains("rings") && !alone.contains("1,339"), "{alone}");
        let both = by_case("figure", &[&ours, &paper], WIDTH).inline().into_string();
        assert!(both.contains("rings: the paper") && both.contains("map, paper: 1,339"), "{both}");
    }

    fn timed(system: System, size: f64, samples: &[f64]) -> Measurement {
        let mut one = crate::results::tests::measured("map", samples);
        one.question.clock = crate::results::Clock::Wall;
        one.question.at = Some(crate::results::Size { value: size, unit: "pages".into() });
        Measurement { system, ..one }
    }

    /// The values of an attribute of all shapes.
    fn values(svg: &str, attribute: &str) -> Vec<f64> {
        let name = format!(" {attribute}=\"");
        let texts = svg.split(name.as_str()).skip(1);
        texts.map(|text| text.split('"').next().unwrap().parse().unwrap()).collect()
    }

    #[test]
    fn strokes_of_samples_stay_inside() {
        let all = [
            timed(System::Tessera, 1.0, &[1.0, 1000.0, 1e9]),
            timed(System::Tessera, 1e6, &[0.0, 900.0, 1001.0]),
            timed(System::Linux, 1.0, &[900.0]),
        ];
        let all: Vec<&Measurement> = all.iter().collect();
        for figure in [by_size("t", &all, WIDTH), by_case("t", &all, WIDTH), bars("t", &all, WIDTH)]
        {
            let svg = figure.inline().into_string();
            let strokes: String = svg.lines().filter(|line| line.contains("whisker")).collect();
            // Of the measurements that vary three lines each, one of which has the length.
            assert_eq!(strokes.matches("<line").count(), 6, "{svg}");
            for (attributes, most) in [(["x1", "x2"], WIDTH), (["y1", "y2"], figure.height)] {
                let places = attributes.map(|attribute| values(&strokes, attribute)).concat();
                assert!(places.iter().all(|place| (0.0..=most).contains(place)), "{places:?}");
            }
            // 1 and 1e9 are apart: nothing was cut off.
            let along = [("x1", "x2"), ("y1", "y2")].map(|(from, to)| {
                let lengths = values(&strokes, from).into_iter().zip(values(&strokes, to));
                lengths.map(|(from, to)| (to - from).abs()).fold(0.0, f64::max)
            });
            assert!(along.iter().any(|length| *length > 180.0), "{along:?}");
        }
    }

    #[test]
    fn figures_say_what_is_better() {
        let cost = timed(System::Tessera, 1.0, &[3.0]);
        let mut rate = cost.clone();
        rate.question.better = crate::results::Direction::Higher;
        rate.question.case = "rate".into();
        for draw in [by_size, by_case, bars] {
            let of = |all: &[&Measurement]| draw("t", all, WIDTH).inline().into_string();
            let [costs, rates] = [of(&[&cost]), of(&[&rate])];
            assert!(costs.contains("↓ lower is better") && !costs.contains('↑'), "{costs}");
            assert!(rates.contains("↑ higher is better") && !rates.contains('↓'), "{rates}");
            let both = of(&[&cost, &rate]);
            assert!(both.contains("↓ lower") && both.contains("↑ higher"), "{both}");
        }
    }

    #[test]
    fn the_best_of_several() {
        let [own, linux, paper] =
            [(System::Tessera, 20.0), (System::Linux, 10.0), (System::Paper, 1.0)]
                .map(|(system, value)| timed(system, 1.0, &[value]));
        let all = [&own, &linux, &paper];
        assert_eq!(all.map(|one| is_best(one, &all)), [false, true, false]);
        assert!(!is_best(&own, &[&own, &paper]), "it is alone");
    }

    #[test]
    fn short_numbers() {
        let texts = [0.5, 7.0, 1234.0, 65536.0, 1e6, 2.34e9].map(short);
        assert_eq!(texts, ["0.50", "7", "1,234", "65.5 k", "1 M", "2.3 G"]);
    }
}
