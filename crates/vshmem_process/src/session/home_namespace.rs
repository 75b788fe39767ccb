//! Which user namespace this process is in, and what its ids are in the initial one, whose ids the
//! pool's objects have.
//!
//! A process sees its own namespace's map, which leads one level up. So it remembers the namespace
//! that it came from, and hands that on to the programs that it executes ([`handed_on`]). What no
//! map translates is the overflow id, as with the kernel; a process that has just come into a
//! namespace whose map nobody has written is who it was before.

use std::ffi::CStr;
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

use vshmem_ipc::Errno;
use vshmem_link::{IdMap, OVERFLOW_ID, UserNamespace};
use vshmem_mem::{Scratch, unless_confined};
use vshmem_session::Session;

use crate::session::credential_changes;
use crate::{errno, process};

/// In the environment of a program that replaces one that was in a user namespace.
pub const NAME: &CStr = c"VSHMEM_IDS";

/// The last namespace in which this process's ids were translated; null: the initial one. What it
/// points to is never freed or changed: a process goes through few.
static KNOWN: AtomicPtr<UserNamespace> = AtomicPtr::new(std::ptr::null_mut());
/// Whether this process has left it for one whose map may not be written yet.
static HAS_LEFT: AtomicBool = AtomicBool::new(false);
/// What nothing is known of: the pool's file belongs to another user than the maps say.
static IS_UNKNOWN: AtomicBool = AtomicBool::new(false);

/// What this process was in the initial namespace when it was last known.
static USER: AtomicU32 = AtomicU32::new(OVERFLOW_ID);
static GROUP: AtomicU32 = AtomicU32::new(OVERFLOW_ID);
static GROUPS: [AtomicU32; MOST_GROUPS] = [const { AtomicU32::new(0) }; MOST_GROUPS];
static GROUP_COUNT: AtomicU32 = AtomicU32::new(0);

/// Supplementary groups that are remembered, if there are no more.
const MOST_GROUPS: usize = 32;

/// Bytes of what is handed on, at most.
const MOST_TEXT: usize = 4096;

fn known() -> UserNamespace {
    // SAFETY: what it points to is never freed or changed.
    unsafe { KNOWN.load(Ordering::Acquire).as_ref() }.copied().unwrap_or(UserNamespace::INITIAL)
}

fn publish(namespace: UserNamespace) {
    let place = if namespace.is_initial() {
        std::ptr::null_mut()
    } else {
        let words = size_of::<UserNamespace>().div_ceil(8);
        let Some(mut room) = Scratch::<u64>::new(words) else { return };
        let place = room.values().as_mut_ptr().cast::<UserNamespace>();
        // SAFETY: the room is large enough, begins at a page and is no one else's; it is not given
        // back.
        unsafe { place.write(namespace) };
        std::mem::forget(room);
        place
    };
    KNOWN.store(place, Ordering::Release);
    HAS_LEFT.store(false, Ordering::Relaxed);
}

/// The count of changes of credentials at which this process was last known to be in [`KNOWN`]: to
/// ask the kernel takes a system call, and IPC_STAT would pay it.
static ASKED_AT: AtomicU32 = AtomicU32::new(0);

/// To be called in a child: it may have been made in another namespace.
pub fn begin_child() {
    ASKED_AT.store(0, Ordering::Relaxed);
}

/// The namespace that this process is in now.
pub fn now() -> UserNamespace {
    let changes = credential_changes::count();
    let last = known();
    if IS_UNKNOWN.load(Ordering::Relaxed) {
        return UserNamespace { users: IdMap::NOTHING, groups: IdMap::NOTHING, ..last };
    }
    if ASKED_AT.load(Ordering::Relaxed) == changes && process::owns_its_memory() {
        return last;
    }
    // A process that has confined itself can enter none: unshare and setns come before.
    let inode = unless_confined(UserNamespace::own_inode).flatten().unwrap_or(last.inode);
    if inode == last.inode {
        if process::owns_its_memory() {
            ASKED_AT.store(changes, Ordering::Relaxed);
        }
        return last;
    }
    let namespace = last.inner(inode);
    // A child that runs in its parent's memory leaves its parent what it knows.
    if !namespace.users.is_empty() && process::owns_its_memory() {
        publish(namespace);
    }
    namespace
}

