//! One collective call on one rank, from stage to stage.

mod ending;

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use fec_transport::Time;

use super::assignment::assign;
use super::board::Board;
use super::domains::{Domains, FileDomains};
use super::error::CollectiveError;
use super::exchange::{Buffers, Exchange, Outgoing, ReadExchange, Receiver, Sender, Turn, WriteExchange};
use super::group::{Group, Rank};
use super::job::{Answer, CollectiveConfig, Job, When};
use super::message::{Announcement, Body};
use super::payload::{Codecs, Kind, Packed};
use super::pieces::Pieces;
use super::report::{Report, Stage, Stopwatch, Tally};
use super::shape::FileShape;
use super::work::{FileWork, WorkDone, WorkId};
use crate::request::{ReadList, RegionsRead};

/// The most characters of a call's words that travel: names may be long, and errors need not be.
const MAX_WORDS: usize = 400;

/// The number of the work of a call that has only one.
const ONLY_WORK: WorkId = WorkId(0);

/// What a rank does next.
#[derive(Debug)]
pub(super) enum Next {
    /// It has done something, and may do more.
    Again,
    /// It wants this done at the file.
    Work(WorkId, FileWork),
    /// It waits.
    Wait,
    /// The call has ended.
    Done(Answer, Report),
}

/// One collective call on one rank.
#[derive(Debug)]
pub(super) struct Call {
    number: u64,
    size: usize,
    config: CollectiveConfig,
    shape: Option<Arc<FileShape>>,
    words: String,
    phase: Phase,
    board: Board,
    stopwatch: Stopwatch,
    tally: Tally,
    is_two_phase: bool,
    /// What went wrong on this rank.
    failed: Option<String>,
    /// Where the bytes end that this rank has written to each subfile.
    ends: Vec<u64>,
    io_nodes: BTreeSet<usize>,
    /// What the other ranks are to be told in the end.
    to_tell: Bytes,
    read: Option<RegionsRead>,
}

/// How far a call is.
#[derive(Debug)]
enum Phase {
    /// Before stage 1.
    Begun(Job),
    /// Stage 2: the announcements of others are awaited.
    Announced(Material, Pieces),
    /// Stage 3: the shares of others are awaited.
    Shared(Material, Pieces, FileDomains),
    /// Before stage 4.
    InDomains(Material, Pieces, FileDomains),
    /// Before stage 5.
    Split(Material, Vec<Pieces>, Vec<Rank>),
    /// Stage 5: the run tables of others are awaited.
    Aggregating(Material, Vec<Pieces>),
    /// Stages 6 and 7.
    Exchanging(Exchange),
    /// Stage 7 without aggregators, or a call that moves no data.
    Alone { is_done: bool },
    /// This rank has ended its part.
    Ended,
    /// Subfiles that nobody has written up to their end are extended; whether this rank has done its part, and told it.
    Growing { is_done: bool, is_told: bool },
    /// Only while a phase is being left.
    Between,
}

/// What the list of the caller has become.
#[derive(Debug)]
enum Material {
    Write(Sender),
    Read(Receiver),
    Nothing,
}

impl Call {
    pub(super) fn new(now: Time, number: u64, size: usize, config: CollectiveConfig, job: Job) -> Call {
        Call {
            number,
            size,
            shape: job.shape().cloned(),
            words: job.words(number, &config),
            config,
            phase: Phase::Begun(job),
            board: Board::new(size),
            stopwatch: Stopwatch::new(now),
            tally: Tally::default(),
            is_two_phase: false,
            failed: None,
            ends: Vec::new(),
            io_nodes: BTreeSet::new(),
            to_tell: Bytes::new(),
            read: None,
        }
    }

    /// Another rank has said something in this call.
    pub(super) fn note(&mut self, from: Rank, body: Body, payload: Bytes) {
        self.board.note(from, body, payload);
    }

    /// Nothing more comes from a rank.
    pub(super) fn leave(&mut self, rank: Rank, because: CollectiveError) {
        self.board.leave(rank, because);
    }

