//! When this process provides chunks in reserve for a queue.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

use vshmem_wire::RING_SLOTS;

/// Messages that this process sends in chunks, although they would fit into slots, before it
/// provides another reserve: that costs about as much as some calls under the lock, and a queue
/// that goes to its list again and again loses it each time. At first as many as leave a chunk at
/// each slot: so many the queue has by then in any case.
const MESSAGES_APART: u32 = 256;

const FIRST_MESSAGES: u32 = RING_SLOTS as u32;

/// When this process provides the next reserve.
#[derive(Debug)]
pub(crate) struct ReserveCounter {
    sent: AtomicU32,
}

impl Default for ReserveCounter {
    fn default() -> Self {
        Self { sent: AtomicU32::new(MESSAGES_APART - FIRST_MESSAGES) }
    }
}

impl ReserveCounter {
    /// Counts a message that was sent in a chunk for lack of a reserve; says whether it is time to
    /// provide one.
    pub(crate) fn is_due(&self) -> bool {
        // What other threads count at the same time may be lost.
        let sent = self.sent.load(Relaxed).wrapping_add(1);
        self.sent.store(sent, Relaxed);
        sent.is_multiple_of(MESSAGES_APART)
    }
}
