//! Credentials of the calling process, for objects that it makes: by the ids of the kernel's
//! initial user namespace, which pools have.

use std::sync::OnceLock;

use vshmem_ipc::Caller;
use vshmem_link::{OVERFLOW_ID, UserNamespace};

/// The credentials of this process.
#[derive(Debug, Clone, Copy)]
pub struct Credentials;

/// The namespace in which this process makes its first call.
fn namespace() -> &'static UserNamespace {
    static NAMESPACE: OnceLock<UserNamespace> = OnceLock::new();
    NAMESPACE.get_or_init(UserNamespace::own)
}

impl Caller for Credentials {
    fn uid(&self) -> u32 {
        let id = rustix::process::geteuid().as_raw();
        namespace().users.outside(id).unwrap_or(OVERFLOW_ID)
    }

    fn gid(&self) -> u32 {
        let id = rustix::process::getegid().as_raw();
        namespace().groups.outside(id).unwrap_or(OVERFLOW_ID)
    }

    fn in_group(&self, gid: u32) -> bool {
        let is_one = |inside| {
            rustix::process::getgroups()
                .is_ok_and(|groups| groups.iter().any(|group| group.as_raw() == inside))
        };
        gid == self.gid() || namespace().groups.inside(gid).is_some_and(is_one)
    }
}
