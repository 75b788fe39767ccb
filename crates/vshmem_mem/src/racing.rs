//! Copies out of memory that others write at any time, into it, and its clearing.
//!
//! To Rust such a copy by `ptr::copy` is a data race: the compiler may assume that no thread writes
//! meanwhile. What a peer writes meanwhile is to give torn bytes and nothing else. So short runs of
//! words, most of what is copied here, are relaxed atomics; on x86-64, 16 to 64 bytes are
//! instructions that the compiler does not look into; and all else is done by libc's memcpy and
//! memset behind a pointer that it cannot see through: to it, a function that does what its machine
//! instructions do, which is to load and store each byte some time between call and return. That is
//! as fast as a plain copy; 64 bytes by relaxed words take three times as long.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// Bytes up to which a loop over words is faster than a call.
const SHORT: usize = 16;

/// Whether bytes are copied by the loop: words on the shared side have to be aligned. Miri knows no
/// assembly.
#[inline]
fn by_words(shared: *const u8, bytes: usize) -> bool {
    cfg!(miri) || (bytes <= SHORT && shared.addr().is_multiple_of(8))
}

/// How many of the bytes are whole, aligned words.
#[inline]
fn in_words(shared: *const u8, bytes: usize) -> usize {
    if shared.addr().is_multiple_of(8) { bytes / 8 * 8 } else { 0 }
}

/// Copies out of memory that others may be writing.
///
/// # Safety
/// `shared` is mapped for `bytes`; `private` is this thread's alone, and does not overlap it.
#[inline(always)]
pub(crate) unsafe fn copy_out(shared: *const u8, private: *mut u8, bytes: usize) {
    if !by_words(shared, bytes) {
        // SAFETY: the caller's promise.
        unsafe { copy_more(private, shared, bytes) };
        return;
    }
    let words = in_words(shared, bytes);
    // SAFETY: the caller's promise; what is loaded as a word is aligned. Atomics may alias what
    // others write.
    unsafe {
        for at in (0..words).step_by(8) {
            let word = (*shared.add(at).cast::<AtomicU64>()).load(Ordering::Relaxed);
            private.add(at).cast::<u64>().write_unaligned(word);
        }
        for at in words..bytes {
            *private.add(at) = (*shared.add(at).cast::<AtomicU8>()).load(Ordering::Relaxed);
        }
    }
}

/// Copies into memory that others may be reading and writing.
///
/// # Safety
/// As [`copy_out`], with the roles changed.
#[inline(always)]
pub(crate) unsafe fn copy_in(private: *const u8, shared: *mut u8, bytes: usize) {
    if !by_words(shared, bytes) {
        // SAFETY: the caller's promise.
        unsafe { copy_more(shared, private, bytes) };
        return;
    }
    let words = in_words(shared, bytes);
    // SAFETY: as in `copy_out`.
    unsafe {
        for at in (0..words).step_by(8) {
            let word = private.add(at).cast::<u64>().read_unaligned();
            (*shared.add(at).cast::<AtomicU64>()).store(word, Ordering::Relaxed);
        }
        for at in words..bytes {
            (*shared.add(at).cast::<AtomicU8>()).store(*private.add(at), Ordering::Relaxed);
        }
    }
}

/// Sets memory to zero that others may be reading and writing.
///
/// # Safety
/// `shared` is mapped for `bytes`.
#[inline]
pub(crate) unsafe fn clear(shared: *mut u8, bytes: usize) {
    if !by_words(shared, bytes) {
        // SAFETY: the caller's promise.
        unsafe { call_memset(shared, bytes) };
        return;
    }
    let words = in_words(shared, bytes);
    // SAFETY: as in `copy_out`.
    unsafe {
        for at in (0..words).step_by(8) {
            (*shared.add(at).cast::<AtomicU64>()).store(0, Ordering::Relaxed);
        }
        for at in words..bytes {
            (*shared.add(at).cast::<AtomicU8>()).store(0, Ordering::Relaxed);
        }
    }
}

/// What is not copied by words.
///
/// # Safety
/// As [`call_memcpy`].
#[inline(always)]
unsafe fn copy_more(to: *mut u8, from: *const u8, bytes: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if (16..=64).contains(&bytes) {
        // SAFETY: the caller's promise, and the length was just looked at.
        unsafe { copy_by_vectors(to, from, bytes) };
        return;
    }
    // SAFETY: the caller's promise.
    unsafe { call_memcpy(to, from, bytes) };
}

