//! Which requests are let through: rights of members, claims on subfiles, and what is written once.

use std::collections::{BTreeMap, BTreeSet};

use fec_transport::SessionId;
use fec_transport::overlay::{MemberId, Peer};
use fec_transport::time::Time;

use super::claims::Claims;
use super::rights::{AccessRules, Right};
use super::write_once::WriteOnce;
use crate::dataset::{DatasetFile, Territory, is_lock};
use crate::name::SubfilePath;
use crate::remote_error::{ErrorKind, RemoteError};
use crate::store::Listing;
use crate::sums;
use crate::wire::RequestKind;

/// The session, process and member that a request comes from, and when.
#[derive(Debug, Clone, Copy)]
pub(super) struct Client<'a> {
    /// The session over which the request came.
    pub(super) session: SessionId,
    /// The process at its other end.
    pub(super) peer: Peer,
    /// The name of its member.
    pub(super) name: &'a str,
    /// When it came.
    pub(super) now: Time,
}

/// What decides about requests, and what it remembers.
#[derive(Debug, Default)]
pub(super) struct Admission {
    access: AccessRules,
    claims: Claims,
    write_once: WriteOnce,
    /// The sessions that are out of reach, and whose they are. They keep what they hold, but not from others.
    silent: BTreeMap<SessionId, MemberId>,
}

impl Admission {
    pub(super) fn new(access: AccessRules) -> Admission {
        Admission { access, ..Admission::default() }
    }

    /// What members may do.
    pub(super) fn access(&self) -> &AccessRules {
        &self.access
    }

    /// Which session writes which of the subfiles that are written once.
    pub(super) fn write_once(&mut self) -> &mut WriteOnce {
        &mut self.write_once
    }

    /// Lets a request of `client` through, or says why not.
    pub(super) fn admit(&mut self, client: &Client<'_>, request: &RequestKind) -> Result<(), RemoteError> {
        self.check_rights(client, request)?;
        match request {
            RequestKind::Rename { path, target, .. } => {
                refuse_other_than_free(path)?;
                refuse_other_than_free(target)?;
            }
            other => self.admit_in_territory(client, other)?,
        }
        match changes_something(request) {
            true => self.claims.admit(client, request),
            false => Ok(()),
        }
    }

    fn check_rights(&self, client: &Client<'_>, request: &RequestKind) -> Result<(), RemoteError> {
        if let RequestKind::ErrorCounters { reset } = request {
            return self.access.check_node(client.name, *reset);
        }
        let needed = self.needed(client.session, request);
        request.path().map_or(Ok(()), |path| self.check_right(client, path, needed))?;
        match request {
            RequestKind::Rename { target, .. } => self.check_right(client, target, needed),
            _ => Ok(()),
        }
    }

    /// The sums of a subfile belong to whom it belongs.
    fn check_right(&self, client: &Client<'_>, path: &SubfilePath, needed: Right) -> Result<(), RemoteError> {
        let subfile = sums::subfile_of(path);
        self.access.check(client.name, subfile.as_ref().unwrap_or(path), needed)
    }

    /// The right that a request needs.
    fn needed(&self, session: SessionId, request: &RequestKind) -> Right {
        let is_of_dataset = |path| matches!(Territory::of(path), Territory::Dataset(_));
        match request {
            RequestKind::Create { path, exclusive: true, .. }
            | RequestKind::Write { path, .. }
            | RequestKind::Grow { path, .. }
                if is_of_dataset(path) =>
            {
                Right::Append
            }
            // A member that may add to a data set must be able to claim its lock, which tells others so.
            RequestKind::Create { path, claim: true, .. } if is_lock(path) => Right::Append,
            // A run may tidy up after itself.
            RequestKind::Remove { path } if self.write_once.is_written_by(path, session) => Right::Append,
            RequestKind::Publish { .. } => Right::Append,
            other if changes_something(other) => Right::ReadWrite,
            _ => Right::Read,
        }
    }

    /// What holds at the request's path, whatever rights the client has.
    fn admit_in_territory(&mut self, client: &Client<'_>, request: &RequestKind) -> Result<(), RemoteError> {
        let Some(path) = request.path() else { return Ok(()) };
        match Territory::of(path) {
            Territory::Free => Ok(()),
            Territory::Reserved => Err(RemoteError::new(ErrorKind::Reserved, path.to_string())),
            Territory::Dataset(file) => self.admit_to_dataset(client, file, path, request),
        }
    }

