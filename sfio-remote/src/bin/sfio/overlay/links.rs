//! The emulated links of a local overlay, as `links.toml` lists them.

use std::path::Path;

use fec_transport::overlay::link_title;
use serde::Deserialize;

use sfio_remote::io::membership::read_toml;

use crate::exit::{Exit, Failure, OrFail as _};

/// All emulated links, and the seed of their losses.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Links {
    #[serde(default)]
    #[cfg_attr(not(feature = "demo"), allow(dead_code, reason = "the emulator alone draws random numbers"))]
    pub(super) seed: u64,
    #[serde(default)]
    pub(super) link: Vec<Link>,
}

/// One emulated link; each of its directions has these values.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Link {
    pub(super) a: String,
    pub(super) b: String,
    /// Tells it from others between the same two members; empty if there are none.
    #[serde(default)]
    pub(super) name: String,
    pub(super) rate_mbit: f64,
    pub(super) delay_ms: f64,
    #[serde(default)]
    pub(super) loss: f64,
}

impl Links {
    /// The links in the file at `path`; none if there is no file.
    pub(super) fn read(path: &Path) -> Result<Links, Failure> {
        if !path.exists() {
            return Ok(Links::default());
        }
        let links: Links = read_toml("links file", path).or_exit(Exit::Input)?;
        let check = |link: &Link| {
            link.check().map_err(|what| {
                let (path, name) = (path.display(), link.title());
                Failure::new(Exit::Input, format!("links file {path}: link {name}: {what}"))
            })
        };
        links.link.iter().try_for_each(check)?;
        Ok(links)
    }
}

impl Link {
    /// For people.
    pub(super) fn title(&self) -> String {
        link_title(&self.a, &self.b, &self.name)
    }

    /// What is wrong with its values, if anything.
    pub(super) fn check(&self) -> Result<(), String> {
        if !(0.001..=1e6).contains(&self.rate_mbit) {
            return Err(format!("a rate of {} Mbit/s; expected 0.001 to 1000000", self.rate_mbit));
        }
        if !(0.0..=60_000.0).contains(&self.delay_ms) {
            return Err(format!("a delay of {} ms; expected 0 to 60000", self.delay_ms));
        }
        if !(0.0..1.0).contains(&self.loss) {
            return Err(format!("a loss of {}; expected a share of at least 0 and below 1", self.loss));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> String {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("links.toml");
        std::fs::write(&file, text).expect("it can be written");
        Links::read(&file).expect_err("it is wrong").to_string()
    }

    #[test]
    fn without_a_file_no_link_is_emulated() {
        assert!(Links::read(Path::new("/nowhere/links.toml")).expect("that is fine").link.is_empty());
    }

    #[test]
    fn each_value_out_of_range_is_named_with_its_link() {
        let link = |values: &str| format!("[[link]]\na = \"client\"\nb = \"r1\"\n{values}\n");
        assert!(
            refusal(&link("rate_mbit = 0\ndelay_ms = 1")).contains("link client – r1: a rate of 0 Mbit/s")
        );
        assert!(refusal(&link("rate_mbit = 1\ndelay_ms = -1")).contains("a delay of -1 ms"));
        assert!(refusal(&link("rate_mbit = 1\ndelay_ms = 1\nloss = 1")).contains("a loss of 1"));
        assert!(refusal(&link("rate_mbit = nan\ndelay_ms = 1")).contains("a rate of NaN"));
        assert!(refusal(&link("rate = 1")).contains("links.toml, line 4: unknown field `rate`"));
    }
}
