//! Arguments of `crosvm run` (crosvm.dev/book/devices/pmem). Not tried with one.

use super::host_pool::HostPool;

/// The arguments.
pub fn arguments(pool: &HostPool) -> String {
    format!("--pmem {}\n", pool.path.display())
}
