//! What happens to the network in the course of a scenario.

use std::time::Duration;

use fec_transport::overlay::LinkId;
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
    LinkDown(LinkId),
    LinkUp(LinkId),
    Crash(String),
    Restart(String),
    /// The link is like this from now on, in the direction that leads away from a member.
    Model {
        link: LinkId,
        from: String,
        model: Box<LinkModel>,
    },
}

/// All happenings, in the order of the file; the simulator sorts them by time.
pub(super) fn happenings(
    events: &[EventTable],
    layout: &Layout,
    planned: &[LinkId],
    end_s: f64,
) -> Result<Vec<Happening>, ScenarioError> {
    let mut current = layout.clone();
    let mut by_time = Vec::new();
    for (event, number) in events.iter().zip(1..) {
        let wrong = |what: String| ScenarioError::wrong(format!("event {number}: {what}"));
        by_time.extend(times_of(event, end_s).map_err(wrong)?.into_iter().map(|at_s| (at_s, number, event)));
    }
    by_time.sort_by(|(a, ..), (b, ..)| a.total_cmp(b));
    let mut all = Vec::new();
    for (at_s, number, event) in by_time {
        let wrong = |what: String| ScenarioError::wrong(format!("event {number}: {what}"));
        all.extend(happenings_of(event, at_s, &mut current, planned).map_err(wrong)?);
    }
    Ok(all)
}

/// When an event happens, in seconds since the start of the simulation: once, or again and again.
fn times_of(event: &EventTable, end_s: f64) -> Result<Vec<f64>, String> {
    let Some(again_s) = event.again_s else { return Ok(vec![event.at_s]) };
    let for_s = event.for_s.unwrap_or(f64::INFINITY);
    if again_s < for_s || again_s <= 0.0 {
        return Err(format!("again_s is {again_s}: expected for_s, and no less than that"));
    }
    let times = (0..).map(|number| event.at_s + again_s * f64::from(number));
    Ok(times.take_while(|at_s| at_s + for_s <= end_s).collect())
}

fn happenings_of(
    event: &EventTable,
    at_s: f64,
    layout: &mut Layout,
    planned: &[LinkId],
) -> Result<Vec<Happening>, String> {
    let at = seconds(at_s, "at_s")?;
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
                    let before = layout.links[index].shapes[way].clone();
                    let after = set.over(&before);
                    happen(at, model(layout, index, way, &after)?);
                    match until(at) {
                        Some(until) => happen(until, model(layout, index, way, &before)?),
                        None => layout.links[index].shapes[way] = after,
                    }
                }
            }
        }
        None => {
            for (at, (index, _)) in times(at, every).zip(links) {
                happen(at, NetworkChange::LinkDown(link_id(index)));
                until(at).into_iter().for_each(|until| happen(until, NetworkChange::LinkUp(link_id(index))));
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

fn model(layout: &Layout, index: usize, way: usize, shape: &Shape) -> Result<NetworkChange, String> {
    let from = layout.links[index].ends[way].clone();
    Ok(NetworkChange::Model { link: link_id(index), from, model: Box::new(shape.model()?) })
}

/// The links of a layout are those of the overlay, in its order.
fn link_id(index: usize) -> LinkId {
    LinkId(u32::try_from(index).expect("an overlay has at most 65,535 links"))
}

fn concerned(links: &Links, layout: &Layout, planned: &[LinkId]) -> Result<Vec<(usize, bool)>, String> {
    match links {
        Links::Named(name) if name == "planned" => {
            Ok(planned.iter().map(|link| (link.entry(), false)).collect())
        }
        Links::Named(name) if name == "all" => {
            Ok((0..layout.links.len()).map(|index| (index, false)).collect())
        }
        Links::Named(name) => Err(format!(
            "links is \"{name}\": expected \"all\", \"planned\" or pairs such as [[\"client\", \"r1\"]]"
        )),
        Links::Listed(listed) => {
            let found = listed.iter().map(|words| find(words, layout));
            Ok(found.collect::<Result<Vec<_>, _>>()?.concat())
        }
    }
}

/// The links that two members and perhaps a name stand for.
fn find(words: &[String], layout: &Layout) -> Result<Vec<(usize, bool)>, String> {
    let (a, b, name) = match words {
        [a, b] => (a, b, None),
        [a, b, name] => (a, b, Some(name.as_str())),
        _ => return Err(format!("a link is {words:?}: expected two members, and perhaps a name")),
    };
    let found = layout.find_links(a, b, name);
    let named = name.map_or_else(String::new, |name| format!(" named \"{name}\""));
    if found.is_empty() { Err(format!("there is no link {a} – {b}{named}")) } else { Ok(found) }
}
