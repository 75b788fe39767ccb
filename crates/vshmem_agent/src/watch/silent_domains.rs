//! Leases of the other domains, in a pool that evicts a domain which is silent for too long. Judged
//! by this domain's own clock: those of two machines need not agree.

use std::collections::HashMap;
use std::time::Duration;

use vshmem_ipc::{Client, Errno};
use vshmem_mem::{Instant, StallProofTimeout};

use super::period::ROUND;

/// What was last seen of another domain's lease.
#[derive(Debug)]
struct Lease {
    epoch: u32,
    value: u32,
    /// With a value that stays as it is. Rounds are counted: while this agent is stopped it hears
    /// no other.
    timeout: StallProofTimeout,
}

impl Lease {
    fn new(epoch: u32, value: u32, evict_after: Duration, now: Instant) -> Self {
        Self { epoch, value, timeout: StallProofTimeout::new(now, evict_after, ROUND) }
    }

    /// Takes note of what a round finds, and says whether the domain has been silent for too long.
    fn is_silent(&mut self, epoch: u32, value: u32, evict_after: Duration, now: Instant) -> bool {
        if (self.epoch, self.value) != (epoch, value) {
            *self = Self::new(epoch, value, evict_after, now);
            return false;
        }
        self.timeout.is_over(now)
    }
}

/// All of them, by the domain's index.
#[derive(Debug, Default)]
pub struct SilentDomains(HashMap<u32, Lease>);

impl SilentDomains {
    /// Evicts domains that have been silent for too long, in a pool that asks for it.
    pub fn evict_silent(&mut self, this_client: &Client) -> Result<(), Errno> {
        let evict_after = Duration::from_secs(this_client.pool().superblock().evict_after);
        if evict_after.is_zero() {
            return Ok(());
        }
        let mut silent = Vec::new();
        for row in this_client.pool().domains()? {
            let watched =
                row.state.takes_part() && row.clients > 0 && row.index != this_client.domain();
            if !watched {
                self.0.remove(&row.index);
                continue;
            }
            let now = Instant::now();
            let fresh = || Lease::new(row.epoch, row.lease, evict_after, now);
            let lease = self.0.entry(row.index).or_insert_with(fresh);
            if lease.is_silent(row.epoch, row.lease, evict_after, now) {
                silent.push((row.index, row.epoch));
            }
        }
        for (index, epoch) in silent {
            self.0.remove(&index);
            this_client.evict_epoch(index, epoch)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All machines go on together, and this agent looks before the others have renewed their
    /// leases.
    #[test]
    fn a_stop_of_the_agent_evicts_no_domain() {
        let after = 30 * ROUND;
        let mut now = Instant::now();
        let mut lease = Lease::new(1, 7, after, now);
        now = now.after(100 * after);
        assert!(!lease.is_silent(1, 7, after, now), "the stop counts as a round");
        let rounds = (2..).find(|_| {
            now = now.after(ROUND);
            lease.is_silent(1, 7, after, now)
        });
        assert_eq!(rounds.map(|rounds| rounds * ROUND), Some(after));
        assert!(!lease.is_silent(1, 8, after, now), "renewed");
    }
}