/// Copies 16 to 64 bytes: the first 16 and the last 16, or 32 and 32, which may overlap.
///
/// # Safety
/// As [`call_memcpy`].
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
unsafe fn copy_by_vectors(to: *mut u8, from: *const u8, bytes: usize) {
    // SAFETY: all that is loaded and stored lies in the `bytes` that the caller promises.
    unsafe {
        if bytes > 32 {
            std::arch::asm!(
                "movdqu {first}, [{from}]",
                "movdqu {second}, [{from} + 16]",
                "movdqu {third}, [{from} + {bytes} - 32]",
                "movdqu {last}, [{from} + {bytes} - 16]",
                "movdqu [{to}], {first}",
                "movdqu [{to} + 16], {second}",
                "movdqu [{to} + {bytes} - 32], {third}",
                "movdqu [{to} + {bytes} - 16], {last}",
                from = in(reg) from, to = in(reg) to, bytes = in(reg) bytes,
                first = out(xmm_reg) _, second = out(xmm_reg) _,
                third = out(xmm_reg) _, last = out(xmm_reg) _,
                options(nostack, preserves_flags),
            );
        } else {
            std::arch::asm!(
                "movdqu {first}, [{from}]",
                "movdqu {last}, [{from} + {bytes} - 16]",
                "movdqu [{to}], {first}",
                "movdqu [{to} + {bytes} - 16], {last}",
                from = in(reg) from, to = in(reg) to, bytes = in(reg) bytes,
                first = out(xmm_reg) _, last = out(xmm_reg) _,
                options(nostack, preserves_flags),
            );
        }
    }
}

/// The same address, by a way that tells the compiler nothing about the function there: it would
/// take a memcpy that it knows for a plain copy.
macro_rules! unseen {
    ($function:expr, $type:ty) => {{
        let mut function: $type = $function;
        #[cfg(not(miri))]
        #[expect(clippy::pointers_in_nomem_asm_block, reason = "nothing is done with it there")]
        // SAFETY: no instruction at all: the register keeps what it has.
        unsafe {
            std::arch::asm!("/* {0} */", inout(reg) function,
                options(nomem, nostack, preserves_flags));
        }
        #[cfg(miri)]
        {
            function = std::hint::black_box(function);
        }
        function
    }};
}

/// Copies bytes of which others may be writing or reading either end.
///
/// # Safety
/// As memcpy(3) demands, but for the others.
pub(crate) unsafe fn call_memcpy(to: *mut u8, from: *const u8, bytes: usize) {
    type Memcpy = unsafe extern "C" fn(*mut c_void, *const c_void, usize) -> *mut c_void;
    let memcpy = unseen!(libc::memcpy, Memcpy);
    // SAFETY: the caller's promise.
    unsafe { memcpy(to.cast(), from.cast(), bytes) };
}

/// # Safety
/// As memset(3) demands.
unsafe fn call_memset(to: *mut u8, bytes: usize) {
    type Memset = unsafe extern "C" fn(*mut c_void, c_int, usize) -> *mut c_void;
    let memset = unseen!(libc::memset, Memset);
    // SAFETY: the caller's promise.
    unsafe { memset(to.cast(), 0, bytes) };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A buffer on a word's boundary.
    fn shared() -> Vec<u64> {
        vec![0x5555_5555_5555_5555; 40]
    }

    #[test]
    fn every_byte_arrives_and_none_besides_wherever_the_ends_lie() {
        let text: Vec<u8> = (0..200_u8).map(|nth| nth | 0x80).collect();
        for bytes in [0, 1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 48, 63, 64, 65, 150] {
            for offset in [0, 1, 5, 8, 16] {
                let mut memory = shared();
                let start = memory.as_mut_ptr().cast::<u8>();
                let mut out = vec![0_u8; bytes + 3];
                // SAFETY: 320 bytes on one side and at least `bytes` on the other.
                let seen = unsafe {
                    copy_in(text[offset..].as_ptr(), start.add(offset), bytes);
                    copy_out(start.add(offset), out[1..].as_mut_ptr(), bytes);
                    let seen = std::slice::from_raw_parts(start, 320).to_vec();
                    clear(start.add(offset), bytes);
                    seen
                };
                assert_eq!(seen[offset..offset + bytes], text[offset..offset + bytes]);
                assert_eq!(out[1..1 + bytes], text[offset..offset + bytes]);
                assert_eq!((out[0], out[bytes + 1]), (0, 0));
                let around = |all: &[u8]| [&all[..offset], &all[offset + bytes..]].concat();
                assert!(around(&seen).iter().all(|&byte| byte == 0x55), "{offset} {bytes}");
                // SAFETY: as above.
                let cleared = unsafe { std::slice::from_raw_parts(start, 320) };
                assert!(around(cleared).iter().all(|&byte| byte == 0x55), "{offset} {bytes}");
                assert!(cleared[offset..offset + bytes].iter().all(|&byte| byte == 0));
            }
        }
    }
}
