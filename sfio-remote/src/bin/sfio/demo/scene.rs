//! The network of the demo: members and emulated links, read from TOML.

use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use fec_transport::overlay::link_title;
use netsim::{LinkModel, Probability, Rate};
use serde::Deserialize;

use crate::exit::{Exit, Failure, OrFail as _};

/// The scene that the demo plays in unless the user gives another.
pub(crate) const DEFAULT_SCENE: &str = include_str!("scene.toml");

/// The scene of a member with several uplinks, by its name.
const UPLINKS: (&str, &str) = ("uplinks", include_str!("uplinks.toml"));

/// How long a packet may wait for the link: enough to see a queue grow, not enough to hide it.
const QUEUE: Duration = Duration::from_millis(60);

/// The members of the demo, and the links that join them.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Scene {
    pub(crate) client: String,
    pub(crate) relays: Vec<String>,
    pub(crate) io_nodes: Vec<String>,
    #[serde(rename = "link")]
    pub(crate) links: Vec<SceneLink>,
}

/// An emulated link, the same in both directions.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SceneLink {
    pub(crate) a: String,
    pub(crate) b: String,
    /// Tells parallel links apart; empty for a link without a name.
    #[serde(default)]
    pub(crate) name: String,
    /// The addresses from which the two ends send, if not from their own.
    pub(crate) a_from: Option<IpAddr>,
    pub(crate) b_from: Option<IpAddr>,
    pub(crate) rate_mbit: f64,
    pub(crate) delay_ms: f64,
    #[serde(default)]
    pub(crate) loss: f64,
}

impl Scene {
    /// Reads the scene of `file`, or the built-in one, and puts one loss or rate on all links if asked.
    pub(crate) fn read(file: Option<&Path>, loss: Option<f64>, rate: Option<f64>) -> Result<Scene, Failure> {
        let (place, text) = match file {
            None => ("the built-in scene".to_owned(), DEFAULT_SCENE.to_owned()),
            Some(file) if file == Path::new(UPLINKS.0) => {
                ("the scene \"uplinks\"".to_owned(), UPLINKS.1.to_owned())
            }
            Some(file) => {
                let place = format!("scene file {}", file.display());
                let text = std::fs::read_to_string(file).or_fail(Exit::Input, &place)?;
                (place, text)
            }
        };
        let mut scene: Scene = toml::from_str(&text).map_err(|error| {
            let start = error.span().map_or(0, |span| span.start.min(text.len()));
            let line = text[..start].matches('\n').count() + 1;
            Failure::new(Exit::Input, format!("{place}, line {line}: {}", error.message()))
        })?;
        for link in &mut scene.links {
            link.loss = loss.unwrap_or(link.loss);
            link.rate_mbit = rate.unwrap_or(link.rate_mbit);
        }
        scene.check(&place)?;
        Ok(scene)
    }

    /// All members, the client first.
    pub(crate) fn members(&self) -> impl Iterator<Item = &String> {
        std::iter::once(&self.client).chain(&self.relays).chain(&self.io_nodes)
    }

    fn check(&self, place: &str) -> Result<(), Failure> {
        let fail = |what: String| Err(Failure::new(Exit::Input, format!("{place}: {what}")));
        if self.io_nodes.is_empty() {
            return fail("io_nodes is empty; name at least one I/O node".to_owned());
        }
        for (index, link) in self.links.iter().enumerate() {
            let name = link.title();
            for end in [&link.a, &link.b] {
                if !self.members().any(|member| member == end) {
                    return fail(format!("link {name}: there is no member \"{end}\""));
                }
            }
            let is_same = |other: &SceneLink| other.joins(&link.a, &link.b) && other.name == link.name;
            if self.links[..index].iter().any(is_same) {
                return fail(format!(
                    "link {name} is listed twice; one entry serves both directions, and parallel links have names"
                ));
            }
            if !(link.rate_mbit >= 0.1 && link.rate_mbit <= 100_000.0) {
                return fail(format!("link {name}: rate_mbit is {}; expected 0.1 to 100000", link.rate_mbit));
            }
            if !(0.0..=10_000.0).contains(&link.delay_ms) {
                return fail(format!("link {name}: delay_ms is {}; expected 0 to 10000", link.delay_ms));
            }
            if !(0.0..1.0).contains(&link.loss) {
                return fail(format!(
                    "link {name}: loss is {}; expected a share from 0 to below 1",
                    link.loss
                ));
            }
        }
        Ok(())
    }
}

impl SceneLink {
    /// What it is called in reports.
    pub(crate) fn title(&self) -> String {
        link_title(&self.a, &self.b, &self.name)
    }

    fn joins(&self, one: &str, other: &str) -> bool {
        (self.a == one && self.b == other) || (self.a == other && self.b == one)
    }

    /// Bit/s.
    pub(crate) fn rate_bps(&self) -> f64 {
        self.rate_mbit * 1e6
    }

    pub(crate) fn model(&self) -> Result<LinkModel, Failure> {
        let rate = Rate::try_from_bits(self.rate_bps()).or_fail(Exit::Input, self.title())?;
        let loss = Probability::new(self.loss).or_fail(Exit::Input, self.title())?;
        let queue_bytes = (self.rate_bps() / 8.0 * QUEUE.as_secs_f64()).max(20_000.0) as u64;
        let delay = Duration::from_secs_f64(self.delay_ms / 1e3);
        Ok(LinkModel::new(rate, delay).with_loss(loss).with_queue_bytes(queue_bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Scene, String> {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        std::fs::write(file.path(), text).expect("it can be written");
        Scene::read(Some(file.path()), None, None).map_err(|failure| failure.to_string())
    }

    #[test]
    fn the_built_in_scene_is_right_and_takes_one_loss_for_all() {
        let scene = Scene::read(None, Some(0.1), None).expect("right");
        assert!(scene.members().count() >= 8);
        assert!(scene.links.iter().all(|link| link.loss == 0.1 && link.model().is_ok()));
    }

    #[test]
    fn the_scene_of_uplinks_has_two_links_between_the_same_two_members() {
        let scene = Scene::read(Some(Path::new("uplinks")), None, None).expect("right");
        let titles: Vec<String> = scene.links.iter().map(SceneLink::title).collect();
        assert_eq!(titles, ["laptop – site (dsl to fibre)", "laptop – site (lte to cable)"]);
        let twice = UPLINKS.1.replace("lte to cable", "dsl to fibre");
        assert!(read(&twice).unwrap_err().contains("(dsl to fibre) is listed twice"));
    }

    #[test]
    fn a_wrong_scene_is_named_with_its_place() {
        let wrong = DEFAULT_SCENE.replacen("loss = 0.01", "loss = 1", 1);
        assert!(read(&wrong).unwrap_err().contains("link client – r1: loss is 1"));
        let unknown = DEFAULT_SCENE.replacen("delay_ms", "delay", 1);
        assert!(
            read(&unknown).unwrap_err().contains("line 12: unknown field `delay`"),
            "{:?}",
            read(&unknown)
        );
    }
}
