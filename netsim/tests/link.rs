//! One direction of a link against a naive oracle.

use std::time::Duration;

use netsim::{DropCause, GilbertElliott, Link, LinkModel, LossModel, Probability, Rate, random_stream};
use proptest::prelude::*;

const ORIGIN: Duration = Duration::ZERO;

/// A packet of the naive oracle, which keeps them all and looks at them all each time.
struct Accepted {
    starts: Duration,
    ends: Duration,
    wire_bytes: u64,
}

/// What the queue and the rate do to packets (time, payload bytes): for each when its last bit is sent, or that the
/// queue is full.
fn oracle(model: &LinkModel, packets: &[(Duration, usize)]) -> Vec<Option<Duration>> {
    let mut accepted: Vec<Accepted> = Vec::new();
    let mut sent = Vec::new();
    for &(now, payload_bytes) in packets {
        let wire_bytes = model.wire_bytes(payload_bytes);
        let waiting: u64 =
            accepted.iter().filter(|packet| packet.starts > now).map(|packet| packet.wire_bytes).sum();
        let is_busy = accepted.iter().any(|packet| packet.ends > now);
        if is_busy && waiting + wire_bytes > model.queue_bytes {
            sent.push(None);
            continue;
        }
        let starts = accepted.iter().map(|packet| packet.ends).max().unwrap_or_default().max(now);
        let ends = starts + model.rate.time_for(wire_bytes);
        accepted.push(Accepted { starts, ends, wire_bytes });
        sent.push(Some(ends));
    }
    sent
}

/// Up to 200 packets with gaps of up to 2 ms.
fn traffic() -> impl Strategy<Value = Vec<(Duration, usize)>> {
    prop::collection::vec((0..2_000_u64, 0..1_500_usize), 1..200).prop_map(|packets| {
        let mut now = ORIGIN;
        let at = |(gap_us, payload_bytes)| {
            now += Duration::from_micros(gap_us);
            (now, payload_bytes)
        };
        packets.into_iter().map(at).collect()
    })
}

/// Links from 0.5 to 50 Mbit/s, where the traffic above meets both an idle link and a full queue.
fn models() -> impl Strategy<Value = LinkModel> {
    (500_000..50_000_000_u64, 0..20_000_u64, 0..5_000_u64, 0..30_000_u64).prop_map(
        |(bits, delay_us, jitter_us, queue_bytes)| {
            LinkModel::new(Rate::from_bits(bits), Duration::from_micros(delay_us))
                .with_jitter(Duration::from_micros(jitter_us))
                .with_queue_bytes(queue_bytes)
        },
    )
}

/// Offers all packets to a link without loss: arrivals, or the cause of the drop.
fn arrivals(model: &LinkModel, packets: &[(Duration, usize)]) -> Vec<Result<Duration, DropCause>> {
    let mut link = Link::new(model.clone());
    let mut rng = random_stream(1, &["link"]);
    packets
        .iter()
        .map(|&(now, bytes)| link.offer(now, bytes, &mut rng).map(|passage| passage.transit.arrives_at))
        .collect()
}

