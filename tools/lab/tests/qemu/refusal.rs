//! What cannot be booted says why, and leaves nothing behind.

use std::fs::File;
use std::io::Write;

use vshmem_lab::{Device, Error, GuestFault, Lab, UpOptions};

use crate::rig::{assert_nothing_left, name, options};

pub fn odd_size() {
    let path = std::path::PathBuf::from(format!("/dev/shm/{}", name("odd")));
    let refused = |device, bytes| {
        File::create(&path).unwrap().set_len(bytes).unwrap();
        let refused = Lab::up(&UpOptions { pool: Some(path.clone()), device, ..options("odd") });
        let Err(error @ Error::Argument { .. }) = refused else { panic!("{refused:?}") };
        assert_nothing_left("odd");
        error.to_string()
    };
    assert!(refused(Device::Plain, 3 << 20).contains("power of two"));
    assert!(refused(Device::Doorbell, 3 << 20).contains("power of two"));
    assert!(refused(Device::Dax, 3 << 20).contains("multiple of 2M"));
    std::fs::remove_file(&path).unwrap();
}

pub fn other_kernel() {
    let mut driver = tempfile::NamedTempFile::new().unwrap();
    driver.write_all(b"ELF\0vermagic=1.2.3-other SMP\0").unwrap();
    let refused =
        Lab::up(&UpOptions { driver: Some(driver.path().to_owned()), ..options("driver") });
    let Err(error @ Error::Argument { .. }) = refused else { panic!("{refused:?}") };
    assert!(error.to_string().contains("1.2.3-other"), "{error}");
    assert_nothing_left("driver");
}

/// A kernel that guests can be booted with.
fn some_release() -> String {
    let folders = ["/boot", "/var/lib/vshmem/guest-kernel/boot"];
    let files = folders.iter().filter_map(|folder| std::fs::read_dir(folder).ok()).flatten();
    let mut names = files.flatten().filter_map(|file| file.file_name().into_string().ok());
    names.find_map(|name| name.strip_prefix("vmlinuz-").map(str::to_owned)).expect("a kernel")
}

pub fn no_module() {
    let mut driver = tempfile::NamedTempFile::new().unwrap();
    write!(driver, "ELF\0vermagic={} SMP\0", some_release()).unwrap();
    let failed = Lab::up(&UpOptions {
        driver: Some(driver.path().to_owned()),
        count: 1,
        ..options("module")
    });
    let Err(Error::Guest(GuestFault::BootFailed { guest: 1, console, .. })) = &failed else {
        panic!("{failed:?}")
    };
    assert!(console.contains("load the module"), "{failed:?}");
    assert_nothing_left("module");
}
