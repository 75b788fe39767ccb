//! Credentials of the calling thread, remembered.
//!
//! A system call is 40 us in a User Mode Linux guest, so credentials are asked for once and again
//! after every libc call that may change them. Raw system calls: programs like fakeroot override
//! libc's.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use vshmem_ipc::Caller;

use crate::next::system_call;

/// Raised whenever credentials may have changed.
static CHANGES: AtomicU32 = AtomicU32::new(1);
/// Whether threads may have credentials of their own: libc changes those of all, system calls by
/// number and capset those of one.
static BY_THREAD: AtomicBool = AtomicBool::new(false);

/// What is remembered for all threads; `changes` 0: nothing.
static KNOWN: AtomicU32 = AtomicU32::new(0);
static UID: AtomicU32 = AtomicU32::new(0);
static GID: AtomicU32 = AtomicU32::new(0);
static CAPABILITIES: AtomicU32 = AtomicU32::new(0);

thread_local! {
    /// What is remembered for this thread, and the value of `CHANGES` that it belongs to.
    static OWN: Cell<(u32, Me)> = const { Cell::new((0, Me { uid: 0, gid: 0, capabilities: 0 })) };
}

const OWNS: u32 = 1;
const ADMINISTERS: u32 = 2;
const UNLIMITED: u32 = 4;
const LOCKS: u32 = 8;

/// To be called when the credentials of all threads may have changed.
pub fn changed() {
    CHANGES.fetch_add(1, Ordering::Release);
}

/// To be called when those of the calling thread may have changed.
pub fn changed_in_this_thread() {
    BY_THREAD.store(true, Ordering::Release);
    changed();
}

/// A thread's own credentials.
#[derive(Debug, Clone, Copy)]
pub struct Me {
    uid: u32,
    gid: u32,
    capabilities: u32,
}

impl Me {
    /// As they are now.
    #[inline]
    pub fn now() -> Self {
        let changes = CHANGES.load(Ordering::Acquire);
        if BY_THREAD.load(Ordering::Relaxed) {
            return Self::of_this_thread(changes);
        }
        if KNOWN.load(Ordering::Acquire) != changes {
            let me = Self::ask();
            UID.store(me.uid, Ordering::Relaxed);
            GID.store(me.gid, Ordering::Relaxed);
            CAPABILITIES.store(me.capabilities, Ordering::Relaxed);
            KNOWN.store(changes, Ordering::Release);
        }
        Self {
            uid: UID.load(Ordering::Relaxed),
            gid: GID.load(Ordering::Relaxed),
            capabilities: CAPABILITIES.load(Ordering::Relaxed),
        }
    }

    /// Bytes that may be locked; none said: all, with CAP_IPC_LOCK.
    pub fn lockable(&self) -> Option<u64> {
        if self.capabilities & LOCKS != 0 {
            return None;
        }
        let limit = rustix::process::getrlimit(rustix::process::Resource::Memlock).current;
        Some(limit.unwrap_or(u64::MAX))
    }

    fn of_this_thread(changes: u32) -> Self {
        let (known, me) = OWN.get();
        if known == changes {
            return me;
        }
        let me = Self::ask();
        OWN.set((changes, me));
        me
    }

    #[cold]
    fn ask() -> Self {
        use rustix::thread::CapabilitySet as Set;
        let mut capabilities = 0;
        if let Ok(sets) = rustix::thread::capabilities(None) {
            for (capability, bit) in [
                (Set::IPC_OWNER, OWNS),
                (Set::SYS_ADMIN, ADMINISTERS),
                (Set::SYS_RESOURCE, UNLIMITED),
                (Set::IPC_LOCK, LOCKS),
            ] {
                if sets.effective.contains(capability) {
                    capabilities |= bit;
                }
            }
        }
        Self {
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            capabilities,
        }
    }
}

impl Caller for Me {
    fn uid(&self) -> u32 {
        self.uid
    }

    fn gid(&self) -> u32 {
        self.gid
    }

    fn in_group(&self, gid: u32) -> bool {
        /// NGROUPS_MAX is 65536; more than this many are asked for by the slow way.
        const USUAL: usize = 256;
        if gid == self.gid {
            return true;
        }
        let mut groups = [0 as libc::gid_t; USUAL];
        // SAFETY: the buffer has room for the count that is passed.
        let count =
            unsafe { system_call(libc::SYS_getgroups, [USUAL, groups.as_mut_ptr().addr()]) };
        if let Ok(count) = usize::try_from(count) {
            return groups[..count.min(USUAL)].contains(&gid);
        }
        rustix::process::getgroups().is_ok_and(|groups| groups.iter().any(|g| g.as_raw() == gid))
    }

    fn owns_all(&self) -> bool {
        self.capabilities & OWNS != 0
    }

    fn administers(&self) -> bool {
        self.capabilities & ADMINISTERS != 0
    }

    fn unlimited(&self) -> bool {
        self.capabilities & UNLIMITED != 0
    }
}
