//! Starting an agent from inside a program.
//!
//! The program may be anything, and have become anything since it began: chrooted into a directory that somebody else fills,
//! another user, in another namespace. What a path means there, the dynamic linker's above all, is not what it meant. So an
//! agent is started only while root, namespaces and user are those of the time when this library was loaded, and from a file
//! that was opened when the pool was joined. A program that has changed any of these, or closed the file, starts none: the
//! next process that joins does, or one whose call takes its time.

#![allow(unsafe_code)] // a child by a raw clone

use std::ffi::CString;
use std::os::fd::{AsFd, BorrowedFd, IntoRawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::OnceLock;

use rustix::fs::{Mode, OFlags};
use vshmem_mem::system_call;

use crate::open::Session;

/// Device and inode number.
type Identity = (u64, u64);

/// Where, and as whom, a process runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Surroundings {
    root: Identity,
    mounts: Identity,
    users: Identity,
    /// Where its children's pids count.
    pids: Identity,
    /// Real and effective user and group.
    ids: [u32; 4],
}

impl Surroundings {
    /// As they are now, for such a user; `None` where they cannot be told.
    fn of(ids: [u32; 4]) -> Option<Self> {
        // The call by which the dynamic linker looks at files: a filter that lets programs start lets this.
        let identity = |path| {
            let stat = rustix::fs::stat(path).ok()?;
            Some((stat.st_dev, stat.st_ino))
        };
        Some(Self {
            root: identity(c"/")?,
            mounts: identity(c"/proc/self/ns/mnt")?,
            users: identity(c"/proc/self/ns/user")?,
            pids: identity(c"/proc/self/ns/pid_for_children")?,
            ids,
        })
    }

    fn now() -> Option<Self> {
        Self::of([
            rustix::process::getuid().as_raw(),
            rustix::process::geteuid().as_raw(),
            rustix::process::getgid().as_raw(),
            rustix::process::getegid().as_raw(),
        ])
    }

    /// As they were when the program began.
    fn at_load() -> Option<Self> {
        let kinds = [libc::AT_UID, libc::AT_EUID, libc::AT_GID, libc::AT_EGID];
        // SAFETY: reads what the kernel has told the program, without asking it again.
        Self::of(kinds.map(|kind| unsafe { libc::getauxval(kind) } as u32))
    }
}

static AT_LOAD: OnceLock<Option<Surroundings>> = OnceLock::new();

/// To be called when the library is loaded: what is so now is trusted.
pub fn remember_surroundings() {
    AT_LOAD.get_or_init(Surroundings::at_load);
}

fn are_as_at_load() -> bool {
    AT_LOAD.get().is_some_and(|then| then.is_some() && Surroundings::now() == *then)
}

/// A way to start the agent of this process's domain.
#[derive(Debug)]
pub struct AgentStarter {
    descriptor: i32,
    identity: Identity,
    words: [CString; 4],
}

/// Lowest number of the kept descriptor: above what programs use.
const HIGH: i32 = 900;

fn identity_of(file: BorrowedFd<'_>) -> Option<Identity> {
    rustix::fs::fstat(file).ok().map(|stat| (stat.st_dev, stat.st_ino))
}

impl AgentStarter {
    /// Keeps `command`, which must be an absolute path to `vshmem`, open for the agent of the pool at `place`.
    #[must_use]
    pub fn open(command: &Path, place: &Path) -> Option<Self> {
        if !command.is_absolute() || !are_as_at_load() {
            return None;
        }
        let word = |path: &Path| CString::new(path.as_os_str().as_bytes()).ok();
        let words = [word(command)?, c"agent".to_owned(), c"--pool".to_owned(), word(place)?];
        let file =
            rustix::fs::open(&*words[0], OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()?;
        let file = rustix::io::fcntl_dupfd_cloexec(&file, HIGH).unwrap_or(file);
        let identity = identity_of(file.as_fd())?;
        Some(Self { descriptor: file.into_raw_fd(), identity, words })
    }

    /// Whether the descriptor is the one that was opened, and the process where and who it was.
    fn may_start(&self) -> bool {
        // SAFETY: the number is only asked what it means; a closed one gives EBADF.
        let file = unsafe { BorrowedFd::borrow_raw(self.descriptor) };
        identity_of(file) == Some(self.identity) && are_as_at_load()
    }

    /// Starts an agent if there is none, and returns at once; with `wait`, when it is up. Uses no heap.
    pub fn ensure(&self, session: &Session, wait: bool) {
        // First: who says that it starts one keeps others from it.
        if !self.may_start() {
            session.member().renounce_agent();
            return;
        }
        if session.member().must_start_agent(vshmem_link::process_exists).unwrap_or(false) {
            self.start(wait);
        }
    }

    /// The agent must never be a child that the program could wait for: it is forked by raw system calls with no exit signal, so
    /// that neither fork handlers nor SIGCHLD nor wait() of the program see it. It holds nothing of what the program holds.
    fn start(&self, wait: bool) {
        let null = std::ptr::null();
        let [command, verb, option, place] = self.words.each_ref().map(|word| word.as_ptr());
        let argv = [command, verb, option, place, null];
        // Nothing of the program's environment: no LD_PRELOAD in the agent.
        let envp: [*const libc::c_char; 1] = [null];
        let kept = self.descriptor as usize;
        // SAFETY: raw fork without shared memory; the children make nothing but system calls on memory that was prepared
        // before, then become the command or end.
        unsafe {
            let child = system_call(libc::SYS_clone, []);
            if child == 0 {
                system_call(libc::SYS_setsid, []);
                if wait || system_call(libc::SYS_clone, []) == 0 {
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
                system_call(libc::SYS_exit_group, [0]);
            }
            if child > 0 {
                // __WCLONE: children without an exit signal, which the program's wait() never sees.
                let words = [child as usize, 0, libc::__WCLONE as usize, 0];
                while system_call(libc::SYS_wait4, words) == -(libc::EINTR as isize) {}
            }
        }
    }
}

impl Drop for AgentStarter {
    fn drop(&mut self) {
        // SAFETY: only closed if it is what was opened.
        unsafe {
            if identity_of(BorrowedFd::borrow_raw(self.descriptor)) == Some(self.identity) {
                libc::close(self.descriptor);
            }
        }
    }
}