    fn admit_to_dataset(
        &mut self,
        client: &Client<'_>,
        file: DatasetFile,
        path: &SubfilePath,
        request: &RequestKind,
    ) -> Result<(), RemoteError> {
        let session = client.session;
        let is_written_elsewhere =
            self.write_once.is_being_written(path) && !self.write_once.is_written_by(path, session);
        match (request, file) {
            (RequestKind::Create { exclusive: true, .. }, kind) if kind != DatasetFile::Commit => {
                self.write_once.admit_creation(client.peer.member)
            }
            (RequestKind::Write { runs, .. }, _) => self.write_once.admit_write(path, session, runs),
            // What another session wrote may have been lost with an older process of this I/O node: a sync would not
            // know.
            (RequestKind::Grow { .. } | RequestKind::Sync { .. }, _) => {
                self.write_once.check_writer(path, session)
            }
            (RequestKind::Remove { .. }, DatasetFile::Journal | DatasetFile::Staged) => {
                match is_written_elsewhere {
                    true => Err(RemoteError::new(ErrorKind::Claimed, path.to_string())),
                    false => Ok(()),
                }
            }
            (other, _) if changes_something(other) => {
                Err(RemoteError::new(ErrorKind::WriteOnce, path.to_string()))
            }
            _ => Ok(()),
        }
    }

    /// A session is out of reach.
    pub(super) fn session_silent(&mut self, member: MemberId, session: SessionId) {
        self.silent.insert(session, member);
    }

    /// A session that was out of reach goes on.
    pub(super) fn session_heard(&mut self, session: SessionId) {
        self.silent.remove(&session);
    }

    /// The sessions other than `own` that are out of reach and hold what a request would change.
    pub(super) fn in_the_way(
        &self,
        own: SessionId,
        request: &RequestKind,
    ) -> BTreeSet<(MemberId, SessionId)> {
        if !changes_something(request) {
            return BTreeSet::new();
        }
        let target = match request {
            RequestKind::Rename { target, .. } => Some(target),
            _ => None,
        };
        self.out_of_reach(own, request.path().into_iter().chain(target))
    }

    /// The sessions other than `own` that are out of reach and hold one of these subfiles.
    pub(super) fn out_of_reach<'a>(
        &self,
        own: SessionId,
        paths: impl Iterator<Item = &'a SubfilePath>,
    ) -> BTreeSet<(MemberId, SessionId)> {
        if self.silent.is_empty() {
            return BTreeSet::new();
        }
        let holders = paths.flat_map(|path| [self.claims.holder(path), self.write_once.writer(path)]);
        let others = holders.flatten().filter(|holder| *holder != own);
        others.filter_map(|holder| Some((*self.silent.get(&holder)?, holder))).collect()
    }

    /// Says of each entry of a folder whether a session that lives is writing it.
    pub(super) fn mark_written(&self, folder: &SubfilePath, listing: &mut Listing) {
        for entry in &mut listing.entries {
            let path = folder.join(&entry.name);
            entry.is_being_written = path.is_ok_and(|path| self.write_once.is_being_written(&path));
        }
    }

    /// The subfile does not have this path any more.
    pub(super) fn moved(&mut self, path: &SubfilePath) {
        self.claims.release(path);
        self.write_once.seal(path);
    }

    /// The creation of a subfile that a process of `member` claims has ended.
    pub(super) fn creation_ended(&mut self, member: MemberId, path: &SubfilePath, succeeded: bool) {
        self.claims.creation_ended(member, path, succeeded);
    }

    /// How many subfiles the processes of each member have claimed.
    pub(super) fn claims(&self) -> impl Iterator<Item = (MemberId, usize)> + '_ {
        self.claims.counts()
    }

    pub(super) fn session_ended(&mut self, member: MemberId, session: SessionId) {
        self.silent.remove(&session);
        self.claims.session_ended(member, session);
        self.write_once.session_ended(session);
    }
}

fn refuse_other_than_free(path: &SubfilePath) -> Result<(), RemoteError> {
    let kind = match Territory::of(path) {
        Territory::Free => return Ok(()),
        Territory::Reserved => ErrorKind::Reserved,
        Territory::Dataset(_) => ErrorKind::WriteOnce,
    };
    Err(RemoteError::new(kind, path.to_string()))
}

fn changes_something(request: &RequestKind) -> bool {
    match request {
        RequestKind::Read { .. }
        | RequestKind::Stat { .. }
        | RequestKind::Sync { .. }
        | RequestKind::List { .. }
        | RequestKind::Mark { .. } => false,
        // Somebody else may wait for the counts.
        RequestKind::ErrorCounters { reset } => *reset,
        RequestKind::Write { .. }
        | RequestKind::Create { .. }
        | RequestKind::SetLength { .. }
        | RequestKind::Grow { .. }
        | RequestKind::Remove { .. }
        | RequestKind::Rename { .. }
        | RequestKind::Publish { .. }
        | RequestKind::Reclaim { .. } => true,
    }
}

#[cfg(test)]
mod tests {
    use fec_transport::overlay::InstanceId;