/// User and group in the initial namespace, of a process that is `user` and `group` in its own.
pub fn outside(namespace: &UserNamespace, user: u32, group: u32) -> (u32, u32) {
    let outside = |map: &IdMap, id: u32, last: &AtomicU32| {
        let known = map.outside(id).or_else(|| {
            // Only a process that has its ids from before is shown to itself so.
            (id == OVERFLOW_ID).then(|| last.load(Ordering::Relaxed))
        });
        known.unwrap_or(OVERFLOW_ID)
    };
    (outside(&namespace.users, user, &USER), outside(&namespace.groups, group, &GROUP))
}

/// Remembers them.
pub fn remember(user: u32, group: u32) {
    USER.store(user, Ordering::Relaxed);
    GROUP.store(group, Ordering::Relaxed);
}

/// To be called before the process may come into another namespace: who it is now.
pub fn before_leaving() {
    errno::untouched(remember_all);
}

fn remember_all() {
    let namespace = now();
    let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
    let (user, group) = outside(&namespace, user.as_raw(), group.as_raw());
    remember(user, group);
    if namespace.groups.is_empty() {
        return;
    }
    let mut groups = [0; MOST_GROUPS];
    let found = own_groups(&mut groups).unwrap_or(&[]);
    for (place, group) in GROUPS.iter().zip(found) {
        let group = namespace.groups.outside(*group).unwrap_or(OVERFLOW_ID);
        place.store(group, Ordering::Relaxed);
    }
    GROUP_COUNT.store(found.len() as u32, Ordering::Relaxed);
}

/// To be called when it has. The pool's file has another owner to be seen from now on; a program
/// that confines itself next could not ask why.
pub fn note_left() {
    HAS_LEFT.store(true, Ordering::Relaxed);
    if let Some(session) = process::joined() {
        errno::untouched(|| session.link().recognize());
    }
}

/// This thread's supplementary groups, unless there are more than the room has.
pub fn own_groups(room: &mut [u32]) -> Option<&[u32]> {
    let words = [room.len(), room.as_mut_ptr().addr()];
    // SAFETY: the buffer has room for the count that is passed.
    let count = unsafe { crate::next::system_call(libc::SYS_getgroups, words) };
    room.get(..usize::try_from(count).ok()?)
}

/// Whether a group of the initial namespace is one that this process has had since it was there,
/// though its namespace does not know it: the kernel shows it as one of those without a name.
pub fn kept_group(group: u32, shown: &[u32]) -> bool {
    let count = GROUP_COUNT.load(Ordering::Relaxed) as usize;
    // No process can change a part of its groups.
    shown.contains(&OVERFLOW_ID)
        && shown.len() == count
        && GROUPS.iter().take(count).any(|kept| kept.load(Ordering::Relaxed) == group)
}

/// Ids that a program gives to an object, as the pool has them.
///
/// # Errors
/// EINVAL for one that its namespace does not know, and for -1.
pub fn given(user: u32, group: u32) -> Result<(u32, u32), Errno> {
    let namespace = now();
    let user = namespace.users.outside(user).ok_or(Errno::INVAL)?;
    let group = namespace.groups.outside(group).ok_or(Errno::INVAL)?;
    Ok((user, group))
}

/// The same of ids each of which may be left out.
///
/// # Errors
/// As [`given`].
pub fn given_some(
    user: Option<u32>,
    group: Option<u32>,
) -> Result<(Option<u32>, Option<u32>), Errno> {
    let namespace = now();
    let known = |map: &IdMap, id: Option<u32>| match id.map(|id| map.outside(id)) {
        Some(None) => Err(Errno::INVAL),
        other => Ok(other.flatten()),
    };
    Ok((known(&namespace.users, user)?, known(&namespace.groups, group)?))
}

