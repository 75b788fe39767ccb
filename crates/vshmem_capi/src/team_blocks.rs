//! Teams: blocks of members for others, and calls that are started and looked after.

use std::ffi::{c_int, c_void};

use vshmem_ipc::Errno;
use vshmem_team::{Started, Team};

use crate::answer;
use crate::team::{CombineOfC, bytes_at, call, check_member, errno_of, folded, result_of, things};

/// All members' blocks of so many bytes, of which each lies in a payload that has one for each
/// when they are `for_each`.
fn blocks(team: &Team, bytes: usize, for_each: bool) -> Result<usize, Errno> {
    let members = team.shape().members() as usize;
    let all = bytes.checked_mul(members).filter(|all| isize::try_from(*all).is_ok());
    let fits = !for_each || team.shape().payload() >= members - 1;
    all.filter(|_| fits).ok_or(Errno::INVAL)
}

/// Data that a call only reads; `None` for NULL.
///
/// # Safety
/// `data` is NULL, or has so many bytes that no other code writes meanwhile.
unsafe fn given_at<'a>(data: *const c_void, bytes: usize) -> Result<Option<&'a [u8]>, Errno> {
    if data.is_null() && bytes != 0 {
        return Ok(None);
    }
    // SAFETY: as the caller guarantees.
    unsafe { bytes_at(data.cast_mut(), bytes) }.map(|bytes| Some(&*bytes))
}

/// See vshmem.h.
///
/// # Safety
/// As vshmem.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vshmem_team_allgather(
    team: *mut Team,
    mine: *const c_void,
    all: *mut c_void,
    bytes: usize,
) -> c_int {
    let allgather = |team: &mut Team| {
        let room = blocks(team, bytes, false)?;
        // SAFETY: the caller passes so many bytes, and room for those of all, apart from them.
        let (mine, all) = unsafe { (given_at(mine, bytes)?, bytes_at(all, room)?) };
        team.allgather(mine, all).map_err(errno_of)
    };
    // SAFETY: the caller passes a member that no other thread uses now.
    unsafe { call(team, allgather) }
}

/// See vshmem.h.
///
/// # Safety
/// As vshmem.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vshmem_team_alltoall(
    team: *mut Team,
    given: *const c_void,
    got: *mut c_void,
    bytes: usize,
) -> c_int {
    let alltoall = |team: &mut Team| {
        let room = blocks(team, bytes, true)?;
        // SAFETY: the caller passes a block for each, and room for as many, apart from each other.
        let (given, got) = unsafe { (given_at(given, room)?, bytes_at(got, room)?) };
        team.alltoall(given, got).map_err(errno_of)
    };
    // SAFETY: the caller passes a member that no other thread uses now.
    unsafe { call(team, alltoall) }
}

/// See vshmem.h.
///
/// # Safety
/// As vshmem.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vshmem_team_gather(
    team: *mut Team,
    root: u32,
    mine: *const c_void,
    all: *mut c_void,
    bytes: usize,
) -> c_int {
    let gather = |team: &mut Team| {
        let room = blocks(team, bytes, false)?;
        check_member(team, root)?;
        // SAFETY: the caller passes so many bytes.
        let mine = unsafe { given_at(mine, bytes) }?;
        if team.rank() == root {
            // SAFETY: the caller passes room for those of all, apart from its own.
            team.gather(mine, unsafe { bytes_at(all, room) }?)
        } else {
            team.give(root, mine.ok_or(Errno::INVAL)?)
        }
        .map_err(errno_of)
    };
    // SAFETY: the caller passes a member that no other thread uses now.
    unsafe { call(team, gather) }
}

/// See vshmem.h.
///
/// # Safety
/// As vshmem.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vshmem_team_scatter(
    team: *mut Team,
    root: u32,
    all: *const c_void,
    mine: *mut c_void,
    bytes: usize,
) -> c_int {
    let scatter = |team: &mut Team| {
        let room = blocks(team, bytes, true)?;
        check_member(team, root)?;
        if team.rank() == root {
            // SAFETY: the caller passes a block for each member.
            let all = unsafe { given_at(all, room) }?.ok_or(Errno::INVAL)?;
            let own = &all[root as usize * bytes..][..bytes];
            if !mine.is_null() {
                // SAFETY: the caller passes room for a block, apart from what it gives.
                unsafe { bytes_at(mine, bytes) }?.copy_from_slice(own);
            }
            team.scatter(all)
        } else {
            // SAFETY: the caller passes room for a block.
            team.take_block(root, unsafe { bytes_at(mine, bytes) }?)
        }
        .map_err(errno_of)
    };
    // SAFETY: the caller passes a member that no other thread uses now.
    unsafe { call(team, scatter) }
}

