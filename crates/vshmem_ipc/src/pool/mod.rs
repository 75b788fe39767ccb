//! The pool as a whole: its superblock, its tables of domains.

pub(crate) mod domains;
pub(crate) mod home;
pub(crate) mod open;
pub(crate) mod tag_floor;
