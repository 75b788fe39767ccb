//! What a build or an installation leaves for the guests.

use std::path::PathBuf;

use crate::verb::mpi_env;

/// The driver where a build or an installation leaves it.
pub fn built_driver() -> Option<PathBuf> {
    let me = std::env::current_exe().ok()?.canonicalize().ok()?;
    let beside = me.parent()?;
    let places = [
        "../../build/ivshmem/module/vshmem.ko",
        "../../kernel/ivshmem/build/module/vshmem.ko",
        "../lib/vshmem/vshmem.ko",
    ];
    places.iter().find_map(|place| beside.join(place).canonicalize().ok())
}

/// The components of Open MPI, if they are built: guests find them beside `vshmem`.
pub fn mpi_components() -> Vec<PathBuf> {
    let kinds = ["btl", "mpool", "coll", "osc", "rtc"];
    let directory = mpi_env::components(None).ok();
    let files = directory
        .iter()
        .flat_map(|place| kinds.map(|kind| place.join(format!("mca_{kind}_vshmem.so"))));
    files.filter(|file| file.is_file()).collect()
}
