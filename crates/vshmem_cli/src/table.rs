//! Tables of text.

use crate::show::clean;

/// A table that is as wide as what is in it.
#[derive(Debug)]
pub struct Table {
    title: String,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these columns.
    pub fn new(title: &str, columns: &[&str]) -> Self {
        Self {
            title: title.to_owned(),
            rows: vec![columns.iter().map(|&column| column.to_owned()).collect()],
        }
    }

    /// Adds a row. Empty cells show as `-`.
    pub fn row(&mut self, cells: Vec<String>) {
        let shown = |cell: String| if cell.is_empty() { "-".to_owned() } else { clean(&cell) };
        self.rows.push(cells.into_iter().map(shown).collect());
    }
}

impl std::fmt::Display for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if !self.title.is_empty() {
            writeln!(f, "------ {} ------", self.title)?;
        }
        let columns = self.rows[0].len();
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for row in &self.rows {
            let cells = row.iter().zip(&widths);
            let line: Vec<String> = cells.map(|(cell, &width)| format!("{cell:<width$}")).collect();
            writeln!(f, "{}", line.join("  ").trim_end())?;
        }
        Ok(())
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
