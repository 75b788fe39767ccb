//! What the host says about a pool in its first page: which file it is, and that somebody attends
//! to it.
//!
//! Both are there to tell a pool from a copy of it. A file that is not the one written down is a
//! copy (`cp`, a backing file that was saved with a virtual machine). A guest sees no file; there
//! the beat tells: in memory that the host shares it goes on, in a copy nobody renews it. Members
//! can write these words. They then stop themselves, as by any other word of the pool; nothing is
//! trusted because of them.

use vshmem_mem::{Map, Ordering};
use vshmem_sync::{Fault, field};
use vshmem_wire::{HOME_OFFSET, Home as Words};

use crate::pool::open::Pool;

/// Which file a pool is, on which boot of which machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Home {
    /// Boot id of the host's kernel.
    pub boot_id: [u8; 16],
    /// Device number of the file.
    pub device: u64,
    /// Inode number of the file.
    pub inode: u64,
}

impl Home {
    fn words(&self) -> [u64; 4] {
        let half =
            |from: usize| u64::from_ne_bytes(std::array::from_fn(|nth| self.boot_id[from + nth]));
        [half(0), half(8), self.device, self.inode]
    }

    /// Writes down which file a new pool is.
    ///
    /// # Errors
    /// When the map is too short.
    pub fn write(&self, map: &Map) -> Result<(), Fault> {
        for (nth, word) in self.words().into_iter().enumerate() {
            map.store(HOME_OFFSET + nth as u64 * 8, word, Ordering::Relaxed)?;
        }
        map.store(field!(HOME_OFFSET, Words, known), 1, Ordering::Release)?;
        Ok(())
    }
}

impl Pool {
    /// Whether the pool was made as another file than `here`, so that this is a copy. Pools whose
    /// host has written nothing down are taken for what they are.
    ///
    /// # Errors
    /// When the map is too short.
    pub fn is_copy(&self, here: &Home) -> Result<bool, Fault> {
        let map = self.map();
        if map.load(field!(HOME_OFFSET, Words, known), Ordering::Acquire)? == 0 {
            return Ok(false);
        }
        for (nth, word) in here.words().into_iter().enumerate() {
            if map.load(HOME_OFFSET + nth as u64 * 8, Ordering::Relaxed)? != word {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Boot id of the host's kernel, as the domain table has those of its rows; `None` when the
    /// host has not written it down.
    ///
    /// # Errors
    /// When the map is too short.
    pub fn host_boot(&self) -> Result<Option<[u32; 4]>, Fault> {
        let map = self.map();
        if map.load(field!(HOME_OFFSET, Words, known), Ordering::Acquire)? == 0 {
            return Ok(None);
        }
        let mut boot = [0; 4];
        for (nth, words) in boot.chunks_exact_mut(2).enumerate() {
            let half = map.load(HOME_OFFSET + nth as u64 * 8, Ordering::Relaxed)?.to_ne_bytes();
            for (word, bytes) in words.iter_mut().zip(half.chunks_exact(4)) {
                *word = u32::from_ne_bytes(std::array::from_fn(|at| bytes[at]));
            }
        }
        Ok(Some(boot))
    }

    /// On the host, about once a second: says that somebody attends to this pool.
    ///
    /// # Errors
    /// When the map is too short.
    pub fn attend(&self) -> Result<(), Fault> {
        let at = field!(HOME_OFFSET, Words, beat);
        // Not 0, which says that nobody does. Several may: any change will do.
        let next = self.map().load(at, Ordering::Relaxed)?.wrapping_add(1).max(1);
        self.map().store(at, next, Ordering::Release)?;
        Ok(())
    }

    /// On the host: says that this process does not attend any more. Another one that does says so
    /// again within a second.
    ///
    /// # Errors
    /// When the map is too short.
    pub fn attend_no_more(&self) -> Result<(), Fault> {
        self.map().store(field!(HOME_OFFSET, Words, beat), 0, Ordering::Release)?;
        Ok(())
    }

    /// What changes while the host attends; `None` when nobody does.
    ///
    /// # Errors
    /// When the map is too short.
    pub fn beat(&self) -> Result<Option<u64>, Fault> {
        let beat = self.map().load(field!(HOME_OFFSET, Words, beat), Ordering::Acquire)?;
        Ok((beat != 0).then_some(beat))
    }
}
