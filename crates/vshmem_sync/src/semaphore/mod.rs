//! Semaphore operations without the lock: one compare-and-swap, or with SEM_UNDO two. Arrays of them are in `array.rs`.
//!
//! An operation with SEM_UNDO changes two cells: the semaphore, and this client's adjustment. A
//! client may be killed between the two, and must then have done both or neither. So it first
//! *pledges*: it swaps the adjustment for one that names the operation it is about to do, by the tag that the
//! semaphore will have after it. Then it swaps the semaphore's word for one that shows the operation: the UNDO flag and
//! the undo record. The second swap is the commit. Whether a pledge counts is told by the semaphore alone:
//!
//! * it shows the operation: the pledge counts, and whoever replaces that word settles the pledge first;
//! * its tag is the one before: it is not decided yet. Its owner may go on at any time, so
//!   somebody who has to know replaces the word by an equal one, which raises the tag, and then it can not;
//! * anything else: it never will.
//!
//! The owner itself leaves the pledge of its last operation as it is, and settles it together with
//! its next pledge.
//!
//! # The order of reading
//! Each step here that writes an adjustment has read, in this order: the adjustment; the semaphore; and then whether the set and the
//! undo record still stand. Its compare-and-swap is against the adjustment that was read first.
//!
//! * *Adjustment before semaphore.* Every operation of the record's owner, whichever thread does it, writes the adjustment
//!   before the semaphore. So as long as the adjustment is what it was, the owner's last operation is the one it names, and what
//!   the semaphore says afterwards decides it. Read the other way round, a thread could pledge for a state of the semaphore that another
//!   thread of the same process has brought about since, and take that operation for its own.
//! * *Both before the question whether they stand.* Who gives a record or a set up first closes all its cells, which raises
//!   their tags, and only then does the memory become something else. So what was read before the question belonged to the
//!   record, and if it is given up after the question, then the tag has risen and the swap is refused. What lies there
//!   next starts above every tag that was there before (`Registry::tag_floor`).
//!
//!
//! An operation reads the tag of either cell and then the word, and no more. Should the two not belong together, then the cell has been written since the
//! tag was read, and whatever is concluded ends in a swap that is refused: that of the semaphore by its tag; that of the adjustment because
//! what has replaced the word that the pledge decides on has written the adjustment first.
//!
//! # How long a mark must be
//! A pledge names the tag by its low 30 bits. It would be taken for done by mistake if the semaphore showed another operation of the same
//! record, under a tag with the same low bits. But as long as a pledge stands, the owner has begun no other operation, because each
//! begins by writing the adjustment; and whoever pledged has decided the pledge before it. So the semaphore can only show the operation that the pledge is for, or the owner's last
//! one before it. If it showed that one when the pledge was made, then the pledge names the very next tag; if it did not, it never will
//! again. (One bit would do.) To be taken for undecided by mistake costs a restatement and no more.
//!
//! # Memory ordering
//! Cells are read with acquire and replaced with sequentially consistent swaps, so that a hand-over
//! carries what was written before it.

mod array;
mod operate;
mod read;
mod single;
mod tentative;
mod undo;

pub use array::SemaphoreArray;
pub use single::{Operated, Semaphore, UndoRecords};
