//! The payload of a write as frames.

use std::collections::VecDeque;

use bytes::Bytes;
use fec_transport::overlay::MemberId;
use fec_transport::{StreamError, StreamId};

use super::context::Context;
use super::stage::Stage;
use crate::compression::{
    Choice, Codec, CodecResult, CodecWork, Compressor, Framer, Held, JobQueue, MAX_FRAME_BYTES, Packing,
    SAMPLE_BYTES,
};
use crate::request::{Cursor, Staging};
use crate::transport::Transport;

/// To whom the result of a codec job belongs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum JobOwner {
    /// A transfer, which may be given up meanwhile.
    Transfer(StreamId),
    /// What is known of a subfile of that member.
    Trial(MemberId, String),
}

/// What a transfer needs beside the transport while it takes a step.
pub(super) struct Tools<'a> {
    pub(super) staging: &'a mut Staging,
    pub(super) jobs: &'a mut JobQueue<JobOwner>,
    pub(super) held: &'a mut Held,
    pub(super) compressor: &'a mut Compressor,
    pub(super) member: MemberId,
    /// How many I/O nodes share the processors.
    pub(super) sharers: usize,
}

/// A write's payload on its way into frames.
#[derive(Debug)]
pub(super) struct Packer {
    packing: Packing,
    /// Where the bytes of the next frame begin.
    ahead: Cursor,
    /// How many are in no frame yet.
    unframed: u64,
    framer: Framer,
    /// What the stream has not taken yet of the frame that is being sent.
    outgoing: VecDeque<Bytes>,
}

impl Packer {
    /// The payload from `start` on, of so many bytes.
    pub(super) fn new(packing: Packing, start: Cursor, payload: u64) -> Packer {
        Packer {
            packing,
            ahead: start,
            unframed: payload,
            framer: Framer::default(),
            outgoing: VecDeque::new(),
        }
    }

    /// How many bytes the I/O node cannot have yet; those of the frame that is being sent are not among them.
    pub(super) fn unsent(&self) -> u64 {
        self.unframed + self.framer.plain_bytes()
    }

    /// Sends as much as there is and the stream takes. Says how many bytes that was, and whether it was the end.
    pub(super) fn send(
        &mut self,
        context: &mut Context<'_, impl Transport>,
        (stream, part): (StreamId, usize),
        stage: &Stage,
        tools: &mut Tools<'_>,
    ) -> Result<(usize, bool), StreamError> {
        let mut sent = 0;
        loop {
            self.fill(context, (stream, part), stage, tools);
            while let Some(chunk) = self.outgoing.front_mut() {
                let taken = context.write(stream, chunk)?;
                sent += taken;
                if taken < chunk.len() {
                    *chunk = chunk.slice(taken..);
                    return Ok((sent, false));
                }
                self.outgoing.pop_front();
            }
            let Some(frame) = self.framer.pop() else {
                return Ok((sent, self.unframed == 0 && self.framer.is_empty()));
            };
            tools.compressor.sent(&frame);
            self.outgoing.extend(frame.chunks);
        }
    }

    /// Makes the next frames, as far as they may be made now.
    fn fill(
        &mut self,
        context: &mut Context<'_, impl Transport>,
        (stream, part): (StreamId, usize),
        stage: &Stage,
        tools: &mut Tools<'_>,
    ) {
        let subfile = stage.part(part).path().map_or("", |path| path.as_str());
        while self.unframed > 0 && self.framer.has_room() {
            if tools.jobs.is_full() {
                // The codec of what waits for a processor cannot be changed any more.
                return tools.held.hold(context.now(), stream);
            }
            let idle = tools.jobs.idle_processors() / tools.sharers.max(1) as f64;
            let flow = || context.flow(stream.session);
            let next =
                tools.compressor.next(context.now(), (self.packing, subfile), stream.session, flow, idle);
            let limit = self.unframed.min(MAX_FRAME_BYTES as u64);
            let (codec, trial) = match next {
                Choice::Later => return tools.held.hold(context.now(), stream),
                Choice::Try(codecs) => {
                    let pieces = stage.collect(part, self.ahead, limit.min(SAMPLE_BYTES));
                    begin_trial(tools, subfile, codecs, pieces);
                    return tools.held.hold(context.now(), stream);
                }
                Choice::Frame { codec, trial, .. } => (codec, trial),
            };
            let pieces = stage.collect(part, self.ahead, limit);
            if !trial.is_empty() {
                begin_trial(tools, subfile, trial, pieces.clone());
            }
            let job = (codec != Codec::Plain).then(|| {
                let work = CodecWork::Pack { codec, pieces: pieces.clone() };
                tools.jobs.submit(JobOwner::Transfer(stream), work)
            });
            stage.advance(part, &mut self.ahead, limit);
            self.unframed -= limit;
            self.framer.push(pieces, job);
        }
    }

    /// A codec has worked on a frame.
    pub(super) fn coded(&mut self, result: &CodecResult) {
        self.framer.packed(result);
    }
}

fn begin_trial(tools: &mut Tools<'_>, subfile: &str, codecs: Vec<Codec>, pieces: Vec<Bytes>) {
    let owner = JobOwner::Trial(tools.member, subfile.to_owned());
    tools.jobs.submit(owner, CodecWork::Try { codecs, pieces });
}
