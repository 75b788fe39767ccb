//! shmget(2), shmat(2), shmdt(2), shmctl(2).

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use libc::{c_int, c_ulong, c_void, key_t, size_t};
use vshmem_ipc::{Errno, Kind, Member, SegmentStat};
use vshmem_mem::Protection;
use vshmem_session::Session;

use crate::attached::books::{Attaching, Changing, Piece, Rights};
use crate::attached::{mapping_cache, pieces};
use crate::errno;
use crate::intercept::control::{Call, Commands, IPC_INFO, highest};
use crate::mapping::{advice, unmap, user};
use crate::next::{next, system_call};
use crate::session::caller::Me;
use crate::session::{exit, join, route};

/// SHMLBA: addresses are rounded to it.
const BOUNDARY: usize = 4096;
/// Descriptor of a mapping without a file.
const NO_FILE: usize = usize::MAX;
const SHM_RDONLY: c_int = 0o10000;
const SHM_RND: c_int = 0o20000;
const SHM_REMAP: c_int = 0o40000;
const SHM_EXEC: c_int = 0o100_000;
const SHM_LOCK: c_int = 11;
const SHM_UNLOCK: c_int = 12;
const SHM_STAT: c_int = 13;
const SHM_INFO: c_int = 14;
const SHM_STAT_ANY: c_int = 15;
const COMMANDS: Commands = Commands { info: SHM_INFO, stat: SHM_STAT, stat_any: SHM_STAT_ANY };

/// Numbers the attaches of this process.
static ATTACHES: AtomicU32 = AtomicU32::new(0);

/// `struct shminfo`.
#[repr(C)]
#[derive(Clone, Copy)]
struct shminfo {
    shmmax: c_ulong,
    shmmin: c_ulong,
    shmmni: c_ulong,
    shmseg: c_ulong,
    shmall: c_ulong,
    unused: [c_ulong; 4],
}

/// `struct shm_info`.
#[repr(C)]
#[derive(Clone, Copy)]
struct shm_info {
    used_ids: c_int,
    shm_tot: c_ulong,
    shm_rss: c_ulong,
    shm_swp: c_ulong,
    swap_attempts: c_ulong,
    swap_successes: c_ulong,
}

/// shmget(2).
///
/// # Safety
/// None needed: no pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shmget(key: key_t, size: size_t, flags: c_int) -> c_int {
    if !route::key_in_pool(Kind::Segment, key) {
        let id = next!(c"shmget": fn(key_t, size_t, c_int) -> c_int, (key, size, flags), -1);
        return route::told_apart(Kind::Segment, key, flags, id, || {
            let _ = kernels(id, libc::IPC_RMID, std::ptr::null_mut());
        });
    }
    errno::answer_int(join::watchful_session().and_then(|session| {
        let member = session.member();
        exit::over_leavers(member, &[Errno::NOSPC, Errno::NOMEM], || {
            member.shmget(key, size as u64, flags, &Me::now(), &mapping_cache::Through(session))
        })
    }))
}

/// shmat(2).
///
/// # Safety
/// As libc's: with SHM_REMAP, what lies there is replaced.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shmat(id: c_int, address: *const c_void, flags: c_int) -> *mut c_void {
    attach_by(id, address, flags, || {
        next!(c"shmat": fn(c_int, *const c_void, c_int) -> *mut c_void,
              (id, address, flags), libc::MAP_FAILED)
    })
}

/// shmat(2), by name or by number: `kernel` passes it on. One by number must not come to the function
/// of the name, which others (UCX) redirect to themselves and then come back by number.
pub fn attach_by(
    id: c_int,
    address: *const c_void,
    flags: c_int,
    kernel: impl FnOnce() -> *mut c_void,
) -> *mut c_void {
    if !route::id_in_pool(Kind::Segment, id) {
        return match replaced_by_kernels(id, address.addr(), flags) {
            0 => kernel(),
            bytes => unmap::replacing(address.addr() & !(BOUNDARY - 1), bytes, kernel, |&result| {
                result != libc::MAP_FAILED
            }),
        };
    }
    match attach(id, address.addr(), flags) {
        Ok(start) => start.as_ptr().cast(),
        Err(error) => {
            errno::set(error);
            libc::MAP_FAILED
        }
    }
}

