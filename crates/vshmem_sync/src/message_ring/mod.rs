//! A ring of message slots that is used without a lock: of eight slots, or another number.
//!
//! Messages are counted through: the one at *position* p lies in slot p mod 8. A slot is a cell
//! whose word says, with the *lap* p / 8, whether p is still free or full. Taking the message makes
//! the slot free for p + 8. (With N slots read N for 8.) So a word never comes back, and a
//! compare-and-swap from an old one fails.
//!
//! # States of a slot
//! ```text
//!   free for p --fill--> full with p --take--> free for p + 8
//!       | close the tail      | close
//!       v                     v
//!   CLOSED, free         CLOSED, full
//!       | pass or open        | empty, under the queue's lock (or pass: full with p again,
//!       |                     | a message of its own in a chunk now)
//!       v                     v
//!   free for p + 8       free for p + 8; the tail stays CLOSED until it is opened
//! ```
//! Filling and taking are one compare-and-swap each, by sender and receiver. Everything that leaves
//! CLOSED is a change under the queue's lock, which also raises the tag, as with any cell.
//!
//! # Short payloads
//! A message of up to 8 bytes whose type has up to 22 bits lies in the slot itself: type and size
//! in the word, where others have their chunk, and the payload in the other half of the cell. One
//! compare-and-swap of 16 bytes replaces both: no reader sees one without the other, and a sender
//! that is stopped leaves no payload half written. The payload stays in the cell after the message
//! has been taken, and means nothing then.
//!
//! Every other write of the word leaves the other half as it is, or is a change under the lock,
//! which raises that half by one, as a tag. So such a change must not leave a message in the cell:
//! the one that lets senders pass a full tail moves its message into a chunk. The change cannot
//! keep the payload instead: the same cell would come back, and a thread that carries this change
//! out late would open a tail that another has closed since.
//!
//! # Order
//! A sender fills the lowest position that has not been filled yet, the *tail*. A receiver takes
//! the lowest position whose message it accepts, be there others before it. Both read all words
//! first, one after the other. What they conclude about the *other* slots (positions before this
//! one have been filled, or taken) stays true for ever; what they conclude about this one the
//! compare-and-swap proves. Which is the commit: a message is sent when its slot is full and
//! received when the slot is free again, and nothing is left to be done by any thread.
//!
//! # Taking a message that is not the oldest
//! A receiver that takes position p has to know that no message before p is one that it accepts. It
//! looks at the positions below the tail that it has read, in order, and takes the first whose
//! message it accepts:
//! * Each position below that tail had been filled when the words were read, since the lowest that
//!   had not is the tail. So no message comes to lie before p any more.
//! * One whose word said that it was taken stays taken.
//! * One whose word said that it was full is either full still, and then the type that was read
//!   after the word is that of its message, as no thread writes into the chunk of a message in the
//!   ring; or it has been taken, and what was read does not matter.
//!
//! So when the compare-and-swap on p succeeds, there is no message before p that the receiver
//! accepts. That holds for whatever is decided by looking at one message at a time: any, one type,
//! any type but one. It does not hold for the lowest of several types: a lower one may come behind
//! p before the swap. Only of the lowest type of all, 1, the first is right whatever follows.
//!
//! For the same reasons there is none at all if it accepts none below the tail, and the tail's word
//! is the same *after* the types were read: nothing has been filled since. That one word is what a
//! waiter watches: whatever is sent, and every change that closes the ring, changes it first. (If
//! all slots are full, the tail's holds the oldest message.)
//!
//! # Two words instead of all
//! Usually two slots beside each other show where the tail is, or the oldest message: see
//! `neighbours.rs`. For that a free slot says whether its last message was the oldest when it was
//! taken (OLDEST), and a full one whether bytes have to be counted (LARGE).
//!
//! # Closing
//! A thread that has to work under the queue's lock closes the ring, the slot of the tail first. If
//! that slot is free, it becomes a barrier that no sender passes. If it is full, its message cannot
//! be taken any more, so it does not become free. From then on the tail stays where it is. Then the
//! thread closes all other full slots: a message in a closed slot cannot be taken. Now the ring
//! does not change any more (it is *frozen*). Only a change under the lock opens it again, at the
//! next position, so that the swap of a thread that looked before it was closed fails. A thread
//! that meets a closed slot concludes nothing and goes under the lock as well.
//!
//! A thread that has to keep senders out only for a moment closes the tail alone, and lets them
//! pass under the lock (*passed*). A receiver that goes to sleep does this.
//!
//! # Widths
//! * A slot's word: chunk, or type and size of a short payload, 26 bits; four marks; lap 34 bits.
//!   So positions are counted modulo 2^37. They come back after 114 minutes of 20 million messages
//!   a second: a sender or receiver that is stopped for so long in the middle of a call could fill
//!   or take the wrong position, if it stopped at the same slot and chunk.
//! * What a slot holds beside the word is a tag of 64 bits, or a short payload.
//!
//! # Barriers
//! * FILL: the swap that fills a slot, acquire-release. Pairs with the acquire of a receiver's look
//!   (`MessageRing::refresh`): it sees the payload.
//! * TAKE: the swap that frees a slot, acquire-release. Pairs with the acquire of the next sender's
//!   look: it does not overwrite a payload that is still being read.
//! * TAIL: acquire fence between reading the types of messages and reading the tail's word again
//!   (`RingSlot::has_moved`). Pairs with FILL and with the swap that closes the tail: a receiver
//!   that finds the same word has missed nothing.
//!
//! # Model
//! `tests/loom/message_ring.rs`: a sender, a receiver that sends again in the chunk that it has
//! taken, and receivers of other types; a thread that closes the ring, empties it and opens it
//! again. How long a sender waits (`send_backoff.rs`) is arithmetic on private words, with unit
//! tests beside it.

mod close;
mod neighbours;
mod ring;
mod send_backoff;
mod slot;
#[cfg(all(test, not(loom)))]
mod tests;

pub use neighbours::RingWords;
pub use ring::{MessageRing, Tail};
pub use send_backoff::{RingSpace, SendBackoff, leave_lines};
pub use slot::{Inline, RingSlot};
