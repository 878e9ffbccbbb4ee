//! `--bwlimit`: a rate with its unit, a timetable of rates, or a file with one of them.

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use jiff::civil::Time;
use program::quantity;
use sfio_remote::io::replication::Throttle;
use tokio::task::JoinHandle;

/// How often the clock and the file are looked at.
const LOOK: Duration = Duration::from_secs(1);

/// What limits a run.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Limit {
    Timetable(Timetable),
    /// Where the timetable is; read again and again.
    File(PathBuf),
}

/// Rates by time of day; the first that applies counts.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Timetable(Vec<Entry>);

/// From when to when, if not always, and bytes per second, if there is a limit.
type Entry = (Option<(Time, Time)>, Option<u64>);

impl FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Limit, String> {
        match text.strip_prefix('@') {
            Some(path) => {
                let limit = Limit::File(path.into());
                limit.now().map(|_| limit)
            }
            None => text.parse().map(Limit::Timetable),
        }
    }
}

impl FromStr for Timetable {
    type Err = String;

    fn from_str(text: &str) -> Result<Timetable, String> {
        text.trim().split(',').map(|entry| parse_entry(entry.trim())).collect::<Result<_, _>>().map(Timetable)
    }
}

fn parse_entry(text: &str) -> Result<Entry, String> {
    let (rate, span) = text.split_once('@').map_or((text, None), |(rate, span)| (rate, Some(span)));
    let span = span.map(|span| {
        let expected = || format!("\"{span}\" is no time of day; expected HH:MM-HH:MM, as 08:00-18:30");
        let (from, to) = span.split_once('-').ok_or_else(expected)?;
        let time = |text: &str| Time::strptime("%H:%M", text).map_err(|_| expected());
        Ok::<_, String>((time(from)?, time(to)?))
    });
    Ok((span.transpose()?, parse_rate(rate)?))
}

fn parse_rate(text: &str) -> Result<Option<u64>, String> {
    if text == "none" {
        return Ok(None);
    }
    quantity::rate(text).map(Some).map_err(|error| format!("{error}, or none"))
}

impl Timetable {
    fn at(&self, now: Time) -> Option<u64> {
        let applies = |span: &Option<(Time, Time)>| match span {
            None => true,
            Some((from, to)) if from <= to => (*from..*to).contains(&now),
            // Over midnight.
            Some((from, to)) => now >= *from || now < *to,
        };
        self.0.iter().find(|(span, _)| applies(span)).and_then(|(_, rate)| *rate)
    }
}

impl Limit {
    /// The limit of now, bytes per second.
    fn now(&self) -> Result<Option<u64>, String> {
        let now = jiff::Zoned::now().time();
        match self {
            Limit::Timetable(timetable) => Ok(timetable.at(now)),
            Limit::File(path) => {
                let place = path.display();
                let text = std::fs::read_to_string(path).map_err(|error| format!("{place}: {error}"))?;
                let timetable: Timetable = text.parse().map_err(|error| format!("{place}: {error}"))?;
                Ok(timetable.at(now))
            }
        }
    }

    /// Keeps `throttle` at the limit until the task is aborted. A file that cannot be read changes nothing.
    fn keep(&self, throttle: Arc<Throttle>) -> JoinHandle<()> {
        let limit = self.clone();
        // From the first byte on.
        throttle.set(limit.now().unwrap_or_default());
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(LOOK).await;
                if let Ok(rate) = limit.now() {
                    throttle.set(rate);
                }
            }
        })
    }
}

/// The task that keeps a limit; it ends with this.
pub(super) struct Limiting(Option<JoinHandle<()>>);

impl Limiting {
    /// Keeps `throttle` at the limit, if there is one.
    pub(super) fn of(limit: Option<&Limit>, throttle: &Arc<Throttle>) -> Limiting {
        Limiting(limit.map(|limit| limit.keep(Arc::clone(throttle))))
    }
}

impl Drop for Limiting {
    fn drop(&mut self) {
        if let Some(keeping) = &self.0 {
            keeping.abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_is_part_of_the_value() {
        assert_eq!(parse_rate("100Mbit/s"), Ok(Some(12_500_000)));
        assert_eq!(parse_rate("12MiB/s"), Ok(Some(12 << 20)));
        assert_eq!(parse_rate("1.5 MB/s"), Ok(Some(1_500_000)));
        assert_eq!(parse_rate("none"), Ok(None));
        for wrong in ["100", "100M", "Mbit/s", "-1MB/s", "0MB/s", "infMB/s"] {
            let error = parse_rate(wrong).expect_err(wrong);
            assert!(error.contains("as 100Mbit/s"), "{error}");
        }
    }

    #[test]
    fn the_first_entry_that_applies_counts() {
        let timetable: Timetable =
            "10MB/s@08:00-18:00, none@22:00-06:00, 50MB/s".parse().expect("a timetable");
        let at = |hour| timetable.at(Time::constant(hour, 30, 0, 0));
        assert_eq!(
            [at(8), at(18), at(23), at(5), at(6)],
            [10, 50, 0, 0, 50].map(|mb| (mb > 0).then_some(mb * 1_000_000))
        );
        assert!("10MB/s@8-18".parse::<Timetable>().is_err());
    }
}
