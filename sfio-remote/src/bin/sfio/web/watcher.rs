//! From what a source has seen to what a page shows.

use std::sync::Arc;

use super::happenings::{Happenings, Living};
use super::layout::{Place, places};
use super::links::{self, Evidence};
use super::meter::{Counts, Meter};
use super::picture::{Kind, Link, Member, Path, Picture, Session, State, Subject, Work, rounded};
use super::sessions;
use crate::operations::{MappedMember, Observation, OverlayMap};

/// Members and links that a page shows.
const MAX_MEMBERS: usize = 256;
const MAX_LINKS: usize = 1_024;

/// What a source has seen at one moment.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) subject: Subject,
    pub(crate) state: State,
    pub(crate) overlay: Arc<OverlayMap>,
    /// What the member says of itself, if it lives.
    pub(crate) observation: Option<Observation>,
    /// Which process of the member that is: another one counts anew.
    pub(crate) process: String,
    /// By link of the overlay, if somebody counts on all of them; otherwise empty.
    pub(crate) links: Vec<LinkCounts>,
    pub(crate) work: Vec<Work>,
    /// What has happened since the look before.
    pub(crate) notes: Vec<String>,
}

/// What was counted on a link so far, control and data alike.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LinkCounts {
    pub(crate) is_up: bool,
    /// Bytes that arrived at the second end, and at the first.
    pub(crate) forward_bytes: u64,
    pub(crate) backward_bytes: u64,
    /// Packets of both directions that were sent, and that did not arrive.
    pub(crate) offered: u64,
    pub(crate) lost: u64,
}

/// Makes pictures, and remembers what they follow from.
#[derive(Debug, Default)]
pub(super) struct Watcher {
    meter: Meter,
    happenings: Happenings,
    map: Option<Map>,
}

/// An overlay with places.
#[derive(Debug)]
struct Map {
    /// As the source has it.
    whole: Arc<OverlayMap>,
    /// What of it is shown.
    shown: OverlayMap,
    /// By member that is shown.
    places: Vec<Place>,
    /// By link that is shown: its number in the whole overlay.
    link_numbers: Vec<usize>,
}

impl Watcher {
    /// The picture of what was seen `at_s` seconds after the page began.
    pub(super) fn picture(&mut self, seen: Seen, at_s: f64, clock_ms: u64) -> Picture {
        let at_s = rounded(at_s, 2);
        let map = self.map.take().filter(|map| map.whole == seen.overlay);
        let map = map.unwrap_or_else(|| Map::of(&seen.overlay));
        let counted = map.counted(&seen.links);
        let observation = seen.observation.as_ref();
        self.meter.note(at_s, counts(&map.shown, &counted, observation, &seen.process));
        let (sessions, more_sessions) = observation
            .map(|observation| sessions::sessions(observation, &seen.process, &self.meter))
            .unwrap_or_default();
        let paths = sessions.iter().flat_map(|session| &session.paths).collect();
        let evidence =
            Evidence { overlay: &map.shown, observation, paths, counted: &counted, meter: &self.meter };
        let mut links = evidence.links();
        for note in &seen.notes {
            self.happenings.tell(Kind::Note, note.clone(), None, at_s, clock_ms);
        }
        self.happenings.note_links(&living_links(&links), at_s, clock_ms);
        self.happenings.note_paths(&living_paths(&sessions), at_s, clock_ms);
        links.iter_mut().for_each(|link| link.deaths = self.happenings.deaths(&link.key));
        let picture = Picture {
            at_s,
            clock_ms,
            flow: sessions::all(&sessions, &self.meter),
            members: map.members(observation),
            links,
            sessions,
            work: seen.work,
            happenings: self.happenings.latest(),
            left_out: map.left_out(more_sessions),
            subject: seen.subject,
            state: seen.state,
        };
        self.map = Some(map);
        picture
    }
}

impl Map {
    fn of(whole: &Arc<OverlayMap>) -> Map {
        let members: Vec<MappedMember> = whole.members.iter().take(MAX_MEMBERS).cloned().collect();
        let number_of = |name: &str| members.iter().position(|member| member.name == name);
        let (mut links, mut ends, mut link_numbers) = (Vec::new(), Vec::new(), Vec::new());
        for (number, link) in whole.links.iter().enumerate() {
            if let (Some(a), Some(b)) = (number_of(&link.a), number_of(&link.b))
                && links.len() < MAX_LINKS
            {
                links.push(link.clone());
                ends.push((a, b));
                link_numbers.push(number);
            }
        }
        let numbered = members.iter().enumerate();
        let clients: Vec<usize> =
            numbered.filter(|(_, member)| !member.listens).map(|(number, _)| number).collect();
        let places = places(members.len(), &clients, &ends);
        let shown = OverlayMap { serial: whole.serial, members, links };
        Map { whole: Arc::clone(whole), shown, places, link_numbers }
    }

