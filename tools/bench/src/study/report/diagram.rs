//! A figure of the report, for desks and for phones.

use super::chart::{Format, NARROW, WIDE};

/// A figure in two formats.
#[derive(Debug, Clone)]
pub struct Diagram {
    /// Its file's name, without the ending.
    pub name: String,
    /// What it shows.
    pub title: String,
    /// What it shows, how to read it, and on what it was measured: to be pasted.
    pub caption: String,
    /// For desks and paper.
    pub wide: String,
    /// For phones.
    pub narrow: String,
    /// One of several beside each other.
    pub small: bool,
}

/// One for desks and phones; none if there is nothing to draw.
pub fn diagram(
    name: &str,
    title: &str,
    caption: &str,
    draw: impl Fn(Format) -> Option<String>,
) -> Option<Diagram> {
    let (wide, narrow) = (draw(WIDE)?, draw(NARROW)?);
    Some(Diagram {
        name: name.into(),
        title: title.into(),
        caption: caption.into(),
        wide,
        narrow,
        small: false,
    })
}
