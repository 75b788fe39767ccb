//! A part of Firecracker's configuration file (its docs/pmem.md; from 1.14 on). Not tried with one.

use serde_json::json;

use super::host_pool::HostPool;

/// The member `pmem` of the configuration; the object in it is also the body of `PUT /pmem/ID`.
pub fn configuration(pool: &HostPool) -> String {
    let device = json!({
        "id": format!("vshmem-{}", pool.name),
        "path_on_host": pool.place,
        "root_device": false,
        "read_only": false,
    });
    format!("{:#}\n", json!({ "pmem": [device] }))
}
