//! The public face of a client: semaphore sets.

use std::time::Duration;

use rustix::io::Errno;
use vshmem_wire::Operation;

use crate::api::client::Client;
use crate::api::errno::answer;
use crate::registry::permission::Caller;
use crate::sem::status::{SemInfo, SetStat};
use crate::sem::{control, create, operate, remove, status};

impl Client {
    /// GETVAL.
    ///
    /// # Errors
    /// EINVAL, EACCES.
    #[inline(never)]
    pub fn semaphore_value(&self, id: i32, number: i32, caller: &dyn Caller) -> Result<u32, Errno> {
        answer(self.pool(), control::semaphore_value(&self.context, id, number, caller))
    }

    /// GETPID: the last process to operate on a semaphore.
    ///
    /// # Errors
    /// EINVAL, EACCES.
    pub fn semaphore_pid(&self, id: i32, number: i32, caller: &dyn Caller) -> Result<u32, Errno> {
        answer(self.pool(), control::semaphore_pid(&self.context, id, number, caller))
    }

    /// GETNCNT (`zero` false) and GETZCNT: waiters blocked at a semaphore.
    ///
    /// # Errors
    /// EINVAL, EACCES.
    pub fn semaphore_waiters(
        &self,
        id: i32,
        number: i32,
        zero: bool,
        caller: &dyn Caller,
    ) -> Result<u32, Errno> {
        answer(self.pool(), control::semaphore_waiters(&self.context, id, number, zero, caller))
    }

    /// GETALL: copies all values out.
    ///
    /// # Errors
    /// EINVAL, EACCES.
    pub fn semaphore_values(
        &self,
        id: i32,
        caller: &dyn Caller,
        each: impl FnMut(usize, u16),
    ) -> Result<(), Errno> {
        answer(self.pool(), control::semaphore_values(&self.context, id, caller, each))
    }

    /// SETVAL.
    ///
    /// # Errors
    /// EINVAL, EACCES, ERANGE.
    pub fn set_semaphore(
        &self,
        id: i32,
        number: i32,
        value: i32,
        caller: &dyn Caller,
    ) -> Result<(), Errno> {
        answer(self.pool(), control::set_semaphore(&self.context, id, number, value, caller))
    }

    /// SETALL.
    ///
    /// # Errors
    /// EINVAL, EACCES, ERANGE.
    pub fn set_semaphores(
        &self,
        id: i32,
        values: &dyn Fn(usize) -> u16,
        caller: &dyn Caller,
    ) -> Result<(), Errno> {
        answer(self.pool(), control::set_semaphores(&self.context, id, values, caller))
    }

    /// Number of semaphores in a set, for callers that have to size a buffer.
    ///
    /// # Errors
    /// EINVAL.
    pub fn semaphore_count(&self, id: i32) -> Result<usize, Errno> {
        answer(self.pool(), control::semaphore_count(&self.context, id))
    }

    /// semget(2).
    ///
    /// # Errors
    /// As the man page says: EACCES, EEXIST, EINVAL, ENOENT, ENOMEM, ENOSPC.
    pub fn semget(
        &self,
        key: i32,
        count: i32,
        flags: i32,
        caller: &dyn Caller,
    ) -> Result<i32, Errno> {
        self.refuse_while_leaving()?;
        answer(self.pool(), create::semget(&self.context, key, count, flags, caller))
    }

    /// semop(2) and semtimedop(2).
    ///
    /// # Errors
    /// As the man page says.
    #[inline]
    pub fn semop<C: Caller>(
        &self,
        id: i32,
        operations: &[Operation],
        timeout: Option<Duration>,
        caller: &C,
    ) -> Result<(), Errno> {
        answer(self.pool(), operate::semop(&self.context, id, operations, timeout, caller))
    }

    /// IPC_RMID.
    ///
    /// # Errors
    /// EINVAL, EPERM.
    pub fn set_remove(&self, id: i32, caller: &dyn Caller) -> Result<(), Errno> {
        answer(self.pool(), remove::set_remove(&self.context, id, caller))
    }

    /// IPC_SET.
    ///
    /// # Errors
    /// EINVAL, EPERM.
    pub fn set_change(
        &self,
        id: i32,
        uid: u32,
        gid: u32,
        mode: u32,
        caller: &dyn Caller,
    ) -> Result<(), Errno> {
        answer(self.pool(), status::set_change(&self.context, id, uid, gid, mode, caller))
    }

    /// IPC_STAT; SEM_STAT and SEM_STAT_ANY by `set_at_index`.
    ///
    /// # Errors
    /// EINVAL, EACCES.
    pub fn set_stat(&self, id: i32, caller: &dyn Caller) -> Result<SetStat, Errno> {
        answer(self.pool(), status::set_stat(&self.context, id, caller))
    }

    /// SEM_STAT (`any` false) and SEM_STAT_ANY.
    ///
    /// # Errors
    /// EINVAL, EACCES.
    pub fn set_at_index(
        &self,
        index: u32,
        any: bool,
        caller: &dyn Caller,
    ) -> Result<SetStat, Errno> {
        answer(self.pool(), status::set_at_index(&self.context, index, any, caller))
    }

    /// SEM_INFO.
    ///
    /// # Errors
    /// EIO when the pool is corrupt.
    pub fn sem_info(&self) -> Result<SemInfo, Errno> {
        answer(self.pool(), status::sem_info(&self.context))
    }
}
