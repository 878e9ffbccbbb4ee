//! Work items: what each number stands for, and what measuring it yields.

use std::num::NonZeroU32;
use std::sync::Arc;

use capillary::{NodeId, Routing, SolveError, Topology, lp, solve_layers};
use ror::{BlockLaw, CostTable, rate_each, rate_large_blocks};

use crate::columns::{Columns, Kind, Schema, Value};
use crate::failure::Failure;
use crate::pair::Classes;
use crate::plan::{LawTable, Measure, Pairs, Plan, Problem, Sampling, law};

pub(crate) const ROR: Schema = &[
    ("item", Kind::Long),
    ("run", Kind::Int),
    ("set", Kind::Int),
    ("frame", Kind::Int),
    ("from", Kind::Int),
    ("to", Kind::Int),
    ("layer", Kind::Int),
    ("tolerance", Kind::Real),
    ("ror_short", Kind::Real),
    ("ror_large", Kind::Real),
    ("critical", Kind::Int),
    ("links_used", Kind::Int),
];

pub(crate) const HUNT: Schema = &[
    ("item", Kind::Long),
    ("run", Kind::Int),
    ("set", Kind::Int),
    ("frame", Kind::Int),
    ("from", Kind::Int),
    ("to", Kind::Int),
    ("layer", Kind::Int),
    ("iteration", Kind::Int),
    ("suspects", Kind::Int),
];

pub(crate) const LAW: Schema =
    &[("item", Kind::Long), ("m", Kind::Int), ("p", Kind::Real), ("der", Kind::Real), ("n", Kind::Int)];

/// The columns of a measure's rows.
pub(crate) fn schema(measure: Measure) -> Schema {
    match measure {
        Measure::Ror => ROR,
        Measure::Hunt => HUNT,
        Measure::Law => LAW,
    }
}

/// Where an item stands among the sweep runs and frames of its plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) item: u64,
    pub(crate) run: u64,
    pub(crate) frame: u64,
    pub(crate) set: u64,
    /// Which of the frame's pairs.
    pub(crate) pair: u64,
}

impl Place {
    /// Items go through the sweep runs, within a run through the frames, and within a frame through the pairs. Frame k
    /// of F in S sets is in set ⌊k·S/F⌋.
    pub(crate) fn of(plan: &Sampling, item: u64) -> Self {
        let (frames, pairs) = (plan.frames as u64, plan.pairs_per_frame());
        let frame = item / pairs % frames;
        let set = u128::from(frame) * plan.sets as u128 / u128::from(frames);
        Self { item, run: item / pairs / frames, frame, set: set as u64, pair: item % pairs }
    }

    fn cells(&self) -> [Value; 4] {
        let int = |number: u64| Value::Int(number as i32);
        [Value::Long(self.item as i64), int(self.run), int(self.set), int(self.frame)]
    }
}

/// An item with what it is measured on.
#[derive(Debug, Clone)]
pub(crate) enum Task {
    Sample { place: Place, topology: Arc<Topology> },
    Law { item: u64 },
}

/// What turns items into rows.
#[derive(Debug)]
pub(crate) struct Meter<'p> {
    plan: &'p Plan,
    table: Option<CostTable>,
}

impl<'p> Meter<'p> {
    pub(crate) fn new(plan: &'p Plan) -> Result<Self, Problem> {
        let table = match plan {
            Plan::Sampling(plan) => Some(CostTable::new(law(plan.m, plan.der)?)),
            Plan::Law(_) => None,
        };
        Ok(Self { plan, table })
    }

    /// The rows of an item; an error names the key of the plan that it comes from.
    pub(crate) fn measure(&self, task: &Task) -> Result<Columns, Failed> {
        match (self.plan, task, &self.table) {
            (Plan::Sampling(plan), Task::Sample { place, topology }, Some(table)) => {
                let pair = pair(plan, *place, topology)?;
                match plan.measure {
                    Measure::Hunt => hunt_rows(plan, *place, topology, pair),
                    _ => ror_rows(plan, *place, topology, pair, table),
                }
            }
            (Plan::Law(plan), Task::Law { item }, _) => law_rows(plan, *item),
            _ => unreachable!("tasks are made from the plan"),
        }
    }
}

/// Why an item has no rows.
#[derive(Debug)]
pub(crate) enum Failed {
    Plan(Problem),
    Work(Failure),
}

impl<E: Into<Failure>> From<E> for Failed {
    fn from(error: E) -> Self {
        Self::Work(error.into())
    }
}

