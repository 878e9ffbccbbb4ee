//! `sfio overlay new`: an overlay on this machine, to try things with.
//!
//! The client is linked to every relay, and every relay to every I/O node; without relays the client is linked to the
//! I/O nodes. So as many links as there are relays must fail before the client loses an I/O node.

use std::fmt::Write as _;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use clap::value_parser;
use fec_transport::keys::encode_key;
use program::quantity::share;

use super::folder::{CLIENT, Folder};
use super::links::Link;
use super::ports::Ports;
use fec_transport::io::files::key_file;

use crate::exit::{Exit, Failure, OrFail as _};

/// Write the files of an overlay on this machine
///
/// DIR gets overlay.toml and a folder for each member with its config.toml, its key, and for an I/O node the folder
/// export/ that it serves. Its links are emulated unless --plain: DIR/links.toml says what they are like and may be
/// changed. The links of the k-th relay take k times --delay-ms, so that the paths differ.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  sfio overlay new try --relays 3 --io-nodes 3 --rate-mbit 50 --loss 0.02")]
pub(crate) struct Options {
    /// The folder to make
    pub(super) dir: PathBuf,

    /// Relays between the client and the I/O nodes
    #[arg(long, default_value_t = 4, value_name = "N", value_parser = value_parser!(u16).range(0..=32))]
    pub(super) relays: u16,

    /// I/O nodes
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = value_parser!(u16).range(1..=64))]
    pub(super) io_nodes: u16,

    /// Uplinks of the client: so many links lead from it to each of its neighbours, from addresses of its own
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = value_parser!(u16).range(1..=16))]
    pub(super) uplinks: u16,

    /// Join the members directly, without emulated links
    #[arg(long)]
    pub(super) plain: bool,

    /// Rate of each link in Mbit/s
    #[arg(long, default_value_t = 100.0, value_name = "RATE", conflicts_with = "plain")]
    pub(super) rate_mbit: f64,

    /// Delay of the first relay's links in milliseconds
    #[arg(long, default_value_t = 5.0, value_name = "MS", conflicts_with = "plain")]
    pub(super) delay_ms: f64,

    /// Share of the packets that each link loses, in each direction
    #[arg(long, default_value_t = 0.02, value_name = "SHARE", value_parser = share, conflicts_with = "plain")]
    pub(super) loss: f64,
}

/// The addresses of the two planes of something.
#[derive(Clone, Copy)]
struct Addresses {
    control: SocketAddr,
    data: SocketAddr,
}

/// A member that is to be.
struct Member {
    name: String,
    /// Where it listens; none for the client.
    addresses: Option<Addresses>,
    relays: bool,
    serves: bool,
}

pub(super) fn run(options: &Options) -> Result<(), Failure> {
    let members = make(options)?;
    program::line!("made {} with {members} members; next: sfio overlay up {0}", options.dir.display())
}

/// Writes the files, and gives the number of members.
pub(super) fn make(options: &Options) -> Result<usize, Failure> {
    let folder = Folder::new(&options.dir);
    refuse_occupied(&folder)?;
    let mut ports = Ports::new();
    let members = members(options, &mut ports)?;
    let links = links(options);
    if let Some(fault) = links.iter().find_map(|link| link.check().err()) {
        return Err(Failure::new(Exit::Usage, fault));
    }
    let mut overlay =
        String::from("# Who is in this overlay, and who is linked to whom. Every member has this file.\n");
    overlay += "serial = 1\n";
    for member in &members {
        overlay += &make_member(&folder, member)?;
    }
    for link in &links {
        overlay += &link_entry(link, options.plain, &members, &mut ports)?;
    }
    overlay += &site_entry(&members);
    write(&folder.overlay(), &overlay)?;
    if !options.plain {
        write(&folder.links(), &links_file(&links))?;
    }
    Ok(members.len())
}

fn refuse_occupied(folder: &Folder) -> Result<(), Failure> {
    let place = folder.path().display();
    match fs::read_dir(folder.path()) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Failure::new(Exit::Input, format!("{place}: {error}"))),
        Ok(mut entries) => match entries.next() {
            None => Ok(()),
            Some(_) => {
                Err(Failure::new(Exit::Input, format!("{place} exists and is not empty; name a new folder")))
            }
        },
    }
}

fn members(options: &Options, ports: &mut Ports) -> Result<Vec<Member>, Failure> {
    let client = Member { name: CLIENT.to_owned(), addresses: None, relays: false, serves: false };
    let mut members = vec![client];
    for (prefix, count, relays) in [("r", options.relays, true), ("io", options.io_nodes, false)] {
        for number in 1..=count {
            let addresses = Some(Addresses::take(ports)?);
            members.push(Member { name: format!("{prefix}{number}"), addresses, relays, serves: !relays });
        }
    }
    Ok(members)
}

