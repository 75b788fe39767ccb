//! What has happened between two readings.

use std::collections::HashMap;

use vshmem_ipc::{Kind, ObjectActivity, ThreadActivity};

use super::reading::Reading;

/// What has happened between two readings.
pub struct Rates<'a> {
    seconds: f64,
    before: HashMap<(u32, i32), &'a ObjectActivity>,
    threads_before: HashMap<u32, &'a ThreadActivity>,
    sizes: [&'a HashMap<i32, (u64, u64)>; 2],
}

impl<'a> Rates<'a> {
    /// Between these two.
    pub fn between(before: &'a Reading, now: &'a Reading) -> Self {
        let seconds = now.at.duration_since(before.at).as_secs_f64();
        Self {
            seconds: seconds.max(1e-6),
            before: before.objects.iter().map(|row| ((row.kind as u32, row.id), row)).collect(),
            threads_before: before.threads.iter().map(|row| (row.slot, row)).collect(),
            sizes: [&before.sizes, &now.sizes],
        }
    }

    /// Seconds between them.
    pub fn seconds(&self) -> f64 {
        self.seconds
    }

    /// What has been done with an object. One that was made since has been used since.
    pub fn done(&self, now: &ObjectActivity) -> u64 {
        match self.before.get(&(now.kind as u32, now.id)) {
            Some(before) => now.since(before),
            None if now.kind == Kind::Segment => 0,
            None => now.count,
        }
    }

    /// Mean bytes of a queue's messages, as far as they could be seen.
    pub fn mean_bytes(&self, queue: i32) -> Option<f64> {
        let seen = self.sizes.iter().filter_map(|sizes| sizes.get(&queue));
        let (messages, bytes) = seen.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        (messages > 0).then(|| bytes as f64 / messages as f64)
    }

    /// Waits that were begun in a thread slot, and those that another thread has ended.
    pub fn waits(&self, now: &ThreadActivity) -> (u32, u32) {
        match self.threads_before.get(&now.slot) {
            Some(before) => {
                (now.waits.wrapping_sub(before.waits), now.wakeups.wrapping_sub(before.wakeups))
            }
            None => (now.waits, now.wakeups),
        }
    }

    /// So many, per second.
    pub fn per_second(&self, number: f64) -> f64 {
        // Three digits behind the point are enough for a file of them.
        (number / self.seconds * 1000.0).round() / 1000.0
    }
}
