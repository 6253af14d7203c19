//! Measuring, and saying what was measured.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;
use libos::{log, Status};

/// The time-stamp counter.
#[inline(always)]
pub fn ticks() -> u64 {
    // SAFETY: reads a counter.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// The cost of `work`.
#[inline(always)]
pub fn time<T>(work: impl FnOnce() -> Result<T, Status>) -> Result<u64, Status> {
    let before = ticks();
    work()?;
    Ok(ticks() - before)
}

/// What a number is about: its figure, and one of the things there.
#[derive(Clone, Copy)]
pub struct Case<'a> {
    /// Such as `G12-table-4.2`.
    pub figure: &'a str,
    pub name: &'a str,
    /// The place on the x-axis, and its unit.
    pub at: Option<(u64, &'a str)>,
}

impl<'a> Case<'a> {
    /// A case without a size.
    pub const fn new(figure: &'a str, name: &'a str) -> Self {
        Case { figure, name, at: None }
    }

    /// The same at a size.
    pub const fn at(self, value: u64, unit: &'a str) -> Self {
        Case { at: Some((value, unit)), ..self }
    }

    /// Reports samples in instructions.
    pub fn samples(self, samples: &[u64]) {
        self.each(samples, 1);
    }

    /// Reports instructions for each of the `count` things that samples are of together.
    pub fn each(self, samples: &[u64], count: u64) {
        self.line(samples, count, "instructions");
    }

    /// Reports one number of another kind.
    pub fn value(self, value: u64, unit: &str) {
        self.line(&[value], 1, unit);
    }

    /// Reports one number over another.
    pub fn ratio(self, number: u64, over: u64) {
        self.line(&[number], over, "times");
    }

    fn line(self, samples: &[u64], count: u64, unit: &str) {
        let mut line = String::new();
        let _ = write!(line, "@bench {}", self.name);
        for sample in samples {
            let thousandths = (sample % count * 1000 + count / 2) / count;
            let whole = sample / count + thousandths / 1000;
            let _ = match thousandths % 1000 {
                0 => write!(line, " {whole}"),
                rest => write!(line, " {whole}.{rest:03}"),
            };
        }
        if let Some((value, unit)) = self.at {
            let _ = write!(line, " at={value}:{unit}");
        }
        log!("{line} unit={unit} benchmark={}", self.figure);
    }
}

/// Takes `rounds` samples.
pub fn sample(
    rounds: usize,
    mut work: impl FnMut() -> Result<u64, Status>,
) -> Result<Vec<u64>, Status> {
    // Warms up what is filled on first use.
    work()?;
    (0..rounds).map(|_| work()).collect()
}
