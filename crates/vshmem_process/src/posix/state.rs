//! fstat(2), statx(2), fchmod(2), fchown(2) of a descriptor of an object, and what they tell and
//! set of an object however it was found.
//!
//! The kernel is asked first, about the file behind the descriptor: it says whether the descriptor
//! is open and the buffer is good, and by the file's identity whether the number still stands for
//! the object. Then what it has said is replaced by what the object is.

use libc::{c_int, gid_t, mode_t, uid_t};
use vshmem_ipc::Errno;

use crate::attached::addresses::PAGE;
use crate::errno;
use crate::object_descriptors::{Object, open};
use crate::posix::directory;
use crate::session::caller::Credentials;
use crate::session::{current, home_namespace};

/// Inode numbers of objects begin here: the kernel's of memfds have 32 bits.
const FIRST_INODE: u64 = 1 << 40;
/// What the kernel says of the file of any queue.
const QUEUE_BYTES: u64 = 80;
/// Of the kernel's unit for `st_blocks`.
const BLOCK: u64 = 512;

/// What an object says of itself, as a file.
#[derive(Debug)]
pub struct FileState {
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
    FileState::of(known.object)
}

/// The inode number of a shared memory object.
pub fn inode_of(id: i32) -> u64 {
    FIRST_INODE + u64::from(id as u32)
}

impl FileState {
    /// Of an object that is there.
    pub fn of(object: Object) -> Option<Self> {
        errno::untouched(|| Self::ask(object))
    }

    fn ask(object: Object) -> Option<Self> {
        let this_client = current::session().ok()?.client();
        match object {
            Object::SharedMemory(id) => {
                this_client.posix_shm_stat(id).ok().map(|state| FileState {
                    inode: inode_of(state.id),
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
    }

    fn mode(&self) -> u32 {
        libc::S_IFREG | self.mode
    }

    /// Into what fstat(2) has filled in, or zeros.
    pub fn describe(&self, into: &mut libc::stat) {
        if let Some(directory) = directory::identity() {
            into.st_dev = directory.device;
        }
        into.st_ino = self.inode;
        into.st_mode = self.mode();
        into.st_nlink = self.named.into();
        (into.st_uid, into.st_gid) = home_namespace::shown(self.uid, self.gid);
        into.st_size = self.size as libc::off_t;
        into.st_blksize = PAGE as libc::blksize_t;
        into.st_blocks = (self.capacity / BLOCK) as libc::blkcnt_t;
        into.st_atime = self.attach_time.max(self.changed).into();
        (into.st_mtime, into.st_ctime) = (self.changed.into(), self.changed.into());
        (into.st_atime_nsec, into.st_mtime_nsec, into.st_ctime_nsec) = (0, 0, 0);
    }

    /// Into what statx(2) has filled in, or zeros.
    pub fn describe_more(&self, into: &mut libc::statx) {
        if let Some(directory) = directory::identity() {
            into.stx_dev_major = libc::major(directory.device);
            into.stx_dev_minor = libc::minor(directory.device);
        }
        into.stx_mask |= libc::STATX_BASIC_STATS;
        into.stx_ino = self.inode;
        into.stx_mode = self.mode() as u16;
        into.stx_nlink = self.named.into();
        (into.stx_uid, into.stx_gid) = home_namespace::shown(self.uid, self.gid);
        into.stx_size = self.size;
        into.stx_blksize = PAGE as u32;
        into.stx_blocks = self.capacity / BLOCK;
        for (stamp, seconds) in [
            (&mut into.stx_atime, self.attach_time.max(self.changed)),
            (&mut into.stx_mtime, self.changed),
            (&mut into.stx_ctime, self.changed),
        ] {
            (stamp.tv_sec, stamp.tv_nsec) = (seconds.into(), 0);
        }
    }
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
    if let Some(state) = ask(file) {
        state.describe(into);
    }
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
    if let Some(state) = ask(file) {
        state.describe_more(into);
    }
}

/// fchmod(2), by whatever call.
#[inline]
pub fn set_mode(file: c_int, mode: mode_t, call: impl FnOnce() -> c_int) -> c_int {
    if let Some(queue) = open::queue(file) {
        return change_queue(queue.id(), (None, None), Some(mode & 0o777));
    }
    on_object(file, call, |id| set_mode_of(id, mode))
}

/// chmod(2) of an object.
pub fn set_mode_of(id: i32, mode: mode_t) -> Result<(), Errno> {
    current::session()?.client().posix_shm_set_mode(id, mode, &Credentials::now())
}

/// chown(2) of an object.
pub fn set_owner_of(id: i32, uid: uid_t, gid: gid_t) -> Result<(), Errno> {
    let (uid, gid) = owner_in_pool(uid, gid)?;
    current::session()?.client().posix_shm_set_owner(id, uid, gid, &Credentials::now())
}

/// A user and a group as the pool has them; what is not given stays.
fn owner_in_pool(uid: uid_t, gid: gid_t) -> Result<(Option<u32>, Option<u32>), Errno> {
    let given = |id: u32| Some(id).filter(|&id| id != u32::MAX);
    home_namespace::given_some(given(uid), given(gid))
}

/// fchown(2), by whatever call.
#[inline]
pub fn set_owner(file: c_int, uid: uid_t, gid: gid_t, call: impl FnOnce() -> c_int) -> c_int {
    if let Some(queue) = open::queue(file) {
        return match owner_in_pool(uid, gid) {
            Ok(owner) => change_queue(queue.id(), owner, None),
            Err(errno) => errno::answer_unit(Err(errno)),
        };
    }
    on_object(file, call, |id| set_owner_of(id, uid, gid))
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
