//! Where a path leads.

use std::sync::atomic::{AtomicBool, Ordering};

use libc::{c_char, c_int};
use vshmem_ipc::Errno;
use vshmem_session::Posix;

use super::names::Name;
use super::text::{Text, may_lead_there};
use crate::errno;
use crate::posix::directory;
use crate::session::cancel::uncancelled;
use crate::session::{current, route};

/// Links that are followed.
const MOST_LINKS: usize = 8;

/// Whether the current directory, or a descriptor, may be /dev/shm. Until then a relative path
/// without a slash leads elsewhere, and costs nothing.
static MAY_BE_INSIDE: AtomicBool = AtomicBool::new(false);

/// Where a path leads.
#[derive(Debug, Clone, Copy)]
#[allow(clippy::large_enum_variant)] // a name of 255 bytes: there is no heap to put it on
pub enum Found {
    /// Not to a name of the pool's.
    Elsewhere,
    /// To a name of the pool's, and the object that has it.
    Name(Name, Option<i32>),
    /// Below an object, which is no directory.
    InObject,
}

/// Whether paths of this program may lead to objects.
#[inline]
pub fn in_use() -> bool {
    route::posix_in_pool(Posix::SharedMemory)
}

/// To be called when the program begins, and has changed its directory.
pub fn note_current_directory() {
    if in_use() && !MAY_BE_INSIDE.load(Ordering::Relaxed) {
        note_directory(libc::AT_FDCWD);
    }
}

/// To be called when the program has opened what may be a directory.
pub fn note_opened(file: c_int) {
    if in_use() && !MAY_BE_INSIDE.load(Ordering::Relaxed) {
        note_directory(file);
    }
}

/// Whether a directory that the program has opened is /dev/shm.
pub fn note_directory(file: c_int) -> bool {
    let path = if file == libc::AT_FDCWD { c"." } else { c"" };
    let is_it = directory::is_at(file, path);
    if is_it {
        MAY_BE_INSIDE.store(true, Ordering::Relaxed);
    }
    is_it
}

/// Where a path leads, as far as its words say so.
#[inline]
pub fn quick(at: c_int, path: *const c_char) -> Found {
    if may_lead_there(path) {
        return Text::of(path).map_or(Found::Elsewhere, |text| by_words(text.bytes()));
    }
    if MAY_BE_INSIDE.load(Ordering::Relaxed) { relative(at, path) } else { Found::Elsewhere }
}

#[cold]
fn relative(at: c_int, path: *const c_char) -> Found {
    match Text::of(path) {
        Some(text) if !text.bytes().starts_with(b"/") => by_parent(at, &text),
        _ => Found::Elsewhere,
    }
}

/// Where a path leads, by way of whatever links and directories; `follows` says whether the last
/// link of it counts.
#[cold]
pub fn thorough(at: c_int, path: *const c_char, follows: bool) -> Found {
    let Some(mut text) = Text::of(path) else { return Found::Elsewhere };
    let mut at = at;
    for _ in 0..MOST_LINKS {
        let found = match by_words(text.bytes()) {
            Found::Elsewhere => by_parent(at, &text),
            found => found,
        };
        if !follows || matches!(found, Found::InObject | Found::Name(_, Some(_))) {
            return found;
        }
        // No object, and perhaps a link that the kernel has.
        let Some(target) = text.link_target(at) else { return found };
        if target.bytes().starts_with(b"/") {
            at = libc::AT_FDCWD;
        }
        text = target;
    }
    Found::Elsewhere
}

/// As [`thorough`], when a call has failed: if it found nothing.
pub fn after_failure(at: c_int, path: *const c_char, follows: bool) -> Found {
    if errno::get() == libc::ENOENT { thorough(at, path, follows) } else { Found::Elsewhere }
}

/// Of an absolute path that names /dev/shm itself.
fn by_words(path: &[u8]) -> Found {
    if !path.starts_with(b"/") {
        return Found::Elsewhere;
    }
    let mut words = path.split(|&byte| byte == b'/').filter(|word| !matches!(*word, b"" | b"."));
    if (words.next(), words.next()) != (Some(b"dev"), Some(b"shm")) {
        return Found::Elsewhere;
    }
    let Some(name) = words.next() else {
        // It may be opened, or become the current directory.
        MAY_BE_INSIDE.store(true, Ordering::Relaxed);
        return Found::Elsewhere;
    };
    let Some(name) = Name::of(name) else { return Found::Elsewhere };
    let is_last = words.next().is_none() && !path.ends_with(b"/") && !path.ends_with(b"/.");
    match (is_last, object_of(&name)) {
        (true, object) => Found::Name(name, object),
        (false, Some(_)) => Found::InObject,
        (false, None) => Found::Elsewhere,
    }
}

/// Of a path whose parent may be /dev/shm.
fn by_parent(at: c_int, path: &Text) -> Found {
    let Some((parent, last)) = path.split() else { return Found::Elsewhere };
    let is_bare = parent.bytes() == b".";
    if parent.bytes() == b"/" || is_bare && !MAY_BE_INSIDE.load(Ordering::Relaxed) {
        return Found::Elsewhere;
    }
    let Some(name) = Name::of(last) else { return Found::Elsewhere };
    let is_below = if parent.bytes().starts_with(b"/") {
        directory::is_at_absolute(parent.c_string())
    } else {
        // A descriptor itself, so that the kernel has nothing to walk.
        let is_itself = is_bare && at != libc::AT_FDCWD;
        directory::is_at(at, if is_itself { c"" } else { parent.c_string() })
    };
    if is_below {
        return Found::Name(name, object_of(&name));
    }
    Found::Elsewhere
}

fn object_of(name: &Name) -> Option<i32> {
    let look = || current::session()?.client().posix_shm_find(name.bytes());
    errno::untouched(|| uncancelled(look)).ok()
}

/// The error of a path below an object.
pub const NO_DIRECTORY: Errno = Errno::NOTDIR;
