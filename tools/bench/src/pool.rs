//! A pool for the length of a measurement.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use vshmem_session::CreateRequest;

use crate::error::Result;

/// A pool that is removed when this is dropped.
#[derive(Debug)]
pub struct OwnPool {
    name: String,
    path: PathBuf,
}

impl OwnPool {
    /// Makes one of that many bytes, with those limits changed, for this user alone, fully backed:
    /// guests cannot back memory.
    ///
    /// # Errors
    /// Says what failed.
    pub fn make(bytes: u64, limits: &[(&str, u64)]) -> Result<Self> {
        Self::make_prepared(bytes, limits, 0)
    }

    /// As [`OwnPool::make`]; so much of its free memory is kept zeroed ahead of demand.
    ///
    /// # Errors
    /// As [`OwnPool::make`].
    pub fn make_prepared(bytes: u64, limits: &[(&str, u64)], prepare: u64) -> Result<Self> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let nth = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("bench-{}-{nth}", std::process::id());
        let path = vshmem_session::create(&CreateRequest {
            name: name.clone(),
            bytes,
            mode: 0o600,
            group: None,
            huge_page: None,
            placement: None,
            limits: limits.iter().map(|&(name, value)| (name.to_owned(), value)).collect(),
            evict_after: 0,
            prepare,
            backed: true,
            dax: false,
            uuid: None,
        })?;
        Ok(Self { name, path })
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for OwnPool {
    fn drop(&mut self) {
        // Gone already is as well; agents leave when they see it.
        let _ = vshmem_session::remove(&self.name);
    }
}
