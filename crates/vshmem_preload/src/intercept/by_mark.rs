//! Calls of a few nanoseconds on locks and semaphores: those of the pool by their mark, all others
//! by a jump to the next definition of the symbol, which is looked up when the library is loaded.
//!
//! A look at the mark costs next to nothing; a second line of instructions costs a third of a
//! nanosecond, and with it a private mutex would take a fifth longer than without this library. So
//! on x86-64 these functions are machine instructions, each of which lies on one line.

/// Defines the C function `$symbol` of one argument, an object of libc's type `$theirs`, where
/// `$look` finds the pool's `$object` by its mark. `$ours` answers for that. What is jumped to for
/// all others looks the symbol up at first; the answer is `$missing` if there is none.
macro_rules! by_mark {
    ($symbol:ident, $kind:ident($name:literal), $missing:expr,
     $look:ident: $theirs:ty => $object:ty, $ours:ident) => {
        #[doc = concat!("What [`", stringify!($symbol), "()`] jumps to.")]
        mod $symbol {
            use std::sync::atomic::{AtomicPtr, Ordering};

            use super::*;

            pub(super) type Next = unsafe extern "C" fn(*mut $theirs) -> c_int;

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
            unsafe extern "C" fn look_up(at: *mut $theirs) -> c_int {
                find();
                let found = FOUND.load(Ordering::Relaxed);
                if found == look_up as Next as *mut libc::c_void {
                    return $missing;
                }
                // SAFETY: the symbol of this name has this C signature in every libc, and the
                // argument is that of a caller of that symbol.
                unsafe { std::mem::transmute::<*mut libc::c_void, Next>(found)(at) }
            }
        }

        #[doc = concat!(stringify!($symbol), "(3).")]
        ///
        /// # Safety
        /// As libc's.
        #[cfg(target_arch = "x86_64")]
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        #[unsafe(link_section = ".text.vshmem_by_mark")]
        pub unsafe extern "C" fn $symbol(at: *mut $theirs) -> c_int {
            $crate::intercept::by_mark::$look!($object, $ours, $symbol::FOUND)
        }

        #[doc = concat!(stringify!($symbol), "(3).")]
        ///
        /// # Safety
        /// As libc's.
        #[cfg(not(target_arch = "x86_64"))]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $symbol(at: *mut $theirs) -> c_int {
            // SAFETY: by the caller's contract; before the symbol was looked up, what is called is
            // the function that does.
            unsafe {
                match $crate::process_shared::$look(at) {
                    Some(shared) => $ours(shared),
                    None => {
                        let found = $symbol::FOUND.load(std::sync::atomic::Ordering::Relaxed);
                        std::mem::transmute::<*mut libc::c_void, $symbol::Next>(found)(at)
                    }
                }
            }
        }
    };
}
pub(crate) use by_mark;

/// The instructions for a mutex, whose mark is in bits of a word of 4 bytes.
#[cfg(target_arch = "x86_64")]
macro_rules! mutex_at {
    ($object:ty, $ours:path, $found:path) => {
        std::arch::naked_asm!(
            ".cfi_startproc",
            "mov eax, dword ptr [rdi + {at}]",
            "and eax, {bits}",
            "cmp eax, {mark}",
            "je {ours}",
            "jmp qword ptr [rip + {found}]",
            ".cfi_endproc",
            ".p2align 5", // the next of them
            at = const <$object>::KIND_AT,
            bits = const <$object>::MARK_BITS,
            mark = const <$object>::MARK,
            ours = sym $ours,
            found = sym $found,
        )
    };
}
#[cfg(target_arch = "x86_64")]
pub(crate) use mutex_at;

/// The instructions for the other objects, whose mark is a word of 8 bytes.
#[cfg(target_arch = "x86_64")]
macro_rules! object_at {
    ($object:ty, $ours:path, $found:path) => {
        std::arch::naked_asm!(
            ".cfi_startproc",
            "mov rax, qword ptr [rdi + {at}]",
            "movabs rcx, {mark}",
            "cmp rax, rcx",
            "je {ours}",
            "jmp qword ptr [rip + {found}]",
            ".cfi_endproc",
            ".p2align 5", // the next of them
            at = const <$object>::MARK_AT,
            mark = const <$object>::MARK,
            ours = sym $ours,
            found = sym $found,
        )
    };
}
#[cfg(target_arch = "x86_64")]
pub(crate) use object_at as condvar_at;
#[cfg(target_arch = "x86_64")]
pub(crate) use object_at as rwlock_at;
#[cfg(target_arch = "x86_64")]
pub(crate) use object_at as semaphore_at;
