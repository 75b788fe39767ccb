//! A named object of the pool, as all concepts use it: memory with a header that says whether it is
//! made, and by whom.
//!
//! A process that is killed while it makes an object leaves it unready. A process that meets such a
//! one claims it (the header's owner changes from a dead client to a living one, once) and unlinks
//! it: as only one can, no object of a later maker is unlinked in its place.

use std::collections::HashMap;
use std::ffi::{CStr, c_int};
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use iceoryx2_bb_elementary::package_version::PackageVersion;

use crate::pool::{self, Errno, answer, is_alive, this_client};
use crate::sys;

/// How often a process looks whether an object is made.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// How often a maker tries that finds what dead makers have left.
const MOST_TRIES: u32 = 100;

/// What every object begins with. Zero in a new one.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Header {
    /// iceoryx2's version when it is made.
    version: AtomicU64,
    /// The client that makes it, or, of a token of monitoring, that lives.
    pub owner: AtomicU64,
}

/// Why an object cannot be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    /// There is none of that name.
    Missing,
    /// It is being made.
    Unready,
    /// Another version of iceoryx2 has made it.
    Version,
    /// The pool says no.
    Pool(Errno),
}

impl From<Errno> for Refused {
    fn from(errno: Errno) -> Self {
        if errno == libc::ENOENT { Self::Missing } else { Self::Pool(errno) }
    }
}

/// An opening of an object: its id stays its own as long.
#[derive(Debug)]
pub(crate) struct Opening {
    id: c_int,
}

impl Opening {
    fn with(name: &CStr, flags: c_int, mode: u32, bytes: u64) -> Result<Self, Errno> {
        let (pool, flags) = (pool::handle()?, flags | libc::O_RDWR);
        // SAFETY: a pool's handle and a C string.
        let id = unsafe { sys::vshmem_shm_open(pool, name.as_ptr(), flags, mode, bytes) };
        answer(id).map(|id| Self { id })
    }

    pub fn of(name: &CStr) -> Result<Self, Errno> {
        Self::with(name, 0, 0, 0)
    }

    fn stat(&self) -> Result<sys::ShmStat, Errno> {
        let mut stat = sys::ShmStat::default();
        // SAFETY: a pool's handle and a place for the answer.
        answer(unsafe { sys::vshmem_shm_stat(pool::handle()?, self.id, &mut stat) })?;
        Ok(stat)
    }

    /// Whether the object still has its name.
    pub fn has_name(&self) -> bool {
        self.stat().is_ok_and(|stat| stat.links > 0)
    }

    /// Whether nobody uses the object, beside this opening and one attach of its own.
    fn is_alone(&self) -> Result<bool, Errno> {
        let times = attached().get(&self.id).map_or(0, |found| found.times);
        let stat = self.stat()?;
        Ok(times == 1 && stat.attaches == 1 && stat.opens == 1)
    }

    /// Whether it is one of this object.
    pub fn is_of(&self, object: &Object) -> bool {
        self.id == object.id
    }

    /// Makes it longer. Those that look whether it is ready have it attached for a moment, and it
    /// grows only without.
    pub fn grow(&self, bytes: u64) -> Result<(), Errno> {
        for _ in 0..MOST_TRIES {
            // SAFETY: a pool's handle.
            match answer(unsafe { sys::vshmem_shm_resize(pool::handle()?, self.id, bytes) }) {
                Err(libc::ENOSPC) if self.stat()?.attaches > 0 => std::thread::sleep(LOOK_AGAIN),
                result => return result.map(|_| ()),
            }
        }
        Err(libc::ENOSPC)
    }

    /// Attaches it.
    pub fn attach(&self) -> Result<Object, Errno> {
        let bytes = self.stat()?.bytes;
        if bytes < size_of::<Header>() as u64 {
            return Err(libc::EINVAL);
        }
        let mut attached = attached();
        if let Some(found) = attached.get_mut(&self.id) {
            found.times += 1;
            return Ok(Object { id: self.id, base: found.base, bytes: found.bytes });
        }
        let mut base = null_mut();
        // SAFETY: a pool's handle and a place for the address.
        answer(unsafe { sys::vshmem_attach(pool::handle()?, self.id, bytes, &mut base) })?;
        let base = NonNull::new(base.cast::<u8>()).ok_or(libc::EIO)?;
        let bytes = bytes as usize;
        attached.insert(self.id, Attached { base, bytes, times: 1 });
        Ok(Object { id: self.id, base, bytes })
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        if let Ok(pool) = pool::handle() {
            // SAFETY: a pool's handle; a failure means that this opening is gone already.
            unsafe { sys::vshmem_shm_close(pool, self.id) };
        }
    }
}

/// What this process has attached: libvshmem attaches an object once, iceoryx2 opens some often.
struct Attached {
    base: NonNull<u8>,
    bytes: usize,
    times: usize,
}

// SAFETY: an address of the pool's mapping, which all threads have.
unsafe impl Send for Attached {}

fn attached() -> MutexGuard<'static, HashMap<c_int, Attached>> {
    static ATTACHED: LazyLock<Mutex<HashMap<c_int, Attached>>> = LazyLock::new(Mutex::default);
    ATTACHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An object that this process has attached; it stays so until this is dropped.
