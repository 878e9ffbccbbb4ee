//! I/O nodes that answer what they like: an operation ends all the same, with no more bytes than were asked for.

use std::collections::BTreeMap;

use fec_transport::{Application as _, Read as Bytewise, StreamId};

use super::*;
use crate::distribution::MAX_LENGTH;
use crate::name::{EntryName, SubfilePath};
use crate::store::{Entry, EntryKind, Listing};
use crate::transport::Transport as _;
use crate::wire::{MAX_LISTING_BYTES, Reply, emit_listing};

const IO: MemberId = MemberId(2);
/// Within it every limit on waiting has passed.
const LONG: Duration = Duration::from_secs(3_600);
const TRIES: usize = 100;

/// What an I/O node does with one request.
#[derive(Debug, Clone)]
struct Answer {
    bytes: Bytes,
    end: End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Finished,
    Reset(u32),
    /// It says nothing more.
    Silence,
}

/// A client, and an I/O node that has these answers, one for each stream, round and round.
struct Duel {
    network: Network,
    client: SfioApplication,
    answers: Vec<Answer>,
    answered: usize,
    unsent: BTreeMap<StreamId, Answer>,
    now: Time,
}

impl Duel {
    fn new(answers: Vec<Answer>, seed: u64) -> Duel {
        let config = ClientConfig { window_bytes: 9_000, transfer_bytes: 3_000, ..ClientConfig::default() };
        Duel {
            network: Network::new(&NAMES, seed),
            client: SfioApplication::client(config),
            answers,
            answered: 0,
            unsent: BTreeMap::new(),
            now: Time::ZERO,
        }
    }

    /// The answer, which must come some time.
    fn call<O: Operation>(&mut self, operation: O) -> Result<O::Answer, OperationError> {
        let (action, receipt) = Action::with_receipt(operation);
        let id = OperationId(self.answered as u64 + 1_000_000);
        self.client.obey(self.now, &mut self.network.port(CLIENT), Command::Start(id, action));
        for _ in 0..TRIES {
            while self.step() {}
            if let Some(result) = receipt.take() {
                return result;
            }
            self.now += LONG;
            self.client.wake(self.now, &mut self.network.port(CLIENT));
        }
        panic!("the operation does not end");
    }

    fn step(&mut self) -> bool {
        let of_client = self.network.poll_event(CLIENT);
        if let Some(event) = &of_client {
            self.client.handle(self.now, &mut self.network.port(CLIENT), event);
        }
        while let Some(outcome) = self.client.poll_outcome() {
            if let Told::Completion(completion) = outcome {
                completion.deliver();
            }
        }
        let of_io_node = self.network.poll_event(IO);
        match of_io_node {
            Some(Event::StreamOpened { stream }) => {
                let answer = self.answers[self.answered % self.answers.len()].clone();
                self.answered += 1;
                self.unsent.insert(stream, answer);
                self.send(stream);
            }
            Some(Event::Readable { stream } | Event::Writable { stream }) => self.send(stream),
            _ => {}
        }
        of_client.is_some() || of_io_node.is_some()
    }

    /// Takes what has come on a stream, and sends what fits of the answer.
    fn send(&mut self, stream: StreamId) {
        let (now, mut port) = (self.now, self.network.port(IO));
        while let Ok(Bytewise::Data { .. }) = port.read(now, stream, usize::MAX) {}
        let Some(answer) = self.unsent.get_mut(&stream) else { return };
        let Ok(sent) = port.write(now, stream, &answer.bytes) else { return };
        let _ = answer.bytes.split_to(sent);
        if answer.bytes.is_empty() {
            match answer.end {
                // The client may have given it up.
                End::Finished => port.finish(now, stream).unwrap_or_default(),
                End::Reset(code) => port.reset(now, stream, code),
                End::Silence => {}
            }
            self.unsent.remove(&stream);
        }
    }
}

/// A reply with numbers at the borders of what is possible, some bytes behind it, and perhaps one wrong byte.
fn any_answer() -> impl Strategy<Value = Answer> {
    let number = || {
        prop_oneof![
            4 => 0_u64..3_000,
            1 => Just(64),
            1 => Just(MAX_LISTING_BYTES as u64 + 1),
            1 => Just(MAX_LENGTH - 1),
            1 => Just(MAX_LENGTH),
            1 => Just(u64::MAX),
        ]
    };
    let payload = prop_oneof![
        Just(Vec::new()),
        prop::collection::vec(any::<u8>(), 0..200),
        (0_usize..9_000).prop_map(|length| vec![1; length]),
    ];
    let wrong = prop::option::weighted(0.2, (any::<prop::sample::Index>(), any::<u8>()));
    let end = prop_oneof![6 => Just(End::Finished), 1 => any::<u32>().prop_map(End::Reset), 1 => Just(End::Silence)];
    (number(), number(), payload, any::<bool>(), wrong, end).prop_map(
        |(size, promised, payload, fits, wrong, end)| {
            let promised = if fits { payload.len() as u64 } else { promised };
            let mut bytes = Reply { payload: promised, ..Reply::done(size) }.emit();
            if let Some((place, byte)) = wrong {
                let place = place.index(bytes.len());
                bytes[place] = byte;
            }
            bytes.extend(payload);
            Answer { bytes: bytes.into(), end }
        },
    )
}

