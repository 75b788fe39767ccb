//! Elements for `<devices>` of a libvirt domain (libvirt.org/formatdomain.html).

use super::form::Device;
use super::host_pool::{HostPool, file_name};

/// The element.
pub fn elements(pool: &HostPool, device: Device) -> String {
    match device {
        Device::Plain => format!(
            "<shmem name='{}'>\n  <model type='ivshmem-plain'/>\n  <size unit='KiB'>{}</size>\n</shmem>\n",
            file_name(&pool.place),
            pool.bytes >> 10
        ),
        Device::Doorbell => format!(
            "<shmem name='{}'>\n  <model type='ivshmem-doorbell'/>\n  <server path='{}'/>\n  <msi vectors='{}' ioeventfd='on'/>\n</shmem>\n",
            file_name(&pool.place),
            pool.socket.display(),
            pool.vectors
        ),
        Device::Dax => format!(
            "<memory model='nvdimm' access='shared'>\n  <source>\n    <path>{}</path>\n    <alignsize unit='KiB'>2048</alignsize>\n  </source>\n  <target>\n    <size unit='KiB'>{}</size>\n    <node>0</node>\n  </target>\n</memory>\n",
            pool.place.display(),
            pool.bytes >> 10
        ),
    }
}
