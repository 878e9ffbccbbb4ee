//! Subfiles that one client process alone may change.

use std::collections::BTreeMap;

use fec_transport::SessionId;
use fec_transport::overlay::{InstanceId, MemberId, Peer};
use fec_transport::time::Time;

use super::admission::Client;
use crate::name::SubfilePath;
use crate::remote_error::{ErrorKind, RemoteError};
use crate::wire::RequestKind;

/// The most subfiles that the processes of one member may have claimed at a time, those included that have lapsed: for
/// a new claim the one is forgotten that lapsed first.
const MAX_CLAIMS: usize = 4_096;

/// Subfiles that one client process alone may change: since it created them with a claim, and until it gives them
/// another name, removes them, or its session ends.
///
/// A claim whose session has ended has **lapsed**: it keeps nobody away. But as long as nobody else changes the
/// subfile, the same process may resume it over a new session, and knows by that that what it has written is still as
/// it was, in the same process of this I/O node.
///
/// A path is claimed by one member at most: who changes what another one's lapsed claim is about ends that.
#[derive(Debug, Default)]
pub(super) struct Claims {
    of_member: BTreeMap<MemberId, BTreeMap<SubfilePath, Claim>>,
    /// How many have lapsed so far.
    lapses: u64,
}

#[derive(Debug)]
struct Claim {
    instance: InstanceId,
    /// The name of its member.
    name: String,
    /// When it was claimed first.
    since: Time,
    state: State,
    /// Creations under way, and whether one has succeeded: a claim of what could not be created is none.
    creations: usize,
    is_created: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Held(SessionId),
    /// As which of all that have lapsed.
    Lapsed(u64),
}

impl Claims {
    /// Lets a request of `client` that changes something through unless it concerns what another process has claimed;
    /// takes note of a claim, of which [`creation_ended`](Self::creation_ended) must tell how it ended.
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
        let Peer { member, instance } = client.peer;
        let claims = self.of_member.entry(member).or_default();
        if let Some(claim) = claims.get_mut(path).filter(|claim| claim.instance == instance) {
            claim.state = State::Held(client.session);
            claim.creations += 1;
            return Ok(());
        }
        if claims.len() >= MAX_CLAIMS && !claims.contains_key(path) {
            let lapsed = |(path, claim): (&SubfilePath, &Claim)| match claim.state {
                State::Lapsed(number) => Some((number, path.clone())),
                State::Held(_) => None,
            };
            let Some((_, first)) = claims.iter().filter_map(lapsed).min() else {
                let text = format!("{} subfiles are claimed by member {}", claims.len(), client.name);
                return Err(RemoteError::new(ErrorKind::Overloaded, text));
            };
            claims.remove(&first);
        }
        let (name, since, state) = (client.name.to_owned(), client.now, State::Held(client.session));
        claims.insert(path.clone(), Claim { instance, name, since, state, creations: 1, is_created: false });
        Ok(())
    }

    /// The creation of a subfile that a process of `member` claims has ended.
    pub(super) fn creation_ended(&mut self, member: MemberId, path: &SubfilePath, succeeded: bool) {
        let Some(claims) = self.of_member.get_mut(&member) else { return };
        let Some(claim) = claims.get_mut(path) else { return };
        claim.creations = claim.creations.saturating_sub(1);
        claim.is_created |= succeeded;
        if claim.creations == 0 && !claim.is_created {
            self.remove(member, path);
        }
    }

    /// Continues a claim of the same process over the session of this request.
    fn resume(&mut self, client: &Client<'_>, path: &SubfilePath) -> Result<(), RemoteError> {
        match self.find_mut(path) {
            Some((member, claim)) if client.peer == (Peer { member, instance: claim.instance }) => {
                claim.state = State::Held(client.session);
                Ok(())
            }
            Some((_, claim)) if claim.is_held() => Err(claim.refusal(path, client.now)),
            _ => Err(RemoteError::new(ErrorKind::ClaimEnded, path.to_string())),
        }
    }

    /// Refuses to change what another process has claimed. A lapsed claim ends where somebody else changes the subfile.
    fn refuse_others(&mut self, client: &Client<'_>, request: &RequestKind) -> Result<(), RemoteError> {
        let target = match request {
            RequestKind::Rename { target, .. } => Some(target),
            _ => None,
        };
        let mut lapsed = Vec::new();
        for path in request.path().into_iter().chain(target) {
            match self.find_mut(path) {
                Some((member, claim)) if client.peer == (Peer { member, instance: claim.instance }) => {}
                Some((_, claim)) if claim.is_held() => return Err(claim.refusal(path, client.now)),
                Some((member, _)) => lapsed.push((member, path)),
                None => {}
            }
        }
        lapsed.into_iter().for_each(|(member, path)| self.remove(member, path));
        Ok(())
    }

    /// The subfile does not have this path any more.
    pub(super) fn release(&mut self, path: &SubfilePath) {
        if let Some((member, _)) = self.find_mut(path) {
            self.remove(member, path);
        }
    }

    pub(super) fn session_ended(&mut self, member: MemberId, session: SessionId) {
        let claims = self.of_member.get_mut(&member).into_iter().flat_map(BTreeMap::values_mut);
        for claim in claims.filter(|claim| claim.state == State::Held(session)) {
            self.lapses += 1;
            claim.state = State::Lapsed(self.lapses);
        }
    }

    /// The session that holds the claim on a subfile.
    pub(super) fn holder(&self, path: &SubfilePath) -> Option<SessionId> {
        let claims = self.of_member.values().filter_map(|claims| claims.get(path));
        claims.into_iter().find_map(|claim| match claim.state {
            State::Held(session) => Some(session),
            State::Lapsed(_) => None,
        })
    }

    /// How many there are of each member, those included that have lapsed.
    pub(super) fn counts(&self) -> impl Iterator<Item = (MemberId, usize)> + '_ {
        self.of_member.iter().map(|(member, claims)| (*member, claims.len()))
    }

    fn find_mut(&mut self, path: &SubfilePath) -> Option<(MemberId, &mut Claim)> {
        self.of_member.iter_mut().find_map(|(member, claims)| Some((*member, claims.get_mut(path)?)))
    }

    fn remove(&mut self, member: MemberId, path: &SubfilePath) {
        let Some(claims) = self.of_member.get_mut(&member) else { return };
        claims.remove(path);
        if claims.is_empty() {
            self.of_member.remove(&member);
        }
    }
}

