//! What a process under `vshmem run` has of a pool: which segments are attached where, which
//! descriptors are objects, its locks in shared memory, and its own place among the clients.
//!
//! The symbols that programs call are in `vshmem_preload`, which passes each call on with the
//! function behind it: most of what is here takes such a call and makes it, or not.
//!
//! Each layer imports those below it alone:
//!
//! | layer | what it has |
//! |---|---|
//! | `dev_shm` | calls of the program on paths that lead to objects |
//! | `posix` | calls of the program on descriptors of objects |
//! | `one_host` | members of a pool as processes of one host, where a program asks |
//! | `process_shared` | process-shared locks and semaphores: the thread as an owner, sleeping by address |
//! | `mapping` | calls of the program on its address space, attaching among them |
//! | `session` | this process's place in the pool: joining, fork, exec, exit, credentials, handlers |
//! | `attached` | which parts of the pool are attached, and where |
//! | `object_descriptors` | which descriptors are objects |
//! | `process`, `errno`, `next`, `symbols`, `log` | the session once it is there; results as C knows them; the symbols behind ours |
//!
//! It runs inside other people's programs. So: no writing to their descriptors, no panic, no heap
//! inside the calls (the first call sets up, and may), errno untouched on success, raw system
//! calls where a program might override libc's.

#![allow(unsafe_code)] // calls of the C library, and pointers that C programs pass

pub mod attached;
pub mod dev_shm;
pub mod errno;
mod log;
pub mod mapping;
pub mod next;
pub mod object_descriptors;
pub mod one_host;
pub mod posix;
pub mod process;
pub mod process_shared;
pub mod session;
pub mod symbols;

/// To be called when the library is loaded, before the program can change its environment.
pub fn begin() {
    session::load::begin();
    one_host::begin();
    errno::untouched(dev_shm::find::note_current_directory);
}
