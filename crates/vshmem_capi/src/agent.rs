//! Seeing to it that this domain has an agent, which notices deaths.
//!
//! It must never be a child that the program could wait for, nor hold what the program holds open:
//! it is forked by a raw system call with no exit signal, and `vshmem agent` leaves its parent
//! behind by itself.

use std::ffi::{CStr, CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use vshmem_session::Session;

/// The `vshmem` command: VSHMEM_COMMAND, or beside this library, or in the `bin` of the place where
/// it is installed.
fn command() -> Option<PathBuf> {
    if let Some(word) = std::env::var_os("VSHMEM_COMMAND") {
        return Some(PathBuf::from(word));
    }
    let library = library()?;
    let directory = library.parent()?;
    let places = ["vshmem", "../bin/vshmem", "../../bin/vshmem", "../../../bin/vshmem"];
    places.iter().map(|place| directory.join(place)).find(|path| path.is_file())
}

/// Path of this library.
fn library() -> Option<PathBuf> {
    let mut info = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    let here = library as *const libc::c_void;
    // SAFETY: dladdr fills in the structure when it returns other than 0; the name is a C string
    // for as long as the library is loaded.
    let name = unsafe {
        if libc::dladdr(here, info.as_mut_ptr()) == 0 {
            return None;
        }
        let name = info.assume_init().dli_fname;
        if name.is_null() {
            return None;
        }
        CStr::from_ptr(name)
    };
    Path::new(OsStr::from_bytes(name.to_bytes())).canonicalize().ok()
}

/// Starts an agent if there is none, and waits until it is up. Without one deaths are noticed later,
/// by an agent that somebody else starts: no reason to fail.
pub fn ensure(session: &Session) {
    if !session.member().must_start_agent(vshmem_link::process_exists).unwrap_or(false) {
        return;
    }
    let text = |path: &Path| CString::new(path.as_os_str().as_bytes()).ok();
    let Some(command) = command().as_deref().and_then(text) else { return };
    let Some(place) = text(session.link().place()) else { return };
    let argv =
        [command.as_ptr(), c"agent".as_ptr(), c"--pool".as_ptr(), place.as_ptr(), std::ptr::null()];
    let envp: [*const libc::c_char; 1] = [std::ptr::null()];
    // SAFETY: fork without shared memory and without an exit signal; the child makes only system
    // calls on memory that was prepared before, then becomes the command or ends.
    unsafe {
        let child = libc::syscall(libc::SYS_clone, 0, 0, 0, 0, 0);
        if child == 0 {
            libc::syscall(libc::SYS_setsid);
            libc::syscall(libc::SYS_close_range, 0, u32::MAX, 0);
            for _ in 0..3 {
                libc::syscall(
                    libc::SYS_openat,
                    libc::AT_FDCWD,
                    c"/dev/null".as_ptr(),
                    libc::O_RDWR,
                );
            }
            libc::syscall(libc::SYS_execve, argv[0], argv.as_ptr(), envp.as_ptr());
            libc::syscall(libc::SYS_exit_group, 127);
        }
        if child > 0 {
            libc::syscall(libc::SYS_wait4, child, 0, libc::__WCLONE, 0);
        }
    }
}
