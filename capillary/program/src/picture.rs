//! Pictures that a program has made as SVG: written as SVG or as PNG, as the file's name ends.

use std::path::Path;
use std::sync::Arc;

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree, fontdb};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output;

/// A PNG has so many dots for each unit of the drawing, so that it stays sharp on dense screens.
const DOTS: f32 = 2.0;

/// The longest side of a PNG, in dots: what is larger gets fewer dots a unit. Programs that show pictures refuse more.
const LONGEST_SIDE: f32 = 16_384.0;

/// Writes an SVG picture to the file at `path`, as PNG if its name ends in `.png`, or as SVG to standard output if
/// there is none, or if it is `-`.
///
/// # Errors
/// As [`check_name`] and [`output::put`].
pub fn put(path: Option<&Path>, svg: &str) -> Result<(), Failure> {
    let Some(path) = path else { return output::put(None, svg) };
    check_name(path)?;
    if !has_ending(path, "png") {
        return output::put(Some(path), svg);
    }
    let png = png(svg).map_err(|error| Failure::new(Exit::Failed, format!("{}: {error}", path.display())))?;
    std::fs::write(path, png).map_err(|error| Failure::file(path, &error))
}

/// Checks, before there is a picture, that it can be written under that name.
///
/// # Errors
/// If the name has an ending other than `.svg` and `.png`.
pub fn check_name(path: &Path) -> Result<(), Failure> {
    if path.extension().is_none() || has_ending(path, "svg") || has_ending(path, "png") {
        return Ok(());
    }
    let place = path.display();
    Err(Failure::usage(format!(
        "{place}: the picture is SVG or PNG; expected a name that ends in .svg or .png"
    )))
}

fn has_ending(path: &Path, ending: &str) -> bool {
    path.extension().is_some_and(|found| found.eq_ignore_ascii_case(ending))
}

/// The picture as PNG, with the fonts that charts are drawn with, or what is wrong with the SVG.
fn png(svg: &str) -> Result<Vec<u8>, String> {
    let mut fonts = fontdb::Database::new();
    for font in [dejavu::sans::regular(), dejavu::sans::bold()] {
        fonts.load_font_data(font.to_vec());
    }
    fonts.set_sans_serif_family("DejaVu Sans");
    let options = Options { fontdb: Arc::new(fonts), ..Options::default() };
    let tree = Tree::from_str(svg, &options).map_err(|error| error.to_string())?;
    let size = tree.size();
    let dots = DOTS.min(LONGEST_SIDE / size.width().max(size.height()));
    let side = |length: f32| (length * dots).ceil() as u32;
    let (width, height) = (side(size.width()), side(size.height()));
    let mut dots_of = Pixmap::new(width, height).ok_or(format!("{width}×{height} dots are too many"))?;
    resvg::render(&tree, Transform::from_scale(dots, dots), &mut dots_of.as_mut());
    dots_of.encode_png().map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SVG: &str = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"60\" height=\"20\" font-family=\"sans-serif\">\
                       <rect width=\"100%\" height=\"100%\" fill=\"white\"/><text x=\"4\" y=\"15\">name</text></svg>";

    #[test]
    fn a_picture_is_written_as_its_name_ends() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        assert_eq!(put(Some(&path("a.SVG")), SVG), Ok(()));
        assert_eq!(std::fs::read_to_string(path("a.SVG")).expect("it was written"), SVG);
        assert_eq!(put(Some(&path("a.png")), SVG), Ok(()));
        assert!(std::fs::read(path("a.png")).expect("it was written").starts_with(b"\x89PNG"));
        let refused = put(Some(&path("a.jpg")), SVG).unwrap_err();
        assert!(refused.exit == Exit::Usage && refused.to_string().contains(".svg or .png"), "{refused}");
        assert!(!path("a.jpg").exists());
    }

    #[test]
    fn letters_are_drawn_with_our_own_font() {
        let dots = Pixmap::decode_png(&png(SVG).expect("right SVG")).expect("right PNG");
        assert_eq!((dots.width(), dots.height()), (120, 40));
        assert!(dots.pixels().iter().any(|dot| dot.red() < 50), "there is no text on the picture");
    }

    #[test]
    fn a_huge_picture_gets_fewer_dots() {
        let svg = SVG.replace("\"60\"", "\"32768\"");
        let dots = Pixmap::decode_png(&png(&svg).expect("right SVG")).expect("right PNG");
        assert_eq!((dots.width(), dots.height()), (16_384, 10));
    }
}
