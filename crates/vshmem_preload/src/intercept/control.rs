//! shmctl(2), semctl(2) and msgctl(2): whether the pool answers, the kernel, or both.

use libc::c_int;
use vshmem_ipc::{Client, Errno, Kind, is_pool_id};
use vshmem_session::Owner;
use vshmem_wire::INDEX_BASE;

use vshmem_process::errno;
use vshmem_process::session::{current, exit, home_namespace, route};

/// IPC_INFO, the same for all kinds.
pub const IPC_INFO: c_int = 3;

/// What a kind's commands about all objects are called.
#[derive(Debug, Clone, Copy)]
pub struct Commands {
    /// SHM_INFO and its like.
    pub info: c_int,
    /// SHM_STAT and its like.
    pub stat: c_int,
    /// SHM_STAT_ANY and its like.
    pub stat_any: c_int,
}

/// One call.
#[derive(Debug, Clone, Copy)]
pub struct Call {
    pub kind: Kind,
    pub id: c_int,
    pub command: c_int,
    pub commands: Commands,
}

impl Call {
    /// Has the one answer whose business it is.
    ///
    /// `kernel` passes the call on. `pool` answers from the pool; it is given what the kernel has
    /// answered where both have to, which then stands in the program's buffer.
    pub fn answer(
        self,
        kernel: impl Fn() -> c_int,
        pool: impl Fn(&Client, Option<c_int>) -> Result<c_int, Errno>,
    ) -> c_int {
        let Commands { info, stat, stat_any } = self.commands;
        let totals = self.command == IPC_INFO || self.command == info;
        let by_index = self.command == stat || self.command == stat_any;
        let in_pool = match route::owner(self.kind) {
            Owner::Pool => true,
            Owner::Kernel => false,
            Owner::ByKey if totals => return both(&kernel, &pool),
            // An index is the end of an id, and so tells whose it is.
            Owner::ByKey if by_index => is_pool_id(self.id),
            Owner::ByKey => route::id_in_pool(self.kind, self.id),
        };
        if !in_pool {
            return kernel();
        }
        if self.id < 0 || self.command < 0 {
            errno::set(Errno::INVAL);
            return -1;
        }
        errno::answer_int(from_pool(&pool, None))
    }
}

fn both(
    kernel: impl Fn() -> c_int,
    pool: impl Fn(&Client, Option<c_int>) -> Result<c_int, Errno>,
) -> c_int {
    let first = kernel();
    if first == -1 {
        return -1;
    }
    errno::answer_int(from_pool(&pool, Some(first)))
}

/// The pool's answer, without what processes hold that have ended.
fn from_pool(
    pool: &impl Fn(&Client, Option<c_int>) -> Result<c_int, Errno>,
    kernel: Option<c_int>,
) -> Result<c_int, Errno> {
    let this_client = current::watchful_session()?.client();
    exit::reap_exiting(this_client);
    pool(this_client, kernel)
}

/// Highest index in use, as the *_INFO commands return it: of the pool's objects alone, or of those
/// and the kernel's.
pub fn highest(objects: u32, highest: u32, kernel: Option<c_int>) -> c_int {
    match kernel {
        None => highest as c_int,
        Some(kernel) if objects == 0 => kernel,
        Some(_) => (INDEX_BASE + highest) as c_int,
    }
}

/// `struct ipc_perm`, as this process's user namespace shows it.
pub fn permission(permission: &vshmem_ipc::Permission) -> libc::ipc_perm {
    // SAFETY: all-zero bytes are a valid ipc_perm.
    let mut out: libc::ipc_perm = unsafe { std::mem::zeroed() };
    out.__key = permission.key;
    (out.uid, out.gid) = home_namespace::shown(permission.uid, permission.gid);
    (out.cuid, out.cgid) = home_namespace::shown(permission.cuid, permission.cgid);
    out.mode = permission.mode as _;
    out.__seq = permission.sequence as _;
    out
}
