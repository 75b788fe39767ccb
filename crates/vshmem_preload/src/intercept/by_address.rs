//! Calls of a few nanoseconds on locks and semaphores: those in the pool's memory by their address,
//! all others by a jump to the next definition of the symbol, which is looked up when the library
//! is loaded.
//!
//! Two compares cost next to nothing; a second line of instructions costs a third of a nanosecond,
//! and with it a private mutex would take a fifth longer than without this library. So on x86-64
//! these functions are machine instructions, each of which lies on one line.

/// Defines the C function `$symbol` of one argument, an object of libc's type `$theirs`. Where that
/// lies between `$bounds`, `$whose` says whose it is: `$ours` answers for one of the pool's,
/// `$invalid` for what was never initialised there. What is jumped to for all others looks the
/// symbol up at first; the answer is `$missing` if there is none.
macro_rules! by_address {
    ($symbol:ident, $kind:ident($name:literal), $missing:expr, $invalid:expr,
     $bounds:ident, $whose:ident: $theirs:ty, $ours:ident) => {
        #[doc = concat!("What [`", stringify!($symbol), "()`] jumps to.")]
        mod $symbol {
            use std::sync::atomic::{AtomicPtr, Ordering};

            use super::*;

            /// A cancellation unwinds from here.
            pub(super) type Next = unsafe extern "C-unwind" fn(*mut $theirs) -> c_int;

            pub(super) static FOUND: AtomicPtr<libc::c_void> =
                AtomicPtr::new(look_up as Next as *mut libc::c_void);

            /// A jump that once went to `look_up` and then elsewhere is predicted as one of many
            /// targets: on an AMD EPYC it costs a nanosecond more ever after.
            #[used]
            #[unsafe(link_section = ".init_array")]
            static AT_LOAD: extern "C" fn() = find;

            extern "C" fn find() {
                let found = $crate::next::Next::$kind($name).address();
                if !found.is_null() {
                    FOUND.store(found, Ordering::Relaxed);
                }
            }

            /// For calls that come before this library's start, and where nothing was found.
            #[cold]
            unsafe extern "C-unwind" fn look_up(at: *mut $theirs) -> c_int {
                find();
                if FOUND.load(Ordering::Relaxed) == look_up as Next as *mut libc::c_void {
                    return $missing;
                }
                // SAFETY: by the caller's contract.
                unsafe { libcs(at) }
            }

            /// # Safety
            /// As libc's.
            pub(super) unsafe fn libcs(at: *mut $theirs) -> c_int {
                let found = FOUND.load(Ordering::Relaxed);
                // SAFETY: the symbol of this name has this C signature in every libc, and the
                // argument is that of a caller of that symbol; before it was looked up, what is
                // called is the function that does.
                unsafe { std::mem::transmute::<*mut libc::c_void, Next>(found)(at) }
            }

            /// An object between the bounds of the pool's memory.
            ///
            /// # Safety
            /// As libc's.
            pub(super) unsafe extern "C-unwind" fn within(at: *mut $theirs) -> c_int {
                // SAFETY: by the caller's contract.
                unsafe {
                    match $crate::process_shared::whose::$whose(at) {
                        Whose::Pools(shared) => $ours(shared),
                        Whose::Uninitialised => $invalid,
                        Whose::Libcs => libcs(at),
                    }
                }
            }
        }

        #[doc = concat!(stringify!($symbol), "(3).")]
        ///
        /// # Safety
        /// As libc's.
        #[cfg(target_arch = "x86_64")]
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        #[unsafe(link_section = ".text.vshmem_by_address")]
        pub unsafe extern "C" fn $symbol(at: *mut $theirs) -> c_int {
            std::arch::naked_asm!(
                ".cfi_startproc",
                "cmp rdi, qword ptr [rip + {bounds} + {low}]",
                "jb 2f",
                "cmp rdi, qword ptr [rip + {bounds} + {end}]",
                "jb {within}",
                "2:",
                "jmp qword ptr [rip + {found}]",
                ".cfi_endproc",
                ".p2align 5", // the next of them
                bounds = sym $crate::attached::bounds::$bounds,
                low = const $crate::attached::bounds::Bounds::LOW_AT,
                end = const $crate::attached::bounds::Bounds::END_AT,
                within = sym $symbol::within,
                found = sym $symbol::FOUND,
            )
        }

        #[doc = concat!(stringify!($symbol), "(3).")]
        ///
        /// # Safety
        /// As libc's.
        #[cfg(not(target_arch = "x86_64"))]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $symbol(at: *mut $theirs) -> c_int {
            // SAFETY: by the caller's contract.
            unsafe {
                if $crate::attached::bounds::$bounds.hold(at.addr()) {
                    $symbol::within(at)
                } else {
                    $symbol::libcs(at)
                }
            }
        }
    };
}
pub(crate) use by_address;
