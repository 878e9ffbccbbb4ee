//! What was read of a subfile as frames.

use bytes::Bytes;

use super::context::{Context, JobOwner};
use super::outbox::Outbox;
use crate::compression::{
    Choice, Codec, CodecOutcome, CodecResult, CodecWork, Framer, MAX_FRAME_BYTES, Packing, SAMPLE_BYTES,
};
use crate::name::SubfilePath;
use crate::transport::Transport;

/// The frames of a reply.
#[derive(Debug)]
pub(super) struct Packer {
    packing: Packing,
    framer: Framer,
}

impl Packer {
    pub(super) fn new(packing: Packing) -> Packer {
        Packer { packing, framer: Framer::default() }
    }

    /// The payload memory that its frames hold.
    pub(super) fn held(&self) -> u64 {
        self.framer.plain_bytes()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.framer.is_empty()
    }

    /// Takes as much of `data`, which was read of `path`, as may become frames now; says whether that was anything.
    pub(super) fn take<T: Transport>(
        &mut self,
        path: &SubfilePath,
        data: &mut Bytes,
        cx: &mut Context<'_, T>,
    ) -> bool {
        let before = data.len();
        while !data.is_empty() && self.framer.has_room() {
            if cx.shared.codec_jobs.is_full() {
                // The codec of what waits for a processor cannot be changed any more.
                cx.hold();
                break;
            }
            let sample = data.slice(..data.len().min(SAMPLE_BYTES as usize));
            let (codec, trial) = match cx.next_frame(self.packing, path) {
                Choice::Later => {
                    cx.hold();
                    break;
                }
                Choice::Try(codecs) => {
                    begin_trial(path, codecs, sample, cx);
                    cx.hold();
                    break;
                }
                Choice::Frame { codec, trial, .. } => (codec, trial),
            };
            let pieces = vec![data.split_to(data.len().min(MAX_FRAME_BYTES))];
            if !trial.is_empty() {
                begin_trial(path, trial, pieces[0].clone(), cx);
            }
            let job = (codec != Codec::Plain).then(|| {
                let work = CodecWork::Pack { codec, pieces: pieces.clone() };
                let owner = JobOwner::Transfer(cx.stream());
                cx.shared.codec_jobs.submit(owner, work)
            });
            self.framer.push(pieces, job);
        }
        data.len() < before
    }

    /// Hands on the frames that are ready; says whether there were any.
    pub(super) fn hand_on<T: Transport>(&mut self, outbox: &mut Outbox, cx: &mut Context<'_, T>) -> bool {
        let mut any = false;
        while outbox.is_empty()
            && let Some(mut frame) = self.framer.pop()
        {
            cx.compressor().sent(&frame);
            // The memory is free once the last of its bytes is sent.
            let last = frame.chunks.pop();
            frame.chunks.into_iter().for_each(|chunk| outbox.push(chunk, 0));
            last.into_iter().for_each(|chunk| outbox.push(chunk, frame.plain));
            any = true;
        }
        any
    }

    /// Takes the result of a job.
    pub(super) fn coded<T: Transport>(
        &mut self,
        path: &SubfilePath,
        result: &CodecResult,
        cx: &mut Context<'_, T>,
    ) {
        if let CodecOutcome::Packed { trial, .. } = &result.outcome {
            cx.compressor().packed(path.as_str(), trial);
            self.framer.packed(result);
        }
    }
}

fn begin_trial<T: Transport>(path: &SubfilePath, codecs: Vec<Codec>, sample: Bytes, cx: &mut Context<'_, T>) {
    let owner = JobOwner::Trial(cx.member(), path.as_str().to_owned());
    cx.shared.codec_jobs.submit(owner, CodecWork::Try { codecs, pieces: vec![sample] });
}
