//! Figures 5.4 and 5.5: mapping an object, by how many pages it has.

use super::{sizes, value, verdict, Lab, INSTRUCTIONS};
use crate::compare::table::Table;
use crate::results::{self, grouped, Measurement, System};
use anyhow::{ensure, Result};

/// Orders, and pages of the largest object.
const ORDERS: [u32; 3] = [1, 2, 3];
const PAGES: u64 = 1 << 18;
const SMALL_PAGES: u64 = 1 << 9;
/// Instructions from the invocation to the return of the first access, at most.
const AIM: f64 = 1000.0;
/// What must not depend on what is in the object.
const CONSTANT: [&str; 4] = ["map and touch", "map", "touch", "unmap"];

/// Objects of each order.
pub fn measure(lab: &Lab) -> Result<Vec<Measurement>> {
    let mib = lab.choose(2048, 512);
    let measured = lab.boot_part("map", 1, mib, lab.choose(PAGES, SMALL_PAGES))?;
    print(lab, &measured)?;
    ensure_constant(&measured)?;
    Ok(measured)
}

/// Whatever an object has (but for one that has not even the page that is touched) it is mapped by the same
/// instructions.
fn ensure_constant(measured: &[Measurement]) -> Result<()> {
    let sizes: Vec<f64> = sizes(measured).into_iter().filter(|&size| size > 0.0).collect();
    for order in ORDERS {
        for what in CONSTANT {
            let case = format!("{what}, order {order}");
            let cost = |size| value(measured, &case, Some(size), INSTRUCTIONS);
            let costs: Vec<f64> = sizes.iter().filter_map(|&size| cost(size)).collect();
            ensure!(costs.len() > 2, "{case}: {} sizes only", costs.len());
            ensure!(
                costs.iter().all(|cost| *cost == costs[0]),
                "{case}: depends on how many pages there are: {costs:?}"
            );
        }
    }
    Ok(())
}

fn print(lab: &Lab, measured: &[Measurement]) -> Result<()> {
    let linux = results::read(&lab.context.project.path("guest/bench/linux.json"))?;
    println!("figures 5.4 and 5.5: objects are mapped, their first page is read, and they are unmapped\n");
    let mut words = vec!["instructions, by pages".to_owned()];
    for order in ORDERS {
        words.push(format!("order {order}: map"));
        words.extend(["first access", "unmap"].map(String::from));
    }
    words.extend(["map and touch at most", "aim", "", "Linux: map, touch all"].map(String::from));
    let mut table = Table::new(words);
    for size in sizes(measured) {
        let cost = |case: &str, order| {
            value(measured, &format!("{case}, order {order}"), Some(size), INSTRUCTIONS)
        };
        let shown = |cost: Option<f64>| cost.map_or(String::new(), grouped);
        let mut row = vec![grouped(size)];
        for order in ORDERS {
            row.extend(["map", "touch", "unmap"].map(|case| shown(cost(case, order))));
        }
        let most =
            ORDERS.iter().filter_map(|&order| cost("map and touch", order)).fold(0.0, f64::max);
        row.extend([grouped(most), grouped(AIM), verdict(most <= AIM)]);
        row.push(shown(of_linux(&linux, size)));
        table.row(row);
    }
    println!("{}", table.render());
    Ok(())
}

/// What Linux needs for shared memory that exists, whose pages are all touched.
fn of_linux(linux: &[Measurement], pages: f64) -> Option<f64> {
    let alike = linux.iter().filter(|m| {
        let question = &m.question;
        matches!(m.system, System::Linux | System::LinuxThp)
            && question.benchmark == "shared"
            && question.case == "map again and touch"
            && question.unit == INSTRUCTIONS
            && question.at.as_ref().is_some_and(|at| at.value == pages)
    });
    alike.filter_map(Measurement::median).min_by(f64::total_cmp)
}
