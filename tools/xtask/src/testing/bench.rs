//! `./x bench` in small: every program of the sets still measures, and what may not grow does not.
//!
//! Instructions are counted, not time, so the numbers are the same on every machine.

use super::{feed, this_tool, Case, Context};
use crate::results::{self, Measurement};
use anyhow::{ensure, Context as _, Result};
use std::fs;

pub fn cases() -> Vec<Case> {
    vec![Case::single("bench/scale".into(), scale)]
}

/// What must not cost more than so many times as much as something else.
const GROWTH: [(&str, f64, &str); 8] = [
    (
        "descriptors: epoll_wait, none ready, pipes, 100 descriptors",
        1.01,
        "descriptors: epoll_wait, none ready, pipes, 10 descriptors",
    ),
    (
        "descriptors: epoll_wait, none ready, eventfds, 100 descriptors",
        1.01,
        "descriptors: epoll_wait, none ready, eventfds, 10 descriptors",
    ),
    (
        "descriptors: epoll_wait, one ready, pipes, 100 descriptors",
        1.1,
        "descriptors: epoll_wait, one ready, pipes, 10 descriptors",
    ),
    (
        "descriptors: poll, none ready, each, pipes, 100 descriptors",
        1.0,
        "descriptors: poll, none ready, each, pipes, 10 descriptors",
    ),
    (
        "regions: mmap, touch and munmap, 10,000 regions",
        1.5,
        "regions: mmap, touch and munmap, 100 regions",
    ),
    (
        "regions: mprotect of one page, joining, 10,000 regions",
        1.5,
        "regions: mprotect of one page, joining, 100 regions",
    ),
    ("regions: read fault, 10,000 regions", 1.5, "regions: read fault, 100 regions"),
    (
        "regions: /proc/self/maps, each, 10,000 regions",
        1.1,
        "regions: /proc/self/maps, each, 100 regions",
    ),
];

fn scale(context: &Context) -> Result<()> {
    let all = measure(context, "scale")?;
    for program in ["calls", "descriptors", "memory", "processes", "regions", "small", "zero"] {
        let measured = all.iter().any(|one| one.question.benchmark == program);
        ensure!(measured, "{program} has measured nothing");
    }
    for (question, factor, base) in GROWTH {
        let (value, base_value) = (median(&all, question)?, median(&all, base)?);
        ensure!(
            value <= factor * base_value,
            "{question}: {value}, more than {factor} times {base}: {base_value}"
        );
    }
    Ok(())
}

/// What a small run of a set says.
fn measure(context: &Context, set: &str) -> Result<Vec<Measurement>> {
    let folder = context.folder("bench")?;
    let file = folder.join(format!("{set}.json"));
    let path = file.to_string_lossy();
    let mut command = this_tool(context, &folder)?;
    let output = feed(command.args(["bench", set, "--small", "--json", &path]), b"")?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "exit status {}: {stderr}", output.status);
    let all = results::read(&file)?;
    fs::remove_file(&file)?;
    Ok(all)
}

fn median(all: &[Measurement], question: &str) -> Result<f64> {
    let found = all.iter().find(|one| one.question.to_string() == question);
    found.and_then(Measurement::median).with_context(|| format!("not measured: {question}"))
}
