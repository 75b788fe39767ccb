//! `vshmem pool evict`.

use std::process::ExitCode;

use clap::Args;
use vshmem_ipc::{DomainRow, Pool};
use vshmem_session::{find, open_pool};
use vshmem_wire::DomainState;

use crate::failure::{Failure, Outcome, failed, unreadable};
use crate::here::is_here;
use crate::show;
use crate::visit::Visit;

/// Declare a domain evicted, or dead.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Evict {
    /// The pool's name.
    name: String,
    /// The domain: its name, or its number as `vshmem ls` shows it.
    domain: String,
    /// It is certain that it is dead: give back all that it holds. Without, what it has attached
    /// stays as it is, because a domain that is only paused may wake up and write there.
    #[arg(long)]
    dead: bool,
    /// Nothing to do if there is no such domain or pool; for death notices.
    #[arg(long, hide = true)]
    if_there: bool,
}

const EXAMPLES: &str = "\
Examples:
  vshmem pool evict job7 guest2           its waiters and SEM_UNDO are released; its attaches are quarantined
  vshmem pool evict job7 guest2 --dead    its virtual machine has ended: everything is released";

impl Evict {
    /// Evicts it.
    pub fn carry_out(self) -> Outcome {
        let link = match find(&self.name) {
            Err(vshmem_session::FindError::Unknown { .. }) if self.if_there => {
                return Ok(ExitCode::SUCCESS);
            }
            other => other?,
        };
        let pool = open_pool(link.as_ref())?;
        let row = match choose(&pool, &self.name, &self.domain)? {
            Some(row) => row,
            None if self.if_there => return Ok(ExitCode::SUCCESS),
            None => return no_such_domain(&self.name, &self.domain),
        };
        let shown = show::sanitized(&row.name);
        if is_here(&row) {
            return failed(format!(
                "pool {}: {shown} is the domain that this command runs in, and cannot evict itself. Run it on the host, or end the programs here instead: `vshmem ls --pool {0}` shows them",
                self.name
            ));
        }
        let is_over = match row.state {
            DomainState::Dead => row.clients == 0,
            DomainState::Evicted => !self.dead,
            _ => false,
        };
        if is_over {
            show::line(format!(
                "pool {}: {shown} is {} already",
                self.name,
                if self.dead { "dead" } else { "evicted or dead" }
            ))?;
            return Ok(ExitCode::SUCCESS);
        }
        let dead = self.dead || row.state == DomainState::Dead;
        let evicted = Visit::join(link)?.with(|this_client| {
            if dead {
                this_client.reap_epoch(row.index, row.epoch)
            } else {
                this_client.evict_epoch(row.index, row.epoch)
            }
        });
        evicted.unwrap_or(Ok(())).map_err(unreadable(&self.name))?;
        let clients = row.clients;
        show::line(if dead {
            format!("pool {}: {shown} is dead; its {clients} clients are reaped", self.name)
        } else {
            format!(
                "pool {}: {shown} is evicted; what its {clients} clients have attached is quarantined until `vshmem pool evict {0} {shown} --dead`",
                self.name
            )
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

/// A domain was named that the pool does not have.
pub(super) fn no_such_domain<T>(name: &str, domain: &str) -> Result<T, Failure> {
    failed(format!(
        "pool {name}: it has no domain {domain:?}. `vshmem ls --pool {name}` shows those it has"
    ))
}

/// The domain that is meant: by name the one that is alive, else the one that still holds
/// something.
pub(super) fn choose(pool: &Pool, name: &str, domain: &str) -> Result<Option<DomainRow>, Failure> {
    let domains = pool.domains().map_err(unreadable(name))?;
    let named: Vec<&DomainRow> = domains.iter().filter(|row| row.name == domain).collect();
    let ranks: [fn(&DomainRow) -> bool; 3] = [
        |row| row.state.takes_part(),
        |row| row.state == DomainState::Evicted || row.clients > 0,
        |_| true,
    ];
    for rank in ranks {
        let fitting: Vec<&&DomainRow> = named.iter().filter(|row| rank(row)).collect();
        if fitting.len() > 1 {
            let numbers: Vec<String> = fitting.iter().map(|row| row.index.to_string()).collect();
            return failed(format!(
                "pool {}: several domains are called {:?}. Name one by its number: {}",
                name,
                domain,
                numbers.join(", ")
            ));
        }
        if let Some(row) = fitting.first() {
            return Ok(Some((**row).clone()));
        }
    }
    // Of several that are called alike `vshmem ls` shows the number behind the name.
    let number = domain.rsplit('#').next().and_then(|number| number.parse().ok());
    Ok(domains.iter().find(|row| Some(row.index) == number && means(domain, row)).cloned())
}

/// Whether the words name this domain, which has their number.
fn means(domain: &str, row: &DomainRow) -> bool {
    domain.rsplit_once('#').is_none_or(|(name, _)| name.is_empty() || name == row.name)
}
