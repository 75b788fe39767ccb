//! For `queue`, until it is a room like the others.

use rustix::io::Errno;
use vshmem_mem::Instant;
use vshmem_sync::{Desk, Fault, Seat, Txn};

use crate::context::Context;
use crate::error::Verdict;
use crate::memory::{change, chunks};
use crate::pool::chunk::Chunk;
use crate::pool::id::{Kind, Place};
use crate::registry::lookup;
use crate::wait::doorbell;
use crate::wait::queue::{Line, Rings};
use crate::wait::sleep::{self, Woken};

impl Context {
    pub(crate) fn change<'a, T>(
        &'a self,
        desk: &Desk<'a>,
        lock: u64,
        name: &'static str,
        body: impl FnMut(&mut Txn<'a>) -> Verdict<T>,
    ) -> Verdict<T> {
        change::run(self, desk, lock, name, body)
    }

    pub(crate) fn take_chunk(&self, desk: &Desk<'_>, bytes: u64) -> Result<Chunk, Errno> {
        Ok(chunks::take(self, desk, bytes)?)
    }

    pub(crate) fn ring_all(&self, rings: &Rings) {
        doorbell::ring_all(self, rings);
    }

    pub(crate) fn existing(
        &self,
        kind: Kind,
        key: i32,
        flags: i32,
    ) -> Result<Option<Place>, Errno> {
        Ok(lookup::existing(self, kind, key, flags)?)
    }

    pub(crate) fn id_at(&self, kind: Kind, index: u32) -> Result<i32, Errno> {
        Ok(lookup::id_at(self, kind, index)?)
    }

    pub(crate) fn sleep_in_line(
        &self,
        seat: &Seat<'_>,
        line: Line,
        has_looked: bool,
        deadline: Option<Instant>,
        signals_seen: u32,
        tend: impl FnMut() -> Result<(), Fault>,
    ) -> Result<Woken, Fault> {
        sleep::sleep_in_line(self, seat, line, has_looked, deadline, signals_seen, tend)
    }
}

pub(crate) fn settle<T>(verdict: Verdict<T>) -> Result<T, Errno> {
    crate::error::settle(verdict).map_err(Errno::from)
}

impl From<crate::error::Failure> for Errno {
    fn from(failure: crate::error::Failure) -> Self {
        match failure {
            crate::error::Failure::Errno(errno) => errno,
            crate::error::Failure::Fault(Fault::TooLong) => Errno::NOMEM,
            crate::error::Failure::Fault(Fault::Refused(errno)) => Errno::from_raw_os_error(errno),
            crate::error::Failure::Fault(_) => Errno::IO,
        }
    }
}
