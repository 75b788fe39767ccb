//! Teams: barrier, broadcast and reduction in memory that the caller has.

use std::ffi::{c_char, c_int, c_void};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use vshmem_ipc::Errno;
use vshmem_link::{DomainFacts, domain_facts, process_facts};
use vshmem_mem::Map;
use vshmem_team::{JoinError, Number, Operation, Person, Shape, Team, TeamError};

use crate::answer;
use crate::pool::tell;

type IdleOfC = unsafe extern "C" fn(*mut c_void);
type StopOfC = unsafe extern "C" fn(*mut c_void) -> c_int;
pub(crate) type CombineOfC = unsafe extern "C" fn(*const c_void, *mut c_void, usize, *mut c_void);

/// What a C caller wants back in a call.
#[derive(Debug, Clone, Copy)]
struct Argument(*mut c_void);

// SAFETY: it is only passed back, by the thread that uses the member.
unsafe impl Send for Argument {}

impl Argument {
    fn get(self) -> *mut c_void {
        self.0
    }
}

/// This process, as other members know it.
fn me() -> Person {
    // A domain that is not known is 0: its members are never taken for dead.
    let domain = domain_facts().map_or(0, |facts| domain_number(&facts));
    let process = process_facts();
    Person { domain, pid: process.pid, start: process.start }
}

fn domain_number(facts: &DomainFacts) -> u64 {
    let mut hasher = DefaultHasher::new();
    (facts.boot_id, facts.pid_namespace).hash(&mut hasher);
    hasher.finish() | 1
}

pub(crate) fn errno_of(error: TeamError) -> Errno {
    match error {
        TeamError::Missing(_) => Errno::TIMEDOUT,
        TeamError::Dead(_) => Errno::OWNERDEAD,
        TeamError::Left(_) => Errno::PIPE,
        TeamError::Mismatch(_) => Errno::PROTO,
        TeamError::Corrupt(_) => Errno::IO,
    }
}

fn number_of(word: c_int) -> Option<Number> {
    use Number::{Double, Float, Int32, Int64, Uint64};
    let at = usize::try_from(word).ok()?.checked_sub(1)?;
    [Int32, Int64, Uint64, Float, Double].get(at).copied()
}

fn operation_of(word: c_int) -> Option<Operation> {
    use Operation::{And, Max, Min, Or, Product, Sum, Xor};
    let at = usize::try_from(word).ok()?.checked_sub(1)?;
    [Sum, Product, Min, Max, And, Or, Xor].get(at).copied()
}

/// A call of a member, and what C gets of it.
///
/// # Safety
/// `team` is a member that no other thread uses now.
pub(crate) unsafe fn call(
    team: *mut Team,
    work: impl FnOnce(&mut Team) -> Result<(), Errno>,
) -> c_int {
    // SAFETY: as the caller guarantees.
    answer(work(unsafe { &mut *team }).map(|()| 0))
}

/// EINVAL: the team has no such member.
pub(crate) fn check_member(team: &Team, rank: u32) -> Result<(), Errno> {
    if rank < team.shape().members() { Ok(()) } else { Err(Errno::INVAL) }
}

/// What a member adds to a reduction, and where the root wants the result.
struct Contribution {
    root: u32,
    mine: *const c_void,
    result: *mut c_void,
    bytes: usize,
}

