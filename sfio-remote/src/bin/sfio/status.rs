//! `sfio status` and `sfio reload`: looking at a running member, and telling it to read its overlay file again.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use console::{Term, truncate_str};
use fec_transport::overlay::route_title;
use program::output::{self, Results};
use sfio_remote::io::membership::admin_socket;

use crate::block_on;
use crate::client::CONFIG_VARIABLE;
use crate::exit::{Exit, Failure, OrFail as _};
use crate::operations::{self, AdminRequest, Observation, Reloaded, Session, ask};
use crate::signals::StopSignals;
use crate::web::{self, WebAddress};

/// Between two looks.
const INTERVAL: Duration = Duration::from_secs(1);

/// Bytes from which on a session's overhead is shown.
const LEAST_FOR_OVERHEAD: u64 = 1 << 20;

/// Packets from which on a path's repair is shown: about as many bytes.
const LEAST_FOR_REPAIR: u64 = LEAST_FOR_OVERHEAD / 1400;

/// Which running member is meant.
#[derive(Debug, clap::Args)]
#[group(multiple = false)]
struct Target {
    /// The config file that the member runs with; without it and --socket the one that SFIO_CONFIG names
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// The member's admin socket
    #[arg(long, value_name = "SOCKET")]
    socket: Option<PathBuf>,
}

/// Show how a running member is: neighbours, circuits, sessions, and their paths
///
/// On a terminal it shows a new picture every second until Ctrl-C; in a pipe, with --once or --json it looks once. For
/// each path: the rate at which it is paced, its round trip, how long packets stand in queues, the share of packets
/// that it loses, the share of the session's symbols that it carries and should by the plan, in per cent, and its
/// repair symbols over its source symbols. A route that does not fit beside stands below.
///
/// With --web it serves a page that shows the same with a map of the overlay and the last minutes as curves, and prints
/// its address, until Ctrl-C (exit code 0), in a pipe, too. Only who knows that address sees anything.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  sfio status --config /tmp/try/io1/config.toml
  sfio status --config /tmp/try/io1/config.toml --web     the same as a page, with a map and curves")]
pub(crate) struct Options {
    #[command(flatten)]
    target: Target,

    /// Look once, also on a terminal
    #[arg(long)]
    once: bool,

    /// One JSON object instead of a table
    #[arg(long)]
    json: bool,

    /// Show it in a browser: serve a page at ADDR, such as 127.0.0.1:8080 or 8080; without ADDR at a free port
    ///
    /// An address that other machines reach is taken as it is typed, with a warning: nothing there is encrypted.
    #[arg(long, value_name = "ADDR", num_args = 0..=1, default_missing_value = web::LOOPBACK,
          value_parser = WebAddress::parse, conflicts_with_all = ["once", "json"])]
    web: Option<WebAddress>,
}

/// Have a running member read its overlay file again, as SIGHUP does, and tell what has changed
///
/// The file must have a larger serial than the one in use and, if the member's config names an operator, that
/// operator's signature. Members that it does not list any more are cut off at once; everything else goes on.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  sfio reload --config /tmp/try/io1/config.toml")]
pub(crate) struct ReloadOptions {
    #[command(flatten)]
    target: Target,

    /// One JSON object instead of words
    #[arg(long)]
    json: bool,
}

impl Target {
    fn socket(&self) -> Result<PathBuf, Failure> {
        if let Some(socket) = &self.socket {
            return Ok(socket.clone());
        }
        let from_environment = || std::env::var_os(CONFIG_VARIABLE).map(PathBuf::from);
        let config = self.config.clone().or_else(from_environment).ok_or_else(|| {
            let message = format!("give --config FILE or --socket SOCKET, or set {CONFIG_VARIABLE}");
            Failure::new(Exit::Usage, message)
        })?;
        admin_socket(&config).or_exit(Exit::Input)
    }
}

pub(crate) fn reload(options: &ReloadOptions) -> Result<(), Failure> {
    let socket = options.target.socket()?;
    let reloaded: Reloaded = block_on(ask(&socket, AdminRequest::Reload))?;
    if options.json { output::json(&reloaded) } else { output::line(reloaded) }
}

pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let socket = options.target.socket()?;
    if let Some(address) = options.web {
        return block_on(web::watch_member(&socket, address));
    }
    let terminal = Term::stdout();
    if terminal.is_term() && !options.once && !options.json {
        return block_on(watch(&socket, terminal));
    }
    let observation: Observation = block_on(ask(&socket, AdminRequest::Status))?;
    if options.json {
        return output::json(&observation);
    }
    let mut results = Results::open(None)?;
    let columns = output::columns(None).unwrap_or(usize::MAX);
    lines(&observation, &Rates::default(), columns).iter().try_for_each(|line| results.line(line))?;
    results.close()
}

/// Draws the picture anew every second, in its place.
async fn watch(socket: &Path, terminal: Term) -> Result<(), Failure> {
    let mut signals = StopSignals::install()?;
    let mut drawn = 0;
    let mut before: Option<(Instant, Observation)> = None;
    loop {
        let observation: Observation = ask(socket, AdminRequest::Status).await?;
        let rates = before.as_ref().map(|(at, earlier)| Rates::since(*at, earlier, &observation));
        let columns = usize::from(terminal.size().1);
        let lines = lines(&observation, &rates.unwrap_or_default(), columns);
        drawn = draw(&terminal, &lines, drawn).or_fail(Exit::Failed, "the terminal")?;
        before = Some((Instant::now(), observation));
        tokio::select! {
            () = tokio::time::sleep(INTERVAL) => {}
            () = signals.received() => return Ok(()),
        }
    }
}

/// Writes all lines at once over those of last time, so that nothing flickers. Gives how many there are now.
fn draw(mut terminal: &Term, lines: &[String], drawn: usize) -> std::io::Result<usize> {
    let (height, width) = terminal.size();
    let room = usize::from(height).saturating_sub(1).max(1);
    let mut text = if drawn > 0 { format!("\x1b[{drawn}A") } else { String::new() };
    let shown = lines.len().min(room);
    for (index, line) in lines[..shown].iter().enumerate() {
        let is_cut = index + 1 == shown && shown < lines.len();
        let line = if is_cut { format!("… {} more lines", lines.len() - index) } else { line.clone() };
        text += &format!("{}\x1b[K\n", truncate_str(&line, usize::from(width), "…"));
    }
    text += "\x1b[J";
    terminal.write_all(text.as_bytes())?;
    terminal.flush()?;
    Ok(shown)
}

/// What sessions have received and got acknowledged between two looks, in Mbit/s.
#[derive(Debug, Default)]
struct Rates(BTreeMap<u64, (f64, f64)>);

impl Rates {
    fn since(at: Instant, earlier: &Observation, now: &Observation) -> Rates {
        let seconds = at.elapsed().as_secs_f64().max(1e-3);
        let rate = |now: u64, then: u64| now.saturating_sub(then) as f64 * 8e-6 / seconds;
        let known = |id| earlier.sessions.iter().find(|session| session.id == id);
        let rates = now.sessions.iter().filter_map(|session| {
            let then = known(session.id)?;
            let received = rate(session.received_bytes, then.received_bytes);
            Some((session.id, (received, rate(session.acknowledged_bytes, then.acknowledged_bytes))))
        });
        Rates(rates.collect())
    }
}

/// What there is to see, for a place with so many columns of text.
fn lines(observation: &Observation, rates: &Rates, columns: usize) -> Vec<String> {
    let mut heads = vec![headline(observation), neighbours(observation), circuits(observation)];
    heads.extend(dropped(observation));
    heads.push(limits(observation));
    heads.extend(observation.io_node.iter().flat_map(io_node));
    heads.extend(observation.compression.iter().map(compressed));
    let mut lines: Vec<String> = heads.iter().flat_map(|line| output::folded(line, columns)).collect();
    for session in &observation.sessions {
        lines.push(String::new());
        lines.extend(output::folded(&describe(session, rates), columns));
        if !session.paths.is_empty() {
            lines.extend(header());
        }
        lines.extend(session.paths.iter().flat_map(|one| path(one, columns)));
    }
    lines
}

fn headline(observation: &Observation) -> String {
    let Observation { member, overlay_serial, process, control, data, .. } = observation;
    let up = Duration::from_secs(observation.up_s as u64);
    let end = if observation.shutting_down { ", shutting down" } else { "" };
    format!(
        "{member}: up {}{end}, process {process}, overlay file of serial {overlay_serial}, control {control}, data {data}",
        indicatif::HumanDuration(up)
    )
}

