//! `./x bench uvm`: what it costs that pages leave and come in, how many do by policy, beside Optimal (UVM §2.2.1), and loads on
//! more memory than there is, beside Linux.

mod figures;
mod load;

use crate::bench::table_with_aims;
use crate::bench_group::{Group, Lab};
use crate::compare::harness;
use crate::results::line::{self, Defaults};
use crate::results::{grouped, Clock, Measurement, Provenance, System};
use crate::testing::{feed, this_tool};
use anyhow::{ensure, Result};
use std::fmt::Write;

pub const UVM: Group = Group {
    name: "uvm",
    parts: &[
        ("uvm/policies", policies),
        ("uvm/figures", figures::measure),
        ("uvm/load", load::measure),
    ],
};

/// The policies, as the program names them.
const POLICIES: [&str; 4] = ["fifo", "second chance", "lru", "optimal"];

fn policies(lab: &Lab) -> Result<Vec<Measurement>> {
    let folder = lab.context.folder("uvm")?;
    let program = harness(&lab.context.project, "pageout")?;
    let mut command = this_tool(lab.context, &folder)?;
    command.args(["run", "--icount", "--mem", "64M", "--swap", "128M", "--"]).arg(program);
    let output = feed(&mut command, b"")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let defaults = Defaults {
        benchmark: UVM.name.to_owned(),
        clock: Clock::Instructions,
        system: System::Tessera,
        provenance: Provenance::host(&lab.context.project),
    };
    let measured = line::parse_output(&String::from_utf8(output.stdout)?, &defaults)?;
    let is_cost = |measurement: &&Measurement| measurement.question.unit != "pages";
    let costs: Vec<Measurement> = measured.iter().filter(is_cost).cloned().collect();
    let title = "uvm: a page leaves and another comes in, in instructions";
    println!("{}", table_with_aims(&lab.context.project, title, &costs)?);
    println!("\nuvm: pages that come in\n\n{}", table(&measured));
    Ok(measured)
}

/// A row for each string of uses and number of places, a column for each policy.
fn table(measured: &[Measurement]) -> String {
    let mut text = format!("{:<12}{:>8}", "", "places");
    POLICIES.iter().for_each(|policy| _ = write!(text, "{policy:>16}"));
    text += "\n";
    let mut last = None;
    for one in measured.iter().filter(|one| one.question.unit == "pages") {
        let Some((name, policy)) = one.question.case.split_once(", ") else { continue };
        let places = one.question.at.as_ref().map_or(0.0, |at| at.value);
        if last != Some((name, places)) {
            let end = if last.is_some() { "\n" } else { "" };
            let _ = write!(text, "{end}{name:<12}{:>8}", grouped(places));
            last = Some((name, places));
        }
        let value = one.median().map_or(String::new(), grouped);
        debug_assert!(POLICIES.contains(&policy), "{policy}");
        let _ = write!(text, "{value:>16}");
    }
    text + "\n"
}