/// `struct vshmem_started`: what [`Started::words`] says.
pub type StartedOfC = [u64; 2];

/// See vshmem.h.
///
/// # Safety
/// As vshmem.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vshmem_team_start(team: *mut Team, started: *mut StartedOfC) {
    // SAFETY: the caller passes a member that no other thread uses now, and a place for the call.
    unsafe { started.write((*team).start().words()) };
}

/// Looks after a call, and keeps how far it is.
///
/// # Safety
/// `team` is a member that no other thread uses now, and `started` holds a call that it has
/// started.
unsafe fn poll_call(
    team: *mut Team,
    started: *mut StartedOfC,
    poll: impl FnOnce(&mut Team, &mut Started) -> Result<bool, Errno>,
) -> c_int {
    // SAFETY: as the caller guarantees.
    let (team, mut call) = unsafe { (&mut *team, Started::of(started.read())) };
    let done = poll(team, &mut call);
    // SAFETY: as the caller guarantees.
    unsafe { started.write(call.words()) };
    answer(done.map(i32::from))
}

/// See vshmem.h.
///
/// # Safety
/// As vshmem.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vshmem_team_poll_allgather(
    team: *mut Team,
    started: *mut StartedOfC,
    all: *mut c_void,
    bytes: usize,
) -> c_int {
    let poll = |team: &mut Team, call: &mut Started| {
        let room = blocks(team, bytes, false)?;
        if bytes > team.shape().payload() {
            return Err(Errno::INVAL);
        }
        // SAFETY: the caller passes room for the bytes of all.
        let all = unsafe { bytes_at(all, room) }?;
        team.poll_allgather(call, all).map_err(errno_of)
    };
    // SAFETY: the caller passes a member that no other thread uses now, and a call of its.
    unsafe { poll_call(team, started, poll) }
}

/// See vshmem.h.
///
/// # Safety
/// As vshmem.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vshmem_team_poll_alltoall(
    team: *mut Team,
    started: *mut StartedOfC,
    given: *const c_void,
    got: *mut c_void,
    bytes: usize,
) -> c_int {
    let poll = |team: &mut Team, call: &mut Started| {
        let room = blocks(team, bytes, true)?;
        if room - bytes > team.shape().payload() {
            return Err(Errno::INVAL);
        }
        // SAFETY: the caller passes a block for each, and room for as many, apart from each other.
        let (given, got) = unsafe { (given_at(given, room)?, bytes_at(got, room)?) };
        team.poll_alltoall(call, given, got).map_err(errno_of)
    };
    // SAFETY: the caller passes a member that no other thread uses now, and a call of its.
    unsafe { poll_call(team, started, poll) }
}

/// See vshmem.h.
///
/// # Safety
/// As vshmem.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vshmem_team_poll_broadcast(
    team: *mut Team,
    started: *mut StartedOfC,
    root: u32,
    data: *mut c_void,
    bytes: usize,
) -> c_int {
    let poll = |team: &mut Team, call: &mut Started| {
        check_member(team, root)?;
        if bytes > team.shape().payload() {
            return Err(Errno::INVAL);
        }
        // SAFETY: the caller passes so many bytes.
        let data = unsafe { bytes_at(data, bytes) }?;
        team.poll_broadcast(call, root, data).map_err(errno_of)
    };
    // SAFETY: the caller passes a member that no other thread uses now, and a call of its.
    unsafe { poll_call(team, started, poll) }
}

/// See vshmem.h.
///
/// # Safety
/// As vshmem.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vshmem_team_poll_allreduce_by(
    team: *mut Team,
    started: *mut StartedOfC,
    result: *mut c_void,
    count: usize,
    unit: usize,
    combine: CombineOfC,
    argument: *mut c_void,
) -> c_int {
    let poll = |team: &mut Team, call: &mut Started| {
        let bytes = things(team, count, unit)?;
        if bytes > team.shape().payload() / unit * unit {
            return Err(Errno::INVAL);
        }
        // SAFETY: the caller passes so many things, which become the result.
        let data = unsafe { result_of(result, result, bytes) }?;
        team.poll_allreduce_by(call, data, unit, &mut folded(unit, combine, argument))
            .map_err(errno_of)
    };
    // SAFETY: the caller passes a member that no other thread uses now, and a call of its.
    unsafe { poll_call(team, started, poll) }
}
