//! What a page shows at one moment, as it travels to browsers.
//!
//! Rates are in Mbit/s, times in what their names end with, shares and losses in [0, 1]. What nobody knows is null.

use serde::Serialize;

/// What a page shows at one moment. Each is whole: who misses one has missed nothing that lasts.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Picture {
    /// Seconds since the page began.
    pub(crate) at_s: f64,
    /// The time of day, in milliseconds since 1970.
    pub(crate) clock_ms: u64,
    pub(crate) subject: Subject,
    pub(crate) state: State,
    /// All sessions together.
    #[serde(flatten)]
    pub(crate) flow: Flow,
    pub(crate) members: Vec<Member>,
    pub(crate) links: Vec<Link>,
    pub(crate) sessions: Vec<Session>,
    pub(crate) work: Vec<Work>,
    /// The latest ones, oldest first.
    pub(crate) happenings: Vec<Happening>,
    /// What there was no room for, in words.
    pub(crate) left_out: Vec<String>,
}

/// What the page is about.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Subject {
    /// The member through whose eyes the overlay is seen.
    pub(crate) member: String,
    pub(crate) title: String,
    /// What else is worth a line.
    pub(crate) words: String,
}

/// Whether the picture is of now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", content = "words", rename_all = "lowercase")]
pub(crate) enum State {
    Live,
    /// Nobody answers, for this reason. The rest of the picture is of when somebody did.
    Silent(String),
    /// Nothing new will come, for this reason.
    Ended(String),
}

/// What flows, gets lost and waits on a path, on a link, or on all paths together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub(crate) struct Flow {
    /// From this end, or from a link's first end.
    pub(crate) out_mbit: f64,
    /// Toward this end, or toward a link's first end.
    pub(crate) in_mbit: f64,
    pub(crate) loss: Option<f64>,
    pub(crate) queue_ms: Option<f64>,
}

/// A member, with its place on the map.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Member {
    pub(crate) name: String,
    /// What it does: `client`, `relay`, `I/O node`.
    pub(crate) roles: Vec<&'static str>,
    /// Whether its control connection to the member of the page is up; null if none is expected.
    pub(crate) connected: Option<bool>,
    /// In [0, 1], from the clients to what is farthest from them.
    pub(crate) x: f64,
    /// In [0, 1].
    pub(crate) y: f64,
}

/// Whether a link or path carries anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Life {
    Live,
    Dead,
    /// Nobody has used it lately.
    Unknown,
}

/// A link.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Link {
    /// Under which name the curves have it.
    pub(crate) key: String,
    pub(crate) a: String,
    pub(crate) b: String,
    /// Tells parallel links apart; empty for a link without a name.
    pub(crate) name: String,
    pub(crate) life: Life,
    /// What the overlay file says of it.
    pub(crate) capacity_mbit: Option<f64>,
    pub(crate) delay_ms: Option<f64>,
    /// Whether loss and queue are measured on the link; otherwise they are those of the best path over it, and the
    /// link's own are no larger.
    pub(crate) is_measured: bool,
    #[serde(flatten)]
    pub(crate) flow: Flow,
    /// How often it was seen to die.
    pub(crate) deaths: u64,
    pub(crate) paths: usize,
    pub(crate) live_paths: usize,
}

/// A session of the member.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Session {
    pub(crate) key: String,
    pub(crate) id: u64,
    pub(crate) peer: String,
    /// Whether the peer opened it.
    pub(crate) incoming: bool,
    pub(crate) out_mbit: f64,
    pub(crate) in_mbit: f64,
    /// Bytes on their way in and out.
    pub(crate) queued_bytes: usize,
    pub(crate) streams: usize,
    pub(crate) paths: Vec<Path>,
}

/// A path of a session.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Path {
    pub(crate) key: String,
    pub(crate) id: u32,
    pub(crate) route: Vec<String>,
    /// The names of the links between them; empty for a link without a name.
    pub(crate) links: Vec<String>,
    pub(crate) life: Life,
    /// What it carries of the session's data: the session's rates, by its share of the packets.
    #[serde(flatten)]
    pub(crate) flow: Flow,
    /// The rate at which it is paced.
    pub(crate) paced_mbit: f64,
    pub(crate) round_trip_ms: f64,
    pub(crate) share: f64,
    pub(crate) planned_share: f64,
    /// Repair symbols over source symbols.
    pub(crate) redundancy: f64,
    pub(crate) deaths: u64,
}

/// Something that runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Work {
    pub(crate) words: String,
    pub(crate) done_bytes: Option<u64>,
    pub(crate) total_bytes: Option<u64>,
    pub(crate) is_done: bool,
}

/// What kind of thing has happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    Death,
    Return,
    Note,
}

/// Something that has happened.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Happening {
    /// They count from 1.
    pub(crate) number: u64,
    pub(crate) at_s: f64,
    pub(crate) clock_ms: u64,
    pub(crate) kind: Kind,
    pub(crate) words: String,
    /// The link or path that it is about, as the curves call it.
    pub(crate) key: Option<String>,
}

/// A number with so many digits behind the point: more would only make the stream longer.
pub(super) fn rounded(value: f64, digits: i32) -> f64 {
    let scale = 10_f64.powi(digits);
    let rounded = (value * scale).round() / scale;
    if rounded.is_finite() { rounded } else { 0.0 }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A picture of nothing.
    pub(in super::super) fn picture(at_s: f64) -> Picture {
        Picture {
            at_s,
            clock_ms: 0,
            subject: Subject::default(),
            state: State::Live,
            flow: Flow::default(),
            members: Vec::new(),
            links: Vec::new(),
            sessions: Vec::new(),
            work: Vec::new(),
            happenings: Vec::new(),
            left_out: Vec::new(),
        }
    }

    #[test]
    fn a_picture_is_flat_and_has_words_for_its_state() {
        let mut silent = picture(1.0);
        silent.state = State::Silent("no answer".to_owned());
        let json = serde_json::to_value(&silent).expect("JSON");
        assert_eq!(json["state"], serde_json::json!({"kind": "silent", "words": "no answer"}));
        assert_eq!(json["out_mbit"], 0.0);
        assert_eq!(serde_json::to_value(State::Live).expect("JSON"), serde_json::json!({"kind": "live"}));
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!((rounded(1.23456, 2), rounded(0.000_04, 4), rounded(f64::NAN, 1)), (1.23, 0.0, 0.0));
    }
}
