//! What is done with one file: its requests in their order, with the processes that ask.

use super::card::{Card, Kind};
use super::deck::Chance;
use super::layout::{self, BLOCK};
use super::request_stream::{Stream, Wish, stream};
use super::{Asks, Model};
use crate::analysis::{Sequences, Touches, share_row};
use crate::record::{ApplicationId, ClientId, Descriptor, FileId, Operation, Request, Spread};

/// What one process, or the job, does between an open and a close.
#[derive(Debug, Clone)]
pub(super) struct Session {
    pub(super) client: Option<ClientId>,
    pub(super) requests: Vec<Request>,
}

/// All that is done with a file.
#[derive(Debug, Clone)]
pub(super) struct Access {
    pub(super) sessions: Vec<Session>,
    /// Bytes up to the end of the last request.
    pub(super) end: u64,
    /// Processes that it needs at least.
    pub(super) processes: u32,
}

/// How many requests of each kind there were, so that the small ones keep their share.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Tally {
    small: u64,
    others: u64,
}

impl Tally {
    /// Small requests that are missing to their share.
    fn missing(&self, share: f64, others: u64) -> u64 {
        let wanted = (self.others + others) as f64 * share / (1.0 - share);
        (wanted as u64).saturating_sub(self.small)
    }

    fn note(&mut self, access: &Access, (low, high): (u64, u64)) {
        for request in access.sessions.iter().flat_map(|session| &session.requests) {
            if (low..=high).contains(&request.bytes) { self.small += 1 } else { self.others += 1 }
        }
    }
}

/// A process reads or writes no more than this at once: it has 32 MB (`[charisma §3]`).
const LARGEST: u64 = 16_000_000;

/// Small requests for each large one at most: the share comes from all files together, not from one.
const SMALL_PER_LARGE: u64 = 60;

/// How often requests are drawn until they have what the card says.
const ATTEMPTS: u32 = 60;

/// Draws what is done with a file, and tells whether the tables see it as the card says.
pub(super) fn access(
    model: &Model,
    card: &Card,
    tallies: &mut [Tally; 2],
    chance: &mut Chance,
) -> (Access, bool) {
    let range = (model.small_requests.value.0, model.small_requests.value.1);
    let tally = &mut tallies[usize::from(card.kind == Kind::Written)];
    let mut found = draw(model, card, tally, chance);
    let mut fits = card.kind == Kind::None || fit(card, &found);
    for _ in 0..ATTEMPTS {
        if fits {
            break;
        }
        found = draw(model, card, tally, chance);
        fits = fit(card, &found);
    }
    if card.kind != Kind::Both {
        tally.note(&found, range);
    }
    (found, fits)
}

fn draw(model: &Model, card: &Card, tally: &Tally, chance: &mut Chance) -> Access {
    if card.kind == Kind::None {
        return Access {
            sessions: vec![Session { client: None, requests: Vec::new() }],
            end: 0,
            processes: 1,
        };
    }
    let size = chance.log_between(card.size.0, card.size.1) as u64;
    let is_whole = model.asks == Asks::Job || card.is_broadcast();
    let mut sessions = if is_whole {
        let spread = if card.is_broadcast() { Spread::Whole } else { layout::spread(card, size, chance) };
        let wish = wish(model, card, size, 1, tally, chance);
        of_job(card, wish, spread, chance)
    } else {
        of_processes(model, card, size, tally, chance)
    };
    let ends =
        sessions.iter().flat_map(|session| &session.requests).map(|request| request.offset + request.bytes);
    let end = ends.max().unwrap_or(0);
    let processes =
        sessions.iter().filter_map(|session| session.client).map(|client| client.0 + 1).max().unwrap_or(1);
    set_operations(card, &mut sessions, chance);
    Access { sessions, end, processes }
}

/// How many requests one of `count` processes makes.
fn wish(model: &Model, card: &Card, size: u64, count: u64, tally: &Tally, chance: &mut Chance) -> Wish {
    let (low, high, share) = model.small_requests.value;
    let length = size / count.max(1);
    let large = chance.between(1, 3).max(length.div_ceil(LARGEST));
    let larges = large * count;
    let missing = tally.missing(share, larges).min(SMALL_PER_LARGE * larges) / count;
    // Small requests are a small part of a file's bytes.
    let room = length / 4 / (low + high);
    let small = if card.sizes > 1 { missing.min(room.max(2)) } else { 0 };
    Wish { length, large, small, range: (low, high) }
}

/// A job that asks as a whole; a file without intervals but with two sizes is opened twice.
fn of_job(card: &Card, wish: Wish, spread: Spread, chance: &mut Chance) -> Vec<Session> {
    let session = |stream: Stream, from: u64| {
        let requests =
            stream.into_iter().map(|(offset, bytes)| request(None, Some(spread), from + offset, bytes));
        Session { client: None, requests: requests.collect() }
    };
    if card.intervals > 0 {
        return vec![session(stream(card, wish, chance), 0)];
    }
    opens(card, wish.length, chance)
        .into_iter()
        .map(|(from, bytes)| session(vec![(0, bytes)], from))
        .collect()
}

