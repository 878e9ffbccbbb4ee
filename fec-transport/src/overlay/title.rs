//! Links and routes as people read them, the same in every program, table and picture.

/// A link by its two ends, and by its name if it has one: `client – io1`, or `client – io1 (lte)`.
#[must_use]
pub fn link_title(a: &str, b: &str, name: &str) -> String {
    if name.is_empty() { format!("{a} – {b}") } else { format!("{a} – {b} ({name})") }
}

/// A route by its members, and between two of them by the name of the link if it has one: `laptop – r1 – io1`, or
/// `laptop –(lte)– io1`.
///
/// `links` has a name for each pair of neighbouring members; where it is empty or missing, the link has none.
#[must_use]
pub fn route_title(members: &[impl AsRef<str>], links: &[impl AsRef<str>]) -> String {
    let mut text = String::new();
    for (place, member) in members.iter().enumerate() {
        match place.checked_sub(1).map(|before| links.get(before).map_or("", AsRef::as_ref)) {
            None => {}
            Some("") => text += " – ",
            Some(name) => text += &format!(" –({name})– "),
        }
        text += member.as_ref();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_names_the_links_that_have_names() {
        let none: [&str; 0] = [];
        assert_eq!(route_title(&["laptop", "r1", "io1"], &["", ""]), "laptop – r1 – io1");
        assert_eq!(route_title(&["laptop", "io1"], &["lte"]), "laptop –(lte)– io1");
        assert_eq!(route_title(&["laptop", "r1", "io1"], &["lte"]), "laptop –(lte)– r1 – io1");
        assert_eq!(route_title(&["laptop"], &none), "laptop");
        assert_eq!(route_title(&none, &none), "");
    }
}
