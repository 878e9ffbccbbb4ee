//! Which paths have fallen silent, judged link by link.
//!
//! A path that carries little needs long until its own silence tells anything. But a link that dies silences all paths
//! over it at once, so what is missing on them counts together; and a path over such a link of which nothing was heard
//! since is under suspicion before its own round trip is over (docs/decisions/failure.md).

use std::time::Duration;

use crate::overlay::Crossings;
use crate::time::Time;

/// The largest difference of delay that queues are taken to make between two paths over one link.
const SLACK: Duration = Duration::from_millis(5);

/// What is known of a path when a report has come.
#[derive(Debug, Clone)]
pub(crate) struct Evidence {
    pub(crate) round_trip: Duration,
    /// Packets that should have been heard of: none while the path is heard of.
    pub(crate) missing: usize,
    /// The logarithms of the probabilities that chance loses the first missing packet, and each one after a lost one.
    pub(crate) log_loss: f64,
    pub(crate) log_again: f64,
    /// When the first packet left that was not heard of.
    pub(crate) unheard_since: Option<Time>,
    /// When the latest packet left that is known to have arrived.
    pub(crate) heard_of: Option<Time>,
}

/// What to think of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) enum Suspicion {
    /// Nothing is wrong.
    #[default]
    None,
    /// It crosses a link that seems dead, and nothing that left since has been heard of, nor should have been.
    Shared,
    /// It is silent, and chance does not explain it.
    Silent,
}

/// Judges the paths of a session, those too that are dead; `crossings` says which of them cross which links, and
/// `doubt` is the probability below which chance explains nothing.
pub(crate) fn judge(paths: &[Evidence], crossings: &Crossings, doubt: f64) -> Vec<Suspicion> {
    let alone = |path: &Evidence| path.is_silent() && path.weight() <= doubt.ln();
    let mut verdicts: Vec<Suspicion> =
        paths.iter().map(|path| if alone(path) { Suspicion::Silent } else { Suspicion::None }).collect();
    for over in crossings.links().map(|link| crossings.over(link)) {
        if !seems_dead(over, paths, doubt) {
            continue;
        }
        for index in over {
            let suspicion = if paths[*index].is_silent() { Suspicion::Silent } else { Suspicion::Shared };
            verdicts[*index] = suspicion.max(verdicts[*index]);
        }
    }
    verdicts
}

/// Whether chance does not explain what is missing over a link, and nothing has crossed it since; `over` are the paths
/// that cross it.
fn seems_dead(over: &[usize], paths: &[Evidence], doubt: f64) -> bool {
    let over = || over.iter().map(|index| &paths[*index]);
    let silent = || over().filter(|path| path.is_silent());
    let Some(first) = silent().min_by_key(|path| path.unheard_since) else { return false };
    silent().map(Evidence::weight).sum::<f64>() <= doubt.ln()
        && !over().any(|path| path.was_heard_since(first))
}

impl Evidence {
    fn is_silent(&self) -> bool {
        self.missing > 0
    }

    /// The logarithm of the probability that chance loses all that is missing.
    fn weight(&self) -> f64 {
        self.log_loss + (self.missing as f64 - 1.0) * self.log_again
    }

