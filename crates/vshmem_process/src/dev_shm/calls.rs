//! Calls on a file by its path: they find an object, or else the kernel's file.

use libc::{c_char, c_int, gid_t, mode_t, off_t, uid_t};
use vshmem_ipc::Errno;

use super::find::{self, Found, NO_DIRECTORY};
use super::names::Name;
use crate::errno;
use crate::mapping::user;
use crate::next::system_call;
use crate::object_descriptors::Object;
use crate::one_host::paths as one_host;
use crate::posix::state::{self, FileState};
use crate::posix::{directory, shared_memory, size};
use crate::session::caller::Credentials;
use crate::session::cancel::uncancelled;
use crate::session::current;

/// A path as a program passes it.
#[derive(Debug, Clone, Copy)]
pub struct Path {
    /// The directory from which it leads, if it is relative.
    pub at: c_int,
    /// Its words.
    pub text: *const c_char,
    /// Whether the last link of it is followed.
    pub follows: bool,
}

impl Path {
    /// From the current directory, through all links.
    pub fn here(text: *const c_char) -> Self {
        Self { at: libc::AT_FDCWD, text, follows: true }
    }

    /// From the current directory, to a link itself.
    pub fn of_link(text: *const c_char) -> Self {
        Self { follows: false, ..Self::here(text) }
    }

    /// From a directory; the last link counts unless the flags have AT_SYMLINK_NOFOLLOW.
    pub fn from(at: c_int, text: *const c_char, flags: c_int) -> Self {
        Self { at, text, follows: flags & libc::AT_SYMLINK_NOFOLLOW == 0 }
    }
}

/// A call that wants a file that is there: `object` where the path leads to one, else `kernel`.
#[inline]
pub fn on_existing(
    path: Path,
    kernel: impl FnOnce() -> i64,
    object: impl Fn(&Name, i32) -> Result<i64, Errno>,
) -> i64 {
    if !find::in_use() {
        return kernel();
    }
    if let Some(answer) = answered(find::quick(path.at, path.text), &object) {
        return answer;
    }
    let result = kernel();
    if result != -1 {
        return result;
    }
    let found = find::after_failure(path.at, path.text, path.follows);
    answered(found, &object).unwrap_or(result)
}

/// As [`on_existing`], for calls that return 0 or -1.
#[inline]
pub fn on_existing_int(
    path: Path,
    kernel: impl FnOnce() -> c_int,
    object: impl Fn(&Name, i32) -> Result<(), Errno>,
) -> c_int {
    on_existing(path, || kernel().into(), |name, id| object(name, id).map(|()| 0)) as c_int
}

fn answered(found: Found, object: impl Fn(&Name, i32) -> Result<i64, Errno>) -> Option<i64> {
    match found {
        Found::Name(name, Some(id)) => {
            let done = uncancelled(|| object(&name, id));
            // It has gone meanwhile.
            Some(errno::answer(done.map_err(|errno| gone(id, errno))))
        }
        Found::InObject => Some(errno::answer::<i64>(Err(NO_DIRECTORY))),
        Found::Name(_, None) | Found::Elsewhere => None,
    }
}

/// What is said of an object that has gone: the pool says EINVAL of its id.
fn gone(id: i32, errno: Errno) -> Errno {
    let is_there = || FileState::of(Object::SharedMemory(id)).is_some();
    if errno == Errno::INVAL && !is_there() { Errno::NOENT } else { errno }
}

fn state_of(id: i32) -> Result<FileState, Errno> {
    FileState::of(Object::SharedMemory(id)).ok_or(Errno::NOENT)
}

/// Fills in what a program has room for, beginning with zeros.
pub(super) fn fill<T>(into: *mut T, with: impl FnOnce(&mut T)) -> Result<(), Errno> {
    user::check(into.cast(), size_of::<T>(), true)?;
    // SAFETY: the room was just found to be there; all-zero bytes are a value of what the calls
    // fill in: structures of integers.
    unsafe {
        into.write(std::mem::zeroed());
        with(&mut *into);
    }
    Ok(())
}

/// stat(2) and its kin.
#[inline]
pub fn stat(path: Path, into: *mut libc::stat, kernel: impl FnOnce() -> c_int) -> c_int {
    let kernel = || one_host::stated(path.text, into, kernel());
    on_existing_int(path, kernel, |_, id| {
        let state = state_of(id)?;
        fill(into, |into| state.describe(into))
    })
}

/// statx(2).
#[inline]
pub fn statx(path: Path, into: *mut libc::statx, kernel: impl FnOnce() -> c_int) -> c_int {
    let kernel = || one_host::stated_more(path.text, into, kernel());
    on_existing_int(path, kernel, |_, id| {
        let state = state_of(id)?;
        fill(into, |into| state.describe_more(into))
    })
}

/// access(2) and its kin.
#[inline]
pub fn access(path: Path, mode: c_int, kernel: impl FnOnce() -> c_int) -> c_int {
    let kernel = || one_host::accessed(path.text, mode, kernel());
    on_existing_int(path, kernel, |_, id| {
        if mode & !7 != 0 {
            return Err(Errno::INVAL);
        }
        may(id, mode as u32)
    })
}

