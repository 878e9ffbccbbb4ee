//! One step of the method: what enters, how far it goes, what leaves; and the basis that it leaves behind.

use super::{Basis, Column, Entering, Flow, ROUND_OFF, Simplex};
use crate::matrix::basis::Inverse;

/// A share of a demand or of what an arc may carry that is round-off.
const SLOP: f64 = 1e-12;

/// Steps in a row that change nothing and yet are no circle.
const PATIENCE: usize = 60;

/// What leaves the basis.
#[derive(Clone, Copy)]
enum Leaving {
    Column(usize),
    Key(usize),
    /// The room on an arc that becomes tight.
    Slack(u32),
}

/// What goes to zero as the change goes on.
struct Stop {
    /// How much is left of it.
    room: f64,
    /// How much of that is round-off.
    slop: f64,
    /// How much of it a unit of the change takes.
    rate: f64,
    leaving: Leaving,
}

/// How everything changes with a unit of what enters.
struct Change {
    /// The inverse times the entering column: the columns fall by as much.
    solved: Vec<f64>,
    /// The keys whose flow changes, with the rate.
    keys: Vec<(usize, f64)>,
    /// The rate of every arc's load.
    load: Vec<f64>,
    /// The rate of t.
    level: f64,
}

impl Simplex<'_> {
    /// Brings something into the basis as far as nothing else gets below zero. Returns whether it could.
    pub(super) fn enter(&mut self, entering: Entering) -> bool {
        let change = self.change(&entering);
        let Some((step, leaving)) = self.ratio_test(&change) else { return false };
        let value = if let Entering::Level = entering { step - self.height() } else { step };
        self.advance(&change, step);
        self.count.pivots += 1;
        self.since += 1;
        self.idle = if step > 0.0 { 0 } else { self.idle + 1 };
        match leaving {
            Leaving::Column(column) => self.replace_column(column, entering, &change.solved, value),
            Leaving::Slack(arc) => self.add_row(arc, entering, &change.solved, value),
            Leaving::Key(flow) => self.replace_key(flow, entering, change.solved, value),
        }
        self.reprice();
        true
    }

    /// The entries of what enters in the rows of the tight arcs.
    fn entries(&self, entering: &Entering) -> Vec<(usize, f64)> {
        match entering {
            Entering::Slack { row } => vec![(*row, 1.0)],
            Entering::Level => self.level_entries(),
            Entering::Path { flow, arcs } => self.path_entries(arcs, &self.flows[*flow].key),
        }
    }

    fn change(&self, entering: &Entering) -> Change {
        let solved = self.basis.inverse.times(&self.entries(entering));
        let mut change = Change { solved, keys: Vec::new(), load: vec![0.0; self.arcs.len()], level: 0.0 };
        for (column, content) in self.basis.columns.iter().enumerate() {
            let rate = -change.solved[column];
            match content {
                Column::Level => change.level = -rate,
                Column::Path { flow, arcs } if rate != 0.0 => self.divert(&mut change, *flow, arcs, rate),
                Column::Path { .. } => {}
            }
        }
        match entering {
            Entering::Level => change.level = -1.0,
            Entering::Path { flow, arcs } => self.divert(&mut change, *flow, arcs, 1.0),
            Entering::Slack { .. } => {}
        }
        merge(&mut change.keys);
        change
    }

    /// Moves a demand from its key to a path, at a rate.
    fn divert(&self, change: &mut Change, flow: usize, path: &[u32], rate: f64) {
        path.iter().for_each(|&arc| change.load[arc as usize] += rate);
        self.flows[flow].key.iter().for_each(|&arc| change.load[arc as usize] -= rate);
        change.keys.push((flow, -rate));
    }

    /// How far the change can go, and what stops it. Of all that stop it within round-off of each other the one that
    /// changes fastest is taken, which keeps the inverse precise (Harris 1973).
    fn ratio_test(&self, change: &Change) -> Option<(f64, Leaving)> {
        let mut stops: Vec<Stop> = Vec::new();
        for (column, &rate) in change.solved.iter().enumerate() {
            if rate > ROUND_OFF && Some(column) != self.basis.level {
                let room = self.basis.values[column].max(0.0);
                let Column::Path { flow, .. } = self.basis.columns[column] else { continue };
                let slop = SLOP * self.flows[flow].amount;
                stops.push(Stop { room, slop, rate, leaving: Leaving::Column(column) });
            }
        }
        for &(flow, rate) in change.keys.iter().filter(|(_, rate)| *rate < -ROUND_OFF) {
            let Flow { key_flow, amount, .. } = self.flows[flow];
            let (room, slop) = (key_flow.max(0.0), SLOP * amount);
            stops.push(Stop { room, slop, rate: -rate, leaving: Leaving::Key(flow) });
        }
        self.stops_by_slacks(change, &mut stops);
        let nearest =
            stops.iter().map(|stop| (stop.room + stop.slop) / stop.rate).fold(f64::INFINITY, f64::min);
        stops.retain(|stop| stop.room / stop.rate <= nearest);
        let fastest = stops.iter().map(|stop| stop.rate).fold(0.0, f64::max);
        // A long row of steps that change nothing could be a circle, which dice leave.
        if self.idle > PATIENCE {
            stops.retain(|stop| stop.rate > 0.05 * fastest);
            let chosen = stops.get(self.die() as usize % stops.len().max(1))?;
            return Some((chosen.room / chosen.rate, chosen.leaving));
        }
        let chosen = stops.iter().max_by(|a, b| a.rate.total_cmp(&b.rate))?;
        Some((chosen.room / chosen.rate, chosen.leaving))
    }

    /// A number that looks random, and is the same each time.
    fn die(&self) -> u64 {
        let mixed = (self.count.pivots as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 33
    }

    fn stops_by_slacks(&self, change: &Change, stops: &mut Vec<Stop>) {
        let level = if self.basis.level.is_none() { self.height() } else { self.level() };
        // What a settled arc carries is fixed, by its row or by the other rows together.
        let is_loose = |arc: u32| self.row_of[arc as usize].is_none() && !self.is_fixed(arc);
        for (arc, content) in self.arcs.iter().filter(|(arc, _)| is_loose(*arc)) {
            let settled = self.settled[arc as usize];
            let limit = settled.unwrap_or(level * content.capacity + self.leeway[arc as usize]);
            let growth = if settled.is_some() { 0.0 } else { change.level * content.capacity };
            let rate = change.load[arc as usize] - growth;
            if rate > ROUND_OFF * content.capacity.min(1.0) {
                let room = (limit - self.load[arc as usize]).max(0.0);
                let slop = SLOP * limit;
                stops.push(Stop { room, slop, rate, leaving: Leaving::Slack(arc) });
            }
        }
    }

    fn advance(&mut self, change: &Change, step: f64) {
        if step == 0.0 {
            return;
        }
        for (value, rate) in self.basis.values.iter_mut().zip(&change.solved) {
            *value -= step * rate;
        }
        for &(flow, rate) in &change.keys {
            self.flows[flow].key_flow += step * rate;
        }
        for (load, rate) in self.load.iter_mut().zip(&change.load) {
            *load += step * rate;
        }
    }

    fn replace_column(&mut self, column: usize, entering: Entering, solved: &[f64], value: f64) {
        if let Column::Path { flow, .. } = self.basis.columns[column] {
            self.flows[flow].columns.retain(|&other| other != column);
        }
        match entering {
            Entering::Slack { row } => self.remove(row, column),
            entering => {
                self.basis.inverse.replace_column(column, solved);
                self.basis.values[column] = value;
                self.basis.columns[column] = self.admit(column, entering);
            }
        }
    }

    /// The content of a column for what enters there.
    fn admit(&mut self, column: usize, entering: Entering) -> Column {
        match entering {
            Entering::Path { flow, arcs } => {
                self.flows[flow].columns.push(column);
                Column::Path { flow, arcs }
            }
            Entering::Level | Entering::Slack { .. } => {
                self.basis.level = Some(column);
                Column::Level
            }
        }
    }

    /// Makes an arc tight, with what enters as its column.
    fn add_row(&mut self, arc: u32, entering: Entering, solved: &[f64], value: f64) {
        let entry = |column: usize| Some((column, self.entry(arc, column)?));
        let row: Vec<(usize, f64)> = (0..self.basis.columns.len()).filter_map(entry).collect();
        let product = self.basis.inverse.times_left(&row);
        let own = match &entering {
            Entering::Slack { .. } => 0.0,
            Entering::Level => self.level_entry(arc),
            Entering::Path { flow, arcs } => path_entry(arc, arcs, &self.flows[*flow].key),
        };
        let pivot = own - row.iter().map(|&(column, entry)| entry * solved[column]).sum::<f64>();
        self.basis.inverse.border(solved, &product, pivot);
        self.row_of[arc as usize] = Some(self.basis.rows.len() as u32);
        self.basis.rows.push(arc);
        let column = self.basis.columns.len();
        self.basis.values.push(value);
        if let Entering::Slack { row } = entering {
            // The column stands for the room on the arc that is let go, and goes with it.
            self.basis.columns.push(Column::Level);
            self.remove(row, column);
        } else {
            let content = self.admit(column, entering);
            self.basis.columns.push(content);
        }
    }

    /// The key of a demand leaves: what enters becomes the key itself, or another path of the demand does.
    fn replace_key(&mut self, flow: usize, entering: Entering, mut solved: Vec<f64>, value: f64) {
        let columns = self.flows[flow].columns.clone();
        let entering = match entering {
            Entering::Path { flow: same, arcs } if same == flow => {
                self.basis.inverse.enter_key(&columns, &solved);
                self.flows[flow].key = arcs;
                self.flows[flow].key_flow = value;
                return;
            }
            entering => entering,
        };
        let by_value = |&a: &usize, &b: &usize| self.basis.values[a].total_cmp(&self.basis.values[b]);
        let Some(column) = columns.iter().copied().max_by(by_value) else { return };
        self.basis.inverse.exchange_key(column, &columns);
        solved[column] = -columns.iter().map(|&other| solved[other]).sum::<f64>();
        let Column::Path { arcs, .. } = &mut self.basis.columns[column] else { return };
        std::mem::swap(&mut self.flows[flow].key, arcs);
        std::mem::swap(&mut self.flows[flow].key_flow, &mut self.basis.values[column]);
        self.replace_column(column, entering, &solved, value);
    }

    /// Removes a row and a column of the basis; the last ones take their places.
    pub(super) fn remove(&mut self, row: usize, column: usize) {
        let Basis { rows, columns, values, inverse, level } = &mut self.basis;
        inverse.remove(row, column);
        self.row_of[rows.swap_remove(row) as usize] = None;
        if let Some(&arc) = rows.get(row) {
            self.row_of[arc as usize] = Some(row as u32);
        }
        columns.swap_remove(column);
        values.swap_remove(column);
        let last = columns.len();
        match columns.get(column) {
            Some(Column::Level) => *level = Some(column),
            Some(Column::Path { flow, .. }) => {
                let places = &mut self.flows[*flow].columns;
                places.iter_mut().filter(|place| **place == last).for_each(|place| *place = column);
            }
            None => {}
        }
    }

    fn level_entries(&self) -> Vec<(usize, f64)> {
        let entry = |(row, &arc): (usize, &u32)| (row, self.level_entry(arc));
        self.basis.rows.iter().enumerate().map(entry).filter(|(_, entry)| *entry != 0.0).collect()
    }

    fn level_entry(&self, arc: u32) -> f64 {
        if self.settled[arc as usize].is_none() { self.arcs.arc(arc).capacity } else { 0.0 }
    }

    /// A path's arcs less those of the key, in the rows of the tight arcs.
    fn path_entries(&self, path: &[u32], key: &[u32]) -> Vec<(usize, f64)> {
        let signed = path.iter().map(|arc| (arc, 1.0)).chain(key.iter().map(|arc| (arc, -1.0)));
        let entry = |(&arc, sign): (&u32, f64)| Some((self.row_of[arc as usize]? as usize, sign));
        signed.filter_map(entry).collect()
    }

    /// The entry of a column in the row of an arc, if it is not zero.
    fn entry(&self, arc: u32, column: usize) -> Option<f64> {
        let entry = match &self.basis.columns[column] {
            Column::Level => self.level_entry(arc),
            Column::Path { flow, arcs } => path_entry(arc, arcs, &self.flows[*flow].key),
        };
        (entry != 0.0).then_some(entry)
    }

    /// Finds the inverse, what each column carries and the loads anew after many pivots, from the columns themselves.
    pub(super) fn renew_if_worn(&mut self, worn: usize) {
        if self.since < worn {
            return;
        }
        self.since = 0;
        let entries = |column: &Column| match column {
            Column::Level => self.level_entries(),
            Column::Path { flow, arcs } => self.path_entries(arcs, &self.flows[*flow].key),
        };
        let columns: Vec<Vec<(usize, f64)>> = self.basis.columns.iter().map(entries).collect();
        if let Some(inverse) = Inverse::of(&columns) {
            self.basis.inverse = inverse;
            self.revalue();
            self.reprice();
        }
    }

    /// What every column carries, from what the tight arcs carry.
    fn revalue(&mut self) {
        // A free arc may carry what the level says, which is a column; without a level it carries what it does.
        let has_level = self.basis.level.is_some();
        let free = |arc: u32| if has_level { self.leeway[arc as usize] } else { self.load[arc as usize] };
        let limit = |&arc: &u32| self.settled[arc as usize].unwrap_or(free(arc));
        let mut missing: Vec<(usize, f64)> = self.basis.rows.iter().map(limit).enumerate().collect();
        self.load.fill(0.0);
        for flow in &mut self.flows {
            flow.key_flow = flow.amount;
            flow.key.iter().for_each(|&arc| self.load[arc as usize] += flow.amount);
        }
        for ((_, missing), &arc) in missing.iter_mut().zip(&self.basis.rows) {
            *missing -= self.load[arc as usize];
        }
        let Basis { columns, values, inverse, .. } = &mut self.basis;
        *values = inverse.times(&missing);
        for (column, value) in columns.iter().zip(values.iter()) {
            let Column::Path { flow, arcs } = column else { continue };
            let flow = &mut self.flows[*flow];
            flow.key_flow -= value;
            arcs.iter().for_each(|&arc| self.load[arc as usize] += value);
            flow.key.iter().for_each(|&arc| self.load[arc as usize] -= value);
        }
    }
}

/// A path's entry less the key's in the row of an arc.
fn path_entry(arc: u32, path: &[u32], key: &[u32]) -> f64 {
    f64::from(u8::from(path.contains(&arc))) - f64::from(u8::from(key.contains(&arc)))
}

/// One entry for each key.
fn merge(keys: &mut Vec<(usize, f64)>) {
    keys.sort_unstable_by_key(|&(flow, _)| flow);
    keys.dedup_by(|next, kept| {
        let same = next.0 == kept.0;
        if same {
            kept.1 += next.1;
        }
        same
    });
}