/// Bytes that an attach of a segment of the kernel's replaces.
fn replaced_by_kernels(id: c_int, start: usize, flags: c_int) -> usize {
    if flags & SHM_REMAP == 0 || start == 0 {
        return 0;
    }
    // SAFETY: all-zero bytes are a valid shmid_ds.
    let mut state: libc::shmid_ds = unsafe { std::mem::zeroed() };
    // Whoever may attach may ask.
    let asked = errno::untouched(|| kernels(id, libc::IPC_STAT, &raw mut state));
    if asked == 0 { state.shm_segsz } else { 0 }
}

/// The kernel's shmctl(2).
fn kernels(id: c_int, command: c_int, buffer: *mut libc::shmid_ds) -> c_int {
    next!(c"shmctl": fn(c_int, c_int, *mut libc::shmid_ds) -> c_int, (id, command, buffer), -1)
}

/// Where to map, as shmat(2) rounds it. `None`: anywhere.
fn target(address: usize, flags: c_int) -> Result<Option<usize>, Errno> {
    let replace = flags & SHM_REMAP != 0;
    if address == 0 {
        return if replace { Err(Errno::INVAL) } else { Ok(None) };
    }
    if address.is_multiple_of(BOUNDARY) {
        return Ok(Some(address));
    }
    if flags & SHM_RND == 0 {
        return Err(Errno::INVAL);
    }
    match address & !(BOUNDARY - 1) {
        0 if replace => Err(Errno::INVAL),
        // Only root may have anything there (mmap_min_addr), and nobody wants it.
        0 => Err(Errno::PERM),
        rounded => Ok(Some(rounded)),
    }
}

fn attach(id: c_int, address: usize, flags: c_int) -> Result<NonNull<u8>, Errno> {
    if id < 0 {
        return Err(Errno::INVAL);
    }
    let target = target(address, flags)?;
    let session = join::watchful_session()?;
    // One that takes the place of others changes the books as munmap(2) does.
    if flags & SHM_REMAP != 0 {
        let _changing = Changing::begin();
        return attach_at(session, id, target, flags);
    }
    let _attaching = Attaching::begin();
    attach_at(session, id, target, flags)
}

/// shmat(2), at a place that is known.
fn attach_at(
    session: &Session,
    id: c_int,
    target: Option<usize>,
    flags: c_int,
) -> Result<NonNull<u8>, Errno> {
    let write = flags & SHM_RDONLY == 0;
    let execute = flags & SHM_EXEC != 0;
    let member = session.member();
    let segment = exit::over_leavers(member, &[Errno::NOMEM], || {
        member.shmat(id, write, execute, &Me::now())
    })?;
    let bytes = segment.bytes as usize;
    if target.is_some_and(|start| start.checked_add(bytes).is_none()) {
        let _ = member.shmdt(id);
        return Err(Errno::INVAL);
    }
    let map = || -> Result<NonNull<u8>, Errno> {
        // What was kept of an earlier attach of these pages.
        let kept =
            if write && !execute { mapping_cache::take(segment.offset, bytes) } else { None };
        if let Some(start) = kept {
            if let Some(start) = NonNull::new(start as *mut u8)
                && target.is_none_or(|target| target == start.as_ptr().addr())
            {
                return Ok(start);
            }
            unmap::drop_mapping(start, bytes);
        }
        let at = match target {
            Some(start) if flags & SHM_REMAP != 0 => NonNull::new(start as *mut u8),
            Some(start) => {
                mapping_cache::drop_range(start, bytes);
                Some(reserve(start, bytes)?)
            }
            None => None,
        };
        if let Some(start) = at
            && flags & SHM_REMAP != 0
        {
            mapping_cache::drop_range(start.as_ptr().addr(), bytes);
        }
        // SAFETY: without REMAP the place was just reserved and is nobody's; with it the program
        // has asked for what lies there to be replaced.
        let mapping = unsafe {
            session.link().map(segment.offset, bytes, Protection { write, execute }, at)
        }?;
        let start = mapping.leak();
        if flags & SHM_REMAP != 0 {
            pieces::forget_range(member, start.as_ptr().addr(), bytes);
        }
        Ok(start)
    };
    let mapped = match map() {
        // What is kept takes addresses.
        Err(Errno::NOMEM) if mapping_cache::drop_all() => map(),
        other => other,
    };
    let start = match mapped {
        Ok(start) => start,
        Err(error) => {
            // The count goes back; there is nothing else to do with a failure of that.
            let _ = member.shmdt(id);
            return Err(if error == Errno::EXIST { Errno::INVAL } else { error });
        }
    };
    let begin = start.as_ptr().addr();
    let bits = |asked: bool, bit: c_int| if asked { bit as u32 } else { 0 };
    let now =
        libc::PROT_READ as u32 | bits(write, libc::PROT_WRITE) | bits(execute, libc::PROT_EXEC);
    let rights = Rights { now, writable: write, marks: advice::locks_of_new() };
    let (offset, base, whole) = (segment.offset, begin, bytes);
    let attach = ATTACHES.fetch_add(1, Ordering::Relaxed);
    if pieces::add(Piece { id, attach, start: begin, bytes, base, offset, whole, rights }).is_err()
    {
        unmap::drop_mapping(begin, bytes);
        let _ = member.shmdt(id);
        return Err(Errno::NOMEM);
    }
    Ok(start)
}

