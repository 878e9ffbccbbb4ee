//! How much the rule of `sfio_remote::compression` loses against the best codec, and against none.
//!
//! ```text
//! cargo bench -p sfio-remote --bench compression -- [--quick] [--markdown]
//! ```
//!
//! First every codec packs and unpacks each kind of data on this machine, frame by frame. Then a payload of five
//! seconds at the rate of each network travels in virtual time: processors pack frames ahead, a queue in front of a
//! link of that rate, others unpack at its end; each step takes what was measured. It travels once with each fixed
//! codec and once with the rule, which sees the link as `Pressure` sees a session and learns from the same
//! measurements.

use std::collections::VecDeque;
use std::time::Duration;

use fec_transport::{SessionId, Time};
use rustix::time::{ClockId, clock_gettime};
use sfio_remote::compression::pressure::Pressure;
use sfio_remote::compression::rule::{CANDIDATES, Choice};
use sfio_remote::compression::{Circumstances, Codec, Coder, MAX_FRAME_BYTES, Packing, Rule, Trial};
use sfio_remote::sim::Dice;
use sfio_remote::transport::Flow;

/// Networks by their rate in Mbit/s.
const NETWORKS: [(&str, f64); 3] = [("10 Mbit/s", 10.0), ("100 Mbit/s", 100.0), ("1000 Mbit/s", 1_000.0)];
/// Processors that pack at the one end, and unpack at the other.
const PROCESSORS: usize = 2;
const ROUND_TRIP: Duration = Duration::from_millis(10);
/// For how long a payload travels as it is.
const SECONDS: f64 = 5.0;
/// Different frames of each kind; a payload has them in turn.
const FRAMES: usize = 24;
/// Frames that are made ahead, over all transfers of a client.
const AHEAD: usize = 32;
const SAMPLE: usize = 64 << 10;
const STEP: Duration = Duration::from_micros(100);
/// What a session may send at first where round trips are as short as here, in bytes per second.
const FIRST_RATE: f64 = 1e6;
/// It doubles that when so many bytes, 64 packets, have arrived that were sent at its rate.
const DOUBLING: f64 = 64.0 * 1_200.0;

/// What each candidate does with one frame, and with a sample of it.
#[derive(Clone, Copy)]
struct Measured {
    frame: [Trial; CANDIDATES.len()],
    sample: [Trial; CANDIDATES.len()],
}

/// How bytes are sent.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    Fixed(usize),
    Rule,
}

fn random(dice: &mut Dice, length: usize) -> Vec<u8> {
    (0..length).map(|_| dice.below(256) as u8).collect()
}

/// As the paper's integers: 32 bits each, of which about a half is left.
fn integers(dice: &mut Dice, length: usize) -> Vec<u8> {
    (0..length / 4).flat_map(|_| (dice.below(4_000) as u32).to_le_bytes()).collect()
}

/// As the paper's floats: 64 bits each of a smooth field, of which some three quarters are left: the lowest 12 bits are
/// no part of what was measured.
fn floats(dice: &mut Dice, length: usize) -> Vec<u8> {
    let mut place = 0.0_f64;
    let mut value = |dice: &mut Dice| {
        place += 1e-3;
        let field = place.sin() * 100.0 + dice.below(1_000_000) as f64 * 1e-6;
        f64::from_bits(field.to_bits() & !0xfff).to_le_bytes()
    };
    (0..length / 8).flat_map(|_| value(dice)).collect()
}

fn text(dice: &mut Dice, length: usize) -> Vec<u8> {
    let book = include_str!("../../docs/design.md").as_bytes();
    pieces(book, 40, dice, length)
}

fn source(dice: &mut Dice, length: usize) -> Vec<u8> {
    let code = include_str!("../src/io/replication/planting.rs").as_bytes();
    pieces(code, 120, dice, length)
}

/// Pieces of a model of up to so many bytes, from anywhere in it: as much like it as it is like itself, and no longer
/// repetitions than a language has.
fn pieces(model: &[u8], longest: usize, dice: &mut Dice, length: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(length + longest);
    while bytes.len() < length {
        let from = dice.below(model.len() - longest);
        let piece = &model[from..from + 5 + dice.below(longest - 5)];
        bytes.extend_from_slice(piece);
    }
    bytes.truncate(length);
    bytes
}

/// Integers of which so many tenths are zero, in runs as at the borders of a mesh.
fn zeros(tenths: u64) -> impl Fn(&mut Dice, usize) -> Vec<u8> {
    move |dice, length| {
        let mut bytes = integers(dice, length);
        for run in bytes.chunks_mut(400) {
            if (dice.below(10) as u64) < tenths {
                run.fill(0);
            }
        }
        bytes
    }
}