fn links(options: &Options) -> Vec<Link> {
    let link = |a: &str, b: String, distance: u16| Link {
        a: a.to_owned(),
        b,
        name: String::new(),
        rate_mbit: options.rate_mbit,
        delay_ms: options.delay_ms * f64::from(distance),
        loss: options.loss,
    };
    // One for each uplink, the farther the later it is.
    let uplinks = |b: String, distance: u16| {
        let one = move |number: u16| Link {
            name: if options.uplinks > 1 { uplink_name(number) } else { String::new() },
            ..link(CLIENT, b.clone(), distance + number - 1)
        };
        (1..=options.uplinks).map(one)
    };
    let io_nodes = || (1..=options.io_nodes).map(|number| format!("io{number}"));
    if options.relays == 0 {
        return io_nodes().flat_map(|io_node| uplinks(io_node, 1)).collect();
    }
    let relays = || (1..=options.relays).map(|number| (number, format!("r{number}")));
    let near = relays().flat_map(|(number, relay)| uplinks(relay, number));
    let far =
        relays().flat_map(|(number, relay)| io_nodes().map(move |io_node| link(&relay, io_node, number)));
    near.chain(far).collect()
}

fn uplink_name(number: u16) -> String {
    format!("uplink{number}")
}

/// The client's address on loopback that stands for an uplink.
fn uplink_address(name: &str) -> Option<Ipv4Addr> {
    let number: u8 = name.strip_prefix("uplink")?.parse().ok()?;
    Some(Ipv4Addr::new(127, 0, 0, number + 1))
}

/// Writes the files of a member and gives its entry in the overlay file.
fn make_member(folder: &Folder, member: &Member) -> Result<String, Failure> {
    let home = folder.member(&member.name);
    let deepest = if member.serves { home.join("export") } else { home.clone() };
    fs::create_dir_all(&deepest).or_fail(Exit::Failed, deepest.display())?;
    let keys = key_file::create(&home.join("key")).or_exit(Exit::Input)?.public();
    let export = match member.serves {
        true => format!("export = \"export\"\n\n[access]\n{CLIENT} = \"read-write\"\n"),
        false => String::new(),
    };
    let config =
        format!("overlay = \"../overlay.toml\"\nmember = \"{}\"\nkey = \"key\"\n{export}", member.name);
    write(&folder.config(&member.name), &config)?;

    let mut entry = format!(
        "\n[[member]]\nname = \"{}\"\ned25519 = \"{}\"\nx25519 = \"{}\"\n",
        member.name,
        encode_key(&keys.ed25519),
        encode_key(&keys.x25519)
    );
    if let Some(Addresses { control, data }) = member.addresses {
        let _ = write!(entry, "control = \"{control}\"\ndata = \"{data}\"\n");
    }
    if member.relays {
        entry += "relay_for = [\"*\"]\n";
    }
    Ok(entry)
}

/// The entry of a link; an emulated one is entered at ports of the emulator, one pair for each end that listens.
fn link_entry(link: &Link, plain: bool, members: &[Member], ports: &mut Ports) -> Result<String, Failure> {
    let mut entry = format!("\n[[link]]\na = \"{}\"\nb = \"{}\"\n", link.a, link.b);
    if let Some(address) = uplink_address(&link.name) {
        let _ = write!(entry, "name = \"{}\"\na_from = \"{address}\"\n", link.name);
    }
    if plain {
        return Ok(entry);
    }
    let Link { rate_mbit, delay_ms, loss, .. } = link;
    let _ = write!(entry, "capacity_mbit = {rate_mbit}\ndelay_ms = {delay_ms}\nloss = {loss}\n");
    for (way, to) in [("b_at", &link.b), ("a_at", &link.a)] {
        let listens = members.iter().any(|member| member.name == *to && member.addresses.is_some());
        if listens {
            let Addresses { control, data } = Addresses::take(ports)?;
            let _ = writeln!(entry, "{way} = {{ control = \"{control}\", data = \"{data}\" }}");
        }
    }
    Ok(entry)
}

fn site_entry(members: &[Member]) -> String {
    let io_nodes = members.iter().filter(|member| member.serves).map(|member| format!("\"{}\"", member.name));
    let io_nodes = io_nodes.collect::<Vec<_>>().join(", ");
    format!("\n[[site]]\nname = \"local\"\nio_nodes = [{io_nodes}]\nstripe_unit = \"64KiB\"\n")
}

fn links_file(links: &[Link]) -> String {
    let mut text = String::from(
        "# What the emulated links are like, the same in both directions. `sfio overlay up` reads this when it starts.\n\
         # The capacities in overlay.toml, by which routes are planned, are to be changed along with the rates here.\n\
         seed = 1\n",
    );
    for Link { a, b, name, rate_mbit, delay_ms, loss } in links {
        let name = if name.is_empty() { String::new() } else { format!("name = \"{name}\"\n") };
        let _ = write!(
            text,
            "\n[[link]]\na = \"{a}\"\nb = \"{b}\"\n{name}rate_mbit = {rate_mbit}\ndelay_ms = {delay_ms}\nloss = {loss}\n"
        );
    }
    text
}

