//! File locks on objects: what places of this domain may grant, and places of others want
//! (docs/internals/decisions/0050).
//!
//! A thread of its own, as asking the kernel about a lock takes the files of programs. It takes the
//! lock that is wanted itself, for a moment: if it gets it, no program of the domain holds it, and
//! none gets it until the claim has gone over. It opens a file as a program has it open, by /proc;
//! where that is comes from the pool, so the file is used only if it is a memfd of that name.

use std::io::ErrorKind;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, MemfdFlags, Mode, OFlags, SealFlags};
use vshmem_ipc::{Client, Errno, Given, LAST_BYTE, LockClass, LockMode, LockRange, Recall};
use vshmem_link::{proc_is_own, status_words};
use vshmem_mem::{ByteLock, Deadline, conflict_with, try_lock_bytes, unlock_bytes};
use vshmem_session::Session;

/// Between two looks at wants that could not be served: it doubles from the first to the last.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LAST_PAUSE: Duration = Duration::from_millis(16);
/// Without any wants.
const IDLE: Duration = Duration::from_secs(1);
/// Between two looks where the kernel cannot sleep on the pool, and nothing has come for `IDLE`.
const SPARING: Duration = Duration::from_millis(50);
/// Files that stay open between two looks.
const MOST_OPEN: usize = 256;
/// How often a file is looked for in vain, before no process is believed to have it.
const LOOKS: u32 = 2;

/// What has come of looking for the file of a place.
enum Opened {
    Open(OwnedFd),
    /// No process of the domain has it.
    Nowhere,
    /// Not all processes of the domain may be looked at.
    Unknown,
    /// One of them is ending, and its files are about to be closed.
    Closing,
}

/// The thread's state.
pub struct LockAgent<'a> {
    session: &'a Session,
    ending: &'a AtomicBool,
    /// Device of the kernel's memfds.
    device: Option<u64>,
    /// By the inode number.
    files: Vec<(u64, OwnedFd)>,
    /// Places that were looked for in vain, and how often.
    missing: Vec<(u64, u32)>,
}

impl<'a> LockAgent<'a> {
    /// Before its first look.
    pub fn new(session: &'a Session, ending: &'a AtomicBool) -> Self {
        Self { session, ending, device: None, files: Vec::new(), missing: Vec::new() }
    }

