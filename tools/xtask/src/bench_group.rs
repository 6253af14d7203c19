//! A benchmark of several parts, each of which can be asked for by its name.

use crate::bench::Kept;
use crate::results::Measurement;
use crate::testing::Context;
use anyhow::Result;
use std::time::Duration;

/// Where programs are booted.
pub struct Lab<'a> {
    pub context: &'a Context,
    pub timeout: Duration,
    /// Only to see that everything works.
    pub small: bool,
}

/// What there is to be measured, by the name that it can be asked for.
type Part = (&'static str, fn(&Lab) -> Result<Vec<Measurement>>);

/// A benchmark.
pub struct Group {
    /// That of all parts together.
    pub name: &'static str,
    pub parts: &'static [Part],
}

impl Group {
    /// Is this a part of the benchmark, or all of it?
    pub fn has(&self, name: &str) -> bool {
        name == self.name || self.parts.iter().any(|(part, _)| *part == name)
    }

    /// The names of all parts.
    pub fn parts(&self) -> impl Iterator<Item = &'static str> {
        self.parts.iter().map(|(part, _)| *part)
    }

    /// One part.
    pub fn measure_part(&self, lab: &Lab, name: &str) -> Result<Vec<Measurement>> {
        match self.parts.iter().find(|(part, _)| *part == name) {
            Some((_, measure)) => measure(lab),
            None => anyhow::bail!("there is no {name}"),
        }
    }

    /// Measures the parts with these names (none: everything) and prints what comes of it.
    pub fn measure(&self, lab: &Lab, names: &[String], kept: &mut Kept) -> Result<()> {
        let is_all = names.is_empty() || names.iter().any(|name| name == self.name);
        let is_wanted = |part: &str| is_all || names.iter().any(|name| name == part);
        for (part, measure) in self.parts.iter().filter(|(part, _)| is_wanted(part)) {
            kept.keep(part, measure(lab))?;
        }
        Ok(())
    }
}
