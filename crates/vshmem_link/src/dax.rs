//! Link `dax`: the memory of an nvdimm or a virtio-pmem device as `/dev/daxX.Y`. The kernel's own
//! driver serves it, cached, to whom its mode lets in; there are no interrupts.
//!
//! The device maps whole units of its alignment (4 KiB or 2 MiB, as its label says) and nothing
//! else (`granularity.rs`).

use std::fs;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::device::{Device, Extent, entries, is_character_device};
use crate::link::{Capabilities, Link, LinkKind, Sleeping};
use crate::region::RegionError;

/// Where the kernel lists these devices.
const DEVICES: &str = "/sys/bus/dax/devices";
/// What the name of a device begins with.
const PREFIX: &str = "dax";

/// What distinguishes it from others.
pub(crate) const KIND: LinkKind = LinkKind {
    name: "dax",
    is_device: |path| name_of(path).is_some() && is_character_device(path),
    open: |path| Ok(Box::new(Dax::open(path)?)),
    paths: || places_in(Path::new(DEVICES)),
};

/// A pool behind a dax device.
#[derive(Debug)]
pub struct Dax {
    device: Device,
}

/// What sysfs says about a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shape {
    bytes: u64,
    align: u64,
}

impl Shape {
    fn read(devices: &Path, name: &str) -> Option<Self> {
        let number = |file: &str| -> Option<u64> {
            fs::read_to_string(devices.join(name).join(file)).ok()?.trim().parse().ok()
        };
        let align = number("align").filter(|align| align.is_power_of_two() && *align >= 4096)?;
        Some(Self { bytes: number("size")?, align })
    }
}

fn name_of(path: &Path) -> Option<&str> {
    let name = path.file_name()?.to_str()?;
    (path.parent()? == Path::new("/dev") && name.starts_with(PREFIX)).then_some(name)
}

fn places_in(devices: &Path) -> Vec<PathBuf> {
    let names = entries(devices).into_iter().filter_map(|entry| {
        let name = entry.file_name()?.to_str()?;
        let is_there = Shape::read(devices, name).is_some_and(|shape| shape.bytes > 0);
        (name.starts_with(PREFIX) && is_there).then(|| Path::new("/dev").join(name))
    });
    names.collect()
}

impl Dax {
    /// Opens a device.
    ///
    /// # Errors
    /// Says what was tried, what came back, and what to do.
    pub fn open(path: &Path) -> Result<Self, RegionError> {
        let remedy = "As root of this machine: `usermod --append --groups vshmem USER`, where the package vshmem is installed, which gives the device to that group; then log in again. Without it: `chgrp vshmem /dev/dax* && chmod 0660 /dev/dax*`";
        let device = Device::open(path).map_err(|error| error.with_remedy(remedy))?;
        let shape = name_of(path)
            .and_then(|name| Shape::read(Path::new(DEVICES), name))
            .ok_or_else(|| RegionError::new(path, "find its size in sysfs", Errno::INVAL))?;
        let extent = Extent { front: 0, bytes: shape.bytes, page_bytes: shape.align };
        Ok(Self { device: device.with_extent(extent) })
    }
}

impl Link for Dax {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn grade(&self) -> &'static str {
        if self.device.page_bytes() >= 2 << 20 { "2M" } else { "4K" }
    }

    fn device(&self) -> &Device {
        &self.device
    }

    fn leaves_machine(&self) -> bool {
        true
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            // These pages are the kernel's: it can sleep on them.
            sleeping: Sleeping::InPool,
            page_bytes: self.device.page_bytes(),
            ..Capabilities::DEVICE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_found_with_size_and_alignment() {
        let root = tempfile::tempdir().unwrap();
        for (name, size, align) in
            [("dax0.0", "266338304", "2097152"), ("dax1.0", "0", "4096"), ("dax2.0", "8192", "3")]
        {
            fs::create_dir(root.path().join(name)).unwrap();
            fs::write(root.path().join(name).join("size"), format!("{size}\n")).unwrap();
            fs::write(root.path().join(name).join("align"), format!("{align}\n")).unwrap();
        }
        assert_eq!(places_in(root.path()), [Path::new("/dev/dax0.0")]);
        let shape = Shape::read(root.path(), "dax0.0");
        assert_eq!(shape, Some(Shape { bytes: 266_338_304, align: 2 << 20 }));
    }

    #[test]
    fn other_files_are_no_devices() {
        assert!(!(KIND.is_device)(Path::new("/dev/null")));
        assert!(!(KIND.is_device)(Path::new("/tmp/dax0.0")));
    }
}
