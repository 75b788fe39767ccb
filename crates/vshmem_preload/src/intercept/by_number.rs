//! syscall(2) of calls on descriptors: those that programs make by number because older libcs
//! have no function for them, and those by which a descriptor would come or go without notice.

use libc::{c_int, c_long, c_uint, iovec, off_t};

use vshmem_process::next::pass_on;
use vshmem_process::posix::transfer::{Transfer, Way};
use vshmem_process::posix::{adopt, follow, seek, send_file, size, state};

/// A call by number on a descriptor; `None` where it is none.
///
/// # Safety
/// As for the call of that number.
pub unsafe fn on_descriptors(number: c_long, words: [usize; 6]) -> Option<c_long> {
    let [a, b, c, d, ..] = words;
    let file = a as c_int;
    // SAFETY: the arguments are those that the program has passed for the call of this number.
    let kernel = || unsafe { pass_on(number, words) };
    let by_int = || kernel() as c_int;
    Some(match number {
        libc::SYS_close => follow::close(file, by_int).into(),
        libc::SYS_close_range => follow::close_range(a as c_uint, b as c_uint, by_int).into(),
        libc::SYS_dup => follow::duplicate(file, by_int).into(),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_dup2 => follow::duplicate_to(file, b as c_int, by_int).into(),
        libc::SYS_dup3 => follow::duplicate_to(file, b as c_int, by_int).into(),
        // SAFETY: by this function's own contract.
        libc::SYS_fcntl => unsafe { follow::control(file, b as c_int, c, by_int).into() },
        libc::SYS_flock => follow::lock(file, b as c_int, by_int).into(),
        libc::SYS_ftruncate => size::truncate(file, b as off_t, by_int).into(),
        libc::SYS_fallocate => {
            size::allocate(file, b as c_int, c as off_t, d as off_t, by_int).into()
        }
        libc::SYS_sendfile => {
            let at = c as *mut off_t;
            send_file::send(file, b as c_int, at, d, || kernel() as isize) as c_long
        }
        libc::SYS_lseek => seek::seek(file, b as off_t, c as c_int, kernel),
        // SAFETY: by this function's own contract.
        libc::SYS_fstat => unsafe { state::fstat(file, b as *mut libc::stat, by_int).into() },
        libc::SYS_fchmod => state::set_mode(file, b as u32, by_int).into(),
        libc::SYS_fchown => state::set_owner(file, b as u32, c as u32, by_int).into(),
        libc::SYS_recvmsg => {
            let result = kernel();
            if result >= 0 {
                // SAFETY: the call has just filled it in.
                unsafe { adopt::received(b as *const libc::msghdr) };
            }
            result
        }
        // SAFETY: by this function's own contract.
        _ => return unsafe { transfer(number, words) },
    })
}

/// read(2), write(2) and their kin.
///
/// # Safety
/// As for the call of that number.
unsafe fn transfer(number: c_long, words: [usize; 6]) -> Option<c_long> {
    let [a, b, c, d, ..] = words;
    let (way, at) = match number {
        libc::SYS_read | libc::SYS_readv => (Way::Read, None),
        libc::SYS_write | libc::SYS_writev => (Way::Write, None),
        libc::SYS_pread64 | libc::SYS_preadv => (Way::Read, Some(d as off_t)),
        libc::SYS_pwrite64 | libc::SYS_pwritev => (Way::Write, Some(d as off_t)),
        _ => return None,
    };
    let transfer = Transfer { file: a as c_int, way, at };
    // SAFETY: the arguments are those that the program has passed for the call of this number.
    let kernel = || unsafe { pass_on(number, words) } as isize;
    let is_vector =
        matches!(number, libc::SYS_readv | libc::SYS_writev | libc::SYS_preadv | libc::SYS_pwritev);
    let done = if is_vector {
        // SAFETY: by this function's own contract.
        unsafe { transfer.of_several(b as *const iovec, c as c_int, kernel) }
    } else {
        transfer.of(b as *mut u8, c, kernel)
    };
    Some(done as c_long)
}
