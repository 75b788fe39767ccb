//! syscall(2) of calls on paths.

use libc::{c_char, c_int, c_long, c_uint, mode_t};

use crate::intercept::{files, paths};
use vshmem_process::dev_shm::calls::{self, Path};
use vshmem_process::dev_shm::open::Opening;
use vshmem_process::dev_shm::{renaming, status};
use vshmem_process::next::pass_on;

const HERE: c_int = libc::AT_FDCWD;

/// A call by number on a path; `None` where it is none.
///
/// # Safety
/// As for the call of that number.
pub unsafe fn on_paths(number: c_long, words: [usize; 6]) -> Option<c_long> {
    let [a, b, c, d, e, _] = words;
    let at = a as c_int;
    let path = b as *const c_char;
    let link = || paths::link_from(at, path);
    // SAFETY: the arguments are those that the program has passed for the call of this number.
    let kernel = || unsafe { pass_on(number, words) };
    let by_int = || kernel() as c_int;
    let opening = |flags: usize, mode: usize| {
        let how = Opening { at, path, flags: flags as c_int, mode: mode as mode_t };
        files::opening(how, by_int)
    };
    Some(match number {
        libc::SYS_openat => opening(c, d).into(),
        libc::SYS_newfstatat if d as c_int & libc::AT_EMPTY_PATH == 0 => {
            calls::stat(Path::from(at, path, d as c_int), c as *mut libc::stat, by_int).into()
        }
        libc::SYS_statx if c as c_int & libc::AT_EMPTY_PATH == 0 => {
            calls::statx(Path::from(at, path, c as c_int), e as *mut libc::statx, by_int).into()
        }
        libc::SYS_faccessat => files::can_use(Path::from(at, path, 0), c as c_int, by_int).into(),
        libc::SYS_faccessat2 => {
            files::can_use(Path::from(at, path, d as c_int), c as c_int, by_int).into()
        }
        libc::SYS_unlinkat => paths::unlink_at(at, path, c as c_int, by_int).into(),
        libc::SYS_renameat2 => {
            let to = paths::link_from(c as c_int, d as *const c_char);
            renaming::rename(link(), to, e as c_uint, by_int).into()
        }
        libc::SYS_linkat => {
            let to = (c as c_int, d as *const c_char);
            paths::link_at((at, path), to, e as c_int, by_int).into()
        }
        libc::SYS_fchmodat => calls::set_mode(Path::from(at, path, 0), c as u32, by_int).into(),
        libc::SYS_fchownat => {
            let path = Path::from(at, path, e as c_int);
            calls::set_owner(path, c as u32, d as u32, by_int).into()
        }
        // Without a path it is about the descriptor.
        libc::SYS_utimensat if !path.is_null() => {
            calls::set_times(Path::from(at, path, d as c_int), by_int).into()
        }
        libc::SYS_readlinkat => {
            calls::read_link(link(), (c as *mut c_char, d), || kernel() as isize) as c_long
        }
        libc::SYS_mkdirat => calls::make_other(link(), by_int).into(),
        // SAFETY: by this function's own contract.
        _ => return unsafe { from_here(number, words) },
    })
}

/// Those that begin with the path, and renameat(2).
///
/// # Safety
/// As for the call of that number.
unsafe fn from_here(number: c_long, words: [usize; 6]) -> Option<c_long> {
    let [a, b, c, d, ..] = words;
    let text = a as *const c_char;
    // SAFETY: the arguments are those that the program has passed for the call of this number.
    let by_int = || unsafe { pass_on(number, words) as c_int };
    Some(match number {
        libc::SYS_renameat => {
            let from = paths::link_from(a as c_int, b as *const c_char);
            let to = paths::link_from(c as c_int, d as *const c_char);
            renaming::rename(from, to, 0, by_int).into()
        }
        libc::SYS_truncate => calls::truncate(text, b as libc::off_t, by_int).into(),
        libc::SYS_statfs => {
            status::by_path(Path::here(text), b as *mut libc::statfs, by_int).into()
        }
        libc::SYS_chdir => {
            calls::directory_alone(Path::here(text), || paths::changed_directory(by_int)).into()
        }
        // SAFETY: by this function's own contract.
        _ => return unsafe { old(number, words) },
    })
}

/// Those that newer machines do not have.
///
/// # Safety
/// As for the call of that number.
#[cfg(target_arch = "x86_64")]
unsafe fn old(number: c_long, words: [usize; 6]) -> Option<c_long> {
    let [a, b, c, ..] = words;
    let text = a as *const c_char;
    // SAFETY: the arguments are those that the program has passed for the call of this number.
    let kernel = || unsafe { pass_on(number, words) };
    let by_int = || kernel() as c_int;
    let (path, link) = (Path::here(text), Path::of_link(text));
    let other = Path::of_link(b as *const c_char);
    let opening = |flags: c_int, mode: usize| {
        files::opening(Opening { at: HERE, path: text, flags, mode: mode as mode_t }, by_int)
    };
    Some(match number {
        libc::SYS_open => opening(b as c_int, c).into(),
        libc::SYS_creat => opening(libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC, b).into(),
        libc::SYS_stat => calls::stat(path, b as *mut libc::stat, by_int).into(),
        libc::SYS_lstat => calls::stat(link, b as *mut libc::stat, by_int).into(),
        libc::SYS_access => files::can_use(path, b as c_int, by_int).into(),
        libc::SYS_unlink => calls::unlink(link, by_int).into(),
        libc::SYS_rmdir => calls::directory_alone(link, by_int).into(),
        libc::SYS_rename => renaming::rename(link, other, 0, by_int).into(),
        libc::SYS_link => renaming::link(link, other, by_int).into(),
        libc::SYS_chmod => calls::set_mode(path, b as u32, by_int).into(),
        libc::SYS_chown => calls::set_owner(path, b as u32, c as u32, by_int).into(),
        libc::SYS_lchown => calls::set_owner(link, b as u32, c as u32, by_int).into(),
        libc::SYS_utime | libc::SYS_utimes => calls::set_times(path, by_int).into(),
        libc::SYS_readlink => {
            calls::read_link(link, (b as *mut c_char, c), || kernel() as isize) as c_long
        }
        libc::SYS_mkdir => calls::make_other(link, by_int).into(),
        _ => return None,
    })
}

/// The same.
///
/// # Safety
/// As for the call of that number.
#[cfg(not(target_arch = "x86_64"))]
unsafe fn old(_number: c_long, _words: [usize; 6]) -> Option<c_long> {
    None
}
