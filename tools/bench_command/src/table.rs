//! Rows of figures as a table on the terminal.

use vshmem_bench::report::Rows;

use vshmem_cli::table::Table;

/// The rows, each as an object with a member for each column.
pub fn objects(rows: &Rows) -> Vec<serde_json::Value> {
    let object = |cells: &Vec<String>| {
        let members = rows.columns.iter().cloned().zip(cells.iter().cloned().map(Into::into));
        serde_json::Value::Object(members.collect())
    };
    rows.rows.iter().map(object).collect()
}

/// The table.
pub fn table(rows: Rows) -> Table {
    let columns: Vec<&str> = rows.columns.iter().map(String::as_str).collect();
    let mut table = Table::new(&rows.title, &columns);
    for row in rows.rows {
        table.row(row);
    }
    table
}
