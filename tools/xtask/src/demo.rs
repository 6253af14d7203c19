//! `./x demo`: five things to see, each a command that one can type oneself.

use crate::project::Project;
use anyhow::{Context, Result};
use rustix::stdio::{stdin, stdout};
use rustix::termios::isatty;
use std::io::{BufRead, Write};
use std::process::{Command, Stdio};
use std::time::Instant;

/// Show what is special about Tessera, in five steps
///
/// Each step says what is to be seen, and runs a command that you can type yourself. On a terminal it
/// waits for Enter before each. The first three take some seconds; the fourth builds everything with probes, the
/// fifth downloads Debian's Linux kernel, the first time, which takes some minutes each.
#[derive(clap::Args, Debug)]
pub struct DemoOptions {
    /// Only these steps: self-paging, fork, revoke, trace, compare
    #[arg(value_enum)]
    steps: Vec<Step>,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq)]
enum Step {
    SelfPaging,
    Fork,
    Revoke,
    Trace,
    Compare,
}

const ALL: [Step; 5] = [Step::SelfPaging, Step::Fork, Step::Revoke, Step::Trace, Step::Compare];

/// 8 MiB in a shell's memory, and the number of pages that were copied, before and after forks.
const FORKS: &str = "s=$(head -c 8388608 /dev/zero | tr '\\0' x)
copies() { grep page_copies /proc/tessera/counters; }
copies; ( : ); copies; ( : ); copies; echo ${#s} bytes in the shell";

/// The number of capabilities beside a process, and when it has been killed.
const KILLED: &str = r#"caps() { echo "$1: $(grep ^capabilities /proc/tessera/counters)"; }
for i in 1 2 3; do sleep 1000 & sleep 0.2; caps "with a process"; kill -9 $!; wait; caps "after kill -9"; done"#;

impl Step {
    fn text(self) -> &'static str {
        match self {
            Step::SelfPaging => {
                "Self-paging. A native program has page tables and memory as capabilities, and handles its own page \
                 faults. This one keeps 64 of 256 pages of a file in memory, by three policies of its own; the kernel \
                 knows none of them."
            }
            Step::Fork => {
                "Fork without copies. A shell holds 8 MiB (2048 pages) and forks. What is shared is found out from the \
                 database of capabilities, so a fork copies no page; what you see are the few pages that parent and \
                 child write afterwards."
            }
            Step::Revoke => {
                "Revoke. Everything that a process has is made from capabilities; whoever gave them can take \
                 back all that was made of them. So a killed process leaves nothing behind: after each the number of \
                 capabilities is the same."
            }
            Step::Trace => {
                "Trace. Every function that the kernel, the library and the servers enter and leave is recorded: what a \
                 page fault or a fork does, to the instruction."
            }
            Step::Compare => {
                "Compare. The same static program in Tessera and in Debian's Linux, in the same emulator: a shell that \
                 forks a hundred times."
            }
        }
    }

    /// Arguments of `./x`, one command after the other.
    fn commands(self, trace: &str) -> Vec<Vec<String>> {
        let words = |list: &[&str]| list.iter().map(|word| word.to_string()).collect::<Vec<_>>();
        match self {
            Step::SelfPaging => vec![words(&["run", "--", "pager"])],
            Step::Fork => vec![words(&["run", "--", "sh", "-c", FORKS])],
            // What it counts depends on where programs are.
            Step::Revoke => vec![words(&["run", "--norandmaps", "--", "sh", "-c", KILLED])],
            Step::Trace => vec![
                words(&["run", "--icount", "--trace", trace, "--", "true"]),
                words(&["trace", trace, "--top", "5"]),
            ],
            Step::Compare => {
                let script = "for i in $(seq 100); do ( : ); done";
                vec![words(&[
                    "compare",
                    "--clock",
                    "instructions",
                    "--no-thp",
                    "--",
                    "sh",
                    "-c",
                    script,
                ])]
            }
        }
    }
}

/// What whoever watches wants.
enum Wish {
    Go,
    Skip,
    End,
}

/// Shows the steps; the exit status is the first that was not 0.
pub fn demo(project: &Project, options: &DemoOptions) -> Result<i32> {
    let steps: &[Step] = if options.steps.is_empty() { &ALL } else { &options.steps };
    let trace = project.state().join("demo.trace");
    let trace = trace.to_str().context("the path of this folder is not UTF-8")?;
    let mut status = 0;
    for (number, step) in (1..).zip(steps) {
        println!("\n{number} of {}: {}\n", steps.len(), wrapped(step.text()));
        let commands = step.commands(trace);
        commands.iter().for_each(|arguments| println!("  $ ./x {}", quoted(arguments)));
        match ask()? {
            Wish::Go => {}
            Wish::Skip => continue,
            Wish::End => break,
        }
        for arguments in commands {
            let began = Instant::now();
            let mut x = Command::new(project.path("x"));
            let ended =
                x.args(arguments).stdin(Stdio::null()).status().context("cannot start ./x")?;
            println!("({:.1} s)", began.elapsed().as_secs_f64());
            if !ended.success() && status == 0 {
                status = ended.code().unwrap_or(1);
            }
        }
    }
    println!(
        "\nNext: ./x run for a shell, ./x help for everything, docs/README.md for how it works."
    );
    Ok(status)
}

/// Waits for Enter, if somebody is there to press it.
fn ask() -> Result<Wish> {
    if !isatty(stdin()) || !isatty(stdout()) {
        return Ok(Wish::Go);
    }
    print!("\n[Enter] runs it, s skips it, q ends: ");
    std::io::stdout().flush()?;
    let mut line = String::new();
    let is_end = std::io::stdin().lock().read_line(&mut line)? == 0;
    Ok(match line.trim() {
        _ if is_end => Wish::End,
        "q" => Wish::End,
        "s" => Wish::Skip,
        _ => Wish::Go,
    })
}

/// Lines of no more than 100 characters.
fn wrapped(text: &str) -> String {
    let (mut lines, mut line) = (Vec::new(), String::new());
    for word in text.split_whitespace() {
        if line.len() + word.len() >= 100 {
            lines.push(std::mem::take(&mut line));
        }
        line = if line.is_empty() { word.to_owned() } else { line + " " + word };
    }
    lines.push(line);
    lines.join("\n")
}

/// As one would type it.
fn quoted(arguments: &[String]) -> String {
    let plain = |word: &str| {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=".contains(c);
        !word.is_empty() && word.chars().all(is_plain)
    };
    let word = |word: &String| match plain(word) {
        true => word.clone(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    };
    arguments.iter().map(word).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_can_be_typed() {
        let words = |list: &[&str]| list.iter().map(|word| word.to_string()).collect::<Vec<_>>();
        assert_eq!(
            quoted(&words(&["run", "--", "sh", "-c", "echo 'a b'"])),
            r"run -- sh -c 'echo '\''a b'\'''"
        );
        assert!(ALL.iter().all(|step| !step.commands("t").is_empty()));
        assert!(wrapped(Step::Fork.text()).lines().all(|line| line.len() <= 100));
    }
}
