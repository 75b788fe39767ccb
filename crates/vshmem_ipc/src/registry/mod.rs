//! Objects: their ids, slots, keys and permissions.

pub(crate) mod lookup;
pub(crate) mod permission;
pub(crate) mod table;

pub(crate) use table::{
    MOST_TRIES, Standing, begin_task, describe, end_task, enter_key, find_key, free_slot,
    leave_key, per_kind, set_owner, slot_at, standing, take_slot,
};
