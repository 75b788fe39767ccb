//! Who may do what: `ipcperms` of the kernel (`ipc/util.c`), sysvipc(7).

use std::mem::offset_of;

use rustix::io::Errno;
use vshmem_mem::{Map, Ordering};
use vshmem_sync::{Fault, load_value, load_word, structure};
use vshmem_wire::{ObjectHeader, ObjectKey, PERM_BITS, Place, field};

/// Credentials of the calling thread. Without more than these, it is an ordinary user.
pub trait Caller {
    /// Effective user id.
    fn uid(&self) -> u32;
    /// Effective group id.
    fn gid(&self) -> u32;
    /// Whether a group is the effective or a supplementary one.
    fn in_group(&self, gid: u32) -> bool;
    /// Whether the capabilities below count for what belongs to this user and group. Those of
    /// another user namespace than the initial one count where it knows both, as for files
    /// (user_namespaces(7)).
    fn capabilities_reach(&self, _uid: u32, _gid: u32) -> bool {
        true
    }
    /// CAP_IPC_OWNER: modes do not matter.
    fn owns_all(&self) -> bool {
        false
    }
    /// CAP_SYS_ADMIN: may set and remove what belongs to others.
    fn administers(&self) -> bool {
        false
    }
    /// CAP_SYS_RESOURCE: may raise msg_qbytes above the limit.
    fn unlimited(&self) -> bool {
        false
    }
    /// CAP_DAC_OVERRIDE: modes of POSIX objects do not matter.
    fn overrides_modes(&self) -> bool {
        false
    }
    /// CAP_FOWNER: may set the mode of a POSIX object of another user, and unlink it.
    fn acts_as_owner(&self) -> bool {
        false
    }
    /// CAP_CHOWN: may give a POSIX object to another user.
    fn changes_owners(&self) -> bool {
        false
    }
}

/// The superuser, who passes every check: for code that creates objects without a calling process,
/// as tests do.
#[derive(Debug, Clone, Copy)]
pub struct Superuser;

impl Caller for Superuser {
    fn uid(&self) -> u32 {
        0
    }

    fn gid(&self) -> u32 {
        0
    }

    fn in_group(&self, _: u32) -> bool {
        true
    }

    fn owns_all(&self) -> bool {
        true
    }

    fn administers(&self) -> bool {
        true
    }

    fn unlimited(&self) -> bool {
        true
    }

    fn overrides_modes(&self) -> bool {
        true
    }

    fn acts_as_owner(&self) -> bool {
        true
    }

    fn changes_owners(&self) -> bool {
        true
    }
}

/// Owner, creator and mode of an object (`struct ipc_perm`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Permission {
    /// Key, 0 for IPC_PRIVATE and for POSIX objects.
    pub key: i32,
    /// Owner.
    pub uid: u32,
    /// Owner's group.
    pub gid: u32,
    /// Creator.
    pub cuid: u32,
    /// Creator's group.
    pub cgid: u32,
    /// Mode bits, with SHM_DEST and SHM_LOCKED for segments.
    pub mode: u32,
    /// Sequence.
    pub sequence: u32,
}

impl Permission {
    /// Of an object that `caller` makes.
    pub(crate) fn of_new(key: i32, flags: i32, caller: &dyn Caller) -> Self {
        let (uid, gid) = (caller.uid(), caller.gid());
        Self { key, uid, gid, cuid: uid, cgid: gid, mode: mode_of(flags), sequence: 0 }
    }

    pub(crate) fn read(map: &Map, slot: Place<ObjectHeader>) -> Result<Self, Fault> {
        let creator = load_word(map, field!(slot, ObjectHeader, creator))?;
        Ok(Self {
            key: ObjectKey::of_word(load_word(map, field!(slot, ObjectHeader, key))?).system_v(),
            uid: load_value(map, field!(slot, ObjectHeader, uid))?,
            gid: load_value(map, field!(slot, ObjectHeader, gid))?,
            cuid: creator as u32,
            cgid: (creator >> 32) as u32,
            mode: load_value(map, field!(slot, ObjectHeader, mode))?,
            sequence: load_value(map, field!(slot, ObjectHeader, state))? >> 8,
        })
    }

    /// Whether `caller` has the access that `wanted` asks for. Usually it is the creator, and then
    /// two words tell.
    #[inline(always)]
    pub(crate) fn check<C: Caller + ?Sized>(
        map: &Map,
        slot: Place<ObjectHeader>,
        caller: &C,
        wanted: u32,
    ) -> Result<Result<(), Errno>, Fault> {
        let fields = structure!(map, slot, ObjectHeader)?;
        let creator = fields.load(offset_of!(ObjectHeader, creator), Ordering::Acquire) as u32;
        let mode = fields.load(offset_of!(ObjectHeader, mode), Ordering::Acquire) as u32;
        if caller.uid() == creator && wanted & !(mode >> 6) == 0 {
            return Ok(Ok(()));
        }
        Ok(Self::read(map, slot)?.allow(caller, wanted))
    }

