//! read(2), write(2) and their kin, of which nearly all are on files of the kernel's: those must
//! cost next to nothing here. All are cancellation points: a thread may leave by them.

use libc::{c_int, c_void, iovec, off_t, size_t, ssize_t};

use vshmem_process::errno;
use vshmem_process::next::next;
use vshmem_process::posix::send_file;
use vshmem_process::posix::transfer::{Transfer, Way, involves_object};

use vshmem_ipc::Errno;

const fn transfer(file: c_int, way: Way, at: Option<off_t>) -> Transfer {
    Transfer { file, way, at }
}

/// read(2).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn read(file: c_int, to: *mut c_void, bytes: size_t) -> ssize_t {
    transfer(file, Way::Read, None).of(
        to.cast(),
        bytes,
        || next!(c"read": fn(c_int, *mut c_void, size_t) -> ssize_t, (file, to, bytes), -1),
    )
}

/// write(2).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn write(file: c_int, from: *const c_void, bytes: size_t) -> ssize_t {
    transfer(file, Way::Write, None).of(
        from.cast_mut().cast(),
        bytes,
        || next!(c"write": fn(c_int, *const c_void, size_t) -> ssize_t, (file, from, bytes), -1),
    )
}

/// What read(2) is in programs built with _FORTIFY_SOURCE.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __read_chk(
    file: c_int,
    to: *mut c_void,
    bytes: size_t,
    room: size_t,
) -> ssize_t {
    let call = || {
        next!(c"__read_chk": fn(c_int, *mut c_void, size_t, size_t) -> ssize_t,
              (file, to, bytes, room), -1)
    };
    // libc ends a program that reads more than it has room for.
    if bytes > room { call() } else { transfer(file, Way::Read, None).of(to.cast(), bytes, call) }
}

macro_rules! reads_at {
    ($($name:ident $symbol:literal),*) => {$(
        #[doc = concat!(stringify!($name), "(2).")]
        ///
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(
            file: c_int,
            to: *mut c_void,
            bytes: size_t,
            at: off_t,
        ) -> ssize_t {
            transfer(file, Way::Read, Some(at)).of(to.cast(), bytes, || {
                next!($symbol: fn(c_int, *mut c_void, size_t, off_t) -> ssize_t,
                      (file, to, bytes, at), -1)
            })
        }
    )*};
}
reads_at!(pread c"pread", pread64 c"pread64");

macro_rules! checked_reads_at {
    ($($name:ident $symbol:literal),*) => {$(
        #[doc = concat!(stringify!($name), ": pread(2) with _FORTIFY_SOURCE.")]
        ///
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(
            file: c_int,
            to: *mut c_void,
            bytes: size_t,
            at: off_t,
            room: size_t,
        ) -> ssize_t {
            let call = || {
                next!($symbol: fn(c_int, *mut c_void, size_t, off_t, size_t) -> ssize_t,
                      (file, to, bytes, at, room), -1)
            };
            if bytes > room {
                return call();
            }
            transfer(file, Way::Read, Some(at)).of(to.cast(), bytes, call)
        }
    )*};
}
checked_reads_at!(__pread_chk c"__pread_chk", __pread64_chk c"__pread64_chk");

macro_rules! writes_at {
    ($($name:ident $symbol:literal),*) => {$(
        #[doc = concat!(stringify!($name), "(2).")]
        ///
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(
            file: c_int,
            from: *const c_void,
            bytes: size_t,
            at: off_t,
        ) -> ssize_t {
            transfer(file, Way::Write, Some(at)).of(from.cast_mut().cast(), bytes, || {
                next!($symbol: fn(c_int, *const c_void, size_t, off_t) -> ssize_t,
                      (file, from, bytes, at), -1)
            })
        }
    )*};
}
writes_at!(pwrite c"pwrite", pwrite64 c"pwrite64");

macro_rules! vectors {
    ($($name:ident $symbol:literal $way:expr),*) => {$(
        #[doc = concat!(stringify!($name), "(2).")]
        ///
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(
            file: c_int,
            parts: *const iovec,
            count: c_int,
        ) -> ssize_t {
            let call = || next!($symbol: fn(c_int, *const iovec, c_int) -> ssize_t,
                                (file, parts, count), -1);
            // SAFETY: the same contract.
            unsafe { transfer(file, $way, None).of_several(parts, count, call) }
        }
    )*};
}
vectors!(readv c"readv" Way::Read, writev c"writev" Way::Write);

macro_rules! vectors_at {
    ($($name:ident $symbol:literal $way:expr),*) => {$(
        #[doc = concat!(stringify!($name), "(2).")]
        ///
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(
            file: c_int,
            parts: *const iovec,
            count: c_int,
            at: off_t,
        ) -> ssize_t {
            let call = || next!($symbol: fn(c_int, *const iovec, c_int, off_t) -> ssize_t,
                                (file, parts, count, at), -1);
            // SAFETY: the same contract.
            unsafe { transfer(file, $way, Some(at)).of_several(parts, count, call) }
        }
    )*};
}
vectors_at!(
    preadv c"preadv" Way::Read, preadv64 c"preadv64" Way::Read,
    pwritev c"pwritev" Way::Write, pwritev64 c"pwritev64" Way::Write
);

macro_rules! sendings {
    ($($name:ident $symbol:literal),*) => {$(
        #[doc = concat!(stringify!($name), "(2).")]
        ///
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(
            to: c_int,
            from: c_int,
            at: *mut off_t,
            bytes: size_t,
        ) -> ssize_t {
            send_file::send(to, from, at, bytes, || {
                next!($symbol: fn(c_int, c_int, *mut off_t, size_t) -> ssize_t,
                      (to, from, at, bytes), -1)
            })
        }
    )*};
}
sendings!(sendfile c"sendfile", sendfile64 c"sendfile64");

macro_rules! copies {
    ($($name:ident $symbol:literal),*) => {$(
        #[doc = concat!(stringify!($name), "(2): refused for an object.")]
        ///
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(
            from: c_int,
            from_at: *mut off_t,
            to: c_int,
            to_at: *mut off_t,
            bytes: size_t,
            flags: libc::c_uint,
        ) -> ssize_t {
            if involves_object(to, from) {
                errno::set(Errno::INVAL);
                return -1;
            }
            next!($symbol:
                fn(c_int, *mut off_t, c_int, *mut off_t, size_t, libc::c_uint) -> ssize_t,
                (from, from_at, to, to_at, bytes, flags), -1)
        }
    )*};
}
copies!(copy_file_range c"copy_file_range", splice c"splice");
