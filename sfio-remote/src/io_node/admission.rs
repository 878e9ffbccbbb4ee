//! Who may do what: rights of members, and claims on subfiles.

use std::collections::BTreeMap;

use fec_transport::SessionId;

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

/// Subfiles that one session alone may change: since it created them with a claim, and until it gives them another name,
/// removes them, or ends.
#[derive(Debug, Default)]
pub(super) struct Claims(BTreeMap<SubfilePath, SessionId>);

impl Claims {
    /// Lets a request of `session` through unless it concerns what another one has claimed; takes note of a claim.
    pub(super) fn admit(&mut self, session: SessionId, request: &RequestKind) -> Result<(), RemoteError> {
        let target = match request {
            RequestKind::Rename { target, .. } => Some(target),
            _ => None,
        };
        if changes_something(request) {
            for path in request.path().into_iter().chain(target) {
                if self.0.get(path).is_some_and(|holder| *holder != session) {
                    return Err(RemoteError::new(ErrorKind::Claimed, path.to_string()));
                }
            }
        }
        if let RequestKind::Create { path, claim: true, .. } = request {
            self.0.insert(path.clone(), session);
        }
        Ok(())
    }

    /// The subfile does not have this path any more.
    pub(super) fn release(&mut self, path: &SubfilePath) {
        self.0.remove(path);
    }

    pub(super) fn session_ended(&mut self, session: SessionId) {
        self.0.retain(|_, holder| *holder != session);
    }
}

#[cfg(test)]
mod tests {
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

    #[test]
    fn a_claim_keeps_all_others_from_changing_a_subfile() {
        let (mut claims, one, two) = (Claims::default(), SessionId(1), SessionId(2));
        assert_eq!(claims.admit(one, &create("x", true)), Ok(()));
        assert_eq!(claims.admit(one, &create("x", true)), Ok(()));
        let rename = RequestKind::Rename { path: path("y"), target: path("x"), replace: true };
        for request in
            [create("x", true), create("x", false), rename, RequestKind::Remove { path: path("x") }]
        {
            assert_eq!(claims.admit(two, &request).expect_err("claimed").kind, ErrorKind::Claimed);
        }
        assert_eq!(claims.admit(two, &RequestKind::Stat { path: path("x") }), Ok(()));
        claims.session_ended(one);
        assert_eq!(claims.admit(two, &create("x", true)), Ok(()));
        claims.release(&path("x"));
        assert_eq!(claims.admit(one, &create("x", false)), Ok(()));
    }
}
