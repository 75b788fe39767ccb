//! The compare-and-swap of a cell: 16 bytes at once.

use std::sync::atomic::AtomicU64;

use vshmem_wire::Cell;

/// Whether this processor has it. All of aarch64 do; of x86-64 all but the first few of 2003 to
/// 2005.
#[must_use]
pub fn has_wide_swap() -> bool {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        std::arch::is_x86_feature_detected!("cmpxchg16b")
    }
    #[cfg(any(not(target_arch = "x86_64"), miri))]
    {
        true
    }
}

/// Replaces `old` by `new`; says whether it did. Sequentially consistent.
#[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
#[inline]
pub(crate) fn replace(cell: &[AtomicU64; 2], old: Cell, new: Cell) -> bool {
    debug_assert!(cell.as_ptr().addr().is_multiple_of(16), "a cell lies on 16 bytes");
    #[cfg(tsan)]
    tsan::release(cell);
    let replaced = swap(cell, old, new);
    #[cfg(tsan)]
    tsan::acquire(cell);
    replaced
}

/// ThreadSanitizer does not see into instructions: these calls say what the swap orders.
#[cfg(tsan)]
mod tsan {
    use std::ffi::c_void;
    use std::sync::atomic::AtomicU64;

    unsafe extern "C" {
        safe fn __tsan_acquire(at: *const c_void);
        safe fn __tsan_release(at: *const c_void);
    }

    pub(super) fn release(cell: &[AtomicU64; 2]) {
        cell.iter().for_each(|half| __tsan_release(half.as_ptr().cast_const().cast()));
    }

    pub(super) fn acquire(cell: &[AtomicU64; 2]) {
        cell.iter().for_each(|half| __tsan_acquire(half.as_ptr().cast_const().cast()));
    }
}

/// On a processor without the instruction this is SIGILL: no process joins a pool there
/// (`has_wide_swap`).
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline]
fn swap(cell: &[AtomicU64; 2], old: Cell, new: Cell) -> bool {
    let replaced: u8;
    // SAFETY: the reference is to sixteen bytes that may be written by any thread at any time,
    // atomically; `Map` hands out cells on 16 bytes only, as the instruction demands. The compiler
    // keeps rbx for itself, so it is put aside and back; the address has a register by name, as any
    // other might be that one. Moves cost nothing here; `xchg` is three operations.
    unsafe {
        core::arch::asm!(
            "mov {aside}, rbx",
            "mov rbx, {new_word}",
            "lock cmpxchg16b [rdi]",
            "sete r8b",
            "mov rbx, {aside}",
            aside = out(reg) _,
            new_word = in(reg) new.word,
            in("rdi") cell.as_ptr(),
            out("r8b") replaced,
            inout("rax") old.word => _,
            inout("rdx") old.tag => _,
            in("rcx") new.tag,
            options(nostack),
        );
    }
    replaced != 0
}

/// Acquires and releases, as each exclusive pair does.
#[cfg(all(target_arch = "aarch64", not(miri)))]
#[inline]
fn swap(cell: &[AtomicU64; 2], old: Cell, new: Cell) -> bool {
    let differs: u64;
    // SAFETY: the reference is to sixteen bytes that may be written by any thread at any time,
    // atomically; `Map` hands out cells on 16 bytes only, as the instructions demand. What was
    // loaded is of one moment only if the store succeeds, so a pair that differs is stored back
    // before it is believed.
    unsafe {
        core::arch::asm!(
            "2:",
            "ldaxp {word}, {tag}, [{at}]",
            "cmp {word}, {old_word}",
            "ccmp {tag}, {old_tag}, #0, eq",
            "cset {differs}, ne",
            "csel {word}, {new_word}, {word}, eq",
            "csel {tag}, {new_tag}, {tag}, eq",
            "stlxp {failed:w}, {word}, {tag}, [{at}]",
            "cbnz {failed:w}, 2b",
            at = in(reg) cell.as_ptr(),
            old_word = in(reg) old.word,
            old_tag = in(reg) old.tag,
            new_word = in(reg) new.word,
            new_tag = in(reg) new.tag,
            word = out(reg) _,
            tag = out(reg) _,
            differs = out(reg) differs,
            failed = out(reg) _,
            options(nostack),
        );
    }
    differs == 0
}

/// Miri knows no such instruction: one lock for all cells stands for it. The word is replaced by a
/// compare-and-swap, as some words are replaced alone.
#[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
mod model {
    use super::Cell;
    use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
    use std::sync::{Mutex, PoisonError};

    static ALL: Mutex<()> = Mutex::new(());

    pub(crate) fn replace(cell: &[AtomicU64; 2], old: Cell, new: Cell) -> bool {
        let _all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
        if cell[1].load(SeqCst) != old.tag {
            return false;
        }
        let replaced = cell[0].compare_exchange(old.word, new.word, SeqCst, SeqCst).is_ok();
        if replaced {
            cell[1].store(new.tag, SeqCst);
        }
        replaced
    }

    pub(crate) fn load(cell: &[AtomicU64; 2]) -> Cell {
        let _all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
        Cell { word: cell[0].load(SeqCst), tag: cell[1].load(SeqCst) }
    }
}
#[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
pub(crate) use model::{load, replace};

/// Reads a cell, both halves as they were at one moment.
///
/// The tag is read before and after the word. It only rises, and no two writes of the word have the
/// same, so if it is the same both times, then it is the word's. A peer that keeps on changing it
/// gets a pair that never was, and that [`replace`] refuses.
#[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
#[inline]
pub(crate) fn load(cell: &[AtomicU64; 2]) -> Cell {
    use std::sync::atomic::Ordering::Acquire;
    /// Times that another thread has come between; each was a write.
    const MOST_LOOKS: u32 = 1 << 16;
    let mut tag = cell[1].load(Acquire);
    let mut word = cell[0].load(Acquire);
    for _ in 0..MOST_LOOKS {
        let now = cell[1].load(Acquire);
        if now == tag {
            break;
        }
        tag = now;
        word = cell[0].load(Acquire);
    }
    Cell { word, tag }
}
