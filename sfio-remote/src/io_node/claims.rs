//! Subfiles that one client process alone may change.

use std::collections::BTreeMap;

use fec_transport::SessionId;
use fec_transport::overlay::Peer;
use fec_transport::time::Time;

use super::admission::Client;
use crate::name::SubfilePath;
use crate::remote_error::{ErrorKind, RemoteError};
use crate::wire::RequestKind;

/// The most subfiles that one process may have claimed at a time.
const MAX_CLAIMS: usize = 4_096;

/// The most claims that are kept after the end of their sessions; beyond that they are all forgotten.
const MAX_LAPSED: usize = 4_096;

/// Subfiles that one client process alone may change: since it created them with a claim, and until it gives them
/// another name, removes them, or its session ends.
///
/// A claim whose session has ended has **lapsed**: it keeps nobody away. But as long as nobody else changes the
/// subfile, the same process may resume it over a new session, and knows by that that what it has written is still as
/// it was, in the same process of this I/O node.
#[derive(Debug, Default)]
pub(super) struct Claims(BTreeMap<SubfilePath, Claim>);

#[derive(Debug)]
struct Claim {
    holder: Peer,
    /// The name of its member.
    name: String,
    /// When it was claimed first.
    since: Time,
    /// None once it has lapsed.
    session: Option<SessionId>,
}

impl Claims {
    /// Lets a request of `client` that changes something through unless it concerns what another process has claimed;
    /// takes note of a claim.
    pub(super) fn admit(&mut self, client: &Client<'_>, request: &RequestKind) -> Result<(), RemoteError> {
        if let RequestKind::Create { path, claim: true, truncate: false, .. } = request {
            return self.resume(client, path);
        }
        self.refuse_others(client, request)?;
        match request {
            RequestKind::Create { path, claim: true, .. } => self.claim(client, path),
            _ => Ok(()),
        }
    }

    fn claim(&mut self, client: &Client<'_>, path: &SubfilePath) -> Result<(), RemoteError> {
        let held = self.0.values().filter(|claim| claim.holder == client.peer).count();
        if held >= MAX_CLAIMS && !self.0.contains_key(path) {
            let text = format!("{held} subfiles are claimed by this process");
            return Err(RemoteError::new(ErrorKind::Overloaded, text));
        }
        let since = match self.0.get(path) {
            Some(claim) if claim.holder == client.peer => claim.since,
            _ => client.now,
        };
        let (holder, name) = (client.peer, client.name.to_owned());
        self.0.insert(path.clone(), Claim { holder, name, since, session: Some(client.session) });
        Ok(())
    }

    /// Continues a claim of the same process over the session of this request.
    fn resume(&mut self, client: &Client<'_>, path: &SubfilePath) -> Result<(), RemoteError> {
        match self.0.get_mut(path) {
            Some(claim) if claim.holder == client.peer => {
                claim.session = Some(client.session);
                Ok(())
            }
            Some(claim) if claim.session.is_some() => Err(claim.refusal(path, client.now)),
            _ => Err(RemoteError::new(ErrorKind::ClaimEnded, path.to_string())),
        }
    }

