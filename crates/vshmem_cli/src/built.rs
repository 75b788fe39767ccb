//! What a build or an installation leaves for guests.

use std::path::PathBuf;

use crate::launch::beside;
use crate::verb::{fabric_env, mpi_env};

/// The driver where a build or an installation leaves it.
pub fn driver() -> Option<PathBuf> {
    beside(&[
        "../../build/ivshmem/module/vshmem.ko",
        "../../kernel/ivshmem/build/module/vshmem.ko",
        "../lib/vshmem/vshmem.ko",
    ])
}

/// The components of Open MPI and the provider for libfabric, those that are built: guests find
/// them beside `vshmem`.
pub fn launch_components() -> Vec<PathBuf> {
    let kinds = ["mca_btl", "mca_mpool", "mca_coll", "mca_osc", "mca_rtc", "prte_mca_rtc"];
    let mut files: Vec<PathBuf> = Vec::new();
    if let Ok(path) = mpi_env::components(None) {
        files.extend(kinds.map(|kind| path.join(format!("{kind}_vshmem.so"))));
    }
    files.extend(fabric_env::provider(None).map(|path| path.join(fabric_env::PROVIDER)));
    files.retain(|file| file.is_file());
    files
}
