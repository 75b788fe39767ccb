//! Mappings, and checked access to bytes that others may change at any time.
//!
//! All `unsafe` that touches shared memory is here. Code above this crate works with offsets; an
//! offset outside the map, or one that is not aligned, is the error [`OutOfPool`] and never an
//! access. Values come back as copies: a caller that validates one and uses only the copy cannot be
//! fooled by a peer that writes in between.

#![allow(unsafe_code)] // the one crate below the preload library that may

#[cfg(not(loom))]
mod access_count;
mod atomic;
mod byte_lock;
mod child;
mod clock;
mod confined;
#[cfg(not(loom))]
pub mod death_word;
#[cfg(not(loom))]
mod foreign;
#[cfg(not(loom))]
mod fork_mark;
#[cfg(not(loom))]
mod futex;
#[cfg(loom)]
#[path = "futex_model.rs"]
mod futex;
mod interrupted;
mod interruptible_sleep;
#[cfg(not(loom))]
mod map;
#[cfg(loom)]
#[path = "map_model.rs"]
mod map;
mod mapping;
#[cfg(not(loom))]
mod nodes;
mod not_copied;
#[cfg(not(loom))]
mod own_descriptors;
#[cfg(not(loom))]
mod past_cache;
#[cfg(not(loom))]
mod prefetch;
#[cfg(not(loom))]
mod private_copy;
#[cfg(not(loom))]
mod racing;
mod scratch;
mod second;
pub mod signal_mask;
mod system_call;
mod thread_block;
pub mod tuning;
#[cfg(not(loom))]
mod wide;

#[cfg(all(feature = "crash-points", not(loom)))]
pub use access_count::accesses;
pub use atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence, spin_hint, unmodelled};
pub use byte_lock::{
    ByteLock, conflict_with, is_byte_locked, try_lock_byte, try_lock_bytes, unlock_byte,
    unlock_bytes,
};
pub use child::begin_child;
pub use clock::{
    Clock, Deadline, Instant, StallProofTimeout, seconds_now, shortest_sleep, sleep_shortly,
    thread_cpu_time, ticks,
};
pub use confined::{Confined, confine, is_confined, unless_confined};
#[cfg(not(loom))]
pub use foreign::ForeignWords;
#[cfg(not(loom))]
pub use fork_mark::{ForkMark, wiped_on_fork};
pub use futex::{FutexOutcome, can_sleep_on, futex_wait, futex_wait_two, futex_wake};
pub use interrupted::{WaiterRecord, hide_waiter, is_waiter_shown, show_waiter, take_waiter};
#[cfg(feature = "crash-points")]
pub use interruptible_sleep::stop_here;
pub use interruptible_sleep::{
    Interruptions, SLEEPING, SecondWord, WAKE, cancellable, cancellation_requested,
    outside_of_cancellable, signal_handled, signals_before_wait, signals_handled, sleep,
};
pub use map::{CellRef, Map, OutOfPool, WordsRef};
pub use mapping::{
    Mapping, Protection, map_file, map_file_at, map_file_free, map_file_near, protect, relocate,
    remap_part, reserve, unmap,
};
#[cfg(not(loom))]
pub use nodes::{PageNodes, PagesByNode, current_node, on_nodes, pages_by_node, place_pages};
pub use not_copied::not_copied;
#[cfg(not(loom))]
pub use own_descriptors::with_own_descriptors;
#[cfg(not(loom))]
pub use past_cache::copy_past_cache;
#[cfg(not(loom))]
pub use private_copy::{Becomes, MappedFileId, cover, make_private};
pub use scratch::{Scratch, ZeroIsValid};
pub use second::RememberedSecond;
pub use system_call::system_call;
#[cfg(not(loom))]
pub use wide::has_wide_swap;
