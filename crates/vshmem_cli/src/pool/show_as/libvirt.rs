//! Elements for `<devices>` of a libvirt domain (libvirt.org/formatdomain.html).

use super::form::Device;
use super::host_pool::{HostPool, file_name};

/// As for QEMU alone, in a domain's own words.
pub const ONE_CPU: &str = "there is no /dev/kvm here: a domain of type `qemu` needs room for two CPUs, or it refuses the pool: `<vcpu current='1'>2</vcpu>` or more";

/// What has a domain leave the owners of its files as they are.
const OWNERS_STAY: &str =
    "<seclabel type='static' model='dac' relabel='no'><label>libvirt-qemu:kvm</label></seclabel>";

/// What a domain with the pool as an nvdimm needs besides the element.
pub fn hints(pool: &HostPool) -> Vec<String> {
    vec![
        "the domain needs room for it as well: <maxMemory slots='4' unit='GiB'>...</maxMemory> and a NUMA cell (<cpu><numa><cell .../></numa></cpu>)".to_owned(),
        format!(
            "pool {}: while the domain runs libvirt makes QEMU's user the owner of {}. To keep the pool its owner's add to the domain, with user and group of QEMU: {OWNERS_STAY}",
            pool.name,
            pool.path.display()
        ),
    ]
}

/// The element.
pub fn elements(pool: &HostPool, device: Device) -> String {
    match device {
        Device::Plain => format!(
            "<shmem name='{}'>\n  <model type='ivshmem-plain'/>\n  <size unit='KiB'>{}</size>\n</shmem>\n",
            file_name(&pool.path),
            pool.bytes >> 10
        ),
        Device::Doorbell => format!(
            "<shmem name='{}'>\n  <model type='ivshmem-doorbell'/>\n  <server path='{}'/>\n  <msi vectors='{}' ioeventfd='on'/>\n</shmem>\n",
            file_name(&pool.path),
            pool.socket.display(),
            pool.vectors
        ),
        Device::Dax => format!(
            "<memory model='nvdimm' access='shared'>\n  <source>\n    <path>{}</path>\n    <alignsize unit='KiB'>2048</alignsize>\n  </source>\n  <target>\n    <size unit='KiB'>{}</size>\n    <node>0</node>\n  </target>\n</memory>\n",
            pool.path.display(),
            pool.bytes >> 10
        ),
    }
}
