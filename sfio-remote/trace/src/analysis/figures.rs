//! The study's figures as curves.

use super::{ByClass, Distribution, Report};

/// A figure: what its axes mean, and its curves.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// A name for files: "written-sizes".
    pub name: &'static str,
    /// What it shows, and its numbers in the study.
    pub title: &'static str,
    /// What the horizontal axis means.
    pub x: &'static str,
    /// How it is divided.
    pub axis: Axis,
    /// What the vertical axis, from 0 to 100, means.
    pub y: &'static str,
    /// The curves.
    pub series: Vec<Series>,
}

/// How the horizontal axis of a figure is divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Axis {
    /// Sizes, by powers of two.
    Size,
    /// Exponents of ten.
    Exponent,
    /// Percentages.
    Percent,
}

/// A curve.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// What it shows.
    pub name: &'static str,
    /// Its points: a value and a percentage.
    pub points: Vec<(f64, f64)>,
    /// Whether it is dashed.
    pub dashed: bool,
}

/// Points of a curve at most, so that pictures stay small; the eye sees no more.
const POINTS: usize = 800;

/// Every figure of the study of which there is something, and a histogram of request sizes.
pub fn figures(report: &Report) -> Vec<Figure> {
    let mut figures = vec![
        sizes("nodes", "Nodes of jobs (Figures 1 and 2)", "nodes", "% of the jobs", &report.nodes),
        times(
            "durations",
            "Durations of jobs (Figures 3 and 4)",
            "% of the jobs",
            [("jobs", &report.duration_us)],
        ),
        sizes(
            "file-sizes",
            "Sizes of files (Figures 5 and 6)",
            "bytes",
            "% of the files",
            &report.size_bytes,
        ),
        times(
            "open-times",
            "How long files were open (Figures 7 and 8)",
            "% of the files",
            [("files", &report.open_us)],
        ),
    ];
    figures.extend(request_figures(report));
    figures.retain(|figure| figure.series.iter().any(|series| !series.points.is_empty()));
    figures
}

/// What is asked of files.
fn request_figures(report: &Report) -> Vec<Figure> {
    vec![
        both("written-sizes", "Writes by size (Figures 9 and 10)", &report.write_bytes),
        both("read-sizes", "Reads by size (Figures 11 and 12)", &report.read_bytes),
        shares(
            "sequential",
            "Sequential requests (Figures 13 and 14)",
            "% of a file's requests that are sequential",
            &report.sequential,
        ),
        shares(
            "consecutive",
            "Consecutive requests (Figures 15 and 16)",
            "% of a file's requests that are consecutive",
            &report.consecutive,
        ),
        times(
            "reuse",
            "Time between accesses to a block (Figures 17 and 18)",
            "% of the repeated accesses",
            [("reads", &report.reread_us), ("writes", &report.rewrite_us)],
        ),
        sharing_figure(report),
        histogram(report),
    ]
}

/// Tables 10 and 11 as cumulated shares.
fn sharing_figure(report: &Report) -> Figure {
    let curve = |name, counts: &[u64; 6], dashed| {
        let sum = counts.iter().sum::<u64>().max(1) as f64;
        let mut reached = 0;
        let points = [0.0, 1.0, 50.0, 99.0, 100.0, 100.0].iter().zip(counts);
        let points = points.map(|(x, count)| {
            reached += count;
            (*x, 100.0 * reached as f64 / sum)
        });
        let points = if counts.iter().all(|count| *count == 0) { Vec::new() } else { points.collect() };
        Series { name, points, dashed }
    };
    let (bytes, blocks) = (&report.byte_sharing, &report.block_sharing);
    Figure {
        name: "sharing",
        title: "Sharing within jobs (Tables 10 and 11)",
        x: "% of a file that is shared",
        axis: Axis::Percent,
        y: "% of the files, up to here",
        series: vec![
            curve("read, bytes", &bytes.read, false),
            curve("read, blocks", &blocks.read, true),
            curve("written, bytes", &bytes.written, false),
            curve("written, blocks", &blocks.written, true),
            curve("both, bytes", &bytes.both, false),
            curve("both, blocks", &blocks.both, true),
        ],
    }
}

fn histogram(report: &Report) -> Figure {
    let mut series = Vec::new();
    for (names, sizes) in [
        (["writes, by count", "writes, by bytes"], &report.write_bytes),
        (["reads, by count", "reads, by bytes"], &report.read_bytes),
    ] {
        let [count, bytes] = steps(sizes);
        series.push(Series { name: names[0], points: count, dashed: false });
        series.push(Series { name: names[1], points: bytes, dashed: true });
    }
    series.retain(|series| !series.points.is_empty());
    Figure {
        name: "size-histogram",
        title: "Request sizes by count and by bytes",
        x: "bytes of a request",
        axis: Axis::Size,
        y: "% of the requests, or of the bytes",
        series,
    }
}

