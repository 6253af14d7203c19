//! How fast what may be on its way grows behind a loss, and what is left of it then: CUBIC (RFC 9438), as Linux has it. Soon back to nearly as much as it was when
//! something was lost, then slowly, then fast; but never slower than a sender that gains half a segment for each round trip.

/// Of what was on its way this much is left, in tenths.
const LEFT: usize = 7;
/// Segments for each round trip that who is as fast as others (RFC 5681) gains, in thousandths: 3 (1 - 0.7) / (1 + 0.7).
const GAINS: usize = 529;
/// Milliseconds, at most, that the curve is followed for: its cube fits into a word.
const LONGEST_MS: i64 = 1_000_000;

/// See the module. Windows are in bytes, times in microseconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cubic {
    /// What was on its way when something was lost.
    most: usize,
    /// When it began to grow from there on, by how long that is from `most`, and what another sender would have; `None`: it has not grown since.
    since: Option<i64>,
    takes_ms: i64,
    other: usize,
}

impl Cubic {
    /// Something was lost of so much. Answers how much there may be now.
    pub fn lost(&mut self, window: usize) -> usize {
        // Who gains less than he had has others beside him.
        let most = match window < self.most {
            true => window * (10 + LEFT) / 20,
            false => window,
        };
        *self = Cubic { most, ..Cubic::default() };
        window * LEFT / 10
    }

    /// So many bytes of a window were acknowledged, in segments of at most so many. Answers how much it grows.
    pub fn grows(
        &mut self,
        window: usize,
        (acknowledged, largest): (usize, usize),
        now: i64,
        trip: i64,
    ) -> usize {
        let since = match self.since {
            Some(since) => since,
            None => {
                self.begin(window, largest, now);
                now
            }
        };
        let gains = if self.other < self.most { GAINS } else { 1000 };
        self.other += (largest * acknowledged / window * gains / 1000).max(1);
        let target = self.curve((now + trip - since) / 1000, largest);
        let target = target.clamp(window, window * 3 / 2);
        let by_curve = (target - window) * acknowledged / window;
        by_curve.max(self.other.saturating_sub(window))
    }

    fn begin(&mut self, window: usize, largest: usize, now: i64) {
        self.since = Some(now);
        self.other = window;
        self.most = self.most.max(window);
        // The cube root of the segments between, by 0.4.
        let between = ((self.most - window) / largest) as u64;
        self.takes_ms = cube_root(between * 2_500_000_000) as i64;
    }

    /// The window after so many milliseconds: 0.4 segments for each cubic second.
    fn curve(&self, after_ms: i64, largest: usize) -> usize {
        let from = (after_ms - self.takes_ms).clamp(-LONGEST_MS, LONGEST_MS);
        let thousandths = from * from * from / 2_500_000;
        let bytes = thousandths.saturating_mul(largest as i64) / 1000;
        usize::try_from(self.most as i64 + bytes).unwrap_or(0)
    }
}

/// The largest number whose cube is not more.
fn cube_root(of: u64) -> u64 {
    let mut root = 0;
    for bit in (0..21).rev() {
        let next = root | 1 << bit;
        if next * next * next <= of {
            root = next;
        }
    }
    root
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;

    const SEGMENT: usize = 1460;
    const TRIP: i64 = 40_000;

    /// The windows of so many round trips behind a loss of so many segments, in segments.
    fn behind_a_loss(segments: usize, trips: i64) -> Vec<f64> {
        let mut cubic = Cubic::default();
        let mut window = cubic.lost(segments * SEGMENT);
        let mut all = vec![window as f64 / SEGMENT as f64];
        for trip in 0..trips {
            for _ in 0..window / SEGMENT {
                window += cubic.grows(window, (SEGMENT, SEGMENT), trip * TRIP, TRIP);
            }
            all.push(window as f64 / SEGMENT as f64);
        }
        all
    }

    /// A large window follows the curve, which is where it was after the cube root of 0.3 of it, by 0.4, and nearly flat there.
    #[test]
    fn a_large_window_follows_the_curve() {
        let most = 1000.0;
        let takes = (0.3f64 * most / 0.4).cbrt();
        let all = behind_a_loss(most as usize, 400);
        assert!((all[0] - 0.7 * most).abs() < 1.0, "{}", all[0]);
        for (trip, &window) in all.iter().enumerate().skip(2) {
            // What it is to be a round trip later.
            let at = trip as f64 * TRIP as f64 / 1e6;
            let curve = 0.4 * (at - takes).powi(3) + most;
            assert!((window / curve - 1.0).abs() < 0.03, "{trip}: {window}, not {curve}");
        }
    }

    /// A small one gains half a segment for each round trip, and a whole one from where it was on.
    #[test]
    fn a_small_window_grows_as_others_do() {
        let all = behind_a_loss(20, 40);
        let gained = all[10] - all[0];
        assert!((4.5..6.5).contains(&gained), "{gained}");
        let later = all[40] - all[30];
        assert!((8.0..15.0).contains(&later), "{later}");
    }

    /// Who had more before leaves more room for others: the curve ends lower than what was lost.
    #[test]
    fn who_loses_again_aims_lower() {
        let mut cubic = Cubic::default();
        let first = cubic.lost(1000 * SEGMENT);
        cubic.lost(first);
        assert_eq!(cubic.most, 700 * SEGMENT * 17 / 20);
        cubic.lost(2000 * SEGMENT);
        assert_eq!(cubic.most, 2000 * SEGMENT);
    }

    /// Whatever is asked, the answer is at most half of the window and what another sender has, and nothing overflows.
    #[test]
    fn nothing_overflows() {
        for window in [64, 536, 14_600, 1 << 20] {
            for largest in [64, 536, 1460, 65_483] {
                for (now, trip) in [(0, 0), (1, i64::from(u32::MAX)), (1 << 50, 1)] {
                    let mut cubic = Cubic::default();
                    cubic.lost(window);
                    cubic.grows(window, (largest, largest), 0, trip);
                    let grown = cubic.grows(window, (largest, largest), now, trip);
                    let most = window / 2 * largest / window + 2 * largest * largest / window + 2;
                    assert!(grown <= most, "{window} {largest} {now}: {grown}");
                }
            }
        }
        assert_eq!((cube_root(26), cube_root(27), cube_root(u64::from(u32::MAX))), (2, 3, 1625));
    }
}