    /// Does what can be done.
    pub(super) fn advance(
        &mut self,
        now: Time,
        group: &mut dyn Group,
        codecs: &mut Codecs<'_>,
    ) -> Result<Next, CollectiveError> {
        self.stopwatch.tick(now);
        if let Some(error) = self.board.missing(matches!(self.phase, Phase::Growing { .. })) {
            return Err(error.clone());
        }
        match std::mem::replace(&mut self.phase, Phase::Between) {
            Phase::Begun(job) => Ok(self.list(job, group)),
            Phase::Announced(material, pieces) => self.agree(material, pieces, group),
            Phase::Shared(material, pieces, domains) => Ok(self.assign(material, pieces, domains)),
            Phase::InDomains(material, pieces, domains) => Ok(self.split(material, &pieces, &domains)),
            Phase::Split(material, parts, aggregators) => {
                Ok(self.send_tables(material, parts, &aggregators, group, codecs))
            }
            Phase::Aggregating(material, parts) => self.collect_tables(material, parts, codecs),
            Phase::Exchanging(exchange) => self.exchange(exchange, group, codecs),
            Phase::Alone { is_done: true } => Ok(self.end(group)),
            Phase::Alone { is_done } => Ok(self.wait(Phase::Alone { is_done }, Stage::File)),
            Phase::Ended => self.settle(group),
            Phase::Growing { is_done, is_told } => self.grow(is_done, is_told, group),
            Phase::Between => Ok(Next::Wait),
        }
    }

    /// Work at the file is done.
    pub(super) fn finish(&mut self, work: WorkId, outcome: Result<WorkDone, String>) {
        let outcome = outcome.map_err(|fault| self.failed = Some(self.failed.take().unwrap_or(fault))).ok();
        match (&mut self.phase, outcome) {
            (Phase::Exchanging(Exchange::Write(write)), outcome) => write.written(outcome.is_none()),
            (Phase::Exchanging(Exchange::Read(exchange)), Some(WorkDone::Read(read))) => {
                exchange.read(work, Some(read));
            }
            (Phase::Exchanging(Exchange::Read(exchange)), _) => exchange.read(work, None),
            (Phase::Alone { is_done }, outcome) => {
                *is_done = true;
                match outcome {
                    Some(WorkDone::Read(read)) => self.read = Some(read),
                    Some(WorkDone::Performed(bytes)) => self.to_tell = bytes,
                    _ => {}
                }
            }
            (Phase::Growing { is_done, .. }, _) => *is_done = true,
            _ => {}
        }
    }

    /// Stage 1, and the announcement.
    fn list(&mut self, job: Job, group: &mut dyn Group) -> Next {
        self.stopwatch.enter(Stage::Runs);
        let (material, pieces) = match job {
            Job::Write(_, list) => {
                let sender = Sender::new(list);
                let pieces = sender.pieces();
                (Material::Write(sender), pieces)
            }
            Job::Read(_, list) => match Receiver::new(list, self.config.read_bytes) {
                Ok(receiver) => {
                    let pieces = receiver.pieces();
                    (Material::Read(receiver), pieces)
                }
                Err(error) => {
                    // The others must not wait for this rank, which takes part with nothing, and fails in the end.
                    self.failed = Some(error.to_string());
                    let nothing = Receiver::new(ReadList::default(), 0).map(Material::Read);
                    (nothing.unwrap_or(Material::Nothing), Pieces::default())
                }
            },
            Job::Perform { .. } => (Material::Nothing, Pieces::default()),
        };
        let (start, end) = pieces.range().unwrap_or_default();
        let hash = blake3::hash(self.words.as_bytes());
        let announcement = Announcement {
            hash: *hash.as_bytes().first_chunk().expect("a hash has 32 bytes"),
            words: self.words.chars().take(MAX_WORDS).collect(),
            start,
            end,
            bytes: pieces.bytes(),
        };
        self.tell_all(Body::Announce(announcement), Bytes::new(), group);
        self.phase = Phase::Announced(material, pieces);
        Next::Again
    }

    /// Stage 2: all ranks are in the same call, and know where the others' bytes are. Stage 3 begins.
    fn agree(
        &mut self,
        material: Material,
        pieces: Pieces,
        group: &mut dyn Group,
    ) -> Result<Next, CollectiveError> {
        let me = group.rank();
        let Some(all) = self.board.announcements() else {
            return Ok(self.wait(Phase::Announced(material, pieces), Stage::Announcement));
        };
        let mine = all[me.index()];
        if let Some(other) = all.iter().position(|announcement| announcement.hash != mine.hash) {
            return Err(CollectiveError::OtherCall {
                rank: Rank(other as u32),
                theirs: all[other].words.clone(),
                ours: mine.words.clone(),
            });
        }
        let mut ranges: Vec<(u64, u64)> =
            all.iter().filter(|one| one.bytes > 0).map(|one| (one.start, one.end)).collect();
        ranges.sort_unstable();
        let whole = whole(&ranges);
        self.stopwatch.enter(Stage::Domains);
        match (self.shape.clone(), whole) {
            (Some(shape), Some(range)) if self.goes_by_aggregators(&ranges) => {
                self.is_two_phase = true;
                self.choose_domains(material, pieces, &shape, range, group);
                Ok(Next::Again)
            }
            _ => Ok(self.alone(material, pieces.bytes())),
        }
    }

