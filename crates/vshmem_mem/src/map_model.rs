//! The same view over a model checker's atomics.
//!
//! The checker has no atomics of 16 bytes. So from the second page on, where the models keep their
//! cells, two words are one atomic: the number of a pair that has been seen before. The first page,
//! where the thread slots lie, has an atomic for each word.

use std::collections::HashMap;
use std::sync::Mutex;

use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use vshmem_wire::{At, CELL_BYTES, Cell, PAGE_BYTES, RawCell, WORD_BYTES};

/// An offset that does not lie in the pool, or not on a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutOfPool {
    /// The offset, in bytes.
    pub offset: u64,
}

/// The pairs that cells have held, numbered in the order of their appearance. No part of the model:
/// what a number means never changes.
#[derive(Debug, Default)]
struct Pairs {
    known: Vec<Cell>,
    numbers: HashMap<(u64, u64), u64>,
}

impl Pairs {
    fn number(&mut self, cell: Cell) -> u64 {
        *self.numbers.entry((cell.word, cell.tag)).or_insert_with(|| {
            self.known.push(cell);
            self.known.len() as u64 - 1
        })
    }
}

/// Checked access to modelled memory.
#[derive(Debug)]
pub struct Map {
    words: Vec<Option<AtomicU64>>,
    cells: Vec<AtomicU64>,
    pairs: Mutex<Pairs>,
    waiters: Vec<AtomicU32>,
}

/// A cell of a view.
#[derive(Debug, Clone, Copy)]
pub struct CellRef<'a> {
    map: &'a Map,
    offset: u64,
}

impl CellRef<'_> {
    /// As [`Map::load_to_replace`].
    #[must_use]
    pub fn load_to_replace(self) -> Cell {
        self.map.load_to_replace(self.offset).expect("it was found inside")
    }

    /// As [`Map::replace_cell`].
    #[must_use]
    pub fn replace(self, old: Cell, word: u64) -> bool {
        self.map.replace_cell(self.offset, old, word).expect("it was found inside")
    }
}

/// A structure of `WORDS` words of a view.
#[derive(Debug, Clone, Copy)]
pub struct WordsRef<'a, const WORDS: usize> {
    map: &'a Map,
    offset: u64,
}

impl<const WORDS: usize> WordsRef<'_, WORDS> {
    /// Reads the word at byte `at` of the structure.
    #[must_use]
    pub fn load(self, at: usize, order: Ordering) -> u64 {
        self.map.load(self.offset + at as u64, order).expect("it was found inside")
    }

    /// Writes the word at byte `at` of the structure.
    pub fn store(self, at: usize, value: u64, order: Ordering) {
        self.map.store(self.offset + at as u64, value, order).expect("it was found inside");
    }

    /// As [`Map::load_to_replace`], of the cell at byte `at` of the structure.
    #[must_use]
    pub fn load_to_replace(self, at: usize) -> Cell {
        self.map.load_to_replace(self.offset + at as u64).expect("it was found inside")
    }
}