/// Which side of a reduction the caller is.
enum Side<'a> {
    /// The root's: its own numbers, which become the result.
    Root(&'a mut [u8]),
    /// Another's, which are only read.
    Other(&'a [u8]),
}

impl Contribution {
    /// The caller's data in a reduction.
    ///
    /// # Safety
    /// `mine` has so many bytes, and `result` room for as many at the root.
    unsafe fn at<'a>(self, team: &Team) -> Result<Side<'a>, Errno> {
        check_member(team, self.root)?;
        // SAFETY: as the caller guarantees.
        unsafe {
            if team.rank() == self.root {
                result_of(self.mine, self.result, self.bytes).map(Side::Root)
            } else {
                bytes_at(self.mine.cast_mut(), self.bytes).map(|mine| Side::Other(mine))
            }
        }
    }
}

/// A kind and an operation that go together, and the bytes of so many numbers.
fn reduction(
    number: c_int,
    operation: c_int,
    count: usize,
) -> Result<(Number, Operation, usize), Errno> {
    let number = number_of(number).ok_or(Errno::INVAL)?;
    let operation = operation_of(operation).filter(|operation| number.takes(*operation));
    let bytes = count.checked_mul(number.bytes()).filter(|bytes| isize::try_from(*bytes).is_ok());
    Ok((number, operation.ok_or(Errno::INVAL)?, bytes.ok_or(Errno::INVAL)?))
}

/// The caller's bytes. An empty slice may have any address.
///
/// # Safety
/// `data` has so many bytes that no other code uses meanwhile.
pub(crate) unsafe fn bytes_at<'a>(data: *mut c_void, bytes: usize) -> Result<&'a mut [u8], Errno> {
    if bytes == 0 {
        return Ok(&mut []);
    }
    if data.is_null() || isize::try_from(bytes).is_err() {
        return Err(Errno::INVAL);
    }
    // SAFETY: as the caller guarantees.
    Ok(unsafe { std::slice::from_raw_parts_mut(data.cast(), bytes) })
}

/// See vshmem.h.
#[unsafe(no_mangle)]
pub extern "C" fn vshmem_team_bytes(members: u32, payload: usize) -> usize {
    Shape::new(members, payload as u64).map_or(0, |shape| shape.bytes() as usize)
}

/// See vshmem.h.
///
/// # Safety
/// As vshmem.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vshmem_team_join(
    memory: *mut c_void,
    members: u32,
    payload: usize,
    rank: u32,
    team: *mut *mut Team,
) -> c_int {
    let join = || {
        let shape = Shape::new(members, payload as u64).ok_or(Errno::INVAL)?;
        let base = NonNull::new(memory.cast::<u8>()).ok_or(Errno::INVAL)?;
        if !base.addr().get().is_multiple_of(64) {
            return Err(Errno::INVAL);
        }
        // SAFETY: the caller passes so much memory, aligned, which stays mapped until it leaves;
        // only teams use it.
        let map = Arc::new(unsafe { Map::over(base, shape.bytes() as usize) });
        Team::join(&map, shape, rank, me(), vshmem_session::is_gone).map_err(|error| match error {
            JoinError::Invalid | JoinError::Mismatch => Errno::INVAL,
            JoinError::Taken => Errno::BUSY,
            JoinError::Ended(error) => errno_of(error),
        })
    };
    answer(join().map(|joined| {
        // SAFETY: the caller passes a place for the handle.
        unsafe { team.write(Box::into_raw(Box::new(joined))) };
        0
    }))
}

/// See vshmem.h.
///
/// # Safety
/// As vshmem.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vshmem_team_leave(team: *mut Team) {
    if !team.is_null() {
        // SAFETY: the handle was made by vshmem_team_join and ends here.
        unsafe { Box::from_raw(team) }.leave();
    }
}

/// See vshmem.h.
///
/// # Safety
/// As vshmem.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vshmem_team_patience(team: *mut Team, milliseconds: u32) {
    // SAFETY: the caller passes a member that no other thread uses now.
    let team = unsafe { &mut *team };
    team.set_timeout(match milliseconds {
        u32::MAX => Duration::MAX,
        _ => Duration::from_millis(milliseconds.into()),
    });
}

/// See vshmem.h.
///
/// # Safety
/// As vshmem.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vshmem_team_idle(
    team: *mut Team,
    idle: Option<IdleOfC>,
    argument: *mut c_void,
) {
    // SAFETY: the caller passes a member that no other thread uses now.
    let team = unsafe { &mut *team };
    let argument = Argument(argument);
    team.set_idle(idle.map(|idle| {
        // SAFETY: the caller's own function, with what it gave for it.
        Box::new(move || unsafe { idle(argument.get()) }) as Box<dyn FnMut() + Send>
    }));
}

/// See vshmem.h.
///
/// # Safety
/// As vshmem.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vshmem_team_stop(
    team: *mut Team,
    stop: Option<StopOfC>,
    argument: *mut c_void,
) {
    // SAFETY: the caller passes a member that no other thread uses now.
    let team = unsafe { &mut *team };
    let argument = Argument(argument);
    team.set_stop(stop.map(|stop| {
        // SAFETY: the caller's own function, with what it gave for it.
        Box::new(move || unsafe { stop(argument.get()) } != 0) as Box<dyn FnMut() -> bool + Send>
    }));
}

/// See vshmem.h.
///
/// # Safety
/// As vshmem.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vshmem_team_failure(
    team: *const Team,
    message: *mut c_char,
    bytes: usize,
) -> c_int {
    // SAFETY: the caller passes a member.
    let team = unsafe { &*team };
    let Some(error) = team.failure() else { return -1 };
    // SAFETY: the caller guarantees the buffer.
    unsafe { tell(&team.explain(error), message, bytes) };
    error.rank() as c_int
}

/// See vshmem.h.
///
/// # Safety
/// As vshmem.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vshmem_team_barrier(team: *mut Team) -> c_int {
    // SAFETY: the caller passes a member that no other thread uses now.
    unsafe { call(team, |team| team.barrier().map_err(errno_of)) }
}

/// See vshmem.h.
///
/// # Safety
/// As vshmem.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vshmem_team_broadcast(
    team: *mut Team,
    root: u32,
    data: *mut c_void,
    bytes: usize,
) -> c_int {
    let broadcast = |team: &mut Team| {
        check_member(team, root)?;
        // SAFETY: the caller passes so many bytes.
        let data = unsafe { bytes_at(data, bytes) }?;
        team.broadcast(root, data).map_err(errno_of)
    };
    // SAFETY: the caller passes a member that no other thread uses now.
    unsafe { call(team, broadcast) }
}

