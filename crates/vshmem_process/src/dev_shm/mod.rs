//! Paths that lead directly below /dev/shm: the pool's objects first, then what the kernel has
//! there.
//!
//! A call that only looks (`calls::on_existing`) reads the path's first bytes. Where these say that
//! it leads elsewhere, the kernel's call is made; only if that finds nothing are symbolic links and
//! the current directory looked at. A call that makes a file looks at them first.
//!
//! From below: `text` reads a program's path; `names` says which names are the pool's; `find` says
//! where a path leads; the others are the calls: `open` makes files, `renaming` has two paths,
//! `entries` shows the directory, `status` is about the file system, `calls` has the rest.

pub mod calls;
pub mod entries;
pub mod find;
pub mod names;
pub mod open;
pub mod renaming;
pub mod status;
pub mod text;
