//! Members with several uplinks, for which addresses of loopback stand.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use fec_transport::io::{BindError, Endpoint, EndpointConfig, EndpointError, Sockets};
use fec_transport::overlay::{Overlay, Uplink};
use fec_transport::{PathState, PathStatus};
use netsim::emulator::{self, EmulatedLink, Emulator};
use netsim::{LinkModel, Rate};
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use crate::message;
use crate::parrot::Parrot;
use crate::scene::{PATIENCE, Process, identity, member};

const LAPTOP: [&str; 2] = ["127.0.0.2", "127.0.0.3"];
const SITE: [&str; 2] = ["127.0.0.4", "127.0.0.5"];

/// A laptop and a site with two uplinks each, joined by two emulated links.
struct Scene {
    overlay: Arc<Overlay>,
    site: BTreeMap<Uplink, Sockets>,
    emulator: Emulator,
}

pub(crate) fn uplink(address: &str) -> Uplink {
    Uplink::parse(address).expect("an address")
}

/// Sockets on two addresses, with the same ports at both: those that the member has in the overlay file.
fn same_ports(addresses: [&str; 2]) -> [Sockets; 2] {
    let [first, second] = addresses.map(|address| address.parse::<IpAddr>().expect("an address"));
    let pair = || {
        let one = UdpSocket::bind((first, 0)).ok()?;
        let other = UdpSocket::bind((second, one.local_addr().ok()?.port())).ok()?;
        Some([one, other])
    };
    let mut pairs = std::iter::repeat_with(pair).flatten();
    let [control, data] = [(); 2].map(|()| pairs.next().expect("a port that is free at both"));
    let ([control1, control2], [data1, data2]) = (control, data);
    [Sockets { control: control1, data: data1 }, Sockets { control: control2, data: data2 }]
}

fn addresses(sockets: &Sockets) -> [SocketAddr; 2] {
    [&sockets.control, &sockets.data].map(|socket| socket.local_addr().expect("bound"))
}

impl Scene {
    fn new() -> Scene {
        let site = same_ports(SITE);
        let model = || LinkModel::new(Rate::from_mbit(30), Duration::from_millis(5));
        let links = ["dsl", "lte"].into_iter().zip(&site).map(|(name, sockets)| {
            let [control, data] = addresses(sockets).map(Some);
            let end = emulator::Endpoint { control, data };
            EmulatedLink::new(name, emulator::Endpoint::default(), end, model(), model())
        });
        let emulator = Emulator::start(links.collect(), 1).expect("an emulator");
        let [control, data] = addresses(&site[0]);
        let mut text = member("laptop", "");
        text += &member("site", &format!("control = \"{control}\"\ndata = \"{data}\""));
        for (number, name) in ["dsl", "lte"].into_iter().enumerate() {
            let ports = emulator.link(name).expect("it is emulated").ports().a_to_b;
            let [control, data] = [ports.control, ports.data].map(|port| port.expect("it is entered there"));
            text += &format!(
                "[[link]]\na = \"laptop\"\nb = \"site\"\nname = \"{name}\"\na_from = \"{}\"\nb_from = \"{}\"\n\
                 b_at = {{ control = \"{control}\", data = \"{data}\" }}\n",
                LAPTOP[number], SITE[number]
            );
        }
        let [first, second] = site;
        let site = BTreeMap::from([(uplink(SITE[0]), first), (uplink(SITE[1]), second)]);
        Scene { overlay: Arc::new(Overlay::parse(&text).expect("a right overlay")), site, emulator }
    }

    async fn start(&mut self, name: &str) -> Process {
        let mut config = EndpointConfig::new(Arc::clone(&self.overlay), identity(name));
        if name == "site" {
            config.uplinks = std::mem::take(&mut self.site);
            // Its first uplink is its own address, and needs no other socket.
            config.sockets = config.uplinks.remove(&uplink(SITE[0]));
        }
        let (tell, outcomes) = mpsc::unbounded_channel();
        let host = move |outcome| drop(tell.send(outcome));
        let endpoint = Endpoint::start(config, Parrot::default(), host).await.expect("an endpoint");
        Process::new(endpoint, outcomes)
    }
}

