//! Calls that say which process, or which host, this is, or that name another process: for `vshmem
//! run --one-host`. Only the library that such programs get has them (`packaging/one_host.list`).

use libc::{c_int, c_long, c_uint, c_ulong, c_void, cpu_set_t, id_t, iovec, pid_t};

use vshmem_process::errno;
use vshmem_process::next::{next, system_call};
use vshmem_process::one_host::{identity, is_on, pids};

/// Calls without arguments that answer with the number of a process.
macro_rules! numbers {
    ($($name:ident $page:literal $number:path),*) => {$(
        #[doc = $page]
        ///
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name() -> pid_t {
            // SAFETY: the call has no arguments and cannot fail.
            pids::shown(unsafe { system_call($number, []) } as pid_t)
        }
    )*};
}

numbers!(
    getpid "getpid(2)." libc::SYS_getpid,
    gettid "gettid(2)." libc::SYS_gettid
);

/// getppid(2). 0 and 1 stand for no parent.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getppid() -> pid_t {
    // SAFETY: the call has no arguments and cannot fail.
    match unsafe { system_call(libc::SYS_getppid, []) } as pid_t {
        parent @ 0..=1 => parent,
        parent => pids::shown(parent),
    }
}

/// gethostid(3).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gethostid() -> c_long {
    if is_on() { identity::host_id().into() } else { next!(c"gethostid": fn() -> c_long, (), 0) }
}

/// kill(2).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kill(pid: pid_t, signal: c_int) -> c_int {
    pids::kill(pid, signal, |pid| next!(c"kill": fn(pid_t, c_int) -> c_int, (pid, signal), -1))
}

/// Calls that name a process: the words in front of its number, and those behind it.
macro_rules! by_pid {
    ($($name:ident $symbol:literal $page:literal
       ($($before:ident: $before_kind:ty),*) ($($behind:ident: $behind_kind:ty),*)
       -> $answer:ty),*) => {$(
        #[doc = $page]
        ///
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            $($before: $before_kind,)* pid: pid_t, $($behind: $behind_kind),*
        ) -> $answer {
            match pids::local(pid) {
                Ok(pid) => next!($symbol: fn($($before_kind,)* pid_t, $($behind_kind),*) -> $answer,
                                 ($($before,)* pid, $($behind),*), -1),
                Err(error) => errno::answer(Err::<i64, _>(error)) as $answer,
            }
        }
    )*};
}

by_pid!(
    killpg c"killpg" "killpg(3)." () (signal: c_int) -> c_int,
    sigqueue c"sigqueue" "sigqueue(3)." () (signal: c_int, value: *mut c_void) -> c_int,
    tgkill c"tgkill" "tgkill(2)." () (thread: pid_t, signal: c_int) -> c_int,
    getpgid c"getpgid" "getpgid(2)." () () -> pid_t,
    getsid c"getsid" "getsid(2)." () () -> pid_t,
    tcsetpgrp c"tcsetpgrp" "tcsetpgrp(3)." (file: c_int) () -> c_int,
    pidfd_open c"pidfd_open" "pidfd_open(2)." () (flags: c_uint) -> c_int,
    process_vm_readv c"process_vm_readv" "process_vm_readv(2)." ()
        (local: *const iovec, locals: c_ulong, remote: *const iovec, remotes: c_ulong,
         flags: c_ulong) -> isize,
    process_vm_writev c"process_vm_writev" "process_vm_writev(2)." ()
        (local: *const iovec, locals: c_ulong, remote: *const iovec, remotes: c_ulong,
         flags: c_ulong) -> isize,
    sched_getaffinity c"sched_getaffinity" "sched_getaffinity(2)." ()
        (bytes: usize, set: *mut cpu_set_t) -> c_int,
    sched_setaffinity c"sched_setaffinity" "sched_setaffinity(2)." ()
        (bytes: usize, set: *const cpu_set_t) -> c_int,
    sched_getscheduler c"sched_getscheduler" "sched_getscheduler(2)." () () -> c_int,
    sched_setscheduler c"sched_setscheduler" "sched_setscheduler(2)." ()
        (policy: c_int, parameters: *const c_void) -> c_int,
    sched_getparam c"sched_getparam" "sched_getparam(2)." () (parameters: *mut c_void) -> c_int,
    sched_setparam c"sched_setparam" "sched_setparam(2)." () (parameters: *const c_void) -> c_int,
    sched_rr_get_interval c"sched_rr_get_interval" "sched_rr_get_interval(2)." ()
        (interval: *mut libc::timespec) -> c_int
);

/// setpgid(2).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn setpgid(pid: pid_t, group: pid_t) -> c_int {
    let both = pids::local(pid).and_then(|pid| Ok((pid, pids::local(group)?)));
    match both {
        Ok((pid, group)) => next!(c"setpgid": fn(pid_t, pid_t) -> c_int, (pid, group), -1),
        Err(error) => errno::answer_unit(Err(error)),
    }
}

/// getpriority(2). -1 is an answer as well.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getpriority(which: c_int, who: id_t) -> c_int {
    match named(which, who) {
        Ok(who) => next!(c"getpriority": fn(c_int, id_t) -> c_int, (which, who), -1),
        Err(error) => errno::answer_unit(Err(error)),
    }
}

/// setpriority(2).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn setpriority(which: c_int, who: id_t, value: c_int) -> c_int {
    match named(which, who) {
        Ok(who) => next!(c"setpriority": fn(c_int, id_t, c_int) -> c_int, (which, who, value), -1),
        Err(error) => errno::answer_unit(Err(error)),
    }
}

/// Whom a priority is of: a user's number is none of a process.
fn named(which: c_int, who: id_t) -> Result<id_t, vshmem_ipc::Errno> {
    const PRIO_USER: c_int = 2;
    if which == PRIO_USER { Ok(who) } else { pids::local(who as pid_t).map(|pid| pid as id_t) }
}

/// ptrace(2). C's variadic arguments travel as words.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ptrace(request: c_uint, pid: pid_t, at: usize, data: usize) -> c_long {
    match pids::local(pid) {
        Ok(pid) => next!(c"ptrace": fn(c_uint, pid_t, usize, usize) -> c_long,
                         (request, pid, at, data), -1),
        Err(error) => errno::answer(Err::<i64, _>(error)),
    }
}