    /// Whether a packet of this path has arrived that crossed a common link after it had swallowed one of `silent`.
    ///
    /// Where the link lies on the two routes is not known: at the far end, a packet of the shorter one may have left
    /// later by the difference of their one-way delays and still have crossed it earlier.
    fn was_heard_since(&self, silent: &Evidence) -> bool {
        let skew = silent.round_trip.saturating_sub(self.round_trip) / 2 + SLACK;
        match (self.heard_of, silent.unheard_since) {
            (Some(heard), Some(since)) => heard > since + skew,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::overlay::LinkId;

    const DOUBT: f64 = 1e-6;

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    /// What is known of a path that crosses these links.
    #[derive(Clone)]
    struct Case {
        over: &'static [u16],
        evidence: Evidence,
    }

    fn judge(paths: &[Case], doubt: f64) -> Vec<Suspicion> {
        let links = paths.iter().map(|path| path.over.iter().map(|link| LinkId((*link).into())));
        let evidence: Vec<Evidence> = paths.iter().map(|path| path.evidence.clone()).collect();
        super::judge(&evidence, &Crossings::new(links), doubt)
    }

    /// A path over `over` of which was heard what left at `heard` ms.
    fn heard(over: &'static [u16], heard: u64) -> Case {
        let evidence = Evidence {
            round_trip: Duration::from_millis(100),
            missing: 0,
            log_loss: 0.01_f64.ln(),
            log_again: 0.01_f64.ln(),
            unheard_since: Some(at(heard + 1)),
            heard_of: Some(at(heard)),
        };
        Case { over, evidence }
    }

    fn silent(over: &'static [u16], missing: usize, since: u64) -> Case {
        let Case { evidence, .. } = heard(over, since - 1);
        Case { over, evidence: Evidence { missing, unheard_since: Some(at(since)), ..evidence } }
    }

    #[test]
    fn a_path_alone_is_silent_once_chance_does_not_explain_it() {
        assert_eq!(judge(&[silent(&[], 2, 500)], DOUBT), [Suspicion::None]);
        assert_eq!(
            judge(&[silent(&[], 3, 500), heard(&[], 600)], DOUBT),
            [Suspicion::Silent, Suspicion::None]
        );
    }

    /// Over three paths with bursts of 8 one in every minute was once given up while it lived.
    #[test]
    fn where_losses_follow_each_other_a_burst_is_no_death() {
        let bursts = |missing| {
            let Case { over, evidence } = silent(&[], missing, 500);
            Case { over, evidence: Evidence { log_again: 0.875_f64.ln(), ..evidence } }
        };
        assert_eq!(judge(&[bursts(60)], DOUBT), [Suspicion::None]);
        assert_eq!(judge(&[bursts(80)], DOUBT), [Suspicion::Silent]);
    }

    #[test]
    fn what_is_missing_over_a_common_link_counts_together() {
        // Three paths with one packet each: alone, each of them would have had to wait for two more.
        let paths =
            [silent(&[1, 2], 1, 500), silent(&[1, 3], 1, 501), silent(&[1, 4], 1, 503), heard(&[5], 650)];
        let all = [Suspicion::Silent, Suspicion::Silent, Suspicion::Silent, Suspicion::None];
        assert_eq!(judge(&paths, DOUBT), all);
    }

    #[test]
    fn a_link_over_which_something_was_heard_is_not_dead() {
        let paths = [silent(&[1, 2], 1, 500), silent(&[1, 3], 2, 501), heard(&[1, 4], 520)];
        assert_eq!(judge(&paths, DOUBT), [Suspicion::None; 3]);
        // A path died over it long ago, another one is alive and has just lost a packet: that is chance.
        let paths = [silent(&[1, 2], 99, 500), silent(&[1, 3], 1, 9000)];
        assert_eq!(judge(&paths, DOUBT), [Suspicion::Silent, Suspicion::None]);
    }

    #[test]
    fn a_path_that_was_not_heard_since_shares_the_suspicion() {
        let paths = [silent(&[1, 2], 9, 500), heard(&[1, 3], 490), heard(&[2, 3], 510), heard(&[4], 490)];
        let expected = [Suspicion::Silent, Suspicion::Shared, Suspicion::None, Suspicion::None];
        assert_eq!(judge(&paths, DOUBT), expected);
    }

    #[test]
    fn a_packet_of_a_shorter_route_may_have_crossed_the_link_before_it_died() {
        let mut long = silent(&[1], 9, 500);
        long.evidence.round_trip = Duration::from_millis(140);
        assert_eq!(judge(&[long.clone(), heard(&[1], 520)], DOUBT)[1], Suspicion::Shared);
        assert_eq!(judge(&[long, heard(&[1], 530)], DOUBT)[1], Suspicion::None);
    }
}