/// Where a word lies: by itself, or as a half of a cell.
enum HalfOrWord<'a> {
    Word(&'a AtomicU64),
    Half(&'a AtomicU64, bool),
}

impl Map {
    /// Modelled memory, all zeros.
    #[must_use]
    pub fn anonymous(bytes: usize) -> Self {
        Self::with_words(bytes, |_| true)
    }

    /// The same, with those words of the first page alone whose offset `is_used`. Each costs time
    /// in each run of a model.
    #[must_use]
    pub fn with_words(bytes: usize, is_used: impl Fn(u64) -> bool) -> Self {
        let plain = bytes.min(PAGE_BYTES as usize);
        let word = |nth: usize| is_used(nth as u64 * WORD_BYTES).then(|| AtomicU64::new(0));
        let mut pairs = Pairs::default();
        pairs.number(Cell::default());
        Self {
            words: (0..plain / WORD_BYTES as usize).map(word).collect(),
            cells: (0..(bytes - plain) / CELL_BYTES as usize).map(|_| AtomicU64::new(0)).collect(),
            pairs: Mutex::new(pairs),
            waiters: (0..(bytes / 4).min(4)).map(|_| AtomicU32::new(0)).collect(),
        }
    }

    /// Bytes of the view.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.words.len() as u64 * WORD_BYTES + self.cells.len() as u64 * CELL_BYTES
    }

    fn cell(&self, offset: u64) -> Result<&AtomicU64, OutOfPool> {
        let inside = offset.checked_sub(PAGE_BYTES).filter(|at| at % CELL_BYTES == 0);
        let cell = inside.and_then(|at| self.cells.get((at / CELL_BYTES) as usize));
        cell.ok_or(OutOfPool { offset })
    }

    fn half_or_word(&self, offset: u64) -> Result<HalfOrWord<'_>, OutOfPool> {
        if offset % WORD_BYTES != 0 {
            return Err(OutOfPool { offset });
        }
        if offset >= PAGE_BYTES {
            let start = offset - offset % CELL_BYTES;
            return Ok(HalfOrWord::Half(self.cell(start)?, offset != start));
        }
        let word = self.words.get((offset / WORD_BYTES) as usize).and_then(Option::as_ref);
        Ok(HalfOrWord::Word(word.ok_or(OutOfPool { offset })?))
    }

    fn number(&self, cell: Cell) -> u64 {
        self.pairs.lock().expect("no panic").number(cell)
    }

    fn pair(&self, number: u64) -> Cell {
        self.pairs.lock().expect("no panic").known[number as usize]
    }

    /// The word at `offset`, to sleep on: one of the first few, and not part of the others.
    ///
    /// # Errors
    /// When there is none.
    pub fn futex(&self, offset: u64) -> Result<&AtomicU32, OutOfPool> {
        self.waiters.get((offset / 4) as usize).ok_or(OutOfPool { offset })
    }

    /// Reads a word.
    ///
    /// # Errors
    /// When it is not inside.
    pub fn load(&self, at: impl At<u64>, order: Ordering) -> Result<u64, OutOfPool> {
        Ok(match self.half_or_word(at.offset())? {
            HalfOrWord::Word(word) => word.load(order),
            HalfOrWord::Half(cell, second) => half(self.pair(cell.load(order)), second),
        })
    }

    /// A hint, and so not a part of any model.
    pub fn will_read(&self, _at: impl Into<u64>) {}

    /// A hint, and so not a part of any model.
    pub fn will_write(&self, _at: impl Into<u64>) {}

    /// Reads the words of `N` cells in a row, one after the other.
    ///
    /// # Errors
    /// When they are not all inside.
    pub fn load_row<const N: usize>(
        &self,
        at: impl At<[RawCell; N]>,
    ) -> Result<[u64; N], OutOfPool> {
        let offset = at.offset();
        let mut words = [0; N];
        for (nth, word) in words.iter_mut().enumerate() {
            *word = self.load(offset + nth as u64 * CELL_BYTES, Ordering::Acquire)?;
        }
        Ok(words)
    }

    /// Reads a cell.
    ///
    /// # Errors
    /// When it is not inside.
    pub fn load_cell(&self, at: impl At<RawCell>) -> Result<Cell, OutOfPool> {
        Ok(self.pair(self.cell(at.offset())?.load(Ordering::Acquire)))
    }

    /// Reads a cell only to replace it: the tag, and then the word.
    ///
    /// # Errors
    /// When it is not inside.
    pub fn load_to_replace(&self, at: impl At<RawCell>) -> Result<Cell, OutOfPool> {
        let cell = vshmem_wire::Place::at(at.offset());
        let tag = self.load(cell.tag(), Ordering::Acquire)?;
        Ok(Cell { word: self.load(cell.word(), Ordering::Acquire)?, tag })
    }

    /// The cell at `offset`.
    ///
    /// # Errors
    /// When it is not inside.
    pub fn cell_ref(&self, at: impl At<RawCell>) -> Result<CellRef<'_>, OutOfPool> {
        let offset = at.offset();
        self.cell(offset)?;
        Ok(CellRef { map: self, offset })
    }

    /// The `WORDS` words at `offset`.
    ///
    /// # Errors
    /// When they are not inside, or not on a word.
    pub fn words_ref<const WORDS: usize>(
        &self,
        offset: u64,
    ) -> Result<WordsRef<'_, WORDS>, OutOfPool> {
        for word in 0..WORDS as u64 {
            self.half_or_word(offset + word * WORD_BYTES)?;
        }
        Ok(WordsRef { map: self, offset })
    }

    /// Writes a word.
    ///
    /// # Errors
    /// When it is not inside.
    pub fn store(&self, at: impl At<u64>, value: u64, order: Ordering) -> Result<(), OutOfPool> {
        match self.half_or_word(at.offset())? {
            HalfOrWord::Word(word) => word.store(value, order),
            HalfOrWord::Half(cell, second) => {
                let mut seen = cell.load(Ordering::Relaxed);
                loop {
                    let new = self.number(with_half(self.pair(seen), second, value));
                    match cell.compare_exchange(seen, new, Ordering::AcqRel, Ordering::Relaxed) {
                        Ok(_) => break,
                        Err(now) => seen = now,
                    }
                }
            }
        }
        Ok(())
    }

    /// Lays a cell into memory that is no cell of any client's yet.
    ///
    /// # Errors
    /// When it is not inside.
    pub fn lay_cell(&self, at: impl At<RawCell>, cell: Cell) -> Result<(), OutOfPool> {
        let place = vshmem_wire::Place::at(at.offset());
        self.store(place.tag(), cell.tag, Ordering::Relaxed)?;
        self.store(place.word(), cell.word, Ordering::Release)
    }

    /// Replaces `old` by its successor with `word`; says whether it did.
    ///
    /// # Errors
    /// When the cell is not inside.
    pub fn replace_cell(
        &self,
        at: impl At<RawCell>,
        old: Cell,
        word: u64,
    ) -> Result<bool, OutOfPool> {
        self.replace_pair(at, old, old.successor(word))
    }

    /// Replaces `old` by `new`; says whether it did.
    ///
    /// # Errors
    /// When the cell is not inside.
    pub fn replace_pair(
        &self,
        at: impl At<RawCell>,
        old: Cell,
        new: Cell,
    ) -> Result<bool, OutOfPool> {
        let (old, new) = (self.number(old), self.number(new));
        let cell = self.cell(at.offset())?;
        Ok(cell.compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire).is_ok())
    }

    /// Replaces `old` by `new`; says whether it did.
    ///
    /// # Errors
    /// When the word is not inside.
    pub fn replace(&self, at: impl At<u64>, old: u64, new: u64) -> Result<bool, OutOfPool> {
        let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
        Ok(match self.half_or_word(at.offset())? {
            HalfOrWord::Word(word) => word.compare_exchange(old, new, success, failure).is_ok(),
            HalfOrWord::Half(cell, second) => {
                let mut seen = cell.load(Ordering::Acquire);
                loop {
                    let pair = self.pair(seen);
                    if half(pair, second) != old {
                        // A stale look must not refuse what the newest would take.
                        match cell.compare_exchange(seen, seen, success, failure) {
                            Ok(_) => break false,
                            Err(now) => seen = now,
                        }
                        continue;
                    }
                    let next = self.number(with_half(pair, second, new));
                    match cell.compare_exchange(seen, next, success, failure) {
                        Ok(_) => break true,
                        Err(now) => seen = now,
                    }
                }
            }
        })
    }
}

fn half(cell: Cell, second: bool) -> u64 {
    if second { cell.tag } else { cell.word }
}

fn with_half(cell: Cell, second: bool, value: u64) -> Cell {
    if second { Cell { tag: value, ..cell } } else { Cell { word: value, ..cell } }
}