type Make = Box<dyn Fn(&mut Dice, usize) -> Vec<u8>>;

fn kinds() -> Vec<(String, Make)> {
    let named: [(&str, Make); 5] = [
        ("random", Box::new(random)),
        ("ints", Box::new(integers)),
        ("floats", Box::new(floats)),
        ("text", Box::new(text)),
        ("source", Box::new(source)),
    ];
    let named = named.into_iter().map(|(name, make)| (name.to_owned(), make));
    named
        .chain((0..=10).map(|tenths| (format!("zeros {} %", tenths * 10), Box::new(zeros(tenths)) as Make)))
        .collect()
}

/// For how long this thread was on a processor.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// What a codec does with some bytes: the faster of two turns, so that what others take of the processor counts less.
fn measure(coder: &mut Coder, codec: Codec, plain: &[u8]) -> Trial {
    let mut best: Option<Trial> = None;
    for _ in 0..2 {
        let began = processor_time();
        let packed = coder.pack(codec, plain);
        let packing = processor_time() - began;
        let began = processor_time();
        let unpacked = packed.as_ref().map(|packed| coder.unpack(codec.format(), packed, plain.len()));
        let unpacking = unpacked.is_some().then(|| processor_time() - began);
        assert!(unpacked.is_none_or(|unpacked| unpacked.is_ok_and(|bytes| bytes == plain)), "{codec}");
        let length = packed.map_or(plain.len(), |packed| packed.len());
        let packing = if codec == Codec::Plain { Duration::ZERO } else { packing };
        let trial = Trial { codec, plain: plain.len(), packed: length, packing, unpacking };
        best = Some(best.filter(|best| best.packing <= trial.packing).unwrap_or(trial));
    }
    best.expect("two turns")
}

fn measure_kind(make: &Make, frames: usize) -> Vec<Measured> {
    let (mut dice, mut coder) = (Dice::new(7), Coder::default());
    let frame = |_| {
        let plain = make(&mut dice, MAX_FRAME_BYTES);
        Measured {
            frame: CANDIDATES.map(|codec| measure(&mut coder, codec, &plain)),
            sample: CANDIDATES.map(|codec| measure(&mut coder, codec, &plain[..SAMPLE])),
        }
    };
    (0..frames).map(frame).collect()
}

/// What a session may send: its rate doubles until the link is full.
struct Start {
    /// In bytes per second.
    rate: f64,
    /// What was sent since it was doubled.
    sent: f64,
    doubled: Time,
    is_over: bool,
}

impl Start {
    fn new() -> Start {
        Start { rate: FIRST_RATE, sent: 0.0, doubled: Time::ZERO, is_over: false }
    }

    /// What may be sent, of what the link carries.
    fn allowed(&self, link: f64) -> f64 {
        if self.is_over { link } else { self.rate.min(link) }
    }

    /// So many bytes were sent; what left a round trip ago has been reported.
    fn sent(&mut self, now: Time, bytes: f64, link: f64) {
        self.sent += bytes;
        let took = now.since(self.doubled).as_secs_f64();
        let is_told = took >= (DOUBLING / self.rate).max(0.02) + ROUND_TRIP.as_secs_f64();
        if self.is_over || !is_told {
            return;
        }
        // A session that sends less than it may does not double.
        if self.sent > 0.8 * self.rate * took {
            self.rate *= 2.0;
            self.is_over = self.rate >= link;
        }
        (self.sent, self.doubled) = (0.0, now);
    }
}

/// One way from a sender to a receiver.
struct Pipeline<'a> {
    data: &'a [Measured],
    way: Way,
    /// Bytes per second, now and from a time on.
    rates: [(Time, f64); 2],
    start: Start,
    now: Time,
    rule: Rule,
    pressure: Pressure,
    /// When each processor that packs, and that unpacks, has nothing to do.
    packers: [Time; PROCESSORS],
    unpackers: [Time; PROCESSORS],
    /// Frames in order: when each is packed, its plain and its packed bytes, how long it takes to unpack.
    made: VecDeque<Frame>,
    /// What waits in front of the link and is on it, in bytes.
    queue: VecDeque<Frame>,
    unsent: f64,
    /// When bytes are acknowledged.
    on_their_way: VecDeque<(Time, f64)>,
    acknowledged: f64,
    trials: Vec<(Time, Vec<Trial>)>,
    left: usize,
    number: usize,
    arrived: Time,
    /// By whom frames were packed, with the time at which they were made.
    chosen: Vec<(Time, Codec)>,
}

#[derive(Clone, Copy)]
struct Frame {
    ready: Time,
    packed: f64,
    unpacking: Duration,
}

