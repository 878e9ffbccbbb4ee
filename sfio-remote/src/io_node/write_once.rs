//! Subfiles that are written once: those of data sets.
//!
//! One session creates such a subfile, which must not exist, and may write to it as long as it lives, nowhere twice.
//! Nobody else ever changes it. Which session writes which subfile is kept in memory only. After a restart of the I/O
//! node no session may write any of them, since only a session that this process knows as the creator is let through.

use std::collections::BTreeMap;

use fec_transport::SessionId;
use fec_transport::overlay::MemberId;

use super::intervals::{Intervals, NotAdded};
use crate::name::SubfilePath;
use crate::remote_error::{ErrorKind, RemoteError};
use crate::wire::RunTable;

/// The most subfiles that the sessions of one member may be writing at a time. A run needs three.
const MAX_SUBFILES: usize = 1_024;
/// The most separate pieces in all of these: 64 runs that leave as many gaps as one subfile may have.
const MAX_PIECES: usize = 64 << 10;

/// The subfiles that are being written, by whom, and where they were.
#[derive(Debug, Default)]
pub(super) struct WriteOnce {
    writing: BTreeMap<SubfilePath, Writing>,
    /// What the sessions of each member have of them.
    used: BTreeMap<MemberId, Used>,
}

#[derive(Debug)]
struct Writing {
    session: SessionId,
    member: MemberId,
    written: Intervals,
}

#[derive(Debug, Clone, Copy, Default)]
struct Used {
    subfiles: usize,
    pieces: usize,
}

impl WriteOnce {
    /// Whether the sessions of `member` may create one more.
    pub(super) fn admit_creation(&self, member: MemberId) -> Result<(), RemoteError> {
        let Used { subfiles, .. } = self.used(member);
        if subfiles < MAX_SUBFILES {
            return Ok(());
        }
        let text = format!("this member is writing {subfiles} subfiles of data sets");
        Err(RemoteError::new(ErrorKind::Overloaded, text))
    }

    /// `session`, of `member`, has created the subfile.
    pub(super) fn created(&mut self, path: SubfilePath, member: MemberId, session: SessionId) {
        self.seal(&path);
        self.used.entry(member).or_default().subfiles += 1;
        self.writing.insert(path, Writing { session, member, written: Intervals::default() });
    }

    fn used(&self, member: MemberId) -> Used {
        self.used.get(&member).copied().unwrap_or_default()
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
        let Some(writing) = self.writing.get_mut(path) else { return Ok(()) };
        let (used, before) = (self.used.entry(writing.member).or_default(), writing.written.pieces());
        let room = MAX_PIECES - (used.pieces - before).min(MAX_PIECES);
        let added = writing.written.add(runs, room);
        used.pieces = used.pieces - before + writing.written.pieces();
        added.map_err(|not_added| match not_added {
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
        self.writing.get(path).is_some_and(|writing| writing.session == session)
    }

    /// Whether a session that lives writes it.
    pub(super) fn is_being_written(&self, path: &SubfilePath) -> bool {
        self.writing.contains_key(path)
    }

    /// The session that writes it.
    pub(super) fn writer(&self, path: &SubfilePath) -> Option<SessionId> {
        self.writing.get(path).map(|writing| writing.session)
    }

    /// Nobody writes to it from now on.
    pub(super) fn seal(&mut self, path: &SubfilePath) {
        let Some(Writing { member, written, .. }) = self.writing.remove(path) else { return };
        let Some(used) = self.used.get_mut(&member) else { return };
        used.subfiles -= 1;
        used.pieces -= written.pieces();
        if used.subfiles == 0 {
            self.used.remove(&member);
        }
    }

    pub(super) fn session_ended(&mut self, session: SessionId) {
        let ended = self.writing.iter().filter(|(_, writing)| writing.session == session);
        let ended: Vec<SubfilePath> = ended.map(|(path, _)| path.clone()).collect();
        ended.iter().for_each(|path| self.seal(path));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distribution::Extent;
    use crate::wire::RunTableBuilder;

    const MEMBER: MemberId = MemberId(1);
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
        files.created(a.clone(), MEMBER, ONE);
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
        files.created(a.clone(), MEMBER, ONE);
        files.created(b.clone(), MEMBER, TWO);
        files.session_ended(ONE);
        assert_eq!((files.is_being_written(&a), files.is_being_written(&b)), (false, true));
        assert_eq!(kind(files.admit_write(&a, ONE, &bytes(0, 9))), Err(ErrorKind::WriteOnce));
        files.seal(&b);
        assert_eq!(kind(files.check_writer(&b, TWO)), Err(ErrorKind::WriteOnce));
    }

    #[test]
    fn one_member_writes_a_bounded_number_of_subfiles_and_pieces_with_all_its_sessions() {
        let (mut files, other) = (WriteOnce::default(), MemberId(2));
        for number in 0..MAX_SUBFILES {
            assert_eq!(kind(files.admit_creation(MEMBER)), Ok(()));
            files.created(path(&number.to_string()), MEMBER, SessionId(number as u64));
        }
        assert_eq!(kind(files.admit_creation(MEMBER)), Err(ErrorKind::Overloaded));
        assert_eq!(kind(files.admit_creation(other)), Ok(()));
        let mut refused = None;
        'files: for number in 0..MAX_SUBFILES {
            for piece in 0..1_000 {
                let (file, session) = (path(&number.to_string()), SessionId(number as u64));
                let written = files.admit_write(&file, session, &bytes(piece * 2, piece * 2 + 1));
                if written.is_err() {
                    refused = Some((number, kind(written)));
                    break 'files;
                }
            }
        }
        assert_eq!(refused, Some((MAX_PIECES / 1_000, Err(ErrorKind::Overloaded))));
        files.session_ended(SessionId(0));
        assert_eq!(kind(files.admit_creation(MEMBER)), Ok(()), "it gave one back");
        let (file, session) = (path("999"), SessionId(999));
        assert_eq!(kind(files.admit_write(&file, session, &bytes(0, 1))), Ok(()), "and its pieces");
    }
}
