//! Words in a file of another user.
//!
//! A user that may write to a file may shorten it, and a load from a page that is gone ends the
//! process with SIGBUS. So this process never loads or stores there. The kernel does it instead,
//! and answers EFAULT: futex(2) wakes threads that sleep there, process_vm_readv(2) on this very
//! process reads. The mapping is for reading only, which is all that a wake needs.

use std::os::fd::BorrowedFd;

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};

use crate::mapping::Mapping;

/// A mapping that only the kernel looks at.
#[derive(Debug)]
pub struct ForeignWords {
    start: usize,
    bytes: usize,
}

impl ForeignWords {
    /// Maps the first `bytes` of a file. It stays mapped until [`ForeignWords::unmap`].
    ///
    /// # Errors
    /// What mmap(2) says.
    pub fn map(file: BorrowedFd<'_>, bytes: usize) -> Result<Self, Errno> {
        // SAFETY: a new mapping at an address of the kernel's choice replaces no other mapping.
        let start = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                bytes,
                ProtFlags::READ,
                MapFlags::SHARED,
                file,
                0,
            )
        }?;
        Ok(Self { start: start.addr(), bytes })
    }

    /// One that was mapped before: its [`ForeignWords::start`] and length.
    #[must_use]
    pub fn mapped_at(start: usize, bytes: usize) -> Self {
        Self { start, bytes }
    }

    /// Where it is mapped.
    #[must_use]
    pub fn start(&self) -> usize {
        self.start
    }

    /// Ends the mapping.
    pub fn unmap(self) {
        let Some(start) = std::ptr::NonNull::new(std::ptr::without_provenance_mut(self.start))
        else {
            return;
        };
        // SAFETY: the range was mapped by `map`, and nothing of this process points into it.
        drop(unsafe { Mapping::joined(start, self.bytes) });
    }

    fn at(&self, offset: usize) -> Result<usize, Errno> {
        let fits = offset.is_multiple_of(4) && offset < self.bytes && self.bytes - offset >= 4;
        if fits { Ok(self.start + offset) } else { Err(Errno::INVAL) }
    }

    /// Wakes every thread that sleeps on the word at `offset`. Returns how many.
    ///
    /// # Errors
    /// EFAULT when the file is shorter by now.
    pub fn wake(&self, offset: usize) -> Result<usize, Errno> {
        let most = i32::MAX as usize;
        let operation = libc::FUTEX_WAKE as usize;
        // SAFETY: FUTEX_WAKE changes no memory of this process.
        unsafe { call(libc::SYS_futex, [self.at(offset)?, operation, most, 0, 0, 0]) }
    }

    /// The word at `offset`.
    ///
    /// # Errors
    /// EFAULT when the file is shorter by now; what process_vm_readv(2) says, where a filter
    /// forbids it.
    pub fn read(&self, offset: usize) -> Result<u32, Errno> {
        let mut word = 0u32;
        let into = libc::iovec { iov_base: (&raw mut word).cast(), iov_len: 4 };
        let from = libc::iovec {
            iov_base: std::ptr::without_provenance_mut(self.at(offset)?),
            iov_len: 4,
        };
        let me = rustix::process::getpid().as_raw_nonzero().get() as usize;
        let into = (&raw const into).expose_provenance();
        let from = (&raw const from).expose_provenance();
        // SAFETY: the kernel writes four bytes to `word` at most, which outlives the call.
        let read = unsafe { call(libc::SYS_process_vm_readv, [me, into, 1, from, 1, 0]) }?;
        if read == 4 { Ok(word) } else { Err(Errno::FAULT) }
    }
}

/// A system call made in place: errno stays as it was.
///
/// # Safety
/// As the call itself demands of its arguments.
unsafe fn call(number: libc::c_long, arguments: [usize; 6]) -> Result<usize, Errno> {
    let result: isize;
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: the kernel keeps all registers but those that are named; the rest is the caller's to
    // guarantee.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        core::arch::asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, in("r8") e, in("r9") f,
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        core::arch::asm!(
            "svc 0",
            in("x8") number as usize,
            inlateout("x0") a => result,
            in("x1") b, in("x2") c, in("x3") d, in("x4") e, in("x5") f,
            options(nostack),
        );
    }
    if result < 0 { Err(Errno::from_raw_os_error(-result as i32)) } else { Ok(result as usize) }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use std::os::fd::AsFd;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    use super::*;
    use crate::futex::{FutexOutcome, futex_wait};
    use crate::map::Map;
    use crate::mapping::{Protection, map_file};

    const BYTES: usize = 8192;

    fn file() -> std::os::fd::OwnedFd {
        let file = rustix::fs::memfd_create("words", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&file, BYTES as u64).unwrap();
        file
    }

    fn own(file: &impl AsFd) -> Map {
        // SAFETY: no address is given.
        Map::of(map_file(file.as_fd(), 0, BYTES, Protection::READ_WRITE).unwrap())
    }

    #[test]
    fn a_waiter_is_woken_through_a_mapping_for_reading() {
        let file = file();
        let (owner, other) = (own(&file), ForeignWords::map(file.as_fd(), BYTES).unwrap());
        let woken = AtomicU32::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let word = owner.futex(4).unwrap();
                word.store(3, Ordering::SeqCst);
                let outcome = futex_wait(word, 3, Duration::from_secs(60));
                assert_eq!(outcome, FutexOutcome::Woken);
                woken.store(1, Ordering::SeqCst);
            });
            while other.read(4) != Ok(3) || other.wake(4) == Ok(0) {
                std::thread::yield_now();
            }
        });
        assert_eq!(woken.load(Ordering::SeqCst), 1);
        assert_eq!(other.wake(4), Ok(0), "no thread sleeps any more");
        other.unmap();
    }

    #[test]
    fn a_file_that_its_owner_shortens_is_an_error_and_no_signal() {
        let file = file();
        let other = ForeignWords::map(file.as_fd(), BYTES).unwrap();
        assert_eq!((other.read(4096), other.wake(4096)), (Ok(0), Ok(0)));
        rustix::fs::ftruncate(&file, 100).unwrap();
        assert_eq!((other.read(4096), other.wake(4096)), (Err(Errno::FAULT), Err(Errno::FAULT)));
        rustix::fs::ftruncate(&file, 0).unwrap();
        assert_eq!((other.read(0), other.wake(0)), (Err(Errno::FAULT), Err(Errno::FAULT)));
        assert_eq!((other.read(BYTES), other.wake(2)), (Err(Errno::INVAL), Err(Errno::INVAL)));
        other.unmap();
    }
}
