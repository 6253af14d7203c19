//! What got worse or better between two runs.

use super::{grouped, Clock, Direction, Measurement, Question, System};
use std::fmt::{self, Display};

/// A question with two answers.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    pub question: Question,
    pub system: System,
    /// Medians. `None` is what is not supported; one of them is there.
    pub before: Option<f64>,
    pub after: Option<f64>,
    /// Do they differ by more than chance?
    pub beyond_noise: bool,
    /// Which way they differ, be it by chance or not.
    pub worse: bool,
}

impl Clock {
    /// By how much two runs of the same may differ, as a share. Counts repeat but for the layout of
    /// memory; the median of a few times differs by up to 15 % on a machine that does other things.
    pub fn tolerance(self) -> f64 {
        match self {
            Clock::Instructions => 0.02,
            Clock::Wall => 0.20,
        }
    }
}

/// The changes by more than the noise from `before` to `after`, of what both answer; greatest first.
pub fn changes(before: &[Measurement], after: &[Measurement]) -> Vec<Change> {
    let mut changes = pairs(before, after);
    changes.retain(|change| change.beyond_noise);
    changes.sort_by(|left, right| right.size().total_cmp(&left.size()));
    changes
}

/// All that both answer, in the order of `after`.
pub fn pairs(before: &[Measurement], after: &[Measurement]) -> Vec<Change> {
    after.iter().filter_map(|new| between(counterpart(new, before)?, new)).collect()
}

/// What `all` answer to the question of `one`.
pub fn counterpart<'a>(one: &Measurement, all: &'a [Measurement]) -> Option<&'a Measurement> {
    all.iter().find(|other| other.question == one.question && other.system == one.system)
}

fn between(old: &Measurement, new: &Measurement) -> Option<Change> {
    let question = &new.question;
    let (beyond_noise, worse) = match (old.median(), new.median()) {
        (Some(before), Some(after)) => {
            let differs = (after - before).abs() > before.abs() * question.clock.tolerance();
            // Times whose samples overlap may be the same.
            let apart = match (old.range(), new.range(), question.clock) {
                (Some((low, high)), Some((new_low, new_high)), Clock::Wall) => {
                    new_low > high || new_high < low
                }
                _ => true,
            };
            (differs && apart, (after > before) == (question.better == Direction::Lower))
        }
        (Some(_), None) => (true, true),
        (None, Some(_)) => (true, false),
        (None, None) => return None,
    };
    Some(Change {
        question: question.clone(),
        system: new.system,
        before: old.median(),
        after: new.median(),
        beyond_noise,
        worse,
    })
}

impl Change {
    /// What it costs in units of what it cost before, if both are numbers: below 1 is better.
    pub fn cost(&self) -> Option<f64> {
        self.question.better.cost(self.after?, self.before?)
    }

    /// The factor, whichever way. What is not supported any more is more than anything.
    fn size(&self) -> f64 {
        self.cost().map_or(f64::INFINITY, |factor| factor.max(1.0 / factor))
    }
}

impl Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Change { question, system, before, after, worse, .. } = self;
        let word = if *worse { "worse" } else { "better" };
        write!(f, "{word:<8}{question} on {}: ", system.title())?;
        match (*before, *after) {
            (Some(before), Some(after)) => {
                let (old, new) = (grouped(before), grouped(after));
                write!(f, "{old} to {new} {}", question.unit)?;
                let percent = (after / before - 1.0) * 100.0;
                match percent.is_finite() {
                    true => write!(f, " ({percent:+.1} %)"),
                    false => Ok(()),
                }
            }
            (_, None) => write!(f, "not supported any more"),
            (None, Some(after)) => write!(f, "supported now, {} {}", grouped(after), question.unit),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::measured;
    use super::*;

    #[test]
    fn names_what_changed() {
        let before = [
            measured("same", &[100.0]),
            measured("slower", &[100.0]),
            measured("faster", &[100.0]),
            measured("gone", &[100.0]),
            measured("rate", &[100.0]),
            measured("never", &[]),
        ];
        let mut after = [
            measured("same", &[101.0]),
            measured("slower", &[110.0]),
            measured("faster", &[50.0]),
            measured("gone", &[]),
            measured("new", &[1.0]),
            measured("never", &[]),
        ];
        let found = changes(&before, &after);
        let names: Vec<_> =
            found.iter().map(|one| (one.question.case.as_str(), one.worse)).collect();
        assert_eq!(names, [("gone", true), ("faster", false), ("slower", true)]);
        assert!(found[0].to_string().contains("not supported any more"));
        assert!(found[2].to_string().starts_with("worse   mprotect: slower, 1,024 pages"));
        assert!(found[2].to_string().ends_with("100 to 110 instructions (+10.0 %)"));
        assert_eq!(pairs(&before, &after).len(), 4, "those within the noise, too");
        assert_eq!(
            changes(&after, &before)[0].to_string().split(": ").last(),
            Some("supported now, 100 instructions")
        );
        after[1].question.better = Direction::Higher;
        assert_eq!(changes(&before, &after).len(), 2, "another direction is another question");
    }

    #[test]
    fn of_rates_less_is_worse() {
        let rate = |value: f64| {
            let mut measurement = measured("rate", &[value]);
            measurement.question.better = Direction::Higher;
            [measurement]
        };
        let found = changes(&rate(100.0), &rate(50.0));
        assert_eq!((found[0].worse, found[0].cost()), (true, Some(2.0)));
    }

    #[test]
    fn nothing_was_needed_before() {
        let found = changes(&[measured("free", &[0.0])], &[measured("free", &[5.0])]);
        assert_eq!((found[0].worse, found[0].cost()), (true, None));
        assert!(found[0].to_string().ends_with("0 to 5 instructions"), "{}", found[0]);
        assert!(changes(&[measured("free", &[0.0])], &[measured("free", &[0.0])]).is_empty());
    }

    #[test]
    fn times_that_overlap_are_no_change() {
        let timed = |samples: &[f64]| {
            let mut measurement = measured("time", samples);
            measurement.question.clock = Clock::Wall;
            [measurement]
        };
        let before = timed(&[100.0, 110.0, 150.0]);
        assert!(changes(&before, &timed(&[140.0, 160.0, 170.0])).is_empty());
        assert_eq!(changes(&before, &timed(&[151.0, 160.0, 170.0])).len(), 1);
    }
}
