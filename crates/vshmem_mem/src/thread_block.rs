//! Words of each thread that signal handlers read.
//!
//! They lie in the thread's static block, at a place that is known when the library is loaded. A
//! `thread_local!` of a shared library is reached through `__tls_get_addr`, which may call malloc
//! after a dlopen, and a handler may have interrupted malloc. The way here is a few instructions.

/// Gives each thread a zeroed `$words` under the hidden symbol `$symbol`, and makes the function
/// `$with` that passes the calling thread's to a closure. `$words` consists of atomics, zeros are a
/// value of it, and it needs no more than the alignment of 8 bytes. The symbol is hidden: each
/// library that this is linked into has a block of its own.
#[macro_export]
macro_rules! thread_block {
    ($(#[$doc:meta])* $visible:vis fn $with:ident: $words:ty, $symbol:literal) => {
        ::core::arch::global_asm!(
            concat!(".pushsection .tbss.", $symbol, ",\"awT\",@nobits"),
            ".balign 8",
            concat!(".globl ", $symbol),
            concat!(".hidden ", $symbol),
            concat!(".type ", $symbol, ", @object"),
            concat!(".size ", $symbol, ", {bytes}"),
            concat!($symbol, ":"),
            ".zero {bytes}",
            ".popsection",
            bytes = const size_of::<$words>(),
        );
        const _: () = assert!(align_of::<$words>() <= 8);

        $(#[$doc])*
        #[inline(always)]
        $visible fn $with<R>(read: impl FnOnce(&$words) -> R) -> R {
            let at: *const $words;
            // SAFETY: the initial-exec way to a thread-local variable, as the platform's ABI has
            // it: its offset from the thread pointer stands in the global offset table. Nothing
            // else is touched.
            unsafe {
                #[cfg(target_arch = "x86_64")]
                ::core::arch::asm!(
                    "mov {at}, qword ptr fs:[0]",
                    concat!("add {at}, qword ptr [rip + ", $symbol, "@GOTTPOFF]"),
                    at = out(reg) at,
                    options(pure, readonly, nostack),
                );
                #[cfg(target_arch = "aarch64")]
                ::core::arch::asm!(
                    "mrs {at}, tpidr_el0",
                    concat!("adrp {offset}, :gottprel:", $symbol),
                    concat!("ldr {offset}, [{offset}, #:gottprel_lo12:", $symbol, "]"),
                    "add {at}, {at}, {offset}",
                    at = out(reg) at,
                    offset = out(reg) _,
                    options(pure, readonly, nostack, preserves_flags),
                );
            }
            // SAFETY: the variable lies in the thread's static block for as long as the thread
            // runs; it is of this size and alignment, zeros are a value of it, and all access is by
            // atomics.
            read(unsafe { &*at })
        }
    };
}
