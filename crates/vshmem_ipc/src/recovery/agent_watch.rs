//! What a domain's agent does for the sleepers of its domain, so that they need not wake up to do
//! it themselves.
//!
//! A sleeper that everybody can ring sleeps on two words: its own, and one that the kernel changes
//! when the agent ends. Once a second the agent looks in its stead: whether it has been served and
//! the ring was lost, whether somebody died between changing the object and serving those who wait
//! for it.

use std::collections::BTreeSet;

use vshmem_sync::{Fault, field, load_value};
use vshmem_wire::{ThreadSlot, WaitKind, WaitState};

use crate::context::Context;
use crate::error::Failure;
use crate::pool::threads::thread_at;
use crate::recovery::objects;
use crate::wait::domain_users;

/// Looks after the objects at which threads of this domain sleep: makes up for those who died
/// halfway. Lost rings are `deliver_rings`' part.
pub(crate) fn tend_sleepers(context: &Context) -> Result<(), Failure> {
    domain_users::look_for_neighbours(context)?;
    let objects = objects_slept_at(context)?;
    if objects.is_empty() {
        return Ok(());
    }
    let seat = context.seat()?;
    let desk = context.desk_of(&seat);
    for (is_set, index) in objects {
        objects::tend_object(context, &desk, is_set, index)?;
    }
    Ok(())
}

/// Sets (true) and queues at which threads of this domain sleep.
fn objects_slept_at(context: &Context) -> Result<BTreeSet<(bool, u32)>, Fault> {
    let (layout, map) = (context.pool().layout(), context.pool().map());
    let mut objects = BTreeSet::new();
    for slot in 0..layout.threads.count as u32 {
        if !context.words.is_asleep(slot) && !domain_users::is_neighbour_in_line(context, slot) {
            continue;
        }
        let at = thread_at(layout, slot)?;
        if load_value(map, field!(at, ThreadSlot, wait))? == WaitState::Waiting as u32 {
            let kind = load_value(map, field!(at, ThreadSlot, kind))?;
            let object = load_value(map, field!(at, ThreadSlot, object))?;
            objects.insert((kind == WaitKind::Semaphore as u32, object));
        }
    }
    Ok(objects)
}
