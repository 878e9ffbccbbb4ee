//! A way on which a real router drops what is too long, whether or not it says so.
//!
//! ```text
//!   laptop 10.9.1.1 ───── 10.9.1.2 router 10.9.2.1 ─── MTU 1,400 ─── 10.9.2.2 site, reached at 10.9.9.9
//! ```
//! What the site sends is refused by its own kernel, and what the laptop sends is dropped by the router: it answers by
//! ICMP, which the laptop's kernel turns into an error of the socket, or in silence.

use crate::message;
use crate::namespaces::{Namespaces, SKIPPED, ip, overlay};
use crate::uplinks::start;

/// The three parts, joined so that the second way carries packets of at most 1,400 bytes. None where this user may not
/// make them, or may not have the kernel forward packets, as in some containers.
fn joined(test: &str) -> Option<Namespaces> {
    let namespaces = Namespaces::make(test, &["laptop", "router", "site"])?;
    let [laptop, router, site] = ["laptop", "router", "site"].map(|part| namespaces.name(part));
    for (one, other, net, mtu) in [(&laptop, &router, 1, 1500), (&router, &site, 2, 1400)] {
        ip(&format!("-n {one} link add a{net} mtu {mtu} type veth peer name b{net} mtu {mtu} netns {other}"));
        for (part, name, host) in [(one, 'a', 1), (other, 'b', 2)] {
            ip(&format!("-n {part} addr add 10.9.{net}.{host}/24 dev {name}{net}"));
            ip(&format!("-n {part} link set {name}{net} up"));
        }
    }
    ip(&format!("-n {laptop} route add default via 10.9.1.2"));
    ip(&format!("-n {router} route add 10.9.9.9 via 10.9.2.2"));
    ip(&format!("-n {site} route add default via 10.9.2.1"));
    let mut forward = namespaces.within("router", "sh");
    forward.args(["-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"]);
    forward.status().is_ok_and(|status| status.success()).then_some(namespaces)
}

/// Sends both ways, and again after the way has become narrower.
fn send(namespaces: &Namespaces) {
    let _site = namespaces.serve();
    namespaces.play("laptop", "narrow::the_laptop");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a part of the tests of a narrow way"]
async fn the_laptop() {
    let overlay = overlay();
    let site = overlay.find("site").expect("listed");
    let mut laptop = start(&overlay, "laptop", None).await;
    laptop.ask(site, message(4 << 20)).await;
    laptop.expect_answer(&message(4 << 20)).await;
    for (part, link) in [("router", "a2"), ("site", "b2")] {
        ip(&format!("-n {} link set {link} mtu 1300", Namespaces::joined().name(part)));
    }
    laptop.ask(site, message(4 << 20)).await;
    laptop.expect_answer(&message(4 << 20)).await;
}

#[test]
fn data_arrives_over_a_narrow_way_whose_router_says_what_is_too_long() {
    let Some(namespaces) = joined("told") else { return println!("{SKIPPED}") };
    send(&namespaces);
}

#[test]
fn data_arrives_over_a_narrow_way_whose_router_is_silent() {
    let Some(namespaces) = joined("silent") else { return println!("{SKIPPED}") };
    // What the router itself sends goes nowhere, and that is its messages of ICMP.
    ip(&format!("-n {} rule add iif lo blackhole", namespaces.name("router")));
    send(&namespaces);
}
