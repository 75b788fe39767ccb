//! Names of objects for those of iceoryx2, and the part of its traits that is about names alone.

use std::ffi::{CStr, CString};
use std::time::Duration;

use iceoryx2_cal::monitoring::SemanticString;
use iceoryx2_cal::named_concept::{
    FileName, NamedConceptConfiguration, NamedConceptDoesExistError, NamedConceptListError,
    NamedConceptRemoveError, Path,
};

use crate::object::{Object, Refused, unlink};
use crate::pool;

/// Stands for the slash of iceoryx2's paths: its file names have none of it.
pub(crate) const SEPARATOR: u8 = b'|';

fn translate(path: &[u8]) -> CString {
    let byte = |byte: &u8| if *byte == b'/' { SEPARATOR } else { *byte };
    // iceoryx2's strings have no byte 0.
    CString::new(path.iter().map(byte).collect::<Vec<u8>>()).unwrap_or_default()
}

/// The object of a concept: its path, with another separator.
pub(crate) fn object_name<C: NamedConceptConfiguration>(config: &C, name: &FileName) -> CString {
    translate(config.path_for(name).as_bytes())
}

/// What the names of objects of a directory begin with.
pub(crate) fn directory(path: &Path) -> CString {
    let path = path.as_bytes();
    translate(&[path.strip_suffix(b"/").unwrap_or(path), b"/"].concat())
}

fn names_in(path: &Path) -> Result<Vec<FileName>, pool::Errno> {
    let prefix = directory(path);
    let rest = |name: &Vec<u8>| {
        let rest = name.get(prefix.as_bytes().len()..)?;
        if rest.contains(&SEPARATOR) { None } else { FileName::new(rest).ok() }
    };
    Ok(pool::names(&prefix)?.iter().filter_map(rest).collect())
}

/// All that are ready. What dead makers have left is removed on the way.
pub(crate) fn list<C: NamedConceptConfiguration>(
    config: &C,
) -> Result<Vec<FileName>, NamedConceptListError> {
    let is_ready = |name: &FileName| {
        let found = Object::open(&object_name(config, name), Duration::ZERO);
        !matches!(found, Err(Refused::Missing | Refused::Unready))
    };
    let files = names_in(config.get_path_hint()).map_err(|errno| match errno {
        libc::EACCES => NamedConceptListError::InsufficientPermissions,
        _ => NamedConceptListError::InternalError,
    })?;
    let names = files.iter().filter_map(|file| config.extract_name_from_file(file));
    Ok(names.filter(is_ready).collect())
}

/// Whether there is one.
///
/// # Errors
/// It is being made, or the pool says no.
pub(crate) fn does_exist(name: &CStr) -> Result<bool, NamedConceptDoesExistError> {
    match Object::open(name, Duration::ZERO) {
        Ok(_) | Err(Refused::Version) => Ok(true),
        Err(Refused::Missing) => Ok(false),
        Err(Refused::Unready) => Err(NamedConceptDoesExistError::UnderlyingResourcesBeingSetUp),
        Err(Refused::Pool(libc::EACCES)) => {
            Err(NamedConceptDoesExistError::InsufficientPermissions)
        }
        Err(Refused::Pool(_)) => Err(NamedConceptDoesExistError::InternalError),
    }
}

/// Removes the name; those that use the object keep it. False: there was none.
pub(crate) fn remove(name: &CStr) -> Result<bool, NamedConceptRemoveError> {
    unlink(name).map_err(|errno| match errno {
        libc::EACCES | libc::EPERM => NamedConceptRemoveError::InsufficientPermissions,
        _ => NamedConceptRemoveError::InternalError,
    })
}

/// What tells an object of a concept: `NamedConceptConfiguration` for concepts without more.
#[derive(Debug, Clone)]
pub struct Configuration {
    pub(crate) prefix: FileName,
    pub(crate) suffix: FileName,
    pub(crate) path: Path,
}

/// Implements the getters and setters of a configuration over such a structure.
macro_rules! name_parts {
    ($($part:ident)?) => {
        fn prefix(mut self, value: &FileName) -> Self {
            self$(.$part)?.prefix = *value;
            self
        }

        fn get_prefix(&self) -> &FileName {
            &self$(.$part)?.prefix
        }

        fn suffix(mut self, value: &FileName) -> Self {
            self$(.$part)?.suffix = *value;
            self
        }

        fn get_suffix(&self) -> &FileName {
            &self$(.$part)?.suffix
        }

        fn path_hint(mut self, value: &Path) -> Self {
            self$(.$part)?.path = *value;
            self
        }

        fn get_path_hint(&self) -> &Path {
            &self$(.$part)?.path
        }
    };
}
pub(crate) use name_parts;
