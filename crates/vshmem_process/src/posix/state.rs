//! fstat(2), statx(2), fchmod(2), fchown(2) of a descriptor of an object.
//!
//! The kernel is asked first, about the file behind the descriptor: it says whether the descriptor
//! is open and the buffer is good, and by the file's identity whether the number still stands for
//! the object. Then what it has said is replaced by what the object is.

use libc::{c_int, gid_t, mode_t, uid_t};
use vshmem_ipc::Errno;

use crate::errno;
use crate::object_descriptors::{Object, open};
use crate::session::caller::Credentials;
use crate::session::{current, home_namespace};

/// Inode numbers of objects begin here: the kernel's of memfds have 32 bits.
const FIRST_INODE: u64 = 1 << 40;
/// What the kernel says of the file of any queue.
const QUEUE_BYTES: u64 = 80;
/// Of the kernel's unit for `st_blocks`.
const BLOCK: u64 = 512;

/// What an object says of itself, as a file.
struct FileState {
    inode: u64,
    size: u64,
    capacity: u64,
    mode: u32,
    uid: u32,
    gid: u32,
    named: bool,
    attach_time: u32,
    changed: u32,
}

#[cold]
fn ask(file: c_int) -> Option<FileState> {
    let known = open::surely_object_of(file)?;
    errno::untouched(|| {
        let this_client = current::session().ok()?.client();
        match known.object {
            Object::SharedMemory(id) => {
                this_client.posix_shm_stat(id).ok().map(|state| FileState {
                    inode: FIRST_INODE + u64::from(state.id as u32),
                    size: state.size,
                    capacity: state.capacity,
                    mode: state.mode,
                    uid: state.uid,
                    gid: state.gid,
                    named: state.named,
                    attach_time: state.attach_time,
                    changed: state.changed,
                })
            }
            Object::Queue(id) => this_client.mq_stat(id).ok().map(|state| FileState {
                inode: 2 * FIRST_INODE + u64::from(id as u32),
                size: QUEUE_BYTES,
                capacity: 0,
                mode: state.permission.mode,
                uid: state.permission.uid,
                gid: state.permission.gid,
                named: state.named,
                attach_time: state.changed,
                changed: state.changed,
            }),
        }
    })
}

fn mode_of(state: &FileState) -> u32 {
    libc::S_IFREG | state.mode
}

/// fstat(2), by whatever call.
///
/// # Safety
/// `into` is as the call wants it.
#[inline]
pub unsafe fn fstat(file: c_int, into: *mut libc::stat, call: impl FnOnce() -> c_int) -> c_int {
    // SAFETY: the same contract.
    unsafe { fstat_at(file, into, || true, call) }
}

/// fstatat(2), by whatever call; `is_meant` says whether it is about the descriptor itself.
///
/// # Safety
/// `into` is as the call wants it.
#[inline]
pub unsafe fn fstat_at(
    file: c_int,
    into: *mut libc::stat,
    is_meant: impl FnOnce() -> bool,
    call: impl FnOnce() -> c_int,
) -> c_int {
    let result = call();
    if result == 0 && open::object_of(file).is_some() && is_meant() {
        // SAFETY: the call has just filled it in.
        unsafe { describe(file, &mut *into) };
    }
    result
}

#[cold]
fn describe(file: c_int, into: &mut libc::stat) {
    let Some(state) = ask(file) else { return };
    into.st_ino = state.inode;
    into.st_mode = mode_of(&state);
    into.st_nlink = state.named.into();
    (into.st_uid, into.st_gid) = home_namespace::shown(state.uid, state.gid);
    into.st_size = state.size as libc::off_t;
    into.st_blocks = (state.capacity / BLOCK) as libc::blkcnt_t;
    into.st_atime = state.attach_time.max(state.changed).into();
    (into.st_mtime, into.st_ctime) = (state.changed.into(), state.changed.into());
    (into.st_atime_nsec, into.st_mtime_nsec, into.st_ctime_nsec) = (0, 0, 0);
}

/// statx(2), by whatever call; `is_meant` says whether it is about the descriptor itself.
///
/// # Safety
/// `into` is as the call wants it.
#[inline]
pub unsafe fn statx(
    file: c_int,
    into: *mut libc::statx,
    is_meant: impl FnOnce() -> bool,
    call: impl FnOnce() -> c_int,
) -> c_int {
    let result = call();
    if result == 0 && open::object_of(file).is_some() && is_meant() {
        // SAFETY: the call has just filled it in.
        unsafe { describe_more(file, &mut *into) };
    }
    result
}

#[cold]
fn describe_more(file: c_int, into: &mut libc::statx) {
    let Some(state) = ask(file) else { return };
    into.stx_ino = state.inode;
    into.stx_mode = mode_of(&state) as u16;
    into.stx_nlink = state.named.into();
    (into.stx_uid, into.stx_gid) = home_namespace::shown(state.uid, state.gid);
    into.stx_size = state.size;
    into.stx_blocks = state.capacity / BLOCK;
    for (stamp, seconds) in [
        (&mut into.stx_atime, state.attach_time.max(state.changed)),
        (&mut into.stx_mtime, state.changed),
        (&mut into.stx_ctime, state.changed),
    ] {
        (stamp.tv_sec, stamp.tv_nsec) = (seconds.into(), 0);
    }
}

/// fchmod(2), by whatever call.
#[inline]
pub fn set_mode(file: c_int, mode: mode_t, call: impl FnOnce() -> c_int) -> c_int {
    if let Some(queue) = open::queue(file) {
        return change_queue(queue.id(), (None, None), Some(mode & 0o777));
    }
    on_object(file, call, |id| {
        let session = current::session()?;
        session.client().posix_shm_set_mode(id, mode, &Credentials::now())
    })
}

/// fchown(2), by whatever call.
#[inline]
pub fn set_owner(file: c_int, uid: uid_t, gid: gid_t, call: impl FnOnce() -> c_int) -> c_int {
    let given = |id: u32| Some(id).filter(|&id| id != u32::MAX);
    let (uid, gid) = (given(uid), given(gid));
    let in_pool = || home_namespace::given_some(uid, gid);
    if let Some(queue) = open::queue(file) {
        return match in_pool() {
            Ok(owner) => change_queue(queue.id(), owner, None),
            Err(errno) => errno::answer_unit(Err(errno)),
        };
    }
    on_object(file, call, |id| {
        let ((uid, gid), session) = (in_pool()?, current::session()?);
        session.client().posix_shm_set_owner(id, uid, gid, &Credentials::now())
    })
}

#[cold]
fn change_queue(id: i32, owner: (Option<u32>, Option<u32>), mode: Option<u32>) -> c_int {
    let changed = current::session()
        .and_then(|session| session.client().mq_set_owner(id, owner, mode, &Credentials::now()));
    errno::answer_unit(changed)
}

/// What is done to a shared memory object, or else to the kernel's file.
#[inline]
pub fn on_object(
    file: c_int,
    kernel: impl FnOnce() -> c_int,
    object: impl FnOnce(i32) -> Result<(), Errno>,
) -> c_int {
    open::on_shared_memory(file, kernel, |id, _| errno::answer_unit(object(id)))
}
