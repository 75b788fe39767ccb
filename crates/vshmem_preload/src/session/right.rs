//! Whether this process may use a descriptor of an object that it has not opened itself.
//!
//! Every process can make a file with the name of one. So what counts are the rights of the file's
//! maker, whom the kernel has recorded in the file, and those of this process: one of the two must
//! be allowed to open the object so.

use vshmem_ipc::Caller;
use vshmem_session::Session;

use super::caller::Credentials;
use super::home_namespace;
use crate::object_descriptors::marker::{Found, Maker};
use crate::object_descriptors::{Descriptor, Object};

/// Whether this process may use what a descriptor that has come from elsewhere stands for.
pub fn may_use(session: &Session, Found { descriptor, maker }: Found) -> bool {
    let by_its_maker = |maker: Maker| {
        may_open(session, descriptor, &maker)
            || owner_of(session, descriptor.object) == Some(maker.uid)
    };
    may_open(session, descriptor, &Credentials::now()) || outside(maker).is_some_and(by_its_maker)
}

/// A maker by the ids of the initial namespace. One that this process's does not know is nobody.
fn outside(Maker { uid, gid }: Maker) -> Option<Maker> {
    let (uid, gid) = home_namespace::given(uid, gid).ok()?;
    Some(Maker { uid, gid })
}

/// Whether `caller` could open an object as a descriptor has it.
fn may_open(session: &Session, descriptor: Descriptor, caller: &dyn Caller) -> bool {
    let (client, access) = (session.client(), descriptor.access);
    let checked = match descriptor.object {
        Object::SharedMemory(id) => {
            client.posix_shm_check_access(id, access.read, access.write, caller)
        }
        Object::Queue(id) => client.mq_check_access(id, access.read, access.write, caller),
    };
    checked.is_ok()
}

/// The owner of an object, who may give itself any right to it: it may have opened the object and
/// taken the right away afterwards.
fn owner_of(session: &Session, object: Object) -> Option<u32> {
    match object {
        Object::SharedMemory(id) => session.client().posix_shm_stat(id).ok().map(|stat| stat.uid),
        Object::Queue(id) => session.client().mq_stat(id).ok().map(|stat| stat.permission.uid),
    }
}

/// What files have it: root opens all.
impl Caller for Maker {
    fn uid(&self) -> u32 {
        self.uid
    }

    fn gid(&self) -> u32 {
        self.gid
    }

    fn in_group(&self, gid: u32) -> bool {
        gid == self.gid
    }

    fn overrides_modes(&self) -> bool {
        self.uid == 0
    }
}