#[derive(Debug)]
pub(crate) struct Object {
    id: c_int,
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: it is an address of the pool's mapping, which all threads have, and a count under a lock.
unsafe impl Send for Object {}
// SAFETY: as above; what lies there is the business of those that read it.
unsafe impl Sync for Object {}

impl Object {
    /// Makes an object of so many bytes, zeroed but for the header: it is this client's, and not
    /// ready.
    ///
    /// # Errors
    /// EEXIST, and those of the pool.
    pub fn make(name: &CStr, mode: u32, bytes: usize) -> Result<(Opening, Self), Errno> {
        let flags = libc::O_CREAT | libc::O_EXCL;
        for _ in 0..MOST_TRIES {
            match Opening::with(name, flags, mode, bytes as u64) {
                Ok(opening) => {
                    let object = opening.attach()?;
                    object.header().owner.store(this_client()?, Ordering::SeqCst);
                    return Ok((opening, object));
                }
                Err(libc::EEXIST) if remove_if_left(name)? => {}
                Err(errno) => return Err(errno),
            }
        }
        Err(libc::EEXIST)
    }

    /// Opens an object that is made; waits for so long until it is.
    pub fn open(name: &CStr, timeout: Duration) -> Result<Self, Refused> {
        let begun = Instant::now();
        loop {
            let opening = Opening::of(name)?;
            let object = opening.attach()?;
            match object.header().version.load(Ordering::SeqCst) {
                0 => {}
                version if version == PackageVersion::get().to_u64() => return Ok(object),
                _ => return Err(Refused::Version),
            }
            if remove_if_mine(name, &opening, &object)? {
                return Err(Refused::Missing);
            }
            if begun.elapsed() >= timeout {
                return Err(Refused::Unready);
            }
            drop((opening, object));
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// Whose it is.
    pub fn owner(&self) -> u64 {
        self.header().owner.load(Ordering::SeqCst)
    }

    /// From now on others may use it.
    pub fn make_ready(&self) {
        self.header().version.store(PackageVersion::get().to_u64(), Ordering::SeqCst);
    }

    pub fn header(&self) -> &Header {
        // SAFETY: an object is as long as its header at least, begins on a page, and is attached as
        // long as `self` lives; all of a header is atomic, and any bytes are such numbers.
        unsafe { self.base.cast::<Header>().as_ref() }
    }

    /// Where it lies, from its header on.
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        let mut attached = attached();
        let Some(found) = attached.get_mut(&self.id) else { return };
        found.times -= 1;
        if found.times == 0 {
            attached.remove(&self.id);
            if let Ok(pool) = pool::handle() {
                // SAFETY: a pool's handle, and memory that it has attached; nobody uses it.
                unsafe { sys::vshmem_release(pool, self.base.as_ptr().cast()) };
            }
        }
    }
}

/// Removes an object of that name if its maker has died before it was ready. True: the name is
/// free.
fn remove_if_left(name: &CStr) -> Result<bool, Errno> {
    match Object::open(name, Duration::ZERO) {
        Err(Refused::Missing) => Ok(true),
        Err(Refused::Pool(errno)) => Err(errno),
        Ok(_) | Err(Refused::Unready | Refused::Version) => Ok(false),
    }
}

/// Removes an unready object whose maker has died, unless another process does.
fn remove_if_mine(name: &CStr, opening: &Opening, object: &Object) -> Result<bool, Errno> {
    let owner = object.owner();
    let is_left = match owner {
        // Not yet named: its maker has it open beside this opening, or has died.
        0 => opening.stat()?.opens == 1,
        maker => !is_alive(maker),
    };
    Ok(is_left && claim(&object.header().owner, owner)? && opening.has_name() && unlink(name)?)
}

/// Removes an object that is ready, whose maker has died, and that nobody uses. True: it was one.
///
/// Others may open it meanwhile. They attach it first and then look whether it is ready, so that
/// either they are seen here, or they see that it is not.
pub(crate) fn remove_if_left_over(name: &CStr) -> Result<bool, Errno> {
    let opening = match Opening::of(name) {
        Err(libc::ENOENT) => return Ok(false),
        opening => opening?,
    };
    let object = opening.attach()?;
    let owner = object.owner();
    if is_alive(owner) || !opening.is_alone()? || !claim(&object.header().owner, owner)? {
        return Ok(false);
    }
    let version = object.header().version.swap(0, Ordering::SeqCst);
    if opening.is_alone()? && opening.has_name() {
        return unlink(name);
    }
    object.header().version.store(version, Ordering::SeqCst);
    Ok(false)
}

/// Makes a dead client's word this one's. False: another was faster.
pub(crate) fn claim(word: &AtomicU64, dead: u64) -> Result<bool, Errno> {
    let mine = this_client()?;
    Ok(word.compare_exchange(dead, mine, Ordering::SeqCst, Ordering::SeqCst).is_ok())
}

/// Removes the name. False: there was none.
pub(crate) fn unlink(name: &CStr) -> Result<bool, Errno> {
    // SAFETY: a pool's handle and a C string.
    match answer(unsafe { sys::vshmem_shm_unlink(pool::handle()?, name.as_ptr()) }) {
        Err(libc::ENOENT) => Ok(false),
        result => result.map(|_| true),
    }
}
