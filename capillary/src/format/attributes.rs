//! What a file says of a link besides its ends.

use std::borrow::Cow;

/// Values by name. Most links have one to four, and a file may have a million links: a short list takes a fraction of
/// a map's memory, and names that a format fixes take none.
#[derive(Debug, Clone, Default)]
pub(super) struct Attributes {
    /// Sorted by name.
    entries: Vec<(Cow<'static, str>, String)>,
}

impl Attributes {
    /// With room for a number of attributes.
    pub(super) fn with_capacity(attributes: usize) -> Self {
        Self { entries: Vec::with_capacity(attributes) }
    }

    pub(super) fn get(&self, name: &str) -> Option<&String> {
        self.entries.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    /// Gives an attribute a value; an earlier one is gone.
    pub(super) fn insert(&mut self, name: impl Into<Cow<'static, str>>, value: impl Into<String>) {
        let (name, value) = (name.into(), value.into());
        match self.entries.binary_search_by(|(known, _)| known.cmp(&name)) {
            Ok(place) => self.entries[place].1 = value,
            Err(place) => self.entries.insert(place, (name, value)),
        }
    }

    pub(super) fn remove(&mut self, name: &str) -> Option<String> {
        let place = self.entries.iter().position(|(known, _)| known == name)?;
        Some(self.entries.remove(place).1)
    }

    /// The names in order, for an error that says what there is.
    pub(super) fn names(&self) -> String {
        if self.entries.is_empty() {
            return "none".into();
        }
        self.entries.iter().map(|(name, _)| &**name).collect::<Vec<_>>().join(", ")
    }
}

impl<N: Into<Cow<'static, str>>, V: Into<String>> FromIterator<(N, V)> for Attributes {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(entries: I) -> Self {
        let mut attributes = Self::default();
        attributes.extend(entries);
        attributes
    }
}

impl<N: Into<Cow<'static, str>>, V: Into<String>> Extend<(N, V)> for Attributes {
    fn extend<I: IntoIterator<Item = (N, V)>>(&mut self, entries: I) {
        entries.into_iter().for_each(|(name, value)| self.insert(name, value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_two_values_counts_and_names_are_in_order() {
        let mut attributes: Attributes =
            [("weight", "1"), ("bw", "2"), ("weight", "3")].into_iter().collect();
        assert_eq!(
            (attributes.names().as_str(), attributes.get("weight")),
            ("bw, weight", Some(&"3".into()))
        );
        assert_eq!(attributes.remove("bw"), Some("2".into()));
        assert_eq!((attributes.get("bw"), attributes.names().as_str()), (None, "weight"));
        assert_eq!(Attributes::default().names(), "none");
    }
}