proptest! {
    #[test]
    fn queue_and_rate_agree_with_the_oracle(model in models(), packets in traffic()) {
        let model = model.with_jitter(Duration::ZERO);
        let expected: Vec<_> = oracle(&model, &packets)
            .into_iter()
            .map(|sent| sent.map(|at| at + model.delay).ok_or(DropCause::QueueFull))
            .collect();
        prop_assert_eq!(arrivals(&model, &packets), expected);
    }

    #[test]
    fn jitter_keeps_packets_in_order_and_within_its_bounds(model in models(), packets in traffic()) {
        let jittered = arrivals(&model, &packets);
        let plain = arrivals(&model.clone().with_jitter(Duration::ZERO), &packets);
        let mut last = ORIGIN;
        for (jittered, plain) in jittered.into_iter().zip(plain) {
            prop_assert_eq!(jittered.is_ok(), plain.is_ok());
            if let (Ok(jittered), Ok(plain)) = (jittered, plain) {
                prop_assert!(jittered >= last);
                prop_assert!(plain <= jittered && jittered <= plain + model.jitter);
                last = jittered;
            }
        }
    }

    #[test]
    fn no_window_carries_more_than_the_rate(model in models(), packets in traffic()) {
        let model = model.with_jitter(Duration::ZERO);
        let delivered: Vec<(Duration, u64)> = arrivals(&model, &packets)
            .into_iter()
            .zip(&packets)
            .filter_map(|(at, (_, bytes))| Some((at.ok()?, model.wire_bytes(*bytes))))
            .collect();
        for (first, (opened, _)) in delivered.iter().enumerate() {
            let mut bits = 0;
            for (closed, wire_bytes) in &delivered[first + 1..] {
                bits += u128::from(*wire_bytes) * 8;
                let window_ns = (*closed - *opened).as_nanos();
                prop_assert!(bits * 1_000_000_000 <= u128::from(model.rate.bits_per_second()) * window_ns);
            }
        }
    }

    #[test]
    fn the_queue_never_holds_more_than_its_limit(model in models(), packets in traffic()) {
        let mut link = Link::new(model.clone());
        let mut rng = random_stream(1, &["link"]);
        for (now, bytes) in packets {
            let _ = link.offer(now, bytes, &mut rng);
            prop_assert!(link.queued_bytes(now) <= model.queue_bytes);
        }
    }

    #[test]
    fn every_packet_ends_in_exactly_one_way(
        model in models(),
        packets in traffic(),
        loss in 0.0..1.0,
        dies_at in 0..200_usize,
    ) {
        let model = model
            .with_loss(Probability::new(loss).unwrap())
            .with_duplication(share(0.2))
            .with_policer(Rate::from_mbit(5), 20_000);
        let mut link = Link::new(model);
        let mut rng = random_stream(1, &["link"]);
        let mut under_way = Vec::new();
        for (number, (now, bytes)) in packets.iter().enumerate() {
            if number == dies_at {
                link.set_down();
            }
            if number == dies_at + 20 {
                link.set_up();
            }
            let passage = link.offer(*now, *bytes, &mut rng).ok();
            under_way.extend(passage.into_iter().flat_map(|passage| [Some(passage.transit), passage.copy]).flatten());
            prop_assert_eq!(link.counters().under_way(), under_way.len() as u64);
        }
        link.set_up();
        let delivered = under_way.into_iter().filter(|transit| link.deliver(*transit)).count();
        prop_assert_eq!(link.counters().under_way(), 0);
        prop_assert_eq!(link.counters().offered, packets.len() as u64);
        prop_assert_eq!(link.counters().delivered, delivered as u64);
    }
}

/// A link of 8 kbit/s without headers: one byte takes one millisecond.
fn byte_per_ms() -> LinkModel {
    LinkModel { header_bytes: 0, ..LinkModel::new(Rate::from_bits(8_000), Duration::ZERO) }
}

fn share(value: f64) -> Probability {
    Probability::new(value).unwrap()
}

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

#[test]
fn losses_come_as_often_as_asked() {
    let mut rng = random_stream(1, &["loss"]);
    for probability in [0.0, 0.01, 0.3, 1.0] {
        const PACKETS: u32 = 100_000;
        let model = LinkModel::new(Rate::from_bits(u64::MAX), ORIGIN)
            .with_loss(Probability::new(probability).unwrap())
            .with_queue_bytes(u64::MAX);
        let mut link = Link::new(model);
        for _ in 0..PACKETS {
            let _ = link.offer(ORIGIN, 1_000, &mut rng);
        }
        let share = link.counters().lost as f64 / f64::from(PACKETS);
        let deviation = (probability * (1.0 - probability) / f64::from(PACKETS)).sqrt();
        assert!((share - probability).abs() <= 4.0 * deviation, "{share} of {probability}");
    }
}

