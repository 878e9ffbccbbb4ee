//! One direction of a link against a naive oracle.

use std::time::Duration;

use netsim::{DropCause, Link, LinkModel, Probability, Rate, random_stream};
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
        .map(|&(now, bytes)| link.offer(now, bytes, &mut rng).map(|transit| transit.arrives_at))
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
        let mut link = Link::new(model.with_loss(Probability::new(loss).unwrap()));
        let mut rng = random_stream(1, &["link"]);
        let mut under_way = Vec::new();
        for (number, (now, bytes)) in packets.iter().enumerate() {
            if number == dies_at {
                link.set_down();
            }
            if number == dies_at + 20 {
                link.set_up();
            }
            under_way.extend(link.offer(*now, *bytes, &mut rng).ok());
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
    assert_eq!(link.offer(ORIGIN, 10, &mut rng).unwrap().arrives_at, ms(20));
}

#[test]
fn a_packet_costs_its_headers() {
    let mut rng = random_stream(1, &[]);
    let mut link = Link::new(LinkModel::new(Rate::from_bits(8_000), ORIGIN));
    assert_eq!(link.offer(ORIGIN, 72, &mut rng).unwrap().arrives_at, ms(100));
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
    let transits = [0, 1].map(|_| link.offer(ORIGIN, 10, &mut rng).unwrap());
    link.set_down();
    assert_eq!(link.offer(ms(1), 10, &mut rng), Err(DropCause::Down));
    link.set_up();
    assert!(transits.into_iter().all(|transit| !link.deliver(transit)));
    assert_eq!(link.counters().dropped_down, 3);
    let fresh = link.offer(ms(5), 10, &mut rng).unwrap();
    assert_eq!(fresh.arrives_at, ms(15), "the old queue is gone");
    assert!(link.deliver(fresh));
}

#[test]
fn new_parameters_count_for_packets_offered_later() {
    let mut rng = random_stream(1, &[]);
    let slow = LinkModel { delay: ms(100), ..byte_per_ms() };
    let fast = LinkModel { rate: Rate::from_bits(80_000), delay: ms(1), ..slow.clone() };
    let mut link = Link::new(slow);
    assert_eq!(link.offer(ORIGIN, 10, &mut rng).unwrap().arrives_at, ms(110));
    link.set_model(fast);
    assert_eq!(link.offer(ORIGIN, 10, &mut rng).unwrap().arrives_at, ms(110), "it overtakes nothing");
    assert_eq!(link.offer(ms(200), 10, &mut rng).unwrap().arrives_at, ms(202));
}

#[test]
fn jitter_reorders_only_when_asked() {
    let is_sorted = |reorders| {
        let model = LinkModel::new(Rate::from_mbit(100), ms(5)).with_jitter(ms(5));
        let mut link = Link::new(if reorders { model.with_reordering() } else { model });
        let mut rng = random_stream(1, &[]);
        let arrivals = (0..100).map(|number| link.offer(ms(number), 100, &mut rng).unwrap().arrives_at);
        arrivals.collect::<Vec<_>>().is_sorted()
    };
    assert!(is_sorted(false));
    assert!(!is_sorted(true));
}
