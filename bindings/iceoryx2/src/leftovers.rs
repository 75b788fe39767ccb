//! What killed processes leave and iceoryx2 does not find: it goes by the node's token, service
//! tags and port tags, and a process may be killed before it has made one, or while it cleans up
//! after another.
//!
//! The pool knows more: who has an object attached. All that living processes use, they have
//! attached, or have made themselves. So an object whose maker has ended and that nobody has
//! attached is left over, once every dead node has been cleaned up.

use std::ffi::CString;
use std::io;
use std::time::Duration;

use iceoryx2::config::Config;
use iceoryx2_cal::monitoring::SemanticString;
use iceoryx2_cal::named_concept::Path;

use crate::naming::{SEPARATOR, directory};
use crate::object::{Object, Refused, remove_if_left_over};
use crate::pool::{self, Errno, is_alive};

/// Removes what dead processes have left below the root of this configuration, and returns how much
/// that was. Nothing is removed as long as a node is dead and not yet cleaned up. It is called when
/// a node is made; a program that only waits may call it.
///
/// # Errors
/// What the pool says.
pub fn remove_leftovers(config: &Config) -> io::Result<usize> {
    sweep(config).map_err(io::Error::from_raw_os_error)
}

fn sweep(config: &Config) -> Result<usize, Errno> {
    let global = &config.global;
    let names = pool::names(&directory(global.root_path()))?;
    let is_token = |name: &Vec<u8>| name.ends_with(global.node.monitor_suffix.as_bytes());
    let (tokens, others): (Vec<_>, Vec<_>) =
        names.into_iter().filter(|name| is_of(config, name)).partition(is_token);
    if tokens.into_iter().map(is_dead).collect::<Result<Vec<_>, _>>()?.contains(&true) {
        return Ok(0);
    }
    let mut removed = 0;
    for name in others {
        removed += usize::from(remove_if_left_over(&c_string(name))?);
    }
    Ok(removed)
}

fn c_string(name: Vec<u8>) -> CString {
    // A name of the pool has no byte 0.
    CString::new(name).unwrap_or_default()
}

/// Whether a name is one of this configuration: roots of others may lie below its root.
fn is_of(config: &Config, name: &[u8]) -> bool {
    let global = &config.global;
    let Some(end) = name.iter().rposition(|byte| *byte == SEPARATOR) else { return false };
    let (place, file) = name.split_at(end + 1);
    let root = directory(global.root_path());
    let is_below = |path: Path| place.starts_with(directory(&path).as_bytes());
    let is_there =
        place == root.as_bytes() || is_below(global.service_dir()) || is_below(global.node_dir());
    is_there && file.starts_with(global.prefix.as_bytes())
}

fn is_dead(token: Vec<u8>) -> Result<bool, Errno> {
    match Object::open(&c_string(token), Duration::ZERO) {
        Ok(object) => Ok(!is_alive(object.owner())),
        Err(Refused::Missing | Refused::Unready | Refused::Version) => Ok(false),
        Err(Refused::Pool(errno)) => Err(errno),
    }
}
