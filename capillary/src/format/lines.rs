//! What formats of one record a line have in common: lines with their places, without comments.

use crate::format::Fault;
use crate::format::fault::offset_in;

/// A line that is neither blank nor a comment, with its place.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line<'t> {
    pub(super) place: usize,
    pub(super) text: &'t str,
}

/// The lines of a text. Comments begin with one of `marks`.
pub(super) fn lines<'t>(text: &'t str, marks: &'static [char]) -> impl Iterator<Item = Line<'t>> {
    let shown = text.lines().map(str::trim).filter(move |line| !line.is_empty() && !line.starts_with(marks));
    shown.map(|line| Line { place: offset_in(text, line), text: line })
}

impl<'t> Line<'t> {
    pub(super) fn words(self) -> Vec<&'t str> {
        self.text.split_whitespace().collect()
    }

    pub(super) fn expected(self, element: impl Into<String>, what: &'static str) -> Fault {
        Fault::expected(self.place, element, what)
    }
}
