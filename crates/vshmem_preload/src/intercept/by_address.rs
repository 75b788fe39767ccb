//! Calls of a few nanoseconds on locks and semaphores: those in the pool's memory by their address,
//! all others by a jump to the next definition of the symbol, which is looked up when the library
//! is loaded.
//!
//! A compare costs next to nothing; a second line of instructions costs a third of a nanosecond,
//! and with it a private mutex would take a fifth longer than without this library. So on x86-64
//! these functions are machine instructions, each of which lies on one line.

/// Defines the C function `$symbol` of one argument, an object of libc's type `$theirs`. Where that
/// lies in the range of `$bounds`, or between them once calls are diverted, `$whose` says whose it
/// is: `$ours` answers for one of the pool's, `$invalid` for what was never initialised there. What
/// is jumped to for all others looks the symbol up at first; the answer is `$missing` if there is
/// none.
macro_rules! by_address {
    ($symbol:ident, $kind:ident($name:literal), $missing:expr, $invalid:expr,
     $bounds:ident, $whose:ident: $theirs:ty, $ours:ident) => {
        #[doc = concat!("What [`", stringify!($symbol), "()`] jumps to.")]
        mod $symbol {
            use std::sync::atomic::{AtomicPtr, Ordering};

            use super::*;

            /// A cancellation may unwind from there. If that were said here ("C-unwind"), callers
            /// that cannot unwind by themselves would end the process instead.
            pub(super) type Next = unsafe extern "C" fn(*mut $theirs) -> c_int;

            /// Where a call jumps to: libc's function, or `outside`.
            pub(super) static TARGET: AtomicPtr<libc::c_void> =
                AtomicPtr::new(look_up as Next as *mut libc::c_void);

            /// libc's function.
            static FOUND: AtomicPtr<libc::c_void> =
                AtomicPtr::new(look_up as Next as *mut libc::c_void);

            /// A jump that once went to `look_up` and then elsewhere is predicted as one of many
            /// targets: on an AMD EPYC it costs a nanosecond more ever after.
            #[used]
            #[unsafe(link_section = ".init_array")]
            static AT_LOAD: extern "C" fn() = {
                extern "C" fn at_load() {
                    find();
                    let outside = outside as Next as *mut libc::c_void;
                    vshmem_process::attached::bounds::$bounds.register(&TARGET, outside);
                }
                at_load
            };

            fn find() {
                let found = vshmem_process::next::Symbol::$kind($name).look_up();
                if !found.is_null() {
                    FOUND.store(found, Ordering::Relaxed);
                    // Not where calls are diverted.
                    let unknown = look_up as Next as *mut libc::c_void;
                    let order = (Ordering::Relaxed, Ordering::Relaxed);
                    let _ = TARGET.compare_exchange(unknown, found, order.0, order.1);
                }
            }

            /// For calls that come before this library's start, and where nothing was found.
            #[cold]
            unsafe extern "C" fn look_up(at: *mut $theirs) -> c_int {
                find();
                if FOUND.load(Ordering::Relaxed) == look_up as Next as *mut libc::c_void {
                    return $missing;
                }
                // SAFETY: by the caller's contract.
                unsafe { libcs(at) }
            }

            /// An object outside of the range, where something is mapped there.
            unsafe extern "C" fn outside(at: *mut $theirs) -> c_int {
                // SAFETY: by the caller's contract.
                unsafe {
                    if vshmem_process::attached::bounds::$bounds.hold_outside(at.addr()) {
                        within(at)
                    } else {
                        libcs(at)
                    }
                }
            }

            /// Where the call jumps to.
            ///
            /// # Safety
            /// As libc's.
            #[cfg(not(target_arch = "x86_64"))]
            pub(super) unsafe fn onwards(at: *mut $theirs) -> c_int {
                let target = TARGET.load(Ordering::Relaxed);
                // SAFETY: as in `libcs`; `outside` has the same signature.
                unsafe { std::mem::transmute::<*mut libc::c_void, Next>(target)(at) }
            }

            /// # Safety
            /// As libc's.
            unsafe fn libcs(at: *mut $theirs) -> c_int {
                let found = FOUND.load(Ordering::Relaxed);
                // SAFETY: the symbol of this name has this C signature in every libc, and the
                // argument is that of a caller of that symbol; before it was looked up, what is
                // called is the function that does.
                unsafe { std::mem::transmute::<*mut libc::c_void, Next>(found)(at) }
            }

            /// An object where the pool's memory may be. A cancellation unwinds from here.
            ///
            /// # Safety
            /// As libc's.
            pub(super) unsafe extern "C-unwind" fn within(at: *mut $theirs) -> c_int {
                // SAFETY: by the caller's contract.
                unsafe {
                    match vshmem_process::process_shared::whose::$whose(at) {
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
                "mov rax, rdi",
                "shr rax, {bits}",
                "cmp rax, qword ptr [rip + {bounds}]",
                "je {within}",
                "jmp qword ptr [rip + {target}]",
                ".cfi_endproc",
                ".p2align 5", // the next of them
                bits = const vshmem_process::attached::bounds::RANGE_BITS,
                bounds = sym vshmem_process::attached::bounds::$bounds,
                within = sym $symbol::within,
                target = sym $symbol::TARGET,
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
                if vshmem_process::attached::bounds::$bounds.has_in_range(at.addr()) {
                    $symbol::within(at)
                } else {
                    $symbol::onwards(at)
                }
            }
        }
    };
}
pub(crate) use by_address;
