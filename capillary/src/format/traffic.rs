//! Traffic matrices in files: what SNDlib and TopoHub put beside their networks, and tables.

use serde_json::Value;

use crate::format::csv::{FROM, TO, header, is_named, separator};
use crate::format::fault::{Fault, Place, offset_in};
use crate::format::{Format, ReadError, draft, edge_list, repetita, sndlib_native, xml};
use crate::lookup::find_node;
use crate::matrix::{Demand, LARGEST_AMOUNT, PathBounds, TrafficMatrix};
use crate::topology::Topology;

const AMOUNT: [&str; 9] =
    ["demand", "amount", "value", "traffic", "volume", "bandwidth", "bw", "load", "demandvalue"];

const HOPS: [&str; 3] = ["max_hops", "maxhops", "maxpathlength"];
const DELAY: [&str; 5] = ["max_delay", "max_delay_ms", "maxdelay", "maxdelayms", "maxlatency"];
const STRETCH: [&str; 2] = ["max_stretch", "maxstretch"];

/// What SNDlib writes where a path may have any number of links.
const UNLIMITED: &str = "UNLIMITED";

/// A demand as it stands in a file.
pub(super) struct Entry {
    pub(super) place: Place,
    pub(super) from: String,
    pub(super) to: String,
    pub(super) amount: String,
    pub(super) bounds: Bounds,
}

/// The bounds on a demand's paths as they stand in a file.
#[derive(Default)]
pub(super) struct Bounds {
    pub(super) hops: Option<String>,
    pub(super) delay: Option<String>,
    pub(super) stretch: Option<String>,
}

/// Reads the demands of a file whose nodes are those of `topology`: SNDlib XML or native (the network's own file or
/// another), node-link JSON with `demands` in its graph, Repetita's demands, or a table with the columns from, to and
/// demand, separated by commas, semicolons, tabs or bars. Amounts may have a unit, as `2.5G`: see [`amount`].
///
/// A table and a list in JSON may bound the paths of a demand: `max_hops`, `max_delay` (in milliseconds, or with a unit
/// as `3ms`) and `max_stretch`; SNDlib's path length is a number of links.
///
/// ```
/// use capillary::format::{ReadOptions, read, read_traffic};
///
/// let topology = read(b"from,to\na,b\nb,c\n", &ReadOptions::default())?.topology;
/// let traffic = read_traffic(b"source;destination;traffic\na;c;1.5\n", &topology)?;
/// assert_eq!(traffic.demands()[0].amount, 1.5);
/// let error = read_traffic(b"from,to,demand\na,d,1\n", &topology).unwrap_err();
/// assert!(error.to_string().starts_with("line 2, demand 0: there is no node \"d\""), "{error}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`ReadError`] with the line and what would be right; also if no demand is above 0 and between two nodes.
pub fn read_traffic(bytes: &[u8], topology: &Topology) -> Result<TrafficMatrix, ReadError> {
    let text = String::from_utf8_lossy(bytes);
    let text = text.trim_start_matches('\u{feff}');
    if text.trim().is_empty() {
        return Err(ReadError::NoDemands);
    }
    let demands = entries(text).and_then(|entries| {
        let demands = entries.into_iter().enumerate();
        demands.map(|(index, entry)| entry.demand(index, topology)).collect::<Result<Vec<Demand>, Fault>>()
    });
    let traffic = TrafficMatrix::new(demands.map_err(|fault| fault.in_text(text))?);
    if traffic.total() > 0.0 { Ok(traffic) } else { Err(ReadError::NoDemands) }
}

fn entries(text: &str) -> Result<Vec<Entry>, Fault> {
    match Format::detect(text) {
        Some(Format::SndlibNative) => sndlib_native::demands(text),
        Some(Format::SndlibXml) => xml(text),
        Some(Format::NodeLink) => json(text),
        Some(Format::EdgeList) => edge_list::demands(text),
        Some(Format::Repetita) => repetita::demands(text),
        _ => table(text),
    }
}

