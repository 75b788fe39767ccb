//! Files with one JSON value.

use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Doing, Result};

/// Writes a file at once: readers see the old or the new one.
pub(crate) fn write<T: Serialize>(path: &Path, value: &T, mode: u32) -> Result<()> {
    let text = serde_json::to_vec_pretty(value)
        .map_err(std::io::Error::from)
        .doing(|| format!("write {path:?}"))?;
    let fresh = path.with_extension("new");
    let write = || -> std::io::Result<()> {
        let _ = std::fs::remove_file(&fresh);
        let mut file =
            std::fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(&fresh)?;
        std::io::Write::write_all(&mut file, &text)?;
        std::fs::rename(&fresh, path)
    };
    write().doing(|| format!("write {path:?}"))
}

/// Reads such a file; `None` if it is not there.
pub(crate) fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>> {
    match std::fs::read(path) {
        Ok(text) => {
            let value = serde_json::from_slice(&text)
                .map_err(std::io::Error::from)
                .doing(|| format!("understand {path:?}"))?;
            Ok(Some(value))
        }
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(error).doing(|| format!("read {path:?}")),
    }
}
