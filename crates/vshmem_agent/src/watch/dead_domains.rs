//! Domains that somebody has declared dead, and may not have reaped: a process that joins reaps the
//! domain that had its place, and may be killed meanwhile, as may any agent.

use std::collections::HashMap;

use vshmem_ipc::{Client, Errno};

/// How far this agent is with one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    /// It was seen. The process that has declared it dead has a round's time to reap it.
    Seen,
    /// Nothing is left of it.
    Reaped,
}

/// All of them, by slot and boot epoch.
#[derive(Debug, Default)]
pub struct DeadDomains(HashMap<(u32, u32), Progress>);

impl DeadDomains {
    /// Reaps what is left of those that were there a round ago.
    pub fn finish(&mut self, this_client: &Client) -> Result<(), Errno> {
        let dead = this_client.pool().dead_domains()?;
        self.0.retain(|domain, _| dead.contains(domain));
        for domain in dead {
            match self.0.get(&domain) {
                None => _ = self.0.insert(domain, Progress::Seen),
                Some(Progress::Seen) => {
                    this_client.reap_epoch(domain.0, domain.1)?;
                    self.0.insert(domain, Progress::Reaped);
                }
                Some(Progress::Reaped) => {}
            }
        }
        Ok(())
    }
}
