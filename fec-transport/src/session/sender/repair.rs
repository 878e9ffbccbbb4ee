//! What reports and their absence tell of blocks: which are done, and which owe the peer more symbols.

use std::time::Duration;

use super::Sender;
use crate::session::block::FlightFate;
use crate::session::paths::PathId;
use crate::session::redundancy::repair_symbols;
use crate::time::Time;
use crate::wire::report::Report;

/// Blocks that one turn of the tail timer asks for.
const TAIL_BLOCKS: usize = 16;
/// The longest pause of the tail timer.
const MAX_TAIL_PAUSE: Duration = Duration::from_secs(2);

impl Sender {
    /// Takes the block part of a report: `fate` tells what became of packets, `loss` is the paths' mean. Gives the
    /// streams that have been delivered whole.
    pub(crate) fn on_report(
        &mut self,
        now: Time,
        report: &Report,
        fate: impl Fn(PathId, Time) -> FlightFate,
        loss: f64,
    ) -> Vec<u32> {
        if !self.is_news(report) {
            return Vec::new();
        }
        self.latest_report = Some(report.sequence);
        let complete = self.completed_by(report);
        if !complete.is_empty() {
            (self.last_activity, self.tail_turns) = (now, 0);
        }
        let delivered = complete.into_iter().filter_map(|id| self.complete(now, id)).collect();
        self.repair(report, fate, loss);
        delivered
    }

    /// When to assume that no report will come, if `pause` is the longest round trip with its deviation.
    pub(crate) fn tail_at(&self, now: Time, pause: Duration, rate: f64) -> Option<Time> {
        if self.blocks.is_empty() || self.has_symbols(now, rate) {
            return None;
        }
        Some(self.last_activity + (pause * (1 << self.tail_turns.min(8))).min(MAX_TAIL_PAUSE.max(pause)))
    }

    /// The tail timer: nothing was heard of the oldest blocks, so all that flies is taken for lost.
    pub(crate) fn on_tail(&mut self, now: Time, loss: f64) {
        self.tail_turns += 1;
        self.last_activity = now;
        let oldest: Vec<u32> = self.blocks.keys().take(TAIL_BLOCKS).copied().collect();
        for id in oldest {
            if let Some(block) = self.blocks.get_mut(&id) {
                block.settle(|_, _| FlightFate::Over);
                self.owe_deficit(id, loss);
            }
        }
    }

    fn completed_by(&self, report: &Report) -> Vec<u32> {
        let ranks = &report.blocks.ranks;
        let described = self
            .blocks
            .range(report.floor..)
            .filter(|(id, _)| ranks.get((**id - report.floor) as usize).is_some_and(|rank| rank.is_none()));
        self.blocks.range(..report.floor).chain(described).map(|(id, _)| *id).collect()
    }

    /// Lets every block that the report describes, and every later one, owe what it lacks.
    fn repair(&mut self, report: &Report, fate: impl Fn(PathId, Time) -> FlightFate, loss: f64) {
        let ranks = &report.blocks.ranks;
        let mut lacking = Vec::new();
        for (id, block) in self.blocks.range_mut(report.floor..) {
            match ranks.get((*id - report.floor) as usize) {
                Some(Some(rank)) => block.reported(*rank),
                Some(None) => {}
                None if report.blocks.cut => break,
                None => {}
            }
            block.settle(&fate);
            if block.deficit() > 0 {
                lacking.push(*id);
            }
        }
        lacking.into_iter().for_each(|id| self.owe_deficit(id, loss));
    }

    fn owe_deficit(&mut self, id: u32, loss: f64) {
        let Some(block) = self.blocks.get_mut(&id) else { return };
        let deficit = block.deficit();
        if deficit == 0 {
            return;
        }
        let symbols = repair_symbols(deficit, loss, block.repairs());
        self.counters.repair_rounds += 1;
        self.counters.repaired_blocks += u64::from(!block.is_repaired());
        block.repair(u16::try_from(symbols).unwrap_or(u16::MAX));
        let class = block.class();
        self.lane(class).owes(id);
    }
}
