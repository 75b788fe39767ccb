//! Keeping free memory ready in pools that ask for it (`pool create --prepare`).
//!
//! A thread of its own at the lowest priority, so that no death is noticed late. It sleeps until
//! the agent has looked the pool over, about once a second, and then cleans what has become dirty.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use vshmem_session::Session;

/// The lowest priority there is (nice(2)).
const LOWEST: i32 = 19;
/// Bytes that are cleaned between two looks at most, in portions of a mebibyte.
const PORTIONS: u32 = 256;

/// Where the agent wakes the thread; it ends with this.
#[derive(Debug)]
pub struct CleanerHandle(SyncSender<()>);

impl CleanerHandle {
    /// Says that there may be something to clean.
    pub fn wake(&self) {
        // One that is still at it needs no second wake.
        let _ = self.0.try_send(());
    }
}

/// The two ends.
pub fn channel() -> (CleanerHandle, Receiver<()>) {
    let (sender, receiver) = sync_channel(1);
    (CleanerHandle(sender), receiver)
}

/// Cleans whenever it is woken, until no thread can wake it any more.
pub fn clean_until_closed(session: &Session, wakeups: &Receiver<()>) {
    // Without, it competes with the programs.
    let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), LOWEST);
    let wanted = session.client().pool().superblock().prepare;
    while wakeups.recv().is_ok() {
        for _ in 0..PORTIONS {
            // A pool that is invalid is found out by the round.
            if !matches!(session.client().clean_pages(wanted, session), Ok(1..)) {
                break;
            }
        }
    }
}