    /// The counts of the links that are shown.
    fn counted(&self, all: &[LinkCounts]) -> Vec<LinkCounts> {
        self.link_numbers.iter().filter_map(|number| all.get(*number).copied()).collect()
    }

    fn members(&self, observation: Option<&Observation>) -> Vec<Member> {
        let all = self.shown.members.iter().zip(&self.places);
        all.map(|(member, place)| self.member(member, *place, observation)).collect()
    }

    fn member(&self, member: &MappedMember, place: Place, observation: Option<&Observation>) -> Member {
        let observed = observation.and_then(|observation| {
            let mut known = observation.members.iter();
            known.find(|known| known.name == member.name && known.is_neighbour && member.listens)
        });
        let serves_itself = observation
            .is_some_and(|observation| observation.member == member.name && observation.io_node.is_some());
        let roles = [
            (!member.listens, "client"),
            (member.relays, "relay"),
            (member.serves || serves_itself, "I/O node"),
        ];
        Member {
            name: member.name.clone(),
            roles: roles.into_iter().filter(|(has, _)| *has).map(|(_, role)| role).collect(),
            connected: observed.map(|known| known.connected > 0),
            x: rounded(place.x, 4),
            y: rounded(place.y, 4),
        }
    }

    fn left_out(&self, more_sessions: usize) -> Vec<String> {
        let [members, links] = [
            self.whole.members.len() - self.shown.members.len(),
            self.whole.links.len() - self.shown.links.len(),
        ];
        let counts = [(members, "members"), (links, "links"), (more_sessions, "sessions")];
        let missing = counts.into_iter().filter(|(count, _)| *count > 0);
        missing.map(|(count, what)| format!("{count} more {what}")).collect()
    }
}

fn counts(
    shown: &OverlayMap,
    counted: &[LinkCounts],
    observation: Option<&Observation>,
    process: &str,
) -> Counts {
    let mut counts = Counts::new();
    links::count(shown, counted, &mut counts);
    if let Some(observation) = observation {
        sessions::count(observation, process, &mut counts);
    }
    counts
}

fn living_links(links: &[Link]) -> Vec<Living> {
    let living = |link: &Link| Living {
        key: link.key.clone(),
        name: format!("{} – {}", link.a, link.b),
        life: link.life,
    };
    links.iter().map(living).collect()
}

fn living_paths(sessions: &[Session]) -> Vec<Living> {
    let living =
        |path: &Path| Living { key: path.key.clone(), name: path.route.join(" – "), life: path.life };
    sessions.iter().flat_map(|session| &session.paths).map(living).collect()
}

#[cfg(test)]
mod tests {
    use super::super::picture::Life;
    use super::*;
    use crate::operations::{self, MappedLink};

    fn overlay() -> Arc<OverlayMap> {
        let member = |name: &str, listens, relays, serves| MappedMember {
            name: name.to_owned(),
            listens,
            relays,
            serves,
        };
        let link = |a: &str, b: &str| MappedLink {
            a: a.to_owned(),
            b: b.to_owned(),
            name: String::new(),
            capacity_mbit: Some(10.0),
            delay_ms: None,
            loss: None,
        };
        Arc::new(OverlayMap {
            serial: 1,
            members: vec![
                member("client", false, false, false),
                member("r1", true, true, false),
                member("r2", true, true, false),
                member("io1", true, false, true),
            ],
            links: vec![link("client", "r1"), link("client", "r2"), link("r1", "io1"), link("r2", "io1")],
        })
    }

    fn path(id: u32, relay: &str, state: &str, packets: u64) -> operations::Path {
        operations::Path {
            id,
            route: ["io1", relay, "client"].map(str::to_owned).to_vec(),
            links: Vec::new(),
            state: state.to_owned(),
            rate_mbit: 5.0,
            round_trip_ms: 20.0,
            queue_ms: f64::from(id),
            loss: 0.01 * f64::from(id),
            planned_share: 0.5,
            share: 0.5,
            redundancy: 0.1,
            packets_sent: packets,
            packets_received: packets,
            packets_lost: 0,
            deaths: 0,
        }
    }

    /// What the I/O node says when so many bytes have come over two paths, evenly.
    fn observation(bytes: u64, states: [&str; 2]) -> Observation {
        let session = serde_json::json!({
            "id": 1, "peer": "client", "instance": "0", "incoming": true, "epoch": 0, "streams": 1,
            "received_bytes": bytes, "acknowledged_bytes": 0, "queued_bytes": 0, "source_symbols": 0, "overhead": 0.0,
            "repaired_blocks": 0, "blocks": 0, "not_opened": 0,
            "paths": [path(1, "r1", states[0], bytes / 1_000), path(2, "r2", states[1], bytes / 1_000)],
        });
        let relay = |name: &str| serde_json::json!({"name": name, "is_neighbour": true, "connected": 1, "connected_s": 1.0});
        let observation = serde_json::json!({
            "member": "io1", "version": "", "process": 7, "up_s": 1.0, "control": "", "data": "", "overlay_serial": 1,
            "shutting_down": false, "members": [relay("r1"), relay("r2")], "circuits": [], "sessions": [session],
            "socket": {}, "datagrams": {}, "circuit_counts": {},
            "io_node": {"transfers": 1, "memory_bytes": 0, "errors": {}},
        });
        serde_json::from_value(observation).expect("an observation")
    }