    /// Refuses to change what another process has claimed. A lapsed claim ends where somebody else changes the subfile.
    fn refuse_others(&mut self, client: &Client<'_>, request: &RequestKind) -> Result<(), RemoteError> {
        let target = match request {
            RequestKind::Rename { target, .. } => Some(target),
            _ => None,
        };
        let paths = || request.path().into_iter().chain(target);
        let is_others = |claim: &Claim| claim.holder != client.peer;
        let held = |path| self.0.get(path).filter(|claim| is_others(claim) && claim.session.is_some());
        if let Some((path, claim)) = paths().find_map(|path| Some((path, held(path)?))) {
            return Err(claim.refusal(path, client.now));
        }
        for path in paths() {
            if self.0.get(path).is_some_and(is_others) {
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

impl Claim {
    /// What others are told: who has it, and for how long.
    fn refusal(&self, path: &SubfilePath, now: Time) -> RemoteError {
        let Claim { name, holder, since, .. } = self;
        let (instance, seconds) = (holder.instance.0, now.since(*since).as_secs());
        let text = format!("{path}, by {name} (process {instance:016x}) for {seconds} s");
        RemoteError::new(ErrorKind::Claimed, text)
    }
}

#[cfg(test)]
mod tests {
    use fec_transport::overlay::{InstanceId, MemberId};

    use super::*;
    use std::time::Duration;

    fn path(text: &str) -> SubfilePath {
        SubfilePath::new(text).expect("a right path")
    }

    /// A request over a session of a process of a member.
    fn client(session: u64, member: u16, instance: u64) -> Client<'static> {
        let peer = Peer { member: MemberId(member), instance: InstanceId(instance) };
        Client { session: SessionId(session), peer, name: "laptop", now: Time::ZERO }
    }

    fn create(text: &str, claim: bool) -> RequestKind {
        RequestKind::Create { path: path(text), truncate: true, claim, exclusive: false }
    }

    fn resume(text: &str) -> RequestKind {
        RequestKind::Create { path: path(text), truncate: false, claim: true, exclusive: false }
    }

    fn refusal(result: Result<(), RemoteError>) -> ErrorKind {
        result.expect_err("it is refused").kind
    }

    #[test]
    fn a_claim_keeps_all_others_from_changing_a_subfile() {
        let (mut claims, mine, other) = (Claims::default(), client(1, 1, 7), client(2, 2, 7));
        assert_eq!(claims.admit(&mine, &create("x", true)), Ok(()));
        assert_eq!(claims.admit(&mine, &create("x", true)), Ok(()));
        let rename = RequestKind::Rename { path: path("y"), target: path("x"), replace: true };
        let remove = RequestKind::Remove { path: path("x") };
        for request in [create("x", true), create("x", false), rename, remove, resume("x")] {
            assert_eq!(refusal(claims.admit(&other, &request)), ErrorKind::Claimed);
        }
        claims.session_ended(mine.session);
        assert_eq!(claims.admit(&other, &create("x", true)), Ok(()));
        claims.release(&path("x"));
        assert_eq!(claims.admit(&mine, &create("x", false)), Ok(()));
    }

    #[test]
    fn a_refusal_names_the_holder_and_how_long_it_has_been_that() {
        let mut claims = claimed();
        let at = |seconds| Client { now: Time::ZERO + Duration::from_secs(seconds), ..client(1, 1, 7) };
        assert_eq!(claims.admit(&at(5), &create("x", true)), Ok(()), "it claims again what it has");
        let other = Client { now: Time::ZERO + Duration::from_secs(12), ..client(2, 2, 8) };
        let error = claims.admit(&other, &create("x", true)).expect_err("it is held");
        assert_eq!(error.text, "x, by laptop (process 0000000000000007) for 12 s");
    }

    fn claimed() -> Claims {
        let mut claims = Claims::default();
        assert_eq!(claims.admit(&client(1, 1, 7), &create("x", true)), Ok(()));
        claims
    }

    /// An outage once ended every put: the session was lost, and with it the claim.
    #[test]
    fn a_process_resumes_its_claim_over_a_new_session() {
        let (again, other) = (client(2, 1, 7), client(3, 2, 7));
        let mut claims = claimed();
        // The client knows of the end of a session before the I/O node does.
        assert_eq!(claims.admit(&again, &resume("x")), Ok(()));
        claims.session_ended(SessionId(1));
        let kind = refusal(claims.admit(&other, &create("x", false)));
        assert_eq!(kind, ErrorKind::Claimed, "it is held by the new session");

        let mut claims = claimed();
        claims.session_ended(SessionId(1));
        assert_eq!(claims.admit(&again, &create("x", false)), Ok(()), "its own writes end nothing");
        assert_eq!(claims.admit(&again, &resume("x")), Ok(()));
    }

    #[test]
    fn no_claim_is_resumed_where_something_may_have_been_lost_or_changed() {
        let (again, other) = (client(2, 1, 7), client(3, 2, 7));
        let mut claims = claimed();
        claims.session_ended(SessionId(1));
        assert_eq!(claims.admit(&other, &create("x", false)), Ok(()));
        assert_eq!(refusal(claims.admit(&again, &resume("x"))), ErrorKind::ClaimEnded);

        let mut restarted = Claims::default();
        assert_eq!(refusal(restarted.admit(&again, &resume("x"))), ErrorKind::ClaimEnded);

        let mut claims = claimed();
        claims.session_ended(SessionId(1));
        let another_process = client(2, 1, 8);
        assert_eq!(refusal(claims.admit(&another_process, &resume("x"))), ErrorKind::ClaimEnded);
    }

    #[test]
    fn one_process_claims_a_bounded_number_of_subfiles() {
        let (mut claims, one, two) = (Claims::default(), client(1, 1, 7), client(2, 2, 7));
        for number in 0..MAX_CLAIMS {
            assert_eq!(claims.admit(&one, &create(&number.to_string(), true)), Ok(()));
        }
        assert_eq!(refusal(claims.admit(&one, &create("x", true))), ErrorKind::Overloaded);
        assert_eq!(claims.admit(&one, &create("0", true)), Ok(()));
        assert_eq!(claims.admit(&two, &create("x", true)), Ok(()));
    }

    #[test]
    fn lapsed_claims_do_not_pile_up() {
        let mut claims = Claims::default();
        for process in 0..2 {
            let client = client(process, 1, process);
            for number in 0..MAX_LAPSED {
                let name = format!("{process}/{number}");
                assert_eq!(claims.admit(&client, &create(&name, true)), Ok(()));
            }
            claims.session_ended(client.session);
        }
        assert_eq!(claims.0.len(), 0);
    }
}
