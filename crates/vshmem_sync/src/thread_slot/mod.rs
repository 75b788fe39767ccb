//! Thread slots, and the lists of what a client has claimed.
//!
//! Each call that takes a lock or sleeps does so from a thread slot of the pool, which holds its
//! intent record and its wait cell. A process claims slots as it needs them and keeps some for the
//! next call. What a client has claimed (thread slots and undo records) is on a list of the
//! client's own, by which it is found when the client dies.
//!
//! # States
//! ```text
//!   in the pool:     free (owner 0) --claim--> owned --put on the list--> listed --give up--> free
//!   in the process:  idle (0) --take--> in use (1) --drop--> idle
//!                                        |  ^
//!                             left by longjmp: being recovered (2)
//! ```
//! A client that dies between claiming and listing leaves a slot that carries its id and was never
//! used: recovery finds those by looking at all slots, and no thread waits for it.
//!
//! A client that is stopped may be reaped meanwhile, and another client may own what it had claimed
//! when it goes on. So a thread that changes a cell of a list reads the cell first, and then asks
//! whether the list or the entry still belongs to the client. A client id never comes back, and the
//! next owner of the slot writes the cell, which raises its tag.
//!
//! # Widths
//! * Owner cells hold the client id, 64 bits: it never comes back.
//! * The head of a list and its links hold the next record (25 bits) and the low 39 bits of how
//!   often the client's slot has been taken: they come back after 1.7 years of 10,000 processes a
//!   second in one slot. Tags of those cells: 64 bits.
//!
//! # Barriers
//! * IDLE: release store of an entry's `busy` (`SlotGuard::drop`). Pairs with acquire of the swap
//!   that takes it (`SlotCache::take`): the next call sees which slot the entry has.
//! * VALIDITY: release stores in `SlotCache::bind_to`: the offset 0, the tag, the offset. Pairs
//!   with acquire load of the offset in `SlotCache::check_current`: no thread compares the tag of
//!   one cell with another cell.
//! * EVICT: see `lock`.
//!
//! # Model
//! `tests/loom/thread_slot.rs`: a client, the thread that reaps it, and the next owner of what it
//! had claimed.

mod client_list;
mod slot_guard;

pub use client_list::{ClientList, ListEntry};
pub use slot_guard::{SlotCache, SlotGuard, SlotOwner, thread_list_entry};
