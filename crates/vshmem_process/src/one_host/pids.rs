//! Numbers of processes that mean the same in all members of a pool ([`WidePid`]). A process is
//! told its own so. Its children, and who waits for them, have the kernel's; a call takes both.

use libc::{c_int, c_long, pid_t};
use vshmem_ipc::{Errno, Process, WidePid};

use crate::one_host::is_on;
use crate::{errno, process};

/// A number that the kernel gives, as the program is to see it.
#[inline]
pub fn shown(pid: pid_t) -> pid_t {
    if is_on() { widened(pid) } else { pid }
}

fn widened(pid: pid_t) -> pid_t {
    match (process::inherited(), u32::try_from(pid)) {
        (Some(session), Ok(pid)) if pid != 0 => {
            WidePid { domain: session.client().domain(), pid }.number() as pid_t
        }
        _ => pid,
    }
}

/// A number that a program passes to a call, as the kernel knows it; a negative one names a group.
///
/// # Errors
/// It is another domain's: EPERM if that process lives, else ESRCH.
#[inline]
pub fn local(pid: pid_t) -> Result<pid_t, Errno> {
    if is_on() { narrowed(pid) } else { Ok(pid) }
}

fn narrowed(pid: pid_t) -> Result<pid_t, Errno> {
    let Some(named) = WidePid::of(pid.saturating_abs()) else { return Ok(pid) };
    match elsewhere(named) {
        None => Ok(named.pid as pid_t * pid.signum()),
        Some(Some(_)) => Err(Errno::PERM),
        Some(None) => Err(Errno::SRCH),
    }
}

/// What the pool knows of a process of another domain, if there is one; `None` for this domain's.
pub fn elsewhere(named: WidePid) -> Option<Option<Process>> {
    let client = process::inherited()?.client();
    if client.domain() == named.domain {
        return None;
    }
    Some(client.pool().process_of(named).ok().flatten())
}

/// kill(2), by whatever call.
pub fn kill(pid: pid_t, signal: c_int, call: impl FnOnce(pid_t) -> c_int) -> c_int {
    match local(pid) {
        Ok(pid) => call(pid),
        // It is there, and that is all that is asked.
        Err(Errno::PERM) if signal == 0 && pid > 0 => 0,
        Err(error) => errno::answer_unit(Err(error)),
    }
}

/// Which of its words name processes, of a call by number.
fn words_of(number: c_long) -> &'static [usize] {
    match number {
        libc::SYS_getpgid
        | libc::SYS_getsid
        | libc::SYS_kill
        | libc::SYS_tkill
        | libc::SYS_rt_sigqueueinfo
        | libc::SYS_pidfd_open
        | libc::SYS_process_vm_readv
        | libc::SYS_process_vm_writev
        | libc::SYS_prlimit64
        | libc::SYS_sched_getaffinity
        | libc::SYS_sched_setaffinity
        | libc::SYS_sched_getparam
        | libc::SYS_sched_setparam
        | libc::SYS_sched_getscheduler
        | libc::SYS_sched_setscheduler
        | libc::SYS_sched_getattr
        | libc::SYS_sched_setattr
        | libc::SYS_sched_rr_get_interval
        | libc::SYS_get_robust_list
        | libc::SYS_migrate_pages
        | libc::SYS_move_pages
        | libc::SYS_wait4 => &[0],
        libc::SYS_ptrace
        | libc::SYS_getpriority
        | libc::SYS_setpriority
        | libc::SYS_ioprio_get
        | libc::SYS_ioprio_set
        | libc::SYS_perf_event_open
        | libc::SYS_waitid => &[1],
        libc::SYS_setpgid | libc::SYS_tgkill | libc::SYS_rt_tgsigqueueinfo | libc::SYS_kcmp => {
            &[0, 1]
        }
        _ => &[],
    }
}

/// A call by number, with the numbers of processes as the kernel knows them; or what it answers
/// without being made.
///
/// # Errors
/// What it answers: 0, or -1 with errno set.
pub fn by_number(number: c_long, mut words: [usize; 6]) -> Result<[usize; 6], c_long> {
    for &word in words_of(number) {
        match local(words[word] as pid_t) {
            Ok(pid) => words[word] = pid as usize,
            Err(Errno::PERM) if number == libc::SYS_kill && words[1] == 0 => return Err(0),
            Err(_) if [libc::SYS_wait4, libc::SYS_waitid].contains(&number) => {
                return Err(errno::answer(Err::<i64, _>(Errno::CHILD)));
            }
            Err(error) => return Err(errno::answer(Err::<i64, _>(error))),
        }
    }
    Ok(words)
}
