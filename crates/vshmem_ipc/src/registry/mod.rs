//! Objects: their ids, slots, keys, names and permissions.

pub(crate) mod attach_records;
pub(crate) mod get;
pub(crate) mod lookup;
pub(crate) mod name;
pub(crate) mod permission;
pub(crate) mod table;
