//! Figure 5.1: population by faults on several cores.
//!
//! The cores take turns, and the counter counts for all of them. Each has the same work, so a machine whose cores work at the
//! same time takes a core's share of the instructions.

use super::{value, verdict, Lab, INSTRUCTIONS};
use crate::compare::table::Table;
use crate::results::{grouped, Measurement};
use anyhow::{ensure, Result};

/// Cores of the machines.
const MACHINES: [u32; 4] = [1, 2, 4, 8];
/// Pages of each core.
const PAGES: u64 = 4096;
const SMALL_PAGES: u64 = 600;
/// Instructions of a page beyond its zeroing, at most, and how much faster so many cores are, at least.
const AIM: f64 = 450.0;
const AIMS: [(u32, f64); 2] = [(2, 1.95), (8, 7.0)];

/// How the pages are divided between the cores. Of the last, all want each page.
const DIVISIONS: [&str; 4] = [
    "an object each",
    "one object, ranges",
    "one object, pages in turn",
    "one object, the same pages",
];
const TURNS: [&str; 2] = ["", ", short turns"];

/// Pages on 1 to 8 cores.
pub fn measure(lab: &Lab) -> Result<Vec<Measurement>> {
    let mut machines = Vec::new();
    for cores in MACHINES {
        let measured = lab.boot("populate", cores, 512, lab.choose(PAGES, SMALL_PAGES))?;
        check(cores, &measured)?;
        machines.push(measured);
    }
    print(&machines);
    Ok(machines.into_iter().flatten().collect())
}

/// Nobody who faults goes home for it, and cores that take short turns meet each other.
fn check(cores: u32, measured: &[Measurement]) -> Result<()> {
    let travels = measured.iter().filter(|m| m.question.unit == "travels");
    for one in travels {
        ensure!(one.median() == Some(0.0), "{}: somebody went home", one.question);
    }
    let race = format!("{}{}", DIVISIONS[3], TURNS[1]);
    let lost = value(measured, &race, None, "exchanges lost");
    ensure!(cores == 1 || lost.is_some_and(|lost| lost > 0.0), "no core has met another");
    Ok(())
}

fn print(machines: &[Vec<Measurement>]) {
    let zeroing = value(&machines[0], "zeroing, per page", None, INSTRUCTIONS).unwrap_or(0.0);
    println!("figure 5.1: pages populated by faults; zeroing one takes {} instructions\n", grouped(zeroing));
    let mut words = vec!["instructions of a page beyond that".to_owned()];
    words.extend(MACHINES.map(|cores| format!("{cores} cores")));
    words.extend(["aim".to_owned(), String::new()]);
    words.extend(AIMS.map(|(cores, _)| format!("{cores} cores are faster")));
    words.extend(["aim".to_owned(), "exchanges lost by 8".to_owned()]);
    let mut table = Table::new(words);
    for turns in TURNS {
        for division in DIVISIONS {
            table.row(row(machines, division, turns, zeroing));
        }
    }
    println!("{}", table.render());
}

fn row(machines: &[Vec<Measurement>], division: &str, turns: &str, zeroing: f64) -> Vec<String> {
    let case = format!("{division}{turns}");
    let cost = |machine: usize| value(&machines[machine], &case, None, INSTRUCTIONS);
    // Alone, nobody has to take turns.
    let alone = value(&machines[0], division, None, INSTRUCTIONS);
    let costs: Vec<_> = (0..MACHINES.len()).map(|n| if n == 0 { alone } else { cost(n) }).collect();
    let mut row = vec![case.clone()];
    row.extend(costs.iter().map(|cost| cost.map_or("-".into(), |cost| grouped(cost - zeroing))));
    // Who loses a race has not populated a page.
    if division == DIVISIONS[3] {
        row.extend([String::new(), String::new(), String::new(), String::new(), String::new()]);
    } else {
        let worst = costs.iter().flatten().fold(0.0_f64, |worst, cost| worst.max(cost - zeroing));
        row.extend([grouped(AIM), verdict(worst <= AIM)]);
        let faster = |cores: u32| {
            let machine = MACHINES.iter().position(|&own| own == cores)?;
            Some(f64::from(cores) * alone? / costs[machine]?)
        };
        let speeds = AIMS.map(|(cores, _)| faster(cores));
        row.extend(speeds.map(|speed| speed.map_or("-".into(), |speed| format!("{speed:.2}"))));
        let reached = AIMS.iter().zip(speeds).all(|((_, aim), own)| own.is_some_and(|own| own >= *aim));
        row.push(verdict(reached));
    }
    let lost = value(&machines[MACHINES.len() - 1], &case, None, "exchanges lost");
    row.push(lost.map_or("-".into(), grouped));
    row
}
