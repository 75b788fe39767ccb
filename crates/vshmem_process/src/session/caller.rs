//! Credentials of the calling thread, remembered.
//!
//! A system call is 40 us in a User Mode Linux guest, so credentials are asked for once and again
//! after every libc call that may change them. Raw system calls: programs like fakeroot override
//! libc's.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};

use vshmem_ipc::Caller;

use crate::next::system_call;
use crate::session::{credential_changes, home_namespace};

/// Whether threads may have credentials of their own: libc changes those of all, system calls by
/// number and capset those of one.
static BY_THREAD: AtomicBool = AtomicBool::new(false);

/// Credentials, and the count of changes that they belong to: 0 while they are being written. A
/// thread that finds them being written, which may be by the very thread that a signal handler has
/// interrupted, asks for itself.
#[derive(Debug)]
struct Known {
    changes: AtomicU32,
    uid: AtomicU32,
    gid: AtomicU32,
    capabilities: AtomicU32,
    /// 1 while a thread writes.
    busy: AtomicU32,
}

impl Known {
    const fn nothing() -> Self {
        Self {
            changes: AtomicU32::new(0),
            uid: AtomicU32::new(0),
            gid: AtomicU32::new(0),
            capabilities: AtomicU32::new(0),
            busy: AtomicU32::new(0),
        }
    }

    #[inline]
    fn get(&self, changes: u32) -> Option<Credentials> {
        if self.changes.load(Ordering::Acquire) != changes {
            return None;
        }
        let me = Credentials {
            uid: self.uid.load(Ordering::Relaxed),
            gid: self.gid.load(Ordering::Relaxed),
            capabilities: self.capabilities.load(Ordering::Relaxed),
        };
        // Pairs with the fence in `set`: a thread that has read a newer word reads that it was
        // being written.
        fence(Ordering::Acquire);
        (self.changes.load(Ordering::Relaxed) == changes).then_some(me)
    }

    /// Not if another thread does it.
    fn set(&self, changes: u32, me: Credentials) {
        let mine = self.busy.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok();
        if !mine {
            return;
        }
        self.changes.store(0, Ordering::Relaxed);
        fence(Ordering::Release);
        self.uid.store(me.uid, Ordering::Relaxed);
        self.gid.store(me.gid, Ordering::Relaxed);
        self.capabilities.store(me.capabilities, Ordering::Relaxed);
        self.changes.store(changes, Ordering::Release);
        self.busy.store(0, Ordering::Release);
    }
}

/// What is remembered for all threads.
static KNOWN: Known = Known::nothing();

thread_local! {
    /// What is remembered for this thread.
    static OWN: Known = const { Known::nothing() };
}

const OWNS: u32 = 1;
const ADMINISTERS: u32 = 2;
const UNLIMITED: u32 = 4;
const LOCKS: u32 = 8;
const OVERRIDES_MODES: u32 = 16;
const ACTS_AS_OWNER: u32 = 32;
const CHANGES_OWNERS: u32 = 64;
/// In another user namespace than the initial one.
const ELSEWHERE: u32 = 128;

/// To be called in a child that fork has made: another thread of the parent may have been writing
/// what is remembered.
pub fn begin_child() {
    KNOWN.changes.store(0, Ordering::Relaxed);
    KNOWN.busy.store(0, Ordering::Relaxed);
    home_namespace::begin_child();
}

/// To be called when the credentials of all threads may have changed.
pub fn note_change() {
    credential_changes::note();
}

/// To be called when those of the calling thread may have changed.
pub fn note_thread_change() {
    BY_THREAD.store(true, Ordering::Release);
    note_change();
}

/// A thread's own credentials, with the ids that they have in the initial user namespace.
#[derive(Debug, Clone, Copy)]
pub struct Credentials {
    uid: u32,
    gid: u32,
    capabilities: u32,
}

impl Credentials {
    /// As they are now.
    #[inline]
    pub fn now() -> Self {
        let changes = credential_changes::count();
        if BY_THREAD.load(Ordering::Relaxed) {
            return Self::of_this_thread(changes);
        }
        KNOWN.get(changes).unwrap_or_else(|| Self::ask_for(&KNOWN, changes))
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
        OWN.with(|own| own.get(changes).unwrap_or_else(|| Self::ask_for(own, changes)))
    }

    #[cold]
    fn ask_for(known: &Known, changes: u32) -> Self {
        let me = Self::ask();
        known.set(changes, me);
        me
    }

    fn ask() -> Self {
        use rustix::thread::CapabilitySet as Set;
        let mut capabilities = 0;
        if let Ok(sets) = rustix::thread::capabilities(None) {
            for (capability, bit) in [
                (Set::IPC_OWNER, OWNS),
                (Set::SYS_ADMIN, ADMINISTERS),
                (Set::SYS_RESOURCE, UNLIMITED),
                (Set::IPC_LOCK, LOCKS),
                (Set::DAC_OVERRIDE, OVERRIDES_MODES),
                (Set::FOWNER, ACTS_AS_OWNER),
                (Set::CHOWN, CHANGES_OWNERS),
            ] {
                if sets.effective.contains(capability) {
                    capabilities |= bit;
                }
            }
        }
        let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
        let (mut uid, mut gid) = (uid.as_raw(), gid.as_raw());
        let namespace = home_namespace::now();
        if !namespace.is_initial() {
            (uid, gid) = home_namespace::outside(&namespace, uid, gid);
            // They count outside only where the kernel says capable(): not from inside.
            capabilities = capabilities & !(UNLIMITED | LOCKS) | ELSEWHERE;
        }
        home_namespace::remember(uid, gid);
        Self { uid, gid, capabilities }
    }

    /// Whether a group of the initial namespace is one of this thread's, in another one.
    #[cold]
    fn in_group_from_elsewhere(&self, gid: u32) -> bool {
        let mut room = [0; USUAL];
        let Some(groups) = home_namespace::own_groups(&mut room) else { return false };
        match home_namespace::now().groups.inside(gid) {
            Some(gid) => groups.contains(&gid),
            None => home_namespace::kept_group(gid, groups),
        }
    }
}

/// NGROUPS_MAX is 65536; more than this many are asked for by the slow path.
const USUAL: usize = 256;

impl Caller for Credentials {
    fn uid(&self) -> u32 {
        self.uid
    }

    fn gid(&self) -> u32 {
        self.gid
    }

    fn in_group(&self, gid: u32) -> bool {
        if gid == self.gid {
            return true;
        }
        if self.capabilities & ELSEWHERE != 0 {
            return self.in_group_from_elsewhere(gid);
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

    fn capabilities_reach(&self, uid: u32, gid: u32) -> bool {
        if self.capabilities & ELSEWHERE == 0 {
            return true;
        }
        let namespace = home_namespace::now();
        namespace.users.inside(uid).is_some() && namespace.groups.inside(gid).is_some()
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

    fn overrides_modes(&self) -> bool {
        self.capabilities & OVERRIDES_MODES != 0
    }

    fn acts_as_owner(&self) -> bool {
        self.capabilities & ACTS_AS_OWNER != 0
    }

    fn changes_owners(&self) -> bool {
        self.capabilities & CHANGES_OWNERS != 0
    }
}
