//! The sources of the workspace as files, modules and functions, for the rules in `tests/`.

mod c_calls;
mod functions;
mod imports;
mod tree;

pub use c_calls::c_calls;
pub use functions::{Function, functions};
pub use imports::{Arrow, arrows, circles, is_test_only};
pub use tree::{Crate, SourceFile, crates, root, tracked};