fn may(id: i32, wanted: u32) -> Result<(), Errno> {
    current::session()?.client().posix_shm_access(id, wanted, &Credentials::now())
}

/// unlink(2).
#[inline]
pub fn unlink(path: Path, kernel: impl FnOnce() -> c_int) -> c_int {
    on_existing_int(path, kernel, |name, _| {
        shared_memory::unlink(name.bytes()).map_err(|errno| match errno {
            // shm_unlink(3) says so in its place.
            Errno::ACCESS => Errno::PERM,
            errno => errno,
        })
    })
}

/// rmdir(2), and whatever wants a directory.
#[inline]
pub fn directory_alone(path: Path, kernel: impl FnOnce() -> c_int) -> c_int {
    on_existing_int(path, kernel, |_, _| Err(Errno::NOTDIR))
}

/// truncate(2).
#[inline]
pub fn truncate(text: *const c_char, bytes: off_t, kernel: impl FnOnce() -> c_int) -> c_int {
    on_existing_int(Path::here(text), kernel, |_, id| {
        let bytes = u64::try_from(bytes).map_err(|_| Errno::INVAL)?;
        may(id, libc::W_OK as u32)?;
        size::set_size(current::session()?, id, bytes)
    })
}

/// chmod(2) and its kin.
#[inline]
pub fn set_mode(path: Path, mode: mode_t, kernel: impl FnOnce() -> c_int) -> c_int {
    on_existing_int(path, kernel, |_, id| state::set_mode_of(id, mode))
}

/// chown(2) and its kin.
#[inline]
pub fn set_owner(path: Path, uid: uid_t, gid: gid_t, kernel: impl FnOnce() -> c_int) -> c_int {
    on_existing_int(path, kernel, |_, id| state::set_owner_of(id, uid, gid))
}

/// utimensat(2) and its kin, which change nothing of an object.
#[inline]
pub fn set_times(path: Path, kernel: impl FnOnce() -> c_int) -> c_int {
    on_existing_int(path, kernel, |_, _| Ok(()))
}

/// readlink(2).
#[inline]
pub fn read_link(
    path: Path,
    (into, bytes): (*mut c_char, usize),
    kernel: impl FnOnce() -> isize,
) -> isize {
    let path = Path { follows: false, ..path };
    let kernel = || one_host::link_read(path.text, into, bytes, kernel());
    on_existing(path, || kernel() as i64, |_, _| Err(Errno::INVAL)) as isize
}

/// mkdir(2), symlink(2) and other calls that make no regular file: what has the name is in the way.
#[inline]
pub fn make_other(path: Path, kernel: impl FnOnce() -> c_int) -> c_int {
    let path = Path { follows: false, ..path };
    if !find::in_use() {
        return kernel();
    }
    let found = find::quick(path.at, path.text);
    match answered(found, |_, _| Err(Errno::EXIST)) {
        Some(answer) => answer as c_int,
        None => {
            let made = kernel();
            directory::forget();
            made
        }
    }
}

/// getxattr(2) and its kin: an object has no attributes.
#[inline]
pub fn attribute(path: Path, name: *const c_char, kernel: impl FnOnce() -> isize) -> isize {
    on_existing(path, || kernel() as i64, |_, _| Err(no_attribute(name))) as isize
}

/// As /dev/shm says it, which may have none at all.
fn no_attribute(name: *const c_char) -> Errno {
    let words = [directory::PATH.as_ptr().addr(), name.addr(), 0, 0];
    // SAFETY: the path is a C string, the name is the kernel's to check, and nothing is written.
    match unsafe { system_call(libc::SYS_getxattr, words) } {
        -1 => Errno::from_raw_os_error(errno::get()),
        _ => Errno::NODATA,
    }
}

/// listxattr(2) and its kin.
#[inline]
pub fn attributes(path: Path, kernel: impl FnOnce() -> isize) -> isize {
    on_existing(path, || kernel() as i64, |_, _| Ok(0)) as isize
}

/// The object's name, for realpath(3): `None` where libc's answer counts.
pub fn true_path(
    text: *const c_char,
    failed: bool,
    into: &mut [u8; libc::PATH_MAX as usize],
) -> bool {
    if !find::in_use() {
        return false;
    }
    let found = match find::quick(libc::AT_FDCWD, text) {
        Found::Name(name, Some(id)) => Found::Name(name, Some(id)),
        _ if failed => find::after_failure(libc::AT_FDCWD, text, true),
        _ => return false,
    };
    let Found::Name(name, Some(_)) = found else {
        if matches!(found, Found::InObject) {
            errno::set(NO_DIRECTORY);
        }
        return false;
    };
    let before = b"/dev/shm/";
    into[..before.len()].copy_from_slice(before);
    into[before.len()..][..name.bytes().len()].copy_from_slice(name.bytes());
    into[before.len() + name.bytes().len()] = 0;
    true
}
