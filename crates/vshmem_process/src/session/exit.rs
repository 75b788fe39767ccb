//! The exit of a process. The agent handles other kinds of death.
//!
//! As long as it runs, its threads may store into what it has attached, and may hold what a
//! semaphore guards; so may destructors that come after ours. So it gives up nothing then, but
//! announces its end in the pool, and a process that sees the end gives back what it held: a parent
//! that waits for it ([`crate::session::reap`]), the first process that asks about objects, or else
//! the agent. A process that runs nothing any more but its own way out gives its attaches and
//! adjustments back itself.

use libc::c_int;
use vshmem_ipc::{Client, Errno};
use vshmem_mem::{signal_mask, unless_confined};

use crate::next::system_call;
use crate::{errno, process};

/// This process's part in the pool, if it is to be ended: neither for a vfork child, which works in
/// its parent's memory, nor for one unknown.
pub fn ending() -> Option<&'static Client> {
    let this_client = process::joined()?.client();
    let mine = !process::is_unknown_child()
        && this_client.is_process(rustix::process::getpid())
        && !process::has_parents_pid();
    mine.then_some(this_client)
}

/// Whether the calling thread is the only one of its process.
pub fn is_alone() -> bool {
    // Without /proc, that is not known. The kernel counts a process's threads as links of this
    // folder, beside the two that every folder has.
    let is_one = || rustix::fs::stat(c"/proc/self/task").is_ok_and(|folder| folder.st_nlink == 3);
    unless_confined(is_one).unwrap_or(false)
}

/// Before destructors and the writing of what was printed: the library does not learn of the last.
fn on_exit() {
    let Some(this_client) = ending() else { return };
    // The agent makes up for what fails here.
    if is_alone() {
        let _ = this_client.apply_adjustments();
    }
    let _ = this_client.announce_end();
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

/// Ends the process, as _exit(2) does.
pub fn end(status: c_int) -> ! {
    if let Some(this_client) = ending() {
        let _ = if is_alone() {
            // Nothing comes after this but the end, and no handler that stores into what is given
            // up.
            signal_mask::block_all();
            this_client.release_at_exit()
        } else {
            this_client.announce_end()
        };
    }
    // SAFETY: exit_group does not return.
    unsafe { system_call(libc::SYS_exit_group, [status as usize]) };
    loop {
        std::hint::spin_loop();
    }
}

/// Gives back what processes held that had left a note and are gone by now. True when there was
/// one.
pub fn reap_exiting(this_client: &Client) -> bool {
    if !this_client.has_exiting_clients() {
        return false;
    }
    let gone = |pid| !vshmem_link::process_exists(pid);
    let reap = || errno::untouched(|| this_client.reap_exiting(&gone)).unwrap_or(false);
    unless_confined(reap).unwrap_or(false)
}

/// Tries again what was refused for want of something that such a process may have held.
pub fn retry_after_reaping<T>(
    this_client: &Client,
    refusals: &[Errno],
    call: impl Fn() -> Result<T, Errno>,
) -> Result<T, Errno> {
    match call() {
        Err(error) if refusals.contains(&error) && reap_exiting(this_client) => call(),
        other => other,
    }
}
