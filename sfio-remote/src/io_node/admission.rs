//! Who may do what: rights of members, and claims on subfiles.

use std::collections::BTreeMap;

use fec_transport::SessionId;
use fec_transport::overlay::Peer;

use crate::name::SubfilePath;
use crate::remote_error::{ErrorKind, RemoteError};
use crate::wire::RequestKind;

/// What a member may do with the subfiles of an I/O node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Right {
    /// Nothing.
    None,
    /// Read, and ask for sizes and counters.
    ReadOnly,
    /// Everything.
    ReadWrite,
}

/// The rights of all members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessRules {
    /// By name.
    pub members: BTreeMap<String, Right>,
    /// Those of all others. Default: read and write, since the overlay lists none but members.
    pub others: Right,
}

impl Default for AccessRules {
    fn default() -> AccessRules {
        AccessRules { members: BTreeMap::new(), others: Right::ReadWrite }
    }
}

impl AccessRules {
    /// Whether `member` may do what a request asks for.
    ///
    /// # Errors
    /// If not.
    pub fn check(&self, member: &str, request: &RequestKind) -> Result<(), RemoteError> {
        let right = self.members.get(member).copied().unwrap_or(self.others);
        let needed = if changes_something(request) { Right::ReadWrite } else { Right::ReadOnly };
        let refuse = |kind| Err(RemoteError::new(kind, format!("for member {member}")));
        match right {
            right if right >= needed => Ok(()),
            Right::ReadOnly => refuse(ErrorKind::ReadOnly),
            _ => refuse(ErrorKind::PermissionDenied),
        }
    }
}

fn changes_something(request: &RequestKind) -> bool {
    match request {
        RequestKind::Read { .. } | RequestKind::Stat { .. } | RequestKind::Sync { .. } => false,
        // Somebody else may wait for the counts.
        RequestKind::ErrorCounters { reset } => *reset,
        RequestKind::Write { .. }
        | RequestKind::Create { .. }
        | RequestKind::SetLength { .. }
        | RequestKind::Grow { .. }
        | RequestKind::Remove { .. }
        | RequestKind::Rename { .. } => true,
    }
}

/// The most claims that are kept after the end of their sessions; beyond that they are all forgotten.
const MAX_LAPSED: usize = 4_096;

/// Subfiles that one client process alone may change: since it created them with a claim, and until it gives them another
/// name, removes them, or its session ends.
///
/// A claim whose session has ended has **lapsed**: it keeps nobody away. But as long as nobody else changes the subfile,
/// the same process may resume it over a new session, and knows by that that what it has written is still as it was, in
/// the same process of this I/O node.
#[derive(Debug, Default)]
pub(super) struct Claims(BTreeMap<SubfilePath, Claim>);

#[derive(Debug)]
struct Claim {
    holder: Peer,
    /// None once it has lapsed.
    session: Option<SessionId>,
}

impl Claims {
    /// Lets a request over `session` with `peer` through unless it concerns what another process has claimed; takes note of
    /// a claim.
    pub(super) fn admit(
        &mut self,
        session: SessionId,
        peer: Option<Peer>,
        request: &RequestKind,
    ) -> Result<(), RemoteError> {
        if let RequestKind::Create { path, claim: true, truncate: false, .. } = request {
            return self.resume(session, peer, path);
        }
        if changes_something(request) {
            self.refuse_others(peer, request)?;
        }
        if let (RequestKind::Create { path, claim: true, .. }, Some(holder)) = (request, peer) {
            self.0.insert(path.clone(), Claim { holder, session: Some(session) });
        }
        Ok(())
    }

    /// Continues a claim of the same process over `session`.
    fn resume(
        &mut self,
        session: SessionId,
        peer: Option<Peer>,
        path: &SubfilePath,
    ) -> Result<(), RemoteError> {
        match self.0.get_mut(path) {
            Some(claim) if peer == Some(claim.holder) => {
                claim.session = Some(session);
                Ok(())
            }
            Some(Claim { session: Some(_), .. }) => {
                Err(RemoteError::new(ErrorKind::Claimed, path.to_string()))
            }
            _ => Err(RemoteError::new(ErrorKind::ClaimEnded, path.to_string())),
        }
    }

    /// Refuses to change what another process has claimed. A lapsed claim ends where somebody else changes the subfile.
    fn refuse_others(&mut self, peer: Option<Peer>, request: &RequestKind) -> Result<(), RemoteError> {
        let target = match request {
            RequestKind::Rename { target, .. } => Some(target),
            _ => None,
        };
        let paths = || request.path().into_iter().chain(target);
        let others = |claim: &Claim| peer != Some(claim.holder);
        let claimed = |path: &&SubfilePath| {
            self.0.get(*path).is_some_and(|claim| others(claim) && claim.session.is_some())
        };
        if let Some(path) = paths().find(claimed) {
            return Err(RemoteError::new(ErrorKind::Claimed, path.to_string()));
        }
        for path in paths() {
            if self.0.get(path).is_some_and(others) {
                self.0.remove(path);
            }
        }
        Ok(())
    }

    /// The subfile does not have this path any more.
    pub(super) fn release(&mut self, path: &SubfilePath) {
        self.0.remove(path);
    }

