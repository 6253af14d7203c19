//! What got worse or better between two runs.

use super::{grouped, Clock, Direction, Measurement};
use std::fmt::{self, Display};

/// A question with two answers that differ by more than chance.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    pub question: String,
    pub unit: String,
    pub before: f64,
    pub after: f64,
    pub worse: bool,
}

impl Clock {
    /// By how much two runs of the same may differ, as a share. Counts repeat but for the layout of
    /// memory; the median of a few times differs by up to 15 % on a machine that does other things.
    fn tolerance(self) -> f64 {
        match self {
            Clock::Instructions => 0.02,
            Clock::Wall => 0.20,
        }
    }
}

/// The changes from `before` to `after`, of what both answer; greatest first.
pub fn changes(before: &[Measurement], after: &[Measurement]) -> Vec<Change> {
    let counterpart = |new: &Measurement| {
        before.iter().find(|old| old.question == new.question && old.system == new.system)
    };
    let mut changes: Vec<Change> =
        after.iter().filter_map(|new| between(counterpart(new)?, new)).collect();
    changes.sort_by(|left, right| right.size().total_cmp(&left.size()));
    changes
}

fn between(old: &Measurement, new: &Measurement) -> Option<Change> {
    let (before, after) = match (old.median(), new.median()) {
        (Some(before), Some(after)) => (before, after),
        // What is not supported any more is worse than anything.
        (Some(before), None) => (before, f64::INFINITY),
        _ => return None,
    };
    let question = &new.question;
    let differs = (after - before).abs() > before.abs() * question.clock.tolerance();
    // Times whose samples overlap may be the same.
    let apart = match (old.range(), new.range(), question.clock) {
        (Some((low, high)), Some((new_low, new_high)), Clock::Wall) => {
            new_low > high || new_high < low
        }
        _ => true,
    };
    let worse = after.is_infinite() || (after > before) == (question.better == Direction::Lower);
    (differs && apart).then(|| Change {
        question: format!("{} on {}", question, new.system.title()),
        unit: question.unit.clone(),
        before,
        after,
        worse,
    })
}

impl Change {
    /// The factor, whichever way.
    fn size(&self) -> f64 {
        let factor = self.after / self.before;
        factor.max(1.0 / factor)
    }
}

impl Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Change { question, unit, before, after, .. } = self;
        let word = if self.worse { "worse" } else { "better" };
        if after.is_infinite() {
            return write!(f, "worse   {question}: not supported any more");
        }
        let (old, new) = (grouped(*before), grouped(*after));
        let percent = (after / before - 1.0) * 100.0;
        write!(f, "{word:<8}{question}: {old} to {new} {unit} ({percent:+.1} %)")
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
        ];
        let mut after = [
            measured("same", &[101.0]),
            measured("slower", &[110.0]),
            measured("faster", &[50.0]),
            measured("gone", &[]),
            measured("new", &[1.0]),
        ];
        let found = changes(&before, &after);
        let names: Vec<_> = found.iter().map(|change| (change.before, change.worse)).collect();
        assert_eq!(names, [(100.0, true), (100.0, false), (100.0, true)]);
        assert!(found[0].to_string().contains("not supported any more"));
        assert!(found[2].to_string().starts_with("worse   mprotect: slower, 1,024 pages"));
        assert!(found[2].to_string().ends_with("100 to 110 instructions (+10.0 %)"));
        after[1].question.better = Direction::Higher;
        assert_eq!(changes(&before, &after).len(), 2, "another direction is another question");
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
