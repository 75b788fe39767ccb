//! Clearing away what a lab leaves.

use std::time::Duration;

use crate::error::{Error, Result};
use crate::host::directory::{Directory, NamingLock};
use crate::host::record::Record;
use crate::host::{admission, guest_processes};

/// How long processes may take to go after SIGKILL.
const EXTERMINATION: Duration = Duration::from_secs(15);

/// Kills all processes of the guests.
pub(crate) fn exterminate(record: &Record, directory: &Directory) -> Result<()> {
    guest_processes::exterminate(&record.uids(), directory.path(), EXTERMINATION).map_err(|left| {
        Error::Lingering {
            name: record.name.clone(),
            count: left.len(),
            first: left.first().copied().unwrap_or_default(),
            seconds: EXTERMINATION.as_secs(),
        }
    })
}

/// Clears away what a lab leaves: stray processes, its entry at the pool, its directory.
pub(crate) fn sweep(record: &Record, directory: &Directory) -> Result<()> {
    exterminate(record, directory)?;
    let _lock = NamingLock::take()?;
    clear_away_locked(record, directory)
}

/// The part of [`sweep`] that changes what labs share.
pub(crate) fn clear_away_locked(record: &Record, directory: &Directory) -> Result<()> {
    admission::withdraw_locked(record)?;
    directory.remove()
}
