//! A system call by its instruction.
//!
//! libc's `syscall` is a symbol that programs and other libraries replace; to find the original
//! takes the dynamic linker, which is not to be had in a signal handler or in a child between clone
//! and exec. It also changes errno.

/// Makes the call `number`. The result is the kernel's own: from -4095 to -1 an errno.
///
/// # Safety
/// As the call of that number demands.
#[inline]
pub unsafe fn system_call<const N: usize>(number: libc::c_long, words: [usize; N]) -> isize {
    let word = |index: usize| words.get(index).copied().unwrap_or(0);
    let result: isize;
    // SAFETY: the kernel's calling convention; what the call does is the caller's to guarantee.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        std::arch::asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") word(0),
            in("rsi") word(1),
            in("rdx") word(2),
            in("r10") word(3),
            in("r8") word(4),
            in("r9") word(5),
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
        #[cfg(target_arch = "aarch64")]
        std::arch::asm!(
            "svc 0",
            in("x8") number,
            inlateout("x0") word(0) as isize => result,
            in("x1") word(1),
            in("x2") word(2),
            in("x3") word(3),
            in("x4") word(4),
            in("x5") word(5),
            options(nostack),
        );
    }
    result
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn results_and_errnos_are_the_kernels() {
        // SAFETY: the calls read nothing of ours.
        let (pid, closed) = unsafe {
            (system_call(libc::SYS_getpid, []), system_call(libc::SYS_close, [usize::MAX]))
        };
        assert_eq!(pid, std::process::id() as isize);
        assert_eq!(closed, -(libc::EBADF as isize));
    }
}
