//! The thesis's claim on packets, on one small network; `fec-testbed failures` tries it on as many as wanted.

use std::num::NonZeroU32;

use fec_testbed::failures::{Row, Sample, Settings, run};
use fec_transport::config::Spreading;

fn rows(layers: &[u32], settings: &Settings) -> Vec<Row> {
    let sample = Sample::draw(1, 0, 40, 7.6).expect("such networks exist");
    let row = |layer: &u32| run(&sample, NonZeroU32::new(*layer).expect("from 1 on"), settings);
    layers.iter().map(|layer| row(layer).expect("the session lives on")).collect()
}

#[test]
fn what_failures_cost_with_random_spreading_is_what_ror_says() {
    let settings = Settings::default();
    for row in rows(&[1, 4], &settings) {
        let ratio = row.sent / row.ror;
        assert!(row.ror > 1.0 && (0.7..1.3).contains(&ratio), "{row:?}");
        // FEC(20, 5.7 %) and nothing else while nothing fails.
        assert_eq!(row.usual_symbols, 29.0);
        // Nine seconds of ten blocks each are late.
        let late = 90 * row.failures as u64;
        assert!(row.late_lost == 0 && row.late_blocks >= late - row.failures as u64, "{row:?}");
    }
}

#[test]
fn with_quotas_the_same_tolerance_bears_most_failures_for_nothing() {
    let settings = Settings { spread: Spreading::Quotas, ..Settings::default() };
    for row in rows(&[4], &settings) {
        assert!(row.sent < 0.1 * row.ror && row.late_lost == 0, "{row:?}");
    }
}
