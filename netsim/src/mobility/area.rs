//! Where the nodes move.

use super::error::ScenarioError;
use super::units::Length;
use crate::mobility::Position;

/// A rectangle: x from 0 to its width, y from 0 to its height.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Area {
    width: Length,
    height: Length,
}

impl Area {
    /// A rectangle of this width and height.
    pub const fn new(width: Length, height: Length) -> Self {
        Self { width, height }
    }

    /// The rectangle in which `nodes` uniformly spread nodes with this range have `degree` neighbours on average, its
    /// width `aspect` times its height.
    ///
    /// The mean degree is what the thesis states as links a node: it counts directed links, so 300 nodes with 2,555.7
    /// links have the mean degree 8.52. Nodes near the border have fewer neighbours, which
    /// [`mean_degree`](Self::mean_degree) counts exactly; with π·range²·(nodes − 1)/area alone, 300 nodes that should
    /// have 8.52 neighbours would have 7.8.
    ///
    /// It holds for models that keep nodes uniformly spread: random walk and Gauss–Markov. Random waypoint nodes meet
    /// in the middle and groups are dense, so they have more neighbours.
    ///
    /// # Errors
    /// [`ScenarioError::MeanDegree`] when no area whose shorter side is at least the range has this mean degree,
    /// [`ScenarioError::Aspect`], [`ScenarioError::Length`].
    pub fn for_mean_degree(
        nodes: usize,
        range: Length,
        degree: f64,
        aspect: f64,
    ) -> Result<Self, ScenarioError> {
        if !(0.001..=1000.0).contains(&aspect) {
            return Err(ScenarioError::Aspect { aspect });
        }
        let range_m = range.metres();
        let sides = |shorter: f64| {
            if aspect < 1.0 { (shorter, shorter / aspect) } else { (shorter * aspect, shorter) }
        };
        let degree_at = |shorter: f64| {
            let (width, height) = sides(shorter);
            expected_degree(nodes, range_m, width, height)
        };
        let greatest = degree_at(range_m);
        // Not `degree <= 0.0`, which a NaN would pass.
        if !(degree > 0.0 && degree <= greatest) {
            return Err(ScenarioError::MeanDegree { nodes, range_m, degree, greatest });
        }
        let (mut low, mut high) = (range_m, range_m * 2.0);
        while degree_at(high) > degree {
            high *= 2.0;
        }
        // The degree falls as the area grows. Bisection halves what is left of the 53 bits.
        for _ in 0..60 {
            let middle = low.midpoint(high);
            if degree_at(middle) > degree { low = middle } else { high = middle }
        }
        let (width, height) = sides(low.midpoint(high));
        Ok(Self { width: Length::from_metres(width)?, height: Length::from_metres(height)? })
    }

    /// How many neighbours each of `nodes` uniformly spread nodes has on average:
    ///
    /// (n − 1) · (π·r²·w·h − 4/3·(w + h)·r³ + r⁴/2) / (w·h)²
    ///
    /// for a range r and sides w, h of at least r. The first term is the disc, the second what the sides cut off, the
    /// third what the corners have lost twice.
    ///
    /// `None` if the range is longer than the shorter side.
    ///
    /// ```
    /// # use netsim::mobility::{Area, Length};
    /// let side = Length::from_metres(1_000.0)?;
    /// let degree = Area::new(side, side).mean_degree(101, Length::from_metres(100.0)?).unwrap();
    /// assert!((degree - (3.141_593 - 0.266_667 + 0.005)).abs() < 1e-6);
    /// # Ok::<(), netsim::mobility::ScenarioError>(())
    /// ```
    pub fn mean_degree(self, nodes: usize, range: Length) -> Option<f64> {
        let (width, height) = (self.width_m(), self.height_m());
        (range.metres() <= width.min(height)).then(|| expected_degree(nodes, range.metres(), width, height))
    }

    /// The width in metres.
    pub const fn width_m(self) -> f64 {
        self.width.metres()
    }

    /// The height in metres.
    pub const fn height_m(self) -> f64 {
        self.height.metres()
    }

    /// Whether the position lies in the rectangle, its border included.
    pub fn contains(self, position: Position) -> bool {
        (0.0..=self.width_m()).contains(&position.x) && (0.0..=self.height_m()).contains(&position.y)
    }

    pub(super) fn sides(self) -> [f64; 2] {
        [self.width_m(), self.height_m()]
    }

    pub(super) fn shorter_side(self) -> f64 {
        self.width_m().min(self.height_m())
    }

    pub(super) fn diagonal(self) -> f64 {
        let [width, height] = self.sides();
        (width * width + height * height).sqrt()
    }

    /// The mean distance between two points drawn uniformly, in metres (Ghosh 1951).
    pub(super) fn mean_distance(self) -> f64 {
        let ([a, b], d) = (self.sides(), self.diagonal());
        let (a2, b2) = (a * a, b * b);
        let polynomial = a2 * a / b2 + b2 * b / a2 + d * (3.0 - a2 / b2 - b2 / a2);
        let logarithms = b2 / a * libm::acosh(d / b) + a2 / b * libm::acosh(d / a);
        polynomial / 15.0 + logarithms / 6.0
    }
}

fn expected_degree(nodes: usize, r: f64, width: f64, height: f64) -> f64 {
    let area = width * height;
    let covered =
        std::f64::consts::PI * r * r * area - 4.0 / 3.0 * (width + height) * r * r * r + r * r * r * r / 2.0;
    nodes.saturating_sub(1) as f64 * covered / (area * area)
}
