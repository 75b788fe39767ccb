//! The symbols of libc that this library answers, by what they are about. Each takes C's arguments,
//! passes on what is not the pool's, and leaves the rest to `mapping`, `session` or `vshmem_ipc`.

pub mod address_sanitizer;
pub(crate) mod by_address;
pub mod by_number;
pub mod control;
pub mod credentials;
pub mod descriptors;
pub mod directories;
pub mod dlopen;
pub mod dlsym;
pub mod exec;
pub mod files;
pub mod keys;
pub mod limits;
pub mod mapping;
pub mod mq;
pub mod msg;
pub mod one_host;
pub mod other_locks;
pub mod paths;
pub mod paths_by_number;
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
pub mod temporary;
pub mod transfer;
pub mod walks;

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::pthread_cond::{pthread_cond_broadcast, pthread_cond_signal};
    use super::pthread_mutex::{pthread_mutex_lock, pthread_mutex_trylock, pthread_mutex_unlock};
    use super::pthread_rwlock::{
        pthread_rwlock_rdlock, pthread_rwlock_unlock, pthread_rwlock_wrlock,
    };
    use super::sem_posix::{sem_post, sem_trywait, sem_wait};

    /// Instructions that a line has room for twice.
    const BYTES: usize = 32;

    #[test]
    fn a_call_on_an_object_of_libcs_takes_one_line_of_instructions() {
        let functions: [(&str, *const ()); 11] = [
            ("pthread_mutex_lock", pthread_mutex_lock as *const ()),
            ("pthread_mutex_trylock", pthread_mutex_trylock as *const ()),
            ("pthread_mutex_unlock", pthread_mutex_unlock as *const ()),
            ("pthread_rwlock_rdlock", pthread_rwlock_rdlock as *const ()),
            ("pthread_rwlock_wrlock", pthread_rwlock_wrlock as *const ()),
            ("pthread_rwlock_unlock", pthread_rwlock_unlock as *const ()),
            ("pthread_cond_signal", pthread_cond_signal as *const ()),
            ("pthread_cond_broadcast", pthread_cond_broadcast as *const ()),
            ("sem_post", sem_post as *const ()),
            ("sem_trywait", sem_trywait as *const ()),
            ("sem_wait", sem_wait as *const ()),
        ];
        for (name, function) in functions {
            assert!(function.addr().is_multiple_of(BYTES), "{name}");
        }
        // None is longer: those of one file follow each other at once.
        let mut places = functions.map(|(_, function)| function.addr());
        places.sort_unstable();
        let steps = places.windows(2).map(|pair| pair[1] - pair[0]);
        let longer = steps.filter(|step| (BYTES + 1..BYTES * 8).contains(step)).count();
        assert_eq!(longer, 0, "{places:x?}");
    }
}
