//! The symbols of libc that this library answers, by what they are about. Each takes C's arguments,
//! passes on what is not the pool's, and leaves the rest to `mapping`, `session` or `vshmem_ipc`.

pub mod by_number;
pub mod control;
pub mod credentials;
pub mod descriptors;
pub mod dlopen;
pub mod exec;
pub mod files;
pub mod keys;
pub mod limits;
pub mod mapping;
pub mod mq;
pub mod msg;
pub mod poll;
pub mod process;
pub mod pthread_barrier;
pub mod pthread_cond;
pub mod pthread_mutex;
pub mod pthread_rwlock;
pub mod sem;
pub mod sem_open;
pub mod sem_posix;
pub mod shm;
pub mod shm_posix;
pub mod signal;
pub mod socket;
pub mod state;
pub mod stream;
pub mod syscall;
pub mod transfer;
