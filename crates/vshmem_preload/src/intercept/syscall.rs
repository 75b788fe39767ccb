//! syscall(2): programs that call by number.

use libc::{c_char, c_int, c_long, c_void};

use crate::attached::books::Marks;
use crate::intercept::{credentials, files, msg, sem, shm};
use crate::mapping::{advice, protect, remap, unmap};
use crate::next::pass_on;
use crate::session::environment::Environment;
use crate::session::{caller, confined, descriptors, exec, exit, join, reap};

/// IPC_64, which libc adds to the commands of the raw control calls.
const IPC_64: c_int = 0x100;

/// syscall(2). C's variadic arguments travel as six words.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syscall(
    number: c_long,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> c_long {
    let int = |word: usize| word as c_int;
    let command = |word: usize| word as c_int & !IPC_64;
    // SAFETY: the arguments are those that the program has passed for the call of this number.
    let kernel = || unsafe { pass_on(number, [a, b, c, d, e, f]) };
    let kernel_int = || kernel() as c_int;
    let kernel_address = || kernel() as usize as *mut c_void;
    // SAFETY: as above.
    unsafe {
        match number {
            libc::SYS_shmget => shm::shmget(int(a), b, int(c)).into(),
            libc::SYS_shmat => {
                let address = b as *const c_void;
                shm::attach_by(int(a), address, int(c), kernel_address).addr() as c_long
            }
            libc::SYS_shmdt => shm::detach_by(a, kernel_int).into(),
            libc::SYS_shmctl => shm::shmctl(int(a), command(b), c as *mut _).into(),
            libc::SYS_semget => sem::semget(int(a), int(b), int(c)).into(),
            libc::SYS_semop => sem::semop(int(a), b as *mut _, c).into(),
            libc::SYS_semtimedop => sem::semtimedop(int(a), b as *mut _, c, d as *const _).into(),
            libc::SYS_semctl => sem::semctl(int(a), int(b), command(c), d).into(),
            libc::SYS_msgget => msg::msgget(int(a), int(b)).into(),
            libc::SYS_msgsnd => msg::msgsnd(int(a), b as *const c_void, c, int(d)).into(),
            libc::SYS_msgrcv => {
                msg::msgrcv(int(a), b as *mut c_void, c, d as c_long, int(e)) as c_long
            }
            libc::SYS_msgctl => msg::msgctl(int(a), command(b), c as *mut _).into(),
            libc::SYS_mmap => unmap::map(a, b, int(d), kernel_address).addr() as c_long,
            libc::SYS_munmap => unmap::unmap(a, b, kernel_int).into(),
            libc::SYS_mremap => remap::remap(a, b, c, int(d), e, kernel_address).addr() as c_long,
            libc::SYS_remap_file_pages => remap::show(a, b, int(c), d, kernel_int).into(),
            libc::SYS_mprotect => protect::protect(a, b, int(c), None, kernel_int).into(),
            libc::SYS_pkey_mprotect => {
                protect::protect(a, b, int(c), Some(int(d)), kernel_int).into()
            }
            libc::SYS_madvise => advice::advise(a, b, int(c), kernel_int).into(),
            libc::SYS_mlock => advice::lock(a, b, Marks::LOCKED, kernel_int).into(),
            libc::SYS_mlock2 => advice::lock(a, b, advice::locks_of(c as u32), kernel_int).into(),
            libc::SYS_munlock => advice::lock(a, b, Marks::none(), kernel_int).into(),
            libc::SYS_mlockall => advice::lock_all(int(a), kernel_int).into(),
            libc::SYS_munlockall => advice::unlock_all(kernel_int).into(),
            libc::SYS_openat => files::opening(b as *const c_char, kernel_int).into(),
            libc::SYS_execve => {
                let mut environment = Environment::completed(c as *const *const c_char);
                let list = environment.list().addr();
                let call = || pass_on(number, [a, b, list]) as c_int;
                exec::detached(Some(a as *const c_char), call).into()
            }
            libc::SYS_execveat => {
                let mut environment = Environment::completed(d as *const *const c_char);
                let list = environment.list().addr();
                exec::detached(None, || pass_on(number, [a, b, c, list, e]) as c_int).into()
            }
            libc::SYS_wait4 => {
                let call = |own: *mut c_int| pass_on(number, [a, own.addr(), c, d]) as c_int;
                reap::reap(b as *mut c_int, call).into()
            }
            libc::SYS_exit_group => exit::_exit(int(a)),
            libc::SYS_chroot => in_time(kernel),
            libc::SYS_setrlimit => {
                descriptors::limit_is_set(0, a as u32, true);
                kernel()
            }
            libc::SYS_prlimit64 => {
                descriptors::limit_is_set(int(a), b as u32, c != 0);
                kernel()
            }
            libc::SYS_prctl if int(a) == libc::PR_SET_SECCOMP => {
                confined::confine(kernel_int).into()
            }
            libc::SYS_seccomp if confined::confines(a) => confined::confine(kernel_int).into(),
            libc::SYS_unshare | libc::SYS_setns => {
                let result = of_this_thread(kernel);
                let flags = int(if number == libc::SYS_setns { b } else { a });
                let ends = libc::CLONE_NEWIPC
                    | if number == libc::SYS_unshare { libc::CLONE_SYSVSEM } else { 0 };
                if result == 0 && flags & ends != 0 {
                    credentials::end_adjustments();
                }
                result
            }
            // Where libc's functions of these names change the credentials of all threads, the calls
            // change those of one.
            libc::SYS_setuid
            | libc::SYS_setgid
            | libc::SYS_setreuid
            | libc::SYS_setregid
            | libc::SYS_setresuid
            | libc::SYS_setresgid
            | libc::SYS_setgroups
            | libc::SYS_capset => of_this_thread(kernel),
            _ => kernel(),
        }
    }
}

/// A call after which the pool may be out of reach.
fn in_time(call: impl FnOnce() -> c_long) -> c_long {
    join::join_in_time();
    call()
}

/// A call that changes what the calling thread may do.
fn of_this_thread(call: impl FnOnce() -> c_long) -> c_long {
    let result = in_time(call);
    caller::changed_in_this_thread();
    result
}
