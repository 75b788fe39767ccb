//! This user's own file: found, or made.

use std::os::fd::{AsRawFd, OwnedFd};

use rustix::fs::{AtFlags, Gid, Mode, OFlags, Stat};
use rustix::io::Errno;
use vshmem_sync::WordsOwner;

use super::names::Names;
use crate::file_limit;

/// Files with a number that are tried before another is made.
const KNOWN: usize = 16;
/// How many random numbers are tried. One is enough unless a file has that name already.
const FRESH: usize = 4;

/// What a path is when it is not the file that is sought.
pub type Attempt<T> = Result<T, (&'static str, Errno)>;

/// Names what was tried in an error.
pub fn fail(tried: &'static str) -> impl Fn(Errno) -> (&'static str, Errno) {
    move |errno| (tried, errno)
}

/// The plain name first, then those that the pool has, then new ones.
pub fn open_any(
    names: &Names,
    audience: &Stat,
    known: &dyn Fn() -> Vec<u32>,
) -> Attempt<(WordsOwner, OwnedFd)> {
    let uid = rustix::process::geteuid().as_raw();
    let plain = WordsOwner { uid, nonce: 0 };
    if let Some(file) = open_or_make(names, plain, audience)? {
        return Ok((plain, file));
    }
    for nonce in known().into_iter().filter(|&nonce| nonce != 0).take(KNOWN) {
        let owner = WordsOwner { uid, nonce };
        if let Ok(Some(file)) = open_own(names, owner, audience) {
            return Ok((owner, file));
        }
    }
    for _ in 0..FRESH {
        let owner = WordsOwner { uid, nonce: unguessable() };
        if let Some(file) = open_or_make(names, owner, audience)? {
            return Ok((owner, file));
        }
    }
    Err(("make it: something lies at every name", Errno::EXIST))
}

/// `None`: another user has that name.
fn open_or_make(names: &Names, owner: WordsOwner, audience: &Stat) -> Attempt<Option<OwnedFd>> {
    match open_own(names, owner, audience) {
        Err(Errno::NOENT) => {}
        other => return other.map_err(fail("open it")),
    }
    make(names, owner, audience)?;
    // As made just now, by this process or by another.
    open_own(names, owner, audience).map_err(fail("open it"))
}

/// A file that is this user's in every respect. It may have been made when the pool was another
/// device, of other users: that of root, before the driver was loaded.
fn open_own(names: &Names, owner: WordsOwner, audience: &Stat) -> Result<Option<OwnedFd>, Errno> {
    // Without waiting for a process that has a lease on what lies there.
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = match rustix::fs::open(names.path(owner), flags, Mode::empty()) {
        Ok(file) => file,
        Err(errno @ (Errno::NOENT | Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::INTR)) => {
            return Err(errno);
        }
        Err(_) => return Ok(None),
    };
    let stat = rustix::fs::fstat(&file)?;
    let mine = names.is_words_of(&stat, owner.uid) && stat.st_mode & 0o022 == 0;
    if !mine {
        return Ok(None);
    }
    if !is_shared(&stat, owner, audience) {
        // Without it, those others wait until its threads look by themselves.
        let _ = share(&file, owner, audience);
    }
    Ok(Some(file))
}

/// Whether every user that may use the pool's device may read a file.
fn is_shared(stat: &Stat, owner: WordsOwner, audience: &Stat) -> bool {
    let (mode, wanted) = (Mode::from_raw_mode(stat.st_mode), readers(audience, owner.uid, true));
    let has_group = stat.st_gid == audience.st_gid || !wanted.contains(Mode::RGRP);
    mode.contains(Mode::ROTH) || has_group && mode.contains(wanted)
}

/// Lets every user that may use the pool's device wake this user's threads.
fn share(file: &OwnedFd, owner: WordsOwner, audience: &Stat) -> Result<(), Errno> {
    let group = Gid::from_raw(audience.st_gid);
    let has_group = rustix::fs::fchown(file, None, Some(group)).is_ok();
    rustix::fs::fchmod(file, readers(audience, owner.uid, has_group))
}

/// Makes this user's file, whole before it has a name.
fn make(names: &Names, owner: WordsOwner, audience: &Stat) -> Attempt<()> {
    file_limit::allows(names.bytes as u64).map_err(fail("make it"))?;
    let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
    let file = rustix::fs::open(&names.directory, flags, Mode::RUSR | Mode::WUSR)
        .map_err(fail("make it"))?;
    rustix::fs::ftruncate(&file, names.bytes as u64).map_err(fail("size it"))?;
    // A page that cannot be had would be a signal at its first touch.
    rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, names.bytes as u64)
        .map_err(fail("back it with memory"))?;
    share(&file, owner, audience).map_err(fail("share it"))?;
    let itself = format!("/proc/self/fd/{}", file.as_raw_fd());
    match rustix::fs::linkat(
        rustix::fs::CWD,
        itself,
        rustix::fs::CWD,
        names.path(owner),
        AtFlags::SYMLINK_FOLLOW,
    ) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(errno) => Err(("give it its name", errno)),
    }
}

/// The mode of a user's file: it may be read, and so its threads woken, by those who may use the
/// pool's device, as nearly as a mode can say that.
pub fn readers(audience: &Stat, uid: u32, has_group: bool) -> Mode {
    let lets_in = |bits: u32| audience.st_mode & bits == bits;
    // The device's owner, if it is neither this user nor root, gets the rights of all others.
    let all = lets_in(0o006) || !has_group || ![0, uid].contains(&audience.st_uid);
    let mut mode = Mode::RUSR | Mode::WUSR;
    mode.set(Mode::RGRP, lets_in(0o060) && has_group);
    mode.set(Mode::ROTH, all);
    mode
}

/// A number that cannot be known ahead, other than 0.
fn unguessable() -> u32 {
    use std::hash::{BuildHasher, RandomState};
    (RandomState::new().hash_one(0) as u32).max(1)
}
