//! What cannot be booted says why, and leaves nothing behind.

use vshmem_lab::{Error, GuestFault, Lab, UpOptions};

use crate::rig::{assert_nothing_left, name};

fn refused(options: UpOptions, word: &str) {
    let tried = Lab::up(&options);
    let Err(error @ Error::Argument { .. }) = tried else { panic!("{tried:?}") };
    assert!(error.to_string().contains(word), "{error}");
    assert_nothing_left("refused");
}

pub fn options() {
    let pool = std::path::PathBuf::from(format!("/dev/shm/{}", name("refused")));
    std::fs::File::create(&pool).unwrap().set_len(1 << 20).unwrap();
    let base = || crate::rig::options("refused");
    refused(UpOptions { pool: Some(pool.clone()), ..base() }, "dom0");
    std::fs::remove_file(&pool).unwrap();
    refused(UpOptions { cpus: 9, ..base() }, "1 to 8");
    refused(UpOptions { memory_mib: 64, ..base() }, "at least");
}

/// What is staged is in the memory of each domain, and here there is too much of it.
pub fn boot() {
    let large = tempfile::NamedTempFile::new().unwrap();
    large.as_file().set_len(160 << 20).unwrap();
    let staged = vec![large.path().to_owned()];
    let failed = Lab::up(&UpOptions { stage: staged, count: 1, ..crate::rig::options("small") });
    let Err(Error::Guest(GuestFault::BootFailed { guest: 1, console, .. })) = &failed else {
        panic!("{failed:?}")
    };
    assert!(!console.is_empty());
    assert_nothing_left("small");
}