#[test]
fn a_lost_packet_has_taken_its_time_on_the_link() {
    let mut rng = random_stream(1, &[]);
    let mut link = Link::new(byte_per_ms().with_loss(Probability::ONE));
    assert_eq!(link.offer(ORIGIN, 10, &mut rng), Err(DropCause::Lost));
    link.set_model(byte_per_ms());
    assert_eq!(link.offer(ORIGIN, 10, &mut rng).unwrap().transit.arrives_at, ms(20));
}

#[test]
fn a_packet_costs_its_headers() {
    let mut rng = random_stream(1, &[]);
    let mut link = Link::new(LinkModel::new(Rate::from_bits(8_000), ORIGIN));
    assert_eq!(link.offer(ORIGIN, 72, &mut rng).unwrap().transit.arrives_at, ms(100));
}

#[test]
fn the_packet_being_sent_does_not_wait_any_more() {
    let mut rng = random_stream(1, &[]);
    let mut link = Link::new(byte_per_ms().with_queue_bytes(10));
    assert!(link.offer(ORIGIN, 10, &mut rng).is_ok());
    assert_eq!(link.queued_bytes(ORIGIN), 0);
    assert!(link.offer(ORIGIN, 10, &mut rng).is_ok());
    assert_eq!(link.queued_bytes(ORIGIN), 10);
    assert_eq!(link.offer(ORIGIN, 1, &mut rng), Err(DropCause::QueueFull));
    assert_eq!(link.queued_bytes(ms(10)), 0);
    assert!(link.offer(ms(10), 10, &mut rng).is_ok());
}

#[test]
fn what_is_queued_or_under_way_dies_with_the_link() {
    let mut rng = random_stream(1, &[]);
    let mut link = Link::new(byte_per_ms());
    let transits = [0, 1].map(|_| link.offer(ORIGIN, 10, &mut rng).unwrap().transit);
    link.set_down();
    assert_eq!(link.offer(ms(1), 10, &mut rng), Err(DropCause::Down));
    link.set_up();
    assert!(transits.into_iter().all(|transit| !link.deliver(transit)));
    assert_eq!(link.counters().dropped_down, 3);
    let fresh = link.offer(ms(5), 10, &mut rng).unwrap().transit;
    assert_eq!(fresh.arrives_at, ms(15), "the old queue is gone");
    assert!(link.deliver(fresh));
}

#[test]
fn new_parameters_count_for_packets_offered_later() {
    let mut rng = random_stream(1, &[]);
    let slow = LinkModel { delay: ms(100), ..byte_per_ms() };
    let fast = LinkModel { rate: Rate::from_bits(80_000), delay: ms(1), ..slow.clone() };
    let mut link = Link::new(slow);
    assert_eq!(link.offer(ORIGIN, 10, &mut rng).unwrap().transit.arrives_at, ms(110));
    link.set_model(fast);
    assert_eq!(link.offer(ORIGIN, 10, &mut rng).unwrap().transit.arrives_at, ms(110), "it overtakes nothing");
    assert_eq!(link.offer(ms(200), 10, &mut rng).unwrap().transit.arrives_at, ms(202));
}

#[test]
fn jitter_reorders_only_when_asked() {
    let is_sorted = |reorders| {
        let model = LinkModel::new(Rate::from_mbit(100), ms(5)).with_jitter(ms(5));
        let mut link = Link::new(if reorders { model.with_reordering() } else { model });
        let mut rng = random_stream(1, &[]);
        let arrivals =
            (0..100).map(|number| link.offer(ms(number), 100, &mut rng).unwrap().transit.arrives_at);
        arrivals.collect::<Vec<_>>().is_sorted()
    };
    assert!(is_sorted(false));
    assert!(!is_sorted(true));
}

/// A link that nothing queues on, for tests of what comes behind the queue.
fn wide() -> LinkModel {
    LinkModel::new(Rate::from_bits(u64::MAX), ORIGIN).with_queue_bytes(u64::MAX)
}

