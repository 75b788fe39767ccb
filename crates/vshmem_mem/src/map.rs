//! A view of shared bytes by offset.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use vshmem_wire::{At, CELL_BYTES, Cell, RawCell, WORD_BYTES};

use crate::access_count::count_access;
use crate::mapping::Mapping;
use crate::racing::{clear, copy_in, copy_out};
use crate::{prefetch, wide};

/// An offset that does not lie in the pool, or not on a word: a peer wrote nonsense.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutOfPool {
    /// The offset, in bytes.
    pub offset: u64,
}

/// Checked access to the bytes of a mapping.
#[derive(Debug)]
pub struct Map {
    base: NonNull<u8>,
    bytes: usize,
    /// Unmaps when the view is dropped. `None` for a view of memory that is kept elsewhere.
    _mapping: Option<Mapping>,
}

/// A cell of a view, found and checked once: for who reads it and then replaces it.
#[derive(Debug, Clone, Copy)]
pub struct CellRef<'a>(&'a [AtomicU64; 2]);

impl CellRef<'_> {
    /// As [`Map::load_to_replace`].
    #[inline]
    #[must_use]
    pub fn load_to_replace(self) -> Cell {
        let tag = self.0[1].load(Ordering::Acquire);
        Cell { word: self.0[0].load(Ordering::Acquire), tag }
    }

    /// As [`Map::replace_cell`].
    #[inline]
    #[must_use]
    pub fn replace(self, old: Cell, word: u64) -> bool {
        wide::replace(self.0, old, old.successor(word))
    }
}

/// A structure of `WORDS` words of a view, found and checked once: for callers that read or write
/// several of its words.
#[derive(Debug, Clone, Copy)]
pub struct WordsRef<'a, const WORDS: usize>(&'a [AtomicU64; WORDS]);

impl<const WORDS: usize> WordsRef<'_, WORDS> {
    /// Reads the word at byte `at` of the structure.
    ///
    /// # Panics
    /// When it is not inside. The compiler sees that a field of the structure is.
    #[inline(always)]
    #[must_use]
    pub fn load(self, at: usize, order: Ordering) -> u64 {
        self.0[at / WORD_BYTES as usize].load(order)
    }

    /// Writes the word at byte `at` of the structure.
    ///
    /// # Panics
    /// As [`WordsRef::load`].
    #[inline(always)]
    pub fn store(self, at: usize, value: u64, order: Ordering) {
        self.0[at / WORD_BYTES as usize].store(value, order);
    }

    /// As [`Map::load_to_replace`], of the cell at byte `at` of the structure.
    ///
    /// # Panics
    /// As [`WordsRef::load`].
    #[inline(always)]
    #[must_use]
    pub fn load_to_replace(self, at: usize) -> Cell {
        let tag = self.load(at + WORD_BYTES as usize, Ordering::Acquire);
        Cell { word: self.load(at, Ordering::Acquire), tag }
    }
}

// SAFETY: every access goes through atomics or through copies of raw bytes; the mapping itself is
// not tied to a thread.
unsafe impl Send for Map {}
// SAFETY: as above: no access hands out a plain reference.
unsafe impl Sync for Map {}

impl Map {
    /// A view of a whole mapping, which it keeps.
    #[must_use]
    pub fn of(mapping: Mapping) -> Self {
        Self { base: mapping.start(), bytes: mapping.bytes(), _mapping: Some(mapping) }
    }

    /// A view of memory that is kept elsewhere.
    ///
    /// # Panics
    /// When it does not begin on a cache line.
    ///
    /// # Safety
    /// The memory stays mapped, for reading and writing, as long as the view is used, and its users
    /// access it as this view does or agree on when they do.
    #[must_use]
    pub unsafe fn over(base: NonNull<u8>, bytes: usize) -> Self {
        assert!(base.addr().get().is_multiple_of(64), "words of the view have to be aligned");
        Self { base, bytes, _mapping: None }
    }

    /// A view of zeroed private memory, for tests.
    ///
    /// # Panics
    /// When there is no memory.
    #[must_use]
    pub fn anonymous(bytes: usize) -> Self {
        Self::of(Mapping::anonymous(bytes).expect("anonymous memory"))
    }