/// The names of the links over which paths carry data.
async fn live(process: &Process) -> Vec<String> {
    let look = process.endpoint.handle().inspect(|node, _| {
        let sessions = node.sessions().filter_map(|session| node.session_status(session));
        let is_live = |path: &PathStatus| path.state == PathState::Live;
        let live = sessions.flat_map(|status| status.paths).filter(is_live);
        let mut names: Vec<String> =
            live.map(|path| node.overlay().link_names(&path.links).concat()).collect();
        names.sort();
        names
    });
    look.await.expect("the endpoint lives")
}

pub(crate) async fn until_live(process: &Process, names: &[&str]) {
    let waiting = async {
        while live(process).await != names {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, waiting).await.expect("in time");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_uplinks_carry_a_session_together_and_either_of_them_alone() {
    let mut scene = Scene::new();
    let _site = scene.start("site").await;
    let mut laptop = scene.start("laptop").await;
    let whom = scene.overlay.find("site").expect("listed");
    laptop.ask(whom, message(1 << 20)).await;
    laptop.expect_answer(&message(1 << 20)).await;
    until_live(&laptop, &["dsl", "lte"]).await;
    for (dead, left) in [("dsl", "lte"), ("lte", "dsl")] {
        laptop.ask(whom, message(3 << 20)).await;
        scene.emulator.link(dead).expect("it is emulated").kill();
        laptop.expect_answer(&message(3 << 20)).await;
        until_live(&laptop, &[left]).await;
        scene.emulator.link(dead).expect("it is emulated").restore();
        until_live(&laptop, &["dsl", "lte"]).await;
    }
    let bound: Vec<String> = laptop
        .endpoint
        .uplinks()
        .iter()
        .map(|(uplink, reach)| format!("{uplink} {}", reach.data.ip()))
        .collect();
    assert_eq!(bound, LAPTOP.map(|address| format!("{address} {address}")));
}

#[tokio::test]
async fn an_only_uplink_that_the_machine_does_not_have_is_named() {
    let text = member("laptop", "")
        + &member("site", "control = \"127.0.0.1:1\"\ndata = \"127.0.0.1:2\"")
        + "[[link]]\na = \"laptop\"\nb = \"site\"\nname = \"lte\"\na_from = \"no-such-if0\"\n";
    let overlay = Arc::new(Overlay::parse(&text).expect("a right overlay"));
    let config = EndpointConfig::new(overlay, identity("laptop"));
    let error =
        Endpoint::start(config, Parrot::default(), |_| {}).await.expect_err("there is no such interface");
    let EndpointError::Bind(BindError::NoInterface { interface, .. }) = &error else { panic!("{error:?}") };
    assert_eq!(interface, "no-such-if0");
    let text = error.to_string();
    assert!(text.starts_with("this machine has no interface \"no-such-if0\"; it has lo"), "{text}");
}

/// Stands between a client with several uplinks and a member that listens, and passes on what comes over each of them,
/// until that uplink is cut.
struct Crossroads {
    ports: [SocketAddr; 2],
    cut: watch::Sender<Option<IpAddr>>,
}

impl Crossroads {
    /// In front of the control and the data address of a member.
    async fn before(member: [SocketAddr; 2]) -> Crossroads {
        let (cut, is_cut) = watch::channel(None);
        let mut ports = Vec::new();
        for to in member {
            let entrance = Arc::new(any_port().await);
            ports.push(entrance.local_addr().expect("bound"));
            tokio::spawn(pass_on(entrance, to, is_cut.clone()));
        }
        Crossroads { ports: ports.try_into().expect("one for each plane"), cut }
    }

    /// Nothing passes over that uplink from now on, in either direction; over all others it does.
    fn cut(&self, uplink: Option<&str>) {
        self.cut.send_replace(uplink.map(|address| address.parse().expect("an address")));
    }
}

/// Gives each client a socket of its own, behind which the member sees it. Ends with the test's runtime.
async fn pass_on(entrance: Arc<tokio::net::UdpSocket>, to: SocketAddr, cut: watch::Receiver<Option<IpAddr>>) {
    let (mut datagram, mut exits) = (vec![0; 65_536], BTreeMap::new());
    while let Ok((length, client)) = entrance.recv_from(&mut datagram).await {
        if *cut.borrow() == Some(client.ip()) {
            continue;
        }
        let exit = match exits.entry(client) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let exit = Arc::new(any_port().await);
                tokio::spawn(pass_back(Arc::clone(&exit), Arc::clone(&entrance), client, cut.clone()));
                new.insert(exit)
            }
        };
        let _ = exit.send_to(&datagram[..length], to).await;
    }
}

