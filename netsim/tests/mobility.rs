//! Models of motion: what the formulas say, and that every machine sees the same.

use std::time::Duration;

use netsim::mobility::{
    Area, Frame, GaussMarkov, Groups, Individual, Length, LinkChanges, LinkWatch, Model, Pauses, Position,
    RandomWalk, RandomWaypoint, Scenario, ScenarioError, Speeds,
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

/// Asserts that independent values have the mean that a formula gives, within four standard errors.
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

/// The hash is a constant of the project, so that two machines (and two versions) can be compared. A change of a model
/// must change it here, knowingly.
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
        "645d40045b37350418d353dfa18670daa9b77cd6d5d47408ac99575c85499d02"
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

/// The speed of each node at a time, but for the few that turn in the tenth of a millisecond after it.
fn speeds_at(scenario: &Scenario, time_s: f64) -> Vec<f64> {
    const MOMENT_S: f64 = 1e-4;
    let at = |number| scenario.frame(9, seconds(if number == 0 { time_s } else { time_s + MOMENT_S }), 1);
    let (before, after) = (at(0), at(1));
    let pairs = before.positions.iter().zip(&after.positions);
    pairs.map(|(a, b)| distance(*a, *b) / MOMENT_S).collect()
}

#[test]
fn random_waypoint_starts_at_the_speeds_that_it_has_in_the_long_run() {
    let place = area(300.0, 200.0);
    let model = waypoints();
    let scenario = Scenario::new(40_000, place, model).unwrap();
    // Uniform speeds from 1 to 20 m/s: the mean of 1/v is ln 20 / 19, and trips take so long per metre.
    let slowness = 20.0_f64.ln() / 19.0;
    for time_s in [1e-9, 40.0, 400.0] {
        let speeds = speeds_at(&scenario, time_s);
        let moving: Vec<f64> = speeds.iter().copied().filter(|speed| *speed > 0.5).collect();
        let is_moving: Vec<f64> = speeds.iter().map(|speed| f64::from(u8::from(*speed > 0.5))).collect();
        assert_mean(&format!("speed of the moving at {time_s} s"), &moving, 1.0 / slowness);
        assert_mean(&format!("share of the moving at {time_s} s"), &is_moving, model.moving_share(place));
    }
    // The mean distance of two points is 0.5214 of the side of a square, and a third of the length of a line.
    let check = |width, height, distance: f64| {
        let slow = RandomWaypoint::new(speeds(1.0, 1.0), Pauses::between(10 * SECOND, 10 * SECOND).unwrap());
        let expected = distance / (distance + 10.0);
        assert!((slow.moving_share(area(width, height)) - expected).abs() < 1e-4);
    };
    check(100.0, 100.0, 52.140_543_3);
    check(100.0, 1e-3, 100.0 / 3.0);
}

/// On a line the density of moving nodes is 6·x·(1 − x) (Bettstetter 2001): variance 1/20, where uniform has 1/12.
#[test]
fn random_waypoint_starts_where_nodes_gather_in_the_long_run() {
    let line = area(1_000.0, 1e-3);
    for time_s in [1e-9, 30.0, 3_000.0] {
        let moving = RandomWaypoint::new(speeds(5.0, 20.0), Pauses::NONE);
        let positions = Scenario::new(40_000, line, moving).unwrap().frame(4, seconds(time_s), 1).positions;
        let spread: Vec<f64> = positions.iter().map(|at| (at.x / 1_000.0 - 0.5).powi(2)).collect();
        assert_mean(&format!("variance of places at {time_s} s"), &spread, 1.0 / 20.0);
        let pausing = RandomWaypoint::new(speeds(5.0, 20.0), Pauses::between(SECOND, 99 * SECOND).unwrap());
        let share = pausing.moving_share(line);
        let positions = Scenario::new(40_000, line, pausing).unwrap().frame(4, seconds(time_s), 1).positions;
        let spread: Vec<f64> = positions.iter().map(|at| (at.x / 1_000.0 - 0.5).powi(2)).collect();
        let expected = share / 20.0 + (1.0 - share) / 12.0;
        assert_mean(&format!("variance with pauses at {time_s} s"), &spread, expected);
    }
}

/// Velocities of Gauss–Markov nodes in an area so large that hardly any meets its border.
#[test]
fn gauss_markov_velocities_have_their_mean_deviation_and_memory() {
    let (mean_speed, deviation, memory) = (3.0, 2.0, 0.8);
    let model = GaussMarkov::new(mean_speed, deviation, memory, SECOND).unwrap();
    let scenario = Scenario::new(40_000, area(1e7, 1e7), model).unwrap();
    let frames: Vec<Frame> = scenario.frames(2, SECOND).take(25).collect();
    let velocity = |step: usize, node: usize| {
        let [a, b] = [step, step + 1].map(|frame| frames[frame].positions[node]);
        [b.x - a.x, b.y - a.y]
    };
    for step in [0, 20] {
        let each = |value: &dyn Fn(usize) -> f64| (0..40_000).map(value).collect::<Vec<f64>>();
        assert_mean("mean velocity", &each(&|node| velocity(step, node)[0]), 0.0);
        // Around a mean velocity whose direction is uniform: E[vx²] = m²/2 + σ².
        let square = mean_speed * mean_speed / 2.0;
        assert_mean(
            "variance",
            &each(&|node| velocity(step, node)[1].powi(2)),
            square + deviation * deviation,
        );
        for lag in [1, 3] {
            let product = each(&|node| velocity(step, node)[0] * velocity(step + lag, node)[0]);
            let expected = square + deviation * deviation * memory.powi(lag as i32);
            assert_mean(&format!("memory over {lag} steps"), &product, expected);
        }
    }
}

#[test]
fn members_of_a_group_keep_within_its_diameter_and_groups_go_their_own_ways() {
    let radius = 20.0;
    let groups = Groups::new(6, metres(radius), 3 * SECOND, walk(2.0, 8.0, 5.0)).unwrap();
    let scenario = Scenario::new(60, area(1_000.0, 800.0), groups).unwrap();
    let mut widest: f64 = 0.0;
    for frame in scenario.frames(1, SECOND).take(100) {
        for members in frame.positions.chunks(6) {
            for (a, b) in members.iter().flat_map(|a| members.iter().map(move |b| (*a, *b))) {
                assert!(distance(a, b) <= 2.0 * radius);
                widest = widest.max(distance(a, b));
            }
        }
    }
    assert!(widest > 1.6 * radius, "members use their freedom: {widest}");
    let centres = |frame: &Frame| frame.positions.chunks(6).map(|members| members[0]).collect::<Vec<_>>();
    let centres = centres(&scenario.frame(1, SECOND, 50));
    let apart = centres.windows(2).map(|pair| distance(pair[0], pair[1])).fold(0.0, f64::max);
    assert!(apart > 200.0, "{apart}");
}

#[test]
fn the_area_for_a_mean_degree_gives_it() {
    for (nodes, degree, aspect) in [(300, 8.52, 1.0), (180, 7.63, 2.5), (115, 30.0, 0.4)] {
        let range = metres(250.0);
        let area = Area::for_mean_degree(nodes, range, degree, aspect).unwrap();
        assert!((area.width_m() / area.height_m() - aspect).abs() < 1e-9);
        assert!((area.mean_degree(nodes, range).unwrap() - degree).abs() < 1e-9);
        // Frames far apart, so that they are all but independent: fresh seeds are.
        let scenario = Scenario::new(nodes, area, walk(10.0, 10.0, 10.0)).unwrap();
        let frames = (0..400).map(|seed| scenario.frame(seed, SECOND, 20));
        let degrees: Vec<f64> =
            frames.map(|frame| 2.0 * frame.links(range).len() as f64 / nodes as f64).collect();
        assert_mean(&format!("mean degree of {nodes} nodes"), &degrees, degree);
    }
}

#[test]
fn what_is_no_scenario_is_refused_with_its_value() {
    let refused = |result: Result<Scenario, ScenarioError>| result.unwrap_err().to_string();
    let model = walk(1.0, 2.0, 3.0);
    assert!(refused(Scenario::new(0, area(9.0, 9.0), model)).starts_with("0 nodes;"));
    assert_eq!(
        refused(Scenario::new(1, area(9.0, 1.0), walk(1.0, 1e4, 3.0))),
        "a node may go 30000 m before it turns, which is more than 1000 times the shorter side of the area"
    );
    let groups = Groups::new(2, metres(5.0), SECOND, model).unwrap();
    assert_eq!(
        refused(Scenario::new(4, area(30.0, 10.0), groups)),
        "a group of radius 5 m does not fit an area of 30 m by 10 m"
    );
    for metres in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e10] {
        assert!(Length::from_metres(metres).is_err(), "{metres}");
        assert!(Speeds::constant(metres).is_err(), "{metres}");
    }
    assert!(Speeds::between(2.0, 1.0).is_err() && Pauses::between(SECOND, Duration::ZERO).is_err());
    assert!(RandomWalk::new(speeds(1.0, 1.0), Duration::ZERO).is_err());
    assert!(GaussMarkov::new(0.0, 0.0, 0.5, SECOND).is_err());
    for memory in [1.0, -0.1, f64::NAN] {
        assert!(GaussMarkov::new(1.0, 1.0, memory, SECOND).is_err(), "{memory}");
    }
    assert!(Groups::new(0, metres(5.0), SECOND, model).is_err());
    for degree in [0.0, -1.0, f64::NAN, 99.0] {
        let error = Area::for_mean_degree(100, metres(10.0), degree, 1.0).unwrap_err();
        assert!(matches!(error, ScenarioError::MeanDegree { .. }), "{error}");
    }
}

