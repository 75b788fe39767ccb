//! Names of POSIX objects: in the key index by their hash, with their bytes in a chunk of the heap.
//!
//! Kinds that can have names are segments and queues; each kind has names of its own. A match by
//! hash is confirmed by the bytes, so two names of the same hash are two objects.

use arrayvec::ArrayVec;
use rustix::io::Errno;
use vshmem_mem::Map;
use vshmem_sync::{Fault, LockContext, Txn, load_word, read_if_free};
use vshmem_wire::{
    Layout, MsgSlot, NAME_BYTES, ObjectHeader, ObjectKey, ObjectName, Place, RawCell, ShmSlot,
    field,
};

use crate::context::Context;
use crate::error::Failure;
use crate::memory::{change, chunks, heap};
use crate::pool::chunk::{Chunk, IN_OBJECT};
use crate::pool::id::{Kind, ObjectSlot};
use crate::registry::table;

/// Bytes of a name.
pub(crate) type NameBytes = ArrayVec<u8, NAME_BYTES>;

/// A name as programs give it, checked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Name<'a>(&'a [u8]);

impl<'a> Name<'a> {
    /// The name in `bytes`, which begin behind the slash.
    pub(crate) fn of(bytes: &'a [u8]) -> Result<Self, Errno> {
        if bytes.is_empty() || bytes.contains(&b'/') || bytes.contains(&0) {
            return Err(Errno::INVAL);
        }
        // A directory has these two already.
        if bytes == b"." || bytes == b".." {
            return Err(Errno::INVAL);
        }
        if bytes.len() > NAME_BYTES { Err(Errno::NAMETOOLONG) } else { Ok(Self(bytes)) }
    }

    fn key(self) -> ObjectKey {
        ObjectKey::of_name(self.0)
    }
}

/// A name that lies in the heap already, for an object that is to be made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewName<'a> {
    pub name: Name<'a>,
    pub chunk: Chunk,
}

/// Writes a name into a chunk of the heap, which is the caller's until [`enter`] has passed it to
/// the object.
pub(crate) fn lay<'a>(
    context: &Context,
    lock_context: &LockContext<'_>,
    name: Name<'a>,
) -> Result<NewName<'a>, Failure> {
    let chunk = chunks::take(context, lock_context, name.0.len() as u64)?;
    let at = chunk.offset(context.pool().layout())?;
    context.pool().map().write(at, name.0).map_err(Fault::from)?;
    Ok(NewName { name, chunk })
}

/// Where an object says how it is named.
pub(crate) fn cell_at(layout: &Layout, kind: Kind, index: u32) -> Result<Place<RawCell>, Fault> {
    match kind {
        Kind::Segment => Ok(field!(layout.shm.row(index)?, ShmSlot, name)),
        Kind::Queue => Ok(field!(layout.msg.row(index)?, MsgSlot, name)),
        Kind::Semaphore => Err(Fault::Misuse("a semaphore set has no name")),
    }
}

/// Whether an object is a POSIX one, by where it says how it is named.
pub(crate) fn is_posix(map: &Map, name_at: Place<RawCell>) -> Result<bool, Fault> {
    Ok(ObjectName::is_posix(load_word(map, name_at)?))
}

/// The name that a name cell's word stands for; none: it has none, or none any more.
pub(crate) fn read(map: &Map, layout: &Layout, word: u64) -> Result<Option<NameBytes>, Fault> {
    let ObjectName::Chunk { unit, bytes } = ObjectName::unpack(word) else { return Ok(None) };
    let at = Chunk(unit).offset(layout)?;
    let mut name = [0; NAME_BYTES];
    let into =
        name.get_mut(..bytes as usize).ok_or(Fault::corrupt(at, "a name longer than any"))?;
    map.read(at, into)?;
    Ok(NameBytes::try_from(&*into).ok())
}

/// Finds the live object of a name under the registry lock.
pub(crate) fn find(
    txn: &mut Txn<'_>,
    layout: &Layout,
    kind: Kind,
    name: Name<'_>,
) -> Result<Option<ObjectSlot>, Fault> {
    let map = txn.lock_context().map;
    table::find(
        layout,
        kind,
        name.key(),
        |at| txn.get_word(at),
        |index| has(map, layout, kind, index, name),
    )
}

/// Whether an object has this name.
fn has(map: &Map, layout: &Layout, kind: Kind, index: u32, name: Name<'_>) -> Result<bool, Fault> {
    let word = load_word(map, cell_at(layout, kind, index)?)?;
    Ok(read(map, layout, word)?.is_some_and(|found| found.as_slice() == name.0))
}

/// Finds the live object of a name, without the lock where that can be.
pub(crate) fn look_up(
    context: &Context,
    kind: Kind,
    name: Name<'_>,
) -> Result<Option<ObjectSlot>, Failure> {
    let (pool, map, layout) = (context.pool(), context.pool().map(), context.pool().layout());
    let found = read_if_free(map, pool.registry_lock(), || {
        let is_it = |index| has(map, layout, kind, index, name);
        table::find(layout, kind, name.key(), |at| load_word(map, at), is_it)
    });
    if let Ok(Some(found)) = found
        && context.is_current()
    {
        return Ok(found);
    }
    let slot_guard = context.slot_guard()?;
    let lock_context = context.lock_context_of(&slot_guard);
    change::run(context, &lock_context, pool.registry_lock(), "find-name", |txn| {
        find(txn, layout, kind, name)
    })
}

/// Names a new object, which has been described, and enters it into the index.
pub(crate) fn enter(
    context: &Context,
    txn: &mut Txn<'_>,
    kind: Kind,
    index: u32,
    new: NewName<'_>,
) -> Result<(), Fault> {
    let layout = context.pool().layout();
    let slot = kind.row(layout, index)?;
    let NewName { name, chunk } = new;
    let noted = ObjectName::Chunk { unit: chunk.0, bytes: name.0.len() as u32 };
    txn.set_word(cell_at(layout, kind, index)?, noted.pack())?;
    txn.set_word(field!(slot, ObjectHeader, key), name.key().word())?;
    heap::pass(txn, layout, chunk, context.client_id().word(), IN_OBJECT)?;
    table::enter_key(txn, layout, kind, index)
}

/// Takes an object's name out of the index and gives its chunk back. It is a POSIX object still.
pub(crate) fn leave(
    txn: &mut Txn<'_>,
    layout: &Layout,
    kind: Kind,
    index: u32,
) -> Result<(), Fault> {
    let slot = kind.row(layout, index)?;
    let name_at = cell_at(layout, kind, index)?;
    if let ObjectName::Chunk { unit, .. } = ObjectName::unpack(txn.get_word(name_at)?) {
        table::leave_key(txn, layout, kind, index)?;
        txn.set(field!(slot, ObjectHeader, key), 0)?;
        txn.set_word(name_at, ObjectName::Unlinked.pack())?;
        heap::free_from_object(txn, layout, Chunk(unit))?;
    }
    Ok(())
}
