//! statfs(2) and statvfs(3) of an object, and of /dev/shm: it is a tmpfs with the pool's room.

use libc::c_int;
use vshmem_ipc::Errno;
use vshmem_wire::PAGE_BYTES;

use super::calls::{self, Path};
use super::find;
use super::text::Text;
use crate::errno;
use crate::next::system_call;
use crate::object_descriptors::open;
use crate::posix::directory;
use crate::session::current;

/// What a call has of the file system: blocks, and how many of them are free.
#[derive(Debug, Clone, Copy)]
pub struct Room {
    /// All of the pool.
    pub blocks: u64,
    /// Free ones.
    pub free: u64,
}

/// Room of the pool, in pages.
fn room() -> Result<Room, Errno> {
    let pool = current::session()?.client().pool();
    let blocks = pool.geometry().pages;
    let free = blocks.saturating_sub(pool.usage()?.bytes / PAGE_BYTES);
    Ok(Room { blocks, free })
}

/// A structure that statfs(2) or statvfs(3) fills in.
pub trait Filled {
    /// What /dev/shm says of itself.
    fn copy(&mut self, kernel: &libc::statfs);
    /// It is a tmpfs with the pool's room.
    fn set_room(&mut self, room: Room);
}

impl Filled for libc::statfs {
    fn copy(&mut self, kernel: &libc::statfs) {
        *self = *kernel;
    }

    fn set_room(&mut self, room: Room) {
        self.f_type = libc::TMPFS_MAGIC as _;
        self.f_bsize = PAGE_BYTES as _;
        self.f_frsize = PAGE_BYTES as _;
        self.f_blocks = room.blocks;
        (self.f_bfree, self.f_bavail) = (room.free, room.free);
    }
}

impl Filled for libc::statvfs {
    fn copy(&mut self, kernel: &libc::statfs) {
        (self.f_files, self.f_ffree) = (kernel.f_files, kernel.f_ffree);
        self.f_favail = kernel.f_ffree;
        self.f_namemax = kernel.f_namelen as u64;
    }

    fn set_room(&mut self, room: Room) {
        self.f_bsize = PAGE_BYTES;
        self.f_frsize = PAGE_BYTES;
        self.f_blocks = room.blocks;
        (self.f_bfree, self.f_bavail) = (room.free, room.free);
    }
}

/// What the kernel says of /dev/shm.
fn kernels() -> Result<libc::statfs, Errno> {
    // SAFETY: all-zero bytes are a value of it.
    let mut state: libc::statfs = unsafe { std::mem::zeroed() };
    let words = [directory::PATH.as_ptr().addr(), (&raw mut state).addr()];
    // SAFETY: the path is a C string, and the kernel fills in the other.
    match unsafe { system_call(libc::SYS_statfs, words) } {
        0 => Ok(state),
        _ => Err(Errno::from_raw_os_error(errno::get())),
    }
}

/// Of an object.
fn fill<T: Filled>(into: *mut T) -> Result<(), Errno> {
    let (kernel, room) = (kernels()?, room()?);
    calls::fill(into, |into| {
        into.copy(&kernel);
        into.set_room(room);
    })
}

/// The kernel has filled in the rest. Where the pool cannot be asked, its answer stays.
fn correct<T: Filled>(into: *mut T) {
    if let Ok(room) = errno::untouched(room) {
        // SAFETY: the kernel has just written to it.
        unsafe { (*into).set_room(room) };
    }
}

/// By path, by whatever call.
#[inline]
pub fn by_path<T: Filled>(path: Path, into: *mut T, kernel: impl FnOnce() -> c_int) -> c_int {
    let result = calls::on_existing_int(path, kernel, |_, _| fill(into));
    if result == 0 && find::in_use() && leads_to_directory(path) {
        correct(into);
    }
    result
}

/// Of a descriptor, by whatever call.
#[inline]
pub fn by_descriptor<T: Filled>(
    file: c_int,
    into: *mut T,
    kernel: impl FnOnce() -> c_int,
) -> c_int {
    let result = kernel();
    let is_ours = || {
        let is_directory = || directory::is_at(file, c"");
        open::object_of(file).is_some() && open::shared_memory(file).is_some() || is_directory()
    };
    if result == 0 && find::in_use() && is_ours() {
        correct(into);
    }
    result
}

fn leads_to_directory(path: Path) -> bool {
    Text::of(path.text).is_some_and(|text| directory::is_at(path.at, text.c_string()))
}
