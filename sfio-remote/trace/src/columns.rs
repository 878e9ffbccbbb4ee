//! Requests as a Parquet file: one row for each read or write, for tools that want columns.

use std::io::Write;
use std::sync::Arc;

use parquet::basic::{Compression, Repetition, Type as PhysicalType};
use parquet::data_type::{BoolType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;

use crate::record::{Operation, Record, Request};

/// Rows of a row group.
const ROW_GROUP: usize = 1 << 16;

/// Names and types of the columns. A client of −1 is the job as a whole.
const COLUMNS: [(&str, PhysicalType); 8] = [
    ("start_us", PhysicalType::INT64),
    ("end_us", PhysicalType::INT64),
    ("application", PhysicalType::INT64),
    ("client", PhysicalType::INT32),
    ("file", PhysicalType::INT64),
    ("is_write", PhysicalType::BOOLEAN),
    ("offset_bytes", PhysicalType::INT64),
    ("size_bytes", PhysicalType::INT64),
];

/// Writes the requests of a trace as rows.
pub struct Columns<W: Write + Send> {
    writer: SerializedFileWriter<W>,
    pending: Vec<Request>,
}

impl<W: Write + Send> Columns<W> {
    /// Begins a file.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn new(sink: W) -> Result<Columns<W>, ParquetError> {
        let field = |&(name, kind): &(&str, PhysicalType)| {
            let required = Type::primitive_type_builder(name, kind).with_repetition(Repetition::REQUIRED);
            required.build().map(Arc::new)
        };
        let fields = COLUMNS.iter().map(field).collect::<Result<_, _>>()?;
        let schema = Arc::new(Type::group_type_builder("requests").with_fields(fields).build()?);
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_created_by(concat!("sfio-trace ", env!("CARGO_PKG_VERSION")).into())
            .build();
        let writer = SerializedFileWriter::new(sink, schema, Arc::new(properties))?;
        Ok(Columns { writer, pending: Vec::new() })
    }

    /// Adds a record; those that are no requests have no row.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn push(&mut self, record: &Record) -> Result<(), ParquetError> {
        if let Record::Request(request) = record {
            self.pending.push(*request);
        }
        if self.pending.len() >= ROW_GROUP { self.flush() } else { Ok(()) }
    }

    /// Ends the file.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn finish(mut self) -> Result<W, ParquetError> {
        self.flush()?;
        self.writer.into_inner()
    }

    fn flush(&mut self) -> Result<(), ParquetError> {
        let rows = std::mem::take(&mut self.pending);
        if rows.is_empty() {
            return Ok(());
        }
        let longs = |of: &dyn Fn(&Request) -> u64| rows.iter().map(|row| of(row) as i64).collect::<Vec<_>>();
        let clients: Vec<i32> =
            rows.iter().map(|row| row.client.map_or(-1, |client| client.0 as i32)).collect();
        let writes: Vec<bool> = rows.iter().map(|row| row.operation == Operation::Write).collect();
        let wide: [Vec<i64>; 6] = [
            longs(&|row| row.start),
            longs(&|row| row.end),
            longs(&|row| row.application.0),
            longs(&|row| row.file.0),
            longs(&|row| row.offset),
            longs(&|row| row.bytes),
        ];
        let mut wide = wide.iter();
        let mut group = self.writer.next_row_group()?;
        for (_, kind) in COLUMNS {
            let Some(mut column) = group.next_column()? else { break };
            match kind {
                PhysicalType::INT32 => column.typed::<Int32Type>().write_batch(&clients, None, None)?,
                PhysicalType::BOOLEAN => column.typed::<BoolType>().write_batch(&writes, None, None)?,
                _ => {
                    let cells = wide.next().map_or(&[][..], Vec::as_slice);
                    column.typed::<Int64Type>().write_batch(cells, None, None)?
                }
            };
            column.close()?;
        }
        group.close().map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{ApplicationId, ClientId, Descriptor, FileId};
    use parquet::file::reader::{FileReader as _, SerializedFileReader};
    use parquet::record::RowAccessor as _;

    #[test]
    fn each_request_is_a_row() {
        let mut columns = Columns::new(Vec::new()).expect("it begins");
        for number in 0..3_u64 {
            let request = Request {
                start: number,
                end: number + 1,
                application: ApplicationId(4),
                client: (number > 0).then_some(ClientId(9)),
                file: FileId(2),
                descriptor: Descriptor(0),
                operation: if number == 1 { Operation::Read } else { Operation::Write },
                asynchronous: false,
                spread: None,
                offset: 100 * number,
                bytes: 100,
            };
            columns.push(&Record::Request(request)).expect("it is taken");
        }
        let file = bytes::Bytes::from(columns.finish().expect("it ends"));
        let reader = SerializedFileReader::new(file).expect("it is a file");
        let rows: Vec<_> = reader.get_row_iter(None).expect("rows").map(|row| row.expect("a row")).collect();
        let cells = |row: &parquet::record::Row| {
            (
                row.get_int(3).expect("client"),
                row.get_bool(5).expect("write"),
                row.get_long(6).expect("offset"),
            )
        };
        assert_eq!(
            rows.iter().map(cells).collect::<Vec<_>>(),
            [(-1, true, 0), (9, false, 100), (9, true, 200)]
        );
    }
}
