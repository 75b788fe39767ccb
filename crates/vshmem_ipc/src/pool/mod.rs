//! The pool as a whole: its superblock, and its tables of domains, clients and threads.

pub(crate) mod chunk;
pub(crate) mod clients;
pub(crate) mod domains;
pub(crate) mod full;
pub(crate) mod host_record;
pub(crate) mod id;
pub(crate) mod limits;
pub(crate) mod open;
pub(crate) mod superblock;
pub(crate) mod tables;
pub(crate) mod tag_floor;
pub(crate) mod threads;
pub(crate) mod wide_pid;
