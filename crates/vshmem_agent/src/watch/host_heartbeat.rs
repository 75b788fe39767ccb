//! Whether the host's memory is still behind a guest's device; on the host, the sign that it is.

use vshmem_ipc::{Client, DomainRow, Errno};

use super::host_monitor::{ForeignDomain, HostMonitor, Verdict};

/// What is known of the host.
#[derive(Debug)]
pub struct HostHeartbeat {
    /// Whether the pool is a file of this machine, rather than a device that the host gave it.
    is_local: bool,
    host_monitor: HostMonitor,
}

impl HostHeartbeat {
    /// Nothing yet.
    pub fn new(is_local: bool) -> Self {
        Self { is_local, host_monitor: HostMonitor::default() }
    }

    /// On the host, attends to the pool. In a guest, sees whether the host's memory is still behind
    /// the device; if it is a copy, evicts this domain in it, so that its programs get EIO instead
    /// of waiting for no process, and returns true.
    pub fn evict_if_copied(&mut self, this_client: &Client) -> Result<bool, Errno> {
        let pool = this_client.pool();
        if self.is_local {
            pool.renew_heartbeat().map_err(|_| Errno::IO)?;
            return Ok(false);
        }
        let heartbeat = pool.heartbeat().map_err(|_| Errno::IO)?;
        let foreign = foreign_domains(this_client)?;
        let name = pool.name();
        match self.host_monitor.judge(heartbeat, foreign) {
            Verdict::Well => return Ok(false),
            Verdict::HostSilent => {
                note_in_kernel_log(&format!(
                    "vshmem: pool {name}: the host's heartbeat has stopped. If this machine was \
                     migrated, or restored from a snapshot, it has a copy of the pool and must \
                     be rebooted. If not, run `vshmem pool serve {name}` on the host\n"
                ));
                return Ok(false);
            }
            Verdict::Alone => {}
        }
        note_in_kernel_log(&format!(
            "vshmem: pool {name}: the host and all other members stopped giving signs of life \
             at the same time: this machine was migrated, or restored from a snapshot, and has a \
             copy of the pool. Programs get EIO from it. Reboot this machine with the pool's own \
             memory behind its device\n"
        ));
        this_client.evict_domain(this_client.domain())?;
        Ok(true)
    }
}

/// The domains with an agent that are neither of this kernel nor of the host's: what the host's own
/// agents do falls silent with the host's beat, as one agent may be behind both.
fn foreign_domains(this_client: &Client) -> Result<Vec<ForeignDomain>, Errno> {
    let pool = this_client.pool();
    // The pool has no record of the host: then no process can be distinguished from it.
    let Some(host) = pool.host_boot().map_err(|_| Errno::IO)? else { return Ok(Vec::new()) };
    let rows = pool.domains()?;
    let own = rows.iter().find(|row| row.index == this_client.domain()).map(|row| row.boot);
    let is_foreign = |row: &&DomainRow| {
        let is_foreign = row.boot != host && Some(row.boot) != own;
        is_foreign && row.state.takes_part() && row.agent != 0
    };
    let domain =
        |row: &DomainRow| ForeignDomain { index: row.index, epoch: row.epoch, lease: row.lease };
    Ok(rows.iter().filter(is_foreign).map(domain).collect())
}

/// Where the administrator of a guest looks. Only root may; the refusals that follow say it as
/// well.
pub(super) fn note_in_kernel_log(line: &str) {
    let _ = std::fs::write("/dev/kmsg", line);
}
