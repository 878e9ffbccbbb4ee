//! Groups of ranks over clusters in virtual time: how many sessions they need, how long they take, and what becomes of
//! them when a rank is killed. A run is a function of its seed.
//!
//! ```sh
//! cargo test --workspace --test collective -- --nocapture                          # prints what was measured
//! ```

mod link;
mod scene;

use std::time::Duration;

use scene::{How, Outcome, Scene, play};
use sfio_remote::collective::{CollectiveConfig, CollectiveError, Domains, Rank, When};
use tokio::time::{Instant, sleep};

fn two_phase() -> How {
    How::Collective(CollectiveConfig { when: When::Always, ..CollectiveConfig::default() })
}

/// 64 ranks and three I/O nodes that are 50 ms away.
fn sixty_four(record: usize, records: usize) -> Scene {
    Scene { ranks: 64, io_nodes: 3, record, records, is_interleaved: true, network_ms: 50..51, seed: 1 }
}

fn faster(one: &Outcome, other: &Outcome) -> f64 {
    other.took.as_secs_f64() / one.took.as_secs_f64()
}

#[test]
fn sixty_four_ranks_need_three_sessions_and_a_twentieth_of_the_time_of_single_writes() {
    let scene = sixty_four(8, 100);
    let collective = play(&scene, &two_phase());
    let single = play(&scene, &How::Calls { at_once: 1 });
    let pipelined = play(&scene, &How::Calls { at_once: 24 });
    println!(
        "64 ranks, 3 I/O nodes, 50 ms, 100 records of 8 B: two-phase {:?} over {} sessions; a call for each record \
         {:?} over {} ({:.1} times as long); 24 of them at once {:?} ({:.1})",
        collective.took,
        collective.sessions,
        single.took,
        single.sessions,
        faster(&collective, &single),
        pipelined.took,
        faster(&collective, &pipelined),
    );
    assert_eq!((collective.sessions, single.sessions), (3, 192));
    assert!(faster(&collective, &single) >= 20.0);
}

#[test]
fn lists_of_any_record_size_take_as_long_over_three_sessions_as_over_192() {
    for (record, records) in [(8, 200), (512, 100), (4_096, 40), (47_008, 8)] {
        let scene = sixty_four(record, records);
        let (collective, lists) = (play(&scene, &two_phase()), play(&scene, &How::Lists));
        let ratio = faster(&collective, &lists);
        println!(
            "{record} B: two-phase {:?} over {} sessions, a list of each rank {:?} over {}: {ratio:.2} times as long",
            collective.took, collective.sessions, lists.took, lists.sessions
        );
        assert_eq!((collective.sessions, lists.sessions), (3, 192));
        // Stages 2, 5 and 6 take a few ms each between ranks, and a write takes two ways of 50 ms.
        assert!(ratio >= 0.85, "{ratio}");
        // A few small records lie in fewer stripes than there are I/O nodes.
        let touched = (64 * record * records).div_ceil(64 << 10).min(3) as u64;
        for report in &collective.reports {
            assert!(report.is_two_phase && report.sessions == touched, "{report:?}");
            let staged: Duration = report.stages.iter().sum();
            assert!(staged.as_secs_f64() >= 0.98 * report.elapsed.as_secs_f64(), "{report:?}");
        }
    }
}

#[test]
fn contiguous_blocks_are_left_to_their_ranks() {
    let scene = Scene { is_interleaved: false, ..sixty_four(300_000, 1) };
    let collective = play(&scene, &How::Collective(CollectiveConfig::default()));
    let lists = play(&scene, &How::Lists);
    let ratio = faster(&collective, &lists);
    println!("contiguous: collective {:?}, independent {:?}: {ratio:.3}x", collective.took, lists.took);
    assert!(ratio >= 0.95, "{ratio}");
    assert!(!collective.reports[0].is_two_phase);
    assert_eq!(collective.reports[0].exchanged_bytes, 0);
}

#[test]
fn every_kind_of_domain_writes_the_same_file_and_reads_nothing() {
    for domains in [Domains::BySubfile, Domains::ByRange, Domains::ByOwner] {
        for seed in 0..4 {
            let scene = Scene {
                ranks: 5,
                io_nodes: 3,
                record: 700,
                records: 30,
                is_interleaved: true,
                network_ms: 1..20,
                seed,
            };
            let config = CollectiveConfig {
                domains,
                when: When::Always,
                buffer_bytes: 20_000,
                ..CollectiveConfig::default()
            };
            let outcome = play(&scene, &How::Collective(config));
            assert!(outcome.reports[0].rounds > 1, "{domains:?}: {:?}", outcome.reports[0]);
        }
    }
}

#[test]
fn when_a_rank_is_killed_all_others_say_so_within_five_seconds() {
    for moment_ms in [0, 1, 30, 55, 90, 130, 160, 250] {
        let scene = Scene { ranks: 6, ..sixty_four(1_000, 50) };
        let (results, after) = scene::killed(&scene, Rank(2), Duration::from_millis(moment_ms));
        let lost = Err(CollectiveError::RankLost { rank: Rank(2) });
        let lost_on = results.iter().filter(|result| **result == lost).count();
        // A rank that was killed behind its last word leaves a call that has succeeded.
        assert!(lost_on == 5 || results.iter().all(Result::is_ok), "after {moment_ms} ms: {results:?}");
        assert!(after < Duration::from_secs(5), "{after:?}");
    }
}

#[test]
fn a_call_that_is_dropped_is_the_loss_of_its_rank() {
    scene::run_group(2, |member, _| async move {
        if member.rank() == Rank(0) {
            tokio::select! {
                _ = member.barrier() => panic!("the other one comes later"),
                () = sleep(Duration::from_millis(5)) => {}
            }
            assert_eq!(member.barrier().await, Err(CollectiveError::Left));
        } else {
            sleep(Duration::from_millis(20)).await;
            let began = Instant::now();
            assert_eq!(member.barrier().await, Err(CollectiveError::RankLost { rank: Rank(0) }));
            assert!(began.elapsed() < Duration::from_secs(1));
        }
    });
}

#[test]
fn lengths_syncs_and_closes_are_collective_and_ranks_that_differ_are_told() {
    scene::run_group(4, |member, cluster| async move {
        let file = scene::open(&member, &cluster).await;
        file.set_len(1_000).await.expect("all set the same length");
        let lengths = [5, 6, 5, 5];
        let error =
            file.set_len(lengths[member.rank().index()]).await.expect_err("rank 1 sets another length");
        assert!(error.to_string().contains("to 5") && error.to_string().contains("to 6"), "{error}");
        file.sync_all().await.expect("it goes on");
        let counters =
            member.error_counters(cluster.client(), &["io1".to_owned(), "io2".to_owned()], false).await;
        assert_eq!(counters.expect("both are there"), [0; 8]);
        assert_eq!(file.alone().len().await.expect("it is there"), 1_000);
        file.close().await.expect("all close it");
    });
}
