//! Tables of text.

use crate::show::sanitized;

/// A table that is as wide as what is in it.
#[derive(Debug)]
pub struct Table {
    title: String,
    cells: comfy_table::Table,
}

impl Table {
    /// A table with these columns.
    pub fn new(title: &str, columns: &[&str]) -> Self {
        let mut cells = comfy_table::Table::new();
        cells.load_style(comfy_table::presets::NOTHING).set_header(columns);
        for column in cells.column_iter_mut() {
            column.set_padding((0, 2));
        }
        Self { title: title.to_owned(), cells }
    }

    /// Adds a row. Empty cells show as `-`.
    pub fn row(&mut self, cells: Vec<String>) {
        let shown = |cell: String| if cell.is_empty() { "-".to_owned() } else { sanitized(&cell) };
        self.cells.add_row(cells.into_iter().map(shown));
    }
}

impl std::fmt::Display for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if !self.title.is_empty() {
            writeln!(f, "------ {} ------", self.title)?;
        }
        writeln!(f, "{}", self.cells.trim_fmt())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_nothing_escapes() {
        let mut table = Table::new("", &["KEY", "ID"]);
        table.row(vec!["0x00000001".into(), String::new()]);
        table.row(vec!["\x1b[2J".into(), "7".into()]);
        let text = table.to_string();
        assert_eq!(text, "KEY         ID\n0x00000001  -\n?[2J        7\n");
    }
}
