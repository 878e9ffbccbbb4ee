//! A member that takes all that it can of an I/O node: it speaks the protocol by hand.

use std::collections::BTreeSet;

use fec_transport::node::Node;
use fec_transport::overlay::MemberId;
use fec_transport::{Event, Read, SessionId, StreamId, Time};
use sfio_remote::compression::Packing;
use sfio_remote::dataset::DatasetPath;
use sfio_remote::distribution::Extent;
use sfio_remote::name::SubfilePath;
use sfio_remote::replication::RunId;
use sfio_remote::wire::{Request, RequestId, RequestKind, RunTableBuilder};

/// What it does on every stream that it may open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Attack {
    /// It reads megabytes, and takes nothing of what comes.
    ReadsWithoutTaking,
    /// It reads megabytes, and takes what comes.
    Reads,
    /// It reads a file in extents of one byte each.
    ReadsCrumbs,
    /// It asks for sizes, and for the next one as soon as it has one.
    Sizes,
    /// It has the disk sync a file of its own again and again.
    Syncs,
    /// It creates subfiles, and has the disk sync each.
    DurableCreations,
    /// It has the disk sync what is not there.
    SyncsOfNothing,
    /// It begins requests and does not end them.
    HalfRequests,
    /// It sends a request and resets the stream at once.
    Resets,
    /// It claims subfiles that cannot be created.
    FailingClaims,
    /// It claims subfiles, each under another name.
    Claims,
    /// It publishes records that are not there.
    Publications,
}

/// The bytes of the subfile `bait` that it reads.
pub(crate) const BAIT: u64 = 4 << 20;

/// A hostile member.
#[derive(Debug, Default)]
pub(crate) struct Hostile {
    attack: Option<Attack>,
    session: Option<SessionId>,
    open: BTreeSet<StreamId>,
    pub(crate) requests: u64,
}

impl Hostile {
    /// Begins: from now on it does as `attack` says, over a session to `victim`.
    pub(crate) fn begin(&mut self, now: Time, node: &mut Node, victim: MemberId, attack: Attack) {
        self.attack = Some(attack);
        self.session = Some(node.connect(now, victim).expect("it is a member"));
        self.fill(now, node);
    }

    pub(crate) fn handle_event(&mut self, now: Time, node: &mut Node, event: &Event) {
        match *event {
            Event::Readable { stream } if self.attack != Some(Attack::ReadsWithoutTaking) => loop {
                match node.read(now, stream, usize::MAX) {
                    Ok(Read::Data { .. } | Read::Lost { .. }) => {}
                    Ok(Read::Blocked) => break,
                    Ok(Read::Finished) | Err(_) => {
                        self.open.remove(&stream);
                        break;
                    }
                }
            },
            Event::StreamReset { stream, .. } => drop(self.open.remove(&stream)),
            Event::SessionClosed { .. } => self.session = None,
            _ => {}
        }
        self.fill(now, node);
    }

    /// Opens as many streams as it may. It says something on each before the next, so that none is left out.
    fn fill(&mut self, now: Time, node: &mut Node) {
        let (Some(attack), Some(session)) = (self.attack, self.session) else { return };
        while let Ok(stream) = node.open_stream(session) {
            self.requests += 1;
            self.open.insert(stream);
            let bytes = self.request(attack);
            let sent = match attack {
                Attack::HalfRequests => &bytes[..bytes.len() - 1],
                _ => &bytes[..],
            };
            node.write(now, stream, sent).expect("it was just opened");
            match attack {
                Attack::HalfRequests => node.flush(now, stream).expect("it was just opened"),
                _ => node.finish(now, stream).expect("it was just opened"),
            }
            if attack == Attack::Resets {
                node.reset(now, stream, 0);
                self.open.remove(&stream);
            }
        }
    }

    fn request(&self, attack: Attack) -> Vec<u8> {
        let path = |text: &str| SubfilePath::new(text).expect("a right path");
        let numbered = |folder: &str| path(&format!("{folder}/{}{}", self.requests, "-".repeat(200)));
        let create = |path| RequestKind::Create { path, truncate: true, claim: true, exclusive: false };
        let mut builder = RunTableBuilder::default();
        match attack {
            Attack::ReadsCrumbs | Attack::HalfRequests => {
                // Irregular, so that the table is as long as it may be.
                let places = (0..20_000).map(|index| index * 9 + index * index % 7);
                places.for_each(|start| builder.push(Extent::new(start, 1).expect("in range")));
            }
            _ => builder.push(Extent::new(0, BAIT).expect("in range")),
        }
        let runs = builder.finish().expect("not empty");
        let kind = match attack {
            Attack::ReadsWithoutTaking | Attack::Reads | Attack::ReadsCrumbs | Attack::HalfRequests => {
                RequestKind::Read { path: path("bait"), runs, from_disk: false }
            }
            Attack::Sizes => RequestKind::Stat { path: path("bait") },
            Attack::Syncs => RequestKind::Sync { path: path("bait") },
            Attack::DurableCreations => {
                RequestKind::Create { path: numbered("new"), truncate: true, claim: false, exclusive: false }
            }
            Attack::SyncsOfNothing => RequestKind::Sync { path: numbered("nothing") },
            Attack::Resets => RequestKind::Remove { path: numbered("nothing") },
            // A subfile is no folder.
            Attack::FailingClaims => create(numbered("bait")),
            Attack::Claims => create(numbered("claims")),
            Attack::Publications => RequestKind::Publish {
                dataset: DatasetPath::new(path("dataset")).expect("a free folder"),
                staged: RunId([7; 16]),
                number: 2,
            },
        };
        let durable = attack == Attack::DurableCreations;
        let id = RequestId { operation: self.requests, transfer: 0 };
        Request { id, durable, packing: Packing::Raw, kind }.emit()
    }
}