/// An object's user and group as this process's namespace shows them.
pub fn shown(user: u32, group: u32) -> (u32, u32) {
    let namespace = now();
    let inside = |map: &IdMap, id| map.inside(id).unwrap_or(OVERFLOW_ID);
    (inside(&namespace.users, user), inside(&namespace.groups, group))
}

/// On joining: whether the maps lead to where the pool is from. A namespace inside another one
/// shows only one of the two maps, and a program that comes from neither cannot tell. The pool's
/// file can: the kernel shows its owner, who stands in the pool as well. Where the two disagree no
/// id of this process is translated.
pub fn compare(session: &Session) {
    let namespace = now();
    let path = session.link().path();
    if namespace.is_initial() || !path.starts_with("/dev/shm") {
        return;
    }
    let Ok(file) = rustix::fs::stat(path) else { return };
    let stated = session.client().pool().superblock().owner_uid;
    if namespace.users.outside(file.st_uid).is_some_and(|owner| owner != stated) {
        IS_UNKNOWN.store(true, Ordering::Relaxed);
    }
}

/// Takes what the program before this one has handed on.
pub fn take(text: &[u8]) {
    let mut words = text.split(|&byte| byte == b':');
    let mut next = || words.next().unwrap_or_default();
    let number = |word: &[u8]| std::str::from_utf8(word).ok()?.parse::<u64>().ok();
    let (Some(inode), Some(user), Some(group)) = (number(next()), number(next()), number(next()))
    else {
        return;
    };
    remember(user as u32, group as u32);
    let mut count = 0;
    let groups = next().split(|&byte| byte == b',').filter_map(number);
    for (place, group) in GROUPS.iter().zip(groups) {
        place.store(group as u32, Ordering::Relaxed);
        count += 1;
    }
    GROUP_COUNT.store(count, Ordering::Relaxed);
    let (users, groups) = (IdMap::parse(next()), IdMap::parse(next()));
    if inode != UserNamespace::INITIAL.inode {
        publish(UserNamespace { inode, users, groups });
    }
}

/// What the next program is to know, as a word of its environment; nothing in the initial
/// namespace.
pub fn handed_on() -> Option<Scratch<u64>> {
    let namespace = known();
    if namespace.is_initial() && !HAS_LEFT.load(Ordering::Relaxed) {
        return None;
    }
    let mut text = Text { bytes: [0; MOST_TEXT], used: 0 };
    let (user, group) = (USER.load(Ordering::Relaxed), GROUP.load(Ordering::Relaxed));
    let name = NAME.to_str().ok()?;
    write!(text, "{name}={}:{user}:{group}:", namespace.inode).ok()?;
    let count = GROUP_COUNT.load(Ordering::Relaxed) as usize;
    for group in GROUPS.iter().take(count) {
        write!(text, "{},", group.load(Ordering::Relaxed)).ok()?;
    }
    write!(text, ":{}:{}", namespace.users, namespace.groups).ok()?;
    let mut composed = Scratch::<u64>::new(text.used / 8 + 1)?;
    for (word, bytes) in composed.values().iter_mut().zip(text.bytes.chunks_exact(8)) {
        *word = u64::from_ne_bytes(bytes.try_into().ok()?);
    }
    Some(composed)
}

/// Text in a frame: a child of vfork has no heap of its own.
struct Text {
    bytes: [u8; MOST_TEXT],
    used: usize,
}

impl Write for Text {
    fn write_str(&mut self, part: &str) -> std::fmt::Result {
        // One byte stays 0.
        let end = self.used + part.len();
        let room = self.bytes[..MOST_TEXT - 1].get_mut(self.used..end).ok_or(std::fmt::Error)?;
        room.copy_from_slice(part.as_bytes());
        self.used = end;
        Ok(())
    }
}
