//! The wait family: a parent that has waited for a child finds what the child held given back, as
//! with the kernel, without having to wait for the agent.

use libc::{c_int, id_t, idtype_t, pid_t, siginfo_t};

use vshmem_session::Session;

use crate::errno;
use crate::next::next;
use crate::session::{cancel, join};

fn ended(child: pid_t, status: Option<c_int>) {
    let Some(session) = join::joined() else { return };
    // What wait has answered must not be lost.
    cancel::uncancelled(|| give_back(session, child, status));
}

fn give_back(session: &Session, child: pid_t, status: Option<c_int>) {
    let over = status.is_none_or(|status| libc::WIFEXITED(status) || libc::WIFSIGNALED(status));
    if let Ok(pid) = u32::try_from(child)
        && pid > 0
        && over
    {
        // Somebody else may have the pid already. The agent makes up for what fails here.
        let bury = || session.member().bury_process(pid, vshmem_session::is_gone);
        let _ = errno::untouched(|| vshmem_mem::unless_confined(bury));
    }
}

/// waitpid(2).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waitpid(child: pid_t, status: *mut c_int, options: c_int) -> pid_t {
    // SAFETY: the same contract.
    unsafe { wait4(child, status, options, std::ptr::null_mut()) }
}

/// wait(2).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wait(status: *mut c_int) -> pid_t {
    // SAFETY: the same contract.
    unsafe { wait4(-1, status, 0, std::ptr::null_mut()) }
}

/// wait3(2).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wait3(
    status: *mut c_int,
    options: c_int,
    usage: *mut libc::rusage,
) -> pid_t {
    // SAFETY: the same contract.
    unsafe { wait4(-1, status, options, usage) }
}

/// wait4(2).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wait4(
    child: pid_t,
    status: *mut c_int,
    options: c_int,
    usage: *mut libc::rusage,
) -> pid_t {
    let call = |own: *mut c_int| {
        next!(c"wait4": fn(pid_t, *mut c_int, c_int, *mut libc::rusage) -> pid_t,
              (child, own, options, usage), -1)
    };
    // SAFETY: the same contract.
    unsafe { reap(status, call) }
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

/// waitid(2).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waitid(
    kind: idtype_t,
    id: id_t,
    info: *mut siginfo_t,
    options: c_int,
) -> c_int {
    let result = next!(c"waitid": fn(idtype_t, id_t, *mut siginfo_t, c_int) -> c_int,
                       (kind, id, info, options), -1);
    if result != 0 || options & libc::WEXITED == 0 || info.is_null() {
        return result;
    }
    // SAFETY: a non-null info is valid by contract, and was just filled in.
    let (code, child) = unsafe { ((*info).si_code, (*info).si_pid()) };
    if [libc::CLD_EXITED, libc::CLD_KILLED, libc::CLD_DUMPED].contains(&code) {
        ended(child, None);
    }
    result
}