impl Entry {
    fn demand(self, index: usize, topology: &Topology) -> Result<Demand, Fault> {
        let element = || format!("demand {index}");
        let find = |name: &str| {
            find_node(topology, name).map_err(|error| {
                Fault::at(self.place, element(), crate::format::Problem::Syntax(error.to_string()))
            })
        };
        let (source, target) = (find(&self.from)?, find(&self.to)?);
        let amount = amount(&self.amount).filter(|amount| (0.0..=LARGEST_AMOUNT).contains(amount));
        let amount = amount.ok_or_else(|| {
            let element = format!("demand {index} ({} to {}), {:?}", self.from, self.to, self.amount);
            Fault::expected(
                self.place,
                element,
                "a number from 0 to 1e100, perhaps with a unit as 10G or 1Gbps",
            )
        })?;
        let bounds = self.bounds.read(|name, text, what| {
            let element = format!("demand {index} ({} to {}), {name} {text:?}", self.from, self.to);
            Fault::expected(self.place, element, what)
        })?;
        Ok(Demand { bounds, ..Demand::new(source, target, amount) })
    }
}

impl Bounds {
    /// The bounds as numbers; `wrong` makes a fault of a name, what stands there, and what would be right.
    fn read(&self, wrong: impl Fn(&str, &str, &'static str) -> Fault) -> Result<PathBounds, Fault> {
        let Self { hops, delay, stretch } = self;
        let hops = hops.as_deref().filter(|text| !text.eq_ignore_ascii_case(UNLIMITED));
        let read_hops =
            |text: &str| text.parse().map_err(|_| wrong("max_hops", text, "a whole number of at least 1"));
        let read_delay = |text: &str| {
            let what = "a delay in milliseconds, or with a unit as 5us, 3ms or 0.1s";
            draft::delay(text).ok_or_else(|| wrong("max_delay", text, what))
        };
        let read_stretch = |text: &str| {
            let stretch = text.parse().ok().filter(|stretch: &f64| stretch.is_finite() && *stretch >= 1.0);
            stretch.ok_or_else(|| wrong("max_stretch", text, "a number of at least 1"))
        };
        Ok(PathBounds {
            hops: hops.map(read_hops).transpose()?,
            delay: delay.as_deref().map(read_delay).transpose()?,
            stretch: stretch.as_deref().map(read_stretch).transpose()?,
        })
    }
}

/// A number, perhaps with a unit: `10G`, `2.5 Gbps`, `155 Mbit/s`, `1e9`. Prefixes are powers of 1,000 (k, M, G, T, P);
/// what stands behind them must be a unit of bits or a number of bits per second.
///
/// ```
/// use capillary::format::amount;
/// assert_eq!(amount("10G"), Some(1e10));
/// assert_eq!(amount("2.5 Gbit/s"), Some(2.5e9));
/// assert_eq!(amount("40"), Some(40.0));
/// assert_eq!(amount("4 apples"), None);
/// ```
pub fn amount(text: &str) -> Option<f64> {
    let text = text.trim();
    if let Ok(number) = text.parse::<f64>() {
        return Some(number).filter(|number| number.is_finite());
    }
    let is_unit = |c: char| c.is_ascii_alphabetic() || c == '/' || c.is_whitespace();
    let number = text.trim_end_matches(is_unit);
    let unit = text[number.len()..].trim();
    let (factor, rest) = match unit.chars().next()? {
        'k' | 'K' => (1e3, &unit[1..]),
        'M' | 'm' => (1e6, &unit[1..]),
        'G' | 'g' => (1e9, &unit[1..]),
        'T' | 't' => (1e12, &unit[1..]),
        'P' | 'p' => (1e15, &unit[1..]),
        _ => (1.0, unit),
    };
    let known = ["", "b", "bps", "b/s", "bit", "bits", "bit/s", "bits/s", "be"];
    let value = number.parse::<f64>().ok().filter(|number| number.is_finite())?;
    known.contains(&rest.to_ascii_lowercase().as_str()).then_some(value * factor)
}

fn table(text: &str) -> Result<Vec<Entry>, Fault> {
    let header = header(text);
    let mut reader = ::csv::ReaderBuilder::new()
        .comment(Some(b'#'))
        .flexible(true)
        .delimiter(separator(header))
        .trim(::csv::Trim::All)
        .from_reader(text.as_bytes());
    let refused = |error: ::csv::Error| {
        let line = error.position().map_or(1, |position| position.line() as usize);
        Fault::at(Place::Line(line), "table", crate::format::Problem::Syntax(error.to_string()))
    };
    let names: Vec<String> = reader.headers().map_err(refused)?.iter().map(str::to_string).collect();
    let column = |known: &[&str]| names.iter().position(|name| is_named(name, known));
    let (Some(from), Some(to), Some(amount)) = (column(&FROM), column(&TO), column(&AMOUNT)) else {
        let place = offset_in(text, header);
        return Err(Fault::expected(place, "header", "columns \"from\", \"to\" and \"demand\""));
    };
    let [hops, delay, stretch] = [column(&HOPS), column(&DELAY), column(&STRETCH)];
    let mut entries = Vec::new();
    for record in reader.records() {
        let record = record.map_err(refused)?;
        let place = Place::Line(record.position().map_or(1, |position| position.line() as usize));
        let bound = |column: Option<usize>| {
            column.and_then(|column| record.get(column)).filter(|cell| !cell.is_empty()).map(str::to_string)
        };
        let cell = |index: usize| record.get(index).filter(|cell| !cell.is_empty()).map(str::to_string);
        let (Some(from), Some(to), Some(amount)) = (cell(from), cell(to), cell(amount)) else {
            return Err(Fault::expected(
                place,
                format!("demand {}", entries.len()),
                "two nodes and a number",
            ));
        };
        let bounds = Bounds { hops: bound(hops), delay: bound(delay), stretch: bound(stretch) };
        entries.push(Entry { place, from, to, amount, bounds });
    }
    Ok(entries)
}

fn xml(text: &str) -> Result<Vec<Entry>, Fault> {
    let document = xml::tree(text)?;
    let demands = document.descendants().filter(|element| element.has_tag_name("demand"));
    demands
        .enumerate()
        .map(|(index, element)| {
            let place = Place::Byte(element.range().start);
            let text = |name: &'static str| {
                let child = element.children().find(|child| child.has_tag_name(name));
                child.and_then(|child| child.text()).map(|text| text.trim().to_string())
            };
            let child = |name: &'static str, what| {
                text(name).ok_or_else(|| Fault::expected(place, format!("demand {index}"), what))
            };
            let (from, to) = (child("source", "an element source")?, child("target", "an element target")?);
            let amount = child("demandValue", "an element demandValue")?;
            let bounds = Bounds { hops: text("maxPathLength"), ..Bounds::default() };
            Ok(Entry { place, from, to, amount, bounds })
        })
        .collect()
}