    pub(super) fn session_ended(&mut self, session: SessionId) {
        let ended = self.0.values_mut().filter(|claim| claim.session == Some(session));
        ended.for_each(|claim| claim.session = None);
        if self.0.values().filter(|claim| claim.session.is_none()).count() > MAX_LAPSED {
            self.0.retain(|_, claim| claim.session.is_some());
        }
    }
}

#[cfg(test)]
mod tests {
    use fec_transport::overlay::{InstanceId, MemberId};

    use super::*;

    fn path(text: &str) -> SubfilePath {
        SubfilePath::new(text).expect("a right path")
    }

    fn create(text: &str, claim: bool) -> RequestKind {
        RequestKind::Create { path: path(text), truncate: true, claim }
    }

    #[test]
    fn rights_are_those_of_the_member() {
        let members = BTreeMap::from([("a".to_owned(), Right::ReadWrite), ("b".to_owned(), Right::ReadOnly)]);
        let rules = AccessRules { members, others: Right::None };
        let stat = RequestKind::Stat { path: path("x") };
        let check = |member, request: &RequestKind| rules.check(member, request).map_err(|error| error.kind);
        assert_eq!(check("a", &create("x", false)), Ok(()));
        assert_eq!((check("b", &stat), check("b", &create("x", false))), (Ok(()), Err(ErrorKind::ReadOnly)));
        assert_eq!(check("c", &stat), Err(ErrorKind::PermissionDenied));
        assert_eq!(AccessRules::default().check("c", &create("x", false)), Ok(()));
    }

    fn process(member: u16, instance: u64) -> Option<Peer> {
        Some(Peer { member: MemberId(member), instance: InstanceId(instance) })
    }

    #[test]
    fn a_claim_keeps_all_others_from_changing_a_subfile() {
        let (mut claims, one, two) = (Claims::default(), SessionId(1), SessionId(2));
        let (mine, other) = (process(1, 7), process(2, 7));
        assert_eq!(claims.admit(one, mine, &create("x", true)), Ok(()));
        assert_eq!(claims.admit(one, mine, &create("x", true)), Ok(()));
        let rename = RequestKind::Rename { path: path("y"), target: path("x"), replace: true };
        for request in [
            create("x", true),
            create("x", false),
            rename,
            RequestKind::Remove { path: path("x") },
            resume("x"),
        ] {
            assert_eq!(claims.admit(two, other, &request).expect_err("claimed").kind, ErrorKind::Claimed);
        }
        assert_eq!(claims.admit(two, other, &RequestKind::Stat { path: path("x") }), Ok(()));
        claims.session_ended(one);
        assert_eq!(claims.admit(two, other, &create("x", true)), Ok(()));
        claims.release(&path("x"));
        assert_eq!(claims.admit(one, mine, &create("x", false)), Ok(()));
    }

    fn resume(text: &str) -> RequestKind {
        RequestKind::Create { path: path(text), truncate: false, claim: true }
    }

    /// An outage once ended every put: the session was lost, and with it the claim.
    #[test]
    fn a_process_resumes_its_claim_over_a_new_session_unless_somebody_else_was_there() {
        let (mine, other) = (process(1, 7), process(2, 7));
        let claimed = || {
            let mut claims = Claims::default();
            assert_eq!(claims.admit(SessionId(1), mine, &create("x", true)), Ok(()));
            claims
        };
        let ended = |result: Result<(), RemoteError>| result.expect_err("it has ended").kind;

        let mut claims = claimed();
        // The client knows of the end of a session before the I/O node does.
        assert_eq!(claims.admit(SessionId(2), mine, &resume("x")), Ok(()));
        claims.session_ended(SessionId(1));
        let kind = ended(claims.admit(SessionId(3), other, &create("x", false)));
        assert_eq!(kind, ErrorKind::Claimed, "it is held by the new session");

        let mut claims = claimed();
        claims.session_ended(SessionId(1));
        assert_eq!(
            claims.admit(SessionId(2), mine, &create("x", false)),
            Ok(()),
            "its own writes end nothing"
        );
        assert_eq!(claims.admit(SessionId(2), mine, &resume("x")), Ok(()));

        let mut claims = claimed();
        claims.session_ended(SessionId(1));
        assert_eq!(claims.admit(SessionId(3), other, &create("x", false)), Ok(()));
        assert_eq!(ended(claims.admit(SessionId(2), mine, &resume("x"))), ErrorKind::ClaimEnded);

        let mut restarted = Claims::default();
        assert_eq!(ended(restarted.admit(SessionId(2), mine, &resume("x"))), ErrorKind::ClaimEnded);
        let mut claims = claimed();
        claims.session_ended(SessionId(1));
        let another_process = process(1, 8);
        assert_eq!(ended(claims.admit(SessionId(2), another_process, &resume("x"))), ErrorKind::ClaimEnded);
    }

    #[test]
    fn lapsed_claims_do_not_pile_up() {
        let mut claims = Claims::default();
        for number in 0..=MAX_LAPSED {
            assert_eq!(claims.admit(SessionId(1), process(1, 7), &create(&number.to_string(), true)), Ok(()));
        }
        claims.session_ended(SessionId(1));
        assert_eq!(claims.0.len(), 0);
    }
}
