//! `sfio overlay draw`: the picture of an overlay, as SVG or PNG.
//!
//! Members stand in columns by their distance in links from the clients (the members without an address), so that
//! traffic runs from left to right.

mod key;

use std::fmt::Write as _;
use std::path::PathBuf;

use fec_transport::overlay::{Link, LinkId, Member, MemberId, Overlay};

use crate::exit::{Exit, Failure, OrFail as _};
use crate::web::layout;
use fec_transport::io::files::read_overlay;

/// Draw an overlay file as SVG or PNG
///
/// Clients are on the left. A link is the wider, the more it can carry, and the redder, the more it loses.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  sfio overlay draw try/overlay.toml -o overlay.svg\n  sfio overlay draw try/overlay.toml -o overlay.png"
)]
pub(crate) struct Options {
    /// The overlay file
    file: PathBuf,

    /// The file to write, .svg or .png; SVG on standard output without it
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(super) fn run(options: &Options) -> Result<(), Failure> {
    let svg = Picture::of(&read_overlay(&options.file).or_exit(Exit::Input)?).svg();
    program::picture::put(options.output.as_deref(), &svg)
}

/// Sizes in pixels.
const COLUMN: f64 = 540.0;
const ROW: f64 = 110.0;
const MARGIN: f64 = 90.0;
/// Above the first row and below the last one, and more where parallel links fan out beyond it.
const EDGE: f64 = 44.0;
/// Of a label beside the link that it belongs to.
const LABEL_HEIGHT: f64 = 12.0;
const BOX_WIDTH: f64 = 110.0;
const BOX_HEIGHT: f64 = 44.0;
/// Of the widest link.
const WIDEST: f64 = 4.0;

/// Between the bends of two parallel links.
const FAN: f64 = 56.0;

/// The loss from which on a link is drawn fully red.
const RED_LOSS: f64 = 0.1;

/// An overlay with a place for each member.
struct Picture<'a> {
    overlay: &'a Overlay,
    /// By member.
    places: Vec<Place>,
    width: f64,
    height: f64,
    widest_mbit: f64,
}

/// The centre of a member, and its row.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Place {
    x: f64,
    y: f64,
    column: usize,
    /// Its position in its column, as a share in [0, 1].
    rank: f64,
}

