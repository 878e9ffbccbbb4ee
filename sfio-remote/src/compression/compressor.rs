//! What is done with the next bytes of a payload: the way to one peer, and the rule for what goes there.

use std::collections::BTreeSet;
use std::time::Duration;

use fec_transport::{SessionId, StreamId, Time};

use super::pressure::Pressure;
use super::{Choice, Circumstances, Codec, Explanation, Packing, ReadyFrame, Rule, Trial, Why};
use crate::transport::Flow;

/// How soon whoever is held asks again.
const PAUSE: Duration = Duration::from_millis(5);

/// Decides about frames to one peer.
#[derive(Debug, Default)]
pub(crate) struct Compressor {
    rule: Rule,
    pressure: Pressure,
    plain_bytes: u64,
    packed_bytes: u64,
    /// What was done last, and why.
    last: Option<(Codec, Why)>,
}

impl Compressor {
    /// What is done with the next bytes of `subfile`: later also if enough is in front of the network. The
    /// processors are those with nothing else to do, for this one of all peers.
    pub(crate) fn next(
        &mut self,
        now: Time,
        (packing, subfile): (Packing, &str),
        session: SessionId,
        flow: impl FnOnce() -> Flow,
        idle_processors: f64,
    ) -> Choice {
        if let Packing::Always(codec) = packing {
            self.last = Some((codec, Why::Always));
            return Choice::asked_for(codec);
        }
        self.pressure.look(now, session, flow);
        if self.pressure.is_full() {
            return Choice::Later;
        }
        let circumstances = Circumstances {
            rate_bps: self.pressure.rate_bps(),
            network_waits: self.pressure.waits(),
            idle_processors,
        };
        let choice = self.rule.choose(subfile, packing, &circumstances);
        if let Choice::Frame { codec, why, .. } = choice {
            self.last = Some((codec, why));
        }
        choice
    }

    /// What a codec did with bytes of `subfile`, as a frame.
    pub(crate) fn packed(&mut self, subfile: &str, trial: &Trial) {
        self.rule.learned(subfile, trial);
    }

    /// What codecs did with a sample.
    pub(crate) fn tried(&mut self, subfile: &str, trials: &[Trial]) {
        self.rule.tried(subfile, trials);
    }

    /// A frame is sent.
    pub(crate) fn sent(&mut self, frame: &ReadyFrame) {
        self.plain_bytes += frame.plain;
        self.packed_bytes += frame.packed;
    }

    /// What was done so far; none if nothing was sent in frames.
    pub(crate) fn explain(&self) -> Option<Explanation> {
        let (codec, why) = self.last?;
        Some(Explanation { codec, why, plain_bytes: self.plain_bytes, packed_bytes: self.packed_bytes })
    }
}

/// Streams that were held, and when they ask again.
#[derive(Debug, Default)]
pub(crate) struct Held {
    streams: BTreeSet<StreamId>,
    until: Option<Time>,
}

impl Held {
    pub(crate) fn hold(&mut self, now: Time, stream: StreamId) {
        self.streams.insert(stream);
        self.until.get_or_insert(now + PAUSE);
    }

    pub(crate) fn until(&self) -> Option<Time> {
        self.until
    }

    pub(crate) fn is_due(&self, now: Time) -> bool {
        self.until.is_some_and(|until| until <= now)
    }

    /// All of them ask again now.
    pub(crate) fn release(&mut self) -> BTreeSet<StreamId> {
        self.until = None;
        std::mem::take(&mut self.streams)
    }
}