/// The single requests of a file without intervals, each in an open of its own: from where, and how many bytes.
fn opens(card: &Card, length: u64, chance: &mut Chance) -> Vec<(u64, u64)> {
    let first = (length as f64 * (0.3 + 0.15 * chance.share())) as u64;
    match (card.kind, card.sizes) {
        // Written, then read as it is.
        (Kind::Both, 1) => vec![(0, length), (0, length)],
        (_, 1) => vec![(0, length)],
        _ => vec![(0, first.max(1)), (first.max(1), length - first.max(1))],
    }
}

/// Processes that ask for parts of the file.
fn of_processes(model: &Model, card: &Card, size: u64, tally: &Tally, chance: &mut Chance) -> Vec<Session> {
    let parts = layout::parts(card, size, chance);
    let mut wish = wish(model, card, parts.length * parts.count, parts.count, tally, chance);
    wish.length = parts.length;
    let streams: Vec<Stream> = if card.intervals == 0 {
        opens(card, wish.length, chance).into_iter().map(|(from, bytes)| vec![(from, bytes)]).collect()
    } else {
        vec![stream(card, wish, chance)]
    };
    let mut sessions = Vec::new();
    for number in 0..parts.count {
        let client = Some(ClientId(number as u32));
        for stream in &streams {
            let place =
                |(offset, bytes): &(u64, u64)| request(client, None, number * parts.unit + offset, *bytes);
            sessions.push(Session { client, requests: stream.iter().map(place).collect() });
        }
    }
    sessions
}

fn request(client: Option<ClientId>, spread: Option<Spread>, offset: u64, bytes: u64) -> Request {
    Request {
        start: 0,
        end: 0,
        application: ApplicationId(0),
        client,
        file: FileId(0),
        descriptor: Descriptor(0),
        operation: Operation::Read,
        asynchronous: false,
        spread,
        offset,
        bytes,
    }
}

/// What is read and what is written; a file that is both is written first.
fn set_operations(card: &Card, sessions: &mut [Session], chance: &mut Chance) {
    let count: usize = sessions.iter().map(|session| session.requests.len()).sum();
    let is_shared = sessions.iter().any(|session| session.client > Some(ClientId(0)));
    let requests = sessions.iter_mut().flat_map(|session| &mut session.requests);
    for (index, request) in requests.enumerate() {
        request.operation = match card.kind {
            Kind::Written => Operation::Write,
            // The first process writes what the others read.
            Kind::Both if is_shared && request.client == Some(ClientId(0)) => Operation::Write,
            Kind::Both if is_shared => Operation::Read,
            Kind::Both if index == 0 => Operation::Write,
            Kind::Both if index + 1 == count => Operation::Read,
            Kind::Both if chance.share() < 0.5 => Operation::Write,
            _ => Operation::Read,
        };
    }
}

/// Whether the tables see the requests as the card says.
fn fit(card: &Card, access: &Access) -> bool {
    let (mut sequences, mut touches) = (Sequences::default(), Touches::default());
    let (mut reads, mut writes) = (false, false);
    for session in &access.sessions {
        sequences.begin(session.client);
        for request in &session.requests {
            sequences.note(request.client, request.offset, request.bytes);
            touches.note(request);
            reads |= request.operation == Operation::Read;
            writes |= request.operation == Operation::Write;
        }
    }
    let (_, consecutive) = sequences.shares();
    // Any job has so many processes; no row depends on how many more there are.
    let shared = touches.shared(BLOCK, 32);
    let kind = match (reads, writes) {
        (true, false) => Kind::Read,
        (false, true) => Kind::Written,
        _ => Kind::Both,
    };
    (kind, sequences.intervals(), sequences.sizes()) == (card.kind, card.intervals, card.sizes)
        && (consecutive > 9_000) == card.is_consecutive
        && (share_row(shared.bytes), share_row(shared.blocks)) == (card.byte_row, card.block_row)
}

#[cfg(test)]
mod tests {
    use super::super::card::deck;
    use super::*;

    #[test]
    fn nearly_every_card_is_drawn_as_it_says() {
        for (name, _) in super::super::PRESETS {
            let model = Model::preset(name).expect("it is one");
            let mut chance = Chance::new(1);
            let mut tallies = Default::default();
            let cards = deck(&model, &mut chance);
            let draws = cards.iter().map(|card| access(&model, card, &mut tallies, &mut chance).1);
            let misfits = draws.filter(|fits| !fits).count();
            assert!(misfits * 100 < cards.len(), "{name}: {misfits} of {}", cards.len());
        }
    }
}
