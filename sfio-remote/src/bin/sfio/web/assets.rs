//! The parts of the page, as they are built into the program.

/// A part of the page.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Asset {
    /// Its name behind the token; the page itself has none.
    pub(super) name: &'static str,
    pub(super) content_type: &'static str,
    pub(super) content: &'static str,
}

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

/// All parts.
pub(super) const ASSETS: [Asset; 8] = [
    Asset { name: "", content_type: HTML, content: include_str!("assets/page.html") },
    Asset { name: "page.css", content_type: CSS, content: include_str!("assets/page.css") },
    Asset { name: "page.js", content_type: SCRIPT, content: include_str!("assets/page.js") },
    Asset { name: "words.js", content_type: SCRIPT, content: include_str!("assets/words.js") },
    Asset { name: "map.js", content_type: SCRIPT, content: include_str!("assets/map.js") },
    Asset { name: "curves.js", content_type: SCRIPT, content: include_str!("assets/curves.js") },
    Asset { name: "tables.js", content_type: SCRIPT, content: include_str!("assets/tables.js") },
    Asset { name: "icon.svg", content_type: SVG, content: include_str!("assets/icon.svg") },
];

/// The part of that name.
pub(super) fn find(name: &str) -> Option<&'static Asset> {
    ASSETS.iter().find(|asset| asset.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names of XML, which browsers know and fetch nothing from.
    const NAMESPACE: &str = "http://www.w3.org/2000/svg";

    #[test]
    fn nothing_names_a_place_outside() {
        for Asset { name, content, .. } in &ASSETS {
            let content = content.replace(NAMESPACE, "");
            for outside in ["http:", "https:", "//cdn", "@import", "src=\"//", "url("] {
                assert!(!content.contains(outside), "{name} has {outside}");
            }
        }
    }

    #[test]
    fn the_policy_forbids_nothing_that_the_page_does() {
        let page = find("").expect("the page").content;
        for inline in ["style=", "<style", " onclick", " onload", "javascript:"] {
            assert!(!page.contains(inline), "{inline}");
        }
        for Asset { name, content, .. } in &ASSETS {
            let evaluated =
                ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"];
            let found = evaluated.iter().find(|word| content.contains(**word));
            assert_eq!(found, None, "in {name}");
        }
        assert_eq!(page.matches("<script").count(), page.matches("<script type=\"module\" src=").count());
    }

    #[test]
    fn every_part_that_another_names_is_there() {
        for Asset { name, content, .. } in &ASSETS {
            for (_, rest) in
                content.match_indices("from \"./").map(|(at, found)| (at, &content[at + found.len()..]))
            {
                let (part, _) = rest.split_once('"').expect("a closing quote");
                assert!(find(part).is_some(), "{name} imports {part}");
            }
        }
        for part in ["page.css", "page.js", "icon.svg"] {
            assert!(find("").expect("the page").content.contains(part), "{part}");
        }
    }
}