/// `graph.demands`: of TopoHub an object of objects, source to target to amount; or a list of objects with source,
/// target and demand.
fn json(text: &str) -> Result<Vec<Entry>, Fault> {
    let file: Value = serde_json::from_str(text).map_err(|error| Fault::of_json(&error))?;
    let demands = file.get("graph").and_then(|graph| graph.get("demands")).or_else(|| file.get("demands"));
    let place = Place::Byte(text.find("\"demands\"").unwrap_or(0));
    let word = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    let wrong =
        |index: usize| Fault::expected(place, format!("demand {index}"), "a source, a target and a number");
    let mut entries = Vec::new();
    match demands {
        Some(Value::Object(sources)) => {
            for (from, targets) in sources {
                let targets = targets.as_object().ok_or_else(|| wrong(entries.len()))?;
                for (to, amount) in targets {
                    let amount = word(amount).ok_or_else(|| wrong(entries.len()))?;
                    let (from, to, bounds) = (from.clone(), to.clone(), Bounds::default());
                    entries.push(Entry { place, from, to, amount, bounds });
                }
            }
        }
        Some(Value::Array(list)) => {
            for (index, entry) in list.iter().enumerate() {
                let field = |names: &[&str]| names.iter().find_map(|name| word(entry.get(name)?));
                let (from, to, amount) = (field(&FROM), field(&TO), field(&AMOUNT));
                let (Some(from), Some(to), Some(amount)) = (from, to, amount) else {
                    return Err(wrong(index));
                };
                let bounds = Bounds { hops: field(&HOPS), delay: field(&DELAY), stretch: field(&STRETCH) };
                entries.push(Entry { place, from, to, amount, bounds });
            }
        }
        _ => return Err(Fault::expected(place, "graph", "\"demands\", an object or a list")),
    }
    Ok(entries)
}