#[test]
fn bursts_have_the_loss_and_the_length_that_were_asked_for() {
    const PACKETS: u32 = 400_000;
    for (loss, mean_burst) in [(0.02, 8.0), (0.2, 1.5), (0.0, 4.0)] {
        let bursts = GilbertElliott::bursts(share(loss), mean_burst).unwrap();
        let mut link = Link::new(wide().with_loss_model(LossModel::GilbertElliott(bursts)));
        let mut rng = random_stream(3, &["bursts"]);
        let lost: Vec<bool> = (0..PACKETS).map(|_| link.offer(ORIGIN, 100, &mut rng).is_err()).collect();
        let bursts_seen = lost.chunk_by(|a, b| a == b).filter(|run| run[0]).count() as f64;
        let lost = lost.iter().filter(|lost| **lost).count() as f64;
        // The chain's autocorrelation r makes n packets worth n·(1−r)/(1+r) independent ones.
        let r = 1.0 - bursts.to_good.get() - bursts.to_bad.get();
        let deviation = (loss * (1.0 - loss) / f64::from(PACKETS) * (1.0 + r) / (1.0 - r)).sqrt();
        let seen = lost / f64::from(PACKETS);
        assert!((seen - loss).abs() <= 4.0 * deviation, "{seen} of {loss}");
        if loss > 0.0 {
            // Bursts are geometric, with a variance of mean·(mean − 1).
            let deviation = (mean_burst * (mean_burst - 1.0) / bursts_seen).sqrt();
            let seen = lost / bursts_seen;
            assert!((seen - mean_burst).abs() <= 4.0 * deviation, "{seen} of {mean_burst}");
        }
    }
}

#[test]
fn impossible_bursts_are_refused() {
    for (loss, mean_burst) in [(1.0, 8.0), (0.1, 0.5), (0.9, 2.0), (0.1, f64::NAN)] {
        assert!(GilbertElliott::bursts(share(loss), mean_burst).is_err(), "{loss} {mean_burst}");
    }
    assert!(GilbertElliott::bursts(share(0.9), 9.5).is_ok());
}

#[test]
fn a_loss_trace_is_played_over_and_over_and_keeps_its_place_when_something_else_changes() {
    let trace = wide().with_loss_model(LossModel::Trace("0100 1".parse().unwrap()));
    let mut link = Link::new(trace.clone());
    let mut rng = random_stream(1, &[]);
    let mut seen = String::new();
    for number in 0..12 {
        if number == 3 {
            link.set_model(LinkModel { delay: ms(1), ..trace.clone() });
        }
        seen.push(if link.offer(ms(number), 10, &mut rng).is_ok() { '0' } else { '1' });
    }
    assert_eq!(seen, "010010100101");
}

#[test]
fn what_is_no_loss_trace_is_refused_with_its_line() {
    let errors = ["", " \n", "0\n0x"].map(|text| text.parse::<netsim::LossTrace>().unwrap_err().to_string());
    assert!(errors[0].contains("without a packet") && errors[1] == errors[0], "{errors:?}");
    assert!(errors[2].contains("line 2") && errors[2].contains("'x'"), "{errors:?}");
}

#[test]
fn a_packet_held_back_is_overtaken_and_delays_no_other() {
    let model = wide().with_hold_back(share(0.1), ms(50));
    let arrivals: Vec<Duration> = {
        let mut link = Link::new(model);
        let mut rng = random_stream(1, &[]);
        (0..10_000).map(|n| link.offer(ms(n), 10, &mut rng).unwrap().transit.arrives_at - ms(n)).collect()
    };
    let late = arrivals.iter().filter(|delay| **delay >= ms(50)).count();
    assert!((880..1_120).contains(&late), "{late}");
    assert!(arrivals.iter().all(|delay| *delay < ms(1) || (ms(50)..ms(51)).contains(delay)));
}

