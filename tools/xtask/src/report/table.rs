//! Tables of a page. On a phone each row is a card with the names of its columns in it, so that none
//! is wider than the window.

use maud::{html, Markup};

/// What stands in one place of a table.
pub struct Cell {
    text: String,
    class: Option<&'static str>,
}

impl Cell {
    pub fn new(text: impl ToString) -> Cell {
        Cell { text: text.to_string(), class: None }
    }

    /// One of the classes of `page.css`, if `yes`.
    pub fn marked(self, class: &'static str, yes: bool) -> Cell {
        Cell { class: if yes { Some(class) } else { self.class }, ..self }
    }

    /// What there is nothing for.
    pub fn nothing() -> Cell {
        Cell::new("-").marked("nothing", true)
    }
}

/// Names of columns, and rows with as many cells; the first of each is its name.
pub fn table(columns: &[String], rows: Vec<Vec<Cell>>) -> Markup {
    let cells = |row: Vec<Cell>| row.into_iter().zip(columns);
    html! {
        div.scroll { table class=[(columns.len() == 5).then_some("four")] {
            thead { tr { @for column in columns { th scope="col" { (column) } } } }
            tbody {
                @for row in rows {
                    tr {
                        @for (cell, column) in cells(row) {
                            td class=[cell.class] data-label=(column) { (cell.text) }
                        }
                    }
                }
            }
        } }
    }
}

/// The same with names that are known beforehand.
pub fn table_of(columns: &[&str], rows: Vec<Vec<Cell>>) -> Markup {
    let columns: Vec<String> = columns.iter().map(|column| (*column).to_owned()).collect();
    table(&columns, rows)
}
