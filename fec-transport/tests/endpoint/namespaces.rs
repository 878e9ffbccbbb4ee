//! Network namespaces that a test makes, with processes of its own program in them.
//!
//! Namespaces need root, and a thread cannot leave one without `unsafe`; so each part is this test program again,
//! started within a namespace for one of its tests that is ignored otherwise.

use std::mem::ManuallyDrop;
use std::process::{Child, Command, Stdio};

/// Says to a process which namespaces it is among.
const PREFIX: &str = "FEC_TRANSPORT_TEST_NAMESPACES";

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

    /// The same, beside what follows.
    pub(crate) fn play_beside(&self, part: &str, test: &str) -> Playing {
        Playing(self.command(part, test).stdout(Stdio::null()).spawn().expect("the test program starts"))
    }

    fn command(&self, part: &str, test: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name(part)]);
        command.arg(std::env::current_exe().expect("a test program"));
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

/// Runs `ip`, which must succeed.
pub(crate) fn ip(arguments: &str) {
    assert!(try_ip(arguments), "ip {arguments}");
}

fn try_ip(arguments: &str) -> bool {
    let status = Command::new("ip").args(arguments.split_whitespace()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}
