//! Aligned tables and CSV from the same rows.

use std::borrow::Cow;
use std::fmt;

use crate::output::{folded, shown};

/// A count of things: "1 level", "2 levels".
pub fn counted(count: usize, thing: &str) -> String {
    if count == 1 { format!("1 {thing}") } else { format!("{count} {thing}s") }
}

/// What stands before each column.
const GAP: &str = "  ";

/// So much is left for words even where there is no room: they would be a letter a line.
const LEAST_WORDS: usize = 20;

/// A table with a header; columns whose cells are all numbers are aligned to the right.
#[derive(Debug)]
pub struct Table {
    header: Vec<String>,
    rows: Vec<Vec<Cell>>,
}

/// A cell of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    /// What a table has; control characters are shown and not sent.
    text: String,
    /// What the CSV has, where that differs.
    csv: Option<String>,
}

impl Cell {
    /// A load, flow or share: as [`number`] shows it in the table, and in the CSV with all of its digits.
    pub fn number(value: f64) -> Cell {
        Self { text: number(value), csv: Some(format!("{value:?}")) }
    }

    /// The same with four digits behind the point, whatever the value: for what is of the order of 1, or nothing.
    pub fn fixed(value: f64) -> Cell {
        Self { text: format!("{value:.4}"), csv: Some(format!("{value:?}")) }
    }

    fn csv(&self) -> &str {
        self.csv.as_ref().unwrap_or(&self.text)
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Cell {
        match shown(&text) {
            Cow::Borrowed(_) => Self { text, csv: None },
            Cow::Owned(shown) => Self { text: shown, csv: Some(text) },
        }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Cell {
        text.to_owned().into()
    }
}

impl Table {
    /// A table without rows.
    pub fn new(header: impl IntoIterator<Item = impl Into<String>>) -> Table {
        Self { header: header.into_iter().map(Into::into).collect(), rows: Vec::new() }
    }

    /// Adds a row with as many cells as the header.
    pub fn push(&mut self, row: Vec<String>) {
        self.push_cells(row.into_iter().map(Cell::from).collect());
    }

    /// The same for cells that are not the same in tables and in CSV.
    pub fn push_cells(&mut self, row: Vec<Cell>) {
        self.rows.push(row);
    }

    /// The table as comma-separated values.
    pub fn csv(&self) -> String {
        let mut out = self.header.join(",") + "\n";
        for row in &self.rows {
            out += &(row.iter().map(|cell| quote(cell.csv())).collect::<Vec<_>>().join(",") + "\n");
        }
        out
    }

    /// The table for a place with so many columns of text, if it is limited: what does not fit beside each other stands
    /// below each other, in several tables that all begin with the first column. Words in the last of them that are too
    /// many even so go on below.
    pub fn folded(&self, columns: Option<usize>) -> String {
        let room = columns.unwrap_or(usize::MAX);
        let parts = self.parts(room);
        let parts: Vec<String> = parts.iter().map(|part| Shown::new(self, part, room).to_string()).collect();
        parts.join("\n")
    }

    /// Which columns stand beside each other.
    fn parts(&self, room: usize) -> Vec<Vec<usize>> {
        let width = |column| GAP.len() + self.width(column);
        let mut parts: Vec<Vec<usize>> = Vec::new();
        let mut left = 0;
        for column in 0..self.header.len() {
            match parts.last_mut() {
                Some(part) if part.len() < 2 || width(column) <= left => part.push(column),
                Some(_) => {
                    parts.push(vec![0, column]);
                    left = room.saturating_sub(width(0));
                }
                None => {
                    parts.push(vec![column]);
                    left = room;
                }
            }
            left = left.saturating_sub(width(column));
        }
        parts
    }

    fn width(&self, column: usize) -> usize {
        let cells = self.rows.iter().map(|row| row[column].text.chars().count());
        cells.chain([self.header[column].chars().count()]).max().unwrap_or(0)
    }

    fn is_numeric(&self, column: usize) -> bool {
        self.rows.iter().all(|row| is_number(&row[column].text))
    }
}

/// Whether that is a number, with or without a unit, or stands for none.
fn is_number(text: &str) -> bool {
    let (number, unit) = text.split_once(' ').unwrap_or((text, ""));
    let is_plain = number.replace(',', "").parse::<f64>().is_ok();
    matches!(number, "" | "-") || (is_plain && matches!(unit, "" | "%" | "B" | "KiB" | "MiB" | "GiB" | "TiB"))
}

/// Some columns of a table.
struct Shown<'a> {
    table: &'a Table,
    columns: Vec<Column>,
}

/// How a column is shown. Tables may have hundreds of thousands of rows, so this is found once.
struct Column {
    index: usize,
    width: usize,
    is_numeric: bool,
}

impl<'a> Shown<'a> {
    /// Columns in so much room; a last one of words gets what is left.
    fn new(table: &'a Table, columns: &[usize], room: usize) -> Self {
        let column =
            |&index: &usize| Column { index, width: table.width(index), is_numeric: table.is_numeric(index) };
        let mut columns: Vec<Column> = columns.iter().map(column).collect();
        if let Some((last, others)) = columns.split_last_mut()
            && !last.is_numeric
        {
            let taken: usize = others.iter().map(|other| GAP.len() + other.width).sum();
            last.width = last.width.min(room.saturating_sub(taken + GAP.len()).max(LEAST_WORDS));
        }
        Self { table, columns }
    }

