//! The objects of a pool, and the locks that are held.

use vshmem_sync::{Fault, holder_of, load_value, load_word};
use vshmem_wire::{
    AttachCount, ClientId, MsgSlot, ObjectHeader, ObjectName, ObjectState, PAGE_BYTES, Place,
    ProcessRef, RawCell, Registry, SemSlot, ShmSlot, ThreadSlot, field,
};

use crate::error::Failure;
use crate::listing::rows::{FoundBy, LockRow, ObjectDetails, ObjectRow, Particulars, Usage};
use crate::pool::id::{Kind, ObjectSlot};
use crate::pool::open::Pool;
use crate::registry::name;
use crate::registry::permission::Permission;
use crate::registry::table::{self, per_kind};
use crate::sem::set::{self, Set};

/// All objects of a kind, with what their tables say. Looked at without a lock: an object that
/// changes at this moment may show a mixture.
pub(crate) fn entries(pool: &Pool, kind: Kind) -> Result<Vec<ObjectDetails>, Failure> {
    let rows = objects(pool, kind)?;
    rows.iter().map(|row| Ok(entry(pool, *row)?)).collect()
}

pub(crate) fn entry(pool: &Pool, row: ObjectRow) -> Result<ObjectDetails, Fault> {
    let (map, layout) = (pool.map(), pool.layout());
    let slot = row.kind.row(layout, row.index)?;
    let slot_state = table::slot_state(map, slot)?;
    let object_slot = ObjectSlot { index: row.index, sequence: slot_state.sequence };
    let get = |at: Place<RawCell>| load_value(map, at);
    let process_ref = |at: Place<RawCell>| get(at).map(ProcessRef::unpack);
    let particulars = match row.kind {
        Kind::Segment => {
            let slot = layout.shm.row(row.index)?;
            let low = get(field!(slot, ShmSlot, size_low))?;
            let high = get(field!(slot, ShmSlot, size_high))?;
            let first = get(field!(slot, ShmSlot, first_page))?;
            let used = load_word(map, field!(slot, ShmSlot, attached))?;
            let used = AttachCount::unpack(used);
            Particulars::Segment {
                offset: layout.data.offset() + u64::from(first) * PAGE_BYTES,
                bytes: u64::from(high) << 32 | u64::from(low),
                attached: used.attached,
                opened: used.opened,
                doomed: slot_state.is(ObjectState::Doomed),
                creator: process_ref(field!(slot, ShmSlot, creator))?,
                last: process_ref(field!(slot, ShmSlot, last))?,
            }
        }
        Kind::Semaphore => {
            let slot = layout.sem.row(row.index)?;
            Particulars::Semaphore {
                count: get(field!(slot, SemSlot, count))?,
                operated: get(field!(slot, SemSlot, header.operated))?,
                last: set::last_operator(pool, &Set::read(pool, object_slot, slot)?, 0)?,
            }
        }
        Kind::Queue => {
            let slot = layout.msg.row(row.index)?;
            let (count, bytes) = crate::msg::status::totals(map, pool.layout(), slot)?;
            Particulars::Queue {
                bytes,
                count,
                limit: get(field!(slot, MsgSlot, limit))?,
                most_messages: get(field!(slot, MsgSlot, most_messages))?,
                most_bytes: get(field!(slot, MsgSlot, most_bytes))?,
                opened: get(field!(slot, MsgSlot, opened))?,
                sender: process_ref(field!(slot, MsgSlot, sender))?,
                receiver: process_ref(field!(slot, MsgSlot, receiver))?,
            }
        }
    };
    Ok(ObjectDetails {
        kind: row.kind,
        index: row.index,
        id: object_slot.id(),
        found_by: found_by(pool, row.kind, row.index, slot)?,
        permission: Permission::read(map, slot)?,
        changed: get(field!(slot, ObjectHeader, changed))?,
        particulars,
    })
}

fn found_by(
    pool: &Pool,
    kind: Kind,
    index: u32,
    _slot: Place<ObjectHeader>,
) -> Result<FoundBy, Fault> {
    if kind == Kind::Semaphore {
        return Ok(FoundBy::Key);
    }
    let word = load_word(pool.map(), name::cell_at(pool.layout(), kind, index)?)?;
    if !ObjectName::is_posix(word) {
        return Ok(FoundBy::Key);
    }
    let name = name::read(pool.map(), pool.layout(), word)?;
    Ok(name.map_or(FoundBy::Nothing, |name| FoundBy::Name(name.to_vec())))
}

/// How much of the pool is used.
pub(crate) fn usage(pool: &Pool) -> Result<Usage, Failure> {
    let (map, layout) = (pool.map(), pool.layout());
    let look = || -> Result<Usage, Fault> {
        let pages = load_value(map, field!(layout.registry, Registry, pages_used))?;
        let mut objects = [0; 3];
        for kind in Kind::ALL {
            objects[kind as usize] = load_value(map, per_kind!(layout, in_use, kind))?;
        }
        Ok(Usage { bytes: u64::from(pages) * PAGE_BYTES, objects })
    };
    look().map_err(Failure::from)
}

/// The locks that are held at this moment.
pub(crate) fn locks(pool: &Pool) -> Result<Vec<LockRow>, Failure> {
    let mut rows = Vec::new();
    rows.extend(lock_row(pool, None)?);
    for kind in Kind::ALL {
        for object in objects(pool, kind)? {
            rows.extend(lock_row(pool, Some(object))?);
        }
    }
    Ok(rows)
}

pub(crate) fn lock_row(pool: &Pool, object: Option<ObjectRow>) -> Result<Option<LockRow>, Fault> {
    let layout = pool.layout();
    let offset = match object {
        None => pool.registry_lock(),
        Some(row) => {
            let slot = row.kind.row(layout, row.index)?;
            field!(slot, ObjectHeader, lock)
        }
    };
    let Some(holder) = holder_of(pool.map(), offset)? else {
        return Ok(None);
    };
    let owner = match layout.threads.at(holder.slot) {
        Some(at) => load_word(pool.map(), field!(at, ThreadSlot, owner))?,
        None => 0,
    };
    Ok(Some(LockRow {
        object,
        client: ClientId::of(owner).and_then(ClientId::slot),
        committed: holder.committed,
    }))
}

/// All objects of a kind.
pub(crate) fn objects(pool: &Pool, kind: Kind) -> Result<Vec<ObjectRow>, Failure> {
    let (map, layout) = (pool.map(), pool.layout());
    let look = || -> Result<Vec<ObjectRow>, Fault> {
        let high = load_value(map, per_kind!(layout, high_water, kind))?;
        let mut rows = Vec::new();
        for index in 0..high.min(kind.slots(layout) as u32) {
            let slot = kind.row(layout, index)?;
            let slot_state = table::slot_state(map, slot)?;
            if slot_state.is(ObjectState::Live) || slot_state.is(ObjectState::Doomed) {
                rows.push(ObjectRow { kind, index });
            }
        }
        Ok(rows)
    };
    look().map_err(Failure::from)
}
