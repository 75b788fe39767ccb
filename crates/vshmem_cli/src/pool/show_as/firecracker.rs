//! A part of Firecracker's configuration file (its docs/pmem.md, and `Pmem` in firecracker.yaml;
//! from 1.14 on). Not tried with one.

use serde_json::json;

use super::host_pool::HostPool;

/// The member `pmem` of the configuration; the object in it is also the body of `PUT /pmem/ID`.
pub fn configuration(pool: &HostPool) -> String {
    let device = json!({
        "id": id(&pool.name),
        "path_on_host": pool.path,
        "root_device": false,
        "read_only": false,
    });
    format!("{:#}\n", json!({ "pmem": [device] }))
}

/// The API takes letters, digits and underscores (`checked_id` of its parsed_request.rs).
fn id(pool: &str) -> String {
    let word = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '_' };
    format!("vshmem_{}", pool.chars().map(word).collect::<String>())
}
