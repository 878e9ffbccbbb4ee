//! Subfiles that are written once: those of data sets.
//!
//! One session creates such a subfile, which must not exist, and may write to it as long as it lives, nowhere twice.
//! Nobody else ever changes it. Which session writes which subfile is kept in memory only. After a restart of the I/O
//! node no session may write any of them, since only a session that this process knows as the creator is let through.

use std::collections::BTreeMap;

use fec_transport::SessionId;

use super::intervals::{Intervals, NotAdded};
use crate::name::SubfilePath;
use crate::remote_error::{ErrorKind, RemoteError};
use crate::wire::RunTable;

/// The most subfiles that one session may be writing at a time. A run needs three.
const MAX_PER_SESSION: usize = 256;

/// The subfiles that are being written, by whom, and where they were.
#[derive(Debug, Default)]
pub(super) struct WriteOnce(BTreeMap<SubfilePath, Writing>);

#[derive(Debug)]
struct Writing {
    session: SessionId,
    written: Intervals,
}

impl WriteOnce {
    /// Whether `session` may create one more.
    pub(super) fn admit_creation(&self, session: SessionId) -> Result<(), RemoteError> {
        let count = self.0.values().filter(|writing| writing.session == session).count();
        if count < MAX_PER_SESSION {
            return Ok(());
        }
        let text = format!("this session is writing {count} subfiles of data sets");
        Err(RemoteError::new(ErrorKind::Overloaded, text))
    }

    /// `session` has created the subfile.
    pub(super) fn created(&mut self, path: SubfilePath, session: SessionId) {
        self.0.insert(path, Writing { session, written: Intervals::default() });
    }

    /// Whether `session` may write to the subfile.
    pub(super) fn check_writer(&self, path: &SubfilePath, session: SessionId) -> Result<(), RemoteError> {
        match self.is_written_by(path, session) {
            true => Ok(()),
            false => Err(RemoteError::new(ErrorKind::WriteOnce, path.to_string())),
        }
    }

    /// Notes that `session` writes to these places.
    pub(super) fn admit_write(
        &mut self,
        path: &SubfilePath,
        session: SessionId,
        runs: &RunTable,
    ) -> Result<(), RemoteError> {
        self.check_writer(path, session)?;
        let Some(writing) = self.0.get_mut(path) else { return Ok(()) };
        writing.written.add(runs).map_err(|not_added| match not_added {
            NotAdded::Overlap(extent) => {
                let text = format!("{path} has been written at offset {}", extent.offset());
                RemoteError::new(ErrorKind::WriteOnce, text)
            }
            NotAdded::TooMany => {
                let text = format!("{path} is written in too many pieces; fill what lies between them first");
                RemoteError::new(ErrorKind::Overloaded, text)
            }
        })
    }

    /// Whether that session writes it.
    pub(super) fn is_written_by(&self, path: &SubfilePath, session: SessionId) -> bool {
        self.0.get(path).is_some_and(|writing| writing.session == session)
    }

    /// Whether a session that lives writes it.
    pub(super) fn is_being_written(&self, path: &SubfilePath) -> bool {
        self.0.contains_key(path)
    }

    /// Nobody writes to it from now on.
    pub(super) fn seal(&mut self, path: &SubfilePath) {
        self.0.remove(path);
    }

    pub(super) fn session_ended(&mut self, session: SessionId) {
        self.0.retain(|_, writing| writing.session != session);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distribution::Extent;
    use crate::wire::RunTableBuilder;

    const ONE: SessionId = SessionId(1);
    const TWO: SessionId = SessionId(2);

    fn path(text: &str) -> SubfilePath {
        SubfilePath::new(text).expect("a right path")
    }

    fn bytes(start: u64, end: u64) -> RunTable {
        let mut builder = RunTableBuilder::default();
        builder.push(Extent::between(start, end));
        builder.finish().expect("not empty")
    }

    fn kind(result: Result<(), RemoteError>) -> Result<(), ErrorKind> {
        result.map_err(|error| error.kind)
    }

    #[test]
    fn only_its_creator_writes_and_nowhere_twice() {
        let (mut files, a) = (WriteOnce::default(), path("a"));
        assert_eq!(
            kind(files.admit_write(&a, ONE, &bytes(0, 9))),
            Err(ErrorKind::WriteOnce),
            "not created here"
        );
        files.created(a.clone(), ONE);
        assert_eq!(kind(files.admit_write(&a, ONE, &bytes(0, 9))), Ok(()));
        assert_eq!(kind(files.admit_write(&a, TWO, &bytes(9, 20))), Err(ErrorKind::WriteOnce));
        let error = files.admit_write(&a, ONE, &bytes(8, 20)).expect_err("its first byte was written");
        assert_eq!(
            (error.kind, error.text.as_str()),
            (ErrorKind::WriteOnce, "a has been written at offset 8")
        );
        assert_eq!(kind(files.admit_write(&a, ONE, &bytes(9, 20))), Ok(()));
    }

    #[test]
    fn what_is_sealed_stays_so() {
        let (mut files, a, b) = (WriteOnce::default(), path("a"), path("b"));
        files.created(a.clone(), ONE);
        files.created(b.clone(), TWO);
        files.session_ended(ONE);
        assert_eq!((files.is_being_written(&a), files.is_being_written(&b)), (false, true));
        assert_eq!(kind(files.admit_write(&a, ONE, &bytes(0, 9))), Err(ErrorKind::WriteOnce));
        files.seal(&b);
        assert_eq!(kind(files.check_writer(&b, TWO)), Err(ErrorKind::WriteOnce));
    }

    #[test]
    fn one_session_writes_a_bounded_number_of_subfiles() {
        let mut files = WriteOnce::default();
        for number in 0..MAX_PER_SESSION {
            assert_eq!(kind(files.admit_creation(ONE)), Ok(()));
            files.created(path(&number.to_string()), ONE);
        }
        assert_eq!(kind(files.admit_creation(ONE)), Err(ErrorKind::Overloaded));
        assert_eq!(kind(files.admit_creation(TWO)), Ok(()));
    }
}