    /// As [`Permission::check`], for the get calls: `wanted` asks in any of its three positions.
    #[inline(always)]
    pub(crate) fn check_mode<C: Caller + ?Sized>(
        map: &Map,
        slot: Place<ObjectHeader>,
        caller: &C,
        wanted: u32,
    ) -> Result<Result<(), Errno>, Fault> {
        Self::check(map, slot, caller, requested_by(wanted))
    }

    /// Whether `caller` has the access that `wanted` asks for, in any of its three positions.
    pub(crate) fn allow<C: Caller + ?Sized>(&self, caller: &C, wanted: u32) -> Result<(), Errno> {
        let requested = requested_by(wanted);
        if requested == 0 {
            return Ok(());
        }
        let uid = caller.uid();
        let granted = if uid == self.cuid || uid == self.uid {
            self.mode >> 6
        } else if caller.in_group(self.cgid) || caller.in_group(self.gid) {
            self.mode >> 3
        } else {
            self.mode
        };
        if requested & !granted & 0o7 != 0 && !(caller.owns_all() && self.is_reached_by(caller)) {
            return Err(Errno::ACCESS);
        }
        Ok(())
    }

    /// Whether `caller` has the access to a POSIX object that `wanted` asks for, in the position of
    /// "others": as files have it (path_resolution(7)), where the creator means nothing.
    pub(crate) fn allow_file(&self, caller: &dyn Caller, wanted: u32) -> Result<(), Errno> {
        let granted = if caller.uid() == self.uid {
            self.mode >> 6
        } else if caller.in_group(self.gid) {
            self.mode >> 3
        } else {
            self.mode
        };
        if wanted & !granted & 0o7 == 0 || caller.overrides_modes() && self.is_reached_by(caller) {
            Ok(())
        } else {
            Err(Errno::ACCESS)
        }
    }

    /// Whether `caller` may do to a POSIX object what only a file's owner may: set its mode, and
    /// unlink it, since /dev/shm is sticky.
    pub(crate) fn allow_owner(&self, caller: &dyn Caller) -> Result<(), Errno> {
        let acts_as_owner = caller.acts_as_owner() && self.is_reached_by(caller);
        let may = caller.uid() == self.uid || acts_as_owner;
        if may { Ok(()) } else { Err(Errno::PERM) }
    }

    /// As fchmod(2) leaves a POSIX object.
    pub(crate) fn with_mode(&self, mode: u32, caller: &dyn Caller) -> Result<Self, Errno> {
        self.allow_owner(caller)?;
        Ok(Self { mode: self.mode & !PERM_BITS | mode & PERM_BITS, ..*self })
    }

    /// As fchown(2) leaves a POSIX object; what is `None` stays.
    pub(crate) fn with_owner(
        &self,
        uid: Option<u32>,
        gid: Option<u32>,
        caller: &dyn Caller,
    ) -> Result<Self, Errno> {
        let owns = caller.uid() == self.uid;
        let may_give = uid.is_none_or(|uid| owns && uid == self.uid);
        let may_move = gid.is_none_or(|gid| owns && (gid == self.gid || caller.in_group(gid)));
        let changes_owners = caller.changes_owners() && self.is_reached_by(caller);
        if !(changes_owners || may_give && may_move) {
            return Err(Errno::PERM);
        }
        Ok(Self { uid: uid.unwrap_or(self.uid), gid: gid.unwrap_or(self.gid), ..*self })
    }

    /// Whether `caller` may IPC_SET and IPC_RMID.
    pub(crate) fn allow_control(&self, caller: &dyn Caller) -> Result<(), Errno> {
        let administers = || caller.administers() && self.is_reached_by(caller);
        if self.belongs_to(caller) || administers() { Ok(()) } else { Err(Errno::PERM) }
    }

    /// Whether the capabilities of `caller` count for the object.
    fn is_reached_by<C: Caller + ?Sized>(&self, caller: &C) -> bool {
        caller.capabilities_reach(self.uid, self.gid)
    }

    /// Whether `caller` is the owner or the creator.
    pub(crate) fn belongs_to(&self, caller: &dyn Caller) -> bool {
        let uid = caller.uid();
        uid == self.cuid || uid == self.uid
    }
}

/// The access that a mode asks for in any of its three positions.
fn requested_by(wanted: u32) -> u32 {
    ((wanted >> 6) | (wanted >> 3) | wanted) & 0o7
}

/// Read access, in the position of "others".
pub(crate) const READ: u32 = 0o4;

/// Write access.
pub(crate) const WRITE: u32 = 0o2;

/// The mode bits of a creation flag.
pub(crate) fn mode_of(flags: i32) -> u32 {
    flags as u32 & PERM_BITS
}

/// What reading and writing ask for, in the position of "others".
pub(crate) fn access_bits((read, write): (bool, bool)) -> u32 {
    let reads = if read { READ } else { 0 };
    let writes = if write { WRITE } else { 0 };
    reads | writes
}
