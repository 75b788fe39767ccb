//! Rows of figures as a table on the terminal.

use vshmem_bench::report::Rows;

use crate::table::Table;

/// The table.
pub fn table(rows: Rows) -> Table {
    let columns: Vec<&str> = rows.columns.iter().map(String::as_str).collect();
    let mut table = Table::new(&rows.title, &columns);
    for row in rows.rows {
        table.row(row);
    }
    table
}
