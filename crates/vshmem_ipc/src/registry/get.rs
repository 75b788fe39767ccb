//! The get calls, once for the three kinds, as `ipcget` of Linux (ipc/util.c): an object is found
//! by its key, or made.

use rustix::io::Errno;
use vshmem_sync::Fault;
use vshmem_wire::{ObjectHeader, Place};

use crate::context::Context;
use crate::error::Failure;
use crate::pool::id::{Kind, ObjectSlot};
use crate::registry::lookup::find_existing;
use crate::registry::permission::{Caller, Permission, mode_of};
use crate::registry::table::MOST_TRIES;

/// IPC_CREAT.
const CREATE: i32 = 0o1000;
/// IPC_EXCL.
const EXCLUSIVE: i32 = 0o2000;

/// What all get calls ask for.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub key: i32,
    /// IPC_CREAT, IPC_EXCL, and a mode.
    pub flags: i32,
    pub caller: &'a dyn Caller,
}

impl Asked<'_> {
    /// Whether the caller may use the object in a slot as it asks to.
    #[inline(always)]
    pub fn check_mode(&self, context: &Context, slot: Place<ObjectHeader>) -> Result<(), Failure> {
        let wanted = mode_of(self.flags);
        Ok(Permission::check_mode(context.pool().map(), slot, self.caller, wanted)??)
    }

    /// Owner and mode of the object, if it is made.
    pub fn permission(&self) -> Permission {
        Permission::of_new(self.key, self.flags, self.caller)
    }
}

/// What the get call of a kind asks for beside: what Linux has `ipc_ops` for.
pub(crate) trait Request {
    const KIND: Kind;
    /// What is wrong with a pool where the key is in use and leads to no object, try after try.
    const LOST: &'static str;

    /// What is known of an object that there is.
    type Found;

    /// The object of the key; EINVAL when it has gone since.
    fn find(context: &Context, object_slot: ObjectSlot) -> Result<Self::Found, Failure>;

    /// Whether it is what is asked for: why not.
    fn check(
        &self,
        context: &Context,
        asked: Asked<'_>,
        object_slot: ObjectSlot,
        found: Self::Found,
    ) -> Result<(), Failure>;

    /// Makes an object. `None`: another thread has made one of that key meanwhile.
    fn make(&self, context: &Context, asked: Asked<'_>) -> Result<Option<ObjectSlot>, Failure>;
}

/// The id of the object that is asked for.
///
/// In place of each call, as `find_existing`.
#[inline(always)]
pub(crate) fn get<R: Request>(
    context: &Context,
    asked: Asked<'_>,
    request: &R,
) -> Result<i32, Failure> {
    let Asked { key, flags, .. } = asked;
    for _ in 0..MOST_TRIES {
        let found = if key == 0 { None } else { find_existing(context, R::KIND, key)? };
        if let Some(object_slot) = found {
            if flags & CREATE != 0 && flags & EXCLUSIVE != 0 {
                return Err(Errno::EXIST.into());
            }
            let found = match R::find(context, object_slot) {
                Err(Failure::Errno(Errno::INVAL)) => continue,
                found => found?,
            };
            request.check(context, asked, object_slot, found)?;
            return Ok(object_slot.id());
        }
        if key != 0 && flags & CREATE == 0 {
            return Err(Errno::NOENT.into());
        }
        if let Some(object_slot) = request.make(context, asked)? {
            return Ok(object_slot.id());
        }
    }
    let keys = context.pool().layout().keys[R::KIND as usize];
    Err(Fault::corrupt(keys.first(), R::LOST).into())
}
