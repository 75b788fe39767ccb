//! The wait family: a parent that has waited for a child finds what the child held given back, as
//! with the kernel, without having to wait for the agent.

use libc::{c_int, pid_t};
use vshmem_session::Session;

use crate::session::cancel;
use crate::{errno, process};

/// A child was waited for; `status` says how it is, if that is not known to be its end.
pub fn ended(child: pid_t, status: Option<c_int>) {
    let Some(session) = process::joined() else { return };
    // What wait has answered must not be lost.
    cancel::uncancelled(|| give_back(session, child, status));
}

fn give_back(session: &Session, child: pid_t, status: Option<c_int>) {
    let over = status.is_none_or(|status| libc::WIFEXITED(status) || libc::WIFSIGNALED(status));
    if let Ok(pid) = u32::try_from(child)
        && pid > 0
        && over
    {
        // Another process may have the pid already. The agent makes up for what fails here.
        let reap = || session.client().reap_process(pid, vshmem_session::is_gone);
        let _ = errno::untouched(|| vshmem_mem::unless_confined(reap));
    }
}

/// wait4(2), by whatever call.
///
/// # Safety
/// `status` is null or valid.
pub unsafe fn reap(status: *mut c_int, call: impl FnOnce(*mut c_int) -> pid_t) -> pid_t {
    let mut own = 0;
    let result = call(&raw mut own);
    if result > 0 {
        ended(result, Some(own));
        // SAFETY: a non-null status is valid by contract.
        if let Some(status) = unsafe { status.as_mut() } {
            *status = own;
        }
    }
    result
}
