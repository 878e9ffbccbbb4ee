//! Aligned tables and CSV from the same rows.

use std::fmt;

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

    fn width(&self, column: usize) -> usize {
        let cells = self.rows.iter().map(|row| row[column].chars().count());
        cells.chain([self.header[column].chars().count()]).max().unwrap_or(0)
    }

    fn is_numeric(&self, column: usize) -> bool {
        let is_number =
            |text: &str| text.is_empty() || text.trim_end_matches(" %").parse::<f64>().is_ok() || text == "-";
        self.rows.iter().all(|row| is_number(&row[column]))
    }

    fn line(&self, f: &mut fmt::Formatter<'_>, cells: &[String]) -> fmt::Result {
        let mut line = String::new();
        for (column, cell) in cells.iter().enumerate() {
            let width = self.width(column);
            let padded =
                if self.is_numeric(column) { format!("{cell:>width$}") } else { format!("{cell:<width$}") };
            line += "  ";
            line += &padded;
        }
        writeln!(f, "{}", line.trim_end())
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.line(f, &self.header)?;
        let rules: Vec<String> =
            (0..self.header.len()).map(|column| "─".repeat(self.width(column))).collect();
        writeln!(f, "  {}", rules.join("  ").trim_end())?;
        self.rows.iter().try_for_each(|row| self.line(f, row))
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
