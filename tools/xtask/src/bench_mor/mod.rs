//! `./x bench mor`: what pools and morsels cost, beside the figures of MOR chapter 5.
//!
//! | part | what is asked |
//! |---|---|
//! | [`f5.1`](populate) | what does a page cost that is populated by a fault, on how many cores at once? |
//! | [`f5.4`](map) | what does it cost to map an object (and 5.5: of that, the mapping), by how many pages it has? |
//! | [`f5.7`](packets) | how fast are packets handed over by mapping them, beside filling them? |
//! | [`snapshot`] | what does a snapshot cost by size, and a write after it? |
//! | [`recovery`] | what does it cost to format a pool, and to find out what is in it? |
//! | [`allocator`](crate::bench_host) | how fast is the pool's allocator beside one with a lock (on the host)? |
//!
//! The program is `guest/bench/morbench`. What must be so is an error here, also in tests: that nobody who faults
//! goes home for it, and that an object with many pages is mapped by the same instructions as one with a single one.

pub mod map;
mod packets;
mod populate;
mod recovery;
mod snapshot;

use crate::bench::{counting, Measuring};
use crate::bench_group::{Group, Lab};
use crate::bench_host;
use crate::machine::{MachineOptions, MemorySize};
use crate::results::{Measurement, Size};
use anyhow::Result;

/// The benchmark, and what there is to be measured.
pub const MOR: Group = Group {
    name: "mor",
    parts: &[
        ("mor/f5.1", populate::measure),
        ("mor/f5.4", map::measure),
        ("mor/f5.7", packets::measure),
        ("mor/snapshot", snapshot::measure),
        ("mor/recovery", recovery::measure),
        ("mor/allocator", |lab| bench_host::measure_pool(&lab.context.project, lab.small)),
    ],
};

impl Lab<'_> {
    /// What a part of the program says, with objects of so many pages at most.
    fn boot_part(&self, part: &str, cores: u32, mib: u64, pages: u64) -> Result<Vec<Measurement>> {
        let name = format!("mor-{part}-{cores}");
        let words = format!("part={part} pages={pages}");
        let machine = MachineOptions { cores, mem: MemorySize { mib }, ..counting() };
        self.boot_on(machine, &name, &words)
    }

    /// The same on one core, with so many other pools.
    fn boot_beside(
        &self,
        part: &str,
        pools: u64,
        mib: u64,
        pages: u64,
    ) -> Result<Vec<Measurement>> {
        let words = format!("part={part} pages={pages} pools={pools}");
        let machine = MachineOptions { mem: MemorySize { mib }, ..counting() };
        self.boot_on(machine, &format!("mor-{part}-beside"), &words)
    }

    /// The same where the cores work at the same time, so that instructions are not counted, only how often they met.
    fn boot_at_once(
        &self,
        part: &str,
        cores: u32,
        mib: u64,
        pages: u64,
    ) -> Result<Vec<Measurement>> {
        let machine =
            MachineOptions { cores, mem: MemorySize { mib }, icount: false, ..counting() };
        let words = format!("part={part} pages={pages} count=exchanges");
        self.boot_on(machine, &format!("mor-{part}-{cores}-at-once"), &words)
    }

    fn boot_on(
        &self,
        machine: MachineOptions,
        name: &str,
        words: &str,
    ) -> Result<Vec<Measurement>> {
        let (program, timeout) = ("morbench", self.timeout);
        let measuring = Measuring { benchmark: MOR.name, name, program, words, machine, timeout };
        Ok(measuring.boot(self.context)?.measured)
    }

    /// One of two numbers: of a measurement, or of a test.
    fn choose(&self, full: u64, small: u64) -> u64 {
        match self.small {
            true => small,
            false => full,
        }
    }
}

/// The unit of costs.
const INSTRUCTIONS: &str = "instructions";

/// A case's median in a unit, at a size, if it has one.
fn value(measured: &[Measurement], case: &str, at: Option<f64>, unit: &str) -> Option<f64> {
    let own = measured.iter().find(|m| {
        let question = &m.question;
        let same_size = at.is_none() || question.at.as_ref().map(|size| size.value) == at;
        question.case == case && question.unit == unit && same_size
    });
    own.and_then(Measurement::median)
}

/// The sizes at which something was measured, in ascending order.
fn sizes(measured: &[Measurement]) -> Vec<f64> {
    let of = |m: &Measurement| m.question.at.as_ref().map(|Size { value, .. }| *value);
    let mut sizes: Vec<f64> = measured.iter().filter_map(of).collect();
    sizes.sort_by(f64::total_cmp);
    sizes.dedup();
    sizes
}

/// What is said of a value that is to be so much, or better.
fn verdict(is_reached: bool) -> String {
    if is_reached { "reached" } else { "missed" }.to_owned()
}
