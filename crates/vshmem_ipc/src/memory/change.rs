//! Running a change, with as long an intent record as it needs.

use vshmem_sync::{Decision, Fault, LockContext, Txn};

use crate::context::Context;
use crate::error::{ChangeResult, Failure};
use crate::memory::chunks;
use vshmem_wire::{Place, RawCell};

/// Runs a change under a lock, with a longer intent record if the usual one is too short.
pub(crate) fn run<'a, T>(
    context: &'a Context,
    lock_context: &LockContext<'a>,
    lock: Place<RawCell>,
    name: &'static str,
    mut body: impl FnMut(&mut Txn<'a>) -> Result<T, Fault>,
) -> Result<T, Failure> {
    decide(context, lock_context, lock, name, |txn| body(txn).map(Decision::Commit))
}

/// As [`run`], for a change that may be refused: what becomes of its writes is what `body` decides.
pub(crate) fn decide<'a, T>(
    context: &'a Context,
    lock_context: &LockContext<'a>,
    lock: Place<RawCell>,
    name: &'static str,
    mut body: impl FnMut(&mut Txn<'a>) -> ChangeResult<T>,
) -> Result<T, Failure> {
    let short = vshmem_sync::decide_with_lock(*lock_context, lock, name, &mut body);
    if !matches!(short, Err(Failure::Fault(Fault::TooLong))) {
        return short;
    }
    /// Entries of a longer record: enough for semop's limit, for a whole set, and for its
    /// adjustments as well.
    const LONGER: [usize; 3] = [2000, 34_000, vshmem_wire::MORE_INTENT_ENTRIES];
    for entries in LONGER {
        let bytes = (entries * size_of::<vshmem_wire::IntentEntry>()) as u64;
        let chunk = chunks::take(context, lock_context, bytes)?;
        let overflow = chunk.place(context.pool().layout())?;
        let done = vshmem_sync::decide_with_lock_long(
            *lock_context,
            lock,
            name,
            overflow,
            entries,
            &mut body,
        );
        chunks::release(context, lock_context, chunk)?;
        if !matches!(done, Err(Failure::Fault(Fault::TooLong))) {
            return done;
        }
    }
    Err(Fault::TooLong.into())
}
