//! execve(2) and its family, and posix_spawn(3): the environment goes along, and nothing stays
//! attached.

use libc::{c_char, c_int};

use vshmem_process::errno;
use vshmem_process::next::next;
use vshmem_process::session::environment::Environment;
use vshmem_process::session::exec::detached;
use vshmem_process::session::outside::{self, Program};

/// execve(2).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execve(
    path: *const c_char,
    argv: *const *const c_char,
    envp: *const *const c_char,
) -> c_int {
    let takes_library = outside::look(Program::Path(path));
    // SAFETY: by this function's contract.
    let mut environment = unsafe { Environment::completed(envp, takes_library) };
    let envp = environment.list();
    detached(Some(path), || {
        next!(c"execve": fn(*const c_char, *const *const c_char, *const *const c_char) -> c_int,
              (path, argv, envp), -1)
    })
}

unsafe extern "C" {
    /// The environment that the calls without one pass on; a program may have emptied it.
    static environ: *const *const c_char;
}

/// execv(3).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execv(path: *const c_char, argv: *const *const c_char) -> c_int {
    // SAFETY: the same contract; libc keeps `environ` a list of C strings.
    unsafe { execve(path, argv, environ) }
}

/// execvp(3).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execvp(file: *const c_char, argv: *const *const c_char) -> c_int {
    // SAFETY: as for execv.
    unsafe { execvpe(file, argv, environ) }
}

/// execvpe(3).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execvpe(
    file: *const c_char,
    argv: *const *const c_char,
    envp: *const *const c_char,
) -> c_int {
    let takes_library = outside::look(Program::Name(file));
    // SAFETY: by this function's contract.
    let mut environment = unsafe { Environment::completed(envp, takes_library) };
    let envp = environment.list();
    detached(None, || {
        next!(c"execvpe": fn(*const c_char, *const *const c_char, *const *const c_char) -> c_int,
              (file, argv, envp), -1)
    })
}

/// fexecve(3).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fexecve(
    file: c_int,
    argv: *const *const c_char,
    envp: *const *const c_char,
) -> c_int {
    let opened = Program::At { directory: file, path: c"".as_ptr(), flags: libc::AT_EMPTY_PATH };
    let takes_library = outside::look(opened);
    // SAFETY: by this function's contract.
    let mut environment = unsafe { Environment::completed(envp, takes_library) };
    let envp = environment.list();
    detached(None, || {
        next!(c"fexecve": fn(c_int, *const *const c_char, *const *const c_char) -> c_int,
              (file, argv, envp), -1)
    })
}

/// execveat(2).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execveat(
    directory: c_int,
    path: *const c_char,
    argv: *const *const c_char,
    envp: *const *const c_char,
    flags: c_int,
) -> c_int {
    let takes_library = outside::look(Program::At { directory, path, flags });
    // SAFETY: by this function's contract.
    let mut environment = unsafe { Environment::completed(envp, takes_library) };
    let envp = environment.list();
    detached(None, || {
        next!(c"execveat":
            fn(c_int, *const c_char, *const *const c_char, *const *const c_char, c_int) -> c_int,
            (directory, path, argv, envp, flags), -1)
    })
}

macro_rules! spawned {
    ($name:ident, $symbol:literal, $man:literal, $kind:path) => {
        #[doc = $man]
        ///
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            child: *mut c_int,
            path: *const c_char,
            actions: *const libc::posix_spawn_file_actions_t,
            attributes: *const libc::posix_spawnattr_t,
            argv: *const *const c_char,
            envp: *const *const c_char,
        ) -> c_int {
            let takes_library = outside::look($kind(path));
            // SAFETY: by this function's contract.
            let mut environment = unsafe { Environment::of_child(envp, takes_library) };
            let envp = environment.list();
            next!($symbol: fn(*mut c_int, *const c_char,
                              *const libc::posix_spawn_file_actions_t,
                              *const libc::posix_spawnattr_t,
                              *const *const c_char, *const *const c_char) -> c_int,
                  (child, path, actions, attributes, argv, envp), libc::ENOSYS)
        }
    };
}

spawned!(posix_spawn, c"posix_spawn", "posix_spawn(3).", Program::Path);
spawned!(posix_spawnp, c"posix_spawnp", "posix_spawnp(3).", Program::Name);
// glibc 2.39 has them; with older ones they give ENOSYS.
spawned!(pidfd_spawn, c"pidfd_spawn", "pidfd_spawn(3).", Program::Path);
spawned!(pidfd_spawnp, c"pidfd_spawnp", "pidfd_spawnp(3).", Program::Name);

/// Defines one of the calls that take the arguments of the program as their own. C passes them
/// like any others, in registers and then on the stack, so they are declared as plain words here,
/// more than a program passes; those behind the null that ends the list are not looked at.
macro_rules! listed {
    ($name:ident, $man:literal, |$path:ident, $list:ident, $behind:ident| $call:expr) => {
        #[doc = $man]
        ///
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            $path: *const c_char,
            a0: usize,
            a1: usize,
            a2: usize,
            a3: usize,
            a4: usize,
            a5: usize,
            a6: usize,
            a7: usize,
            a8: usize,
            a9: usize,
            a10: usize,
            a11: usize,
            a12: usize,
            a13: usize,
            a14: usize,
            a15: usize,
            a16: usize,
            a17: usize,
            a18: usize,
            a19: usize,
            a20: usize,
            a21: usize,
            a22: usize,
            a23: usize,
            a24: usize,
            a25: usize,
            a26: usize,
            a27: usize,
            a28: usize,
            a29: usize,
            a30: usize,
            a31: usize,
        ) -> c_int {
            let words = [
                a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17,
                a18, a19, a20, a21, a22, a23, a24, a25, a26, a27, a28, a29, a30, a31,
            ];
            let Some(end) = words.iter().position(|word| *word == 0) else {
                errno::set(vshmem_ipc::Errno::TOOBIG);
                return -1;
            };
            let $list = words.as_ptr().cast::<*const c_char>();
            let $behind = words.get(end + 1).copied().unwrap_or(0) as *const *const c_char;
            let _ = $behind;
            // SAFETY: the list ends with a null, as the contract says.
            unsafe { $call }
        }
    };
}

listed!(execl, "execl(3).", |path, list, behind| execv(path, list));
listed!(execlp, "execlp(3).", |path, list, behind| execvp(path, list));
listed!(execle, "execle(3).", |path, list, behind| execve(path, list, behind));