    fn goes_by_aggregators(&self, sorted: &[(u64, u64)]) -> bool {
        match self.config.when {
            When::Always => true,
            When::Interleaved => is_interleaved(sorted),
            When::Never => false,
        }
    }

    /// Each rank does its own part.
    fn alone(&mut self, material: Material, bytes: u64) -> Next {
        self.stopwatch.enter(Stage::File);
        let work = match material {
            Material::Nothing => FileWork::Perform,
            Material::Write(_) if bytes == 0 => {
                self.phase = Phase::Alone { is_done: true };
                return Next::Again;
            }
            Material::Read(receiver) if bytes == 0 => {
                self.read = Some(receiver.finish());
                self.phase = Phase::Alone { is_done: true };
                return Next::Again;
            }
            Material::Write(sender) => FileWork::Write(sender.into_list()),
            Material::Read(receiver) => FileWork::Read(receiver.into_list()),
        };
        self.count(&work);
        self.phase = Phase::Alone { is_done: false };
        Next::Work(ONLY_WORK, work)
    }

    fn choose_domains(
        &mut self,
        material: Material,
        pieces: Pieces,
        shape: &FileShape,
        (start, end): (u64, u64),
        group: &mut dyn Group,
    ) {
        let by_range = || FileDomains::by_range(start, end, self.size);
        self.phase = match self.config.domains {
            Domains::BySubfile => {
                Phase::InDomains(material, pieces, FileDomains::by_subfile(shape, self.size))
            }
            Domains::ByRange => Phase::InDomains(material, pieces, by_range()),
            Domains::ByOwner => {
                let domains = by_range();
                let shares = domains.shares(&pieces);
                self.tell_all(Body::Shares(shares), Bytes::new(), group);
                Phase::Shared(material, pieces, domains)
            }
        };
    }

    /// Stage 3, where domains go to who has most of them.
    fn assign(&mut self, material: Material, pieces: Pieces, domains: FileDomains) -> Next {
        let shares = self.board.shares().filter(|shares| shares.iter().all(|row| row.len() == self.size));
        let Some(shares) = shares else {
            return self.wait(Phase::Shared(material, pieces, domains), Stage::Domains);
        };
        self.phase = Phase::InDomains(material, pieces, domains.with_aggregators(assign(&shares)));
        Next::Again
    }

    /// Stage 4.
    fn split(&mut self, material: Material, pieces: &Pieces, domains: &FileDomains) -> Next {
        self.stopwatch.enter(Stage::Split);
        self.phase = Phase::Split(material, domains.split(pieces, self.size), domains.aggregators());
        Next::Again
    }

    /// Stage 5: each aggregator is told what this rank has in its domain, also if that is nothing.
    fn send_tables(
        &mut self,
        material: Material,
        parts: Vec<Pieces>,
        aggregators: &[Rank],
        group: &mut dyn Group,
        codecs: &mut Codecs<'_>,
    ) -> Next {
        self.stopwatch.enter(Stage::Tables);
        let me = group.rank();
        for aggregator in aggregators.iter().filter(|rank| **rank != me) {
            let (lengths, tables) = parts[aggregator.index()].emit();
            let Packed { format, bytes } = codecs.pack(Kind::Tables, tables);
            self.outgoing(group).send(*aggregator, &Body::Runs { lengths, format }, &bytes);
        }
        let others = parts.iter().enumerate().filter(|(rank, part)| *rank != me.index() && part.bytes() > 0);
        self.tally.pairs = others.count() as u64;
        if !aggregators.contains(&me) {
            self.begin_exchange(material, &parts, None);
            return Next::Again;
        }
        self.board.note_pieces(me, parts[me.index()].clone());
        self.phase = Phase::Aggregating(material, parts);
        Next::Again
    }

