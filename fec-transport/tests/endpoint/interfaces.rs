//! Interfaces that come and go while a process runs, in network namespaces that the test makes.
//!
//! ```text
//!   laptop   v1 10.9.1.1 ───── 10.9.1.2 w1   site, reached at 10.9.9.9
//!            v2 10.9.2.1 ───── 10.9.2.2 w2
//! ```
//!
//! Namespaces need root, and a thread cannot leave one without `unsafe`; so the laptop and the site are this test
//! program again, started within a namespace each.

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use fec_transport::io::Sockets;
use fec_transport::overlay::Overlay;

use crate::message;
use crate::scene::member;
use crate::uplinks::{start, until_live, uplink};

/// Says to a process which part it plays, and in whose namespaces.
const PART: &str = "FEC_TRANSPORT_TEST_NAMESPACES";

const SITE: [&str; 2] = ["10.9.9.9:7000", "10.9.9.9:7001"];

/// The two namespaces; they go with this.
struct Namespaces {
    prefix: String,
}

/// The site's process, which ends with this.
struct Site(Child);

impl Namespaces {
    /// None where this user may not make any, or there is no program `ip`.
    fn make() -> Option<Namespaces> {
        let namespaces = Namespaces { prefix: format!("fec-{}", std::process::id()) };
        let made = ["laptop", "site"].iter().all(|part| {
            let name = namespaces.name(part);
            try_ip(&format!("netns add {name}")) && try_ip(&format!("-n {name} link set lo up"))
        });
        made.then_some(namespaces)
    }

    fn name(&self, part: &str) -> String {
        format!("{}-{part}", self.prefix)
    }

    /// This program again, for one of its tests that plays a part.
    fn play(&self, part: &str, test: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name(part)]);
        command.arg(std::env::current_exe().expect("a test program"));
        command.args(["--exact", test, "--ignored", "--nocapture"]).env(PART, &self.prefix);
        command
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for part in ["laptop", "site"] {
            try_ip(&format!("netns del {}", self.name(part)));
        }
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn try_ip(arguments: &str) -> bool {
    let status = Command::new("ip").args(arguments.split_whitespace()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

fn ip(arguments: &str) {
    assert!(try_ip(arguments), "ip {arguments}");
}

/// Joins the laptop, in whose namespace this runs, to the site by a cable of that number.
fn plug_in(number: u8) {
    let site = part().name("site");
    ip(&format!("link add v{number} type veth peer name w{number} netns {site}"));
    ip(&format!("-n {site} addr add 10.9.{number}.2/24 dev w{number}"));
    ip(&format!("-n {site} link set w{number} up"));
    ip(&format!("addr add 10.9.{number}.1/24 dev v{number}"));
    ip(&format!("link set v{number} up"));
    ip(&format!("route add 10.9.9.9 via 10.9.{number}.2 dev v{number} metric {number}"));
}

/// The namespaces that this process plays a part in; it does not own them.
fn part() -> std::mem::ManuallyDrop<Namespaces> {
    let prefix = std::env::var(PART).expect("it is started by the test of namespaces");
    std::mem::ManuallyDrop::new(Namespaces { prefix })
}

fn overlay() -> Arc<Overlay> {
    let text = member("laptop", "")
        + &member("site", &format!("control = \"{}\"\ndata = \"{}\"", SITE[0], SITE[1]))
        + "[[link]]\na = \"laptop\"\nb = \"site\"\n";
    Arc::new(Overlay::parse(&text).expect("a right overlay"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a part of the test of namespaces"]
async fn the_site() {
    let [control, data] = SITE.map(|address| address.parse().expect("an address"));
    let sockets = Sockets::bind(control, data).expect("it is in its namespace");
    let _site = start(&overlay(), "site", Some(sockets)).await;
    std::future::pending::<()>().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a part of the test of namespaces"]
#[allow(clippy::disallowed_methods, reason = "it prints how long something took, and asserts no time")]
async fn the_laptop() {
    let overlay = overlay();
    let [laptop, site] = ["laptop", "site"].map(|name| overlay.find(name).expect("listed"));
    let own = overlay.as_ref().clone().over_uplinks(laptop, &[uplink("v1"), uplink("v2")]);
    plug_in(1);
    let mut laptop = start(&Arc::new(own.expect("both can be used")), "laptop", None).await;
    laptop.ask(site, message(1 << 20)).await;
    laptop.expect_answer(&message(1 << 20)).await;
    until_live(&laptop, &["@v1"]).await;
    let came = Instant::now();
    plug_in(2);
    until_live(&laptop, &["@v1", "@v2"]).await;
    println!("an interface that appeared carried data after {:?}", came.elapsed());
    for (gone, left) in [(2, "@v1"), (1, "@v2")] {
        laptop.ask(site, message(6 << 20)).await;
        ip(&format!("link del v{gone}"));
        laptop.expect_answer(&message(6 << 20)).await;
        until_live(&laptop, &[left]).await;
        let came = Instant::now();
        plug_in(gone);
        until_live(&laptop, &["@v1", "@v2"]).await;
        println!("one that came back carried data after {:?}", came.elapsed());
    }
}

#[test]
fn a_process_uses_interfaces_that_appear_while_it_runs_and_lives_when_they_go() {
    let Some(namespaces) = Namespaces::make() else {
        return println!("skipped: this needs root and the program ip, which make network namespaces");
    };
    ip(&format!("-n {} addr add 10.9.9.9/32 dev lo", namespaces.name("site")));
    let site = namespaces.play("site", "interfaces::the_site").stdout(Stdio::null()).spawn();
    let _site = Site(site.expect("the test program starts"));
    let laptop = namespaces.play("laptop", "interfaces::the_laptop").status();
    assert!(laptop.expect("the test program starts").success());
}
