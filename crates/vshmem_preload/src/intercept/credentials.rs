//! The calls that change who a process is and what it can reach: passed on, then noticed.

use libc::{c_char, c_int, c_ulong, c_void, gid_t, size_t, uid_t};
use vshmem_mem::Confined;

use vshmem_process::next::next;
use vshmem_process::session::{adjustments, caller, confined, home_namespace, join};

macro_rules! noticed {
    ($($name:ident, $symbol:literal, ($($argument:ident: $type:ty),*);)*) => {
        $(
            #[doc = concat!(stringify!($name), "(2), noticed.")]
            ///
            /// # Safety
            /// As libc's.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($argument: $type),*) -> c_int {
                join::join_in_time();
                let result = next!($symbol: fn($($type),*) -> c_int, ($($argument),*), -1);
                caller::note_change();
                result
            }
        )*
    };
}

noticed! {
    setuid, c"setuid", (uid: uid_t);
    seteuid, c"seteuid", (uid: uid_t);
    setreuid, c"setreuid", (real: uid_t, effective: uid_t);
    setresuid, c"setresuid", (real: uid_t, effective: uid_t, saved: uid_t);
    setgid, c"setgid", (gid: gid_t);
    setegid, c"setegid", (gid: gid_t);
    setregid, c"setregid", (real: gid_t, effective: gid_t);
    setresgid, c"setresgid", (real: gid_t, effective: gid_t, saved: gid_t);
    setgroups, c"setgroups", (count: size_t, groups: *const gid_t);
    initgroups, c"initgroups", (user: *const c_char, group: gid_t);
    setfsuid, c"setfsuid", (uid: uid_t);
    setfsgid, c"setfsgid", (gid: gid_t);
    chroot, c"chroot", (path: *const c_char);
}

/// capset(2), noticed: it is about one thread.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn capset(header: *mut c_void, data: *const c_void) -> c_int {
    join::join_in_time();
    let result = next!(c"capset": fn(*mut c_void, *const c_void) -> c_int, (header, data), -1);
    caller::note_thread_change();
    result
}

/// setns(2), noticed. Another IPC namespace ends the process's adjustments as exit would.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn setns(file: c_int, kind: c_int) -> c_int {
    join::join_in_time();
    home_namespace::before_leaving();
    let result = next!(c"setns": fn(c_int, c_int) -> c_int, (file, kind), -1);
    caller::note_thread_change();
    if result == 0 {
        home_namespace::note_left();
    }
    if result == 0 && kind & libc::CLONE_NEWIPC != 0 {
        adjustments::end();
    }
    result
}

/// unshare(2): CLONE_SYSVSEM ends the process's adjustments as exit would.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unshare(flags: c_int) -> c_int {
    join::join_in_time();
    home_namespace::before_leaving();
    let result = next!(c"unshare": fn(c_int) -> c_int, (flags), -1);
    caller::note_change();
    if result == 0 && flags & libc::CLONE_NEWUSER != 0 {
        home_namespace::note_left();
    }
    // CLONE_NEWIPC implies it (ksys_unshare).
    if result == 0 && flags & (libc::CLONE_SYSVSEM | libc::CLONE_NEWIPC) != 0 {
        adjustments::end();
    }
    result
}

/// prctl(2). C's variadic arguments travel as words.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prctl(
    option: c_int,
    a: c_ulong,
    b: c_ulong,
    c: c_ulong,
    d: c_ulong,
) -> c_int {
    let call = || {
        next!(c"prctl": fn(c_int, c_ulong, c_ulong, c_ulong, c_ulong) -> c_int,
              (option, a, b, c, d), -1)
    };
    if option == libc::PR_SET_SECCOMP {
        confined::confine(Confined::OneThread, call)
    } else {
        call()
    }
}
