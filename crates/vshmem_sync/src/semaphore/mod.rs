//! Semaphores without the lock: a single operation is one compare-and-swap, with SEM_UNDO two;
//! arrays of operations are in `array.rs`.
//!
//! An operation with SEM_UNDO changes two cells: the semaphore, and this client's adjustment. A
//! client may be killed between the two, and must then have done both or neither. So it first
//! *prepares* the undo: it swaps the adjustment for one that names the operation that it is about
//! to do, by the tag that the semaphore will have after it. Then it swaps the semaphore's word for
//! one that shows the operation: the UNDO flag and the undo record. The second swap is the commit.
//!
//! # States of an adjustment
//! Whether a prepared undo counts is decided by the semaphore alone:
//! ```text
//!             prepare                 the semaphore shows the operation
//!   total ------------> prepared ----------------------------------------> total + undo
//!                         |  `------- the semaphore has another tag -----> total
//!                         |
//!                         `-- the semaphore has the tag before: undecided
//! ```
//! While it is undecided, the owner may do the operation at any time. A thread that has to know
//! replaces the semaphore's word by an equal one: its tag rises, and the owner's swap is refused.
//!
//! A thread that replaces a word that shows an operation first writes that operation's undo into
//! the adjustment. The owner itself leaves the prepared undo of its last operation as it is, and
//! adds it to the total together with its next one. An adjustment that is *closed* is changed only
//! under the set's lock, and holds no prepared undo.
//!
//! # States of a semaphore
//! ```text
//!   plain --operation--> plain
//!   plain --operation with SEM_UNDO--> shows an undo record
//!   plain --array of operations--> tentative (array.rs)
//!   any of these --operation--> plain, or shows an undo record
//!   any of these --close--> SLOW --change under the lock--> plain
//! ```
//!
//! # The order of reading
//! Each step here that writes an adjustment has read, in this order: the adjustment; the semaphore;
//! and then whether the set and the undo record still stand. Its compare-and-swap is against the
//! adjustment that was read first.
//!
//! * *Adjustment before semaphore.* Every operation of the record's owner, whichever thread does
//!   it, writes the adjustment before the semaphore. So as long as the adjustment is what it was,
//!   the owner's last operation is the one it names, and what the semaphore says afterwards decides
//!   it. Read the other way round, a thread could prepare for a state of the semaphore that another
//!   thread of the same process has brought about since, and take that operation for its own.
//! * *Both before the question whether they stand.* A thread that gives a record or a set up first
//!   closes all its cells, which raises their tags; only then does the memory become something
//!   else. So what was read before the question belonged to the record, and if it is given up after
//!   the question, then the tag has risen and the swap is refused. What lies there next starts
//!   above every tag that was there before (`Registry::tag_floor`).
//!
//! An operation reads the tag of each cell and then its word, once. If the two do not belong
//! together, then the cell has been written since the tag was read, and the operation ends in a
//! swap that is refused. The swap of the semaphore is refused because of its tag. The swap of the
//! adjustment is refused because the semaphore's word, which decides the prepared undo, was
//! replaced, and the thread that did so has written the adjustment before.
//!
//! # Widths
//! * A semaphore's word: value 15 bits, last operator or undo record 29, value before an array 15,
//!   mark of an array 2. Its tag, 64 bits, does not come back.
//! * An adjustment: total and prepared undo 16 bits each, with signs; mark 30 bits: the low bits of
//!   the tag that the semaphore has after the operation. They come back after 21 s at full rate.
//!   One bit would do. While an undo is prepared, its owner has begun no later operation, because
//!   each begins by writing the adjustment; and the one before is decided, by the thread that
//!   prepared this one. So the semaphore can only show this operation, or the owner's last one
//!   before it. If it showed that one when the undo was prepared, then the mark is of the very next
//!   tag; if it did not, it never will again. An undo that is taken for undecided by mistake costs
//!   one swap and does no other harm.
//! * Marks of arrays: see `array.rs`.
//!
//! # Barriers
//! * TAG: acquire load of the tag, then the word (`load_to_replace`). Pairs with sequentially
//!   consistent swaps of the cell: a word goes with a tag no newer than itself.
//! * READ ORDER: acquire loads: adjustment, semaphore, validity (`single.rs`, `close.rs`). Pairs
//!   with swaps in the order prepare, commit; and in the order close all cells, then give up: as
//!   said above.
//! * HAND-OVER: sequentially consistent swap of the semaphore. Pairs with acquire load of it: a
//!   thread that lowers what another has raised sees what was written before.
//!
//! # Models
//! `tests/loom/semaphore.rs`: two threads of a client and another client; a set that is taken apart
//! and whose memory becomes a message or another set. `tests/loom/semaphore_array.rs`: arrays,
//! single operations and a thread that closes or removes the set.

mod array;
mod close;
mod single;
mod tentative;

pub use array::SemaphoreArray;
pub use single::{Operated, Semaphore, UndoRecords};