    fn client(&self) -> &'a Client {
        self.session.client()
    }

    /// Serves wants until it is to end, or the pool cannot be used.
    pub fn run(mut self) {
        // Of an agent that has died while it held locks.
        let _ = self.client().lock_probe(false);
        let mut pause = FIRST_PAUSE;
        let mut last_bell = None;
        let mut last_served = Instant::now();
        while !self.ending.load(Ordering::Acquire) {
            let (Ok(bell), Ok(recalls)) = (self.client().lock_bell(), self.client().lock_recalls())
            else {
                std::thread::park_timeout(IDLE);
                continue;
            };
            let mut has_served = last_bell != Some(bell);
            last_bell = Some(bell);
            for recall in &recalls {
                has_served |= self.serve(recall).unwrap_or(false);
            }
            pause = if has_served { FIRST_PAUSE } else { (2 * pause).min(LAST_PAUSE) };
            if has_served {
                last_served = Instant::now();
            }
            if !recalls.is_empty() {
                let _ = self.client().lock_wait_for_bell(bell, Deadline::after(pause));
                continue;
            }
            self.files.clear();
            self.missing.clear();
            match self.rest(last_served.elapsed()) {
                Some(rest) => std::thread::park_timeout(rest),
                None => _ = self.client().lock_wait_for_bell(bell, Deadline::after(IDLE)),
            }
        }
    }

    /// How long not to wait at the bell, without any wants. On a device, to wait there is to look
    /// many times a second, in every guest; before a lock of this pool was ever contested nobody
    /// rings.
    fn rest(&self, quiet: Duration) -> Option<Duration> {
        if self.session.link().file().is_some() {
            return None;
        }
        let is_left_alone = self.client().lock_rows_used().is_ok_and(|it| it == 0);
        if is_left_alone { Some(IDLE) } else { (quiet > IDLE).then_some(SPARING) }
    }

    /// Whether something has changed.
    fn serve(&mut self, recall: &Recall) -> Result<bool, Errno> {
        match self.open(recall) {
            Opened::Open(file) => {
                let served = self.serve_with(recall, &file);
                if self.files.len() < MOST_OPEN {
                    self.files.push((recall.inode, file));
                }
                served
            }
            Opened::Unknown => {
                // It may be held.
                self.client().lock_refuse(recall, LockMode::Exclusive, recall.range)?;
                Ok(false)
            }
            Opened::Closing => Ok(true),
            Opened::Nowhere => self.miss(recall),
        }
    }

    /// A descriptor may be on its way from one process to another while they are looked at.
    fn miss(&mut self, recall: &Recall) -> Result<bool, Errno> {
        let looked = match self.missing.iter_mut().find(|(inode, _)| *inode == recall.inode) {
            Some((_, looked)) => {
                *looked += 1;
                *looked
            }
            None => {
                self.missing.push((recall.inode, 1));
                1
            }
        };
        if looked < LOOKS {
            return Ok(true);
        }
        self.client().lock_forget_place(recall)?;
        Ok(true)
    }

    fn serve_with(&self, recall: &Recall, file: &OwnedFd) -> Result<bool, Errno> {
        self.client().lock_probe(true)?;
        let locked = lock(file, recall);
        let given = if locked {
            self.client().lock_give_up(recall).map(|given| given != Given::InUse)
        } else {
            Ok(false)
        };
        let held = (!locked).then(|| holder(file, recall));
        unlock(file, recall);
        self.client().lock_probe(false)?;
        if let Some((mode, range)) = held {
            self.client().lock_refuse(recall, mode, range)?;
        }
        given
    }

    /// The file of a place.
    fn open(&mut self, recall: &Recall) -> Opened {
        if let Some(at) = self.files.iter().position(|(inode, _)| *inode == recall.inode) {
            return Opened::Open(self.files.swap_remove(at).1);
        }
        let (pid, number) = recall.open_in;
        let noted = PathBuf::from(format!("/proc/{pid}/fd/{number}"));
        if let Some(file) = self.open_at(&noted, recall) {
            return Opened::Open(file);
        }
        self.search(recall)
    }

    /// Looks through all that the clients of this domain have open.
    fn search(&mut self, recall: &Recall) -> Opened {
        let this_client = self.client();
        let Ok(clients) = this_client.pool().local_clients(this_client.domain()) else {
            return Opened::Unknown;
        };
        let (mut may_look, mut is_closing) = (proc_is_own(), false);
        for local_client in clients {
            let folder = PathBuf::from(format!("/proc/{}/fd", local_client.pid));
            let entries = match std::fs::read_dir(&folder) {
                Ok(entries) => entries,
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                // root alone may look at those that have ended and are not waited for, and at those
                // that are ending.
                Err(_) if vshmem_session::is_gone(local_client.pid, local_client.start) => continue,
                Err(_) => {
                    let is_ending = is_ending(local_client.pid);
                    (may_look, is_closing) = (may_look && is_ending, is_closing || is_ending);
                    continue;
                }
            };
            for entry in entries.flatten() {
                let path = entry.path();
                let is_it = rustix::fs::stat(&path).is_ok_and(|state| state.st_ino == recall.inode);
                if is_it && let Some(file) = self.open_at(&path, recall) {
                    return Opened::Open(file);
                }
            }
        }
        match (may_look, is_closing) {
            (false, _) => Opened::Unknown,
            (true, true) => Opened::Closing,
            (true, false) => Opened::Nowhere,
        }
    }

    fn open_at(&mut self, path: &Path, recall: &Recall) -> Option<OwnedFd> {
        let device = self.memfd_device()?;
        // Without an effect on whatever it is.
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let seen = rustix::fs::open(path, flags, Mode::empty()).ok()?;
        let state = rustix::fs::fstat(&seen).ok()?;
        let own = PathBuf::from(format!("/proc/self/fd/{}", seen.as_raw_fd()));
        let name = rustix::fs::readlink(&own, Vec::new()).ok()?;
        if (state.st_dev, state.st_ino) != (device, recall.inode) || !self.is_name(name.as_bytes())
        {
            return None;
        }
        let opened = rustix::fs::open(&own, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).ok()?;
        let seals = rustix::fs::fcntl_get_seals(&opened).ok()?;
        seals.contains(SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK).then_some(opened)
    }

    /// Whether a file is called as those behind descriptors of this pool's objects are.
    fn is_name(&self, shown: &[u8]) -> bool {
        let uuid = self.client().pool().superblock().uuid;
        let digits: String = uuid.iter().map(|byte| format!("{byte:02x}")).collect();
        let beginning = format!("/memfd:vshmem-{digits}-shm-");
        shown.starts_with(beginning.as_bytes())
    }

    fn memfd_device(&mut self) -> Option<u64> {
        if self.device.is_none() {
            let own = rustix::fs::memfd_create("vshmem-agent", MemfdFlags::CLOEXEC).ok()?;
            self.device = Some(rustix::fs::fstat(&own).ok()?.st_dev);
        }
        self.device
    }
}

/// Whether a process has given up its memory, as it does before it closes its files.
fn is_ending(pid: u32) -> bool {
    let status = std::fs::read(format!("/proc/{pid}/status"));
    status.is_ok_and(|status| status_words(&status, "VmSize:").is_none())
}

/// Takes the lock that is wanted; false when a program has one that conflicts.
fn lock(file: &OwnedFd, recall: &Recall) -> bool {
    match recall.class {
        LockClass::Whole => {
            let operation = match recall.mode {
                LockMode::Shared => FlockOperation::NonBlockingLockShared,
                LockMode::Exclusive => FlockOperation::NonBlockingLockExclusive,
            };
            rustix::fs::flock(file, operation).is_ok()
        }
        LockClass::Record => try_lock_bytes(file, bytes(recall)).unwrap_or(false),
    }
}

fn unlock(file: &OwnedFd, recall: &Recall) {
    match recall.class {
        LockClass::Whole => _ = rustix::fs::flock(file, FlockOperation::Unlock),
        LockClass::Record => _ = unlock_bytes(file, bytes(recall)),
    }
}

/// What keeps this process from having the lock, as far as the kernel tells.
fn holder(file: &OwnedFd, recall: &Recall) -> (LockMode, LockRange) {
    let found = match recall.class {
        LockClass::Whole => None,
        LockClass::Record => conflict_with(file, bytes(recall)).unwrap_or_default(),
    };
    let Some(found) = found else { return (LockMode::Exclusive, recall.range) };
    let mode = if found.exclusive { LockMode::Exclusive } else { LockMode::Shared };
    let start = found.start as u64;
    let last = if found.count == 0 { LAST_BYTE } else { start + (found.count as u64 - 1) };
    (mode, LockRange { start, last })
}

fn bytes(recall: &Recall) -> ByteLock {
    let exclusive = recall.mode == LockMode::Exclusive;
    ByteLock { exclusive, start: recall.range.start as i64, count: recall.range.length() as i64 }
}
