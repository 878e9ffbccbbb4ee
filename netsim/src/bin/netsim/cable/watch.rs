//! What happens to a cable while it carries: outages, and the record of what it carried.

use std::io::{self, Write};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use netsim::LinkCounters;
use program::quantity;
use serde_json::json;

use super::way::Way;

/// How often the queue is looked at.
const LOOK: Duration = Duration::from_millis(5);
/// How many looks a line of the record sums up: a tenth of a second.
const LOOKS_A_LINE: u32 = 20;

/// A time in which the link is dead, since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Outage {
    from: Duration,
    to: Duration,
}

/// Reads `20s..40s`.
pub(super) fn outage(text: &str) -> Result<Outage, String> {
    let expected = || format!("\"{text}\" is no outage; expected its start and its later end, as 20s..40s");
    let (from, to) = text.split_once("..").ok_or_else(expected)?;
    let outage = Outage { from: quantity::duration(from)?, to: quantity::duration(to)? };
    if outage.from < outage.to { Ok(outage) } else { Err(expected()) }
}

/// Kills and restores both directions at the times of the outages, and returns after the last one.
pub(super) fn interrupt(ways: &[Arc<Way>], outages: Vec<Outage>) {
    let mut times: Vec<Duration> = outages.iter().flat_map(|outage| [outage.from, outage.to]).collect();
    times.sort();
    for time in times {
        ways.iter().for_each(|way| way.wait_until(time));
        let is_dead = outages.iter().any(|outage| (outage.from..outage.to).contains(&time));
        ways.iter().for_each(|way| way.set_dead(is_dead));
    }
}

/// Writes a line for each direction and tenth of a second, for as long as the process runs.
///
/// # Errors
/// If the record cannot be written.
pub(super) fn record(ways: &[Arc<Way>], mut to: impl Write) -> io::Result<()> {
    let mut before = vec![LinkCounters::default(); ways.len()];
    loop {
        let mut queued = vec![Duration::ZERO; ways.len()];
        for _ in 0..LOOKS_A_LINE {
            thread::sleep(LOOK);
            for (sum, way) in queued.iter_mut().zip(ways) {
                *sum += way.queued();
            }
        }
        for ((way, before), queued) in ways.iter().zip(&mut before).zip(queued) {
            let counters = way.counters();
            let line = json!({
                "at_s": way.now().as_secs_f64(),
                "direction": way.name(),
                "delivered_bytes": counters.delivered_bytes - before.delivered_bytes,
                "lost": counters.lost - before.lost,
                "queue_dropped": counters.queue_dropped - before.queue_dropped,
                "dropped_down": counters.dropped_down - before.dropped_down,
                "queue_ms": (queued / LOOKS_A_LINE).as_secs_f64() * 1e3,
            });
            writeln!(to, "{line}")?;
            *before = counters;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_has_a_start_and_a_later_end() {
        let [from, to] = [20, 40].map(Duration::from_secs);
        assert_eq!(outage("20s..40s"), Ok(Outage { from, to }));
        for wrong in ["20s", "40s..20s", "5s..5s", "..", "a..b", "1s..2s..3s"] {
            assert!(outage(wrong).is_err(), "{wrong}");
        }
    }
}
