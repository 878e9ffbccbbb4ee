//! How a decoder is tried: with changed inputs, for a number of rounds or for a time, and with a bound on its memory.
//! The tests of sfio-remote's decoders share it.

use std::time::{Duration, Instant};

use fec_transport::fuzzing::Mutator;
use peak_alloc::PeakAlloc;

#[global_allocator]
static ALLOCATED: PeakAlloc = PeakAlloc;

/// What an input of so many bytes may take at once; the largest factor is that of text, whose values are small.
fn bound(length: usize) -> usize {
    (64 << 10) + 200 * length
}

/// Inputs of each decoder where nobody asks for a time.
const ROUNDS: u64 = 3_000;
/// What may be left in the end, for all inputs together.
const LEFT: usize = 64 << 10;

/// For how long each decoder is to be tried, if somebody says so: `DECODER_SECONDS=600`.
fn asked_time() -> Option<Duration> {
    let seconds = std::env::var("DECODER_SECONDS").ok()?;
    let seconds =
        seconds.parse().unwrap_or_else(|_| panic!("DECODER_SECONDS is {seconds}; expected a number"));
    Some(Duration::from_secs(seconds))
}

/// Whether that decoder is asked for: all are, unless `DECODER` names one.
fn is_asked(name: &str) -> bool {
    std::env::var("DECODER").map_or(true, |asked| asked == name)
}

/// Gives a decoder inputs; it must not panic, nor take or keep more memory than an input of that length may.
#[expect(clippy::disallowed_methods, reason = "whoever asks for a time gets it")]
pub(crate) fn try_decoder(name: &str, seeds: Vec<Vec<u8>>, mut decode: impl FnMut(&[u8])) {
    if !is_asked(name) {
        return;
    }
    let (began, mut rounds, mut peak) = (Instant::now(), 0_u64, 0);
    let mut mutator = Mutator::new(seeds, asked_time().map_or(1, |_| u64::from(std::process::id())));
    mutator.next_input();
    let at_start = ALLOCATED.current_usage();
    let is_over = |rounds: u64| match asked_time() {
        Some(time) => rounds.is_multiple_of(64) && began.elapsed() >= time,
        None => rounds >= ROUNDS,
    };
    while !is_over(rounds) {
        let input = mutator.next_input();
        let before = ALLOCATED.current_usage();
        ALLOCATED.reset_peak_usage();
        decode(input);
        let taken = ALLOCATED.peak_usage().saturating_sub(before);
        assert!(taken <= bound(input.len()), "{name}: {taken} bytes for {input:02x?}");
        peak = peak.max(taken);
        rounds += 1;
    }
    let left = ALLOCATED.current_usage().saturating_sub(at_start);
    println!("{name}: {rounds} inputs in {:?}, at most {peak} bytes at once, {left} left", began.elapsed());
    assert!(left <= LEFT, "{name} kept {left} bytes");
}
