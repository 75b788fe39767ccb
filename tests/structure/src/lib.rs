//! The sources of the workspace as files, modules and functions, for the rules in `tests/`.

mod functions;
mod imports;
mod tree;

pub use functions::{Function, functions};
pub use imports::{Arrow, arrows, circles, is_test_only};
pub use tree::{Crate, SourceFile, crates, root, tracked};
