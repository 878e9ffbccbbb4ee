//! Subfiles that one session alone may change.

use std::collections::BTreeMap;

use fec_transport::SessionId;

use crate::name::SubfilePath;
use crate::remote_error::{ErrorKind, RemoteError};
use crate::wire::RequestKind;

/// The most subfiles that one session may claim at a time.
const MAX_CLAIMS: usize = 4_096;

/// Subfiles that one session alone may change: since it created them with a claim, and until it gives them another
/// name, removes them, or ends.
#[derive(Debug, Default)]
pub(super) struct Claims(BTreeMap<SubfilePath, SessionId>);

impl Claims {
    /// Lets a request of `session` that changes something through unless it concerns what another one has claimed;
    /// takes note of a claim.
    pub(super) fn admit(&mut self, session: SessionId, request: &RequestKind) -> Result<(), RemoteError> {
        let target = match request {
            RequestKind::Rename { target, .. } => Some(target),
            _ => None,
        };
        for path in request.path().into_iter().chain(target) {
            if self.0.get(path).is_some_and(|holder| *holder != session) {
                return Err(RemoteError::new(ErrorKind::Claimed, path.to_string()));
            }
        }
        if let RequestKind::Create { path, claim: true, .. } = request {
            self.claim(session, path)?;
        }
        Ok(())
    }

    fn claim(&mut self, session: SessionId, path: &SubfilePath) -> Result<(), RemoteError> {
        let held = self.0.values().filter(|holder| **holder == session).count();
        if held >= MAX_CLAIMS && !self.0.contains_key(path) {
            let text = format!("{held} subfiles are claimed by this session");
            return Err(RemoteError::new(ErrorKind::Overloaded, text));
        }
        self.0.insert(path.clone(), session);
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
        RequestKind::Create { path: path(text), truncate: true, claim, exclusive: false }
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
        claims.session_ended(one);
        assert_eq!(claims.admit(two, &create("x", true)), Ok(()));
        claims.release(&path("x"));
        assert_eq!(claims.admit(one, &create("x", false)), Ok(()));
    }

    #[test]
    fn one_session_claims_a_bounded_number_of_subfiles() {
        let (mut claims, one, two) = (Claims::default(), SessionId(1), SessionId(2));
        for number in 0..MAX_CLAIMS {
            assert_eq!(claims.admit(one, &create(&number.to_string(), true)), Ok(()));
        }
        assert_eq!(claims.admit(one, &create("x", true)).expect_err("one more").kind, ErrorKind::Overloaded);
        assert_eq!(claims.admit(one, &create("0", true)), Ok(()));
        assert_eq!(claims.admit(two, &create("x", true)), Ok(()));
    }
}
