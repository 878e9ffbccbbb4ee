//! Network namespaces that a test makes, with processes of its own program in them: a laptop, and a site that is
//! reached at 10.9.9.9 and answers.
//!
//! Namespaces need root, and a thread cannot leave one without `unsafe`; so each part is this test program again,
//! started within a namespace for one of its tests that is ignored otherwise.

use std::ffi::OsStr;
use std::mem::ManuallyDrop;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use fec_transport::io::Sockets;
use fec_transport::overlay::Overlay;

use crate::scene::member;
use crate::uplinks::start;

/// Says to a process which namespaces it is among.
const PREFIX: &str = "FEC_TRANSPORT_TEST_NAMESPACES";

const SITE: [&str; 2] = ["10.9.9.9:7000", "10.9.9.9:7001"];

/// What a test prints where [`Namespaces::make`] gives none.
pub(crate) const SKIPPED: &str = "skipped: this needs root and the program ip, which make network namespaces";

/// Namespaces, one for each part; they go with this.
pub(crate) struct Namespaces {
    prefix: String,
    parts: &'static [&'static str],
}

/// A process that ends with this.
pub(crate) struct Playing(Child);

impl Namespaces {
    /// None where this user may not make any, or there is no program `ip`.
    pub(crate) fn make(test: &str, parts: &'static [&'static str]) -> Option<Namespaces> {
        let namespaces = Namespaces { prefix: format!("fec-{test}-{}", std::process::id()), parts };
        let made = parts.iter().all(|part| {
            let name = namespaces.name(part);
            try_ip(&format!("netns add {name}")) && try_ip(&format!("-n {name} link set lo up"))
        });
        made.then_some(namespaces)
    }

    /// Those that this process plays a part in; it does not own them.
    pub(crate) fn joined() -> ManuallyDrop<Namespaces> {
        let prefix = std::env::var(PREFIX).expect("it is started by a test of namespaces");
        ManuallyDrop::new(Namespaces { prefix, parts: &[] })
    }

    pub(crate) fn name(&self, part: &str) -> String {
        format!("{}-{part}", self.prefix)
    }

    /// This program again, for one of its tests that plays a part, until it ends.
    pub(crate) fn play(&self, part: &str, test: &str) {
        let status = self.command(part, test).status().expect("the test program starts");
        assert!(status.success(), "{test}: {status}");
    }

    /// Starts the site, which answers as long as what this gives is kept.
    pub(crate) fn serve(&self) -> Playing {
        ip(&format!("-n {} addr add 10.9.9.9/32 dev lo", self.name("site")));
        let mut site = self.command("site", "namespaces::the_site");
        Playing(site.stdout(Stdio::null()).spawn().expect("the test program starts"))
    }

    /// A program within the namespace of a part.
    pub(crate) fn within(&self, part: &str, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name(part)]).arg(program);
        command
    }

    fn command(&self, part: &str, test: &str) -> Command {
        let mut command = self.within(part, std::env::current_exe().expect("a test program"));
        command.args(["--exact", test, "--ignored", "--nocapture"]).env(PREFIX, &self.prefix);
        command
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for part in self.parts {
            try_ip(&format!("netns del {}", self.name(part)));
        }
    }
}

impl Drop for Playing {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The laptop and the site, and one link between them.
pub(crate) fn overlay() -> Arc<Overlay> {
    let text = member("laptop", "")
        + &member("site", &format!("control = \"{}\"\ndata = \"{}\"", SITE[0], SITE[1]))
        + "[[link]]\na = \"laptop\"\nb = \"site\"\n";
    Arc::new(Overlay::parse(&text).expect("a right overlay"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a part of the tests of namespaces"]
async fn the_site() {
    let [control, data] = SITE.map(|address| address.parse().expect("an address"));
    let sockets = Sockets::bind(control, data).expect("it is in its namespace");
    let _site = start(&overlay(), "site", Some(sockets)).await;
    std::future::pending::<()>().await;
}

/// Runs `ip`, which must succeed.
pub(crate) fn ip(arguments: &str) {
    assert!(try_ip(arguments), "ip {arguments}");
}

fn try_ip(arguments: &str) -> bool {
    let status = Command::new("ip").args(arguments.split_whitespace()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}