    use super::*;
    use crate::distribution::Extent;
    use crate::io_node::Rights;
    use crate::wire::{RunTable, RunTableBuilder};

    const ONE: SessionId = SessionId(1);
    const TWO: SessionId = SessionId(2);
    const RUN: &str = "0123456789abcdef0123456789abcdef";

    fn path(text: &str) -> SubfilePath {
        SubfilePath::new(&text.replace("RUN", RUN)).expect("a right path")
    }

    /// A request over `session`, which is the only one of its process.
    fn client(session: SessionId, name: &str) -> Client<'_> {
        let peer = Peer { member: MemberId(1), instance: InstanceId(session.0) };
        Client { session, peer, name, now: Time::ZERO }
    }

    fn bytes() -> RunTable {
        let mut builder = RunTableBuilder::default();
        builder.push(Extent::between(0, 9));
        builder.finish().expect("not empty")
    }

    fn create(text: &str, exclusive: bool) -> RequestKind {
        RequestKind::Create { path: path(text), truncate: false, claim: false, exclusive }
    }

    fn changes(text: &str) -> [RequestKind; 6] {
        [
            create(text, false),
            RequestKind::Write { path: path(text), runs: bytes() },
            RequestKind::SetLength { path: path(text), length: 5 },
            RequestKind::Grow { path: path(text), length: 5 },
            RequestKind::Rename { path: path(text), target: path("elsewhere"), replace: true },
            RequestKind::Rename { path: path("elsewhere"), target: path(text), replace: true },
        ]
    }

    /// A killed client once kept its claims for as long as its session; that is a minute now.
    #[test]
    fn what_a_session_out_of_reach_holds_is_in_the_way_of_whoever_wants_to_change_it() {
        let (mut admission, member) = (admission(), MemberId(1));
        let claim =
            |text| RequestKind::Create { path: path(text), truncate: true, claim: true, exclusive: false };
        assert_eq!(admission.admit(&client(ONE, "owner"), &claim("x")), Ok(()));
        assert!(admission.in_the_way(TWO, &claim("x")).is_empty(), "it is heard");
        admission.session_silent(member, ONE);
        assert_eq!(admission.in_the_way(TWO, &claim("x")), BTreeSet::from([(member, ONE)]));
        let rename = RequestKind::Rename { path: path("y"), target: path("x"), replace: true };
        assert_eq!(admission.in_the_way(TWO, &rename), BTreeSet::from([(member, ONE)]));
        assert!(admission.in_the_way(TWO, &claim("y")).is_empty(), "it holds nothing there");
        assert!(
            admission.in_the_way(TWO, &RequestKind::Stat { path: path("x") }).is_empty(),
            "it only looks"
        );
        assert!(admission.in_the_way(ONE, &claim("x")).is_empty(), "it is its own");
        admission.session_heard(ONE);
        assert!(admission.in_the_way(TWO, &claim("x")).is_empty(), "it goes on");
        admission.session_silent(member, ONE);
        admission.session_ended(member, ONE);
        assert_eq!(admission.admit(&client(TWO, "owner"), &claim("x")), Ok(()));
    }

    /// Admission where every member has everything, but "writer" may only add and "reader" read.
    fn admission() -> Admission {
        let access = AccessRules::everyone(Right::ReadWrite)
            .with("writer", Rights::everywhere(Right::Append))
            .with("reader", Rights::everywhere(Right::Read));
        Admission::new(access)
    }

    fn kind(result: Result<(), RemoteError>) -> Result<(), ErrorKind> {
        result.map_err(|error| error.kind)
    }

    #[test]
    fn files_of_data_sets_are_created_exclusively_and_written_by_their_creator() {
        let mut admission = admission();
        for text in ["d/objects/RUN", "d/journals/RUN", "d/staged/RUN"] {
            for request in changes(text) {
                let refused = kind(admission.admit(&client(ONE, "client"), &request));
                assert_eq!(refused, Err(ErrorKind::WriteOnce), "{request:?}");
            }
            assert_eq!(kind(admission.admit(&client(ONE, "writer"), &create(text, true))), Ok(()));
            admission.write_once.created(path(text), MemberId(1), ONE);
            let write = RequestKind::Write { path: path(text), runs: bytes() };
            let sync = RequestKind::Sync { path: path(text) };
            for request in [&write, &sync] {
                let refused = kind(admission.admit(&client(TWO, "client"), request));
                assert_eq!(refused, Err(ErrorKind::WriteOnce), "of another session, however large its right");
                assert_eq!(kind(admission.admit(&client(ONE, "writer"), request)), Ok(()));
            }
            let again = kind(admission.admit(&client(ONE, "writer"), &write));
            assert_eq!(again, Err(ErrorKind::WriteOnce), "twice at one place");
        }
    }

    #[test]
    fn records_and_what_is_the_io_nodes_own_are_out_of_reach() {
        let mut admission = admission();
        let number = "d/commits/00000000000000000001";
        for request in changes(number).into_iter().chain([create(number, true)]) {
            let refused = kind(admission.admit(&client(ONE, "client"), &request));
            assert_eq!(refused, Err(ErrorKind::WriteOnce), "{request:?}");
        }
        let remove = RequestKind::Remove { path: path(number) };
        assert_eq!(kind(admission.admit(&client(ONE, "client"), &remove)), Err(ErrorKind::WriteOnce));
        assert_eq!(
            kind(admission.admit(&client(ONE, "reader"), &RequestKind::Stat { path: path(number) })),
            Ok(())
        );
        for text in [".sfio/identity", "d/objects/RUN/x"] {
            let stat = RequestKind::Stat { path: path(text) };
            for request in changes(text).into_iter().chain([stat, create(text, true)]) {
                let refused = kind(admission.admit(&client(ONE, "client"), &request));
                assert_eq!(refused, Err(ErrorKind::Reserved), "{request:?}");
            }
        }
    }

    #[test]
    fn journals_and_staged_records_are_removed_by_their_session_or_with_read_write_when_it_is_gone() {
        let mut admission = admission();
        let remove = |text| RequestKind::Remove { path: path(text) };
        for text in ["d/journals/RUN", "d/staged/RUN"] {
            admission.write_once.created(path(text), MemberId(1), ONE);
            assert_eq!(kind(admission.admit(&client(ONE, "writer"), &remove(text))), Ok(()));
            assert_eq!(kind(admission.admit(&client(TWO, "client"), &remove(text))), Err(ErrorKind::Claimed));
            admission.session_ended(MemberId(1), ONE);
            assert_eq!(kind(admission.admit(&client(TWO, "client"), &remove(text))), Ok(()));
            assert_eq!(
                kind(admission.admit(&client(TWO, "writer"), &remove(text))),
                Err(ErrorKind::AppendOnly)
            );
        }
        admission.write_once.created(path("d/objects/RUN"), MemberId(1), ONE);
        let refused = kind(admission.admit(&client(ONE, "client"), &remove("d/objects/RUN")));
        assert_eq!(refused, Err(ErrorKind::WriteOnce), "it may have been published");
    }

    #[test]
    fn who_may_only_add_changes_no_subfile() {
        let mut admission = admission();
        for request in changes("d/x").into_iter().chain([create("d/x", true)]) {
            assert_eq!(kind(admission.admit(&client(ONE, "writer"), &request)), Err(ErrorKind::AppendOnly));
            assert_eq!(kind(admission.admit(&client(ONE, "reader"), &request)), Err(ErrorKind::ReadOnly));
            assert_eq!(kind(admission.admit(&client(ONE, "client"), &request)), Ok(()), "{request:?}");
        }
        let claim = |text, truncate| RequestKind::Create {
            path: path(text),
            truncate,
            claim: true,
            exclusive: false,
        };
        let resumed = kind(admission.admit(&client(ONE, "writer"), &claim("d/lock", false)));
        assert_eq!(resumed, Err(ErrorKind::ClaimEnded), "there was none");
        assert_eq!(
            kind(admission.admit(&client(ONE, "writer"), &claim("d/lock", true))),
            Ok(()),
            "it truncates nothing"
        );
        let others = kind(admission.admit(&client(TWO, "client"), &claim("d/lock", true)));
        assert_eq!(others, Err(ErrorKind::Claimed));
        assert_eq!(
            kind(admission.admit(&client(ONE, "writer"), &claim("d/y", false))),
            Err(ErrorKind::AppendOnly)
        );
    }

    #[test]
    fn checksums_belong_to_whom_their_subfile_belongs() {
        let rights = Rights::everywhere(Right::ReadWrite)
            .beneath(path("a/x"), Right::Read)
            .beneath(path("hidden/x"), Right::None);
        let mut admission = Admission::new(AccessRules::default().with("client", rights));
        let mut ask = |request: &RequestKind| kind(admission.admit(&client(ONE, "client"), request));
        let stat = |text| RequestKind::Stat { path: path(text) };
        for request in changes("a/.x.sfio-sums") {
            assert_eq!(ask(&request), Err(ErrorKind::ReadOnly), "{request:?}");
        }
        assert_eq!(ask(&stat("a/.x.sfio-sums")), Ok(()));
        assert_eq!(ask(&stat("hidden/.x.sfio-sums")), Err(ErrorKind::PermissionDenied));
        assert_eq!(ask(&create("a/.y.sfio-sums", false)), Ok(()));
    }
}