impl<'a> Pipeline<'a> {
    fn new(data: &'a [Measured], way: Way, rate: f64, frames: usize) -> Pipeline<'a> {
        Pipeline {
            data,
            way,
            rates: [(Time::ZERO, rate); 2],
            start: Start::new(),
            now: Time::ZERO,
            rule: Rule::default(),
            pressure: Pressure::default(),
            packers: [Time::ZERO; PROCESSORS],
            unpackers: [Time::ZERO; PROCESSORS],
            made: VecDeque::new(),
            queue: VecDeque::new(),
            unsent: 0.0,
            on_their_way: VecDeque::new(),
            acknowledged: 0.0,
            trials: Vec::new(),
            left: frames,
            number: 0,
            arrived: Time::ZERO,
            chosen: Vec::new(),
        }
    }

    /// When the last byte is there.
    fn run(&mut self) -> f64 {
        while self.left > 0 || !self.made.is_empty() || !self.queue.is_empty() {
            self.learn();
            while self.left > 0 && self.has_room() && self.make_frame() {}
            while let Some(frame) = self.made.front().copied().filter(|frame| frame.ready <= self.now) {
                self.made.pop_front();
                self.unsent += frame.packed;
                self.queue.push_back(frame);
            }
            self.carry();
            self.now += STEP;
        }
        self.arrived.since(Time::ZERO).as_secs_f64()
    }

    /// Frames may be made, and there are not yet as many jobs in front of the processors as there are processors.
    fn has_room(&self) -> bool {
        let unfinished = self.made.iter().filter(|frame| frame.ready > self.now).count();
        self.made.len() < AHEAD && unfinished < 2 * PROCESSORS
    }

    fn rate(&self) -> f64 {
        self.rates.iter().rev().find(|(from, _)| *from <= self.now).map_or(0.0, |(_, rate)| *rate)
    }

    /// The link carries what one step allows.
    fn carry(&mut self) {
        let whole = self.start.allowed(self.rate()) * STEP.as_secs_f64();
        let mut budget = whole;
        while let Some(frame) = self.queue.front_mut().filter(|_| budget > 0.0) {
            let sent = frame.packed.min(budget);
            (frame.packed, budget, self.unsent) = (frame.packed - sent, budget - sent, self.unsent - sent);
            self.on_their_way.push_back((self.now + ROUND_TRIP, sent));
            if frame.packed <= 0.0 {
                let unpacking = frame.unpacking;
                self.queue.pop_front();
                let there = self.now + ROUND_TRIP / 2;
                self.arrived = self.arrived.max(occupy(&mut self.unpackers, there, unpacking));
            }
        }
        self.start.sent(self.now, whole - budget, self.rate());
        while let Some((_, bytes)) = self.on_their_way.front().copied().filter(|(at, _)| *at <= self.now) {
            self.on_their_way.pop_front();
            self.acknowledged += bytes;
        }
    }

    fn flow(&self) -> Flow {
        let on_their_way: f64 = self.on_their_way.iter().map(|(_, bytes)| bytes).sum();
        Flow {
            send_bps: 8.0 * self.start.allowed(self.rate()),
            is_starting: !self.start.is_over,
            round_trip: ROUND_TRIP,
            acknowledged_bytes: self.acknowledged as u64,
            held_bytes: (self.unsent + on_their_way) as u64,
            ..Flow::default()
        }
    }

    fn learn(&mut self) {
        let (due, later) = std::mem::take(&mut self.trials).into_iter().partition(|(at, _)| *at <= self.now);
        self.trials = later;
        let due: Vec<(Time, Vec<Trial>)> = due;
        due.iter().for_each(|(_, trials)| self.rule.tried("s", trials));
    }

    /// Makes the next frame, unless it has to wait.
    fn make_frame(&mut self) -> bool {
        let index = match self.way {
            Way::Fixed(index) => index,
            Way::Rule => match self.choose() {
                Some(index) => index,
                None => return false,
            },
        };
        let trial = self.data[self.number % self.data.len()].frame[index];
        let ready = match CANDIDATES[index] {
            Codec::Plain => self.now,
            _ => occupy(&mut self.packers, self.now, trial.packing),
        };
        if CANDIDATES[index] != Codec::Plain {
            // It is known once the job has ended; a little early, as is what the queue of jobs hides.
            self.rule.learned("s", &Trial { unpacking: None, ..trial });
        }
        let unpacking = trial.unpacking.unwrap_or_default();
        self.made.push_back(Frame { ready, packed: trial.packed as f64 + 12.0, unpacking });
        self.chosen.push((self.now, CANDIDATES[index]));
        (self.left, self.number) = (self.left - 1, self.number + 1);
        true
    }

    fn choose(&mut self) -> Option<usize> {
        let flow = self.flow();
        self.pressure.look(self.now, SessionId(1), || flow);
        if self.pressure.is_full() {
            return None;
        }
        let circumstances = Circumstances {
            rate_bps: self.pressure.rate_bps(),
            network_waits: self.pressure.waits(),
            idle_processors: PROCESSORS as f64,
        };
        match self.rule.choose("s", Packing::AUTO, &circumstances) {
            Choice::Later => None,
            Choice::Try(codecs) => {
                self.try_codecs(&codecs);
                None
            }
            Choice::Frame { codec, trial, .. } => {
                if !trial.is_empty() {
                    self.try_codecs(&trial);
                }
                CANDIDATES.iter().position(|candidate| *candidate == codec)
            }
        }
    }

    /// The first trial is one of a sample, later ones are of frames.
    fn try_codecs(&mut self, codecs: &[Codec]) {
        let data = &self.data[self.number % self.data.len()];
        let sample = if self.number == 0 { &data.sample } else { &data.frame };
        let mut trials: Vec<Trial> =
            sample.iter().filter(|trial| codecs.contains(&trial.codec)).copied().collect();
        if let Some(enough) = (1..trials.len()).find(|count| Trial::are_enough(&trials[..*count])) {
            trials.truncate(enough);
        }
        let takes = trials.iter().map(|trial| trial.packing + trial.unpacking.unwrap_or_default()).sum();
        let ends = occupy(&mut self.packers, self.now, takes);
        self.trials.push((ends, trials));
    }
}

/// Gives work to the processor that is free first; tells when it is done.
fn occupy(processors: &mut [Time; PROCESSORS], from: Time, work: Duration) -> Time {
    let first = processors.iter_mut().min().expect("there are some");
    *first = (*first).max(from) + work;
    *first
}

fn main() {
    let quick = std::env::args().any(|argument| argument == "--quick");
    let seconds = if quick { 1.0 } else { SECONDS };
    let (mut worst_of_best, mut worst_of_never) = (0.0_f64, 0.0_f64);
    println!("| data | network | never s | best s | by | auto s | auto / best | auto / never |");
    println!("|---|---|---|---|---|---|---|---|");
    for (name, make) in kinds() {
        let data = measure_kind(&make, if quick { 6 } else { FRAMES });
        for (network, mbit) in NETWORKS {
            let rate = mbit * 1e6 / 8.0;
            let frames = ((rate * seconds) as usize).div_ceil(MAX_FRAME_BYTES);
            let time = |way| Pipeline::new(&data, way, rate, frames).run();
            let fixed: Vec<f64> = (0..CANDIDATES.len()).map(|index| time(Way::Fixed(index))).collect();
            let (best, least) =
                fixed.iter().enumerate().min_by(|one, other| one.1.total_cmp(other.1)).expect("some");
            let auto = time(Way::Rule);
            let (of_best, of_never) = (auto / least, auto / fixed[0]);
            (worst_of_best, worst_of_never) = (worst_of_best.max(of_best), worst_of_never.max(of_never));
            println!(
                "| {name} | {network} | {:.2} | {least:.2} | {} | {auto:.2} | {of_best:.3} | {of_never:.3} |",
                fixed[0], CANDIDATES[best]
            );
        }
    }
    println!("\nworst of all: {worst_of_best:.3} of the best, {worst_of_never:.3} of never");
    change_of_rate();
}

/// Text, over a network whose rate is a hundred times as high from the tenth second on: when the codec is right again.
fn change_of_rate() {
    let make: Make = Box::new(text);
    let data = measure_kind(&make, 6);
    let mut pipeline = Pipeline::new(&data, Way::Rule, 1.25e6, 6_000);
    let change = Time::ZERO + Duration::from_secs(10);
    pipeline.rates[1] = (change, 125e6);
    pipeline.run();
    let before = pipeline.chosen.iter().rev().find(|(at, _)| *at < change).map(|(_, codec)| *codec);
    let last = pipeline.chosen.last().map(|(_, codec)| *codec);
    let settled = pipeline.chosen.iter().find(|(at, codec)| *at >= change && Some(*codec) == last);
    println!(
        "text, 10 Mbit/s and then 1000: {} before, {} in the end, for the first time {:.2} s after the change",
        before.map_or_else(String::new, |codec| codec.to_string()),
        last.map_or_else(String::new, |codec| codec.to_string()),
        settled.map_or(f64::NAN, |(at, _)| at.since(change).as_secs_f64())
    );
}
