//! What a server writes down, so that the next one knows the guests that this one leaves behind.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::directory::Entry;

/// A guest that is connected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedPeer {
    /// Its id.
    pub id: u16,
    /// Pid of its QEMU; 0 when that is not known for certain.
    pub pid: u32,
    /// Start time of that process in clock ticks since boot.
    pub start: u64,
    /// Its domains in the pool: slot and epoch.
    pub domains: BTreeMap<u32, u32>,
}

/// One server's record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Identity of the pool, in hexadecimal.
    pub pool: String,
    /// Where guests connect.
    pub socket: std::path::PathBuf,
    /// Doorbells per guest.
    pub vectors: u32,
    /// Id of the host's own doorbells.
    pub host: u16,
    /// The next id to give.
    pub next: u16,
    /// Guests, those included that an earlier server has left behind.
    pub peers: Vec<RecordedPeer>,
}

/// More than a record of as many peers as there are ids takes.
const LONGEST: u64 = 1 << 23;

impl Record {
    /// Reads a record; `None` where there is none that is valid, or one that others can write to:
    /// it says which domains are dead.
    #[must_use]
    pub fn read(path: &Path) -> Option<Self> {
        Self::read_from(&Entry::of(path).ok()?)
    }

    pub(crate) fn read_from(entry: &Entry) -> Option<Self> {
        serde_json::from_slice(&entry.read(LONGEST)?).ok()
    }

    /// Writes it, in one step.
    ///
    /// # Errors
    /// What came back.
    pub(crate) fn write_to(&self, entry: &Entry) -> std::io::Result<()> {
        let text = serde_json::to_vec(self)?;
        // Beyond the limit, writing would end the server by a signal.
        vshmem_link::file_limit_allows(text.len() as u64)?;
        entry.write(&text)
    }
}