    fn seen(observation: Option<Observation>, links: Vec<LinkCounts>) -> Seen {
        Seen {
            subject: Subject::default(),
            state: State::Live,
            overlay: overlay(),
            observation,
            process: "7".to_owned(),
            links,
            work: Vec::new(),
            notes: Vec::new(),
        }
    }

    #[test]
    fn a_session_is_shared_among_its_paths_and_links_carry_what_the_paths_over_them_do() {
        let mut watcher = Watcher::default();
        watcher.picture(seen(Some(observation(0, ["live"; 2])), Vec::new()), 0.0, 0);
        let picture = watcher.picture(seen(Some(observation(1_000_000, ["live"; 2])), Vec::new()), 1.0, 0);
        let session = &picture.sessions[0];
        assert_eq!((session.in_mbit, session.out_mbit, picture.flow.in_mbit), (8.0, 0.0, 8.0));
        assert_eq!(session.paths.iter().map(|path| path.flow.in_mbit).collect::<Vec<_>>(), [4.0, 4.0]);
        // The data comes from the client, the first end of its links.
        let flows: Vec<_> =
            picture.links.iter().map(|link| (link.flow.out_mbit, link.flow.in_mbit)).collect();
        assert_eq!(flows, [(4.0, 0.0); 4]);
        assert_eq!((picture.links[0].flow.loss, picture.links[1].flow.queue_ms), (Some(0.01), Some(2.0)));
        assert_eq!(picture.members[3].roles, ["I/O node"]);
        assert_eq!((picture.members[0].x, picture.members[3].x), (0.0, 1.0));
    }

    #[test]
    fn a_link_with_dead_paths_only_is_dead_and_one_with_a_living_one_is_not() {
        let mut watcher = Watcher::default();
        watcher.picture(seen(Some(observation(0, ["live", "live"])), Vec::new()), 0.0, 0);
        let picture = watcher.picture(seen(Some(observation(0, ["dead", "live"])), Vec::new()), 1.0, 0);
        let lives: Vec<Life> = picture.links.iter().map(|link| link.life).collect();
        assert_eq!(lives, [Life::Dead, Life::Live, Life::Dead, Life::Live]);
        let words: Vec<&str> = picture.happenings.iter().map(|happening| happening.words.as_str()).collect();
        assert_eq!(words, ["link client – r1 died", "link r1 – io1 died", "path io1 – r1 – client died"]);
        let picture = watcher.picture(seen(Some(observation(0, ["live", "live"])), Vec::new()), 2.0, 0);
        assert_eq!((picture.happenings.len(), picture.links[0].deaths), (6, 1));
    }

    #[test]
    fn where_somebody_counts_on_links_that_is_believed() {
        let counts = |is_up, packets: u64| LinkCounts {
            is_up,
            forward_bytes: packets * 1_000,
            backward_bytes: 0,
            offered: packets * 2,
            lost: packets,
        };
        let mut watcher = Watcher::default();
        watcher.picture(seen(None, vec![counts(true, 0); 4]), 0.0, 0);
        let all = [counts(false, 250), counts(true, 250), counts(true, 0), counts(true, 0)];
        let picture = watcher.picture(seen(None, all.to_vec()), 1.0, 0);
        let link = &picture.links[0];
        assert_eq!((link.life, link.flow.out_mbit, link.flow.loss), (Life::Dead, 2.0, Some(0.5)));
        assert!(link.is_measured && picture.links[2].flow.loss.is_none());
        assert_eq!(picture.happenings.len(), 1);
    }

    #[test]
    fn a_large_overlay_is_cut_and_the_page_says_so() {
        let mut large = OverlayMap::clone(&overlay());
        let extra = |number| MappedMember { name: format!("m{number}"), ..large.members[1].clone() };
        let extra: Vec<_> = (0..MAX_MEMBERS).map(extra).collect();
        large.links.push(MappedLink { b: "m255".to_owned(), ..large.links[0].clone() });
        large.members.extend(extra);
        let mut watcher = Watcher::default();
        let picture = watcher.picture(Seen { overlay: Arc::new(large), ..seen(None, Vec::new()) }, 0.0, 0);
        assert_eq!((picture.members.len(), picture.links.len()), (MAX_MEMBERS, 4));
        assert_eq!(picture.left_out, ["4 more members", "1 more links"]);
    }
}
