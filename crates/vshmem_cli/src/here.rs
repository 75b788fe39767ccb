//! Which of a pool's domains is the one that this process runs in.

use vshmem_ipc::DomainRow;
use vshmem_link::domain_facts;
use vshmem_wire::DomainState;

/// Whether a domain is the one that this process runs in.
pub fn is_here(row: &DomainRow) -> bool {
    let Ok(facts) = domain_facts() else { return false };
    (row.state.takes_part() || row.state == DomainState::Left)
        && row.boot == facts.boot_words()
        && row.pid_namespace == facts.pid_namespace
}
