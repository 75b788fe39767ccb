//! Where this process's undo records were found.

use vshmem_mem::AtomicU32;

/// Remembers where this process's record of a set is. A hint: always checked.
#[derive(Debug)]
pub(crate) struct UndoHints([AtomicU32; 64]);

impl UndoHints {
    /// Nothing is known of any set yet.
    pub fn new() -> Self {
        Self(std::array::from_fn(|_| AtomicU32::new(0)))
    }

    /// The hint of a set. Sets whose numbers differ by a multiple of the number of hints share one.
    pub fn of(&self, set: u32) -> &AtomicU32 {
        &self.0[set as usize % self.0.len()]
    }
}
