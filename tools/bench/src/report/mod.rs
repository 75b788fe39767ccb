//! How results are shown: rows for a table, lines of JSON.

mod figure;
mod json;
mod rows;

pub use figure::{bytes, duration, factor, microseconds, spread};
pub use json::write_lines;
pub use rows::Rows;
