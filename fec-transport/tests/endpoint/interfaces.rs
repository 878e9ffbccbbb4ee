//! Interfaces that come and go while a process runs, in network namespaces that the test makes.
//!
//! ```text
//!   laptop   v1 10.9.1.1 ───── 10.9.1.2 w1   site, reached at 10.9.9.9
//!            v2 10.9.2.1 ───── 10.9.2.2 w2
//! ```

use std::sync::Arc;
use std::time::Instant;

use crate::message;
use crate::namespaces::{Namespaces, SKIPPED, ip, overlay};
use crate::uplinks::{start, until_live, uplink};

/// Joins the laptop, in whose namespace this runs, to the site by a cable of that number.
fn plug_in(number: u8) {
    let site = Namespaces::joined().name("site");
    ip(&format!("link add v{number} type veth peer name w{number} netns {site}"));
    ip(&format!("-n {site} addr add 10.9.{number}.2/24 dev w{number}"));
    ip(&format!("-n {site} link set w{number} up"));
    ip(&format!("addr add 10.9.{number}.1/24 dev v{number}"));
    ip(&format!("link set v{number} up"));
    ip(&format!("route add 10.9.9.9 via 10.9.{number}.2 dev v{number} metric {number}"));
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
    let Some(namespaces) = Namespaces::make("come", &["laptop", "site"]) else {
        return println!("{SKIPPED}");
    };
    let _site = namespaces.serve();
    namespaces.play("laptop", "interfaces::the_laptop");
}
