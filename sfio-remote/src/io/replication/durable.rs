//! A durable write over a file that was opened for writes that a later sync makes durable. STUB: it writes and syncs, one
//! round trip more than a flag on the write would take; the flag is per request on the wire, so `client::operations::Write`
//! needs a field for it.

use bytes::Bytes;

use crate::io::{FileError, StripedFile};

impl StripedFile {
    /// Writes pieces, each at its offset; they survive a power loss when this returns.
    ///
    /// # Errors
    /// If an I/O node fails. Then any part of the data may have been written.
    pub(super) async fn write_list_durably(&self, pieces: Vec<(u64, Bytes)>) -> Result<(), FileError> {
        self.write_list(pieces).await?;
        self.sync_all().await
    }
}
