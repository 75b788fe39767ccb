//! The same view over a model checker's atomics.

use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// An offset that does not lie in the pool, or not on a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutOfPool {
    /// The offset, in bytes.
    pub offset: u64,
}

/// Checked access to modelled memory.
#[derive(Debug)]
pub struct Map {
    words: Vec<AtomicU64>,
    sleepers: Vec<AtomicU32>,
}

impl Map {
    /// Modelled memory, all zeros.
    #[must_use]
    pub fn anonymous(bytes: usize) -> Self {
        Self {
            words: (0..bytes / 8).map(|_| AtomicU64::new(0)).collect(),
            sleepers: (0..(bytes / 4).min(4)).map(|_| AtomicU32::new(0)).collect(),
        }
    }

    /// Bytes of the view.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.words.len() as u64 * 8
    }

    fn word(&self, offset: u64) -> Result<&AtomicU64, OutOfPool> {
        if offset & 7 != 0 {
            return Err(OutOfPool { offset });
        }
        self.words.get((offset / 8) as usize).ok_or(OutOfPool { offset })
    }

    /// The word at `offset`, to sleep on: one of the first few, and not part of the others.
    ///
    /// # Errors
    /// When there is none.
    pub fn futex(&self, offset: u64) -> Result<&AtomicU32, OutOfPool> {
        self.sleepers.get((offset / 4) as usize).ok_or(OutOfPool { offset })
    }

    /// Reads a word.
    ///
    /// # Errors
    /// When it is not inside.
    pub fn load(&self, offset: u64, order: Ordering) -> Result<u64, OutOfPool> {
        Ok(self.word(offset)?.load(order))
    }

    /// Reads `N` words in a row, one after the other.
    ///
    /// # Errors
    /// When they are not all inside.
    pub fn load_row<const N: usize>(&self, offset: u64) -> Result<[u64; N], OutOfPool> {
        let mut words = [0; N];
        for (nth, word) in words.iter_mut().enumerate() {
            *word = self.load(offset + nth as u64 * 8, Ordering::Acquire)?;
        }
        Ok(words)
    }

    /// Writes a word.
    ///
    /// # Errors
    /// When it is not inside.
    pub fn store(&self, offset: u64, value: u64, order: Ordering) -> Result<(), OutOfPool> {
        self.word(offset)?.store(value, order);
        Ok(())
    }

    /// Replaces `old` by `new`; says whether it did.
    ///
    /// # Errors
    /// When the word is not inside.
    pub fn replace(&self, offset: u64, old: u64, new: u64) -> Result<bool, OutOfPool> {
        Ok(self
            .word(offset)?
            .compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire)
            .is_ok())
    }
}