async fn pass_back(
    exit: Arc<tokio::net::UdpSocket>,
    entrance: Arc<tokio::net::UdpSocket>,
    client: SocketAddr,
    cut: watch::Receiver<Option<IpAddr>>,
) {
    let mut datagram = vec![0; 65_536];
    while let Ok((length, _)) = exit.recv_from(&mut datagram).await {
        if *cut.borrow() != Some(client.ip()) {
            let _ = entrance.send_to(&datagram[..length], client).await;
        }
    }
}

/// Starts a process of a member, with these sockets if it has an address.
pub(crate) async fn start(overlay: &Arc<Overlay>, name: &str, sockets: Option<Sockets>) -> Process {
    let config = EndpointConfig { sockets, ..EndpointConfig::new(Arc::clone(overlay), identity(name)) };
    let (tell, outcomes) = mpsc::unbounded_channel();
    let endpoint = Endpoint::start(config, Parrot::default(), move |outcome| drop(tell.send(outcome)));
    Process::new(endpoint.await.expect("an endpoint"), outcomes)
}

/// A laptop, and a site at `server` that the laptop reaches through the ports of something between them.
fn reached_through(server: [SocketAddr; 2], [control, data]: [SocketAddr; 2]) -> Arc<Overlay> {
    let text = member("laptop", "")
        + &member("site", &format!("control = \"{}\"\ndata = \"{}\"", server[0], server[1]))
        + &format!(
            "[[link]]\na = \"laptop\"\nb = \"site\"\nb_at = {{ control = \"{control}\", data = \"{data}\" }}\n"
        );
    Arc::new(Overlay::parse(&text).expect("a right overlay"))
}

