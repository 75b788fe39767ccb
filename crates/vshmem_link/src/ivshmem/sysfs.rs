//! ivshmem devices as the kernel lists them, for a guest without the driver.

use std::fs;
use std::path::{Path, PathBuf};

use crate::device::entries;

/// Vendor and device, as sysfs prints them.
const IDENTITY: (&str, &str) = ("0x1af4", "0x1110");
/// The driver that makes `/dev/vshmem/NAME`.
const DRIVER: &str = "vshmem";
/// The resource that is the memory.
const MEMORY: &str = "resource2";

fn says(device: &Path, file: &str, value: &str) -> bool {
    fs::read_to_string(device.join(file)).is_ok_and(|text| text.trim() == value)
}

fn is_ivshmem(device: &Path) -> bool {
    says(device, "vendor", IDENTITY.0) && says(device, "device", IDENTITY.1)
}

/// Whether the driver has the device that a resource file belongs to.
pub fn is_driven(resource: &Path) -> bool {
    let driver = resource.parent().map(|device| fs::read_link(device.join("driver")));
    matches!(driver, Some(Ok(driver)) if driver.file_name().is_some_and(|name| name == DRIVER))
}

/// Whether a path is the memory of an ivshmem device.
pub fn is_resource(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == MEMORY) && path.parent().is_some_and(is_ivshmem)
}

/// The memory of all ivshmem devices that the driver does not have.
pub fn resources(devices: &Path) -> Vec<PathBuf> {
    let memory = entries(devices).into_iter().map(|device| device.join(MEMORY));
    memory.filter(|path| is_resource(path) && !is_driven(path) && path.exists()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(root: &Path, address: &str, identity: (&str, &str)) -> PathBuf {
        let device = root.join(address);
        fs::create_dir(&device).unwrap();
        fs::write(device.join("vendor"), format!("{}\n", identity.0)).unwrap();
        fs::write(device.join("device"), format!("{}\n", identity.1)).unwrap();
        fs::write(device.join(MEMORY), []).unwrap();
        device
    }

    #[test]
    fn devices_are_known_by_their_identity() {
        let root = tempfile::tempdir().unwrap();
        let ours = device(root.path(), "0000:00:04.0", IDENTITY);
        device(root.path(), "0000:00:05.0", ("0x1af4", "0x1000"));
        let bare = device(root.path(), "0000:00:06.0", IDENTITY);
        fs::remove_file(bare.join(MEMORY)).unwrap();
        assert_eq!(resources(root.path()), [ours.join(MEMORY)]);
        assert!(resources(Path::new("/nonexistent")).is_empty());
    }

    #[test]
    fn a_device_that_the_driver_has_is_the_drivers() {
        let root = tempfile::tempdir().unwrap();
        let ours = device(root.path(), "0000:00:04.0", IDENTITY);
        std::os::unix::fs::symlink("../../../bus/pci/drivers/vshmem", ours.join("driver")).unwrap();
        assert!(is_driven(&ours.join(MEMORY)));
        assert!(resources(root.path()).is_empty());
        let other = device(root.path(), "0000:00:05.0", IDENTITY);
        std::os::unix::fs::symlink("../drivers/uio_ivshmem", other.join("driver")).unwrap();
        assert_eq!(resources(root.path()), [other.join(MEMORY)]);
    }
}
