//! mkstemp(3) and its kin below /dev/shm: libc opens the file by itself, where it would be the
//! kernel's.

use std::ffi::CStr;

use libc::{c_char, c_int};

use crate::intercept::files;
use vshmem_ipc::Errno;
use vshmem_process::dev_shm::find::{self, Found};
use vshmem_process::dev_shm::open::Opening;
use vshmem_process::errno;
use vshmem_process::next::{next, system_call};

const LETTERS: &[u8; 62] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
const PLACE: &[u8] = b"XXXXXX";
/// As often as libc tries.
const MOST_TRIES: usize = 62 * 62 * 62;

/// Makes a file of a name that no other has; what stands behind the six letters has `behind`
/// bytes.
///
/// # Safety
/// `template` is a C string that may be written.
unsafe fn make(
    template: *mut c_char,
    behind: c_int,
    flags: c_int,
    call: impl FnOnce() -> c_int,
) -> c_int {
    if !find::in_use() {
        return call();
    }
    if !matches!(find::thorough(libc::AT_FDCWD, template, false), Found::Name(..)) {
        return call();
    }
    // SAFETY: by this function's own contract.
    let length = unsafe { CStr::from_ptr(template) }.count_bytes();
    let place = usize::try_from(behind).ok().and_then(|behind| length.checked_sub(6 + behind));
    let Some(place) = place else { return call() };
    // SAFETY: the six bytes lie in the string.
    let letters = unsafe { std::slice::from_raw_parts_mut(template.cast::<u8>().add(place), 6) };
    if letters != PLACE {
        return call();
    }
    let flags = flags & !libc::O_ACCMODE | libc::O_RDWR | libc::O_CREAT | libc::O_EXCL;
    for _ in 0..MOST_TRIES {
        choose(letters);
        let how = Opening { at: libc::AT_FDCWD, path: template, flags, mode: 0o600 };
        let words = [how.at as usize, template.addr(), flags as usize, 0o600];
        // SAFETY: the program's own path. Only where the name is the kernel's, as `sem.` may be.
        let made = files::opening(how, || unsafe { system_call(libc::SYS_openat, words) as c_int });
        if made >= 0 || errno::get() != libc::EEXIST {
            return made;
        }
    }
    errno::set(Errno::EXIST);
    -1
}

fn choose(letters: &mut [u8]) {
    let mut random = [0_u8; 8];
    let words = [random.as_mut_ptr().addr(), random.len(), 0];
    // SAFETY: the kernel fills in so many bytes. Where it does not, the names are tried in vain.
    errno::untouched(|| unsafe { system_call(libc::SYS_getrandom, words) });
    let mut number = u64::from_ne_bytes(random);
    for letter in letters {
        *letter = LETTERS[(number % 62) as usize];
        number /= 62;
    }
}

macro_rules! temporary {
    ($($name:ident $symbol:literal ($template:ident $(, $more:ident)*) $behind:expr, $flags:expr;)*)
    => {$(
        #[doc = concat!(stringify!($name), "(3).")]
        ///
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($template: *mut c_char $(, $more: c_int)*) -> c_int {
            // SAFETY: the same contract.
            unsafe {
                make($template, $behind, $flags, || {
                    next!($symbol: fn(*mut c_char $(, temporary!(int $more))*) -> c_int,
                          ($template $(, $more)*), -1)
                })
            }
        }
    )*};
    (int $more:ident) => { c_int };
}

temporary! {
    mkstemp c"mkstemp" (template) 0, 0;
    mkstemp64 c"mkstemp64" (template) 0, 0;
    mkostemp c"mkostemp" (template, flags) 0, flags;
    mkostemp64 c"mkostemp64" (template, flags) 0, flags;
    mkstemps c"mkstemps" (template, behind) behind, 0;
    mkstemps64 c"mkstemps64" (template, behind) behind, 0;
    mkostemps c"mkostemps" (template, behind, flags) behind, flags;
    mkostemps64 c"mkostemps64" (template, behind, flags) behind, flags;
}
