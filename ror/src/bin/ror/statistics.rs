//! Means, deviations and confidence intervals over independent sweep runs.

/// Mean and spread of numbers that come one by one (Welford 1962): no number is kept.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Moments {
    count: u64,
    mean: f64,
    squares: f64,
}

impl Moments {
    pub(crate) fn add(&mut self, value: f64) {
        self.count += 1;
        let before = value - self.mean;
        self.mean += before / self.count as f64;
        self.squares += before * (value - self.mean);
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    pub(crate) fn mean(&self) -> f64 {
        self.mean
    }

    /// The standard deviation of the population that the numbers are a sample of; `None` for fewer than two.
    pub(crate) fn deviation(&self) -> Option<f64> {
        (self.count > 1).then(|| (self.squares / (self.count - 1) as f64).sqrt())
    }

    /// Half the width of the 95 % confidence interval of the mean, by Student's distribution.
    fn interval(&self) -> Option<f64> {
        let freedom = self.count.checked_sub(1)?;
        Some(student_quantile(freedom) * self.deviation()? / (self.count as f64).sqrt())
    }
}

/// A quantity over samples that belong to sweep runs. Samples of one run, which are frames of one walk, depend on one
/// another; runs do not. So the interval is that of the means of the runs.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Estimate {
    samples: Moments,
    runs: Moments,
    /// The samples of the run that is under way.
    run: Moments,
    current: i64,
}

impl Estimate {
    /// Adds a sample of a run; the samples of a run come together.
    pub(crate) fn add(&mut self, run: i64, value: f64) {
        if run != self.current {
            self.end_run();
            self.current = run;
        }
        self.samples.add(value);
        self.run.add(value);
    }

    fn end_run(&mut self) {
        if self.run.count() > 0 {
            self.runs.add(self.run.mean());
            self.run = Moments::default();
        }
    }

    pub(crate) fn summary(mut self) -> Summary {
        self.end_run();
        Summary {
            mean: self.samples.mean(),
            deviation: self.samples.deviation(),
            ci95: self.runs.interval(),
            samples: self.samples.count(),
            runs: self.runs.count(),
        }
    }
}

/// What is said of a quantity in the end.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Summary {
    pub(crate) mean: f64,
    /// The standard deviation of single samples; `None` if there is one only.
    pub(crate) deviation: Option<f64>,
    /// Half the width of the 95 % confidence interval of the mean; `None` if there is one run only.
    pub(crate) ci95: Option<f64>,
    pub(crate) samples: u64,
    pub(crate) runs: u64,
}

/// The number below which Student's distribution with so many degrees of freedom has 97.5 % of its weight.
fn student_quantile(freedom: u64) -> f64 {
    // From here on it differs from the normal distribution's 1.95996 by less than 0.03 %.
    if freedom > 5_000 {
        return 1.959_963_984_540_054;
    }
    let (mut low, mut high) = (1.9, 13.0);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if student_within(middle, freedom) < 0.95 { low = middle } else { high = middle }
    }
    f64::midpoint(low, high)
}

/// The weight of Student's distribution between −t and t (Abramowitz and Stegun 26.7.3, 26.7.4).
fn student_within(t: f64, freedom: u64) -> f64 {
    let angle = libm::atan(t / (freedom as f64).sqrt());
    let (sine, cosine) = (libm::sin(angle), libm::cos(angle));
    let odd = freedom % 2 == 1;
    let (mut sum, mut term) = if odd { (0.0, sine * cosine) } else { (0.0, sine) };
    let mut order = if odd { 3 } else { 2 };
    while order <= freedom {
        sum += term;
        term *= cosine * cosine * (order - 1) as f64 / order as f64;
        order += 2;
    }
    if odd { (angle + sum) * std::f64::consts::FRAC_2_PI } else { sum }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (freedom, expected) in [
            (1, 12.706_205),
            (2, 4.302_653),
            (3, 3.182_446),
            (4, 2.776_445),
            (7, 2.364_624),
            (10, 2.228_139),
            (30, 2.042_272),
            (199, 1.971_957),
            (1000, 1.962_339),
            (6000, 1.959_964),
        ] {
            let quantile = student_quantile(freedom);
            assert!((quantile - expected).abs() < 1e-6, "{freedom}: {quantile}");
        }
    }

    #[test]
    fn the_interval_is_over_runs_not_over_their_frames() {
        let mut estimate = Estimate::default();
        for (run, values) in [[1.0, 3.0], [4.0, 6.0], [7.0, 9.0]].into_iter().enumerate() {
            values.into_iter().for_each(|value| estimate.add(run as i64, value));
        }
        let summary = estimate.summary();
        assert_eq!((summary.mean, summary.samples, summary.runs), (5.0, 6, 3));
        // Means 2, 5, 8: deviation 3.
        assert!((summary.ci95.unwrap() - 4.302_653 * 3.0 / 3.0_f64.sqrt()).abs() < 1e-5);
        assert!((summary.deviation.unwrap() - 8.4_f64.sqrt()).abs() < 1e-12);
    }

    #[test]
    fn one_run_has_no_interval() {
        let mut estimate = Estimate::default();
        (0..10).for_each(|value| estimate.add(0, f64::from(value)));
        assert_eq!(estimate.summary().ci95, None);
        assert!(estimate.summary().deviation.is_some());
    }
}
