//! `libvshmem_preload.so`: the System V calls as libc symbols, answered from a pool.
//!
//! This crate holds no policy: it turns C arguments into calls of `vshmem_ipc`, errors into errno,
//! and watches those other libc calls (fork, exec, exit, wait, sigaction, setuid, munmap) that
//! change what a process holds in the pool. Symbols are exported unversioned; a versioned map
//! would silently disable interposition.
//!
//! It runs inside other people's programs. So: no writing to their descriptors, no panic, no heap
//! inside the calls (the first call sets up, and may), errno untouched on success, raw system
//! calls where a program might override libc's.

#![allow(unsafe_code)] // the boundary to C
#![allow(non_camel_case_types)]

mod advice;
mod agent;
mod attached;
mod books;
mod caller;
mod cancel;
mod confined;
mod control;
mod descriptors;
mod environment;
mod errno;
mod exec;
mod exit;
mod fixed;
mod fork;
mod ftok;
mod identity;
mod message_calls;
mod next;
mod numbers;
mod parked;
mod process;
mod procfs;
mod protect;
mod reap;
mod remap;
mod route;
mod segment_calls;
mod semaphore_calls;
mod signal;
mod unmap;
mod user;

/// Runs when the library is loaded.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = {
    extern "C" fn at_load() {
        vshmem_agent::remember_surroundings();
        environment::remember();
        route::remember();
        process::begin();
        fork::register();
        fork::register_late();
        process::rejoin();
    }
    at_load
};
