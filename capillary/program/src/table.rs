//! Aligned tables and CSV from the same rows.

use std::fmt;

use crate::output::folded;

/// What stands before each column.
const GAP: &str = "  ";

/// So much is left for words even where there is no room: they would be a letter a line.
const LEAST_WORDS: usize = 20;

/// A table with a header; columns whose cells are all numbers are aligned to the right.
#[derive(Debug)]
pub struct Table {
    header: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table without rows.
    pub fn new(header: impl IntoIterator<Item = impl Into<String>>) -> Table {
        Self { header: header.into_iter().map(Into::into).collect(), rows: Vec::new() }
    }

    /// Adds a row with as many cells as the header.
    pub fn push(&mut self, row: Vec<String>) {
        self.rows.push(row);
    }

    /// The table as comma-separated values.
    pub fn csv(&self) -> String {
        let mut out = self.header.join(",") + "\n";
        for row in &self.rows {
            out += &(row.iter().map(|cell| quote(cell)).collect::<Vec<_>>().join(",") + "\n");
        }
        out
    }

    /// The table for a place with so many columns of text, if it is limited: what does not fit beside each other stands
    /// below each other, in several tables that all begin with the first column. Words in the last of them that are too
    /// many even so go on below.
    pub fn folded(&self, columns: Option<usize>) -> String {
        let room = columns.unwrap_or(usize::MAX);
        let parts = self.parts(room);
        let parts: Vec<String> =
            parts.iter().map(|part| Shown { table: self, columns: part, room }.to_string()).collect();
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
        let cells = self.rows.iter().map(|row| row[column].chars().count());
        cells.chain([self.header[column].chars().count()]).max().unwrap_or(0)
    }

    fn is_numeric(&self, column: usize) -> bool {
        self.rows.iter().all(|row| is_number(&row[column]))
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
    columns: &'a [usize],
    /// How many columns of text there are.
    room: usize,
}

impl Shown<'_> {
    /// A column's width; of the last one, if its cells are words, what is left for it.
    fn width(&self, column: usize) -> usize {
        let width = self.table.width(column);
        let Some((last, others)) = self.columns.split_last() else { return width };
        if column != *last || self.table.is_numeric(column) {
            return width;
        }
        let taken: usize = others.iter().map(|other| GAP.len() + self.table.width(*other)).sum();
        width.min(self.room.saturating_sub(taken + GAP.len()).max(LEAST_WORDS))
    }

    fn line(&self, f: &mut fmt::Formatter<'_>, cells: &[String]) -> fmt::Result {
        let last = self.columns.last().map_or(0, |column| *column);
        let mut words = folded(&cells[last], self.width(last)).into_iter();
        let mut line = String::new();
        for column in self.columns {
            let first = if *column == last { words.next() } else { None };
            let (cell, width) = (first.as_ref().unwrap_or(&cells[*column]), self.width(*column));
            line += GAP;
            line += &match self.table.is_numeric(*column) {
                true => format!("{cell:>width$}"),
                false => format!("{cell:<width$}"),
            };
        }
        writeln!(f, "{}", line.trim_end())?;
        let others = self.columns.iter().filter(|column| **column != last);
        let indent: usize = others.map(|column| GAP.len() + self.width(*column)).sum();
        words.try_for_each(|rest| writeln!(f, "{}{GAP}{rest}", " ".repeat(indent)))
    }
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.line(f, &self.table.header)?;
        let rules: Vec<String> = self.columns.iter().map(|column| "─".repeat(self.width(*column))).collect();
        writeln!(f, "{}", format!("{GAP}{}", rules.join(GAP)).trim_end())?;
        self.table.rows.iter().try_for_each(|row| self.line(f, row))
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

/// A load, flow or share to read: four digits behind the point.
pub fn number(value: f64) -> String {
    format!("{value:.4}")
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