/// The overlay as the laptop has it, whose config names its two uplinks.
fn over_both(overlay: &Overlay) -> Arc<Overlay> {
    let laptop = overlay.find("laptop").expect("listed");
    Arc::new(overlay.clone().over_uplinks(laptop, &LAPTOP.map(uplink)).expect("both can be used"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_uses_uplinks_of_which_the_overlay_file_knows_nothing() {
    let [site, _] = same_ports(SITE);
    let server = addresses(&site);
    let crossroads = Crossroads::before(server).await;
    let overlay = reached_through(server, crossroads.ports);
    let whom = overlay.find("site").expect("listed");
    let site = start(&overlay, "site", Some(site)).await;
    let mut laptop = start(&over_both(&overlay), "laptop", None).await;
    laptop.ask(whom, message(1 << 20)).await;
    laptop.expect_answer(&message(1 << 20)).await;
    let both = LAPTOP.map(|address| format!("@{address}"));
    let both = both.each_ref().map(String::as_str);
    until_live(&laptop, &both).await;
    assert_eq!(live(&site).await, ["", "@2"], "what the site calls them");
    for (dead, left) in [(0, 1), (1, 0)] {
        laptop.ask(whom, message(3 << 20)).await;
        crossroads.cut(Some(LAPTOP[dead]));
        laptop.expect_answer(&message(3 << 20)).await;
        until_live(&laptop, &[both[left]]).await;
        crossroads.cut(None);
        until_live(&laptop, &both).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_relay_and_who_is_behind_it_take_circuits_over_either_uplink() {
    let [relay, site] = same_ports(SITE);
    let mut text = member("laptop", "");
    for (name, sockets) in [("relay", &relay), ("site", &site)] {
        let [control, data] = addresses(sockets);
        text += &member(name, &format!("control = \"{control}\"\ndata = \"{data}\"\nrelay_for = [\"*\"]"));
    }
    text += "[[link]]\na = \"laptop\"\nb = \"relay\"\n[[link]]\na = \"relay\"\nb = \"site\"\n";
    let overlay = Arc::new(Overlay::parse(&text).expect("a right overlay"));
    let whom = overlay.find("site").expect("listed");
    let _relay = start(&overlay, "relay", Some(relay)).await;
    let site = start(&overlay, "site", Some(site)).await;
    let mut laptop = start(&over_both(&overlay), "laptop", None).await;
    laptop.ask(whom, message(1 << 20)).await;
    laptop.expect_answer(&message(1 << 20)).await;
    until_live(&laptop, &["@127.0.0.2", "@127.0.0.3"]).await;
    assert_eq!(live(&site).await, ["", "@2"]);
}

/// A translator between a client and a server, which gives the client another port whenever it is told to.
struct Translator {
    ports: [SocketAddr; 2],
    rebinds: [mpsc::UnboundedSender<()>; 2],
}

impl Translator {
    /// In front of the control and the data address of a server.
    async fn start(server: [SocketAddr; 2]) -> Translator {
        let (mut ports, mut rebinds) = (Vec::new(), Vec::new());
        for to in server {
            let inner = any_port().await;
            ports.push(inner.local_addr().expect("bound"));
            let (rebind, told) = mpsc::unbounded_channel();
            rebinds.push(rebind);
            tokio::spawn(translate(inner, any_port().await, to, told));
        }
        let both = "one for each plane";
        Translator { ports: ports.try_into().expect(both), rebinds: rebinds.try_into().expect(both) }
    }

    fn rebind(&self, plane: usize) {
        self.rebinds[plane].send(()).expect("it runs");
    }
}

async fn any_port() -> tokio::net::UdpSocket {
    tokio::net::UdpSocket::bind("127.0.0.1:0").await.expect("a free port on loopback")
}

/// Ends with the test's runtime.
async fn translate(
    inner: tokio::net::UdpSocket,
    mut outer: tokio::net::UdpSocket,
    to: SocketAddr,
    mut rebinds: mpsc::UnboundedReceiver<()>,
) {
    let (mut forth, mut back, mut client) = (vec![0; 65_536], vec![0; 65_536], to);
    loop {
        tokio::select! {
            Ok((length, from)) = inner.recv_from(&mut forth) => {
                client = from;
                let _ = outer.send_to(&forth[..length], to).await;
            }
            Ok((length, _)) = outer.recv_from(&mut back) => {
                let _ = inner.send_to(&back[..length], client).await;
            }
            Some(()) = rebinds.recv() => outer = any_port().await,
            else => return,
        }
    }
}

/// A greeting alone would tell the server within 15 s.
const SOON: Duration = Duration::from_secs(10);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_goes_on_when_a_translator_changes_the_ports() {
    let [site, _] = same_ports(SITE);
    let server = addresses(&site);
    let translator = Translator::start(server).await;
    let overlay = reached_through(server, translator.ports);
    let whom = overlay.find("site").expect("listed");
    let _site = start(&overlay, "site", Some(site)).await;
    let mut laptop = start(&overlay, "laptop", None).await;
    laptop.ask(whom, message(1 << 20)).await;
    laptop.expect_answer(&message(1 << 20)).await;
    for planes in [&[1][..], &[0, 1], &[1]] {
        planes.iter().for_each(|plane| translator.rebind(*plane));
        laptop.ask(whom, message(2 << 20)).await;
        let answer = message(2 << 20);
        timeout(SOON, laptop.expect_answer(&answer)).await.expect("the address was learned from a packet");
    }
    let sessions =
        laptop.endpoint.handle().inspect(|node, _| node.sessions().map(|id| id.0).collect::<Vec<_>>());
    assert_eq!(sessions.await.expect("the endpoint lives"), [1], "it is the same session");
}

/// Loopback is an interface like any other, and needs no rights to be bound to.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_link_may_name_an_interface_as_uplink() {
    let site = same_ports(SITE).into_iter().next().expect("two");
    let [control, data] = addresses(&site);
    let text = member("laptop", "")
        + &member("site", &format!("control = \"{control}\"\ndata = \"{data}\""))
        + "[[link]]\na = \"laptop\"\nb = \"site\"\na_from = \"lo\"\n";
    let overlay = Arc::new(Overlay::parse(&text).expect("a right overlay"));
    let whom = overlay.find("site").expect("listed");
    let _site = start(&overlay, "site", Some(site)).await;
    let mut laptop = start(&overlay, "laptop", None).await;
    laptop.ask(whom, message(100_000)).await;
    laptop.expect_answer(&message(100_000)).await;
}