/// Takes a free range of addresses; EINVAL when something lies there.
fn reserve(start: usize, bytes: usize) -> Result<NonNull<u8>, Errno> {
    let flags =
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
    // SAFETY: MAP_FIXED_NOREPLACE replaces nothing.
    let got = unsafe {
        system_call(
            libc::SYS_mmap,
            [start, bytes, libc::PROT_NONE as usize, flags as usize, NO_FILE, 0],
        )
    };
    match usize::try_from(got) {
        Ok(got) if got == start => NonNull::new(start as *mut u8).ok_or(Errno::INVAL),
        Ok(elsewhere) => {
            unmap::drop_range(elsewhere, bytes);
            Err(Errno::INVAL)
        }
        Err(_) => match errno::get() {
            libc::EEXIST => Err(Errno::INVAL),
            error => Err(Errno::from_raw_os_error(error)),
        },
    }
}

/// shmdt(2).
///
/// # Safety
/// As libc's: nothing in the segment may be in use.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shmdt(address: *const c_void) -> c_int {
    detach_by(address.addr(), || next!(c"shmdt": fn(*const c_void) -> c_int, (address), -1))
}

/// shmdt(2), by name or by number.
pub fn detach_by(base: usize, kernel: impl FnOnce() -> c_int) -> c_int {
    if join::joined().is_none() {
        return kernel();
    }
    let Ok(session) = join::session() else {
        errno::set(Errno::INVAL);
        return -1;
    };
    let _attaching = Attaching::begin();
    // What mremap leaves of another attach may have the same base: the lowest piece decides, as in the
    // kernel.
    let mut lowest: Option<Piece> = None;
    pieces::each(|piece| {
        if piece.base == base && lowest.is_none_or(|lowest| piece.start < lowest.start) {
            lowest = Some(piece);
        }
    });
    let mut found = false;
    if let Some(lowest) = lowest {
        while let Some(piece) = pieces::take(|piece| piece.goes_with(lowest)) {
            pieces::detach(piece);
            let _ = session.member().shmdt(piece.id);
            found = true;
        }
    }
    if found {
        user::forget();
        return 0;
    }
    let result = kernel();
    user::forget();
    result
}

/// shmctl(2).
///
/// # Safety
/// As libc's; a bad pointer gives EFAULT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shmctl(id: c_int, command: c_int, buffer: *mut libc::shmid_ds) -> c_int {
    let call = Call { kind: Kind::Segment, id, command, commands: COMMANDS };
    call.answer(
        || kernels(id, command, buffer),
        |member, kernel| control(member, id, command, buffer, kernel),
    )
}

