//! What all threads of the keeper know.

use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::host::directory::Directory;
use crate::host::record::Record;
use crate::host::sweep::sweep;
use crate::keeper::namespace;
use crate::keeper::supervisor::SupervisedGuest;
use crate::machine::machine;

/// What all threads of the keeper know.
pub(super) struct Shared {
    pub(super) record: Record,
    pub(super) directory: Directory,
    pub(super) all_supervised: Vec<Arc<SupervisedGuest>>,
}

impl Shared {
    pub(super) fn supervised(&self, guest: u32) -> Result<&Arc<SupervisedGuest>> {
        let found = self.all_supervised.iter().find(|supervised| supervised.guest == guest);
        found.ok_or_else(|| Error::NoSuchGuest {
            name: self.record.name.clone(),
            guest,
            count: self.record.count,
        })
    }

    /// Ends all guests, with their death notices.
    pub(super) fn end_guests(&self) {
        for supervised in &self.all_supervised {
            supervised.kill();
        }
        for supervised in &self.all_supervised {
            supervised.await_death(Duration::from_secs(40));
        }
        machine(self.record.guest).end();
    }

    /// Ends all guests and clears the lab away, when no other process is left to do it.
    pub(super) fn close(&self) {
        self.end_guests();
        namespace::leave(&self.directory);
        if let Err(error) = sweep(&self.record, &self.directory) {
            eprintln!("vshmem-lab: {error}");
        }
    }
}
