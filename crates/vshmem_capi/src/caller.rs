//! Credentials of the calling process, for objects that it makes.

use vshmem_ipc::Caller;

/// This process.
#[derive(Debug, Clone, Copy)]
pub struct Credentials;

impl Caller for Credentials {
    fn uid(&self) -> u32 {
        rustix::process::geteuid().as_raw()
    }

    fn gid(&self) -> u32 {
        rustix::process::getegid().as_raw()
    }

    fn in_group(&self, gid: u32) -> bool {
        let groups = rustix::process::getgroups();
        gid == self.gid() || groups.is_ok_and(|groups| groups.iter().any(|g| g.as_raw() == gid))
    }
}
