//! Copies of this machine, restored from one snapshot, on one pool.
//!
//! All of them have the boot id, the PID namespace and the processes of one domain, and each
//! believes that it is that domain. Its agent finds a lease that it has not written.

use vshmem_ipc::Client;

use super::host_heartbeat::note_in_kernel_log;

/// Evicts the domain that the copies share, unless another of them has. From now on programs that
/// start here join as a domain of this copy's own, where the agent has the right to say so: as root.
pub(super) fn part(this_client: &Client) {
    let name = this_client.pool().name();
    // Before the eviction: programs that are refused then try again at once.
    let then = match vshmem_link::go_apart() {
        Ok(()) => "Programs that start now join it anew".to_owned(),
        Err(error) => format!(
            "Its agent could not write /run/vshmem/apart ({error}), so that no program can join \
             it before this machine boots again: run the agent as root"
        ),
    };
    // That another copy was quicker is as good.
    let _ = this_client.evict_twins();
    note_in_kernel_log(&format!(
        "vshmem: pool {name}: a copy of this machine is a member as well: it was restored from a \
         snapshot more than once, or goes on beside it. Programs that run get EIO from the pool. \
         {then}\n"
    ));
}
