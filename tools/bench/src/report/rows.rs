//! Rows for a table.

/// A table's contents. Who prints it decides how it looks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rows {
    /// What stands over it.
    pub title: String,
    /// The columns' headings.
    pub columns: Vec<String>,
    /// As many cells in each as there are columns; an empty one means that there is no figure.
    pub rows: Vec<Vec<String>>,
}

impl Rows {
    /// No rows yet.
    #[must_use]
    pub fn new<C: Into<String>>(title: &str, columns: impl IntoIterator<Item = C>) -> Self {
        Self {
            title: title.to_owned(),
            columns: columns.into_iter().map(Into::into).collect(),
            rows: Vec::new(),
        }
    }
}
