//! `libvshmem_preload.so`: System V's and POSIX's calls as libc symbols, answered from a pool.
//!
//! This crate holds no policy: it turns C arguments into calls of `vshmem_ipc`, errors into errno,
//! and watches those other libc calls (fork, exec, exit, wait, sigaction, setuid, munmap) that
//! change what a process holds in the pool. Symbols are exported unversioned; a versioned map
//! would silently disable interposition.
//!
//! Each layer imports those below it alone:
//!
//! | layer | what it has |
//! |---|---|
//! | `intercept` | the exported symbols, thin |
//! | `posix` | calls of the program on descriptors of objects |
//! | `process_shared` | process-shared locks and semaphores: the thread as an owner, sleeping by address |
//! | `mapping` | calls of the program on its address space, attaching among them |
//! | `session` | this process's place in the pool: joining, fork, exec, exit, credentials, handlers |
//! | `attached` | which parts of the pool are attached, and where |
//! | `object_descriptors` | which descriptors are objects |
//! | `process`, `errno`, `next`, `symbols`, `unwinder`, `log` | the session once it is there; results as C knows them; the symbols behind ours |
//!
//! It runs inside other people's programs. So: no writing to their descriptors, no panic, no heap
//! inside the calls (the first call sets up, and may), errno untouched on success, raw system
//! calls where a program might override libc's.

#![allow(unsafe_code)] // the boundary to C
#![allow(non_camel_case_types)]

mod attached;
mod errno;
mod intercept;
mod log;
mod mapping;
mod next;
mod object_descriptors;
mod posix;
mod process;
mod process_shared;
mod session;
mod symbols;
// A panic that unwinds needs the whole of it.
#[cfg(all(target_arch = "x86_64", panic = "abort", not(test)))]
mod unwinder;

use session::{environment, fork, join, route};

/// Runs when the library is loaded.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = {
    extern "C" fn at_load() {
        vshmem_agent::remember_surroundings();
        environment::remember();
        route::remember();
        join::begin();
        fork::register();
        fork::register_late();
        join::rejoin();
    }
    at_load
};
