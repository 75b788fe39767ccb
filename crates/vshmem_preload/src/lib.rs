//! `libvshmem_preload.so`: System V's and POSIX's calls as libc symbols, answered from a pool.
//!
//! This crate holds no policy: it turns C arguments into calls of `vshmem_ipc` and
//! `vshmem_process`, errors into errno, and watches those other libc calls (fork, exec, exit, wait,
//! sigaction, setuid, munmap) that change what a process holds in the pool. Symbols are exported
//! unversioned; a versioned map would silently disable interposition. `intercept` has them.
//!
//! It runs inside other people's programs. So: no writing to their descriptors, no panic, no heap
//! inside the calls (the first call sets up, and may), errno untouched on success, raw system
//! calls where a program might override libc's.

#![allow(unsafe_code)] // the boundary to C
#![allow(non_camel_case_types)]

mod intercept;
// A panic that unwinds needs the whole of it.
#[cfg(all(target_arch = "x86_64", panic = "abort", not(test)))]
mod unwinder;

/// Runs when the library is loaded.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = {
    extern "C" fn at_load() {
        vshmem_process::begin();
        // Descriptors that the program before this one has left open.
        for number in 0..3 {
            intercept::stream::note(number);
        }
    }
    at_load
};