/// See vshmem.h.
///
/// # Safety
/// As vshmem.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vshmem_team_reduce(
    team: *mut Team,
    root: u32,
    mine: *const c_void,
    result: *mut c_void,
    count: usize,
    number: c_int,
    operation: c_int,
) -> c_int {
    let reduce = |team: &mut Team| {
        let (number, operation, bytes) = reduction(number, operation, count)?;
        let data = Contribution { root, mine, result, bytes };
        // SAFETY: the caller passes so many numbers, and at the root room for as many.
        match unsafe { data.at(team) }? {
            Side::Root(data) => team.collect(data, number, operation),
            Side::Other(mine) => team.contribute(root, mine, number, operation),
        }
        .map_err(errno_of)
    };
    // SAFETY: the caller passes a member that no other thread uses now.
    unsafe { call(team, reduce) }
}

/// See vshmem.h.
///
/// # Safety
/// As vshmem.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vshmem_team_allreduce(
    team: *mut Team,
    mine: *const c_void,
    result: *mut c_void,
    count: usize,
    number: c_int,
    operation: c_int,
) -> c_int {
    let allreduce = |team: &mut Team| {
        let (number, operation, bytes) = reduction(number, operation, count)?;
        // SAFETY: the caller passes so many numbers, and room for as many.
        let data = unsafe { result_of(mine, result, bytes) }?;
        team.allreduce(data, number, operation).map_err(errno_of)
    };
    // SAFETY: the caller passes a member that no other thread uses now.
    unsafe { call(team, allreduce) }
}

/// See vshmem.h.
#[unsafe(no_mangle)]
pub extern "C" fn vshmem_team_arrivals() -> u64 {
    vshmem_team::arrivals()
}

/// How many bytes so many items have; an error if the team cannot pass on one item.
pub(crate) fn things(team: &Team, count: usize, unit: usize) -> Result<usize, Errno> {
    let bytes = count.checked_mul(unit).filter(|bytes| isize::try_from(*bytes).is_ok());
    let fits = (1..=team.shape().payload()).contains(&unit);
    bytes.filter(|_| fits).ok_or(Errno::INVAL)
}

pub(crate) fn folded(
    unit: usize,
    combine: CombineOfC,
    argument: *mut c_void,
) -> impl FnMut(&[u8], &mut [u8]) {
    move |earlier, later| {
        let count = later.len() / unit;
        // SAFETY: the caller's own function, with what it gave for it, and both slices hold so many
        // things.
        unsafe { combine(earlier.as_ptr().cast(), later.as_mut_ptr().cast(), count, argument) };
    }
}

/// See vshmem.h.
///
/// # Safety
/// As vshmem.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vshmem_team_reduce_by(
    team: *mut Team,
    root: u32,
    mine: *const c_void,
    result: *mut c_void,
    count: usize,
    unit: usize,
    combine: CombineOfC,
    argument: *mut c_void,
) -> c_int {
    let reduce = |team: &mut Team| {
        let bytes = things(team, count, unit)?;
        let data = Contribution { root, mine, result, bytes };
        // SAFETY: the caller passes so many things, and at the root room for as many.
        match unsafe { data.at(team) }? {
            Side::Root(data) => team.collect_by(data, unit, &mut folded(unit, combine, argument)),
            Side::Other(mine) => team.contribute_by(root, mine, unit),
        }
        .map_err(errno_of)
    };
    // SAFETY: the caller passes a member that no other thread uses now.
    unsafe { call(team, reduce) }
}

/// See vshmem.h.
///
/// # Safety
/// As vshmem.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vshmem_team_allreduce_by(
    team: *mut Team,
    mine: *const c_void,
    result: *mut c_void,
    count: usize,
    unit: usize,
    combine: CombineOfC,
    argument: *mut c_void,
) -> c_int {
    let allreduce = |team: &mut Team| {
        let bytes = things(team, count, unit)?;
        // SAFETY: the caller passes so many things, and room for as many.
        let data = unsafe { result_of(mine, result, bytes) }?;
        team.allreduce_by(data, unit, &mut folded(unit, combine, argument)).map_err(errno_of)
    };
    // SAFETY: the caller passes a member that no other thread uses now.
    unsafe { call(team, allreduce) }
}

/// Room for a result, with the caller's own numbers in it.
///
/// # Safety
/// Both have so many bytes; they may be the same or overlap.
pub(crate) unsafe fn result_of<'a>(
    mine: *const c_void,
    result: *mut c_void,
    bytes: usize,
) -> Result<&'a mut [u8], Errno> {
    if bytes != 0 && (mine.is_null() || result.is_null()) {
        return Err(Errno::INVAL);
    }
    if bytes != 0 && !std::ptr::eq(mine, result) {
        // SAFETY: as the caller guarantees.
        unsafe { std::ptr::copy(mine.cast::<u8>(), result.cast::<u8>(), bytes) };
    }
    // SAFETY: as the caller guarantees.
    unsafe { bytes_at(result, bytes) }
}