    /// Bytes of the view.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes as u64
    }

    /// First byte, for mapping the same memory there again.
    #[must_use]
    pub fn start(&self) -> NonNull<u8> {
        self.base
    }

    /// Takes the memory away from this view without unmapping it.
    pub fn leak(mut self) {
        if let Some(mapping) = self._mapping.take() {
            mapping.leak();
        }
    }

    #[inline]
    fn word(&self, offset: u64) -> Result<&AtomicU64, OutOfPool> {
        count_access();
        let bytes = self.bytes as u64;
        let fits = offset & (WORD_BYTES - 1) == 0 && offset < bytes && bytes - offset >= WORD_BYTES;
        if !fits {
            return Err(OutOfPool { offset });
        }
        // SAFETY: the offset is inside the mapping with eight bytes to spare and aligned (the base
        // is on a cache line); an atomic may alias what other processes write.
        Ok(unsafe { &*self.base.as_ptr().add(offset as usize).cast::<AtomicU64>() })
    }

    /// The 32-bit word `at`, to sleep on.
    ///
    /// # Errors
    /// When the word is not inside.
    #[inline]
    pub fn futex(&self, offset: u64) -> Result<&AtomicU32, OutOfPool> {
        count_access();
        let fits = offset & 3 == 0 && offset < self.bytes as u64 && self.bytes as u64 - offset >= 4;
        if !fits {
            return Err(OutOfPool { offset });
        }
        // SAFETY: as in `word`, with four bytes.
        Ok(unsafe { &*self.base.as_ptr().add(offset as usize).cast::<AtomicU32>() })
    }

    /// Reads a word.
    ///
    /// # Errors
    /// When it is not inside.
    #[inline]
    pub fn load(&self, at: impl At<u64>, order: Ordering) -> Result<u64, OutOfPool> {
        Ok(self.word(at.offset())?.load(order))
    }

    /// Reads the words of `N` cells in a row, one after the other, each with acquire ordering.
    ///
    /// # Errors
    /// When they are not all inside.
    #[inline]
    pub fn load_row<const N: usize>(
        &self,
        at: impl At<[RawCell; N]>,
    ) -> Result<[u64; N], OutOfPool> {
        count_access();
        let offset = at.offset();
        let bytes = self.bytes as u64;
        let fits = offset & (CELL_BYTES - 1) == 0
            && offset < bytes
            && (bytes - offset) / CELL_BYTES >= N as u64;
        if !fits {
            return Err(OutOfPool { offset });
        }
        // SAFETY: as in `cell_words`, for N cells in a row: the last of them ends inside the
        // mapping.
        let cells =
            unsafe { &*self.base.as_ptr().add(offset as usize).cast::<[[AtomicU64; 2]; N]>() };
        Ok(std::array::from_fn(|nth| cells[nth][0].load(Ordering::Acquire)))
    }

    /// Word and tag of the cell `at`.
    #[inline]
    fn cell_words(&self, offset: u64) -> Result<&[AtomicU64; 2], OutOfPool> {
        count_access();
        let bytes = self.bytes as u64;
        let fits = offset & (CELL_BYTES - 1) == 0 && offset < bytes && bytes - offset >= CELL_BYTES;
        if !fits {
            return Err(OutOfPool { offset });
        }
        // SAFETY: the offset is inside the mapping with sixteen bytes to spare and aligned (the
        // base is on a cache line); atomics may alias what other processes write.
        Ok(unsafe { &*self.base.as_ptr().add(offset as usize).cast::<[AtomicU64; 2]>() })
    }

    /// Reads a cell, both halves as they were at one moment, with acquire ordering.
    ///
    /// # Errors
    /// When it is not inside.
    #[inline]
    pub fn load_cell(&self, at: impl At<RawCell>) -> Result<Cell, OutOfPool> {
        Ok(wide::load(self.cell_words(at.offset())?))
    }

    /// Reads a cell only to replace it, with acquire ordering: the tag, and then the word. Had it
    /// been written in between, they would not belong together, and the swap is refused.
    ///
    /// # Errors
    /// When it is not inside.
    #[inline]
    pub fn load_to_replace(&self, at: impl At<RawCell>) -> Result<Cell, OutOfPool> {
        Ok(self.cell_ref(at)?.load_to_replace())
    }

    /// The cell `at`.
    ///
    /// # Errors
    /// When it is not inside.
    #[inline]
    pub fn cell_ref(&self, at: impl At<RawCell>) -> Result<CellRef<'_>, OutOfPool> {
        self.cell_words(at.offset()).map(CellRef)
    }

    /// The `WORDS` words `at`.
    ///
    /// # Errors
    /// When they are not inside, or not on a word.
    #[inline(always)]
    pub fn words_ref<const WORDS: usize>(
        &self,
        offset: u64,
    ) -> Result<WordsRef<'_, WORDS>, OutOfPool> {
        count_access();
        let (bytes, wanted) = (self.bytes as u64, WORDS as u64 * WORD_BYTES);
        let fits = offset & (WORD_BYTES - 1) == 0 && offset < bytes && bytes - offset >= wanted;
        if !fits {
            return Err(OutOfPool { offset });
        }
        // SAFETY: as in `word`, with all the words inside the mapping.
        Ok(WordsRef(unsafe {
            &*self.base.as_ptr().add(offset as usize).cast::<[AtomicU64; WORDS]>()
        }))
    }

    /// Replaces `old` by its successor with `word`; says whether it did. Orders as
    /// [`Map::replace`].
    ///
    /// # Errors
    /// When the cell is not inside.
    #[inline]
    pub fn replace_cell(
        &self,
        at: impl At<RawCell>,
        old: Cell,
        word: u64,
    ) -> Result<bool, OutOfPool> {
        Ok(wide::replace(self.cell_words(at.offset())?, old, old.successor(word)))
    }

    /// Replaces `old` by `new`, for a cell whose second half is no tag; says whether it did. Orders
    /// as [`Map::replace`].
    ///
    /// # Errors
    /// When the cell is not inside.
    #[inline]
    pub fn replace_pair(
        &self,
        at: impl At<RawCell>,
        old: Cell,
        new: Cell,
    ) -> Result<bool, OutOfPool> {
        Ok(wide::replace(self.cell_words(at.offset())?, old, new))
    }

    /// Lays a cell into memory that is no cell of any client's yet. The tag is written first: the
    /// thread that still compares with what was there before finds another one.
    ///
    /// # Errors
    /// When the cell is not inside.
    #[inline]
    pub fn lay_cell(&self, at: impl At<RawCell>, cell: Cell) -> Result<(), OutOfPool> {
        let place = self.cell_words(at.offset())?;
        place[1].store(cell.tag, Ordering::Relaxed);
        place[0].store(cell.word, Ordering::Release);
        Ok(())
    }

    /// Says that what is `at` is about to be read: the processor fetches the cache line
    /// meanwhile. Only a hint; nothing happens when the offset is not inside.
    #[inline]
    pub fn will_read(&self, at: impl Into<u64>) {
        let offset = at.into();
        if offset < self.bytes as u64 {
            // SAFETY: the offset is inside the mapping.
            prefetch::for_reading(unsafe { self.base.as_ptr().add(offset as usize) });
        }
    }

    /// Says that what is `at` is about to be written: where another processor has the cache
    /// line, it is fetched once, and not first to be read and then to be written. Only a hint;
    /// nothing happens when the offset is not inside.
    #[inline]
    pub fn will_write(&self, at: impl Into<u64>) {
        let offset = at.into();
        if offset < self.bytes as u64 {
            // SAFETY: the offset is inside the mapping.
            prefetch::for_writing(unsafe { self.base.as_ptr().add(offset as usize) });
        }
    }

    /// Writes a word.
    ///
    /// # Errors
    /// When it is not inside.
    #[inline]
    pub fn store(&self, at: impl At<u64>, value: u64, order: Ordering) -> Result<(), OutOfPool> {
        self.word(at.offset())?.store(value, order);
        Ok(())
    }

    /// Adds to a word of statistics, and wraps around. Orders nothing.
    ///
    /// # Errors
    /// When the word is not inside.
    #[inline]
    pub fn add(&self, at: impl At<u64>, more: u64) -> Result<(), OutOfPool> {
        self.word(at.offset())?.fetch_add(more, Ordering::Relaxed);
        Ok(())
    }

    /// Replaces `old` by `new`; says whether it did. Acquires and releases, and takes part in the
    /// single order of sequentially consistent accesses, which waking relies on.
    ///
    /// # Errors
    /// When the word is not inside.
    #[inline]
    pub fn replace(&self, at: impl At<u64>, old: u64, new: u64) -> Result<bool, OutOfPool> {
        Ok(self
            .word(at.offset())?
            .compare_exchange(old, new, Ordering::SeqCst, Ordering::Acquire)
            .is_ok())
    }

    #[inline]
    fn range(&self, offset: u64, bytes: usize) -> Result<*mut u8, OutOfPool> {
        count_access();
        let inside = offset.checked_add(bytes as u64).is_some_and(|end| end <= self.bytes as u64);
        if !inside {
            return Err(OutOfPool { offset });
        }
        // SAFETY: the whole range lies inside the mapping.
        Ok(unsafe { self.base.as_ptr().add(offset as usize) })
    }

    /// Copies bytes out of the pool.
    ///
    /// # Errors
    /// When the range is not inside.
    #[inline(always)]
    pub fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), OutOfPool> {
        let from = self.range(offset, into.len())?;
        // SAFETY: source inside the mapping, destination a live buffer outside it; a peer that
        // writes meanwhile gives torn bytes, which the caller treats as untrusted anyway.
        unsafe { copy_out(from.cast_const(), into.as_mut_ptr(), into.len()) };
        Ok(())
    }

    /// Copies bytes into the pool.
    ///
    /// # Errors
    /// When the range is not inside.
    #[inline(always)]
    pub fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), OutOfPool> {
        let to = self.range(offset, bytes.len())?;
        // SAFETY: destination inside the mapping, source a live buffer outside it.
        unsafe { copy_in(bytes.as_ptr(), to, bytes.len()) };
        Ok(())
    }

    /// Sets a range to zero.
    ///
    /// # Errors
    /// When the range is not inside.
    pub fn zero(&self, offset: u64, bytes: usize) -> Result<(), OutOfPool> {
        let to = self.range(offset, bytes)?;
        // SAFETY: destination inside the mapping.
        unsafe { clear(to, bytes) };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_outside_are_errors_and_never_accesses() {
        let map = Map::anonymous(4096);
        for offset in [4096, 4090, 4089, 3, u64::MAX, u64::MAX - 7] {
            assert_eq!(map.load(offset, Ordering::Relaxed), Err(OutOfPool { offset }));
        }
        assert!(map.load(4088, Ordering::Relaxed).is_ok());
        assert!(map.load_row::<8>(3968).is_ok());
        assert!(map.load_row::<8>(3984).is_err());
        assert!(map.load_row::<8>(8).is_err());
        assert!(map.load_row::<8>(u64::MAX - 7).is_err());
        assert!(map.read(4095, &mut [0; 2]).is_err());
        assert!(map.write(u64::MAX, &[0; 2]).is_err());
        assert!(map.zero(0, 4097).is_err());
        for offset in [4096, 4088, 8, 4081, u64::MAX - 15] {
            assert_eq!(map.load_cell(offset), Err(OutOfPool { offset }));
            assert_eq!(map.replace_cell(offset, Cell::default(), 1), Err(OutOfPool { offset }));
        }
        assert_eq!(map.load_cell(4080), Ok(Cell::default()));
    }

    #[test]
    fn a_cell_is_replaced_as_a_whole_or_not_at_all() {
        let map = Map::anonymous(4096);
        map.lay_cell(32, Cell { word: 5, tag: u64::MAX }).unwrap();
        let old = map.load_cell(32).unwrap();
        assert!(!map.replace_cell(32, Cell { word: 6, ..old }, 7).unwrap());
        assert!(!map.replace_cell(32, Cell { tag: 0, ..old }, 7).unwrap());
        assert!(map.replace_cell(32, old, 7).unwrap());
        assert!(!map.replace_cell(32, old, 7).unwrap());
        assert_eq!(map.load_cell(32), Ok(Cell { word: 7, tag: 0 }));
        assert_eq!(
            (map.load_cell(16), map.load_cell(48)),
            (Ok(Cell::default()), Ok(Cell::default()))
        );
    }

    #[test]
    fn every_write_of_several_threads_counts_and_no_pair_is_torn() {
        const TURNS: u64 = if cfg!(miri) { 50 } else { 20_000 };
        let map = Map::anonymous(4096);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..TURNS {
                        loop {
                            let seen = map.load_cell(16).unwrap();
                            assert_eq!(seen.word, seen.tag * 3);
                            if map.replace_cell(16, seen, seen.word + 3).unwrap() {
                                break;
                            }
                        }
                    }
                });
            }
        });
        assert_eq!(map.load_cell(16), Ok(Cell { word: 9 * TURNS, tag: 3 * TURNS }));
    }
}
