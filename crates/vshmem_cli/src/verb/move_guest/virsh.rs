//! The same steps in virsh's words, to be carried out by hand: libvirt has a guest's monitor for
//! itself.

use vshmem_session::quoted;

use super::options::Move;
use crate::failure::{Failure, failed};
use crate::pool::{Device, Form, HostPool};

/// The commands, each on a line.
pub fn commands(asked: &Move, pool: &HostPool, guest: &str) -> Result<String, Failure> {
    let name = &pool.name;
    if pool.chosen(None, Form::Libvirt)? == Device::Dax {
        return failed(format!(
            "pool {name}: the guest has it as an nvdimm, which cannot be unplugged, and libvirt would have what it saved written over the backing file at the other end. Give guests that move a pool made without --dax: `vshmem pool create NAME --size SIZE`"
        ));
    }
    let there = quoted(asked.pool_to.as_deref().unwrap_or(name));
    let domain = quoted(asked.domain.as_deref().unwrap_or(guest));
    let (guest, to, within) = (quoted(guest), quoted(&asked.to), asked.within);
    Ok(format!(
        "\
# on this host
vshmem pool show {name} --as libvirt >{name}.xml
vshmem pool drain {name} {domain} --within {within}
virsh detach-device {guest} {name}.xml --live
virsh dumpxml {guest} | grep '<shmem'            # as long as it is there, the guest has not given it up
virsh migrate {guest} {to} --live
# on the other host; {there} is a pool there (`vshmem pool serve {there}` first, for doorbells)
vshmem pool show {there} --as libvirt >{there}.xml
virsh attach-device {guest} {there}.xml --live
# if the guest stays after all: on this host, then in the guest
virsh attach-device {guest} {name}.xml --live
vshmem pool join {name}
"
    ))
}
