//! The capillary routing in exact arithmetic, for small networks: feature `exact`.

mod rest;

use std::num::NonZeroU32;

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{One, Signed, ToPrimitive, Zero};

use crate::certificate::{Certificate, CertificateError};
use crate::reference::{self, Scalar};
use crate::routing::Routing;
use crate::solver::SolveError;
use crate::topology::{LinkId, NodeId, Topology};

impl Scalar for BigRational {
    fn from_capacity(capacity: f64) -> Self {
        decimal(capacity)
    }
    fn zero() -> Self {
        Zero::zero()
    }
    fn one() -> Self {
        One::one()
    }
    fn plus(&self, other: &Self) -> Self {
        self + other
    }
    fn minus(&self, other: &Self) -> Self {
        self - other
    }
    fn times(&self, other: &Self) -> Self {
        self * other
    }
    fn over(&self, other: &Self) -> Self {
        self / other
    }
    fn is_positive(&self) -> bool {
        Signed::is_positive(self)
    }
}

/// A capillary routing without round-off.
#[derive(Debug, Clone, PartialEq)]
pub struct ExactRouting {
    /// The same in floating point, with layers.
    pub routing: Routing,
    /// The signed flow of each link; index: link.
    pub flows: Vec<BigRational>,
    /// The load of each link, not negative; index: link.
    pub loads: Vec<BigRational>,
    /// The distinct loads, largest first: one per layer.
    pub layers: Vec<BigRational>,
}

impl ExactRouting {
    /// The cuts that hold the loads, found by comparing them exactly.
    ///
    /// # Errors
    /// [`CertificateError`] if there are none: then this is not the whole capillary routing.
    pub fn certificate(&self, topology: &Topology) -> Result<Certificate, CertificateError> {
        let rank = |(flow, load): (&BigRational, &BigRational)| {
            let rank = (self.layers.len() - self.layers.partition_point(|layer| layer > load)) as f64;
            if Signed::is_negative(flow) { -rank } else { rank }
        };
        let ranks = self.flows.iter().zip(&self.loads).map(rank).collect();
        Certificate::prove_by_ranks(topology, &self.routing, ranks)
    }

    /// The exact pattern of layer `layers`, as [`solve_layers`](crate::solve_layers) finds it in floating point: the
    /// loads of the first layers, and for the rest the cheapest flow, of least Σ flow/capacity, that keeps all other
    /// loads within that of the last layer. Of equally cheap ways it may take others than floating point does.
    ///
    /// ```
    /// use std::num::NonZeroU32;
    /// use capillary::{NodeId, Orientation, Topology, exact};
    ///
    /// let ends = [("s", "a"), ("s", "b"), ("a", "t"), ("b", "c"), ("c", "t"), ("b", "t")];
    /// let topology = Topology::from_links(Orientation::Directed, ends.map(|(from, to)| (from, to, 1.0)))?;
    /// let (source, target) = (topology.node("s").unwrap(), topology.node("t").unwrap());
    /// let pattern = exact::solve(&topology, source, target)?.stopped_at(&topology, NonZeroU32::MIN)?;
    /// let loads: Vec<String> = pattern.loads.iter().map(|load| load.to_string()).collect();
    /// assert_eq!(loads, ["1/2", "1/2", "1/2", "0", "0", "1/2"]); // b goes straight to t
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`SolveError`] if this is no routing of `topology`.
    pub fn stopped_at(mut self, topology: &Topology, layers: NonZeroU32) -> Result<Self, SolveError> {
        let count = usize::try_from(layers.get()).unwrap_or(usize::MAX);
        let Some(last) = self.layers.get(count - 1).filter(|_| count < self.layers.len()).cloned() else {
            return Ok(self);
        };
        let unit = decimal(topology.smallest_capacity().unwrap_or(1.0));
        let is_fixed: Vec<bool> = self.loads.iter().map(|load| *load >= last).collect();
        rest::fill(topology, &is_fixed, &(&last / &unit), &mut self.flows);
        let capacities = topology.links().map(|(.., link)| decimal(link.capacity));
        self.loads = self.flows.iter().zip(capacities).map(|(flow, c)| flow.abs() * &unit / c).collect();
        self.layers.truncate(count);
        let rounded: Vec<f64> = self.flows.iter().map(to_f64).collect();
        let (source, target) = (self.routing.source(), self.routing.target());
        let is_fixed = |link: LinkId| is_fixed[link.index()];
        self.routing = Routing::with_layers(topology, source, target, &rounded, is_fixed)?;
        Ok(self)
    }
}

/// The capillary routing over rational numbers. Capacities are taken as the shortest decimal numbers that stand for
/// them: 0.1 is one tenth.
///
/// The denominators outgrow 128 bits on networks of some hundred nodes, so the time grows fast: seconds there, where
/// [`solve`](crate::solve) takes milliseconds.
///
/// ```
/// use capillary::{NodeId, Orientation, Topology, exact};
///
/// let three = [("a", "b", 1.0), ("a", "b", 1.0), ("a", "b", 1.0)];
/// let topology = Topology::from_links(Orientation::Directed, three)?;
/// let routing = exact::solve(&topology, NodeId(0), NodeId(1))?;
/// assert_eq!(routing.loads[0].to_string(), "1/3");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn solve(topology: &Topology, source: NodeId, target: NodeId) -> Result<ExactRouting, SolveError> {
    let flows: Vec<BigRational> = reference::solve(topology, source, target)?;
    let unit = decimal(topology.smallest_capacity().unwrap_or(1.0));
    let capacities = topology.links().map(|(.., link)| decimal(link.capacity));
    let loads: Vec<BigRational> =
        flows.iter().zip(capacities).map(|(flow, c)| flow.abs() * &unit / c).collect();
    let mut layers: Vec<BigRational> = loads.iter().filter(|load| !load.is_zero()).cloned().collect();
    layers.sort_by(|a, b| b.cmp(a));
    layers.dedup();
    let rounded: Vec<f64> = flows.iter().map(to_f64).collect();
    let fixed = |link: LinkId| !flows[link.index()].is_zero();
    let routing = Routing::with_layers(topology, source, target, &rounded, fixed)?;
    Ok(ExactRouting { routing, flows, loads, layers })
}

/// The nearest floating-point number.
pub fn to_f64(number: &BigRational) -> f64 {
    number.to_f64().unwrap_or(f64::NAN)
}

/// The number that the shortest decimal notation of a finite `f64` stands for.
fn decimal(number: f64) -> BigRational {
    // `{:e}` writes digits[.digits]e[-]exponent, the fewest digits that read back as the same number.
    let text = format!("{number:e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits: BigInt = format!("{whole}{fraction}").parse().unwrap_or_default();
    let exponent = exponent.parse::<i32>().unwrap_or(0) - fraction.len() as i32;
    let power = BigInt::from(10).pow(exponent.unsigned_abs());
    if exponent < 0 { BigRational::new(digits, power) } else { BigRational::from_integer(digits * power) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_capacity_is_the_decimal_number_that_was_written() {
        for (number, fraction) in
            [(0.1, "1/10"), (1.0, "1"), (2.5e3, "2500"), (1e22, "10000000000000000000000")]
        {
            assert_eq!(decimal(number).to_string(), fraction);
        }
    }
}
