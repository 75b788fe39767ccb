//! The orders that PID 1 left in the guest.

use std::ffi::OsString;
use std::path::Path;

use crate::error::{Error, Result};
use crate::host::json;
use crate::model::boot::{Boot, ORDERS, TUNABLES_VARIABLE};

/// The orders for the agent and for clients of the peer guests.
pub(crate) fn orders() -> Result<Boot> {
    json::read(Path::new(ORDERS))?.ok_or_else(|| Error::Io {
        action: format!("read {ORDERS}"),
        source: std::io::ErrorKind::NotFound.into(),
    })
}

/// What the machine says of the C library of the guest's programs, as a variable for them.
pub(super) fn tunables() -> Option<(&'static str, OsString)> {
    std::env::var_os(TUNABLES_VARIABLE).map(|value| (TUNABLES_VARIABLE, value))
}
