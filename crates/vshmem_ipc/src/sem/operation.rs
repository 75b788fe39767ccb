//! Operations of semop(2), and what the calls tell of a set.

use crate::registry::permission::Permission;

/// One operation of a semop call (`struct sembuf`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Operation {
    /// Number of the semaphore in the set.
    pub number: u16,
    /// What to add; 0: wait for zero.
    pub change: i16,
    /// IPC_NOWAIT.
    pub no_wait: bool,
    /// SEM_UNDO.
    pub undo: bool,
}

impl Operation {
    pub(super) fn pack(self) -> u64 {
        u64::from(self.number)
            | u64::from(self.change as u16) << 16
            | u64::from(self.no_wait) << 32
            | u64::from(self.undo) << 33
    }

    pub(crate) fn unpack(word: u64) -> Self {
        Self {
            number: word as u16,
            change: (word >> 16) as u16 as i16,
            no_wait: word >> 32 & 1 != 0,
            undo: word >> 33 & 1 != 0,
        }
    }
}

/// A set as IPC_STAT tells it (`struct semid_ds`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SetStat {
    /// Id.
    pub id: i32,
    /// Owner and mode.
    pub permission: Permission,
    /// Semaphores.
    pub count: u32,
    /// Seconds since 1970 of the last semop, 0 for none.
    pub operated: u32,
    /// Seconds since 1970 of creation or IPC_SET.
    pub changed: u32,
}

/// Totals (`struct seminfo` after SEM_INFO).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SemInfo {
    /// Sets in use.
    pub sets: u32,
    /// Semaphores in use.
    pub semaphores: u32,
    /// Highest index in use; what the call returns.
    pub highest: u32,
}
