//! Memory inside a pool: the heap of small chunks, the extents of data pages, and which pages are
//! dirty.

pub(crate) mod backing;
pub(crate) mod change;
pub(crate) mod chunks;
pub(crate) mod dirty;
pub(crate) mod extents;
pub(crate) mod heap;
pub(crate) mod node_order;
