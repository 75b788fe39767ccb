//! CPUs of this thread, and of the processes that it starts.

use rustix::thread::{CpuSet, Pid, sched_getaffinity, sched_setaffinity};
use vshmem_plan::NumberSet;

use crate::error::{Error, Result};

/// This thread runs on certain CPUs until this is dropped.
pub(crate) struct Pinned(CpuSet);

impl Pinned {
    /// Moves this thread.
    pub(crate) fn to(cpus: &NumberSet) -> Result<Self> {
        let before = sched_getaffinity(None).unwrap_or_default();
        move_thread(None, cpus)?;
        Ok(Self(before))
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        let _ = sched_setaffinity(None, &self.0);
    }
}

/// Moves a thread; `None`: this one. One that has ended is nowhere.
pub(super) fn move_thread(thread: Option<u32>, cpus: &NumberSet) -> Result<()> {
    let mut set = CpuSet::new();
    for cpu in cpus.iter().filter(|cpu| (*cpu as usize) < CpuSet::MAX_CPU) {
        set.set(cpu as usize);
    }
    let number = thread.and_then(|thread| Pid::from_raw(thread.cast_signed()));
    match sched_setaffinity(number, &set) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(error) => Err(Error::io(format!("run on the planned CPUs {cpus}"))(error.into())),
    }
}
