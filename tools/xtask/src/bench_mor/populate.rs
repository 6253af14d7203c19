//! Figure 5.1: population by faults on several cores.
//!
//! The cores take turns, a page each, and the counter counts for all of them. Each has the same work, so a machine whose cores
//! work at the same time takes a core's share of the instructions.

use super::{value, verdict, Lab, INSTRUCTIONS};
use crate::compare::table::Table;
use crate::results::{grouped, Measurement};
use anyhow::{bail, ensure, Result};

/// Cores of the machines.
const MACHINES: [u32; 4] = [1, 2, 4, 8];
/// Pages of each core.
const PAGES: u64 = 4096;
const SMALL_PAGES: u64 = 600;
/// Instructions of a page beyond its zeroing, at most, and how much faster so many cores are, at least.
const AIM: f64 = 450.0;
const AIMS: [(u32, f64); 2] = [(2, 1.95), (8, 7.0)];

/// How the pages are divided between the cores. Of the last, all want each page.
const DIVISIONS: [&str; 4] =
    ["an object each", "one object, ranges", "one object, pages in turn", RACE];
const RACE: &str = "one object, the same pages";
/// Cores of the machine on which they do not take turns.
const AT_ONCE: u32 = 4;
/// Other pools of one of the machines: all that there can be.
const MOST_BESIDE: u64 = 14;

/// Pages on 1 to 8 cores.
pub fn measure(lab: &Lab) -> Result<Vec<Measurement>> {
    let pages = lab.choose(PAGES, SMALL_PAGES);
    let mut machines = Vec::new();
    for cores in MACHINES {
        let measured = lab.boot_part("populate", cores, 512, pages)?;
        ensure_nobody_travels(&measured)?;
        machines.push(measured);
    }
    let beside = lab.boot_beside("populate", MOST_BESIDE, 512, pages)?;
    ensure_as_cheap(&machines[0], &beside)?;
    // Here cores meet within the kernel, so that they can lose exchanges; how often, is another number every time.
    let at_once = lab.boot_at_once("populate", AT_ONCE, 512, pages)?;
    ensure_nobody_travels(&at_once)?;
    print(&machines, &at_once);
    Ok(machines.into_iter().flatten().collect())
}

/// A fault costs the same however many pools there are.
fn ensure_as_cheap(alone: &[Measurement], beside: &[Measurement]) -> Result<()> {
    for division in DIVISIONS {
        let [alone, beside] = [alone, beside].map(|all| value(all, division, None, INSTRUCTIONS));
        let (Some(alone), Some(beside)) = (alone, beside) else {
            bail!("{division}: it was not measured");
        };
        // Where in memory the tables are makes a difference of two or three.
        ensure!(
            (alone - beside).abs() < 0.01 * alone,
            "{division}: {alone}, beside other pools {beside}"
        );
    }
    Ok(())
}

/// Whoever faults on whichever core is served there.
fn ensure_nobody_travels(measured: &[Measurement]) -> Result<()> {
    let travels = || measured.iter().filter(|m| m.question.unit == "travels");
    ensure!(travels().count() == DIVISIONS.len(), "it was not counted who went home");
    for one in travels() {
        ensure!(one.median() == Some(0.0), "{}: somebody went home", one.question);
    }
    Ok(())
}

fn print(machines: &[Vec<Measurement>], at_once: &[Measurement]) {
    let zeroing = value(&machines[0], "zeroing, per page", None, INSTRUCTIONS).unwrap_or(0.0);
    let zeroed = grouped(zeroing);
    println!("figure 5.1: pages populated by faults; zeroing one takes {zeroed} instructions\n");
    let mut words = vec!["instructions of a page beyond that".to_owned()];
    words.extend(MACHINES.map(|cores| format!("{cores} cores")));
    words.extend(["aim".to_owned(), String::new()]);
    words.extend(AIMS.map(|(cores, _)| format!("{cores} are faster by")));
    words.extend(["aim: 1.95 and 7".to_owned(), format!("exchanges lost by {AT_ONCE}")]);
    let mut table = Table::new(words);
    for division in DIVISIONS {
        table.row(row(machines, at_once, division, zeroing));
    }
    println!("{}", table.render());
}

fn row(
    machines: &[Vec<Measurement>],
    at_once: &[Measurement],
    division: &str,
    zeroing: f64,
) -> Vec<String> {
    let costs: Vec<Option<f64>> =
        machines.iter().map(|machine| value(machine, division, None, INSTRUCTIONS)).collect();
    let mut row = vec![division.to_owned()];
    row.extend(costs.iter().map(|cost| cost.map_or("-".into(), |cost| grouped(cost - zeroing))));
    if division == RACE {
        // Who loses a race has not populated a page.
        row.extend([const { String::new() }; 5]);
    } else {
        let worst = costs.iter().flatten().fold(0.0_f64, |worst, cost| worst.max(cost - zeroing));
        row.extend([grouped(AIM), verdict(worst <= AIM)]);
        let faster = |cores: u32| {
            let machine = MACHINES.iter().position(|&own| own == cores)?;
            Some(f64::from(cores) * costs[0]? / costs[machine]?)
        };
        let speeds = AIMS.map(|(cores, _)| faster(cores));
        row.extend(speeds.map(|speed| speed.map_or("-".into(), |speed| format!("{speed:.2}"))));
        let mut pairs = AIMS.iter().zip(speeds);
        row.push(verdict(pairs.all(|((_, aim), own)| own.is_some_and(|own| own >= *aim))));
    }
    row.push(value(at_once, division, None, "exchanges").map_or("-".into(), grouped));
    row
}