/// The pair of an item, drawn by the item's own random stream if the plan does not give it.
fn pair(plan: &Sampling, place: Place, topology: &Topology) -> Result<(NodeId, NodeId), Failed> {
    let where_ = format!("frame {} of run {}", place.frame, place.run);
    match &plan.pairs {
        Pairs::Given(pairs) => {
            let [from, to] = pairs[place.pair as usize];
            let (from, to) = (NodeId(from as u32), NodeId(to as u32));
            if petgraph::algo::has_path_connecting(&undirected(topology), from.0.into(), to.0.into(), None) {
                return Ok((from, to));
            }
            let reason = format!("nodes {} and {} are not connected in {where_}", from.0, to.0);
            Err(Failed::Plan(Problem { key: "pairs", reason }))
        }
        Pairs::Drawn(_) => {
            let item = place.item.to_string();
            let mut random = netsim::random_stream(plan.seed as u64, &["ror sweep", "item", &item]);
            Classes::of(topology).draw(&mut random).ok_or_else(|| {
                let reason =
                    format!("no two nodes have a minimum cut of 2 in {where_}; make the range larger");
                Failed::Plan(Problem { key: "range", reason })
            })
        }
    }
}

fn undirected(topology: &Topology) -> petgraph::graph::UnGraph<capillary::Node, capillary::Link> {
    topology.clone().into()
}

fn ror_rows(
    plan: &Sampling,
    place: Place,
    topology: &Topology,
    (from, to): (NodeId, NodeId),
    table: &CostTable,
) -> Result<Columns, Failed> {
    let mut rows = Columns::new(ROR);
    let ends = [Value::Int(from.0 as i32), Value::Int(to.0 as i32)];
    let mut routing: Option<Routing> = None;
    let mut asked = 0;
    for layer in plan.layers() {
        // A routing with fewer layers than asked for is complete: it counts for the deeper ones, too.
        let pattern = match routing.take() {
            Some(complete) if complete.layers().len() < asked => complete,
            _ => pattern(topology, from, to, layer)?,
        };
        asked = layer as usize;
        let routing = routing.insert(pattern);
        let short = rate_each(routing, &plan.tolerances, table)?;
        let links_used = routing.used_links().count() as i32;
        for (&tolerance, short) in plan.tolerances.iter().zip(short) {
            let large = rate_large_blocks(routing, tolerance)?.overall;
            let critical = Value::Int(short.critical_links.len() as i32);
            let ratings = [Value::Real(tolerance), Value::Real(short.overall), Value::Real(large)];
            let [item, run, set, frame] = place.cells();
            let row = [item, run, set, frame, ends[0], ends[1], Value::Int(layer as i32)];
            rows.push(&[&row[..], &ratings, &[critical, Value::Int(links_used)]].concat());
        }
    }
    Ok(rows)
}

fn pattern(topology: &Topology, from: NodeId, to: NodeId, layer: u32) -> Result<Routing, SolveError> {
    let layer = NonZeroU32::new(layer).unwrap_or(NonZeroU32::MIN);
    Ok(solve_layers(topology, from, to, layer)?.routing)
}

fn hunt_rows(
    plan: &Sampling,
    place: Place,
    topology: &Topology,
    (from, to): (NodeId, NodeId),
) -> Result<Columns, Failed> {
    let mut rows = Columns::new(HUNT);
    let last = plan.layers().last().copied().and_then(NonZeroU32::new).unwrap_or(NonZeroU32::MIN);
    let solution = lp::solve_layers(topology, from, to, last)?;
    for (index, hunt) in solution.hunts.iter().enumerate() {
        for (iteration, &suspects) in hunt.suspects.iter().enumerate() {
            let [item, run, set, frame] = place.cells();
            let ends = [Value::Int(from.0 as i32), Value::Int(to.0 as i32)];
            let found = [index as i32 + 1, iteration as i32, suspects as i32].map(Value::Int);
            rows.push(&[&[item, run, set, frame][..], &ends, &found].concat());
        }
    }
    Ok(rows)
}

fn law_rows(plan: &LawTable, item: u64) -> Result<Columns, Failed> {
    let mut rows = Columns::new(LAW);
    let m = plan.m[item as usize];
    let law: BlockLaw = law(m, plan.der).map_err(Failed::Plan)?;
    for &p in &plan.p {
        let n = Value::Int(law.block_length(p)? as i32);
        rows.push(&[
            Value::Long(item as i64),
            Value::Int(m as i32),
            Value::Real(p),
            Value::Real(plan.der),
            n,
        ]);
    }
    Ok(rows)
}
