//! A child that becomes the `vshmem` command.
//!
//! It must never be a child that the program could wait for, so it is made by raw system calls with
//! no exit signal: neither fork handlers nor SIGCHLD nor wait() of the program see it. It holds
//! nothing of what the program holds. Nothing here uses the heap.

#![allow(unsafe_code)] // a child by a raw clone

use std::ffi::CString;
use std::os::fd::RawFd;

use vshmem_mem::system_call;

/// What is run: an open file, and the words of `vshmem agent --pool PLACE`.
#[derive(Debug)]
pub struct Launch {
    /// Opened with O_PATH and close-on-exec.
    pub command: RawFd,
    pub words: [CString; 4],
}

/// A child without an exit signal.
#[derive(Debug)]
pub struct Child(isize);

impl Launch {
    /// The child runs the command.
    pub fn start(&self) -> Result<Child, rustix::io::Errno> {
        self.fork(false)
    }

    /// A grandchild runs the command; the child has ended already.
    pub fn start_apart(&self) -> Result<(), rustix::io::Errno> {
        self.fork(true).map(Child::wait)
    }

    fn fork(&self, apart: bool) -> Result<Child, rustix::io::Errno> {
        let null = std::ptr::null();
        let [command, verb, option, place] = self.words.each_ref().map(|word| word.as_ptr());
        let argv = [command, verb, option, place, null];
        // Nothing of the program's environment: no LD_PRELOAD in the agent.
        let envp: [*const libc::c_char; 1] = [null];
        let kept = self.command as usize;
        // SAFETY: raw fork without shared memory; the children make nothing but system calls on
        // memory that was prepared before, then become the command or end.
        let child = unsafe {
            let child = system_call(libc::SYS_clone, []);
            if child == 0 {
                system_call(libc::SYS_setsid, []);
                if !apart || system_call(libc::SYS_clone, []) == 0 {
                    if kept > 0 {
                        system_call(libc::SYS_close_range, [0, kept - 1, 0]);
                    }
                    system_call(libc::SYS_close_range, [kept + 1, u32::MAX as usize, 0]);
                    let nothing = c"/dev/null".as_ptr().addr();
                    for _ in 0..3 {
                        let here = libc::AT_FDCWD as usize;
                        system_call(libc::SYS_openat, [here, nothing, libc::O_RDWR as usize]);
                    }
                    let (argv, envp) = (argv.as_ptr().addr(), envp.as_ptr().addr());
                    let empty = c"".as_ptr().addr();
                    let flags = libc::AT_EMPTY_PATH as usize;
                    system_call(libc::SYS_execveat, [kept, empty, argv, envp, flags]);
                }
                system_call(libc::SYS_exit_group, [i32::from(!apart) as usize]);
            }
            child
        };
        if child < 0 {
            return Err(rustix::io::Errno::from_raw_os_error(-child as i32));
        }
        Ok(Child(child))
    }
}

impl Child {
    /// Waits for its end.
    pub fn wait(self) {
        let _ = self.wait4(0);
    }

    /// How it ended, if it has; an error says that there is no such child.
    pub fn try_wait(&self) -> std::io::Result<Option<i32>> {
        let (found, status) = self.wait4(libc::WNOHANG);
        match found {
            0 => Ok(None),
            1.. => Ok(Some(status)),
            _ => Err(std::io::Error::from_raw_os_error(-found as i32)),
        }
    }

    /// Ends it.
    pub fn kill(self) {
        // SAFETY: has no effect on memory; the child has not been waited for, so its number means
        // no other process.
        unsafe { system_call(libc::SYS_kill, [self.0 as usize, libc::SIGKILL as usize]) };
        self.wait();
    }

    fn wait4(&self, options: i32) -> (isize, i32) {
        let mut status = 0_i32;
        // __WCLONE: children without an exit signal, which the program's wait() never sees.
        let flags = (libc::__WCLONE | options) as u32 as usize;
        let words = [self.0 as usize, (&raw mut status).addr(), flags, 0];
        loop {
            // SAFETY: writes a status into a word of this frame, and nothing else.
            let found = unsafe { system_call(libc::SYS_wait4, words) };
            if found != -(libc::EINTR as isize) {
                return (found, status);
            }
        }
    }
}