fn write(path: &std::path::Path, text: &str) -> Result<(), Failure> {
    fs::write(path, text).or_fail(Exit::Failed, path.display())
}

impl Addresses {
    fn take(ports: &mut Ports) -> Result<Addresses, Failure> {
        Ok(Addresses { control: ports.take()?, data: ports.take()? })
    }
}

#[cfg(test)]
mod tests {
    use super::super::links::Links;
    use super::*;
    use fec_transport::overlay::Uplink;
    use sfio_remote::io::membership::Membership;
    use sfio_remote::io_node::Right;
    use sfio_remote::name::SubfilePath;

    fn options(dir: PathBuf, relays: u16, plain: bool) -> Options {
        Options { dir, relays, io_nodes: 3, uplinks: 1, plain, rate_mbit: 50.0, delay_ms: 5.0, loss: 0.02 }
    }

    #[test]
    fn every_member_of_a_new_overlay_can_be_loaded() {
        let parent = tempfile::tempdir().expect("a folder");
        let dir = parent.path().join("new");
        run(&options(dir.clone(), 4, false)).expect("it can be made");
        let folder = Folder::new(&dir);
        let client = Membership::load(&folder.config(CLIENT)).expect("right files");
        assert_eq!((client.overlay.members().len(), client.overlay.links().len()), (8, 16));
        for member in client.overlay.members() {
            let loaded = Membership::load(&folder.config(&member.name)).expect("right files");
            assert_eq!(loaded.export.is_some(), member.name.starts_with("io"));
            let path = SubfilePath::new("x").expect("a right path");
            let rights = [CLIENT, "r1", "io1"].map(|name| loaded.access.right(name, &path));
            let expected = if loaded.export.is_some() { Right::ReadWrite } else { Right::None };
            assert_eq!(rights, [expected, Right::None, Right::None]);
        }
        let links = Links::read(&folder.links()).expect("right values").link;
        assert_eq!(links.len(), 16);
        assert_eq!(links.iter().map(|link| link.delay_ms).fold(0.0, f64::max), 20.0);
        assert!(client.overlay.links().iter().all(|link| link.b_at.is_some() && link.loss == Some(0.02)));
    }

    #[test]
    fn a_plain_overlay_has_neither_links_file_nor_other_addresses_than_the_members_own() {
        let parent = tempfile::tempdir().expect("a folder");
        run(&options(parent.path().to_owned(), 0, true)).expect("an empty folder will do");
        let folder = Folder::new(parent.path());
        let client = Membership::load(&folder.config(CLIENT)).expect("right files");
        assert_eq!(client.overlay.links().len(), 3);
        assert!(client.overlay.links().iter().all(|link| link.b_at.is_none() && link.a_at.is_none()));
        assert!(!folder.links().exists());
    }

    #[test]
    fn each_uplink_of_the_client_is_a_link_to_each_of_its_neighbours() {
        for (relays, neighbours) in [(0, 3), (2, 2)] {
            let parent = tempfile::tempdir().expect("a folder");
            let options = Options { uplinks: 2, ..options(parent.path().join("new"), relays, false) };
            run(&options).expect("it can be made");
            let folder = Folder::new(&options.dir);
            let client = Membership::load(&folder.config(CLIENT)).expect("right files");
            let links: Vec<_> =
                client.overlay.links_of(client.member).map(|(id, _)| client.overlay.link(id)).collect();
            let over = |name: &str, address: &str| {
                let uplink = Uplink::parse(address);
                links
                    .iter()
                    .filter(|link| link.name == name && link.a_from == uplink && link.b_at.is_some())
                    .count()
            };
            assert_eq!(
                (over("uplink1", "127.0.0.2"), over("uplink2", "127.0.0.3")),
                (neighbours, neighbours)
            );
            assert_eq!(links.len(), 2 * neighbours);
            let named = Links::read(&folder.links()).expect("right values").link;
            assert_eq!(
                named.iter().filter(|link| link.name == "uplink2" && link.delay_ms > 5.0).count(),
                neighbours
            );
        }
    }

    #[test]
    fn a_folder_with_something_in_it_is_left_alone() {
        let parent = tempfile::tempdir().expect("a folder");
        fs::write(parent.path().join("precious"), "").expect("it can be written");
        let refusal = run(&options(parent.path().to_owned(), 1, true)).expect_err("it is occupied");
        assert!(refusal.to_string().contains("is not empty"), "{refusal}");
    }
}