fn control(
    member: &Member,
    id: c_int,
    command: c_int,
    buffer: *mut libc::shmid_ds,
    kernel: Option<c_int>,
) -> Result<c_int, Errno> {
    let me = Me::now();
    match command {
        libc::IPC_STAT => {
            user::write(buffer, describe(&member.segment_stat(id, &me)?))?;
            Ok(0)
        }
        SHM_STAT | SHM_STAT_ANY => {
            let index = route::index_in_pool(id);
            let stat = member.segment_at_index(index, command == SHM_STAT_ANY, &me)?;
            user::write(buffer, describe(&stat))?;
            Ok(stat.id)
        }
        libc::IPC_SET => {
            // SAFETY: any bytes are a shmid_ds.
            let wanted = unsafe { user::read(buffer.cast_const()) }?.shm_perm;
            if wanted.uid == u32::MAX || wanted.gid == u32::MAX {
                return Err(Errno::INVAL);
            }
            let mode = u32::from(wanted.mode);
            member.segment_change(id, wanted.uid, wanted.gid, mode, &me).map(|()| 0)
        }
        libc::IPC_RMID => member.segment_remove(id, &me).map(|()| 0),
        SHM_LOCK | SHM_UNLOCK => {
            member.segment_lock(id, command == SHM_LOCK, me.lockable(), &me).map(|()| 0)
        }
        IPC_INFO | SHM_INFO => totals(member, command, buffer, kernel),
        _ => Err(Errno::INVAL),
    }
}

/// IPC_INFO and SHM_INFO; added to what the kernel has answered, if it has.
fn totals(
    member: &Member,
    command: c_int,
    buffer: *mut libc::shmid_ds,
    kernel: Option<c_int>,
) -> Result<c_int, Errno> {
    let ours = member.shm_info()?;
    let limits = member.pool().geometry();
    if command == SHM_INFO {
        let mut info = shm_info {
            used_ids: 0,
            shm_tot: 0,
            shm_rss: 0,
            shm_swp: 0,
            swap_attempts: 0,
            swap_successes: 0,
        };
        if kernel.is_some() {
            // SAFETY: the kernel has just written a shm_info there.
            info = unsafe { user::read(buffer.cast_const().cast()) }?;
        }
        info.used_ids += ours.segments as c_int;
        info.shm_tot += c_ulong::from(ours.pages);
        info.shm_rss += c_ulong::from(ours.pages);
        user::write(buffer.cast(), info)?;
    } else if kernel.is_none() {
        let info = shminfo {
            shmmax: limits.shmmax as c_ulong,
            shmmin: limits.shmmin.into(),
            shmmni: limits.shmmni.into(),
            shmseg: limits.shmmni.into(),
            shmall: limits.shmall as c_ulong,
            unused: [0; 4],
        };
        user::write(buffer.cast(), info)?;
    }
    Ok(highest(ours.segments, ours.highest, kernel))
}

fn describe(stat: &SegmentStat) -> libc::shmid_ds {
    // SAFETY: all-zero bytes are a valid shmid_ds.
    let mut out: libc::shmid_ds = unsafe { std::mem::zeroed() };
    out.shm_perm = permission(&stat.permission);
    out.shm_segsz = stat.size as size_t;
    out.shm_atime = stat.attach_time.into();
    out.shm_dtime = stat.detach_time.into();
    out.shm_ctime = stat.changed.into();
    out.shm_cpid = stat.creator as libc::pid_t;
    out.shm_lpid = stat.last as libc::pid_t;
    out.shm_nattch = stat.attached.into();
    out
}

/// `struct ipc_perm`.
pub fn permission(permission: &vshmem_ipc::Permission) -> libc::ipc_perm {
    // SAFETY: all-zero bytes are a valid ipc_perm.
    let mut out: libc::ipc_perm = unsafe { std::mem::zeroed() };
    out.__key = permission.key;
    out.uid = permission.uid;
    out.gid = permission.gid;
    out.cuid = permission.cuid;
    out.cgid = permission.cgid;
    out.mode = permission.mode as _;
    out.__seq = permission.sequence as _;
    out
}
