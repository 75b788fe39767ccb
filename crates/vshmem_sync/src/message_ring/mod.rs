//! A ring of eight message slots that is worked without a lock.
//!
//! # The words
//! A slot is a cell, and what follows is about its word. Sending and receiving replace the word alone, by a compare-and-swap of 8 bytes:
//! the position in it tells one time from another. A change under the lock also raises the tag, as with any cell.
//!
//! Messages are counted through: the one at *position* p lies in slot p mod 8, and that slot's word
//! says, with the *lap* p / 8, whether p is still free or full. Taking the message makes the slot
//! free for p + 8. So a word never comes back, and a compare-and-swap from an old one fails.
//!
//! # Short texts
//! A message of up to 8 bytes whose type has up to 22 bits lies in the slot itself: type and size in the word, where others
//! have their chunk, and the text in the other half of the cell. Word and text are replaced together, by a compare-and-swap of 16
//! bytes: no reader sees one without the other, and a sender that is stopped leaves nothing half written, as it would in a
//! text of its own that is longer than that. The text stays there when the message has been taken, and means nothing then. Whatever else
//! replaces the word leaves the other half as it is, or raises it by one as a tag; as no word comes back, no cell does.
//!
//! # Order
//! A sender fills the lowest position that has not been filled yet, the *tail*. A receiver takes the lowest position whose
//! message it accepts, be there others before it. Both read all words first, one after the other. What they conclude about the
//! *other* slots (positions before this one have been filled, or taken) stays true for ever; what they conclude about this one the
//! compare-and-swap proves. Which is the commit: a message is sent when its slot is full and received when the slot is free
//! again, and nothing is left to be done by anybody.
//!
//! # Taking a message that is not the oldest
//! A receiver that takes position p has to know that no message before p is one that it accepts. It looks at the positions
//! below the tail that it has read, in order, and takes the first whose message it accepts:
//! * Each position below that tail had been filled when the words were read, since the lowest that had not is the tail. So no
//!   message comes to lie before p any more.
//! * One whose word said that it was taken stays taken.
//! * One whose word said that it was full is either full still, and then the type that was read after the word is that
//!   of its message, as nobody writes into the chunk of a message in the ring; or it has been taken, and what was read does not matter.
//!
//! So when the compare-and-swap on p succeeds, there is no message before p that the receiver accepts. That holds for whatever is
//! decided by looking at one message at a time: any, one type, any type but one. It does not hold for the lowest of several
//! types: a lower one may come behind p before the swap. Only of the lowest type of all, 1, the first is right whatever follows.
//!
//! For the same reasons there is none at all if it accepts none below the tail, and the tail's word is the same *after* the types
//! were read: nothing has been filled since. That one word is what a waiter watches: whatever is sent, and whoever
//! closes the ring, changes it first. (If all slots are full, the tail's holds the oldest message.)
//!
//! # Closing
//! Whoever wants to work under the queue's lock closes the ring: the slot of the tail first. If it is free, it becomes a
//! barrier that no sender passes; if it is full, its message cannot be taken any more, so it does not become free. The tail stays
//! where it is from then on. Then all other full slots: what is marked as closed cannot be taken. With that the ring stands still (is
//! *frozen*). Only a change under the lock opens it again, at the next position, so that whoever has been stopped since
//! before it was closed fails. Who meets a closed slot concludes nothing and goes under the lock as well.
//!
//! Whoever only has to keep senders out for a moment closes the tail alone, and lets them pass under the lock (*passed*):
//! a receiver that goes to sleep does so.
//!
//! # Memory ordering
//! Words are read with acquire and replaced with acquire-release. The release of filling pairs with
//! the acquire of a receiver's look: it sees the text. The release of taking pairs with that of the
//! next sender: it does not overwrite text that is still being read.

mod close;
mod ring;
mod send_backoff;
mod slot;
#[cfg(all(test, not(loom)))]
mod tests;

pub use ring::{MessageRing, Tail};
pub use send_backoff::{Room, RoomWait};
pub use slot::{Inline, Spot};
