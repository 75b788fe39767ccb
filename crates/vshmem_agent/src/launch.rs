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

/// Asks again, in the child that is about to run the command. The program's other threads may have
/// changed its root or the descriptor since it was asked before; the child has both to itself.
pub type MayRun<'a> = &'a dyn Fn() -> bool;

/// A child without an exit signal. It never becomes another program: execve(2) would give it one.
#[derive(Debug)]
pub struct Child(isize);

/// What the child does when it has made its own child, which runs the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    /// It ends at once.
    Ends,
    /// It waits for the command's end, and ends in the same way.
    Waits,
}

impl Launch {
    /// The command runs; the child ends with it, with exit code 0 if the command did.
    pub fn start(&self, may_run: MayRun<'_>) -> Result<Child, rustix::io::Errno> {
        self.fork(Then::Waits, may_run)
    }

    /// The command runs; the child has ended already.
    pub fn start_apart(&self, may_run: MayRun<'_>) -> Result<(), rustix::io::Errno> {
        self.fork(Then::Ends, may_run).map(Child::wait)
    }

    fn fork(&self, then: Then, may_run: MayRun<'_>) -> Result<Child, rustix::io::Errno> {
        // SAFETY: raw fork with nothing shared, neither memory nor root nor descriptors; the child
        // makes nothing but system calls, and ends.
        let child = unsafe {
            let child = system_call(libc::SYS_clone, []);
            if child == 0 {
                let code = if may_run() { self.in_child(then) } else { 1 };
                system_call(libc::SYS_exit_group, [code]);
            }
            child
        };
        if child < 0 {
            return Err(rustix::io::Errno::from_raw_os_error(-child as i32));
        }
        Ok(Child(child))
    }

    /// Lets go of all that the program holds, and has a child of its own run the command. Returns
    /// the exit code.
    ///
    /// # Safety
    /// To be called in a child that has nothing else to do.
    unsafe fn in_child(&self, then: Then) -> usize {
        let kept = self.command as usize;
        // SAFETY: closes what only this process has open here, and no thread of it uses any more;
        // the grandchild makes nothing but a system call on memory that was prepared before.
        unsafe {
            system_call(libc::SYS_setsid, []);
            if kept > 0 {
                system_call(libc::SYS_close_range, [0, kept - 1, 0]);
            }
            system_call(libc::SYS_close_range, [kept + 1, u32::MAX as usize, 0]);
            let nothing = c"/dev/null".as_ptr().addr();
            for _ in 0..3 {
                let here = libc::AT_FDCWD as usize;
                system_call(libc::SYS_openat, [here, nothing, libc::O_RDWR as usize]);
            }
            let grandchild = system_call(libc::SYS_clone, []);
            if grandchild == 0 {
                self.become_command();
                return 1;
            }
            if grandchild < 0 {
                return 1;
            }
            match then {
                Then::Ends => 0,
                Then::Waits => usize::from(Child(grandchild).wait4(libc::__WALL).1 != 0),
            }
        }
    }

    /// Returns only if that fails.
    fn become_command(&self) {
        let [command, verb, option, path] = self.words.each_ref().map(|word| word.as_ptr());
        let argv = [command, verb, option, path, std::ptr::null()];
        // Nothing of the program's environment: no LD_PRELOAD in the agent.
        let envp: [*const libc::c_char; 1] = [std::ptr::null()];
        let (argv, envp) = (argv.as_ptr().addr(), envp.as_ptr().addr());
        let (empty, flags) = (c"".as_ptr().addr(), libc::AT_EMPTY_PATH as usize);
        // SAFETY: the words and the lists of them are there until the call is over.
        unsafe {
            system_call(libc::SYS_execveat, [self.command as usize, empty, argv, envp, flags]);
        }
    }
}

impl Child {
    /// Waits for its end. __WCLONE: children without an exit signal, which the program's wait()
    /// never sees.
    pub fn wait(self) {
        let _ = self.wait4(libc::__WCLONE);
    }

    /// How it ended, if it has; an error says that there is no such child.
    pub fn try_wait(&self) -> std::io::Result<Option<i32>> {
        let (found, status) = self.wait4(libc::__WCLONE | libc::WNOHANG);
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
        let flags = options as u32 as usize;
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

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;
    use std::time::{Duration, Instant};

    use rustix::fs::{Mode, OFlags};
    use rustix::process::{WaitOptions, getpid, wait};

    use super::*;

    fn status_of(program: &str, may_run: MayRun<'_>) -> i32 {
        let file =
            rustix::fs::open(program, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).unwrap();
        let words = ["it", "agent", "--pool", "none"].map(|word| CString::new(word).unwrap());
        let launch = Launch { command: file.as_raw_fd(), words };
        launch.start_apart(may_run).unwrap();
        let child = launch.start(may_run).unwrap();
        let end = Instant::now() + Duration::from_secs(60);
        loop {
            if let Some(status) = child.try_wait().unwrap() {
                return status;
            }
            // A child that the program could wait for would be found here, while it runs or after.
            assert_eq!(wait(WaitOptions::NOHANG).err(), Some(rustix::io::Errno::CHILD));
            assert!(Instant::now() < end, "{program} does not end");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn the_command_is_never_a_child_that_the_program_could_wait_for() {
        assert_eq!(status_of("/bin/true", &|| true), 0);
        assert_ne!(status_of("/bin/false", &|| true), 0);
        // The child is asked, not its parent.
        let parent = getpid();
        assert_ne!(status_of("/bin/true", &|| getpid() == parent), 0);
        assert_eq!(wait(WaitOptions::NOHANG).err(), Some(rustix::io::Errno::CHILD));
    }
}
