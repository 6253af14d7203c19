//! Tables of text with a heading for each column.

/// Rows of cells, the first cell of each its name.
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub fn new(heading: Vec<String>) -> Table {
        Table { rows: vec![heading] }
    }

    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// The heading, and what is below it.
    pub fn rows(&self) -> &[Vec<String>] {
        &self.rows
    }

    /// Names to the left, everything else to the right, columns two spaces apart.
    pub fn render(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let line = |row: &Vec<String>| {
            let cells = row.iter().zip(&widths).enumerate();
            let padded = cells.map(|(i, (cell, &width))| match i {
                0 => format!("{cell:<width$}"),
                _ => format!("  {cell:>width$}"),
            });
            padded.collect::<String>().trim_end().to_owned() + "\n"
        };
        self.rows.iter().map(line).collect()
    }
}

/// How many times as much the left one is.
pub fn ratio(left: Option<f64>, right: Option<f64>) -> String {
    match (left, right) {
        (Some(left), Some(right)) if right > 0.0 => format!("{:.2}", left / right),
        _ => "-".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns() {
        let cells = |row: &[&str]| row.iter().map(|cell| cell.to_string()).collect::<Vec<_>>();
        let mut table = Table::new(cells(&["", "Tessera", "Linux"]));
        table.row(cells(&["exit status", "0", "timed out"]));
        table.row(cells(&["µs", "1"]));
        let expected = "             Tessera      Linux\n\
                        exit status        0  timed out\n\
                        µs                 1\n";
        assert_eq!(table.render(), expected);
        assert_eq!(ratio(Some(1.0), Some(4.0)), "0.25");
        assert_eq!(ratio(Some(1.0), None), "-");
        assert_eq!(ratio(Some(1.0), Some(0.0)), "-");
    }
}