impl Picture<'_> {
    fn of(overlay: &Overlay) -> Picture<'_> {
        let columns = columns(overlay);
        let column_count = columns.iter().max().map_or(1, |last| last + 1);
        let sizes: Vec<usize> = (0..column_count)
            .map(|column| columns.iter().filter(|other| **other == column).count())
            .collect();
        let tallest = sizes.iter().copied().max().unwrap_or(1);
        let edge = EDGE.max(reach_of_fans(overlay) + LABEL_HEIGHT);
        let mut taken = vec![0; column_count];
        let place = |column: usize| {
            let (row, size) = (taken[column], sizes[column]);
            taken[column] += 1;
            let top = (tallest - size) as f64 / 2.0;
            Place {
                x: MARGIN + column as f64 * COLUMN,
                y: edge + (top + row as f64) * ROW,
                column,
                rank: (row as f64 + 0.5) / size as f64,
            }
        };
        Picture {
            overlay,
            places: columns.into_iter().map(place).collect(),
            width: 2.0 * MARGIN + (column_count - 1) as f64 * COLUMN,
            height: 2.0 * edge + tallest.saturating_sub(1) as f64 * ROW,
            widest_mbit: overlay.links().iter().filter_map(|link| link.capacity_mbit).fold(1e-9, f64::max),
        }
    }

    fn svg(&self) -> String {
        let key = key::Key::of(self);
        let (width, height) = (self.width.max(key.width), self.height + key.height);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
             height=\"{height}\" font-family=\"sans-serif\" text-anchor=\"middle\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
        );
        for (id, link) in self.overlay.listed_links() {
            self.draw_link(&mut svg, id, link);
        }
        for (id, link) in self.overlay.listed_links() {
            self.label_link(&mut svg, id, link);
        }
        for (member, place) in self.overlay.members().iter().zip(&self.places) {
            draw_member(&mut svg, member, *place);
        }
        key.draw(&mut svg, self.height);
        svg + "</svg>\n"
    }

    fn place(&self, member: MemberId) -> Place {
        self.places[usize::from(member.0)]
    }

    /// The ends of a link from left to right, or from top to bottom.
    fn ends(&self, link: &Link) -> (Place, Place) {
        let (a, b) = (self.place(link.a), self.place(link.b));
        if (a.column, a.rank) <= (b.column, b.rank) { (a, b) } else { (b, a) }
    }

    /// How far the bend of a link lies below the straight line: parallel links fan out.
    fn sag(&self, id: LinkId, link: &Link) -> f64 {
        let parallel = self.overlay.links_between(link.a, link.b);
        let place = parallel.iter().position(|other| *other == id).unwrap_or(0);
        (place as f64 - (parallel.len().saturating_sub(1)) as f64 / 2.0) * FAN
    }

    fn draw_link(&self, svg: &mut String, id: LinkId, link: &Link) {
        let (from, to) = self.ends(link);
        let stroke = self.stroke(link.capacity_mbit.unwrap_or(0.0));
        let colour = colour(link.loss.unwrap_or(0.0));
        let bow = bow(from, to);
        let (middle_x, middle_y) = ((from.x + to.x) / 2.0 + bow, (from.y + to.y) / 2.0 + self.sag(id, link));
        let _ = writeln!(
            svg,
            "<path d=\"M {:.1} {:.1} Q {middle_x:.1} {middle_y:.1} {:.1} {:.1}\" fill=\"none\" \
             stroke=\"{colour}\" stroke-width=\"{stroke:.1}\" stroke-opacity=\"0.7\"/>",
            from.x, from.y, to.x, to.y
        );
    }

    /// How wide a link of that capacity is drawn.
    fn stroke(&self, capacity_mbit: f64) -> f64 {
        1.0 + (capacity_mbit / self.widest_mbit).sqrt() * (WIDEST - 1.0)
    }

    /// Writes what is known of a link along it, on the level of its end's rank: so the labels of links that come from
    /// one member, and of those that go to one member, lie apart.
    fn label_link(&self, svg: &mut String, id: LinkId, link: &Link) {
        let words = label(link);
        if words.is_empty() {
            return;
        }
        let (from, to) = self.ends(link);
        let bow = bow(from, to);
        let t = if bow == 0.0 { 0.15 + 0.7 * to.rank } else { 0.5 };
        // As far below the straight line as a quadratic curve is there.
        let sag = 2.0 * t * (1.0 - t) * self.sag(id, link);
        let (x, y) = (from.x + t * (to.x - from.x) + bow / 2.0, from.y + t * (to.y - from.y) + sag);
        let angle = if bow == 0.0 { (to.y - from.y).atan2(to.x - from.x).to_degrees() } else { 0.0 };
        let _ = writeln!(
            svg,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" dy=\"3.5\" font-size=\"10\" fill=\"#222\" stroke=\"white\" \
             stroke-width=\"3\" paint-order=\"stroke\" transform=\"rotate({angle:.1} {x:.1} {y:.1})\">{words}</text>"
        );
    }
}

/// How far the outermost of parallel links lies beside the straight line: half as far as its bend.
fn reach_of_fans(overlay: &Overlay) -> f64 {
    let parallel = overlay.listed_links().map(|(_, link)| overlay.links_between(link.a, link.b).len());
    parallel.max().map_or(0.0, |most| most.saturating_sub(1) as f64 / 2.0 * FAN / 2.0)
}