#[test]
fn copies_and_flipped_bits_come_as_often_as_asked_and_are_counted() {
    const PACKETS: u32 = 20_000;
    let model = wide().with_duplication(share(0.1)).with_corruption(share(0.05));
    let mut link = Link::new(model);
    let mut rng = random_stream(1, &[]);
    let (mut copies, mut corrupted, mut places) = (0_u64, 0_u64, std::collections::BTreeSet::new());
    for _ in 0..PACKETS {
        let passage = link.offer(ORIGIN, 4, &mut rng).unwrap();
        copies += u64::from(passage.copy.is_some());
        for transit in [Some(passage.transit), passage.copy].into_iter().flatten() {
            let mut payload = [0_u8; 4];
            transit.corrupt(&mut payload);
            let payload = u32::from_le_bytes(payload);
            assert_eq!(payload.count_ones(), u32::from(transit.is_corrupted()));
            corrupted += u64::from(transit.is_corrupted());
            places.insert(payload);
            transit.corrupt(&mut []);
            assert!(link.deliver(transit));
        }
    }
    assert!((1_830..2_170).contains(&copies), "{copies}");
    assert!((970..1_230).contains(&corrupted), "{corrupted}");
    assert_eq!(places.len(), 33, "each of the 32 bits, and none");
    let counters = link.counters();
    assert_eq!((counters.duplicated, counters.corrupted), (copies, corrupted));
    assert_eq!((counters.delivered, counters.under_way()), (u64::from(PACKETS) + copies, 0));
}

#[test]
fn a_packet_that_is_larger_than_the_link_carries_is_dropped_and_counted() {
    let mut link = Link::new(LinkModel { header_bytes: 28, ..wide() }.with_largest_packet(1_400));
    let mut rng = random_stream(1, &[]);
    let mut passes = |bytes| link.offer(ORIGIN, bytes, &mut rng).map(|_| ());
    assert_eq!((passes(1_372), passes(1_373)), (Ok(()), Err(DropCause::TooLarge)));
    let counters = link.counters();
    assert_eq!((counters.too_large, counters.dropped(), counters.under_way()), (1, 1, 1));
}

#[test]
fn a_policer_lets_a_burst_pass_and_then_its_rate() {
    let mut link =
        Link::new(LinkModel { header_bytes: 0, ..wide() }.with_policer(Rate::from_bits(8_000), 100));
    let mut rng = random_stream(1, &[]);
    let mut passes = |now, bytes| link.offer(now, bytes, &mut rng).map(|_| ());
    assert_eq!(passes(ORIGIN, 101), Err(DropCause::Policed), "more than the bucket ever holds");
    assert_eq!(passes(ORIGIN, 60), Ok(()));
    assert_eq!(passes(ORIGIN, 40), Ok(()));
    assert_eq!(passes(ORIGIN, 1), Err(DropCause::Policed));
    assert_eq!(passes(ms(10), 11), Err(DropCause::Policed), "ten bytes have come in 10 ms");
    assert_eq!(passes(ms(10), 10), Ok(()));
    assert_eq!(passes(ms(1_000), 100), Ok(()));
    assert_eq!(passes(ms(1_000), 1), Err(DropCause::Policed), "a full bucket holds no more");
    assert_eq!(link.counters().policed, 4);
}

proptest! {
    #[test]
    fn a_policer_passes_what_a_token_bucket_in_real_numbers_would(
        packets in traffic(),
        bits in 100_000..20_000_000_u64,
        burst_bytes in 0..20_000_u64,
    ) {
        let model = wide().with_policer(Rate::from_bits(bits), burst_bytes);
        let (mut tokens, mut last) = (burst_bytes as f64, ORIGIN);
        let mut link = Link::new(model.clone());
        let mut rng = random_stream(1, &[]);
        for (now, bytes) in packets {
            tokens = (tokens + (now - last).as_secs_f64() * bits as f64 / 8.0).min(burst_bytes as f64);
            last = now;
            let cost = model.wire_bytes(bytes) as f64;
            let passed = link.offer(now, bytes, &mut rng).is_ok();
            // Times are whole nanoseconds: a decision by less than a token may fall either way.
            prop_assert!(passed == (cost <= tokens) || (cost - tokens).abs() < 1.0, "{cost} of {tokens}");
            if passed {
                tokens -= cost;
            }
        }
    }
}
