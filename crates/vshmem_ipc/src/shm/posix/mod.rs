//! POSIX shared memory objects: shm_open(3), shm_unlink(3), rename(2), ftruncate(2), and what
//! descriptors do.
//!
//! An object is a slot of the segment table with a name in place of a key. It begins without data
//! pages; the first size gives it some. Descriptors are counted beside attaches, client by client:
//! the object lives as long as it has a name, a descriptor or an attach.

pub(crate) mod descriptors;
pub(crate) mod object;
pub(crate) mod open;
pub(crate) mod places;
pub(crate) mod rename;
pub(crate) mod size;
pub(crate) mod status;
pub(crate) mod unlink;
