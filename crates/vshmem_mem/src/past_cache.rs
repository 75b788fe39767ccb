//! Copies that do not stay in the copier's cache.

#[cfg(target_arch = "x86_64")]
use std::sync::LazyLock;

use crate::racing::call_memcpy;

/// From so many bytes on the detour by memory is the shorter way.
const WORTH_WHILE: usize = 4096;

/// Copies bytes that another CPU will read next, and this one will not.
///
/// An ordinary copy fetches each line of the destination from the reader's cache, where it was read
/// the last time round, and leaves it in this one, from which the reader must fetch it: two
/// journeys between CPUs that may be far apart. Stores that bypass the cache leave it in memory,
/// from where the reader's own CPU fetches ahead. Intel's processors fetch no line that a string
/// copy writes as a whole, so an ordinary copy is the quicker one there.
///
/// # Safety
/// As [`std::ptr::copy_nonoverlapping`]: both ends have so many bytes, and do not overlap.
#[inline]
pub unsafe fn copy_past_cache(from: *const u8, to: *mut u8, bytes: usize) {
    if bytes < WORTH_WHILE || cfg!(miri) || copies_whole_lines() {
        // SAFETY: the caller's promise.
        unsafe { call_memcpy(to, from, bytes) };
    } else {
        // SAFETY: the caller's promise, and there is at least a line.
        unsafe { large(from, to, bytes) };
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn copies_whole_lines() -> bool {
    false
}

/// Whether an ordinary copy of this processor writes whole lines without fetching them.
#[cfg(target_arch = "x86_64")]
fn copies_whole_lines() -> bool {
    use std::arch::x86_64::__cpuid;
    // A hypervisor is asked, which takes microseconds.
    static IS_INTEL: LazyLock<bool> = LazyLock::new(|| {
        let vendor = __cpuid(0);
        let name = [vendor.ebx, vendor.edx, vendor.ecx].map(u32::to_le_bytes);
        name.as_flattened() == b"GenuineIntel"
    });
    *IS_INTEL
}

#[cfg(not(target_arch = "x86_64"))]
unsafe fn large(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: the caller's promise.
    unsafe { call_memcpy(to, from, bytes) };
}

#[cfg(target_arch = "x86_64")]
unsafe fn large(from: *const u8, to: *mut u8, bytes: usize) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};
    const LINE: usize = 64;
    let head = to.align_offset(LINE).min(bytes);
    let lines = (bytes - head) / LINE;
    let tail = head + lines * LINE;
    // SAFETY: head, lines and tail are what the caller promised, one after the other; the lines of
    // the destination are aligned.
    unsafe {
        call_memcpy(to, from, head);
        for line in 0..lines {
            let at = head + line * LINE;
            let (from, to) = (from.add(at).cast::<__m128i>(), to.add(at).cast::<__m128i>());
            let words = [0, 1, 2, 3].map(|word| _mm_loadu_si128(from.add(word)));
            for (nth, word) in words.into_iter().enumerate() {
                _mm_stream_si128(to.add(nth), word);
            }
        }
        call_memcpy(to.add(tail), from.add(tail), bytes - tail);
        // Such stores are not ordered with later ones, of which one will say that the message is
        // there.
        _mm_sfence();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_arrives_and_none_besides_wherever_the_ends_lie() {
        check(copy_past_cache);
        if !cfg!(miri) {
            check(large);
        }
    }

    fn check(copy: unsafe fn(*const u8, *mut u8, usize)) {
        let text: Vec<u8> = (0..20_000_u32).map(|nth| ((nth * 31) >> 3) as u8 | 1).collect();
        for (from, to, bytes) in [
            (0, 0, 4096),
            (1, 0, 4096),
            (0, 1, 4097),
            (7, 63, 8191),
            (3, 8, 16_384),
            (5, 64, 100),
            (0, 9, 0),
        ] {
            let mut place = vec![0_u8; 20_000];
            // SAFETY: both are longer than what is copied.
            unsafe { copy(text[from..].as_ptr(), place[to..].as_mut_ptr(), bytes) };
            assert_eq!(place[to..to + bytes], text[from..from + bytes], "{from} {to} {bytes}");
            assert!(
                place[..to].iter().chain(&place[to + bytes..]).all(|&byte| byte == 0),
                "{from} {to} {bytes}"
            );
        }
    }
}
