//! Elements for <devices> of a libvirt domain (libvirt.org/formatdomain.html).

use super::lent::{Device, Lent, file_name};

/// The element.
pub fn elements(lent: &Lent, device: Device) -> String {
    match device {
        Device::Plain => format!(
            "<shmem name='{}'>\n  <model type='ivshmem-plain'/>\n  <size unit='KiB'>{}</size>\n</shmem>\n",
            file_name(&lent.place),
            lent.bytes >> 10
        ),
        Device::Doorbell => format!(
            "<shmem name='{}'>\n  <model type='ivshmem-doorbell'/>\n  <server path='{}'/>\n  <msi vectors='{}' ioeventfd='on'/>\n</shmem>\n",
            file_name(&lent.place),
            lent.socket.display(),
            lent.vectors
        ),
        Device::Dax => format!(
            "<memory model='nvdimm' access='shared'>\n  <source>\n    <path>{}</path>\n    <alignsize unit='KiB'>2048</alignsize>\n  </source>\n  <target>\n    <size unit='KiB'>{}</size>\n    <node>0</node>\n  </target>\n</memory>\n",
            lent.place.display(),
            lent.bytes >> 10
        ),
    }
}
