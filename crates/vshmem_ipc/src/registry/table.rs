//! Object slots and the key index, common to the three kinds.

use vshmem_mem::Map;
use vshmem_sync::{Fault, Txn, load_cell, load_value};
use vshmem_wire::{
    FutexBucket, Layout, ObjectHeader, ObjectKey, ObjectState, Place, RawCell, Registry, Task,
    ThreadSlot, field,
};

use crate::context::Context;
use crate::pool::id::{Kind, ObjectSlot};
use crate::registry::permission::Permission;

/// A registry cell that exists once per kind.
macro_rules! per_kind {
    ($layout:expr, $field:ident, $kind:expr) => {
        vshmem_wire::field!($layout.registry, vshmem_wire::Registry, $field).element($kind as u64)
    };
}
pub(crate) use per_kind;

/// How often a get call begins again because what it has found or made was overtaken by others.
/// Two who race for a key do not get far; only a peer that plays with the tables comes here.
pub(crate) const MOST_TRIES: u32 = 1000;

/// State and sequence of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SlotState {
    pub state: u32,
    pub sequence: u32,
}

impl SlotState {
    /// From the word of a slot.
    #[inline]
    pub fn unpack(value: u32) -> Self {
        Self { state: value & 0xff, sequence: (value >> 8) & 0xffff }
    }

    /// As the word of a slot.
    #[inline]
    pub fn pack(self) -> u32 {
        (self.sequence & 0xffff) << 8 | self.state
    }

    /// Whether it is this state.
    #[inline]
    pub fn is(self, state: ObjectState) -> bool {
        self.state == state as u32
    }
}

pub(crate) fn slot_state(map: &Map, slot: Place<ObjectHeader>) -> Result<SlotState, Fault> {
    Ok(SlotState::unpack(load_value(map, field!(slot, ObjectHeader, state))?))
}

pub(crate) fn bucket(layout: &Layout, kind: Kind, key: ObjectKey) -> Result<Place<RawCell>, Fault> {
    let area = layout.keys[kind as usize];
    // Fibonacci hashing: ftok keys differ mostly in their low and high bytes.
    let hash = key.folded().wrapping_mul(0x9e37_79b9) >> 7;
    Ok(area.row(hash % area.count as u32)?)
}

/// Finds a live object by its System V key, without a lock: an answer of "none" has to be confirmed
/// under it.
#[inline(always)]
pub(crate) fn find_key(
    layout: &Layout,
    kind: Kind,
    key: i32,
    get: impl FnMut(Place<RawCell>) -> Result<u64, Fault>,
) -> Result<Option<ObjectSlot>, Fault> {
    find(layout, kind, ObjectKey::of_key(key), get, |_| Ok(true))
}

/// As [`find_key`], the first object of such a key that `is_it` agrees to, by its index.
#[inline(always)]
pub(super) fn find(
    layout: &Layout,
    kind: Kind,
    key: ObjectKey,
    mut get: impl FnMut(Place<RawCell>) -> Result<u64, Fault>,
    mut is_it: impl FnMut(u32) -> Result<bool, Fault>,
) -> Result<Option<ObjectSlot>, Fault> {
    let mut next = get(bucket(layout, kind, key)?)? as u32;
    for _ in 0..kind.slots(layout) {
        let Some(index) = next.checked_sub(1) else {
            return Ok(None);
        };
        let slot = kind.row(layout, index)?;
        let slot_state = SlotState::unpack(get(field!(slot, ObjectHeader, state))? as u32);
        let found = get(field!(slot, ObjectHeader, key))? == key.word();
        if found && slot_state.is(ObjectState::Live) && is_it(index)? {
            return Ok(Some(ObjectSlot { index, sequence: slot_state.sequence }));
        }
        next = get(field!(slot, ObjectHeader, next))? as u32;
    }
    Ok(None)
}

