//! What all threads of the keeper know.

use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::host::directory::Directory;
use crate::host::record::Record;
use crate::host::sweep::sweep;
use crate::keeper::namespace;
use crate::keeper::warden::Ward;
use crate::machine::machine;

/// What all threads of the keeper know.
pub(super) struct Shared {
    pub(super) record: Record,
    pub(super) directory: Directory,
    pub(super) wards: Vec<Arc<Ward>>,
}

impl Shared {
    pub(super) fn ward(&self, guest: u32) -> Result<&Arc<Ward>> {
        let found = self.wards.iter().find(|ward| ward.guest == guest);
        found.ok_or_else(|| Error::NoSuchGuest {
            name: self.record.name.clone(),
            guest,
            count: self.record.count,
        })
    }

    /// Ends all guests, with their death notices.
    pub(super) fn end_guests(&self) {
        for ward in &self.wards {
            ward.kill();
        }
        for ward in &self.wards {
            ward.await_death(Duration::from_secs(40));
        }
        machine(self.record.guest).end();
    }

    /// Ends all guests and clears the lab away, when there is nobody left to do it.
    pub(super) fn close(&self) {
        self.end_guests();
        namespace::leave(&self.directory);
        if let Err(error) = sweep(&self.record, &self.directory) {
            eprintln!("vshmem-lab: {error}");
        }
    }
}
