//! Waking by address.

use arrayvec::ArrayVec;
use vshmem_mem::{Ordering, fence};
use vshmem_sync::{Fault, LockContext, SlotGuard, Txn, Woke, load_value, with_lock};
use vshmem_wire::{AddressWait, Layout, Place, RawCell, WaitState, field};

use crate::context::Context;
use crate::error::Failure;
use crate::futex::Bucket;
use crate::wait::doorbell;
use crate::wait::wait_queue::{self, WakeList};

/// The result of a wait that ended because a client has ended: the thread has to look again, and
/// other threads sleep. 0: woken at its address, and no other thread sleeps there; 1: others do.
pub(super) const CLIENT_ENDED: u32 = 2;

/// Threads woken in one change: five words each.
const AT_ONCE: usize = 8;

/// Wakes at most `most` threads that sleep at the word at `offset`, those first that came first.
pub(crate) fn wake(context: &Context, offset: u64, most: u32) -> Result<Woke, Failure> {
    let bucket = Bucket::of(context.pool().layout(), offset)?;
    wake_in(context, (bucket, offset), most)
}

/// Wakes all threads that sleep at a cell of the pool's own.
pub(crate) fn wake_cell(context: &Context, at: Place<RawCell>) -> Result<(), Failure> {
    let bucket = Bucket::of_cell(context.pool().layout(), at)?;
    wake_in(context, (bucket, at.offset()), u32::MAX).map(|_| ())
}

fn wake_in(context: &Context, (bucket, offset): (Bucket, u64), most: u32) -> Result<Woke, Failure> {
    // Barrier ADDRESS of `vshmem_sync::process_shared`: the word was changed before the look at
    // the queue. Pairs with the fence in `wait`.
    fence(Ordering::SeqCst);
    if most == 0 || load_value(context.pool().map(), bucket.length())? == 0 {
        return Ok(Woke::default());
    }
    let slot_guard = context.slot_guard()?;
    let lock_context = context.lock_context_of(&slot_guard);
    let mut woke = Woke::default();
    // More than there are thread slots only a peer gets that fills the queue again and again.
    for _ in 0..=context.pool().layout().threads.count {
        let left = most - woke.threads;
        let (threads, more) = wake_some(context, &lock_context, bucket, Some(offset), left)?;
        woke.threads += threads;
        woke.more = more;
        if !more || threads == 0 || woke.threads == most {
            break;
        }
    }
    Ok(woke)
}

/// Wakes the next one at an address in place of a thread that was woken there and did not sleep.
pub(super) fn pass_on(
    context: &Context,
    slot_guard: &SlotGuard<'_>,
    bucket: Bucket,
    offset: u64,
) -> Result<(), Fault> {
    // Whom that wake-up has found beside this thread is counted: both were seen under the lock.
    if load_value(context.pool().map(), bucket.length())? != 0 {
        let lock_context = context.lock_context_of(slot_guard);
        wake_some(context, &lock_context, bucket, Some(offset), 1)?;
    }
    Ok(())
}

/// Wakes some of those that sleep in a wait queue, at one address or any. Returns how many, and
/// whether there are others.
pub(super) fn wake_some(
    context: &Context,
    lock_context: &LockContext<'_>,
    bucket: Bucket,
    offset: Option<u64>,
    most: u32,
) -> Result<(u32, bool), Fault> {
    let layout = context.pool().layout();
    let wait_queue = bucket.wait_queue();
    let mut wakes = WakeList::default();
    let more = with_lock(*lock_context, wait_queue.lock, "futex-wake", |txn| {
        wakes.clear();
        let (sleepers, more) = find(txn, layout, bucket, offset, most)?;
        // Whether others are left asleep: the woken threads are told, and have to see to them.
        let is_last = sleepers.len() as u32 == most;
        let result = match offset {
            Some(_) => u32::from(more && is_last),
            None => CLIENT_ENDED,
        };
        for &slot in &sleepers {
            wait_queue::dequeue(txn, layout, wait_queue, slot, WaitState::Done, result)?;
            wakes.add(slot);
        }
        Ok(more)
    })?;
    doorbell::wake_listed(context, &wakes);
    Ok((wakes.slots.len() as u32, more))
}

/// The first of those that sleep at an address, or at any; and whether there are more.
fn find(
    txn: &mut Txn<'_>,
    layout: &Layout,
    bucket: Bucket,
    offset: Option<u64>,
    most: u32,
) -> Result<(ArrayVec<u32, AT_ONCE>, bool), Fault> {
    let most = AT_ONCE.min(most as usize);
    let (mut found, mut more) = (ArrayVec::new(), false);
    wait_queue::walk(txn, layout, bucket.wait_queue(), |txn, slot| {
        let at = field!(layout.threads.row(slot)?.address_wait(), AddressWait, offset);
        let sleeps_at = txn.lock_context().map.load(at, Ordering::Relaxed)?;
        if offset.is_none_or(|offset| offset == sleeps_at) {
            more = found.len() == most;
            if !more {
                found.push(slot);
            }
        }
        Ok(!more)
    })?;
    Ok((found, more))
}
