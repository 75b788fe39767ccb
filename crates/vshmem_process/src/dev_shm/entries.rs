//! readdir(3) of /dev/shm: the kernel's entries, but for those whose name an object has, and then
//! the objects. What they are is asked for when the directory is opened, and at rewinddir(3).
//!
//! These calls use the heap, as libc's do: no signal handler may make them.

use std::ffi::{CStr, c_long};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use libc::{DIR, c_int, dirent64};
use vshmem_ipc::Kind;

use super::find;
use super::names::Name;
use crate::errno;
use crate::posix::state::inode_of;
use crate::session::cancel::uncancelled;
use crate::session::current;

/// Directories that are open at the same time; of more, the kernel's entries are shown.
const MOST: usize = 64;
/// Places behind the kernel's entries begin here: no tmpfs has such.
const FIRST_PLACE: c_long = 1 << 60;

/// The objects as one open directory shows them.
struct Shown {
    /// In the order of their names.
    objects: Vec<(Vec<u8>, i32)>,
    /// The next one, once the kernel's entries are through.
    next: Option<usize>,
    entry: dirent64,
}

impl Shown {
    fn has(&self, name: &[u8]) -> bool {
        self.objects.binary_search_by(|(object, _)| object.as_slice().cmp(name)).is_ok()
    }

    /// The next object's entry; null behind the last.
    fn take(&mut self, nth: usize) -> *mut dirent64 {
        let Some((name, id)) = self.objects.get(nth) else { return std::ptr::null_mut() };
        self.next = Some(nth + 1);
        self.entry.d_ino = inode_of(*id);
        self.entry.d_off = FIRST_PLACE + nth as c_long + 1;
        self.entry.d_reclen = size_of::<dirent64>() as u16;
        self.entry.d_type = libc::DT_REG;
        for (place, byte) in self.entry.d_name.iter_mut().zip(name.iter().chain(&[0])) {
            *place = *byte as libc::c_char;
        }
        &raw mut self.entry
    }
}

/// A directory stream that is /dev/shm.
struct Open {
    stream: AtomicPtr<DIR>,
    shown: AtomicPtr<Shown>,
}

static OPEN: [Open; MOST] = [const {
    Open {
        stream: AtomicPtr::new(std::ptr::null_mut()),
        shown: AtomicPtr::new(std::ptr::null_mut()),
    }
}; MOST];
/// How many there are.
static COUNT: AtomicUsize = AtomicUsize::new(0);

#[inline]
fn find_open(stream: *mut DIR) -> Option<&'static Open> {
    if COUNT.load(Ordering::Relaxed) == 0 || stream.is_null() {
        return None;
    }
    OPEN.iter().find(|open| open.stream.load(Ordering::Acquire) == stream)
}

/// What a stream shows. Threads that share a stream take turns, as readdir(3) has it.
#[inline]
fn shown_by<'a>(stream: *mut DIR) -> Option<&'a mut Shown> {
    let shown = find_open(stream)?.shown.load(Ordering::Acquire);
    // SAFETY: it is freed by closedir(3) alone, after which the program does not use the stream; by
    // the same contract no two threads use it at once.
    unsafe { shown.as_mut() }
}

/// The names of objects that are shown, and their ids.
fn objects() -> Vec<(Vec<u8>, i32)> {
    let list = || {
        let client = current::session().ok()?.client();
        let rows = client.pool().objects(Kind::Segment).ok()?;
        let named = rows.into_iter().filter_map(|row| {
            let id = client.id_of(row).ok()?;
            Some((client.posix_shm_name(id).ok()?, id))
        });
        let mut objects: Vec<_> = named.filter(|(name, _)| Name::of(name).is_some()).collect();
        objects.sort_unstable();
        objects.dedup_by(|one, other| one.0 == other.0);
        Some(objects)
    };
    errno::untouched(|| uncancelled(list)).unwrap_or_default()
}

/// To be called when a stream of a directory has been opened.
pub fn opened(stream: *mut DIR, file: c_int) {
    if stream.is_null() || !find::in_use() || !find::note_directory(file) {
        return;
    }
    // SAFETY: all-zero bytes are a value of it.
    let entry = unsafe { std::mem::zeroed() };
    let shown = Box::into_raw(Box::new(Shown { objects: objects(), next: None, entry }));
    let null = std::ptr::null_mut();
    let order = (Ordering::AcqRel, Ordering::Relaxed);
    for open in &OPEN {
        // A place is free from the moment that nothing is shown by it.
        if open.shown.compare_exchange(null, shown, order.0, order.1).is_ok() {
            open.stream.store(stream, Ordering::Release);
            COUNT.fetch_add(1, Ordering::Release);
            return;
        }
    }
    // SAFETY: it was made above, and no other code knows it.
    drop(unsafe { Box::from_raw(shown) });
}

/// To be called when a stream is about to be closed.
pub fn close(stream: *mut DIR) {
    let Some(open) = find_open(stream) else { return };
    open.stream.store(std::ptr::null_mut(), Ordering::Release);
    let shown = open.shown.swap(std::ptr::null_mut(), Ordering::AcqRel);
    COUNT.fetch_sub(1, Ordering::Release);
    if !shown.is_null() {
        // SAFETY: it was made by `opened`, and has just been taken out of the table.
        drop(unsafe { Box::from_raw(shown) });
    }
}

/// readdir64(3), which is readdir(3) on these machines.
#[inline]
pub fn read(stream: *mut DIR, mut kernel: impl FnMut() -> *mut dirent64) -> *mut dirent64 {
    match shown_by(stream) {
        None => kernel(),
        Some(shown) => read_shown(shown, &mut kernel),
    }
}

#[cold]
fn read_shown(shown: &mut Shown, kernel: &mut dyn FnMut() -> *mut dirent64) -> *mut dirent64 {
    if let Some(next) = shown.next {
        return shown.take(next);
    }
    let before = errno::get();
    loop {
        // SAFETY: errno is this thread's own.
        unsafe { *libc::__errno_location() = 0 };
        let entry = kernel();
        if entry.is_null() && errno::get() != 0 {
            return entry;
        }
        // SAFETY: as above.
        unsafe { *libc::__errno_location() = before };
        if entry.is_null() {
            shown.next = Some(0);
            return shown.take(0);
        }
        // SAFETY: libc has filled the entry in, and its name is a C string.
        if !shown.has(unsafe { CStr::from_ptr((*entry).d_name.as_ptr()) }.to_bytes()) {
            return entry;
        }
    }
}

/// rewinddir(3) has been called.
pub fn rewound(stream: *mut DIR) {
    if let Some(shown) = shown_by(stream) {
        (shown.objects, shown.next) = (objects(), None);
    }
}

/// telldir(3).
pub fn tell(stream: *mut DIR, kernel: impl FnOnce() -> c_long) -> c_long {
    let next = shown_by(stream).and_then(|shown| shown.next);
    next.map_or_else(kernel, |next| FIRST_PLACE + next as c_long)
}

/// seekdir(3).
pub fn seek(stream: *mut DIR, place: c_long, kernel: impl FnOnce()) {
    let Some(shown) = shown_by(stream) else { return kernel() };
    shown.next = usize::try_from(place - FIRST_PLACE).ok();
    if shown.next.is_none() {
        kernel();
    }
}
