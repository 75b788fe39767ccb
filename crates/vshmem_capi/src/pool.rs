//! Opening a pool, and its memory.

use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::PathBuf;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use vshmem_ipc::{Attachment, Client, ClientRow, DomainRow, Errno, WaitPolicy};
use vshmem_mem::{ForkMark, Map, Protection};
use vshmem_session::{Session, SessionError};
use vshmem_wire::ClientId;

use crate::handle::{OpenPool, OpenWord, forget_closed, open_pools};
use crate::membership::Membership;
use crate::{agent, answer, attach::attach_any, caller::Credentials};

/// A file of a guest in which its operator names its pool.
const CONFIGURED: &str = "/run/vshmem/pool";

/// A pool that this process has joined: `vshmem_pool`.
#[derive(Debug)]
pub struct Pool {
    open_word: OpenWord,
    pub(crate) session: Option<Session>,
    pub(crate) mark: ForkMark,
    path: PathBuf,
    /// The whole pool.
    map: Arc<Map>,
    base: NonNull<u8>,
    /// Memory that was given to C: the segment's id and its bytes, by its offset.
    pub(crate) held: Mutex<HashMap<u64, (i32, u64)>>,
    /// What becomes of it when its domain leaves.
    pub(crate) membership: Membership,
}

// SAFETY: the address is that of a mapping that `map` keeps; what lies there is reached through
// checked accesses only, from any thread.
unsafe impl Send for Pool {}
// SAFETY: as above.
unsafe impl Sync for Pool {}

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pool {
    fn open(name: Option<&str>) -> Result<Arc<Self>, String> {
        let environment = || std::env::var("VSHMEM_POOL").ok();
        let configured = || std::fs::read_to_string(CONFIGURED).ok();
        let name = name
            .map(str::to_owned)
            .or_else(environment)
            .or_else(configured)
            .map(|name| name.trim().to_owned())
            .filter(|name| !name.is_empty())
            .ok_or(
                "no pool is named. VSHMEM_POOL names one; `vshmem pool ls` shows those there are",
            )?;
        let said = |error: SessionError| error.to_string();
        let link = vshmem_session::find(&name).map_err(|error| error.to_string())?;
        let path = link.path().to_owned();
        let unmarked = |errno| format!("cannot mark this process: {errno}");
        // A pool that is opened twice is joined once.
        let mut open = open_pools().map_err(unmarked)?;
        forget_closed(&mut open);
        // A pool that the parent opened before a fork does not count as opened in the child.
        let is_it = |pool: &Arc<Self>| {
            let is_joined = !pool.membership.has_parted();
            pool.path == path && pool.mark.is_of_this_process() && is_joined
        };
        if let Some(pool) =
            open.iter().filter_map(Weak::upgrade).filter_map(|one| one.downcast().ok()).find(is_it)
        {
            return Ok(pool);
        }
        let mark = ForkMark::new().map_err(unmarked)?;
        let waits = WaitPolicy::of_word(std::env::var_os("VSHMEM_SPIN").as_deref());
        let session = Session::join_beside(link, waits).map_err(said)?;
        let bytes = session.client().pool().layout().total_bytes as usize;
        let mapping = session
            .link()
            .map(0, bytes, Protection::READ_WRITE)
            .map_err(|errno| format!("{}: cannot map it: {errno}", path.display()))?;
        let base = mapping.start();
        let map = Arc::new(Map::of(mapping));
        agent::ensure(&session);
        let (held, open_word) = (Mutex::new(HashMap::new()), OpenWord::new());
        let session = Some(session);
        let membership = Membership::default();
        let pool = Arc::new(Self { open_word, session, mark, path, map, base, held, membership });
        let weak: OpenPool = Arc::<Self>::downgrade(&pool);
        open.push(weak);
        Ok(pool)
    }

    /// The word of a pool that may have been closed; nothing is read.
    pub fn open_word(handle: *const Self) -> *const OpenWord {
        // SAFETY: the pool's memory is there, and only an address is computed.
        unsafe { &raw const (*handle).open_word }
    }

    /// The session, until the pool is dropped. EIO in a child of the process that opened the pool,
    /// EIDRM when this process has parted from it.
    pub fn session(&self) -> Result<&Session, Errno> {
        if self.membership.has_parted() {
            return Err(Errno::IDRM);
        }
        let is_ours = |_: &&Session| self.mark.is_of_this_process();
        self.session.as_ref().filter(is_ours).ok_or(Errno::IO)
    }

    /// The whole pool.
    pub fn map(&self) -> &Arc<Map> {
        &self.map
    }

    /// Address of an offset that lies in the pool.
    #[inline]
    pub fn address(&self, offset: u64) -> *mut u8 {
        self.base.as_ptr().wrapping_add(offset as usize)
    }

    /// Offset of an address in the pool, as this process has it.
    pub fn offset(&self, memory: *const c_void) -> u64 {
        memory.addr().wrapping_sub(self.base.as_ptr().addr()) as u64
    }

    /// Takes memory for this process, if so many bytes stay free.
    pub fn hold(&self, bytes: u64, spare: u64) -> Result<Attachment, Errno> {
        let session = self.session()?;
        session.client().hold_memory(bytes, spare, &Credentials, session)
    }

    /// Attaches another client's memory by its id.
    pub fn attach(&self, id: i32) -> Result<Attachment, Errno> {
        let attachment = attach_any(self.session()?, id)?;
        let end = attachment.offset.checked_add(attachment.bytes);
        if end.is_none_or(|end| end > self.map.bytes()) {
            let _ = self.detach(id);
            return Err(Errno::IO);
        }
        Ok(attachment)
    }

    /// Gives back one attach.
    pub fn detach(&self, id: i32) -> Result<(), Errno> {
        self.session()?.client().shmdt(id)
    }

    /// Whether the client with this id may still write into the pool: it is a member, or its domain
    /// was evicted and is not known to be dead.
    pub fn may_act(&self, name: u64) -> bool {
        let may =
            |this_client: &Client| ClientId::of(name).is_some_and(|name| this_client.may_act(name));
        self.session().is_ok_and(|session| may(session.client()))
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.open_word.close();
        let session = self.session.take();
        if !self.mark.is_of_this_process() {
            // The session is the parent's, which still uses it.
            std::mem::forget(session);
        } else if self.membership.has_parted() {
            // Its copy of the tables is of no use, and what it holds stays mapped.
            std::mem::forget(session);
        } else if let Some(session) = session {
            // If leaving fails, what this client holds is released when the process ends.
            let _ = session.leave();
        }
    }
}