/// The colour of a link that loses that share.
fn colour(loss: f64) -> String {
    let red = (loss / RED_LOSS).clamp(0.0, 1.0);
    let (r, g, b) = (150.0 + red * 70.0, 165.0 - red * 125.0, 185.0 - red * 145.0);
    format!("rgb({r:.0},{g:.0},{b:.0})")
}

/// How far a link bows to the right: one within a column would run through the members between its ends.
fn bow(from: Place, to: Place) -> f64 {
    if from.column == to.column { 60.0 + (to.y - from.y) / 4.0 } else { 0.0 }
}

/// The distance of each member in links from the nearest client, as on every map of an overlay.
fn columns(overlay: &Overlay) -> Vec<usize> {
    let numbered = overlay.members().iter().enumerate();
    let clients = numbered.filter(|(_, member)| member.control.is_none()).map(|(number, _)| number);
    let links = overlay.links().iter().map(|link| (usize::from(link.a.0), usize::from(link.b.0)));
    let links: Vec<_> = links.collect();
    layout::columns(overlay.members().len(), &clients.collect::<Vec<_>>(), &links)
}

/// What the overlay file tells of what a member does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// It has no address.
    Client,
    /// It relays for somebody.
    Relay,
    /// It has an address and relays for nobody: an I/O node, as a rule.
    Server,
}

impl Part {
    fn of(member: &Member) -> Part {
        let relays = member.relay_for != fec_transport::overlay::RelayFor::Members(Default::default());
        match (member.control.is_some(), relays) {
            (false, _) => Part::Client,
            (true, true) => Part::Relay,
            (true, false) => Part::Server,
        }
    }

    fn fill(self) -> &'static str {
        match self {
            Part::Client => "#fdf3d8",
            Part::Relay => "#dcefe1",
            Part::Server => "#dbe8f8",
        }
    }
}

fn draw_member(svg: &mut String, member: &Member, place: Place) {
    let fill = Part::of(member).fill();
    let (left, top) = (place.x - BOX_WIDTH / 2.0, place.y - BOX_HEIGHT / 2.0);
    let _ = writeln!(
        svg,
        "<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{BOX_WIDTH}\" height=\"{BOX_HEIGHT}\" rx=\"9\" \
         fill=\"{fill}\" stroke=\"#456\"/>"
    );
    let address = member.control.map(|address| address.to_string());
    let (name_y, address_y) =
        if address.is_some() { (place.y - 2.0, place.y + 14.0) } else { (place.y + 5.0, 0.0) };
    let name = escape(&member.name);
    let _ = writeln!(svg, "<text x=\"{:.1}\" y=\"{name_y:.1}\" font-size=\"14\">{name}</text>", place.x);
    if let Some(address) = address {
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{address_y:.1}\" font-size=\"10\" fill=\"#456\">{address}</text>",
            place.x
        );
    }
}

