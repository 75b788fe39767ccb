//! A lock that any thread may take over, and changes under it that happen at once or not at all.
//!
//! The holder of a lock changes nothing directly. It collects its writes in an intent record,
//! commits with one compare-and-swap of the lock's word, and only then carries the record out, each
//! write a compare-and-swap against the exact cell that it read, tag and all.
//!
//! # States of the word
//! ```text
//!          take                commit               release
//!   FREE ---------> HELD ----------------> COMMITTED ---------> FREE
//!                    |  \                      |
//!                    |   `-- release: nothing to write, or abandoned --> FREE
//!                    |                         |
//!                    take over: HELD           carry out, then take over: HELD
//! ```
//! * HELD: nothing has happened yet. Any thread may take the lock over, and the former holder's
//!   commit is refused: it starts again.
//! * COMMITTED: everything has happened. Any thread may carry the record out, and it may be carried
//!   out several times: a write that is done already no longer finds the old cell.
//!
//! It makes no difference whether the holder has died, is stopped, or was interrupted by a signal
//! handler that wants the same lock: after a short timeout another thread takes over. No thread
//! asks whether the holder is alive. If it goes on later, each of its stores is refused.
//!
//! # Widths
//! * The word: state 2 bits, thread slot of the holder 30 bits. The cell's tag, 64 bits, is raised
//!   by each transition, so no state of a lock comes back.
//! * The record's head holds the low 47 bits of the tag that the lock has when it is committed.
//!   They come back after 32 days of changes at full rate (docs/internals/wire-format.md,
//!   Counters); even then each entry compares whole tags.
//! * An entry compares the 64 bits of the tag and the 64 of the word.
//!
//! # Barriers
//! * COMMIT: the swap to COMMITTED and the release of the record's head (`intent.rs`). Pairs with
//!   acquire of the lock's cell (`acquire.rs`) and of the head (`carry_out`): a thread that takes
//!   over sees the whole record.
//! * REWRITE: release fence between clearing the head and writing entries (`close_record`). Pairs
//!   with acquire fence between reading an entry and looking at the head again (`carry_out`): no
//!   thread carries out an entry of a newer record.
//! * HAND-OVER: the swap to FREE (`intent.rs`). Pairs with acquire of the lock's cell
//!   (`acquire.rs`): the next holder sees all that the change has written.
//! * READ: acquire of the lock's tag behind what is read without the lock (`read_if_free`). Pairs
//!   with COMMIT, by way of the swaps by which a change is carried out, which release: a reader
//!   that has seen one of them sees another tag.
//! * EVICT: sequentially consistent load of the process's validity cell after the lock was taken
//!   (`SlotCache::check_current`). Pairs with the evictor's swap of that word, and its look at the
//!   lock after it: either the holder sees that it is evicted, or the evictor sees the lock held,
//!   and takes it over.
//!
//! # Model
//! `tests/loom/lock.rs`: three actors on a lock; in one of them, memory that a change writes to is
//! freed and reused.

mod acquire;
mod change;
mod context;
mod decision;
mod intent;
mod word;

pub use change::{decide_with_lock, decide_with_lock_long, with_lock};
pub use context::LockContext;
pub use decision::Decision;
pub use intent::{Txn, read_entry};
pub use word::{LockHolder, holder_of, read_if_free};
