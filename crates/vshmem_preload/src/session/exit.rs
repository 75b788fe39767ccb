//! The end of a process that ends by itself. Deaths of other kinds are the agent's.
//!
//! As long as it runs, its threads may store into what it has attached, and may hold what a semaphore
//! guards; so may destructors that come after ours. It gives up nothing, then, but leaves a note, and
//! who sees that it has ended gives back what it held: a parent that waits for it ([`crate::session::reap`]),
//! whoever asks about objects first, or else the agent. A process that runs nothing any more but its
//! own way out gives its attaches and adjustments back itself.

use libc::c_int;
use vshmem_ipc::{Errno, Member};
use vshmem_mem::unless_confined;

use crate::next::system_call;
use crate::{errno, process};

/// This process's part in the pool, if it is to be ended: neither for a vfork child, which works in its
/// parent's memory, nor for one unknown.
pub fn ending() -> Option<&'static Member> {
    let member = process::joined()?.member();
    let mine = !process::is_unknown_child() && member.is_process(rustix::process::getpid());
    mine.then_some(member)
}

/// Whether the calling thread is the only one of its process.
pub fn is_alone() -> bool {
    // Without /proc, nobody can say so. The kernel counts a process's threads as links of this folder,
    // beside the two that every folder has.
    let is_one = || rustix::fs::stat(c"/proc/self/task").is_ok_and(|folder| folder.st_nlink == 3);
    unless_confined(is_one).unwrap_or(false)
}

/// Before destructors and the writing of what was printed: nothing of ours is told of the last.
fn on_exit() {
    let Some(member) = ending() else { return };
    // The agent makes up for what fails here.
    if is_alone() {
        let _ = member.leave_adjustments();
    }
    let _ = member.announce_end();
}

/// Runs after the program's own exit handlers, and before the destructors of some libraries.
#[used]
#[unsafe(link_section = ".fini_array")]
static AT_EXIT: extern "C" fn() = {
    extern "C" fn at_exit() {
        on_exit();
    }
    at_exit
};

fn block_signals() {
    let (all, no_matter) = (u64::MAX, 0);
    let how = libc::SIG_SETMASK as usize;
    // SAFETY: the set is of the eight bytes that the call is told of.
    unsafe {
        let words = [how, (&raw const all).addr(), no_matter, size_of::<u64>()];
        system_call(libc::SYS_rt_sigprocmask, words);
    }
}

/// Ends the process, as _exit(2) does.
pub fn end(status: c_int) -> ! {
    if let Some(member) = ending() {
        let _ = if is_alone() {
            // Nothing comes after this but the end, and no handler that stores into what is given up.
            block_signals();
            member.farewell()
        } else {
            member.announce_end()
        };
    }
    // SAFETY: exit_group does not return.
    unsafe { system_call(libc::SYS_exit_group, [status as usize]) };
    loop {
        std::hint::spin_loop();
    }
}

/// Gives back what processes held that had left a note and are gone by now. True when there was one.
pub fn bury_leavers(member: &Member) -> bool {
    if !member.somebody_leaves() {
        return false;
    }
    let gone = |pid| !vshmem_link::process_exists(pid);
    let bury = || errno::untouched(|| member.bury_leavers(&gone)).unwrap_or(false);
    unless_confined(bury).unwrap_or(false)
}

/// Tries again what was refused for want of something that such a process may have held.
pub fn over_leavers<T>(
    member: &Member,
    refusals: &[Errno],
    call: impl Fn() -> Result<T, Errno>,
) -> Result<T, Errno> {
    match call() {
        Err(error) if refusals.contains(&error) && bury_leavers(member) => call(),
        other => other,
    }
}
