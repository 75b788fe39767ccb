//! shmget(2), shmat(2), shmdt(2), shmctl(2).

use libc::{c_int, c_ulong, c_void, key_t, size_t};
use vshmem_ipc::{Client, Errno, Kind, SegmentStat};

use crate::intercept::control::{Call, Commands, IPC_INFO, highest, permission};
use vshmem_process::attached::mapping_cache;
use vshmem_process::mapping::attach::{self, BOUNDARY, SHM_REMAP};
use vshmem_process::mapping::change::replacing;
use vshmem_process::mapping::user;
use vshmem_process::next::next;
use vshmem_process::session::caller::Credentials;
use vshmem_process::session::{current, exit, home_namespace, route};
use vshmem_process::{errno, process};

const SHM_LOCK: c_int = 11;
const SHM_UNLOCK: c_int = 12;
const SHM_STAT: c_int = 13;
const SHM_INFO: c_int = 14;
const SHM_STAT_ANY: c_int = 15;
const COMMANDS: Commands = Commands { info: SHM_INFO, stat: SHM_STAT, stat_any: SHM_STAT_ANY };

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
    errno::answer_int(current::watchful_session().and_then(|session| {
        let this_client = session.client();
        exit::retry_after_reaping(this_client, &[Errno::NOSPC, Errno::NOMEM], || {
            this_client.shmget(
                key,
                size as u64,
                flags,
                &Credentials::now(),
                &mapping_cache::Through(session),
            )
        })
    }))
}

/// shmat(2).
///
/// # Safety
/// As libc's: with SHM_REMAP, what lies there is replaced.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shmat(id: c_int, address: *const c_void, flags: c_int) -> *mut c_void {
    attach(id, address, flags, || {
        next!(c"shmat": fn(c_int, *const c_void, c_int) -> *mut c_void,
              (id, address, flags), libc::MAP_FAILED)
    })
}

/// shmat(2), by whatever call.
pub fn attach(
    id: c_int,
    address: *const c_void,
    flags: c_int,
    kernel: impl FnOnce() -> *mut c_void,
) -> *mut c_void {
    if !route::id_in_pool(Kind::Segment, id) {
        return match replaced_by_kernels(id, address.addr(), flags) {
            0 => kernel(),
            bytes => replacing(address.addr() & !(BOUNDARY - 1), bytes, kernel, |&result| {
                result != libc::MAP_FAILED
            }),
        };
    }
    match attach::attach(id, address.addr(), flags) {
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
    // A user who may attach may ask.
    let asked = errno::untouched(|| kernels(id, libc::IPC_STAT, &raw mut state));
    if asked == 0 { state.shm_segsz } else { 0 }
}

/// The kernel's shmctl(2).
fn kernels(id: c_int, command: c_int, buffer: *mut libc::shmid_ds) -> c_int {
    next!(c"shmctl": fn(c_int, c_int, *mut libc::shmid_ds) -> c_int, (id, command, buffer), -1)
}

/// shmdt(2).
///
/// # Safety
/// As libc's: nothing in the segment may be in use.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shmdt(address: *const c_void) -> c_int {
    detach(address.addr(), || next!(c"shmdt": fn(*const c_void) -> c_int, (address), -1))
}

/// shmdt(2), by whatever call.
pub fn detach(base: usize, kernel: impl FnOnce() -> c_int) -> c_int {
    if process::joined().is_none() {
        return kernel();
    }
    let Ok(session) = current::session() else {
        errno::set(Errno::INVAL);
        return -1;
    };
    attach::detach(session, base, kernel)
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
        |this_client, kernel| control(this_client, id, command, buffer, kernel),
    )
}

fn control(
    this_client: &Client,
    id: c_int,
    command: c_int,
    buffer: *mut libc::shmid_ds,
    kernel: Option<c_int>,
) -> Result<c_int, Errno> {
    let me = Credentials::now();
    match command {
        libc::IPC_STAT => {
            user::write(buffer, describe(&this_client.segment_stat(id, &me)?))?;
            Ok(0)
        }
        SHM_STAT | SHM_STAT_ANY => {
            let index = route::index_in_pool(id);
            let stat = this_client.segment_at_index(index, command == SHM_STAT_ANY, &me)?;
            user::write(buffer, describe(&stat))?;
            Ok(stat.id)
        }
        libc::IPC_SET => {
            // SAFETY: any bytes are a shmid_ds.
            let wanted = unsafe { user::read(buffer.cast_const()) }?.shm_perm;
            let (uid, gid) = home_namespace::given(wanted.uid, wanted.gid)?;
            let mode = u32::from(wanted.mode);
            this_client.segment_change(id, uid, gid, mode, &me).map(|()| 0)
        }
        libc::IPC_RMID => this_client.segment_remove(id, &me).map(|()| 0),
        SHM_LOCK | SHM_UNLOCK => {
            this_client.segment_lock(id, command == SHM_LOCK, me.lockable(), &me).map(|()| 0)
        }
        IPC_INFO | SHM_INFO => totals(this_client, command, buffer, kernel),
        _ => Err(Errno::INVAL),
    }
}

/// IPC_INFO and SHM_INFO; added to what the kernel has answered, if it has.
fn totals(
    this_client: &Client,
    command: c_int,
    buffer: *mut libc::shmid_ds,
    kernel: Option<c_int>,
) -> Result<c_int, Errno> {
    let ours = this_client.shm_info()?;
    let limits = this_client.pool().geometry();
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
