//! The end of a process that ends by itself: attaches and adjustments are given back before it is
//! gone, so that whoever waits for it finds them so. Deaths of other kinds are the agent's.

use libc::c_int;

use crate::next::system_call;
use crate::{fork, process};

fn farewell() {
    let Some(session) = process::joined() else { return };
    let member = session.member();
    // Neither for a vfork child, which works in its parent's memory, nor for one unknown.
    if fork::is_unknown_child() || !member.is_process(rustix::process::getpid()) {
        return;
    }
    // The agent makes up for what fails here.
    let _ = member.farewell();
}

/// Runs after the program's own exit handlers and destructors.
#[used]
#[unsafe(link_section = ".fini_array")]
static AT_EXIT: extern "C" fn() = {
    extern "C" fn at_exit() {
        farewell();
    }
    at_exit
};

/// _exit(2).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _exit(status: c_int) -> ! {
    farewell();
    // SAFETY: exit_group does not return.
    unsafe { system_call(libc::SYS_exit_group, [status as usize]) };
    loop {
        std::hint::spin_loop();
    }
}

/// _Exit(3).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _Exit(status: c_int) -> ! {
    // SAFETY: the same function under C's name.
    unsafe { _exit(status) }
}