/// Copies a sentence into the caller's buffer.
///
/// # Safety
/// `message` is null or has room for `bytes` bytes.
pub unsafe fn tell(text: &str, message: *mut c_char, bytes: usize) {
    if message.is_null() || bytes == 0 {
        return;
    }
    let length = text.len().min(bytes - 1);
    // SAFETY: as the caller guarantees; the end is written behind what was copied.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr(), message.cast(), length);
        message.add(length).write(0);
    }
}

/// Borrows a handle. EBADF: it is null, or was closed.
/// # Safety
/// `handle` is null or was given out by this library; no other thread closes it meanwhile.
pub unsafe fn borrow<'a>(handle: *const Pool) -> Result<&'a Pool, Errno> {
    if handle.is_null() {
        return Err(Errno::BADF);
    }
    // SAFETY: the memory of a closed pool is kept (see `forget_closed`), and this word of it stays
    // what closing has made it.
    let word = unsafe { &*Pool::open_word(handle) };
    if !word.is_open() {
        return Err(Errno::BADF);
    }
    // SAFETY: it is open, and stays so by this function's own contract.
    Ok(unsafe { &*handle })
}

/// The session of a handle. EIO in a child of the process that has opened it.
/// # Safety
/// As [`borrow`].
pub unsafe fn session_of<'a>(handle: *const Pool) -> Result<&'a Session, Errno> {
    // SAFETY: by this function's own contract.
    unsafe { borrow(handle) }.and_then(Pool::session)
}

/// Another reference to an open pool.
/// # Safety
/// As [`borrow`].
pub unsafe fn share(handle: *const Pool) -> Result<Arc<Pool>, Errno> {
    // SAFETY: by this function's own contract.
    unsafe { borrow(handle) }?;
    // SAFETY: handles are made of counted references, and one more is counted first.
    unsafe {
        Arc::increment_strong_count(handle);
        Ok(Arc::from_raw(handle))
    }
}

/// See vshmem.h.
///
/// # Safety
/// As vshmem.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vshmem_open(
    name: *const c_char,
    pool: *mut *const Pool,
    message: *mut c_char,
    bytes: usize,
) -> c_int {
    let name = if name.is_null() {
        None
    } else {
        // SAFETY: the caller passes a C string.
        match unsafe { CStr::from_ptr(name) }.to_str() {
            Ok(name) => Some(name),
            Err(_) => return -Errno::INVAL.raw_os_error(),
        }
    };
    match Pool::open(name) {
        Ok(opened) => {
            // SAFETY: the caller passes a place for the handle.
            unsafe { pool.write(Arc::into_raw(opened)) };
            0
        }
        Err(text) => {
            // SAFETY: the caller guarantees the buffer.
            unsafe { tell(&text, message, bytes) };
            -Errno::NODEV.raw_os_error()
        }
    }
}

/// See vshmem.h.
///
/// # Safety
/// As vshmem.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vshmem_close(pool: *const Pool) {
    // SAFETY: the caller passes a pool's handle, or null.
    if unsafe { borrow(pool) }.is_ok() {
        // SAFETY: the handle carries one count, which ends here.
        drop(unsafe { Arc::from_raw(pool) });
    }
}

