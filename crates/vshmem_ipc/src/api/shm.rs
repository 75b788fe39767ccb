//! The public face of a client: shared memory segments.

use rustix::io::Errno;

use crate::api::client::Client;
use crate::api::errno::answer;
use crate::memory::backing::Backing;
use crate::registry::permission::Caller;
use crate::shm::segment::{Attachment, SegmentStat, ShmInfo};
use crate::shm::suspend::{self, Suspended};
use crate::shm::{attach, clean, create, hold, status};

impl Client {
    /// The shared part of shmat(2): checks, counts, and says where the segment lies.
    ///
    /// # Errors
    /// EACCES, EINVAL (or EIDRM when it went just now), ENOMEM.
    pub fn shmat(
        &self,
        id: i32,
        write: bool,
        execute: bool,
        caller: &dyn Caller,
    ) -> Result<Attachment, Errno> {
        self.refuse_while_leaving()?;
        answer(self.pool(), attach::shmat(&self.context, id, write, execute, caller))
    }

    /// The shared part of shmdt(2): one attach of this process less.
    ///
    /// # Errors
    /// EINVAL when this process has none.
    pub fn shmdt(&self, id: i32) -> Result<(), Errno> {
        answer(self.pool(), attach::shmdt(&self.context, id))
    }

    /// Counts one more attach of a segment that this process has attached already: what a hole in
    /// a mapping does.
    ///
    /// # Errors
    /// EINVAL, ENOMEM.
    pub fn attach_again(&self, id: i32) -> Result<(), Errno> {
        answer(self.pool(), attach::attach_again(&self.context, id))
    }

    /// Gives up all attaches of this process, as exec does.
    ///
    /// # Errors
    /// EIO when the pool is corrupt.
    pub fn detach_all(&self) -> Result<(), Errno> {
        answer(self.pool(), attach::detach_all(&self.context))
    }

    /// Writes zeros into free pages that hold old data, in the order in which segments will get
    /// them, as long as fewer than `wanted` bytes of clean ones come before them. At most a
    /// mebibyte per call; returns how many bytes were cleaned, 0 when there is nothing to do or
    /// another thread does it.
    ///
    /// # Errors
    /// EIO when the pool is corrupt; whatever `backing` says.
    pub fn clean_pages(&self, wanted: u64, backing: &dyn Backing) -> Result<u64, Errno> {
        answer(self.pool(), clean::clean_pages(&self.context, wanted, backing))
    }

    /// shmget(2). New memory is made ready by `backing`.
    ///
    /// # Errors
    /// As the man page says; ENOSPC when the pool has no room.
    pub fn shmget(
        &self,
        key: i32,
        size: u64,
        flags: i32,
        caller: &dyn Caller,
        backing: &dyn Backing,
    ) -> Result<i32, Errno> {
        self.refuse_while_leaving()?;
        answer(self.pool(), create::shmget(&self.context, key, size, flags, caller, backing))
    }

    /// Takes zeroed memory, attached by this process and removed, if `spare` bytes of the pool are
    /// free beside it. Others attach it by its id; shmdt(2) gives it back.
    ///
    /// # Errors
    /// ENOSPC when the pool has no room, ENOMEM when it has no attach record left, EINVAL for no
    /// bytes.
    pub fn hold_memory(
        &self,
        bytes: u64,
        spare: u64,
        caller: &dyn Caller,
        backing: &dyn Backing,
    ) -> Result<Attachment, Errno> {
        self.refuse_while_leaving()?;
        answer(self.pool(), hold::hold_memory(&self.context, bytes, spare, caller, backing))
    }

    /// IPC_RMID.
    ///
    /// # Errors
    /// EINVAL, EPERM.
    pub fn segment_remove(&self, id: i32, caller: &dyn Caller) -> Result<(), Errno> {
        answer(self.pool(), status::segment_remove(&self.context, id, caller))
    }

    /// IPC_SET.
    ///
    /// # Errors
    /// EINVAL, EPERM.
    pub fn segment_change(
        &self,
        id: i32,
        uid: u32,
        gid: u32,
        mode: u32,
        caller: &dyn Caller,
    ) -> Result<(), Errno> {
        answer(self.pool(), status::segment_change(&self.context, id, uid, gid, mode, caller))
    }

    /// SHM_LOCK and SHM_UNLOCK: pool memory never goes to swap, so only the flag changes. `most` is
    /// what the caller may lock (RLIMIT_MEMLOCK); without, it has CAP_IPC_LOCK and may do all.
    ///
    /// # Errors
    /// EINVAL, EPERM, ENOMEM.
    pub fn segment_lock(
        &self,
        id: i32,
        lock: bool,
        most: Option<u64>,
        caller: &dyn Caller,
    ) -> Result<(), Errno> {
        answer(self.pool(), status::segment_lock(&self.context, id, lock, most, caller))
    }

    /// IPC_STAT.
    ///
    /// # Errors
    /// EINVAL, EACCES.
    pub fn segment_stat(&self, id: i32, caller: &dyn Caller) -> Result<SegmentStat, Errno> {
        answer(self.pool(), status::segment_stat(&self.context, id, caller))
    }

    /// SHM_STAT (`any` false) and SHM_STAT_ANY.
    ///
    /// # Errors
    /// EINVAL, EACCES.
    pub fn segment_at_index(
        &self,
        index: u32,
        any: bool,
        caller: &dyn Caller,
    ) -> Result<SegmentStat, Errno> {
        answer(self.pool(), status::segment_at_index(&self.context, index, any, caller))
    }

    /// SHM_INFO.
    ///
    /// # Errors
    /// EIO when the pool is corrupt.
    pub fn shm_info(&self) -> Result<ShmInfo, Errno> {
        answer(self.pool(), status::shm_info(&self.context))
    }

    /// Gives up the attaches of this process, whose only thread asks, but those that keep removed
    /// segments. Uses no heap.
    ///
    /// # Errors
    /// ENOMEM when there is no memory to note them in: then all stay. EIO when the pool is corrupt.
    pub fn suspend_attaches(&self) -> Result<Suspended, Errno> {
        answer(self.pool(), suspend::suspend_attaches(&self.context))
    }

    /// Takes attaches again that were given up, and calls `gone` with the ids of segments that were
    /// removed since then and no longer exist.
    pub fn resume_attaches(&self, suspended: Suspended, gone: impl FnMut(i32)) {
        suspend::resume_attaches(&self.context, suspended, gone)
    }

    /// Whether this process keeps a segment that is removed: [`Client::suspend_attaches`] would not
    /// give that up.
    #[must_use]
    pub fn keeps_removed_segments(&self) -> bool {
        suspend::keeps_removed_segments(&self.context)
    }
}
