//! The host's record in a pool's first page: which file the pool is, and a heartbeat.
//!
//! Both are there to tell a pool from a copy of it. A file that is not the one written down is a
//! copy (`cp`, a backing file that was saved with a virtual machine). A guest sees no file; there
//! the heartbeat tells: in memory that the host shares it continues, in a copy it stops. Members
//! can write these words. They then stop themselves, as by any other word of the pool; nothing is
//! trusted because of them.

use vshmem_mem::{Map, Ordering};
use vshmem_sync::Fault;
use vshmem_wire::{HostRecord, Place, field};

use crate::pool::open::Pool;

/// Which file a pool is, on which boot of which machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackingFileId {
    /// Boot id of the host's kernel.
    pub boot_id: [u8; 16],
    /// Device number of the file.
    pub device: u64,
    /// Inode number of the file.
    pub inode: u64,
}

impl BackingFileId {
    /// What the record says of it, and where.
    fn words(&self) -> [(Place<u64>, u64); 4] {
        let half =
            |from: usize| u64::from_ne_bytes(std::array::from_fn(|nth| self.boot_id[from + nth]));
        let boot_id = field!(HostRecord::PLACE, HostRecord, boot_id);
        [
            (boot_id.element(0), half(0)),
            (boot_id.element(1), half(8)),
            (field!(HostRecord::PLACE, HostRecord, device), self.device),
            (field!(HostRecord::PLACE, HostRecord, inode), self.inode),
        ]
    }

    /// Writes down which file a new pool is.
    ///
    /// # Errors
    /// When the map is too short.
    pub fn write(&self, map: &Map) -> Result<(), Fault> {
        for (place, word) in self.words() {
            map.store(place, word, Ordering::Relaxed)?;
        }
        map.store(field!(HostRecord::PLACE, HostRecord, known), 1, Ordering::Release)?;
        Ok(())
    }
}

impl Pool {
    /// Whether the pool was made as another file than `here`, so that this is a copy. Pools without
    /// a host record are not treated as copies.
    ///
    /// # Errors
    /// When the map is too short.
    pub fn is_copy(&self, here: &BackingFileId) -> Result<bool, Fault> {
        let map = self.map();
        if map.load(field!(HostRecord::PLACE, HostRecord, known), Ordering::Acquire)? == 0 {
            return Ok(false);
        }
        for (place, word) in here.words() {
            if map.load(place, Ordering::Relaxed)? != word {
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
        if map.load(field!(HostRecord::PLACE, HostRecord, known), Ordering::Acquire)? == 0 {
            return Ok(None);
        }
        let mut boot = [0; 4];
        let boot_id = field!(HostRecord::PLACE, HostRecord, boot_id);
        for (nth, words) in boot.chunks_exact_mut(2).enumerate() {
            let half = map.load(boot_id.element(nth as u64), Ordering::Relaxed)?.to_ne_bytes();
            for (word, bytes) in words.iter_mut().zip(half.chunks_exact(4)) {
                *word = u32::from_ne_bytes(std::array::from_fn(|at| bytes[at]));
            }
        }
        Ok(Some(boot))
    }

    /// Called on the host about once a second: renews the heartbeat of this pool.
    ///
    /// # Errors
    /// When the map is too short.
    pub fn renew_heartbeat(&self) -> Result<(), Fault> {
        let at = field!(HostRecord::PLACE, HostRecord, heartbeat);
        // Not 0, which means that the pool is not served. Several may: any change will do.
        let next = self.map().load(at, Ordering::Relaxed)?.wrapping_add(1).max(1);
        self.map().store(at, next, Ordering::Release)?;
        Ok(())
    }

    /// Called on the host: stops this process's heartbeat. Another process that serves the pool
    /// renews it within a second.
    ///
    /// # Errors
    /// When the map is too short.
    pub fn stop_heartbeat(&self) -> Result<(), Fault> {
        self.map().store(field!(HostRecord::PLACE, HostRecord, heartbeat), 0, Ordering::Release)?;
        Ok(())
    }

    /// The heartbeat, which changes while the host serves the pool; `None` when it does not.
    ///
    /// # Errors
    /// When the map is too short.
    pub fn heartbeat(&self) -> Result<Option<u64>, Fault> {
        let heartbeat =
            self.map().load(field!(HostRecord::PLACE, HostRecord, heartbeat), Ordering::Acquire)?;
        Ok((heartbeat != 0).then_some(heartbeat))
    }
}
