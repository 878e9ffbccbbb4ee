//! Models of motion: what the formulas say, and that every machine sees the same.

use std::time::Duration;

use netsim::mobility::{
    Area, Frame, GaussMarkov, Groups, Individual, Length, Model, Pauses, Position, RandomWalk,
    RandomWaypoint, Scenario, ScenarioError, Speeds,
};
use proptest::prelude::*;

const SECOND: Duration = Duration::from_secs(1);

fn metres(metres: f64) -> Length {
    Length::from_metres(metres).unwrap()
}

fn area(width: f64, height: f64) -> Area {
    Area::new(metres(width), metres(height))
}

fn speeds(least: f64, greatest: f64) -> Speeds {
    Speeds::between(least, greatest).unwrap()
}

fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

fn walk(least: f64, greatest: f64, leg_s: f64) -> RandomWalk {
    RandomWalk::new(speeds(least, greatest), seconds(leg_s)).unwrap()
}

fn waypoints() -> RandomWaypoint {
    RandomWaypoint::new(speeds(1.0, 20.0), Pauses::between(Duration::ZERO, 10 * SECOND).unwrap())
}

fn gauss_markov() -> GaussMarkov {
    GaussMarkov::new(3.0, 2.0, 0.8, SECOND).unwrap()
}

/// One of each, for an area of 300 m by 200 m.
fn models() -> [(&'static str, Model); 4] {
    let groups = Groups::new(5, metres(30.0), 7 * SECOND, waypoints()).unwrap();
    [
        ("random walk", walk(5.0, 15.0, 30.0).into()),
        ("random waypoint", waypoints().into()),
        ("gauss-markov", gauss_markov().into()),
        ("groups", groups.into()),
    ]
}

fn distance(a: Position, b: Position) -> f64 {
    (a.x - b.x).hypot(a.y - b.y)
}

/// Mean and standard error of independent values.
fn mean(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
    (mean, (variance / count).sqrt())
}

/// That independent values have the mean that a formula gives, within four standard errors.
#[track_caller]
fn assert_mean(what: &str, values: &[f64], expected: f64) {
    let (mean, error) = mean(values);
    assert!((mean - expected).abs() <= 4.0 * error, "{what}: {mean} ± {error}, expected {expected}");
}

proptest! {
    #[test]
    fn nobody_leaves_the_area(
        sides in (1.0..500.0_f64, 1.0..500.0_f64),
        speed in 0.1..100.0_f64,
        time_s in 0.01..3.0_f64,
        seed: u64,
    ) {
        let area = area(sides.0, sides.1);
        let radius = metres(sides.0.min(sides.1) * 0.3);
        let walk = walk(speed / 2.0, speed, time_s);
        let gauss_markov = GaussMarkov::new(speed, speed / 10.0, 0.5, seconds(time_s)).unwrap();
        let waypoints = RandomWaypoint::new(speeds(speed / 2.0, speed), Pauses::NONE);
        let leaders: [Individual; 3] = [walk.into(), gauss_markov.into(), waypoints.into()];
        let groups = leaders.map(|leader| Groups::new(3, radius, seconds(time_s), leader).unwrap().into());
        for model in leaders.map(Model::from).into_iter().chain(groups) {
            let scenario = match Scenario::new(6, area, model) {
                Err(ScenarioError::TooFast { .. }) => continue,
                scenario => scenario.unwrap(),
            };
            for frame in scenario.frames(seed, seconds(time_s * 0.7)).take(40) {
                for position in frame.positions {
                    prop_assert!(area.contains(position), "{position:?} outside {area:?} by {model:?}");
                }
            }
        }
    }

    /// Seen at its turns and more often, a random walk goes at the speeds asked for; reflection only shortens what is
    /// seen.
    #[test]
    fn nobody_is_faster_than_asked(seed: u64) {
        for model in [Model::from(walk(5.0, 15.0, 3.0)), waypoints().into()] {
            let scenario = Scenario::new(20, area(300.0, 200.0), model).unwrap();
            let frames: Vec<Frame> = scenario.frames(seed, SECOND).take(30).collect();
            for pair in frames.windows(2) {
                for (a, b) in pair[0].positions.iter().zip(&pair[1].positions) {
                    prop_assert!(distance(*a, *b) <= 20.0 + 1e-9);
                }
            }
        }
    }
}

#[test]
fn equal_seeds_give_equal_frames_and_a_further_node_changes_no_other() {
    for (name, model) in models() {
        let frames = |nodes, seed| {
            let scenario = Scenario::new(nodes, area(300.0, 200.0), model).unwrap();
            scenario.frames(seed, SECOND).take(50).map(|frame| frame.positions).collect::<Vec<_>>()
        };
        let (first, more) = (frames(12, 1), frames(13, 1));
        assert_eq!(first, frames(12, 1), "{name}");
        assert_ne!(first, frames(12, 2), "{name}");
        assert!(first.iter().zip(&more).all(|(first, more)| first[..] == more[..12]), "{name}");
    }
}

/// The hash is a constant of the project, so that two machines (and two versions) can be compared. Who changes a
/// model changes it here, knowingly.
#[test]
fn frames_are_the_same_on_every_machine() {
    let mut hasher = blake3::Hasher::new();
    for (_, model) in models() {
        let scenario = Scenario::new(12, area(300.0, 200.0), model).unwrap();
        for position in scenario.frames(7, seconds(0.7)).take(200).flat_map(|frame| frame.positions) {
            hasher.update(&position.x.to_le_bytes());
            hasher.update(&position.y.to_le_bytes());
        }
    }
    assert_eq!(
        hasher.finalize().to_hex().as_str(),
        "57a7ba544077bf34613ae2ed8d10986e718082c718188a7978a176b73dc4d45b"
    );
}

#[test]
fn a_frame_fetched_by_its_number_is_the_one_met_on_the_way() {
    for (name, model) in models() {
        let scenario = Scenario::new(12, area(300.0, 200.0), model).unwrap();
        let on_the_way = scenario.frames(3, 4 * SECOND).nth(25).unwrap();
        assert_eq!(on_the_way.time, 100 * SECOND);
        let last = scenario.frames(3, 4 * SECOND).take(26).last();
        assert_eq!(Some(&on_the_way), last.as_ref(), "{name}");
        assert_eq!(on_the_way, scenario.frame(3, 4 * SECOND, 25), "{name}");
    }
}

/// Positions of 20,000 nodes at a time, of which a uniform spread is expected.
fn assert_uniform(name: &str, model: Model, time_s: f64) {
    let (width, height) = (300.0, 200.0);
    let scenario = Scenario::new(20_000, area(width, height), model).unwrap();
    let positions = scenario.frame(5, seconds(time_s), 1).positions;
    let moments = |share: &dyn Fn(&Position) -> f64, what: &str| {
        for (power, moment) in [(1, 1.0 / 2.0), (2, 1.0 / 3.0), (4, 1.0 / 5.0)] {
            let values: Vec<f64> = positions.iter().map(|position| share(position).powi(power)).collect();
            assert_mean(&format!("{name}, {what}^{power} after {time_s} s"), &values, moment);
        }
    };
    moments(&|position| position.x / width, "x");
    moments(&|position| position.y / height, "y");
}

#[test]
fn random_walk_and_gauss_markov_stay_uniformly_spread() {
    for time_s in [1e-9, 3.0, 100.0] {
        assert_uniform("random walk", walk(5.0, 15.0, 30.0).into(), time_s);
        assert_uniform("gauss-markov", gauss_markov().into(), time_s);
    }
}