/// See vshmem.h.
///
/// # Safety
/// As vshmem.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vshmem_identify(pool: *const Pool, uuid: *mut [u8; 16]) {
    // SAFETY: the caller passes a pool's handle and 16 bytes.
    unsafe {
        let session = borrow(pool).ok().and_then(|pool| pool.session.as_ref());
        let bytes = session.map_or([0; 16], |session| session.client().pool().superblock().uuid);
        uuid.write(bytes);
    }
}

/// See vshmem.h.
///
/// # Safety
/// As vshmem.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vshmem_whoami(
    pool: *const Pool,
    name: *mut c_char,
    domain: *mut u32,
    client: *mut u32,
) {
    // SAFETY: the caller passes a pool's handle, 64 bytes and two words.
    unsafe {
        name.write(0);
        domain.write(0);
        client.write(0);
        let Ok(Some(session)) = borrow(pool).map(|pool| pool.session.as_ref()) else { return };
        tell(&session.client().pool().name(), name, 64);
        domain.write(session.client().domain());
        client.write(session.client().client_id().short());
    }
}

/// `struct vshmem_domain`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Domain {
    index: u32,
    epoch: u32,
}

/// See vshmem.h.
///
/// # Safety
/// As vshmem.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vshmem_domain(pool: *const Pool, domain: *mut Domain) -> c_int {
    // SAFETY: the caller passes a pool's handle.
    let session = unsafe { session_of(pool) };
    answer(session.and_then(|session| {
        let index = session.client().domain();
        let epoch = session.client().pool().domain_epoch(index)?.ok_or(Errno::IO)?;
        // SAFETY: the caller passes a place for the domain.
        unsafe { domain.write(Domain { index, epoch }) };
        Ok(0)
    }))
}

/// See vshmem.h.
///
/// # Safety
/// As vshmem.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vshmem_domain_named(
    pool: *const Pool,
    name: *const c_char,
    domain: *mut Domain,
) -> c_int {
    // SAFETY: the caller passes a pool's handle and a C string.
    let (session, name) = unsafe { (session_of(pool), CStr::from_ptr(name).to_bytes()) };
    answer(session.and_then(|session| {
        let members = session.client().pool();
        let rows = members.domains()?;
        let living = |row: &&DomainRow| {
            members.domain_epoch(row.index) == Ok(Some(row.epoch)) && row.name.as_bytes() == name
        };
        let found = rows.iter().find(living).ok_or(Errno::NOENT)?;
        // SAFETY: the caller passes a place for the domain.
        unsafe { domain.write(Domain { index: found.index, epoch: found.epoch }) };
        Ok(0)
    }))
}

/// See vshmem.h.
///
/// # Safety
/// As vshmem.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vshmem_domain_alive(pool: *const Pool, domain: *const Domain) -> c_int {
    // SAFETY: the caller passes a pool's handle and a domain.
    let (session, domain) = unsafe { (session_of(pool), *domain) };
    answer(session.and_then(|session| {
        let epoch = session.client().pool().domain_epoch(domain.index)?;
        Ok((epoch == Some(domain.epoch)).into())
    }))
}

/// See vshmem.h.
///
/// # Safety
/// As vshmem.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vshmem_neighbours(pool: *const Pool) -> c_int {
    // SAFETY: the caller passes a pool's handle.
    let session = unsafe { session_of(pool) };
    answer(session.and_then(|session| {
        let this_client = session.client();
        let domains = this_client.pool().domains()?;
        // Containers are domains of their own and share the CPUs of their kernel.
        let boot_of = |index| domains.iter().find(|row| row.index == index).map(|row| row.boot);
        let mine = boot_of(this_client.domain());
        // This process counts although it holds nothing yet. Other processes count if they hold
        // something: agents and processes that only list the pool do not.
        let me = this_client.client_slot();
        let here =
            |row: &&ClientRow| row.index == me || row.attaches > 0 && boot_of(row.domain) == mine;
        Ok(this_client.pool().clients()?.iter().filter(here).count() as c_int)
    }))
}

/// See vshmem.h.
///
/// # Safety
/// As vshmem.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vshmem_attaches(pool: *const Pool) -> u32 {
    // SAFETY: the caller passes a pool's handle.
    let session = unsafe { session_of(pool) };
    session.map_or(0, |session| session.client().pool().layout().attaches.count as u32)
}

/// See vshmem.h.
///
/// # Safety
/// As vshmem.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vshmem_base(pool: *const Pool) -> *mut c_void {
    // SAFETY: the caller passes a pool's handle.
    unsafe { borrow(pool) }.map_or(std::ptr::null_mut(), |pool| pool.base.as_ptr().cast())
}

/// See vshmem.h.
///
/// # Safety
/// As vshmem.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vshmem_bytes(pool: *const Pool) -> u64 {
    // SAFETY: the caller passes a pool's handle.
    unsafe { borrow(pool) }.map_or(0, |pool| pool.map.bytes())
}
