//! What the program `churn` works on while it is killed at random, and what is true afterwards.

use crate::{Actor, Pool};

/// Values of the two semaphores: workers move tokens from one to the other.
const TOKENS: [i64; 2] = [5, 4];

/// A semaphore set, a queue and a segment that all workers share.
#[derive(Debug, Clone, Copy)]
pub struct Shared {
    /// Two semaphores.
    pub set: i64,
    /// A message queue.
    pub queue: i64,
    /// 64 KiB.
    pub segment: i64,
}

impl Shared {
    /// Makes them.
    ///
    /// # Panics
    /// When a call fails.
    pub fn make(keeper: &mut Actor) -> Self {
        let set = keeper.number("semget 0 2 0600");
        for (at, tokens) in TOKENS.iter().enumerate() {
            assert_eq!(keeper.ask(&format!("semctl {set} {at} setval {tokens}")), "0");
        }
        let queue = keeper.number("msgget 0 0600");
        Self { set, queue, segment: keeper.number("shmget 0 65536 0600") }
    }

    /// Their ids, as `churn` takes them.
    #[must_use]
    pub fn ids(self) -> [i64; 3] {
        [self.set, self.queue, self.segment]
    }

    /// No token is lost or made, and nobody is attached. Returns how many segments workers have
    /// left, and removes those: a worker killed between shmget and IPC_RMID leaves its segment, as
    /// it would with the kernel; one that was marked for removal is gone with its last user.
    ///
    /// # Panics
    /// When it is otherwise.
    pub fn assert_conserved(self, pool: &Pool, keeper: &mut Actor) -> usize {
        let Self { set, segment, .. } = self;
        let mut value = |at: usize| keeper.number(&format!("semctl {set} {at} getval"));
        assert_eq!(value(0) + value(1), TOKENS.iter().sum::<i64>(), "tokens were lost or made");
        assert!(keeper.ask(&format!("shmctl {segment} stat")).starts_with("nattch 0 "));
        let mut left = pool.rows("segments");
        left.retain(|row| row["id"] != segment);
        for row in &left {
            assert!(row["nattch"] == 0 && row["status"] == serde_json::json!([]), "{row}");
            assert_eq!(keeper.ask(&format!("shmctl {} rmid", row["id"])), "0");
        }
        left.len()
    }

    /// Removes them. The pool is found in order before and after.
    ///
    /// # Panics
    /// When it is not.
    pub fn remove(self, pool: &Pool, keeper: &mut Actor) {
        let Self { set, queue, segment } = self;
        pool.assert_clean();
        for order in [
            format!("semctl {set} 0 rmid"),
            format!("msgctl {queue} rmid"),
            format!("shmctl {segment} rmid"),
        ] {
            assert_eq!(keeper.ask(&order), "0");
        }
        pool.assert_clean();
    }
}