fn neighbours(observation: &Observation) -> String {
    let neighbours = observation.members.iter().filter(|member| member.is_neighbour);
    let word = |member: &operations::Member| match member.connected {
        0 => format!("{} (not connected)", member.name),
        1 => member.name.clone(),
        processes => format!("{} ({processes} processes)", member.name),
    };
    let links = |member: &operations::Member| {
        let state = |link: &operations::NamedLink| match link.is_connected {
            true => link.name.clone(),
            false => format!("{} down", link.name),
        };
        let states: Vec<String> = member.links.iter().map(state).collect();
        if states.is_empty() { String::new() } else { format!(" over {}", states.join(", ")) }
    };
    let words: Vec<String> = neighbours.map(|member| word(member) + &links(member)).collect();
    format!("{} members besides it; neighbours: {}", observation.members.len(), words.join(", "))
}

fn circuits(observation: &Observation) -> String {
    let count = |part: &str| observation.circuits.iter().filter(|circuit| circuit.part == part).count();
    let forwarded = observation.datagrams.get("forwarded").copied().unwrap_or_default();
    format!(
        "circuits: {} of its own, {} relayed, {} that end here; {forwarded} datagrams relayed",
        count("originator"),
        count("relay"),
        count("responder")
    )
}

fn dropped(observation: &Observation) -> Option<String> {
    let is_drop = |name: &str| name != "forwarded" && name != "delivered";
    let drops = observation.datagrams.iter().filter(|(name, count)| is_drop(name) && **count > 0);
    let words: Vec<String> =
        drops.map(|(name, count)| format!("{count} {}", name.replace('_', " "))).collect();
    (!words.is_empty()).then(|| format!("datagrams dropped: {}", words.join(", ")))
}

fn io_node(io_node: &operations::IoNode) -> Vec<String> {
    let errors = io_node.errors.iter().filter(|(_, count)| **count > 0);
    let errors: Vec<String> = errors.map(|(call, count)| format!("{count} {call}")).collect();
    let errors = match errors.is_empty() {
        true => String::new(),
        false => format!(", calls that failed (also because there is no such file): {}", errors.join(", ")),
    };
    let limits = &io_node.limits;
    let [memory, whole] = [io_node.memory_bytes, limits.memory_bytes].map(indicatif::BinaryBytes);
    let head = format!("I/O node: {} transfers, {memory} of {whole} in memory{errors}", io_node.transfers);
    let of_member = |(name, used): (&String, &operations::Use)| {
        let (memory, most) = (indicatif::BinaryBytes(used.memory_bytes), limits.transfers_per_member);
        format!("{name} has {} of at most {most} transfers, {memory}, {} claims", used.transfers, used.claims)
    };
    std::iter::once(head).chain(io_node.members.iter().map(of_member)).collect()
}

/// How what was sent to a member was compressed, and why.
fn compressed(compressed: &operations::Compressed) -> String {
    let operations::Compressed { peer, what, codec, plain_bytes, ratio, why, .. } = compressed;
    let (plain, per_cent) = (indicatif::BinaryBytes(*plain_bytes), ratio * 100.0);
    let of = if what == "read" { format!("read by {peer}") } else { format!("written to {peer}") };
    format!("compression: {plain} {of} became {per_cent:.1} %; now {codec}, because {why}")
}

/// The limits, and how much of the most important ones is taken.
fn limits(observation: &Observation) -> String {
    let limit = |key: &str| observation.limits.get(key).map_or("?".to_owned(), ToString::to_string);
    let rate = |key: &str| match observation.policing.get(key).filter(|rate| !rate.is_null()) {
        Some(rate) => format!("{rate} set-ups a second"),
        None => "any number of set-ups".to_owned(),
    };
    let own = |circuit: &&operations::Circuit| circuit.part == "originator";
    let others = observation.circuits.len() - observation.circuits.iter().filter(own).count();
    let processes: usize = observation.members.iter().map(|member| member.connected).sum();
    format!(
        "limits: {} of {} sessions, {processes} of {} neighbours' processes, {others} of {} circuits of others; {} of \
         an originator, {} from a neighbour",
        observation.sessions.len(),
        limit("sessions"),
        limit("neighbours"),
        limit("circuits"),
        rate("set_ups_per_originator"),
        rate("set_ups_per_neighbour"),
    )
}