impl Claim {
    fn is_held(&self) -> bool {
        matches!(self.state, State::Held(_))
    }

    /// What others are told: who has it, and for how long.
    fn refusal(&self, path: &SubfilePath, now: Time) -> RemoteError {
        let Claim { name, instance, since, .. } = self;
        let (instance, seconds) = (instance.0, now.since(*since).as_secs());
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
        claims.session_ended(MemberId(1), mine.session);
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
        claims.session_ended(MemberId(1), SessionId(1));
        let kind = refusal(claims.admit(&other, &create("x", false)));
        assert_eq!(kind, ErrorKind::Claimed, "it is held by the new session");

        let mut claims = claimed();
        claims.session_ended(MemberId(1), SessionId(1));
        assert_eq!(claims.admit(&again, &create("x", false)), Ok(()), "its own writes end nothing");
        assert_eq!(claims.admit(&again, &resume("x")), Ok(()));
    }

    #[test]
    fn no_claim_is_resumed_where_something_may_have_been_lost_or_changed() {
        let (again, other) = (client(2, 1, 7), client(3, 2, 7));
        let mut claims = claimed();
        claims.session_ended(MemberId(1), SessionId(1));
        assert_eq!(claims.admit(&other, &create("x", false)), Ok(()));
        assert_eq!(refusal(claims.admit(&again, &resume("x"))), ErrorKind::ClaimEnded);

        let mut restarted = Claims::default();
        assert_eq!(refusal(restarted.admit(&again, &resume("x"))), ErrorKind::ClaimEnded);

        let mut claims = claimed();
        claims.session_ended(MemberId(1), SessionId(1));
        let another_process = client(2, 1, 8);
        assert_eq!(refusal(claims.admit(&another_process, &resume("x"))), ErrorKind::ClaimEnded);
    }

    #[test]
    fn one_member_claims_a_bounded_number_of_subfiles_with_all_its_processes() {
        let (mut claims, two) = (Claims::default(), client(2, 2, 7));
        let process = |number: usize| client(number as u64 % 3 + 10, 1, number as u64 % 3);
        for number in 0..MAX_CLAIMS {
            assert_eq!(claims.admit(&process(number), &create(&number.to_string(), true)), Ok(()));
        }
        assert_eq!(refusal(claims.admit(&process(0), &create("x", true))), ErrorKind::Overloaded);
        assert_eq!(claims.admit(&process(0), &create("0", true)), Ok(()));
        assert_eq!(claims.admit(&two, &create("x", true)), Ok(()));
        // What has lapsed makes room, that which lapsed first, and never that of another member.
        claims.session_ended(MemberId(1), process(0).session);
        claims.session_ended(MemberId(2), two.session);
        assert_eq!(claims.admit(&process(1), &create("y", true)), Ok(()));
        assert_eq!(refusal(claims.admit(&process(0), &resume("0"))), ErrorKind::ClaimEnded);
        assert_eq!(claims.admit(&process(0), &resume("3")), Ok(()));
        assert_eq!(claims.admit(&two, &resume("x")), Ok(()));
        assert_eq!(claims.counts().collect::<Vec<_>>(), [(MemberId(1), MAX_CLAIMS), (MemberId(2), 1)]);
    }

    /// 70,100 creations that failed once left as many claims.
    #[test]
    fn what_could_not_be_created_is_not_claimed() {
        let (mut claims, mine, member) = (Claims::default(), client(1, 1, 7), MemberId(1));
        for number in 0..10 * MAX_CLAIMS {
            let name = number.to_string();
            assert_eq!(claims.admit(&mine, &create(&name, true)), Ok(()));
            claims.creation_ended(member, &path(&name), false);
        }
        assert_eq!(claims.counts().count(), 0);
        // Of two at once, the one that succeeds counts; and what is claimed stays so when it cannot be cut again.
        for outcomes in [[true, false], [false, true]] {
            assert_eq!(claims.admit(&mine, &create("x", true)), Ok(()));
            assert_eq!(claims.admit(&mine, &create("x", true)), Ok(()));
            outcomes.into_iter().for_each(|succeeded| claims.creation_ended(member, &path("x"), succeeded));
            assert_eq!(claims.counts().next(), Some((member, 1)));
        }
    }
}
