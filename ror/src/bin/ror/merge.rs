//! `ror merge`: all shards of a sweep as one, and what they say.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::checksum;
use crate::columns::Columns;
use crate::failure::Failure;
use crate::folder::{Folder, Shard};
use crate::hunts::Hunts;
use crate::item::{Place, schema};
use crate::law::Point;
use crate::plan::{Measure, Plan};
use crate::ratings::Ratings;
use crate::rows_file::{RowsReader, RowsWriter};
use crate::{Format, Printing};
use program::Table;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  ror merge DIR\n  ror merge DIR --json --by-set\n  ror merge DIR --into all.parquet"
)]
pub(crate) struct Merge {
    /// The folder of a sweep whose shards are all finished
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Each set of frames apart, besides all together
    #[arg(long)]
    by_set: bool,
    /// Write all rows into one Parquet file, too
    #[arg(long, value_name = "FILE")]
    into: Option<PathBuf>,
    #[command(flatten)]
    printing: Printing,
}

/// What the rows of a sweep come to.
#[derive(Debug)]
pub(crate) enum Merged {
    Ratings(Ratings),
    Hunts(Hunts),
    Law(Vec<Point>),
}

impl Merge {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let (folder, plan) = Folder::open(&self.folder)?;
        let copy = self.into.as_ref();
        let mut copy =
            copy.map(|path| RowsWriter::create(path, schema(plan.measure()), &plan.toml())).transpose()?;
        let merged = merged(&folder, &plan, |item| copy.as_mut().map_or(Ok(()), |copy| copy.push(item)))?;
        copy.map_or(Ok(()), RowsWriter::finish)?;
        self.printing.put(&match self.printing.format() {
            Format::Table => merged.text(self.by_set),
            Format::Csv => merged.csv(self.by_set),
            Format::Json => format!("{:#}\n", Value::from(merged.json(self.by_set))),
        })
    }
}

/// Goes through all items in order, checks that each is there once and whole, and gives its rows to `also`.
pub(crate) fn merged(
    folder: &Folder,
    plan: &Plan,
    mut also: impl FnMut(&Columns) -> Result<(), Failure>,
) -> Result<Merged, Failure> {
    let mut merged = Merged::new(plan);
    let mut next = 0;
    for shard in folder.finished()? {
        let damaged = |what: String| Failure::Damaged(folder.rows(shard), what);
        let each_item = open_shard(folder, shard, plan)?.each_item(|rows| {
            let item = rows.integer(0, 0);
            if item != next as i64 {
                return Err(damaged(format!("item {item} stands where item {next} is due")));
            }
            merged.add(plan, next, rows).map_err(|what| damaged(format!("item {next}: {what}")))?;
            next += 1;
            also(rows)
        });
        each_item.map_err(|failure| sweep_again(shard, failure))?;
        let end = shard.items(plan.items()).end;
        if next != end {
            let what = format!("it ends before item {next}; its last is {}", end - 1);
            return Err(sweep_again(shard, damaged(what)));
        }
    }
    Ok(merged)
}

/// Opens the file of a finished shard once it is known to be as it was written.
pub(crate) fn open_shard(folder: &Folder, shard: Shard, plan: &Plan) -> Result<RowsReader, Failure> {
    let rows = folder.rows(shard);
    checksum::check(&rows)
        .and_then(|()| RowsReader::open(&rows, schema(plan.measure()), &plan.toml()))
        .map_err(|failure| sweep_again(shard, failure))
}

/// Says beside what is wrong with a shard's file how to get a right one.
fn sweep_again(shard: Shard, failure: Failure) -> Failure {
    match failure {
        Failure::Damaged(path, what) => {
            Failure::Damaged(path, format!("{what}; remove the file and sweep --shard {shard} again"))
        }
        other => other,
    }
}

impl Merged {
    fn new(plan: &Plan) -> Self {
        match plan {
            Plan::Law(_) => Self::Law(Vec::new()),
            Plan::Sampling(plan) if plan.measure == Measure::Hunt => Self::Hunts(Hunts::default()),
            Plan::Sampling(plan) => Self::Ratings(Ratings::new(plan)),
        }
    }

    /// Adds an item's rows, or says what is wrong with them.
    fn add(&mut self, plan: &Plan, item: u64, rows: &Columns) -> Result<(), String> {
        if let Plan::Sampling(plan) = plan {
            check_place(&Place::of(plan, item), rows)?;
        }
        match (self, plan) {
            (Self::Ratings(ratings), Plan::Sampling(plan)) => ratings.add(plan, rows),
            (Self::Hunts(hunts), _) => hunts.add(rows),
            (Self::Law(points), Plan::Law(plan)) => {
                if rows.rows() != plan.p.len() {
                    return Err(format!("{} rows instead of {}", rows.rows(), plan.p.len()));
                }
                points.extend((0..rows.rows()).map(|row| Point {
                    m: rows.integer(1, row) as u32,
                    p: rows.number(2, row),
                    n: rows.integer(4, row) as u32,
                }));
                Ok(())
            }
            _ => unreachable!("made for the plan"),
        }
    }

    fn text(self, by_set: bool) -> String {
        match self {
            Self::Ratings(ratings) => ratings.text(by_set),
            Self::Hunts(hunts) => hunts.text(),
            Self::Law(points) => law_table(&points).to_string(),
        }
    }

    fn csv(self, by_set: bool) -> String {
        match self {
            Self::Ratings(ratings) => ratings.table(by_set).csv(),
            Self::Hunts(hunts) => hunts.table().csv(),
            Self::Law(points) => law_table(&points).csv(),
        }
    }

    fn json(self, by_set: bool) -> Vec<Value> {
        match self {
            Self::Ratings(ratings) => ratings.json(by_set),
            Self::Hunts(hunts) => hunts.json(),
            Self::Law(points) => {
                points.iter().map(|point| json!({ "m": point.m, "p": point.p, "n": point.n })).collect()
            }
        }
    }
}

/// Whether run, set and frame are those of the item.
fn check_place(place: &Place, rows: &Columns) -> Result<(), String> {
    let expected = [place.run, place.set, place.frame].map(|number| number as i64);
    for row in 0..rows.rows() {
        let found = [1, 2, 3].map(|column| rows.integer(column, row));
        if found != expected {
            return Err(format!("run, set and frame are {found:?}; they must be {expected:?}"));
        }
    }
    Ok(())
}

fn law_table(points: &[Point]) -> Table {
    let mut table = Table::new(["m", "p", "n", "n/m"]);
    for &Point { m, p, n } in points {
        let factor = format!("{:.4}", f64::from(n) / f64::from(m));
        table.push(vec![m.to_string(), p.to_string(), n.to_string(), factor]);
    }
    table
}
