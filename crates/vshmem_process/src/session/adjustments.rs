//! SEM_UNDO adjustments that end before the process does.

use crate::{errno, process};

/// Ends the process's adjustments, as leaving an IPC namespace does.
pub fn end() {
    if let Some(session) = process::joined() {
        let _ = errno::untouched(|| session.client().apply_adjustments());
    }
}
