//! Process-shared locks and POSIX semaphores in the pool's memory: what `vshmem_ipc`'s algorithms
//! need of this process.
//!
//! `whose` says which objects are the pool's; `owner` is the calling thread as a lock's word names
//! it; `sleeper` sleeps and wakes by address; `robust_mutexes` knows which of them a thread holds
//! that ends; `deadline` reads the program's times; `named_semaphores` has those that this process
//! has opened by name, and `semaphore_page` where.

pub mod deadline;
pub mod named_semaphores;
pub mod owner;
pub mod robust_mutexes;
mod semaphore_page;
pub mod sleeper;
pub mod whose;

use vshmem_ipc::Errno;

/// A result as the pthread functions return it.
#[inline(always)]
pub fn number(result: Result<(), Errno>) -> libc::c_int {
    match result {
        Ok(()) => 0,
        Err(error) => error.raw_os_error(),
    }
}
