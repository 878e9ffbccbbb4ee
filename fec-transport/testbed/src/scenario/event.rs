//! What happens to the network in the course of a scenario.

use std::time::Duration;

use netsim::LinkModel;

use super::ScenarioError;
use super::file::{EventTable, Links, Shape};
use super::layout::Layout;
use super::shape::seconds;

/// Something that happens at a time.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Happening {
    /// Since the start of the simulation.
    pub(super) at: Duration,
    pub(super) change: NetworkChange,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum NetworkChange {
    LinkDown {
        a: String,
        b: String,
    },
    LinkUp {
        a: String,
        b: String,
    },
    Crash(String),
    Restart(String),
    /// The direction from a to b is like this from now on.
    Model {
        a: String,
        b: String,
        model: Box<LinkModel>,
    },
}

/// Links by their ends.
pub(super) type Pairs = Vec<[String; 2]>;

/// All happenings, in the order of the file; the simulator sorts them by time.
pub(super) fn happenings(
    events: &[EventTable],
    layout: &Layout,
    planned: &Pairs,
) -> Result<Vec<Happening>, ScenarioError> {
    let mut current = layout.clone();
    let mut all = Vec::new();
    let mut by_time: Vec<(usize, &EventTable)> = events.iter().enumerate().collect();
    by_time.sort_by(|(_, a), (_, b)| a.at_s.total_cmp(&b.at_s));
    for (index, event) in by_time {
        let wrong = |what: String| ScenarioError::wrong(format!("event {}: {what}", index + 1));
        all.extend(happenings_of(event, &mut current, planned).map_err(wrong)?);
    }
    Ok(all)
}

fn happenings_of(event: &EventTable, layout: &mut Layout, planned: &Pairs) -> Result<Vec<Happening>, String> {
    let at = seconds(event.at_s, "at_s")?;
    let span = event.for_s.map(|span| seconds(span, "for_s")).transpose()?;
    let until = |at: Duration| span.map(|span| at + span);
    let every = seconds(event.every_s.unwrap_or(0.0), "every_s")?;
    let links = concerned(&event.links, layout, planned)?;
    if let Some(unknown) = event.members.iter().find(|name| !layout.has_member(name)) {
        return Err(format!("there is no member \"{unknown}\""));
    }
    if links.is_empty() && event.members.is_empty() {
        return Err("it concerns nothing: expected links or members".to_owned());
    }
    let mut all = Vec::new();
    let mut happen = |at, change| all.push(Happening { at, change });
    match &event.set {
        None if !event.fail => return Err("nothing happens: expected fail = true or set = { … }".to_owned()),
        Some(_) if event.fail => return Err("expected fail = true or set = { … }, not both".to_owned()),
        Some(_) if !event.members.is_empty() => {
            return Err("a member can only fail: expected links".to_owned());
        }
        Some(set) => {
            for (at, (index, is_turned)) in times(at, every).zip(links) {
                for way in ways(event.one_way, is_turned) {
                    let (before, after, a, b) = reshape(layout, index, way, set);
                    happen(at, model(&a, &b, &after)?);
                    match until(at) {
                        Some(until) => happen(until, model(&a, &b, &before)?),
                        None => layout.links[index].shapes[way] = after,
                    }
                }
            }
        }
        None => {
            for (at, (index, _)) in times(at, every).zip(links) {
                let [a, b] = layout.links[index].ends.clone();
                happen(at, NetworkChange::LinkDown { a: a.clone(), b: b.clone() });
                until(at).into_iter().for_each(|until| {
                    happen(until, NetworkChange::LinkUp { a: a.clone(), b: b.clone() });
                });
            }
            for name in &event.members {
                happen(at, NetworkChange::Crash(name.clone()));
                until(at).into_iter().for_each(|until| happen(until, NetworkChange::Restart(name.clone())));
            }
        }
    }
    Ok(all)
}

fn times(at: Duration, every: Duration) -> impl Iterator<Item = Duration> {
    (0..).map(move |number| at + every * number)
}

/// Which directions of a link an event concerns: 0 is the one in which the layout has it.
fn ways(one_way: bool, is_turned: bool) -> Vec<usize> {
    if one_way { vec![usize::from(is_turned)] } else { vec![0, 1] }
}

/// What one direction is like before and after, and its ends.
fn reshape(layout: &Layout, index: usize, way: usize, set: &Shape) -> (Shape, Shape, String, String) {
    let link = &layout.links[index];
    let before = link.shapes[way].clone();
    let after = set.over(&before);
    (before, after, link.ends[way].clone(), link.ends[1 - way].clone())
}

fn model(a: &str, b: &str, shape: &Shape) -> Result<NetworkChange, String> {
    Ok(NetworkChange::Model { a: a.to_owned(), b: b.to_owned(), model: Box::new(shape.model()?) })
}

fn concerned(links: &Links, layout: &Layout, planned: &Pairs) -> Result<Vec<(usize, bool)>, String> {
    let find =
        |[a, b]: &[String; 2]| layout.find_link(a, b).ok_or_else(|| format!("there is no link {a} – {b}"));
    match links {
        Links::Named(name) if name == "planned" => planned.iter().map(find).collect(),
        Links::Named(name) if name == "all" => {
            Ok((0..layout.links.len()).map(|index| (index, false)).collect())
        }
        Links::Named(name) => Err(format!(
            "links is \"{name}\": expected \"all\", \"planned\" or pairs such as [[\"client\", \"r1\"]]"
        )),
        Links::Pairs(pairs) => pairs.iter().map(find).collect(),
    }
}
