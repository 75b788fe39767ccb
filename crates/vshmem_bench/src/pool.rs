//! A pool for the length of a measurement.

use std::path::{Path, PathBuf};

use vshmem_session::CreateRequest;

use crate::error::Result;

/// A pool that is removed when this is dropped.
#[derive(Debug)]
pub struct OwnPool {
    name: String,
    place: PathBuf,
}

impl OwnPool {
    /// Makes one of that many bytes for this user alone, fully backed: guests cannot back memory.
    ///
    /// # Errors
    /// Says what stood in the way.
    pub fn make(bytes: u64) -> Result<Self> {
        let name = format!("bench-{}", std::process::id());
        let place = vshmem_session::create(&CreateRequest {
            name: name.clone(),
            bytes,
            mode: 0o600,
            group: None,
            huge_page: None,
            limits: Vec::new(),
            evict_after: 0,
            backed: true,
        })?;
        Ok(Self { name, place })
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its file.
    #[must_use]
    pub fn place(&self) -> &Path {
        &self.place
    }
}

impl Drop for OwnPool {
    fn drop(&mut self) {
        // Gone already is as well; agents leave when they see it.
        let _ = vshmem_session::remove(&self.name);
    }
}