/// Takes a free slot: the one that was freed longest ago, or one never used. `None` when all are
/// in use.
pub(crate) fn take_slot(
    txn: &mut Txn<'_>,
    layout: &Layout,
    kind: Kind,
) -> Result<Option<ObjectSlot>, Fault> {
    let head_at = per_kind!(layout, free_head, kind);
    let head = txn.get(head_at)?;
    let index = if let Some(index) = head.checked_sub(1) {
        let slot = kind.row(layout, index)?;
        let next = txn.get(field!(slot, ObjectHeader, next))?;
        txn.set(head_at, next)?;
        if next == 0 {
            txn.set(per_kind!(layout, free_tail, kind), 0)?;
        }
        index
    } else {
        let high_at = per_kind!(layout, high_water, kind);
        let high = txn.get(high_at)?;
        if u64::from(high) >= kind.slots(layout) {
            return Ok(None);
        }
        txn.set(high_at, high + 1)?;
        high
    };
    let slot = kind.row(layout, index)?;
    let slot_state = SlotState::unpack(txn.get(field!(slot, ObjectHeader, state))?);
    if !slot_state.is(ObjectState::Free) {
        return Err(Fault::corrupt(slot, "a free object slot that is in use"));
    }
    let used_at = per_kind!(layout, in_use, kind);
    let used = txn.get(used_at)?;
    txn.set(used_at, used.saturating_add(1))?;
    Ok(Some(ObjectSlot { index, sequence: slot_state.sequence }))
}

/// Notes in the thread's slot what the thread begins with an object. If its client dies, the thread
/// that reaps the client finishes it.
pub(crate) fn begin_task(txn: &mut Txn<'_>, kind: Kind, index: u32) -> Result<(), Fault> {
    let lock_context = *txn.lock_context();
    let at = field!(lock_context.threads.row(lock_context.slot)?, ThreadSlot, task);
    txn.set(at, Task { kind: kind as u32, index }.pack())
}

/// Forgets that, if it is what the thread has begun.
pub(crate) fn end_task(txn: &mut Txn<'_>, kind: Kind, index: u32) -> Result<(), Fault> {
    let lock_context = *txn.lock_context();
    let at = field!(lock_context.threads.row(lock_context.slot)?, ThreadSlot, task);
    if txn.get(at)? == (Task { kind: kind as u32, index }).pack() { txn.set(at, 0) } else { Ok(()) }
}

/// Gives a slot back; its next object gets another id.
pub(crate) fn free_slot(
    txn: &mut Txn<'_>,
    layout: &Layout,
    kind: Kind,
    index: u32,
) -> Result<(), Fault> {
    let slot = kind.row(layout, index)?;
    let state_at = field!(slot, ObjectHeader, state);
    let slot_state = SlotState::unpack(txn.get(state_at)?);
    let sequence = slot_state.sequence.wrapping_add(1) & 0xffff;
    txn.set(state_at, SlotState { state: ObjectState::Free as u32, sequence }.pack())?;
    txn.update(field!(slot, ObjectHeader, next), 0)?;
    let tail_at = per_kind!(layout, free_tail, kind);
    let tail = txn.get(tail_at)?;
    if let Some(last) = tail.checked_sub(1) {
        let last = kind.row(layout, last)?;
        txn.set(field!(last, ObjectHeader, next), index + 1)?;
    } else {
        txn.set(per_kind!(layout, free_head, kind), index + 1)?;
    }
    txn.set(tail_at, index + 1)?;
    let used_at = per_kind!(layout, in_use, kind);
    let used = txn.get(used_at)?;
    txn.set(used_at, used.saturating_sub(1))
}

/// Fills in the common part of a new object. Its key, if it has one, is yet to be entered into the
/// index; the state is the caller's to set.
pub(crate) fn describe(
    txn: &mut Txn<'_>,
    slot: Place<ObjectHeader>,
    permission: &Permission,
    now: u32,
) -> Result<(), Fault> {
    let key = ObjectKey::of_key(permission.key);
    txn.update_word(field!(slot, ObjectHeader, key), key.word())?;
    txn.update(field!(slot, ObjectHeader, uid), permission.uid)?;
    txn.update(field!(slot, ObjectHeader, gid), permission.gid)?;
    let creator = u64::from(permission.cgid) << 32 | u64::from(permission.cuid);
    txn.update_word(field!(slot, ObjectHeader, creator), creator)?;
    txn.update(field!(slot, ObjectHeader, mode), permission.mode)?;
    txn.update(field!(slot, ObjectHeader, changed), now)
}

