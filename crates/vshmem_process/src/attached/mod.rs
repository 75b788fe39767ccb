//! Which parts of the pool this process has attached, and where.
//!
//! From below: `addresses` takes and gives back address space; `attach_table` has the pieces of
//! attached segments, and who may change them when; `bounds` says where they all lie, and
//! `place` keeps them in one range; `pieces` is this process's table of them, with
//! the pool that counts; `future_locks` is what mlockall(2) has said of new mappings; `fixed` is
//! for links whose mappings can only be replaced; `mapping_cache` keeps mappings of detached
//! segments.

pub mod addresses;
pub mod attach_table;
pub mod bounds;
pub mod fixed;
pub mod future_locks;
pub mod mapping_cache;
pub mod pieces;
pub mod place;
