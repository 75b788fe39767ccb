//! QEMU's command line.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::machine::plan::Plan;
use crate::model::boot::PORT_NAME;

/// The host's end of a machine's serial port.
pub(crate) fn port(plan: &Plan<'_>) -> PathBuf {
    plan.directory.private_of(plan.guest).join("agent.sock")
}

/// The address of a guest's network interface.
pub(crate) fn hardware_address(guest: u32) -> String {
    format!("02:76:73:68:6d:{guest:02x}")
}

/// A path in a list of options: a comma is written twice.
pub(crate) fn value(path: &Path) -> String {
    path.display().to_string().replace(',', ",,")
}

/// A command line under way.
pub(crate) struct Words(pub(crate) Vec<OsString>);

impl Words {
    pub(crate) fn of(program: impl Into<OsString>) -> Self {
        Words(vec![program.into()])
    }

    pub(crate) fn pair(&mut self, option: &str, value: impl Into<OsString>) {
        self.0.extend([option.into(), value.into()]);
    }

    /// Offers the files below `path` by that name, for reading.
    pub(crate) fn files(&mut self, tag: &str, path: &Path) {
        let path = value(path);
        self.pair(
            "-fsdev",
            format!("local,id={tag},path={path},security_model=none,readonly=on,multidevs=remap"),
        );
        self.pair("-device", format!("virtio-9p-pci,fsdev={tag},mount_tag={tag}"));
    }

    /// The lab's network.
    pub(crate) fn network(&mut self, plan: &Plan<'_>) {
        self.pair("-netdev", format!("tap,id=net,ifname={},script=no,downscript=no", plan.tap()));
        self.pair(
            "-device",
            format!("virtio-net-pci,netdev=net,romfile=,mac={}", hardware_address(plan.guest)),
        );
    }

    /// The serial port for the agent.
    pub(crate) fn port(&mut self, socket: &Path) {
        let path = value(socket);
        self.pair("-chardev", format!("socket,id=agent,path={path},server=on,wait=off"));
        self.pair("-device", "virtio-serial-pci");
        self.pair("-device", format!("virtserialport,chardev=agent,name={PORT_NAME}"));
    }

    pub(crate) fn all<'a>(&mut self, words: impl IntoIterator<Item = &'a str>) {
        self.0.extend(words.into_iter().map(OsString::from));
    }
}