fn describe(session: &Session, rates: &Rates) -> String {
    let direction = if session.incoming { "from" } else { "to" };
    let Session { id, peer, instance, streams, epoch, .. } = session;
    let rate = match rates.0.get(id) {
        Some((received, acknowledged)) => format!("in {received:.1}, out {acknowledged:.1} Mbit/s"),
        None => {
            let [received, acknowledged] =
                [session.received_bytes, session.acknowledged_bytes].map(indicatif::BinaryBytes);
            format!("in {received}, out {acknowledged}")
        }
    };
    let queued = indicatif::BinaryBytes(session.queued_bytes as u64);
    // Beside a few requests and answers the reports would look like a fault.
    let overhead = match session.acknowledged_bytes >= LEAST_FOR_OVERHEAD {
        true => format!("overhead {:.1} %, ", session.overhead * 100.0),
        false => String::new(),
    };
    format!(
        "session {id} {direction} {peer} ({instance}): {streams} streams, {rate}, {queued} queued, \
         {overhead}epoch {epoch}"
    )
}

/// The header of the list of paths. A route of one relay stands beside the numbers in 80 columns.
fn header() -> [String; 2] {
    let line = |[path, state, rate, trip, queue, loss, share, repair, route]: [&str; 9]| {
        format!(
            "  {path:>4} {state:<11} {rate:>7} {trip:>6} {queue:>6} {loss:>5} {share:>7} {repair:>6}  {route}"
        )
    };
    let units = line(["", "", "Mbit/s", "ms", "ms", "%", "/plan %", "%", ""]).trim_end().to_owned();
    [line(["path", "state", "rate", "trip", "queue", "loss", "share", "repair", "route"]), units]
}

/// A path on one line; or, if it has more than so many columns, with its route on the next one.
fn path(path: &operations::Path, columns: usize) -> Vec<String> {
    let shares = format!("{:.0}/{:.0}", path.share * 100.0, path.planned_share * 100.0);
    // Beside a few acknowledgements the probes would look like a fault.
    let repair = match path.packets_sent >= LEAST_FOR_REPAIR {
        true => format!("{:.1}", path.redundancy * 100.0),
        false => "–".to_owned(),
    };
    let numbers = format!(
        "  {:>4} {:<11} {:>7.1} {:>6.1} {:>6.1} {:>5.1} {:>7} {repair:>6}",
        path.id,
        path.state,
        path.rate_mbit,
        path.round_trip_ms,
        path.queue_ms,
        path.loss * 100.0,
        shares,
    );
    let (route, beside) = (route_title(&path.route, &path.links), "  ");
    match numbers.chars().count() + beside.len() + route.chars().count() <= columns {
        true => vec![numbers + beside + &route],
        false => vec![numbers, format!("       {route}")],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path_of(route: &[&str]) -> operations::Path {
        operations::Path {
            id: 12,
            state: "unconfirmed".into(),
            rate_mbit: 12_345.6,
            round_trip_ms: 1_234.5,
            queue_ms: 123.4,
            loss: 1.0,
            share: 1.0,
            planned_share: 1.0,
            redundancy: 1.0,
            packets_sent: 1_000,
            packets_received: 0,
            packets_lost: 0,
            deaths: 0,
            route: route.iter().map(ToString::to_string).collect(),
            links: Vec::new(),
        }
    }

    #[test]
    fn a_path_fits_into_80_columns_and_a_long_route_stands_below_it() {
        let lines = |route: &[&str]| path(&path_of(route), 80);
        let short = lines(&["client", "r1", "io1"]);
        assert!(short.len() == 1 && short[0].chars().count() <= 80, "{short:?}");
        let [names, units] = header();
        assert!(names.find("route").is_some_and(|at| short[0][at..].starts_with("client")), "{short:?}");
        assert!(units.len() <= 80);
        let long = lines(&["client", "karlsruhe", "frankfurt", "io1"]);
        assert_eq!(long[1..], ["       client – karlsruhe – frankfurt – io1"]);
        assert_eq!(path(&path_of(&["client", "karlsruhe", "frankfurt", "io1"]), usize::MAX).len(), 1);
    }
}
