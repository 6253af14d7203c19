//! The load averages: how many threads run or could, over one, five and fifteen minutes.

use crate::clock::{Clock, Due, SECOND};
use crate::procs::Procs;
use core::fmt;

/// Time between two looks.
const EVERY_NS: u64 = 5 * SECOND;
/// Bits behind the point.
const SHIFT: u32 = 11;
const ONE: u64 = 1 << SHIFT;
/// What is left of an average after 5 seconds: e^(-5 s / 1, 5 and 15 min).
const LEFT: [u64; 3] = [1884, 2014, 2037];

/// The averages, with [`SHIFT`] bits behind the point.
#[derive(Default)]
pub struct Load([u64; 3]);

impl Load {
    /// Looks for the first time.
    pub fn begin(clock: &mut Clock) -> Load {
        clock.add(clock.now() + EVERY_NS, Due::Load);
        Load::default()
    }

    /// Looks again.
    pub fn look(&mut self, procs: &Procs, clock: &mut Clock) {
        let (running, _) = procs.running();
        for (average, left) in self.0.iter_mut().zip(LEFT) {
            *average = (*average * left + running * ONE * (ONE - left)) / ONE;
        }
        clock.add(clock.now() + EVERY_NS, Due::Load);
    }
}

impl Load {
    /// As `sysinfo` says them: 16 bits behind the point.
    pub fn fixed_point(&self) -> [u64; 3] {
        self.0.map(|average| average << (16 - SHIFT))
    }
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, average) in self.0.into_iter().enumerate() {
            let rounded = average + ONE / 200;
            let hundredths = ((rounded & (ONE - 1)) * 100) >> SHIFT;
            let space = if n == 0 { "" } else { " " };
            write!(f, "{space}{}.{hundredths:02}", rounded >> SHIFT)?;
        }
        Ok(())
    }
}
