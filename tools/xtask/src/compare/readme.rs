//! The table in `README.md`, renewed from what was measured.

use super::table::Table;
use crate::project::Project;
use anyhow::{Context, Result};
use std::fs;

/// What the block with the table begins with, and what separates its two parts.
const BLOCK: &str = "$ ./x compare\n";
const WORST: &str = "... and where Linux is better most:\n";
/// Rows of the second part.
const ROWS: usize = 6;

/// Writes the table anew: the rows that are there, then those with the worst ratio.
pub fn renew(project: &Project, table: &Table) -> Result<()> {
    let file = project.path("README.md");
    let text = fs::read_to_string(&file).with_context(|| format!("{}", file.display()))?;
    let new = renewed(&text, table).with_context(|| format!("{} has no table", file.display()))?;
    fs::write(&file, new).with_context(|| format!("cannot write {}", file.display()))?;
    println!("README.md has the new table");
    Ok(())
}

fn renewed(text: &str, table: &Table) -> Option<String> {
    let start = text.find(BLOCK)? + BLOCK.len();
    let end = start + text[start..].find("```")?;
    let old = &text[start..end];
    let names: Vec<&str> = old
        .split(WORST)
        .next()?
        .lines()
        .skip(1)
        .map(|line| line.split("  ").next().unwrap_or(line).trim_end())
        .collect();
    let rows = table.rows();
    let (heading, measured) = rows.split_first()?;
    let kept: Vec<&Vec<String>> =
        names.iter().filter_map(|name| measured.iter().find(|row| row[0] == *name)).collect();
    let ratio = |row: &Vec<String>| row.last().and_then(|cell| cell.parse::<f64>().ok());
    let mut worst: Vec<(f64, &Vec<String>)> = measured
        .iter()
        .filter(|row| !kept.contains(row))
        .filter_map(|row| Some((ratio(row).filter(|ratio| *ratio > 1.0)?, row)))
        .collect();
    worst.sort_by(|left, right| right.0.total_cmp(&left.0));
    // One of a benchmark says enough.
    let mut seen = Vec::new();
    worst.retain(|(_, row)| {
        let own = row[0].split(',').next().unwrap_or_default().to_owned();
        let is_new = !seen.contains(&own);
        seen.push(own);
        is_new
    });
    let mut all = Table::new(heading.clone());
    let first = 1 + kept.len();
    kept.into_iter()
        .chain(worst.iter().take(ROWS).map(|(_, row)| *row))
        .for_each(|row| all.row(row.clone()));
    let rendered = all.render();
    let lines: Vec<&str> = rendered.split_inclusive('\n').collect();
    let (kept, worst) = lines.split_at(first);
    let worst_part =
        if worst.is_empty() { String::new() } else { WORST.to_owned() + &worst.concat() };
    Some(format!("{}{}{worst_part}{}", &text[..start], kept.concat(), &text[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stay_and_the_worst_follow() {
        let mut table = Table::new(["instructions", "T", "L", "ratio"].map(String::from).to_vec());
        for row in [
            ["a: b, 1", "9", "1", "9.00"],
            ["c", "1", "2", "0.50"],
            ["a: b, 2", "8", "1", "8.00"],
            ["d", "3", "2", "1.50"],
            ["e", "1", "1", "1.00"],
            ["f", "2", "1", "-"],
        ] {
            table.row(row.map(String::from).to_vec());
        }
        let text = "x\n```\n$ ./x compare\ninstructions  T\nc  7  7\ngone   1\n```\ny\n";
        let expected = "x\n```\n$ ./x compare\n\
            instructions  T  L  ratio\nc             1  2   0.50\n\
            ... and where Linux is better most:\na: b, 1       9  1   9.00\nd             3  2   1.50\n```\ny\n";
        let new = renewed(text, &table).unwrap();
        assert_eq!(new, expected);
        assert_eq!(renewed(&new, &table).unwrap(), expected, "again the same");
        assert_eq!(renewed("no table", &table), None);
    }
}