/// What is known of a link, in few characters.
fn label(link: &Link) -> String {
    let capacity = link.capacity_mbit.map(|capacity| format!("{capacity} Mbit/s"));
    let delay = link.delay_ms.map(|delay| format!("{delay} ms"));
    let loss = link.loss.map(|loss| format!("{} %", (loss * 1e6).round() / 1e4));
    let name = (!link.name.is_empty()).then(|| escape(&link.name));
    [name, capacity, delay, loss].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Names are the user's and may hold what means something in XML.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use fec_transport::keys::encode_key;

    use super::*;

    fn overlay(names: &[&str], links: &[(&str, &str)]) -> Overlay {
        let mut text = String::new();
        for (number, name) in names.iter().enumerate() {
            let [ed25519, x25519] = [1, 101].map(|first| encode_key(&[first + number as u8; 32]));
            text +=
                &format!("[[member]]\nname = \"{name}\"\ned25519 = \"{ed25519}\"\nx25519 = \"{x25519}\"\n");
            if *name != "client" {
                text += "control = \"127.0.0.1:1\"\ndata = \"127.0.0.1:2\"\n";
            }
        }
        for (a, b) in links {
            text += &format!("[[link]]\na = \"{a}\"\nb = \"{b}\"\ncapacity_mbit = 10\nloss = 0.025\n");
        }
        Overlay::parse(&text).expect("a right file")
    }

    #[test]
    fn members_stand_in_columns_by_their_distance_from_the_client() {
        let overlay = overlay(
            &["io1", "r1", "r2", "client", "alone"],
            &[("client", "r1"), ("client", "r2"), ("r1", "io1"), ("r1", "r2")],
        );
        assert_eq!(columns(&overlay), [2, 1, 1, 0, 3]);
    }

    #[test]
    fn no_two_members_share_a_place_and_all_are_inside_the_picture() {
        let overlay = overlay(&["a", "b", "c", "client"], &[("a", "client"), ("b", "client"), ("a", "b")]);
        let picture = Picture::of(&overlay);
        for (index, place) in picture.places.iter().enumerate() {
            assert!(place.x > 0.0 && place.x < picture.width && place.y > 0.0 && place.y < picture.height);
            assert!(!picture.places[..index].iter().any(|other| (other.x, other.y) == (place.x, place.y)));
        }
    }

    #[test]
    fn names_are_escaped_and_links_say_what_is_known() {
        let svg = Picture::of(&overlay(&["<b&d>", "client"], &[("client", "<b&d>")])).svg();
        assert!(svg.contains("&lt;b&amp;d&gt;") && !svg.contains("<b&d>"));
        assert!(svg.contains("10 Mbit/s, 2.5 %"));
    }

    #[test]
    fn parallel_links_fan_out_and_bear_their_names() {
        let mut text = String::new();
        for (number, name) in ["laptop", "io1"].iter().enumerate() {
            let [ed25519, x25519] = [1, 101].map(|first| encode_key(&[first + number as u8; 32]));
            text += &format!(
                "[[member]]\nname = \"{name}\"\ned25519 = \"{ed25519}\"\nx25519 = \"{x25519}\"\n\
                 control = \"127.0.0.1:1\"\ndata = \"127.0.0.1:2\"\n"
            );
        }
        for name in ["dsl", "l<te", "2", "3", "4", "5"] {
            text +=
                &format!("[[link]]\na = \"laptop\"\nb = \"io1\"\nname = \"{name}\"\ncapacity_mbit = 10\n");
        }
        let overlay = Overlay::parse(&text).expect("a right file");
        let svg = Picture::of(&overlay).svg();
        assert!(svg.contains(">dsl, 10 Mbit/s<") && svg.contains(">l&lt;te, 10 Mbit/s<"), "{svg}");
        let ways: std::collections::BTreeSet<&str> = svg
            .lines()
            .filter(|line| line.contains(" Q "))
            .filter_map(|line| line.split('"').nth(1))
            .collect();
        assert_eq!(ways.len(), 6, "one lies upon the other: {svg}");
        let heights = svg
            .lines()
            .filter(|line| line.contains("<text"))
            .filter_map(|line| line.split_once(" y=\"")?.1.split('"').next()?.parse::<f64>().ok());
        let height = Picture::of(&overlay).height;
        assert!(heights.take(6).all(|y| (LABEL_HEIGHT / 2.0..height).contains(&y)), "outside: {svg}");
    }

    #[test]
    fn the_key_explains_what_is_on_the_picture_and_nothing_else() {
        let svg = Picture::of(&overlay(&["a", "b", "client"], &[("client", "a"), ("a", "b")])).svg();
        for words in [
            ">client: no address<",
            ">serves, relays for nobody<",
            ">carries 10 Mbit/s<",
            ">loses 10 % or more<",
        ] {
            assert!(svg.contains(words), "{words} is not in {svg}");
        }
        assert!(!svg.contains("relays for others"), "{svg}");
        let bare = Picture::of(&overlay(&["a", "b"], &[])).svg();
        assert!(!bare.contains("carries") && !bare.contains("loses"), "{bare}");
    }
}
