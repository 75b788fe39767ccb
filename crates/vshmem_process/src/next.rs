//! The symbols behind ours: libc's own, or those of another preloaded library.

use std::ffi::CStr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A function as the libraries behind this one have it.
#[derive(Clone, Copy)]
pub struct Symbol {
    name: &'static CStr,
    /// The version that glibc gives programs today, of a symbol that has an older one of another
    /// meaning: dlsym may find that.
    version: Option<&'static CStr>,
}

impl Symbol {
    /// The function of that name.
    pub const fn new(name: &'static CStr) -> Self {
        Self { name, version: None }
    }

    /// One of those whose older version on x86-64 is another function: pthread_cond_*.
    pub const fn condvar(name: &'static CStr) -> Self {
        let version = if cfg!(target_arch = "x86_64") { Some(c"GLIBC_2.3.2") } else { None };
        Self { name, version }
    }

    /// Looks it up; null when there is no such function.
    #[cold]
    #[inline(never)]
    pub fn look_up(self) -> *mut libc::c_void {
        // SAFETY: name and version are C strings; RTLD_NEXT looks behind this library.
        unsafe {
            let versioned = match self.version {
                Some(version) => {
                    libc::dlvsym(libc::RTLD_NEXT, self.name.as_ptr(), version.as_ptr())
                }
                None => std::ptr::null_mut(),
            };
            if versioned.is_null() {
                libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr())
            } else {
                versioned
            }
        }
    }
}

/// Where a symbol is, once it was looked up. Its name is not in here: a pointer to it would be a
/// relocation in a page that nothing else writes, for each program that is started.
pub struct Next(AtomicPtr<libc::c_void>);

impl Next {
    /// Not looked up yet.
    pub const fn unknown() -> Self {
        Self(AtomicPtr::new(std::ptr::null_mut()))
    }

    /// The address of the symbol, always the same one; null when there is none.
    #[inline(always)]
    pub fn address(&self, symbol: Symbol) -> *mut libc::c_void {
        let known = self.0.load(Ordering::Relaxed);
        if known.is_null() {
            let found = symbol.look_up();
            self.0.store(found, Ordering::Relaxed);
            found
        } else {
            known
        }
    }
}

/// Calls the next definition of a C function; `$missing` if there is none.
#[macro_export]
macro_rules! next {
    ($name:literal:
        fn($($type:ty),* $(,)?) -> $result:ty, ($($argument:expr),* $(,)?), $missing:expr) => {
        $crate::next!(new($name): fn($($type),*) -> $result, ($($argument),*), $missing)
    };
    ($kind:ident($name:literal):
        fn($($type:ty),*) -> $result:ty, ($($argument:expr),* $(,)?), $missing:expr) => {{
        static NEXT: $crate::next::Next = $crate::next::Next::unknown();
        let address = NEXT.address(const { $crate::next::Symbol::$kind($name) });
        if address.is_null() {
            $missing
        } else {
            // What calls pass are words that they have been passed.
            #[allow(clippy::macro_metavars_in_unsafe)]
            // SAFETY: the symbol of this name has this C signature in every libc, and the
            // arguments are those that our caller has passed for it.
            unsafe {
                let function: unsafe extern "C" fn($($type),*) -> $result =
                    std::mem::transmute(address);
                function($($argument),*)
            }
        }
    }};
}
pub use crate::next;

/// A system call for this library itself, as libc's `syscall` answers it: -1 and errno. Past every
/// symbol of that name.
///
/// # Safety
/// As the call of that number demands.
pub unsafe fn system_call<const N: usize>(number: libc::c_long, words: [usize; N]) -> libc::c_long {
    // SAFETY: by this function's own contract.
    let result = unsafe { vshmem_mem::system_call(number, words) };
    if (-4095..0).contains(&result) {
        // SAFETY: libc's errno location is valid for the calling thread.
        unsafe { *libc::__errno_location() = -result as libc::c_int };
        return -1;
    }
    result as libc::c_long
}

/// A system call that the program has made by number, handed to the next library that answers such.
///
/// # Safety
/// As the call of that number demands.
pub unsafe fn pass_on<const N: usize>(number: libc::c_long, words: [usize; N]) -> libc::c_long {
    let word = |index: usize| words.get(index).copied().unwrap_or(0);
    next!(c"syscall":
        fn(libc::c_long, usize, usize, usize, usize, usize, usize) -> libc::c_long,
        (number, word(0), word(1), word(2), word(3), word(4), word(5)), -1)
}
