//! The orders that PID 1 left in the guest.

use std::path::Path;

use crate::error::{Error, Result};
use crate::host::json;
use crate::model::boot::{Boot, ORDERS};

/// The orders for the agent and for clients of the peer guests.
pub(crate) fn orders() -> Result<Boot> {
    json::read(Path::new(ORDERS))?.ok_or_else(|| Error::Io {
        action: format!("read {ORDERS}"),
        source: std::io::ErrorKind::NotFound.into(),
    })
}
