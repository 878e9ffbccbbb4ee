//! Clusters of computers: what N compute processes write to N I/O processes, beside what the network carries.

use sfio_remote::distribution::StripeUnit;
use sfio_remote::sim::{Job, Machine, Measured, Scaling, Traffic};

fn job(traffic: Traffic, processes: usize, unit: u64) -> Job {
    Job {
        traffic,
        clients: processes,
        io_nodes: processes,
        stripe_unit: StripeUnit::new(unit).expect("in range"),
        warm_up_bytes: 5_000_000,
        bytes: 3_000_000,
    }
}

fn run(machine: Machine, job: &Job) -> (Measured, String) {
    let mut scaling = Scaling::new(machine, 1);
    let measured = scaling.run(job).expect("it succeeds");
    (measured, scaling.hash())
}

/// `[sfio figure 6]`: "the full crossbar exhibits linear scaling".
#[test]
fn pairs_at_a_crossbar_do_not_disturb_one_another() {
    let rate = |pairs| run(Machine::swiss_t1_ethernet(), &job(Traffic::Pairs, pairs, 65_536)).0;
    let one = rate(1).bytes_per_second;
    for pairs in [2, 7, 15] {
        let all = rate(pairs);
        let ratio = all.bytes_per_second / (one * pairs as f64);
        assert!((0.97..=1.03).contains(&ratio), "{pairs}: {all:?}");
        assert!(all.bytes_per_second <= all.limit, "{pairs}: {all:?}");
    }
}

#[test]
fn a_stripe_unit_of_75_bytes_costs_nothing_beside_64_kib() {
    let rate = |unit| run(Machine::swiss_t1_ethernet(), &job(Traffic::AllToAll, 3, unit)).0;
    let (small, large) = (rate(75), rate(65_536));
    assert!(small.bytes_per_second >= 0.95 * large.bytes_per_second, "{small:?}, {large:?}");
}

#[test]
fn what_is_written_over_trunks_stays_below_what_they_carry() {
    // Four nodes write to four others, all over one trunk.
    let job = Job { bytes: 10_000_000, warm_up_bytes: 10_000_000, ..job(Traffic::Halves, 4, 200) };
    let (measured, _) = run(Machine::swiss_t1_tnet(), &job);
    let share = measured.bytes_per_second / measured.limit;
    assert!((0.75..=1.0).contains(&share), "{measured:?}");
}

#[test]
fn the_same_seed_is_the_same_story() {
    let story = |seed| {
        let mut scaling = Scaling::new(Machine::swiss_t1_tnet(), seed);
        let small = Job { bytes: 500_000, warm_up_bytes: 0, ..job(Traffic::AllToAll, 2, 200) };
        let measured: Vec<Measured> = (0..3).map(|_| scaling.run(&small).expect("it succeeds")).collect();
        (measured, scaling.hash())
    };
    let first = story(7);
    assert!(first == story(7), "equal seeds");
    assert!(first.1 != story(8).1, "another seed");
}