#[test]
fn a_frame_becomes_a_network_with_places() {
    let positions = [(0.0, 0.0), (3.0, 4.0), (6.0, 8.0)].map(|(x, y)| Position { x, y }).to_vec();
    let frame = Frame { number: 7, time: SECOND, positions: positions.clone() };
    let topology = frame.topology(metres(5.0));
    assert_eq!((topology.name(), topology.node_count(), topology.link_count()), ("frame 7", 3, 2));
    let ends: Vec<(u32, u32)> = topology.links().map(|(_, from, to, _)| (from.0, to.0)).collect();
    assert_eq!(ends, [(0, 1), (1, 2)]);
    let places: Vec<_> = topology.nodes().map(|(_, node)| (node.id.clone(), node.position)).collect();
    assert_eq!(places[2], ("2".to_string(), Some(positions[2])));
}

#[test]
fn links_are_watched_from_frame_to_frame() {
    let mut watch = LinkWatch::default();
    assert_eq!(watch.observe(vec![(0, 1), (0, 2)]), None);
    assert_eq!(watch.mean_duration(SECOND), None);
    assert_eq!(watch.observe(vec![(0, 2), (1, 2)]), Some(LinkChanges { formed: 1, broken: 1 }));
    assert_eq!(watch.observe(vec![(1, 2)]), Some(LinkChanges { formed: 0, broken: 1 }));
    assert_eq!(watch.observe(vec![(1, 2)]), Some(LinkChanges { formed: 0, broken: 0 }));
    // Five times a link was seen whose next moment was seen too, and two broke.
    assert_eq!(watch.mean_duration(2 * SECOND), Some(5 * SECOND));
    assert_eq!(watch.changes(), LinkChanges { formed: 1, broken: 2 });
}
