//! Which parts of the pool this process has attached, and where.

pub mod books;
pub mod fixed;
pub mod mapping_cache;
pub mod pieces;
