//! Whether the host's memory is still behind a guest's device; on the host, the sign that it is.

use vshmem_ipc::{DomainRow, Errno, Member};
use vshmem_wire::DomainState;

use super::witness::{Peer, Verdict, Witness};

/// What is known of the host.
#[derive(Debug)]
pub struct Host {
    /// Whether the pool is a file of this machine, rather than lent to it.
    is_local: bool,
    witness: Witness,
}

impl Host {
    /// Nothing yet.
    pub fn new(is_local: bool) -> Self {
        Self { is_local, witness: Witness::default() }
    }

    /// On the host, attends to the pool. In a guest, sees whether the host's memory is still behind
    /// the device; if it is a copy, evicts this domain in it, so that its programs get EIO instead
    /// of waiting for nobody, and returns true.
    pub fn check(&mut self, member: &Member) -> Result<bool, Errno> {
        let pool = member.pool();
        if self.is_local {
            pool.attend().map_err(|_| Errno::IO)?;
            return Ok(false);
        }
        let beat = pool.beat().map_err(|_| Errno::IO)?;
        let peers = foreign_peers(member)?;
        let name = pool.name();
        match self.witness.judge(beat, peers) {
            Verdict::Well => return Ok(false),
            Verdict::HostSilent => {
                note_in_kernel_log(&format!(
                    "vshmem: pool {name}: nobody attends to it on the host any more. Should this machine have been moved, or restored \
                     from a snapshot, then it has a copy of the pool and must be booted anew. If not, run `vshmem pool serve {name}` \
                     on the host\n"
                ));
                return Ok(false);
            }
            Verdict::Alone => {}
        }
        note_in_kernel_log(&format!(
            "vshmem: pool {name}: the host and all other members have fallen silent together: this machine was moved, or restored \
             from a snapshot, and has a copy of the pool. Programs get EIO from it. Boot this machine anew with the pool's own \
             memory behind its device\n"
        ));
        member.evict_domain(member.domain())?;
        Ok(true)
    }
}

/// The domains with an agent that are neither of this kernel nor of the host's: what the host's own
/// agents do falls silent with the host's beat, as one agent may be behind both.
fn foreign_peers(member: &Member) -> Result<Vec<Peer>, Errno> {
    let pool = member.pool();
    // Who the host is was not written down: then nobody can be told from it.
    let Some(host) = pool.host_boot().map_err(|_| Errno::IO)? else { return Ok(Vec::new()) };
    let rows = pool.domains()?;
    let own = rows.iter().find(|row| row.index == member.domain()).map(|row| row.boot);
    let is_peer = |row: &&DomainRow| {
        let is_foreign = row.boot != host && Some(row.boot) != own;
        is_foreign && row.state == DomainState::Alive && row.agent != 0
    };
    let peer = |row: &DomainRow| Peer { index: row.index, epoch: row.epoch, lease: row.lease };
    Ok(rows.iter().filter(is_peer).map(peer).collect())
}

/// Where the administrator of a guest looks. Only root may; the refusals that follow say it as
/// well.
fn note_in_kernel_log(line: &str) {
    let _ = std::fs::write("/dev/kmsg", line);
}
