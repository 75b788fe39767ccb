//! What a client or a domain that has ended has left in the lock table.

use arrayvec::ArrayVec;
use vshmem_sync::{Fault, LockContext, load_value, with_lock};
use vshmem_wire::{LockRowHead, Registry, field};

use crate::claims::ask::table_lock;
use crate::claims::rows::{self, Row, Rows};
use crate::context::Context;

/// Rows that are freed in one change.
const AT_ONCE: usize = 16;

/// Removes the wants of a client.
pub(crate) fn drop_wants(
    context: &Context,
    lock_context: &LockContext<'_>,
    client: u64,
) -> Result<(), Fault> {
    drop_rows(context, lock_context, |row| !row.is_claim() && row.client == client)
}

/// Removes the claims of a domain in one of its boot epochs.
pub(crate) fn drop_claims(
    context: &Context,
    lock_context: &LockContext<'_>,
    domain: u32,
    epoch: u32,
) -> Result<(), Fault> {
    let epoch = LockRowHead::epoch_of(epoch);
    drop_rows(context, lock_context, |row| {
        row.is_claim() && (row.place.domain, row.place.epoch) == (domain, epoch)
    })
}

fn drop_rows(
    context: &Context,
    lock_context: &LockContext<'_>,
    is_over: impl Fn(&Row) -> bool,
) -> Result<(), Fault> {
    let layout = context.pool().layout();
    let high = field!(layout.registry, Registry, lock_rows);
    if load_value(context.pool().map(), high)? == 0 {
        return Ok(());
    }
    for _ in 0..=layout.locks.count {
        let more = with_lock(*lock_context, table_lock(context), "lock-end", |txn| {
            let mut over = ArrayVec::<Row, AT_ONCE>::new();
            let mut get = |at| txn.get_word(at);
            Rows::new(context, &mut get)?.each(&mut get, &mut |row| {
                if is_over(&row) {
                    let _ = over.try_push(row);
                }
            })?;
            for row in &over {
                rows::free(txn, context, row)?;
            }
            Ok(over.is_full())
        })?;
        if !more {
            break;
        }
    }
    Ok(())
}