/// A reply that can be right for a request without a payload.
fn plain_answer() -> impl Strategy<Value = Answer> {
    let size = prop_oneof![0_u64..3_000, Just(MAX_LENGTH)];
    size.prop_map(|size| Answer { bytes: Reply::done(size).emit().into(), end: End::Finished })
}

/// Whoever listed the folder page by page went on for ever, and kept all the pages.
#[test]
fn a_listing_that_does_not_go_on_ends_with_an_error() {
    let name = |name: &str| EntryName::new(name).expect("right");
    let entry =
        |text: &&str| Entry { name: name(text), kind: EntryKind::File, size: 0, is_being_written: false };
    let listed = |after: Option<&str>, names: &[&str], more| {
        let page = emit_listing(&Listing { entries: names.iter().map(entry).collect(), more });
        let mut bytes = Reply { payload: page.len() as u64, ..Reply::done(0) }.emit();
        bytes.extend(page);
        let mut duel = Duel::new(vec![Answer { bytes: bytes.into(), end: End::Finished }], 1);
        let (folder, after) = (SubfilePath::new("folder").expect("right"), after.map(name));
        duel.call(List { member: "io1".into(), folder, after, durability: Durability::None })
    };
    for (after, names, more) in [
        (Some("b"), &["a"][..], true),
        (Some("b"), &["b", "c"], false),
        (Some("b"), &[], true),
        (None, &[], true),
    ] {
        let refused = listed(after, names, more);
        let is_told = matches!(
            &refused,
            Err(OperationError::Protocol { member, error: ProtocolError::Page(_) }) if member == "io1"
        );
        assert!(is_told, "{after:?}, {names:?}: {refused:?}");
    }
    for (after, names, more) in [(Some("b"), &["c"][..], true), (None, &["a"], true), (Some("b"), &[], false)]
    {
        assert_eq!(listed(after, names, more).expect("it goes on").entries.len(), names.len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn whatever_an_io_node_answers_operations_end_with_what_was_asked_for_at_most(
        answers in prop::collection::vec(prop_oneof![2 => any_answer(), 1 => plain_answer()], 1..12), seed: u64,
    ) {
        let mut duel = Duel::new(answers, seed);
        let one = name("io1,a");
        let read = ReadUnopened {
            name: one.clone(),
            stripe_unit: StripeUnit::DEFAULT,
            list: ReadList::new([(5, 1_000), (70_000, 10)]).expect("possible"),
            from_disk: false,
        };
        if let Ok(read) = duel.call(read) {
            let lengths: Vec<usize> = read.into_vec().iter().map(Bytes::len).collect();
            prop_assert!(lengths.len() == 2 && lengths[0] <= 1_000 && lengths[1] <= 10, "{:?}", lengths);
        }
        let folder = SubfilePath::new("folder").expect("right");
        if let Ok(listing) = duel.call(List { member: "io1".into(), folder, after: None, durability: Durability::None }) {
            prop_assert!(listing.entries.len() <= MAX_LISTING_BYTES / 11);
        }
        let _ = duel.call(QueryErrorCounters { member: "io1".into(), reset: false });
        let _ = duel.call(Remove { name: one, durability: Durability::OnEveryCall });
    }

    #[test]
    fn no_size_that_an_io_node_tells_of_an_open_file_breaks_anything(
        opened in plain_answer(), answers in prop::collection::vec(prop_oneof![any_answer(), plain_answer()], 1..12),
        seed: u64,
    ) {
        let mut duel = Duel::new(vec![opened], seed);
        let opened = duel.call(open("io1,a", 100, OpenMode::Create)).expect("the answer is right");
        duel.answers = answers;
        let file = opened.file;
        for _ in 0..2 {
            let _ = duel.call(Stat { file });
            let _ = duel.call(Write { file, list: list(&[(0, b"some"), (2_000, b"bytes")]), durable: false });
            if let Ok(read) = duel.call(Read { file, list: ReadList::new([(90, 2_000)]).expect("possible") }) {
                prop_assert!(read.into_vec().iter().all(|bytes| bytes.len() <= 2_000));
            }
            let _ = duel.call(SetLength { file, length: 500 });
            let _ = duel.call(Sync { file });
        }
    }
}
