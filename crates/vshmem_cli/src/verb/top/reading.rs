//! One reading of a pool: who takes part, what has been done so far, and who waits.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use vshmem_ipc::{Kind, ObjectActivity, ObjectDetails, Pool, ThreadActivity};

use crate::failure::{Failure, unreadable};
use crate::pool::Participants;
use crate::verb::ls::view::View;

/// How often sizes of messages are looked at between two readings.
const SAMPLES: u32 = 8;

/// What a pool says at one moment.
pub struct Reading {
    pub at: Instant,
    pub view: View,
    pub entries: Vec<ObjectDetails>,
    pub objects: Vec<ObjectActivity>,
    pub threads: Vec<ThreadActivity>,
    /// Messages that were seen, by the id of their queue, and their bytes.
    pub sizes: HashMap<i32, (u64, u64)>,
}

impl Reading {
    /// Reads the tables.
    pub fn of(pool: &Pool) -> Result<Self, Failure> {
        let name = pool.name();
        let mut entries = Vec::new();
        for kind in [Kind::Segment, Kind::Semaphore, Kind::Queue] {
            entries.extend(pool.entries(kind).map_err(unreadable(&name))?);
        }
        let mut reading = Self {
            at: Instant::now(),
            view: View { participants: Participants::of(pool)?, waiters: Vec::new() },
            entries,
            threads: pool.thread_activities().map_err(unreadable(&name))?,
            objects: pool.object_activities().map_err(unreadable(&name))?,
            sizes: HashMap::new(),
        };
        reading.see_sizes();
        Ok(reading)
    }

    /// Reads them once more: what is counted does not fall.
    pub fn after(before: &Self, pool: &Pool) -> Result<Self, Failure> {
        let mut reading = Self::of(pool)?;
        let earlier: HashMap<_, _> =
            before.objects.iter().map(|row| ((row.kind as u32, row.id), row)).collect();
        for row in &mut reading.objects {
            if let Some(earlier) = earlier.get(&(row.kind as u32, row.id)) {
                *row = row.not_below(earlier);
            }
        }
        Ok(reading)
    }

    fn see_sizes(&mut self) {
        for row in self.objects.iter().filter(|row| row.kind == Kind::Queue) {
            let seen = self.sizes.entry(row.id).or_default();
            seen.0 += u64::from(row.messages_seen);
            seen.1 += row.bytes_seen;
        }
    }

    /// Lets `span` pass by `pause`, and looks at the sizes of messages meanwhile: what a queue
    /// holds at two moments alone may not be what goes through it.
    pub fn see_sizes_for(
        &mut self,
        pool: &Pool,
        span: Duration,
        mut pause: impl FnMut(Duration),
    ) -> Result<(), Failure> {
        for _ in 0..SAMPLES {
            pause(span / SAMPLES);
            let looked = pool.object_activities().map_err(unreadable(&pool.name()))?;
            let first = std::mem::replace(&mut self.objects, looked);
            self.see_sizes();
            self.objects = first;
        }
        Ok(())
    }
}
