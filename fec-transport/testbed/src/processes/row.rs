//! Rows of results: for people under one another, for machines one object each.

use std::io::{IsTerminal as _, Write as _, stderr};

use serde_json::{Map, Value};

use crate::output::{Unwritten, line};

/// A column: its heading, its name in JSON, its width and the digits behind the point.
pub struct Column {
    heading: &'static str,
    key: &'static str,
    width: usize,
    digits: usize,
}

/// A column of that heading and name.
pub const fn column(heading: &'static str, key: &'static str, width: usize, digits: usize) -> Column {
    Column { heading, key, width, digits }
}

/// Prints rows as they come.
pub struct Table {
    columns: &'static [Column],
    json: bool,
}

impl Table {
    /// A table; its headings are printed at once.
    ///
    /// # Errors
    /// If standard output cannot be written.
    pub fn new(title: &str, columns: &'static [Column], json: bool) -> Result<Table, Unwritten> {
        if !json {
            let headings = columns.iter().map(|it| format!("{:>1$}", it.heading, it.width));
            line(format_args!("{title}\n{}", headings.collect::<Vec<_>>().join("  ")))?;
        }
        Ok(Table { columns, json })
    }

    /// Prints a row; for people only what has a column.
    ///
    /// # Errors
    /// If standard output cannot be written.
    pub fn row(&self, row: Map<String, Value>) -> Result<(), Unwritten> {
        quiet();
        if self.json {
            return line(Value::Object(row));
        }
        let cell = |column: &Column| {
            let text = match row.get(column.key) {
                Some(Value::String(text)) => text.clone(),
                Some(Value::Number(number)) => match number.as_f64() {
                    Some(value) => format!("{value:.0$}", column.digits),
                    None => number.to_string(),
                },
                _ => "–".to_owned(),
            };
            format!("{text:>0$}", column.width)
        };
        line(self.columns.iter().map(cell).collect::<Vec<_>>().join("  "))
    }
}

/// Says on a terminal what is being measured, until [`Table::row`] takes the line.
pub fn progress(what: &str) {
    if stderr().is_terminal() {
        eprint!("\r\x1b[K{what} …");
        let _ = stderr().flush();
    }
}

/// The cells of a row, which was written down as an object.
pub fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(cells) => cells,
        _ => Map::new(),
    }
}

/// Datagrams of a call in the mean, if there were any.
pub fn per_call(datagrams: u64, calls: u64) -> Value {
    if calls == 0 { Value::Null } else { Value::from(datagrams as f64 / calls as f64) }
}

fn quiet() {
    if stderr().is_terminal() {
        eprint!("\r\x1b[K");
        let _ = stderr().flush();
    }
}
