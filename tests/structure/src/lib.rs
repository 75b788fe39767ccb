//! The sources of the workspace as files, modules and functions, for the rules in `tests/`.

mod functions;
mod imports;
mod tree;

pub use functions::{Function, functions};
pub use imports::{Arrow, arrows, circles};
pub use tree::{Crate, SourceFile, crates, is_generated, root, tracked};
