//! The last minutes, for those who come later.

use std::collections::{BTreeMap, VecDeque};

use serde::Serialize;

use super::picture::{Flow, Picture, rounded};

/// Pictures that are remembered: ten minutes of a member, two and a half of a demo.
const MAX_POINTS: usize = 600;
/// Links and paths that are remembered. Beyond these there are pictures, but no past.
const MAX_CURVES: usize = 256;

/// Under which name all sessions together are remembered.
pub(super) const ALL: &str = "all";

/// What each link and path has carried, lost and kept waiting.
#[derive(Debug, Default, Serialize)]
#[serde(transparent)]
pub(super) struct History(BTreeMap<String, Curve>);

/// Of one of them: columns of equal length.
#[derive(Debug, Default, Serialize)]
struct Curve {
    at_s: VecDeque<f64>,
    out_mbit: VecDeque<f32>,
    in_mbit: VecDeque<f32>,
    loss: VecDeque<Option<f32>>,
    queue_ms: VecDeque<Option<f32>>,
}

impl History {
    pub(super) fn note(&mut self, picture: &Picture) {
        self.note_flow(ALL, picture.at_s, picture.flow);
        for link in &picture.links {
            self.note_flow(&link.key, picture.at_s, link.flow);
        }
        for path in picture.sessions.iter().flat_map(|session| &session.paths) {
            self.note_flow(&path.key, picture.at_s, path.flow);
        }
        // A path that is gone is forgotten when all of its past is older than what is kept of others.
        let oldest = self.0.get(ALL).and_then(|all| all.at_s.front().copied()).unwrap_or_default();
        self.0.retain(|_, curve| curve.at_s.back().is_some_and(|last| *last >= oldest));
    }

    fn note_flow(&mut self, key: &str, at_s: f64, flow: Flow) {
        if !self.0.contains_key(key) {
            if self.0.len() >= MAX_CURVES {
                return;
            }
            self.0.insert(key.to_owned(), Curve::default());
        }
        if let Some(curve) = self.0.get_mut(key) {
            curve.push(at_s, flow);
        }
    }
}

impl Curve {
    fn push(&mut self, at_s: f64, flow: Flow) {
        if self.at_s.len() >= MAX_POINTS {
            self.at_s.pop_front();
            self.out_mbit.pop_front();
            self.in_mbit.pop_front();
            self.loss.pop_front();
            self.queue_ms.pop_front();
        }
        self.at_s.push_back(rounded(at_s, 2));
        self.out_mbit.push_back(flow.out_mbit as f32);
        self.in_mbit.push_back(flow.in_mbit as f32);
        self.loss.push_back(flow.loss.map(|loss| loss as f32));
        self.queue_ms.push_back(flow.queue_ms.map(|queue| queue as f32));
    }
}

#[cfg(test)]
mod tests {
    use super::super::picture::tests::picture;
    use super::super::picture::{Life, Link};
    use super::*;

    fn link(key: &str) -> Link {
        Link {
            key: key.to_owned(),
            a: String::new(),
            b: String::new(),
            name: String::new(),
            life: Life::Live,
            capacity_mbit: None,
            delay_ms: None,
            is_measured: false,
            flow: Flow::default(),
            deaths: 0,
            paths: 0,
            live_paths: 0,
        }
    }

    #[test]
    fn it_is_bounded_in_time_and_in_curves_and_forgets_what_is_gone() {
        let mut history = History::default();
        let mut first = picture(0.0);
        first.links = (0..2 * MAX_CURVES).map(|number| link(&format!("link {number}"))).collect();
        history.note(&first);
        assert_eq!(history.0.len(), MAX_CURVES);
        for second in 1..=2 * MAX_POINTS {
            history.note(&picture(second as f64));
        }
        assert_eq!(history.0.keys().collect::<Vec<_>>(), [ALL]);
        assert_eq!(history.0[ALL].at_s.len(), MAX_POINTS);
        assert_eq!(history.0[ALL].at_s.back(), Some(&(2.0 * MAX_POINTS as f64)));
    }
}
