//! Message queues: msgget(2), msgsnd(2), msgrcv(2), msgctl(2).
//!
//! # User-visible behaviour
//! As in the kernel's `ipc/msg.c`: a message goes to the first sleeping receiver that accepts it,
//! or to the end of the queue; a receiver takes the first message that it accepts; room that
//! becomes free sends sleeping senders to try again, in order. Their messages are not sent for
//! them: one of them may be dead and not reaped yet, and the message of a dead process must not
//! come after those of its successor.
//!
//! # Locking
//! A queue has one lock over its list and its waiters. The payload of a message is copied outside
//! it, into and out of a chunk that belongs to the sender before and to the receiver after.
//!
//! # The ways of a message
//! A message goes the shortest way that is open. Each is there once, for System V and POSIX and for
//! both rings of a queue:
//! * *The short way* (`send_short` in `fast_send.rs`, `take` in `fast_receive.rs`): two slots of
//!   the ring beside each other show its end, and nothing stands in the way.
//! * *The ring* (`look_and_send`, `take_first` there): all its words have to be looked at. Others
//!   were faster, it is full, a chunk is missing, bytes have to be counted, or the message is
//!   behind others.
//! * *Past the ring* (`wait_with_ring.rs`): a receiver sleeps that may wait for the message.
//! * *The list* (`put_in_list` in `send.rs`, `take_from_list` in `receive.rs`): everything else,
//!   under the lock.
//!
//! # The ways in
//! * `msgsnd_at_once`, `msgrcv_at_once`, `mq_send_at_once`, `mq_receive_at_once`: what libc's
//!   symbols begin with. One attempt at the short way, compiled into them; when it fails, nothing
//!   has happened.
//! * `msgsnd` in `send.rs`, `msgrcv` in `receive.rs`, `send` and `receive` in `posix/transfer.rs`:
//!   what follows then, and what callers of a library begin with. They check the call and find the
//!   queue.
//! * `send_to`, `receive_from`: what all callers come to. They try all the ways in turn, and wait.
//! * `send_in_ring`, `receive_from_ring`: the first part of that, a loop over the short way; where
//!   that fails it looks at the whole ring. A receiver spins in it.
//!
//! # The ring
//! As long as messages are short and few they go through a ring of eight slots, a compare-and-swap
//! each: receivers take the first that they accept, whatever is before it
//! (`vshmem_sync::MessageRing`). A queue that has held more at once has a ring of 64 slots as well,
//! and uses that one (`mode.rs`, `long_ring.rs`). Whatever else there is to do closes the ring, and
//! its messages move to the end of the empty list (`ring.rs`). In mode *ring* the list is empty, no
//! sender sleeps, and receivers may sleep that accept none of the messages in it
//! (`wait_with_ring.rs`); in mode *list* both rings are empty and closed. A receiver that takes the
//! last message of the list opens one again.

pub(crate) mod count;
pub(crate) mod create;
pub(crate) mod fast_receive;
pub(crate) mod fast_send;
pub(crate) mod glimpse;
pub(crate) mod list;
pub(crate) mod long_ring;
pub(crate) mod message;
pub(crate) mod mode;
pub(crate) mod posix;
pub(crate) mod queue;
pub(crate) mod reap;
pub(crate) mod receive;
pub(crate) mod recover;
pub(crate) mod remove;
pub(crate) mod reserve;
pub(crate) mod ring;
pub(crate) mod ring_chunk;
pub(crate) mod ring_room;
pub(crate) mod send;
pub(crate) mod serve;
pub(crate) mod status;
pub(crate) mod stock;
pub(crate) mod wait_with_ring;
pub(crate) mod waiters;