    fn line(&self, f: &mut fmt::Formatter<'_>, cells: &[&str]) -> fmt::Result {
        let Some((last, others)) = self.columns.split_last() else { return writeln!(f) };
        let mut words = folded(cells[last.index], last.width).into_iter();
        let first = words.next();
        let mut line = String::new();
        for column in &self.columns {
            let width = column.width;
            let own = first.as_deref().filter(|_| column.index == last.index);
            let cell = own.unwrap_or(cells[column.index]);
            line += GAP;
            line += &match column.is_numeric {
                true => format!("{cell:>width$}"),
                false => format!("{cell:<width$}"),
            };
        }
        writeln!(f, "{}", line.trim_end())?;
        let indent: usize = others.iter().map(|column| GAP.len() + column.width).sum();
        words.try_for_each(|rest| writeln!(f, "{}{GAP}{rest}", " ".repeat(indent)))
    }
}

impl<'a> fmt::Display for Shown<'a> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let header: Vec<&str> = self.table.header.iter().map(String::as_str).collect();
        self.line(f, &header)?;
        let rules: Vec<String> = self.columns.iter().map(|column| "─".repeat(column.width)).collect();
        writeln!(f, "{}", format!("{GAP}{}", rules.join(GAP)).trim_end())?;
        let cells = |row: &'a [Cell]| row.iter().map(|cell| cell.text.as_str()).collect::<Vec<_>>();
        self.table.rows.iter().try_for_each(|row| self.line(f, &cells(row)))
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.folded(None))
    }
}

/// A cell of CSV.
pub fn quote(cell: &str) -> String {
    if cell.contains([',', '"', '\n']) { format!("\"{}\"", cell.replace('"', "\"\"")) } else { cell.into() }
}

/// From here on four digits behind the point tell enough of a number.
const PLAIN: f64 = 0.001;

/// A load, flow or share to read: four digits behind the point, and where these would tell little four of its own and
/// a power of ten.
pub fn number(value: f64) -> String {
    if value == 0.0 || value.abs() >= PLAIN { format!("{value:.4}") } else { format!("{value:.3e}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(["site", "size", "share", "published"]);
        table.push(["lab", "1.20 MiB", "3 %", "2 days ago"].map(String::from).to_vec());
        table.push(["tower", "12 B", "12.5 %", "now"].map(String::from).to_vec());
        table
    }

    #[test]
    fn numbers_stand_to_the_right() {
        let shown = table().to_string();
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines[0], "  site       size   share  published");
        assert_eq!(lines[2], "  lab    1.20 MiB     3 %  2 days ago");
        assert_eq!(lines[3], "  tower      12 B  12.5 %  now");
    }

    /// All loads were 0.0000 where one link was ten thousand times as wide as the narrowest.
    #[test]
    fn small_numbers_keep_their_digits_and_csv_has_all_of_them() {
        let shown = [0.5, 0.0, 0.001, -2.0, 12_345.678_9, 0.000_123_456, -1.0 / 3e12].map(number);
        assert_eq!(shown, ["0.5000", "0.0000", "0.0010", "-2.0000", "12345.6789", "1.235e-4", "-3.333e-13"]);
        let mut loads = Table::new(["load", "link"]);
        loads.push_cells(vec![Cell::number(1.0 / 3.0), "a".into()]);
        loads.push_cells(vec![Cell::number(0.000_123_456), "b".into()]);
        assert_eq!(loads.csv(), "load,link\n0.3333333333333333,a\n0.000123456,b\n");
        let lines: Vec<String> = loads.to_string().lines().map(String::from).collect();
        assert_eq!(lines[2..], ["    0.3333  a", "  1.235e-4  b"]);
    }

    /// A name with an escape sequence coloured the terminal, and one with a line break tore its row.
    #[test]
    fn control_characters_of_names_are_shown_in_tables_and_kept_in_csv() {
        let mut names = Table::new(["node", "sends"]);
        names.push(["a\u{1b}[31mb\nc", "all"].map(String::from).to_vec());
        assert_eq!(names.to_string().lines().nth(2), Some("  a\\u{1b}[31mb\\nc  all"));
        assert_eq!(names.csv(), "node,sends\n\"a\u{1b}[31mb\nc\",all\n");
    }

    #[test]
    fn what_does_not_fit_stands_below_with_the_first_column() {
        let folded = table().folded(Some(26));
        assert!(folded.lines().all(|line| line.chars().count() <= 26), "{folded}");
        let heads: Vec<&str> = folded.lines().filter(|line| line.starts_with("  site")).collect();
        assert_eq!(heads, ["  site       size   share", "  site   published"]);
        assert_eq!(table().folded(Some(200)), table().to_string());
        // Words that are too many go on below.
        let mut ways = Table::new(["weight", "path"]);
        ways.push(["0.5000", "Seattle → Denver → Kansas City → Indianapolis"].map(String::from).to_vec());
        let folded = ways.folded(Some(36));
        let lines: Vec<&str> = folded.lines().skip(2).collect();
        assert_eq!(lines, ["  0.5000  Seattle → Denver → Kansas", "            City → Indianapolis"]);
        // A single column that is too wide is shown all the same.
        assert_eq!(table().folded(Some(1)).lines().filter(|line| line.starts_with("  site")).count(), 3);
    }
}
