//! Objects: their ids, slots, keys and permissions.

pub(crate) mod lookup;
pub(crate) mod permission;
pub(crate) mod table;
