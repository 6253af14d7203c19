//! `./x trace FILE`.

use super::{page, text};
use ::trace::dump::Dump;
use ::trace::profile::{matching, median_call, rows, Trees};
use ::trace::timeline::Timeline;
use anyhow::{Context, Result};
use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;

/// Show what a trace says: which functions ran, how often, how long, and called by whom
///
/// FILE was written by ./x run --trace FILE. Prints the functions with the most time of their own,
/// what programs left user mode for, whose time it was, and the call trees of one page fault and one fork: of several
/// the one that took the median time. Writes a flame graph and distributions to FILE.html.
///
/// Times are instructions if the run counted them (--icount), and ticks of the time-stamp counter
/// if not; the cost of the probes is taken off. A call that waits takes no time.
#[derive(clap::Args, Debug)]
pub struct TraceOptions {
    /// The trace
    pub file: PathBuf,
    /// How many functions
    #[arg(long, value_name = "N", default_value_t = 30)]
    pub top: usize,
    /// The tree of a call whose name contains this (several times: of each) instead of a page fault
    /// and a fork
    #[arg(long, value_name = "NAME")]
    pub tree: Vec<String>,
    /// Levels of the trees
    #[arg(long, value_name = "N", default_value_t = 9)]
    pub depth: usize,
    /// Where the page with the pictures goes
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// Does it; the result is our exit status.
pub fn trace(options: &TraceOptions) -> Result<i32> {
    let bytes = fs::read(&options.file)
        .with_context(|| format!("cannot read {}", options.file.display()))?;
    let dump = Dump::from_bytes(&bytes).with_context(|| format!("{}", options.file.display()))?;
    let timeline = Timeline::shown(&dump);
    let rows = rows(&timeline);
    let mut text = text::summary(&dump, &timeline);
    let functions = rows.iter().filter(|row| !text::is_episode(row)).take(options.top);
    text += &format!("\n{}", text::table(&dump, "function", functions));
    let episodes = rows.iter().filter(|row| text::is_episode(row));
    text += &format!("\n{}", text::table(&dump, "why programs were left", episodes));
    text += &format!("\n{}", text::processes(&dump, &timeline));
    text += &trees(options, &dump, &timeline)?;
    // Who reads may have seen enough.
    let _ = io::stdout().write_all(text.as_bytes());
    let html = options.html.clone().unwrap_or_else(|| {
        let mut name = options.file.clone().into_os_string();
        name.push(".html");
        name.into()
    });
    let page = page::page(&dump, &timeline, &rows)?;
    fs::write(&html, page.into_string())
        .with_context(|| format!("cannot write {}", html.display()))?;
    eprintln!("x: flame graph and distributions are in {}", html.display());
    Ok(0)
}

/// What a fork is called: the three system calls that do it.
pub const FORKS: [&str; 3] = ["system call fork", "system call clone", "system call vfork"];

fn trees(options: &TraceOptions, dump: &Dump, timeline: &Timeline) -> Result<String> {
    let trees = Trees::new(timeline);
    let median = |heading: &str, patterns: &[&str]| -> Option<String> {
        let calls: Vec<_> =
            patterns.iter().flat_map(|pattern| matching(dump, timeline, pattern)).collect();
        let count = calls.len();
        let tree = trees.of(median_call(timeline, calls)?);
        let tree = text::tree(dump, timeline, &tree, options.depth);
        Some(format!("\n{heading}: the median of {count}\n\n{tree}"))
    };
    if options.tree.is_empty() {
        let usual = [median("a page fault", &["page fault"]), median("a fork", &FORKS)];
        return Ok(usual.into_iter().flatten().collect());
    }
    let chosen = options.tree.iter().map(|pattern| {
        median(pattern, &[pattern]).with_context(|| {
            format!("no call in the trace has a name with {pattern:?} in it and has ended")
        })
    });
    chosen.collect()
}
