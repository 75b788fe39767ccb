//! Credentials of the calling process, remembered.
//!
//! A system call is 40 us in a User Mode Linux guest, so credentials are asked for once and again
//! after every libc call that may change them. Raw system calls: programs like fakeroot override
//! libc's.

use std::sync::atomic::{AtomicU32, Ordering};

use vshmem_ipc::Caller;

/// Raised whenever credentials may have changed.
static CHANGES: AtomicU32 = AtomicU32::new(1);
/// The value of `CHANGES` that the remembered credentials belong to; 0: none.
static KNOWN: AtomicU32 = AtomicU32::new(0);
static UID: AtomicU32 = AtomicU32::new(0);
static GID: AtomicU32 = AtomicU32::new(0);
static CAPABILITIES: AtomicU32 = AtomicU32::new(0);

const OWNS: u32 = 1;
const ADMINISTERS: u32 = 2;
const UNLIMITED: u32 = 4;

/// To be called when credentials may have changed.
pub fn changed() {
    CHANGES.fetch_add(1, Ordering::Release);
}

/// A process's own credentials.
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
        if KNOWN.load(Ordering::Acquire) != changes {
            Self::ask(changes);
        }
        Self {
            uid: UID.load(Ordering::Relaxed),
            gid: GID.load(Ordering::Relaxed),
            capabilities: CAPABILITIES.load(Ordering::Relaxed),
        }
    }

    #[cold]
    fn ask(changes: u32) {
        UID.store(rustix::process::geteuid().as_raw(), Ordering::Relaxed);
        GID.store(rustix::process::getegid().as_raw(), Ordering::Relaxed);
        let mut bits = 0;
        if let Ok(sets) = rustix::thread::capabilities(None) {
            use rustix::thread::CapabilitySet as Set;
            for (capability, bit) in [
                (Set::IPC_OWNER, OWNS),
                (Set::SYS_ADMIN, ADMINISTERS),
                (Set::SYS_RESOURCE, UNLIMITED),
            ] {
                if sets.effective.contains(capability) {
                    bits |= bit;
                }
            }
        }
        CAPABILITIES.store(bits, Ordering::Relaxed);
        KNOWN.store(changes, Ordering::Release);
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
        let count = unsafe {
            libc::syscall(libc::SYS_getgroups, USUAL as libc::c_int, groups.as_mut_ptr())
        };
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
