//! ftw(3) and nftw(3) of /dev/shm, which libc would read by itself. Directories below it are the
//! kernel's: libc walks through them, one level further down.

use std::cell::Cell;
use std::ffi::{CStr, CString};

use libc::{c_char, c_int, stat};

use crate::intercept::directories::{closedir, opendir, readdir64};
use crate::intercept::paths;
use vshmem_process::dev_shm::find::{self, Found};
use vshmem_process::next::next;
use vshmem_process::posix::directory;

/// `struct FTW`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Where {
    base: c_int,
    level: c_int,
}

type Visit = unsafe extern "C" fn(*const c_char, *const stat, c_int) -> c_int;
type VisitMore = unsafe extern "C" fn(*const c_char, *const stat, c_int, *mut Where) -> c_int;

// Kinds of files, and flags, as <ftw.h> has them.
const FILE: c_int = 0;
const FOLDER: c_int = 1;
const NO_STATE: c_int = 3;
const LINK: c_int = 4;
const FOLDER_LAST: c_int = 5;
const BROKEN_LINK: c_int = 6;
const PHYSICAL: c_int = 1;
const CHANGES_DIRECTORY: c_int = 4;
const DEPTH: c_int = 8;

/// What the program has called with.
#[derive(Clone, Copy)]
enum Program {
    Ftw(Visit),
    Nftw(VisitMore, c_int),
}

impl Program {
    fn has(self, flag: c_int) -> bool {
        matches!(self, Self::Nftw(_, flags) if flags & flag != 0)
    }

    fn visit(self, path: &CStr, state: &stat, kind: c_int, level: c_int) -> c_int {
        let text = path.to_bytes();
        let base = text.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
        let mut place = Where { base: base as c_int, level };
        // SAFETY: the program's function, called as it is by libc.
        unsafe {
            match self {
                Self::Ftw(visit) => visit(path.as_ptr(), state, kind.min(FOLDER)),
                Self::Nftw(visit, _) => visit(path.as_ptr(), state, kind, &raw mut place),
            }
        }
    }

    /// Everything below a directory of the kernel's.
    fn walk_below(self, path: &CStr, most: c_int) -> c_int {
        match self {
            Self::Ftw(visit) => next_ftw(path.as_ptr(), visit, most),
            Self::Nftw(visit, flags) => {
                let before = VISIT.replace(Some(visit));
                let result = next_nftw(path.as_ptr(), one_deeper, most, flags);
                VISIT.set(before);
                result
            }
        }
    }

    /// A file in the directory.
    fn enter(self, path: &CStr, most: c_int) -> c_int {
        let follows = !self.has(PHYSICAL);
        let Some(state) = state_of(path, follows) else {
            let Some(state) = state_of(path, false) else {
                // SAFETY: all-zero bytes are a value of it.
                return self.visit(path, &unsafe { std::mem::zeroed() }, NO_STATE, 1);
            };
            return self.visit(path, &state, BROKEN_LINK, 1);
        };
        match state.st_mode & libc::S_IFMT {
            libc::S_IFDIR => self.walk_below(path, most),
            libc::S_IFLNK => self.visit(path, &state, LINK, 1),
            _ => self.visit(path, &state, FILE, 1),
        }
    }

    /// The directory itself.
    fn walk(self, root: &CStr, most: c_int) -> c_int {
        let Some(state) = state_of(root, true) else { return -1 };
        let is_last = self.has(DEPTH);
        if !is_last {
            let result = self.visit(root, &state, FOLDER, 0);
            if result != 0 {
                return result;
            }
        }
        // SAFETY: the path is a C string, and the stream is open until the end.
        unsafe {
            let stream = opendir(root.as_ptr());
            if stream.is_null() {
                return -1;
            }
            let mut result = 0;
            while result == 0 {
                let entry = readdir64(stream);
                if entry.is_null() {
                    break;
                }
                let name = CStr::from_ptr((*entry).d_name.as_ptr()).to_bytes();
                if !matches!(name, b"." | b"..")
                    && let Some(path) = joined(root, name)
                {
                    result = self.enter(&path, most);
                }
            }
            closedir(stream);
            if result != 0 {
                return result;
            }
        }
        if is_last { self.visit(root, &state, FOLDER_LAST, 0) } else { 0 }
    }
}

fn joined(root: &CStr, name: &[u8]) -> Option<CString> {
    let between: &[u8] = if root.to_bytes().ends_with(b"/") { b"" } else { b"/" };
    CString::new([root.to_bytes(), between, name].concat()).ok()
}

fn state_of(path: &CStr, follows: bool) -> Option<stat> {
    // SAFETY: all-zero bytes are a value of it; the calls fill it in.
    unsafe {
        let mut state = std::mem::zeroed();
        let ask = if follows { paths::stat } else { paths::lstat };
        (ask(path.as_ptr(), &raw mut state) == 0).then_some(state)
    }
}

thread_local! {
    /// What the walk through a directory of the kernel's calls.
    static VISIT: Cell<Option<VisitMore>> = const { Cell::new(None) };
}

unsafe extern "C" fn one_deeper(
    path: *const c_char,
    state: *const stat,
    kind: c_int,
    place: *mut Where,
) -> c_int {
    let Some(visit) = VISIT.get() else { return -1 };
    // SAFETY: libc passes what the program's function is to have.
    unsafe {
        (*place).level += 1;
        visit(path, state, kind, place)
    }
}

fn next_ftw(path: *const c_char, visit: Visit, most: c_int) -> c_int {
    next!(c"ftw": fn(*const c_char, Visit, c_int) -> c_int, (path, visit, most), -1)
}

fn next_nftw(path: *const c_char, visit: VisitMore, most: c_int, flags: c_int) -> c_int {
    next!(c"nftw": fn(*const c_char, VisitMore, c_int, c_int) -> c_int,
          (path, visit, most, flags), -1)
}

/// A walk that begins at /dev/shm or at an object; `None` of any other.
fn walk(root: *const c_char, most: c_int, program: Program) -> Option<c_int> {
    if !find::in_use() || root.is_null() || program.has(CHANGES_DIRECTORY) {
        return None;
    }
    // SAFETY: a C string, by nftw(3)'s contract.
    let path = unsafe { CStr::from_ptr(root) };
    if let Found::Name(_, Some(_)) = find::quick(libc::AT_FDCWD, root) {
        return Some(program.visit(path, &state_of(path, true)?, FILE, 0));
    }
    directory::is_at(libc::AT_FDCWD, path).then(|| program.walk(path, most))
}

macro_rules! walks {
    ($($ftw:ident $nftw:ident)*) => {$(
        /// ftw(3).
        ///
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $ftw(root: *const c_char, visit: Visit, most: c_int) -> c_int {
            walk(root, most, Program::Ftw(visit)).unwrap_or_else(|| next_ftw(root, visit, most))
        }

        /// nftw(3).
        ///
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $nftw(
            root: *const c_char,
            visit: VisitMore,
            most: c_int,
            flags: c_int,
        ) -> c_int {
            walk(root, most, Program::Nftw(visit, flags))
                .unwrap_or_else(|| next_nftw(root, visit, most, flags))
        }
    )*};
}

// The others are the same on 64-bit machines.
walks!(ftw nftw ftw64 nftw64);
