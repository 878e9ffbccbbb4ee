//! Rows in Parquet files.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::{Compression, Repetition, Type as PhysicalType};
use parquet::column::reader::ColumnReader;
use parquet::data_type::{DataType, DoubleType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;

use crate::checksum;
use crate::columns::{Column, Columns, Kind, Schema};
use crate::failure::Failure;
use crate::new_file::NewFile;

/// A row group is written when it has this many rows, at the next end of an item: some megabytes in memory.
const ROW_GROUP: usize = 1 << 16;

/// Key of the plan, as TOML, in the file's metadata.
const PLAN: &str = "ror.plan";

/// A Parquet file that gets its name only when it is whole.
pub(crate) struct RowsWriter {
    path: PathBuf,
    writer: SerializedFileWriter<NewFile>,
    pending: Columns,
    schema: Schema,
}

impl RowsWriter {
    /// Starts a file. Row groups depend on the rows alone, not on how they were handed over.
    pub(crate) fn create(path: &Path, schema: Schema, plan: &str) -> Result<Self, Failure> {
        let file = NewFile::create(path)?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_created_by(concat!("ror ", env!("CARGO_PKG_VERSION")).into())
            .set_key_value_metadata(Some(vec![KeyValue::new(PLAN.into(), Some(plan.to_string()))]))
            .build();
        let failed = |error| Failure::Parquet(path.to_path_buf(), error);
        let message = Arc::new(message(schema).map_err(failed)?);
        let writer = SerializedFileWriter::new(file, message, Arc::new(properties)).map_err(failed)?;
        Ok(Self { path: path.to_path_buf(), writer, pending: Columns::new(schema), schema })
    }

    /// Adds the rows of one item.
    pub(crate) fn push(&mut self, item: &Columns) -> Result<(), Failure> {
        self.pending.append(item);
        if self.pending.rows() < ROW_GROUP {
            return Ok(());
        }
        self.flush()
    }

    fn flush(&mut self) -> Result<(), Failure> {
        let rows = std::mem::replace(&mut self.pending, Columns::new(self.schema));
        write_row_group(&mut self.writer, &rows).map_err(|error| Failure::Parquet(self.path.clone(), error))
    }

    /// Ends the file, makes it durable and gives it its name.
    pub(crate) fn finish(self) -> Result<(), Failure> {
        let path = self.path.clone();
        self.end()?.finish().map_err(Failure::at(&path))
    }

    /// The same for a file with a checksum beside it, which is there first: a file with this name is whole.
    pub(crate) fn finish_with_checksum(self) -> Result<(), Failure> {
        let path = self.path.clone();
        let file = self.end()?;
        checksum::write(&path, &file.hash())?;
        file.finish().map_err(Failure::at(&path))
    }

    /// Writes what is pending and the end.
    fn end(mut self) -> Result<NewFile, Failure> {
        if self.pending.rows() > 0 {
            self.flush()?;
        }
        self.writer.into_inner().map_err(|error| Failure::Parquet(self.path, error))
    }
}

fn message(schema: Schema) -> Result<Type, ParquetError> {
    let field = |&(name, kind): &(&str, Kind)| {
        let physical = match kind {
            Kind::Long => PhysicalType::INT64,
            Kind::Int => PhysicalType::INT32,
            Kind::Real => PhysicalType::DOUBLE,
        };
        let required = Type::primitive_type_builder(name, physical).with_repetition(Repetition::REQUIRED);
        required.build().map(Arc::new)
    };
    let fields = schema.iter().map(field).collect::<Result<_, _>>()?;
    Type::group_type_builder("rows").with_fields(fields).build()
}

fn write_row_group(writer: &mut SerializedFileWriter<NewFile>, rows: &Columns) -> Result<(), ParquetError> {
    let mut group = writer.next_row_group()?;
    for cells in &rows.columns {
        let Some(mut column) = group.next_column()? else {
            return Err(ParquetError::General("the schema has fewer columns than the rows".into()));
        };
        match cells {
            Column::Long(cells) => column.typed::<Int64Type>().write_batch(cells, None, None)?,
            Column::Int(cells) => column.typed::<Int32Type>().write_batch(cells, None, None)?,
            Column::Real(cells) => column.typed::<DoubleType>().write_batch(cells, None, None)?,
        };
        column.close()?;
    }
    group.close().map(|_| ())
}

/// A Parquet file of ours, read item by item.
pub(crate) struct RowsReader {
    path: PathBuf,
    reader: SerializedFileReader<File>,
    schema: Schema,
}

impl RowsReader {
    /// Opens a file and checks that it has the columns of `schema` and the rows of `plan`.
    pub(crate) fn open(path: &Path, schema: Schema, plan: &str) -> Result<Self, Failure> {
        let file = File::open(path).map_err(Failure::at(path))?;
        let damaged = |what: String| Failure::Damaged(path.to_path_buf(), what);
        let reader = SerializedFileReader::new(file).map_err(|error| damaged(error.to_string()))?;
        let metadata = reader.metadata().file_metadata();
        let expected = message(schema).map_err(|error| damaged(error.to_string()))?;
        if *metadata.schema() != expected {
            return Err(damaged("its columns are not those of the plan's measure".into()));
        }
        let entries = metadata.key_value_metadata().into_iter().flatten();
        if !entries.into_iter().any(|entry| entry.key == PLAN && entry.value.as_deref() == Some(plan)) {
            return Err(damaged("it holds the rows of another plan".into()));
        }
        Ok(Self { path: path.to_path_buf(), reader, schema })
    }

    /// Gives the rows of each item to `take`, in the order of the file. Holds one row group at a time.
    pub(crate) fn each_item(
        &self,
        mut take: impl FnMut(&Columns) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        for group in 0..self.reader.num_row_groups() {
            let rows = self
                .row_group(group)
                .map_err(|error| Failure::Damaged(self.path.clone(), error.to_string()))?;
            rows.each_item(&mut take)?;
        }
        Ok(())
    }

    fn row_group(&self, index: usize) -> Result<Columns, ParquetError> {
        let group = self.reader.get_row_group(index)?;
        let rows = usize::try_from(group.metadata().num_rows())?;
        let mut columns = Vec::new();
        for column in 0..self.schema.len() {
            columns.push(match group.get_column_reader(column)? {
                ColumnReader::Int64ColumnReader(mut reader) => {
                    Column::Long(cells::<Int64Type>(rows, |rows, cells| {
                        reader.read_records(rows, None, None, cells)
                    })?)
                }
                ColumnReader::Int32ColumnReader(mut reader) => {
                    Column::Int(cells::<Int32Type>(rows, |rows, cells| {
                        reader.read_records(rows, None, None, cells)
                    })?)
                }
                ColumnReader::DoubleColumnReader(mut reader) => {
                    Column::Real(cells::<DoubleType>(rows, |rows, cells| {
                        reader.read_records(rows, None, None, cells)
                    })?)
                }
                _ => return Err(ParquetError::General("a column of a type that is never written".into())),
            });
        }
        Ok(Columns { columns })
    }
}

/// All cells of a column of a row group.
fn cells<T: DataType>(
    rows: usize,
    mut read: impl FnMut(usize, &mut Vec<T::T>) -> Result<(usize, usize, usize), ParquetError>,
) -> Result<Vec<T::T>, ParquetError> {
    let mut cells = Vec::new();
    while cells.len() < rows {
        let (records, ..) = read(rows - cells.len(), &mut cells)?;
        if records == 0 {
            return Err(ParquetError::General(format!("{} of {rows} rows are there", cells.len())));
        }
    }
    Ok(cells)
}
