//! fork(2), _exit(2), the wait family and pthread_cancel(3).

use libc::{c_int, c_void, id_t, idtype_t, pid_t, pthread_t, siginfo_t};

use vshmem_ipc::Errno;
use vshmem_process::next::next;
use vshmem_process::one_host::pids;
use vshmem_process::session::{exit, fork, reap};
use vshmem_process::{errno, process};

/// fork(2).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fork() -> pid_t {
    fork::with_slot(|| next!(c"fork": fn() -> pid_t, (), -1))
}

/// _Fork(3).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _Fork() -> pid_t {
    fork::without_handlers(|| next!(c"_Fork": fn() -> pid_t, (), -1))
}

/// What pthread_atfork(3) is in every library and program, noticed: libraries that the program
/// needs are set up before this one, and register theirs then.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __register_atfork(
    prepare: usize,
    parent: usize,
    child: usize,
    library: *mut c_void,
) -> c_int {
    fork::register();
    next!(c"__register_atfork": fn(usize, usize, usize, *mut c_void) -> c_int,
          (prepare, parent, child, library), libc::ENOMEM)
}

/// _exit(2).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _exit(status: c_int) -> ! {
    exit::end(status)
}

/// _Exit(3).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _Exit(status: c_int) -> ! {
    // SAFETY: the same function under C's name.
    unsafe { _exit(status) }
}

/// waitpid(2).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waitpid(child: pid_t, status: *mut c_int, options: c_int) -> pid_t {
    // SAFETY: the same contract.
    unsafe { wait4(child, status, options, std::ptr::null_mut()) }
}

/// wait(2).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wait(status: *mut c_int) -> pid_t {
    // SAFETY: the same contract.
    unsafe { wait4(-1, status, 0, std::ptr::null_mut()) }
}

/// wait3(2).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wait3(
    status: *mut c_int,
    options: c_int,
    usage: *mut libc::rusage,
) -> pid_t {
    // SAFETY: the same contract.
    unsafe { wait4(-1, status, options, usage) }
}

/// wait4(2).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wait4(
    child: pid_t,
    status: *mut c_int,
    options: c_int,
    usage: *mut libc::rusage,
) -> pid_t {
    let child = match pids::local(child) {
        Ok(child) => child,
        Err(_) => return errno::answer_int(Err::<i64, _>(Errno::CHILD)),
    };
    let call = |own: *mut c_int| {
        next!(c"wait4": fn(pid_t, *mut c_int, c_int, *mut libc::rusage) -> pid_t,
              (child, own, options, usage), -1)
    };
    // SAFETY: the same contract.
    unsafe { reap::reap(status, call) }
}

/// waitid(2).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waitid(
    kind: idtype_t,
    id: id_t,
    info: *mut siginfo_t,
    options: c_int,
) -> c_int {
    let id = match pids::local(id as pid_t) {
        Ok(id) => id as id_t,
        Err(_) => return errno::answer_unit(Err(Errno::CHILD)),
    };
    let result = next!(c"waitid": fn(idtype_t, id_t, *mut siginfo_t, c_int) -> c_int,
                       (kind, id, info, options), -1);
    if result != 0 || options & libc::WEXITED == 0 || info.is_null() {
        return result;
    }
    // SAFETY: a non-null info is valid by contract, and was just filled in.
    let (code, child) = unsafe { ((*info).si_code, (*info).si_pid()) };
    if [libc::CLD_EXITED, libc::CLD_KILLED, libc::CLD_DUMPED].contains(&code) {
        reap::ended(child, None);
    }
    result
}

/// pthread_cancel(3), noticed.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_cancel(thread: pthread_t) -> c_int {
    // glibc 2.41 sends a signal, which ends a sleep before it is woken below: the thread knows by
    // then what for.
    vshmem_mem::cancellation_requested();
    let result = next!(c"pthread_cancel": fn(pthread_t) -> c_int, (thread), libc::ESRCH);
    if result == 0 {
        // It may have looked before the cancellation could act.
        vshmem_mem::cancellation_requested();
        // It is not known where the thread sleeps: all look up.
        if let Some(session) = process::joined() {
            errno::untouched(|| session.client().wake_every_waiter());
        }
    }
    result
}
