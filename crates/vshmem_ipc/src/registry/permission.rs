//! Who may do what: `ipcperms` of the kernel (`ipc/util.c`), sysvipc(7).

use std::mem::offset_of;

use rustix::io::Errno;
use vshmem_mem::{Map, Ordering};
use vshmem_sync::{Fault, field, load_value, load_word, structure};
use vshmem_wire::{ObjectHeader, PERM_BITS};

/// Credentials of the calling thread.
pub trait Caller {
    /// Effective user id.
    fn uid(&self) -> u32;
    /// Effective group id.
    fn gid(&self) -> u32;
    /// Whether a group is the effective or a supplementary one.
    fn in_group(&self, gid: u32) -> bool;
    /// CAP_IPC_OWNER: modes do not matter.
    fn owns_all(&self) -> bool;
    /// CAP_SYS_ADMIN: may set and remove what belongs to others.
    fn administers(&self) -> bool;
    /// CAP_SYS_RESOURCE: may raise msg_qbytes above the limit.
    fn unlimited(&self) -> bool;
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
}

/// Owner, creator and mode of an object (`struct ipc_perm`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Permission {
    /// Key, 0 for IPC_PRIVATE.
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

    pub(crate) fn read(map: &Map, slot: u64) -> Result<Self, Fault> {
        let creator = load_word(map, field!(slot, ObjectHeader, creator))?;
        Ok(Self {
            key: load_value(map, field!(slot, ObjectHeader, key))? as i32,
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
        slot: u64,
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
        slot: u64,
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
        if requested & !granted & 0o7 != 0 && !caller.owns_all() {
            return Err(Errno::ACCESS);
        }
        Ok(())
    }

    /// Whether `caller` may IPC_SET and IPC_RMID.
    pub(crate) fn allow_control(&self, caller: &dyn Caller) -> Result<(), Errno> {
        if self.belongs_to(caller) || caller.administers() { Ok(()) } else { Err(Errno::PERM) }
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
