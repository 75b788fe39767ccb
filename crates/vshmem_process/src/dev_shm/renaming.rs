//! rename(2) and link(2), which have two paths. Between the kernel's files and the pool they say
//! EXDEV, so that programs copy.

use libc::{c_int, c_uint};
use vshmem_ipc::Errno;

use super::calls::Path;
use super::find::{self, Found, NO_DIRECTORY};
use super::names::Name;
use super::text::Text;
use crate::errno;
use crate::next::system_call;
use crate::posix::directory::{self, File};
use crate::session::caller::Credentials;
use crate::session::cancel::uncancelled;
use crate::session::current;

/// What the kernel has at a path.
fn kernels(path: Path) -> Option<File> {
    let text = Text::of(path.text)?;
    directory::file_at(path.at, text.c_string(), libc::AT_SYMLINK_NOFOLLOW)
}

/// renameat2(2) and its kin.
#[inline]
pub fn rename(from: Path, to: Path, flags: c_uint, kernel: impl FnOnce() -> c_int) -> c_int {
    if !find::in_use() {
        return kernel();
    }
    match rename_here(from, to, flags) {
        Some(Err(Errno::XDEV)) if is_dots(from) || is_dots(to) => kernel(),
        Some(done) => errno::answer_unit(done),
        None => kernel(),
    }
}

/// Whether the last word of a path is no name, of which the kernel has more to say.
fn is_dots(path: Path) -> bool {
    let text = Text::of(path.text);
    let parts = text.as_ref().and_then(Text::split);
    parts.is_some_and(|(_, last)| matches!(last, b"." | b".."))
}

/// Whether a file can be made at a path, as far as its directory is there.
fn has_directory(path: Path) -> bool {
    let parts = Text::of(path.text).and_then(|text| text.split().map(|(parent, _)| parent));
    let parent = parts.and_then(|parent| directory::file_at(path.at, parent.c_string(), 0));
    parent.is_some_and(|file| file.mode & libc::S_IFMT == libc::S_IFDIR)
}

#[cold]
fn rename_here(from: Path, to: Path, flags: c_uint) -> Option<Result<(), Errno>> {
    let [old, new] = [from, to].map(|path| find::thorough(path.at, path.text, false));
    let keeps = flags & libc::RENAME_NOREPLACE != 0;
    Some(match (old, new) {
        (Found::InObject, _) | (_, Found::InObject) => Err(NO_DIRECTORY),
        (Found::Name(_, Some(_)), _) if flags & !libc::RENAME_NOREPLACE != 0 => Err(Errno::INVAL),
        (Found::Name(old, Some(_)), Found::Name(new, taken)) => {
            in_pool(&old, &new, keeps, to, taken.is_some())
        }
        (Found::Name(_, Some(_)), Found::Elsewhere) if !has_directory(to) => Err(Errno::NOENT),
        (Found::Name(_, Some(_)), Found::Elsewhere) => Err(Errno::XDEV),
        (Found::Name(..), Found::Name(_, Some(_))) => Err(match kernels(from) {
            None => Errno::NOENT,
            Some(_) if keeps => Errno::EXIST,
            Some(file) if file.mode & libc::S_IFMT == libc::S_IFDIR => Errno::NOTDIR,
            Some(_) => Errno::XDEV,
        }),
        (Found::Elsewhere, Found::Name(_, Some(_))) => Err(Errno::XDEV),
        _ => return None,
    })
}

/// An object that gets the name of a file of the kernel's takes its place.
fn in_pool(old: &Name, new: &Name, keeps: bool, to: Path, is_taken: bool) -> Result<(), Errno> {
    let hidden = if is_taken { None } else { kernels(to) };
    match hidden {
        Some(file) if file.mode & libc::S_IFMT == libc::S_IFDIR => return Err(Errno::ISDIR),
        Some(_) if keeps => return Err(Errno::EXIST),
        _ => {}
    }
    uncancelled(|| {
        let this_client = current::watchful_session()?.client();
        let (from, to) = (old.bytes(), new.bytes());
        this_client.posix_shm_rename(from, to, !keeps, &Credentials::now())
    })?;
    if hidden.is_some() {
        let words = [to.at as usize, to.text.addr(), 0];
        // SAFETY: the program's own path, which was read before. Where this is refused, the
        // kernel's file stays hidden.
        errno::untouched(|| unsafe { system_call(libc::SYS_unlinkat, words) });
    }
    Ok(())
}

/// linkat(2): an object has one name.
#[inline]
pub fn link(from: Path, to: Path, kernel: impl FnOnce() -> c_int) -> c_int {
    if !find::in_use() {
        return kernel();
    }
    match link_here(from, to) {
        Some(refusal) => errno::answer_unit(Err(refusal)),
        None => kernel(),
    }
}

#[cold]
fn link_here(from: Path, to: Path) -> Option<Errno> {
    let old = find::thorough(from.at, from.text, from.follows);
    let new = find::thorough(to.at, to.text, false);
    Some(match (old, new) {
        (Found::InObject, _) | (_, Found::InObject) => NO_DIRECTORY,
        (Found::Name(_, Some(_)), _) if kernels(to).is_some() => Errno::EXIST,
        (Found::Name(_, Some(_)), Found::Name(_, Some(_))) => Errno::EXIST,
        (Found::Name(_, Some(_)), Found::Name(_, None)) => Errno::PERM,
        (Found::Name(_, Some(_)), Found::Elsewhere) => Errno::XDEV,
        (_, Found::Name(_, Some(_))) if kernels(from).is_none() => Errno::NOENT,
        (_, Found::Name(_, Some(_))) => Errno::EXIST,
        _ => return None,
    })
}
