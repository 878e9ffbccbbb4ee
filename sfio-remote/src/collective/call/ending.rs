//! The end of a call: all ranks tell how theirs went, and what is missing of the file is made good.

use bytes::Bytes;

use super::super::error::CollectiveError;
use super::super::group::{Group, Rank};
use super::super::job::Answer;
use super::super::message::{Body, Ending};
use super::super::report::Stage;
use super::super::work::FileWork;
use super::{Call, Next, ONLY_WORK, Phase};
use crate::distribution::SubfileIndex;

impl Call {
    /// This rank has done its part, well or badly.
    pub(super) fn end(&mut self, group: &mut dyn Group) -> Next {
        self.stopwatch.enter(Stage::File);
        self.tally.sessions = self.io_nodes.len() as u64;
        let ends = if self.read.is_some() { Vec::new() } else { self.ends.clone() };
        let ending = Ending { failed: self.failed.clone(), ends, tally: self.tally };
        let to_tell = self.to_tell.clone();
        self.tell_all(Body::Ended(ending), to_tell, group);
        self.phase = Phase::Ended;
        Next::Again
    }

    /// Once all have ended: the result, or what is still missing of the file.
    pub(super) fn settle(&mut self, group: &mut dyn Group) -> Result<Next, CollectiveError> {
        let Some(endings) = self.board.endings() else { return Ok(self.wait(Phase::Ended, Stage::File)) };
        let failed = endings.iter().position(|(ending, _)| ending.failed.is_some());
        if let Some(rank) = failed {
            let fault = endings[rank].0.failed.clone().unwrap_or_default();
            return Err(CollectiveError::RankFailed { rank: Rank(rank as u32), fault });
        }
        let Some((subfiles, length)) = self.short_subfiles() else { return Ok(self.done()) };
        let shape = self.shape.clone();
        let is_ours = |subfile: &SubfileIndex| {
            shape.as_ref().is_some_and(|shape| shape.keeper(*subfile, self.size) == group.rank())
        };
        let subfiles: Vec<SubfileIndex> = subfiles.into_iter().filter(is_ours).collect();
        let is_done = subfiles.is_empty();
        self.phase = Phase::Growing { is_done, is_told: false };
        match is_done {
            true => Ok(Next::Again),
            false => Ok(Next::Work(ONLY_WORK, FileWork::Grow { subfiles, length })),
        }
    }

    /// The subfiles that nobody has written to up to where they end in a file of the new length, and that length.
    fn short_subfiles(&self) -> Option<(Vec<SubfileIndex>, u64)> {
        let (shape, endings) = (self.shape.as_ref()?, self.board.endings()?);
        let wrote: Vec<&Vec<u64>> =
            endings.iter().map(|(ending, _)| &ending.ends).filter(|ends| !ends.is_empty()).collect();
        if wrote.is_empty() {
            return None;
        }
        let reached = |subfile: SubfileIndex| wrote.iter().filter_map(|ends| ends.get(subfile.index())).max();
        let length = self.board.announcements()?.iter().map(|one| one.end).max()?;
        let is_short = |subfile: &SubfileIndex| {
            reached(*subfile).is_none_or(|end| shape.distribution().subfile_size(*subfile, length) > *end)
        };
        let short: Vec<SubfileIndex> = shape.distribution().subfiles().filter(is_short).collect();
        (!short.is_empty()).then_some((short, length))
    }

    /// Subfiles are extended behind the data, so that a call that is interrupted leaves a file that is torn and not one
    /// that looks whole.
    pub(super) fn grow(
        &mut self,
        is_done: bool,
        is_told: bool,
        group: &mut dyn Group,
    ) -> Result<Next, CollectiveError> {
        if is_done && !is_told {
            self.tell_all(Body::Grown { failed: self.failed.clone() }, Bytes::new(), group);
            self.phase = Phase::Growing { is_done, is_told: true };
            return Ok(Next::Again);
        }
        let Some(grown) = self.board.grown() else {
            return Ok(self.wait(Phase::Growing { is_done, is_told }, Stage::File));
        };
        match grown.iter().enumerate().find_map(|(rank, failed)| Some((rank, (*failed)?))) {
            Some((rank, fault)) => {
                Err(CollectiveError::RankFailed { rank: Rank(rank as u32), fault: fault.to_owned() })
            }
            None => Ok(self.done()),
        }
    }

    fn done(&mut self) -> Next {
        let endings = self.board.endings().unwrap_or_default();
        let report = self.stopwatch.report(self.is_two_phase, endings.iter().map(|(ending, _)| ending.tally));
        let told = endings.iter().map(|(_, told)| told.clone()).collect();
        let answer = match (self.read.take(), &self.shape) {
            (Some(read), _) => Answer::Read(read),
            (None, Some(_)) => Answer::Written,
            (None, None) => Answer::Performed(told),
        };
        Next::Done(answer, report)
    }
}
