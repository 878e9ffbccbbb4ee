//! Rows of results by column: what items yield, what journals and Parquet files hold.

use std::ops::Range;

/// The type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Long,
    Int,
    Real,
}

/// The columns of a measure: names and types, in the order of the file.
pub(crate) type Schema = &'static [(&'static str, Kind)];

/// One cell.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Value {
    Long(i64),
    Int(i32),
    Real(f64),
}

/// The cells of one column.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Column {
    Long(Vec<i64>),
    Int(Vec<i32>),
    Real(Vec<f64>),
}

/// Some rows. The first column is always the item.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Columns {
    pub(crate) columns: Vec<Column>,
}

impl Columns {
    pub(crate) fn new(schema: Schema) -> Self {
        let empty = |kind| match kind {
            Kind::Long => Column::Long(Vec::new()),
            Kind::Int => Column::Int(Vec::new()),
            Kind::Real => Column::Real(Vec::new()),
        };
        Self { columns: schema.iter().map(|&(_, kind)| empty(kind)).collect() }
    }

    pub(crate) fn rows(&self) -> usize {
        self.columns.first().map_or(0, Column::len)
    }

    /// Adds a row: one value for each column, of its type.
    pub(crate) fn push(&mut self, row: &[Value]) {
        assert_eq!(row.len(), self.columns.len(), "a row has a value for each column");
        for (column, value) in self.columns.iter_mut().zip(row) {
            match (column, *value) {
                (Column::Long(cells), Value::Long(value)) => cells.push(value),
                (Column::Int(cells), Value::Int(value)) => cells.push(value),
                (Column::Real(cells), Value::Real(value)) => cells.push(value),
                _ => unreachable!("a value has the type of its column"),
            }
        }
    }

    /// Adds the rows of another with the same schema.
    pub(crate) fn append(&mut self, other: &Self) {
        for (column, more) in self.columns.iter_mut().zip(&other.columns) {
            match (column, more) {
                (Column::Long(cells), Column::Long(more)) => cells.extend_from_slice(more),
                (Column::Int(cells), Column::Int(more)) => cells.extend_from_slice(more),
                (Column::Real(cells), Column::Real(more)) => cells.extend_from_slice(more),
                _ => unreachable!("both have the same schema"),
            }
        }
    }

    /// Some of the rows.
    pub(crate) fn slice(&self, rows: Range<usize>) -> Self {
        let part = |column: &Column| match column {
            Column::Long(cells) => Column::Long(cells[rows.clone()].to_vec()),
            Column::Int(cells) => Column::Int(cells[rows.clone()].to_vec()),
            Column::Real(cells) => Column::Real(cells[rows.clone()].to_vec()),
        };
        Self { columns: self.columns.iter().map(part).collect() }
    }

    /// Gives the rows of each item to `take`; those of an item stand together.
    pub(crate) fn each_item<E>(&self, mut take: impl FnMut(&Self) -> Result<(), E>) -> Result<(), E> {
        let mut first = 0;
        for row in 1..=self.rows() {
            if row == self.rows() || self.integer(0, row) != self.integer(0, first) {
                take(&self.slice(first..row))?;
                first = row;
            }
        }
        Ok(())
    }

    /// A cell as a number; every integer that occurs is exact as one.
    pub(crate) fn number(&self, column: usize, row: usize) -> f64 {
        match &self.columns[column] {
            Column::Long(cells) => cells[row] as f64,
            Column::Int(cells) => f64::from(cells[row]),
            Column::Real(cells) => cells[row],
        }
    }

    /// An integer cell.
    pub(crate) fn integer(&self, column: usize, row: usize) -> i64 {
        match &self.columns[column] {
            Column::Long(cells) => cells[row],
            Column::Int(cells) => i64::from(cells[row]),
            Column::Real(_) => unreachable!("the column holds integers"),
        }
    }

    /// The cells one after the other, column by column, little-endian.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for column in &self.columns {
            match column {
                Column::Long(cells) => bytes.extend(cells.iter().flat_map(|cell| cell.to_le_bytes())),
                Column::Int(cells) => bytes.extend(cells.iter().flat_map(|cell| cell.to_le_bytes())),
                Column::Real(cells) => bytes.extend(cells.iter().flat_map(|cell| cell.to_le_bytes())),
            }
        }
        bytes
    }

    /// The inverse of [`Self::to_bytes`] for a known number of rows; `None` if the length does not fit.
    pub(crate) fn from_bytes(schema: Schema, rows: usize, mut bytes: &[u8]) -> Option<Self> {
        let mut columns = Vec::new();
        for &(_, kind) in schema {
            let width = if kind == Kind::Int { 4 } else { 8 };
            let (cells, rest) = bytes.split_at_checked(rows.checked_mul(width)?)?;
            columns.push(match kind {
                Kind::Long => Column::Long(read_cells(cells, i64::from_le_bytes)),
                Kind::Int => Column::Int(read_cells(cells, i32::from_le_bytes)),
                Kind::Real => Column::Real(read_cells(cells, f64::from_le_bytes)),
            });
            bytes = rest;
        }
        bytes.is_empty().then_some(Self { columns })
    }
}

fn read_cells<const WIDTH: usize, T>(bytes: &[u8], read: impl Fn([u8; WIDTH]) -> T) -> Vec<T> {
    let (cells, _) = bytes.as_chunks::<WIDTH>();
    cells.iter().map(|cell| read(*cell)).collect()
}

impl Column {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Long(cells) => cells.len(),
            Self::Int(cells) => cells.len(),
            Self::Real(cells) => cells.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEMA: Schema = &[("item", Kind::Long), ("layer", Kind::Int), ("ror", Kind::Real)];

    #[test]
    fn bytes_give_the_rows_back_and_other_lengths_give_none() {
        let mut rows = Columns::new(SCHEMA);
        for item in 0..5 {
            rows.push(&[Value::Long(item), Value::Int(3), Value::Real(0.1 * item as f64)]);
        }
        let mut bytes = rows.to_bytes();
        assert_eq!(Columns::from_bytes(SCHEMA, 5, &bytes), Some(rows));
        assert_eq!(Columns::from_bytes(SCHEMA, 4, &bytes), None);
        assert_eq!(Columns::from_bytes(SCHEMA, usize::MAX, &bytes), None);
        bytes.pop();
        assert_eq!(Columns::from_bytes(SCHEMA, 5, &bytes), None);
    }
}
