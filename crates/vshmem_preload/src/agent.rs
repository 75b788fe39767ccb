//! Seeing to it that this domain has an agent.
//!
//! The agent notices deaths. `vshmem run` starts it; a process that finds none starts one. It must
//! never be a child that the program could wait for: it is forked by raw system calls, twice, with
//! no exit signal, so that neither fork handlers nor SIGCHLD nor wait() of the program see it.

use std::ffi::CString;

use vshmem_session::Session;

/// Starts an agent if `VSHMEM_COMMAND` tells how. One that runs already makes it end at once.
pub fn ensure(session: &Session) {
    let Ok(command) = std::env::var("VSHMEM_COMMAND") else { return };
    let alive = session
        .member()
        .pool()
        .domains()
        .ok()
        .and_then(|rows| rows.into_iter().find(|row| row.index == session.member().domain()))
        .is_some_and(|row| row.agent != 0 && vshmem_link::process_exists(row.agent));
    if alive {
        return;
    }
    let place = session.link().place().to_string_lossy().into_owned();
    let words = [command.as_str(), "agent", "--pool", place.as_str()];
    let Ok(words) = words.iter().map(|word| CString::new(*word)).collect::<Result<Vec<_>, _>>()
    else {
        return;
    };
    let mut argv: Vec<*const libc::c_char> = words.iter().map(|word| word.as_ptr()).collect();
    argv.push(std::ptr::null());
    // Nothing of the program's environment: no LD_PRELOAD in the agent.
    let envp: [*const libc::c_char; 1] = [std::ptr::null()];
    // SAFETY: raw fork without shared memory; the children call nothing but system calls on
    // prepared memory before exec or exit.
    unsafe {
        let child = libc::syscall(libc::SYS_clone, 0, 0, 0, 0, 0);
        if child == 0 {
            libc::syscall(libc::SYS_setsid);
            if libc::syscall(libc::SYS_clone, 0, 0, 0, 0, 0) == 0 {
                libc::syscall(libc::SYS_close_range, 0u32, u32::MAX, 0u32);
                let null = c"/dev/null".as_ptr();
                for _ in 0..3 {
                    libc::syscall(libc::SYS_openat, libc::AT_FDCWD, null, libc::O_RDWR);
                }
                libc::syscall(libc::SYS_execve, argv[0], argv.as_ptr(), envp.as_ptr());
            }
            libc::syscall(libc::SYS_exit_group, 0);
        }
        if child > 0 {
            // __WCLONE: children without an exit signal, which the program's wait() never sees.
            libc::syscall(libc::SYS_wait4, child, 0, libc::__WCLONE, 0);
        }
    }
}
