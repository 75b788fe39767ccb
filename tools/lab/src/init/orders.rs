//! The orders that PID 1 left in the guest.

use std::path::Path;

use crate::error::{Error, Result};
use crate::host::json;
use crate::model::boot::{Boot, ORDERS};

/// What the agent and clients of the peer guests are told.
pub(crate) fn orders() -> Result<Boot> {
    json::read(Path::new(ORDERS))?.ok_or_else(|| Error::Io {
        action: format!("read {ORDERS}"),
        source: std::io::ErrorKind::NotFound.into(),
    })
}