/// Outlines of bars, one for each power of two: by count and by weight.
fn steps(sizes: &Distribution) -> [Vec<(f64, f64)>; 2] {
    let exponents = || sizes.cells().map(|(value, _, _)| value.max(1).ilog2());
    let (Some(first), Some(last)) = (exponents().min(), exponents().max()) else { return Default::default() };
    let edge = |exponent: u32| 2_f64.powi(exponent as i32);
    let mut outlines = [vec![(edge(first), 0.0)], vec![(edge(first), 0.0)]];
    for exponent in first..=last {
        let low = if exponent == 0 { 0 } else { 1_u64 << exponent };
        let high = 1_u64.checked_shl(exponent + 1).map_or(u64::MAX, |end| end.wrapping_sub(1));
        let shares = [sizes.share(low..=high), sizes.weight_share(low..=high)];
        for (outline, share) in outlines.iter_mut().zip(shares) {
            outline.extend([(edge(exponent), 100.0 * share), (edge(exponent + 1), 100.0 * share)]);
        }
    }
    outlines.iter_mut().for_each(|outline| outline.push((edge(last + 1), 0.0)));
    outlines
}

/// The points of a curve that rises from 0 to 100, as steps, of `value(x)` over the shares.
fn rising(points: impl Iterator<Item = (f64, f64)>) -> Vec<(f64, f64)> {
    let all: Vec<(f64, f64)> = points.collect();
    let every = all.len().div_ceil(POINTS).max(1);
    let last = all.len().saturating_sub(1);
    let kept = all.iter().enumerate().filter(|(index, _)| index % every == 0 || *index == last);
    let mut steps = Vec::new();
    let mut reached = 0.0;
    for (_, (x, share)) in kept {
        steps.extend([(*x, reached), (*x, 100.0 * share)]);
        reached = 100.0 * share;
    }
    steps
}

fn by_count(distribution: &Distribution, x: impl Fn(u64) -> f64) -> Vec<(f64, f64)> {
    rising(distribution.cumulative().map(|(value, count, _)| (x(value), count)))
}

fn as_size(value: u64) -> f64 {
    value.max(1) as f64
}

fn sizes(
    name: &'static str,
    title: &'static str,
    x: &'static str,
    y: &'static str,
    of: &Distribution,
) -> Figure {
    let series = vec![Series { name: x, points: by_count(of, as_size), dashed: false }];
    Figure { name, title, x, axis: Axis::Size, y, series }
}

fn times<const N: usize>(
    name: &'static str,
    title: &'static str,
    y: &'static str,
    of: [(&'static str, &Distribution); N],
) -> Figure {
    let exponent = |us: u64| (us.max(1) as f64 / 1e6).log10();
    let series = of.map(|(name, times)| Series { name, points: by_count(times, exponent), dashed: false });
    let series = series.into_iter().filter(|series| !series.points.is_empty()).collect();
    Figure { name, title, x: "seconds, as powers of ten (3 is 1,000 s)", axis: Axis::Exponent, y, series }
}

fn both(name: &'static str, title: &'static str, of: &Distribution) -> Figure {
    let weighted = rising(of.cumulative().map(|(value, _, weight)| (as_size(value), weight)));
    let series = vec![
        Series { name: "by count", points: by_count(of, as_size), dashed: false },
        Series { name: "by bytes", points: weighted, dashed: true },
    ];
    Figure {
        name,
        title,
        x: "bytes of a request",
        axis: Axis::Size,
        y: "% of the requests, or of the bytes",
        series,
    }
}

fn shares(name: &'static str, title: &'static str, x: &'static str, of: &ByClass<Distribution>) -> Figure {
    let percent = |hundredths: u64| hundredths as f64 / 100.0;
    let classes =
        [("read-only files", &of.read), ("write-only files", &of.written), ("read-write files", &of.both)];
    let series = classes.map(|(name, shares)| {
        let mut points = by_count(shares, percent);
        // Shares go from 0 to 100 whether or not a file has them.
        if let (Some(first), Some(last)) = (points.first().copied(), points.last().copied()) {
            points.insert(0, (0.0, first.1));
            points.push((100.0, last.1));
        }
        Series { name, points, dashed: false }
    });
    let series = series.into_iter().filter(|series| !series.points.is_empty()).collect();
    Figure { name, title, x, axis: Axis::Percent, y: "% of the files", series }
}