    fn collect_tables(
        &mut self,
        material: Material,
        parts: Vec<Pieces>,
        codecs: &mut Codecs<'_>,
    ) -> Result<Next, CollectiveError> {
        let pieces = self.board.take_pieces(codecs);
        match pieces.map_err(|(rank, fault)| CollectiveError::Broken { rank, fault })? {
            None => Ok(self.wait(Phase::Aggregating(material, parts), Stage::Tables)),
            collected => {
                self.begin_exchange(material, &parts, collected);
                Ok(Next::Again)
            }
        }
    }

    fn begin_exchange(&mut self, material: Material, parts: &[Pieces], collected: Option<Vec<Pieces>>) {
        self.stopwatch.enter(Stage::Exchange);
        let count = if self.config.double_buffering { 2 } else { 1 };
        let buffers = Buffers { bytes: self.config.buffer_bytes, count };
        self.phase = match material {
            Material::Write(sender) => {
                Phase::Exchanging(Exchange::Write(WriteExchange::new(sender, parts, collected, buffers)))
            }
            Material::Read(receiver) => {
                Phase::Exchanging(Exchange::Read(ReadExchange::new(receiver, parts, collected, buffers)))
            }
            Material::Nothing => Phase::Alone { is_done: true },
        };
    }

    /// Stages 6 and 7.
    fn exchange(
        &mut self,
        mut exchange: Exchange,
        group: &mut dyn Group,
        codecs: &mut Codecs<'_>,
    ) -> Result<Next, CollectiveError> {
        let mut out = Outgoing { group, call: self.number, tally: &mut self.tally };
        let turn = exchange.turn(&mut self.board, &mut out, codecs);
        match turn.map_err(|(rank, fault)| CollectiveError::Broken { rank, fault })? {
            Turn::Worked => {
                self.stopwatch.enter(Stage::Exchange);
                self.phase = Phase::Exchanging(exchange);
                Ok(Next::Again)
            }
            Turn::Work(id, work) => {
                self.count(&work);
                self.phase = Phase::Exchanging(exchange);
                Ok(Next::Work(id, work))
            }
            Turn::Waits if exchange.is_finished() => {
                self.tally.rounds = exchange.rounds();
                if let Exchange::Read(read) = exchange {
                    self.read = Some(read.into_receiver().finish());
                }
                Ok(self.end(group))
            }
            Turn::Waits => {
                let stage = if exchange.waits_for_the_file() { Stage::File } else { Stage::Exchange };
                Ok(self.wait(Phase::Exchanging(exchange), stage))
            }
        }
    }

    /// Takes note of what is asked of I/O nodes.
    fn count(&mut self, work: &FileWork) {
        let Some(shape) = &self.shape else { return };
        let (regions, is_write) = match work {
            FileWork::Write(list) => (list.regions(), true),
            FileWork::Read(list) => (list.regions(), false),
            FileWork::Perform | FileWork::Grow { .. } => return,
        };
        let ends = shape.ends(regions);
        let touched = shape.distribution().subfiles().filter(|subfile| ends[subfile.index()] > 0);
        for subfile in touched {
            self.tally.requests += 1;
            self.io_nodes.insert(shape.io_node(subfile));
        }
        if is_write {
            self.ends.resize(ends.len(), 0);
            self.ends.iter_mut().zip(ends).for_each(|(sum, end)| *sum = end.max(*sum));
        }
    }

    fn wait(&mut self, phase: Phase, stage: Stage) -> Next {
        self.stopwatch.enter(stage);
        self.phase = phase;
        Next::Wait
    }

    fn outgoing<'a>(&'a mut self, group: &'a mut dyn Group) -> Outgoing<'a> {
        Outgoing { group, call: self.number, tally: &mut self.tally }
    }

    /// Says something to all ranks, this one included.
    fn tell_all(&mut self, body: Body, payload: Bytes, group: &mut dyn Group) {
        let me = group.rank();
        self.outgoing(group).send_to_all(&body, &payload);
        self.board.note(me, body, payload);
    }
}

/// From the first byte to the last of ranges in ascending order; none if there are none.
fn whole(sorted: &[(u64, u64)]) -> Option<(u64, u64)> {
    let end = sorted.iter().map(|(_, end)| *end).max()?;
    Some((sorted.first()?.0, end))
}

/// Whether one of the ranges, in ascending order, begins before the end of another one.
fn is_interleaved(sorted: &[(u64, u64)]) -> bool {
    sorted.windows(2).any(|pair| pair[1].0 < pair[0].1)
}
