//! stat(2), access(2), fchmod(2) and fchown(2) of an object, and its name.

use rustix::io::Errno;
use vshmem_sync::Decision::{Abandon, Commit};
use vshmem_sync::{load_value, load_word};
use vshmem_wire::{AttachCount, ObjectName, PAGE_BYTES, PERM_BITS, Place, RawCell, ShmSlot, field};

use crate::context::Context;
use crate::error::Failure;
use crate::memory::change;
use crate::pool::id::Kind;
use crate::registry::name::{self, Name, NameBytes};
use crate::registry::permission::{Caller, Permission};
use crate::registry::table;
use crate::shm::posix::object::{self, PosixShmStat};
use crate::shm::segment::{self, at};

/// fstat(2).
pub(crate) fn stat(context: &Context, id: i32) -> Result<PosixShmStat, Failure> {
    let object = object::find(context, id)?;
    let (map, slot) = (context.pool().map(), object.slot);
    let get = |at: Place<RawCell>| load_value(map, at);
    let size = segment::bytes(context, object.object_slot, slot)?;
    let permission = Permission::read(map, slot.header())?;
    let used = AttachCount::unpack(load_word(map, at!(slot, attached))?);
    let name = ObjectName::unpack(load_word(map, at!(slot, name))?);
    Ok(PosixShmStat {
        id,
        size,
        capacity: u64::from(get(at!(slot, pages))?) * PAGE_BYTES,
        mode: permission.mode & PERM_BITS,
        uid: permission.uid,
        gid: permission.gid,
        named: matches!(name, ObjectName::Chunk { .. }),
        attached: used.attached,
        opened: used.opened,
        attach_time: get(at!(slot, attach_time))?,
        changed: get(field!(slot, ShmSlot, header.changed))?,
    })
}

/// The name of an object, without its slash. ENOENT when it has none any more.
pub(crate) fn name_of(context: &Context, id: i32) -> Result<NameBytes, Failure> {
    let object = object::find(context, id)?;
    let (map, layout) = (context.pool().map(), context.pool().layout());
    let found = name::read(map, layout, load_word(map, at!(object.slot, name))?)?;
    // The chunk was its own only if it has the name still.
    object::find(context, id)?;
    Ok(found.ok_or(Errno::NOENT)?)
}

/// The id of the object of a name. ENOENT when there is none.
pub(crate) fn find(context: &Context, bytes_of_name: &[u8]) -> Result<i32, Failure> {
    let found = name::look_up(context, Kind::Segment, Name::of(bytes_of_name)?)?;
    Ok(found.ok_or(Errno::NOENT)?.id())
}

/// access(2): `wanted` is its mode. EACCES when the caller may not.
pub(crate) fn access(
    context: &Context,
    id: i32,
    wanted: u32,
    caller: &dyn Caller,
) -> Result<(), Failure> {
    let object = object::find(context, id)?;
    let permission = Permission::read(context.pool().map(), object.slot.header())?;
    // Nobody executes what is nobody's to execute, as Linux has it.
    if wanted & 1 != 0 && permission.mode & 0o111 == 0 {
        return Err(Errno::ACCESS.into());
    }
    Ok(permission.allow_file(caller, wanted)?)
}

/// fchmod(2).
pub(crate) fn set_mode(
    context: &Context,
    id: i32,
    mode: u32,
    caller: &dyn Caller,
) -> Result<(), Failure> {
    set(context, id, "shm-chmod", |now| now.with_mode(mode, caller))
}

/// fchown(2); what is `None` stays.
pub(crate) fn set_owner(
    context: &Context,
    id: i32,
    uid: Option<u32>,
    gid: Option<u32>,
    caller: &dyn Caller,
) -> Result<(), Failure> {
    set(context, id, "shm-chown", |now| now.with_owner(uid, gid, caller))
}

fn set(
    context: &Context,
    id: i32,
    change_name: &'static str,
    wanted: impl Fn(&Permission) -> Result<Permission, Errno>,
) -> Result<(), Failure> {
    let object = object::find(context, id)?;
    let (pool, slot) = (context.pool(), object.slot);
    let slot_guard = context.slot_guard()?;
    let lock_context = context.lock_context_of(&slot_guard);
    change::decide(context, &lock_context, pool.registry_lock(), change_name, |txn| {
        if !object.is_alive(txn)? {
            return Ok(Abandon(Errno::INVAL));
        }
        let now = Permission::read(pool.map(), slot.header())?;
        match wanted(&now) {
            Ok(new) => table::set_owner(txn, slot.header(), new.uid, new.gid, new.mode).map(Commit),
            Err(errno) => Ok(Abandon(errno)),
        }
    })
}
