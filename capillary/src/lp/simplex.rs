//! The simplex solvers beneath the hunting loop.

use good_lp::variable::UnsolvedProblem;
use good_lp::{Constraint, ResolutionError, Solution as _, SolverModel, Variable};

/// A solver of linear programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Simplex {
    /// In pure Rust.
    #[default]
    Microlp,
    /// In C++; building it takes cmake and libclang. Feature `highs`.
    #[cfg(feature = "highs")]
    Highs,
}

impl Simplex {
    /// The values of `variables` at the optimum of `problem` under `constraints`.
    pub(super) fn optimum(
        self,
        problem: UnsolvedProblem,
        constraints: Vec<Constraint>,
        variables: &[Variable],
    ) -> Result<Vec<f64>, ResolutionError> {
        match self {
            Self::Microlp => values(problem.using(good_lp::microlp), constraints, variables),
            #[cfg(feature = "highs")]
            Self::Highs => values(highs(problem), constraints, variables),
        }
    }
}

/// HiGHS as precise as it can be asked to be, and on one thread like the other solvers.
#[cfg(feature = "highs")]
fn highs(problem: UnsolvedProblem) -> good_lp::solvers::highs::HighsProblem {
    use good_lp::solvers::highs::HighsSolverType;
    /// The smallest that HiGHS admits.
    const TOLERANCE: f64 = 1e-10;
    problem
        .using(good_lp::highs)
        .set_solver(HighsSolverType::Simplex)
        .set_threads(1)
        .set_option("primal_feasibility_tolerance", TOLERANCE)
        .set_option("dual_feasibility_tolerance", TOLERANCE)
}

fn values<M: SolverModel<Error = ResolutionError>>(
    model: M,
    constraints: Vec<Constraint>,
    variables: &[Variable],
) -> Result<Vec<f64>, ResolutionError> {
    let solution = model.with_all(constraints).solve()?;
    Ok(variables.iter().map(|&variable| solution.value(variable)).collect())
}