/// Gives a new POSIX object the number of [`generation`]: its creator is written once more, also
/// where that is the same user as before.
pub(crate) fn begin_generation(txn: &mut Txn<'_>, slot: Place<ObjectHeader>) -> Result<(), Fault> {
    let at = field!(slot, ObjectHeader, creator);
    let creator = txn.get_word(at)?;
    txn.set_word(at, creator)
}

/// A number that no other POSIX object has had in this slot: the tag of its creator, which is
/// written as it is made, and not again. Sequences come back.
pub(crate) fn generation(map: &Map, slot: Place<ObjectHeader>) -> Result<u64, Fault> {
    Ok(load_cell(map, field!(slot, ObjectHeader, creator))?.tag)
}

/// Whether a new object of a System V key comes too late: another thread has made one meanwhile.
pub(crate) fn is_taken(
    txn: &mut Txn<'_>,
    layout: &Layout,
    kind: Kind,
    key: i32,
) -> Result<bool, Fault> {
    Ok(key != 0 && find_key(layout, kind, key, |at| txn.get_word(at))?.is_some())
}

/// Enters an object into the index, by what its key cell says. It has a key.
pub(crate) fn enter_key(
    txn: &mut Txn<'_>,
    layout: &Layout,
    kind: Kind,
    index: u32,
) -> Result<(), Fault> {
    let slot = kind.row(layout, index)?;
    let key = ObjectKey::of_word(txn.get_word(field!(slot, ObjectHeader, key))?);
    let head_at = bucket(layout, kind, key)?;
    let head = txn.get(head_at)?;
    txn.update(field!(slot, ObjectHeader, next), head)?;
    txn.set(head_at, index + 1)
}

/// Takes an object's key out of the index, if it is there.
pub(crate) fn leave_key(
    txn: &mut Txn<'_>,
    layout: &Layout,
    kind: Kind,
    index: u32,
) -> Result<(), Fault> {
    let slot = kind.row(layout, index)?;
    let key = ObjectKey::of_word(txn.get_word(field!(slot, ObjectHeader, key))?);
    if key == ObjectKey::NONE {
        return Ok(());
    }
    let mut link = bucket(layout, kind, key)?;
    for _ in 0..=kind.slots(layout) {
        let next = txn.get(link)?;
        let Some(other) = next.checked_sub(1) else {
            return Ok(());
        };
        let at = field!(kind.row(layout, other)?, ObjectHeader, next);
        if other == index {
            let after = txn.get(at)?;
            return txn.set(link, after);
        }
        link = at;
    }
    Err(Fault::corrupt(link, "a key chain without an end"))
}

/// IPC_SET of the common part. Ids of -1 are refused by the caller.
pub(crate) fn set_owner(
    txn: &mut Txn<'_>,
    slot: Place<ObjectHeader>,
    uid: u32,
    gid: u32,
    mode: u32,
) -> Result<(), Fault> {
    let mode_at = field!(slot, ObjectHeader, mode);
    let before = txn.get(mode_at)?;
    txn.update(field!(slot, ObjectHeader, uid), uid)?;
    txn.update(field!(slot, ObjectHeader, gid), gid)?;
    let bits = vshmem_wire::PERM_BITS;
    txn.update(mode_at, (before & !bits) | (mode & bits))?;
    txn.update(field!(slot, ObjectHeader, changed), vshmem_mem::seconds_now())
}

/// Whether there is a lock at that place.
pub(crate) fn is_lock(context: &Context, lock: Place<RawCell>) -> bool {
    let layout = context.pool().layout();
    let of_object = |kind: &Kind| {
        let index = kind.index_of(layout, lock.offset());
        let slot = index.and_then(|index| kind.row(layout, index).ok());
        slot.is_some_and(|slot| field!(slot, ObjectHeader, lock) == lock)
    };
    let bucket = layout.futexes.index_of(lock.offset()).and_then(|nth| layout.futexes.at(nth));
    lock == context.pool().registry_lock()
        || lock == field!(layout.registry, Registry, lock_table)
        || bucket.is_some_and(|bucket| field!(bucket, FutexBucket, lock) == lock)
        || Kind::ALL.iter().any(of_object)
}
