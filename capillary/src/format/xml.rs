//! XML documents as trees.

use quick_xml::events::Event;
use quick_xml::reader::Reader;

use crate::format::fault::Place;
use crate::format::{Fault, Problem};

/// So many elements may stand in one another; those of real networks are some ten. The parser of the tree calls itself
/// for each, so that a file could have it overflow the stack.
const DEEPEST: usize = 256;

/// The document tree; a refusal names the line.
pub(super) fn tree(text: &str) -> Result<roxmltree::Document<'_>, Fault> {
    check_depth(text)?;
    roxmltree::Document::parse(text).map_err(|error| {
        let line = error.pos().row as usize;
        Fault::at(Place::Line(line), "XML", Problem::Syntax(error.to_string()))
    })
}

/// Reads once through the document without a tree. What is wrong with it otherwise is refused here, too, because nobody
/// knows how deep it goes from there on.
fn check_depth(text: &str) -> Result<(), Fault> {
    let mut document = Reader::from_str(text);
    let mut depth = 0;
    loop {
        let place = document.buffer_position() as usize;
        match document.read_event().map_err(|error| syntax(document.error_position(), &error))? {
            Event::Start(start) if depth == DEEPEST => {
                let name = start.local_name().as_ref().to_string();
                return Err(Fault::expected(place, name, "at most 256 elements in one another"));
            }
            Event::Start(_) => depth += 1,
            Event::End(_) => depth -= 1,
            Event::Eof => return Ok(()),
            _ => {}
        }
    }
}

fn syntax(place: u64, error: &quick_xml::Error) -> Fault {
    Fault::at(place as usize, "XML", Problem::Syntax(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nested(depth: usize) -> String {
        format!("<?xml version=\"1.0\"?>\n{}{}", "<a>\n".repeat(depth), "</a>\n".repeat(depth))
    }

    /// The stack of the program overflowed.
    #[test]
    fn elements_in_one_another_have_a_limit_that_is_told_with_its_line() {
        assert!(tree(&nested(DEEPEST)).is_ok());
        for depth in [DEEPEST + 1, 100_000] {
            let text = nested(depth);
            let told = tree(&text).map(drop).unwrap_err().in_text(&text).to_string();
            assert_eq!(told, "line 258, a: expected at most 256 elements in one another");
        }
        // Elements beside one another are no matter.
        let wide = format!("<a>{}</a>", "<b><c/></b>".repeat(10_000));
        assert!(tree(&wide).is_ok());
    }
}
