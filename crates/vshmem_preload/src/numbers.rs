//! syscall(2): programs that call by number.

use libc::{c_int, c_long, c_void};

use crate::next::next;
use crate::{message_calls, segment_calls, semaphore_calls, unmap};

/// IPC_64, which libc adds to the commands of the raw control calls.
const IPC_64: c_int = 0x100;

/// syscall(2). C's variadic arguments travel as six words.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syscall(
    number: c_long,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> c_long {
    let int = |word: usize| word as c_int;
    let command = |word: usize| word as c_int & !IPC_64;
    // SAFETY: the arguments are those that the program has passed for the call of this number.
    unsafe {
        match number {
            libc::SYS_shmget => segment_calls::shmget(int(a), b, int(c)).into(),
            libc::SYS_shmat => {
                segment_calls::shmat(int(a), b as *const c_void, int(c)).addr() as c_long
            }
            libc::SYS_shmdt => segment_calls::shmdt(a as *const c_void).into(),
            libc::SYS_shmctl => segment_calls::shmctl(int(a), command(b), c as *mut _).into(),
            libc::SYS_semget => semaphore_calls::semget(int(a), int(b), int(c)).into(),
            libc::SYS_semop => semaphore_calls::semop(int(a), b as *mut _, c).into(),
            libc::SYS_semtimedop => {
                semaphore_calls::semtimedop(int(a), b as *mut _, c, d as *const _).into()
            }
            libc::SYS_semctl => semaphore_calls::semctl(int(a), int(b), command(c), d).into(),
            libc::SYS_msgget => message_calls::msgget(int(a), int(b)).into(),
            libc::SYS_msgsnd => message_calls::msgsnd(int(a), b as *const c_void, c, int(d)).into(),
            libc::SYS_msgrcv => {
                message_calls::msgrcv(int(a), b as *mut c_void, c, d as c_long, int(e)) as c_long
            }
            libc::SYS_msgctl => message_calls::msgctl(int(a), command(b), c as *mut _).into(),
            _ => pass_on(number, [a, b, c, d, e, f]),
        }
    }
}

fn pass_on(number: c_long, [a, b, c, d, e, f]: [usize; 6]) -> c_long {
    let result = next!(c"syscall":
        fn(c_long, usize, usize, usize, usize, usize, usize) -> c_long,
        (number, a, b, c, d, e, f), -1);
    if number == libc::SYS_munmap && result == 0 {
        unmap::unmapped(a, b);
    }
    result
}
