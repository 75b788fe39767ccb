//! The agent's checks for the waiters of its domain, which then need not wake up for them.
//!
//! A waiter that every thread can wake sleeps on two words: its own, and one that the kernel
//! changes when the agent ends. Once a second the agent checks instead: whether the waiter has been
//! served and its wake-up was lost, and whether a thread died between changing the object and
//! serving those that wait for it.

use std::collections::BTreeSet;

use vshmem_sync::{Fault, load_state, load_value};
use vshmem_wire::{ThreadSlot, WaitKind, WaitState, field};

use crate::context::Context;
use crate::error::Failure;
use crate::pool::id::Kind;
use crate::recovery::objects;
use crate::wait::domain_users;

/// Recovers the objects at which threads of this domain sleep, after threads that died in the
/// middle of a change. Lost wake-ups are `deliver_wakeups`' part.
pub(crate) fn recover_waiters(context: &Context) -> Result<(), Failure> {
    domain_users::look_for_other_users(context)?;
    let objects = objects_slept_at(context)?;
    if objects.is_empty() {
        return Ok(());
    }
    let slot_guard = context.slot_guard()?;
    let lock_context = context.lock_context_of(&slot_guard);
    for (kind, index) in objects {
        objects::recover_object(context, &lock_context, kind, index)?;
    }
    Ok(())
}

/// Sets and queues at which threads of this domain sleep.
fn objects_slept_at(context: &Context) -> Result<BTreeSet<(Kind, u32)>, Fault> {
    let (layout, map) = (context.pool().layout(), context.pool().map());
    let mut objects = BTreeSet::new();
    for slot in 0..layout.threads.count as u32 {
        if !context.waking.words.is_asleep(slot)
            && !domain_users::is_other_user_waiting(context, slot)
        {
            continue;
        }
        let at = layout.threads.row(slot)?;
        if load_state(map, field!(at, ThreadSlot, wait))? == Some(WaitState::Waiting) {
            let kind = load_state(map, field!(at, ThreadSlot, kind))?;
            let object = load_value(map, field!(at, ThreadSlot, object))?;
            if kind == Some(WaitKind::Address) {
                // No thread serves those: they are woken when a client ends.
                continue;
            }
            let is_set = kind == Some(WaitKind::Semaphore);
            objects.insert((if is_set { Kind::Semaphore } else { Kind::Queue }, object));
        }
    }
    Ok(objects)
}
